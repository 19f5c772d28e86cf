package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kballard/go-shellquote"
	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/terminal"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// runFlags are the flags of `writ task run`.
type runFlags struct {
	repo, issue, builder, contract, config, state string
	number                                        int64
	numberSet, builderSet, once                   bool
	ro                                            []string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --repo DIR --issue FILE.md",
		Short: "Govern one task from an issue in a file, to its end",
		Long: `Run claims the task, has the builder do it in a sandbox, verifies and checks the
change, and delivers it as one commit on writ/change/<number>, or says why not.
Running the command is the approval of the issue, by you.

Exit status: 0 completed, 10 retry pending, 11 blocked, 12 refused, 13 held by
another runner, 14 waiting, 2 usage, 1 anything else.`,
		Example: "  writ task run --repo . --issue 12-fix.md --builder 'gofmt -w calc' --ro /usr/local/go",
		Args:    cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "path or URL of the repository, which is the remote")
	fl.StringVar(&f.issue, "issue", "", "Markdown `FILE` of the task, its first line '# title'")
	fl.Int64Var(&f.number, "number", 0, "number of the task (default: leading digits of the file's name, or 1)")
	fl.StringVar(&f.builder, "builder", "", "command that does the work, split as a shell splits words")
	fl.StringVar(&f.contract, "contract", "", "contract instead of the repository's own")
	fl.StringVar(&f.config, "config", "", "configuration of this machine")
	fl.StringArrayVar(&f.ro, "ro", nil, "directory to show read-only in the sandbox, as DIR or DIR:TARGET; may be repeated")
	fl.StringVar(&f.state, "state-dir", "", "state directory (default: below $XDG_STATE_HOME/writ)")
	fl.BoolVar(&f.once, "once", false, "make one attempt")
	fl.BoolVar(&a.json, "json", false, "print the compliance report, and nothing else, on standard output")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		f.numberSet, f.builderSet = fl.Changed("number"), fl.Changed("builder")
		return a.run(ctx, f)
	})
	return cmd
}

// job is a run whose command line makes sense.
type job struct {
	flags          runFlags
	cfg            config.Config
	place          installation.Place
	number         int64
	state          string
	issue          *issueFile
	wire.Overrides // --builder and --ro
	contract       *supervisor.ContractFile
}

// prepare reads the command line and what it names. Nothing has happened yet.
func (a *app) prepare(f runFlags) (j *job, err error) {
	j = &job{flags: f}
	for flag, path := range map[string]string{"issue": f.issue, "contract": f.contract, "config": f.config, "state-dir": f.state} {
		if err := installation.PathFlag(flag, path); err != nil {
			return nil, err
		}
	}
	if j.cfg, err = a.Load(f.config); err != nil {
		return nil, err
	}
	if j.place, err = installation.NewPlace(f.repo); err != nil {
		return nil, err
	}
	if j.cfg.World != "" {
		j.place.Display = j.cfg.World
	}
	if f.issue == "" {
		return nil, problem.Usage("--issue is missing: give a Markdown file with `# title` first.")
	}
	if j.number, err = installation.TaskNumber(f.number, f.numberSet, f.issue); err != nil {
		return nil, err
	}
	a.notice = &report.Report{World: j.place.World, TaskID: j.number}
	if j.issue, err = newIssueFile(f.issue, a.LocalActor(), installation.NewClock().Now().WallMs); err != nil {
		return nil, err
	}
	if err := a.readBuilder(j); err != nil {
		return nil, err
	}
	if j.contract, err = wire.ContractFile(f.contract); err != nil {
		return nil, err
	}
	if j.state, err = a.StateDir(f.state, j.place); err != nil {
		return nil, err
	}
	shown := doctor.MountsOf(j.cfg)
	shown["--ro"] = j.Ro
	for _, h := range doctor.HiddenFrom(j.cfg, j.state, func(name string) string { return a.Env[name] }) {
		if key := doctor.ShownBy(shown, h.Path); key != "" {
			p := problem.Usage("%s shows the sandbox %s: %s.", key, h.What, h.Path)
			if key != "--ro" {
				p.Code = kernel.CodeConfigInvalid
			}
			p.Remedy = "Give only the directories that the builder needs; what it can read it could write into the change."
			return nil, p
		}
	}
	if err := j.place.Identify(true); err != nil {
		return nil, err
	}
	a.notice.World = j.place.World
	return j, nil
}

// newIssueFile approves the file as it is now.
func newIssueFile(path, actor string, now int64) (*issueFile, error) {
	title, body, err := readIssue(path)
	if err != nil {
		return nil, err
	}
	// Text that has no digest is refused later, with its reason.
	digest, _ := kernel.ApprovalDigest(title, body)
	return &issueFile{path: path, actor: actor, approved: digest, time: now, title: title, body: body}, nil
}

// readBuilder splits --builder and finds the mounts of --ro.
func (a *app) readBuilder(j *job) (err error) {
	if j.flags.builderSet {
		if j.Argv, err = shellquote.Split(j.flags.builder); err != nil {
			return problem.Usage("--builder can't be split into words (%v): mind the quotes.", err)
		}
		if len(j.Argv) == 0 || j.Argv[0] == "" {
			return problem.Usage("--builder is empty: give a command, such as --builder 'gofmt -w calc'.")
		}
	} else if len(j.cfg.Builders) == 0 {
		return problem.Usage("There is no builder: give --builder 'gofmt -w calc', or --config with builders.")
	}
	if err := a.withoutSecrets("--builder", j.Argv); err != nil {
		return err
	}
	for name, b := range j.cfg.Builders {
		if err := a.withoutSecrets("builders."+name+".argv", b.Argv); err != nil {
			return err
		}
	}
	for _, text := range j.flags.ro {
		source, target, _ := strings.Cut(text, ":")
		if source, err = filepath.Abs(source); err != nil {
			return err
		}
		if target != "" {
			source += ":" + target
		}
		m, err := config.ParseMount(source)
		if err != nil {
			return problem.Usage("--ro %s: %v", text, err)
		}
		if _, err := os.Stat(m.Source); err != nil {
			return problem.Usage("--ro %s can't be shown: %s.", text, problem.Cause(err))
		}
		j.Ro = append(j.Ro, m)
	}
	return nil
}

// withoutSecrets: command lines are recorded and hashed, so a secret in one
// could never be taken back (promise P9). Only values that are known to be
// secret count, not what merely looks like one.
func (a *app) withoutSecrets(what string, argv []string) error {
	looks := report.NewRedactor(nil)
	for _, word := range argv {
		if a.Redactor.String(word) != looks.String(word) {
			return problem.Usage("%s holds a secret, and command lines are recorded: put it into a file that the sandbox is shown.", what)
		}
	}
	return nil
}

// run is `writ task run`.
func (a *app) run(ctx context.Context, f runFlags) error {
	j, err := a.prepare(f)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal kills

	d := terminal.NewDisplay(a.Stderr, a.Redactor.Now(), a.Env["TERM"] == "dumb" || a.Env["TERM"] == "")
	log := slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: wire.WithoutTime}))
	in, err := a.open(ctx, j.cfg, j.place, j.state, installation.Use{Task: j.number, Trusted: installation.TrustedIn(j.cfg)}, log)
	if err != nil {
		return err
	}
	defer in.Close()
	endLive := d.Live()
	defer endLive()
	return a.drive(ctx, j, in, d, endLive)
}

// drive drives the task until it stands still and tells how.
func (a *app) drive(ctx context.Context, j *job, in *installation.Governed, d *terminal.Display, endLive func()) error {
	ex, err := a.Executor(in.Installation, j.Overrides)
	if err != nil {
		return err
	}
	defer ex.Close()
	// Whether the sandbox works takes as long to find out as all the reading
	// that comes before a claim: both begin now, and the claim waits for both.
	go ex.Environment(ctx, installation.DefaultBuilder)
	sup, err := a.Supervise(ctx, in, ex, wire.Supervision{File: j.contract, Progress: d.Progress, Tail: func(_ int64, line string) { d.Tail(line) }})
	if err != nil {
		return err
	}
	if err := worlds.Elsewhere(ctx, in, sup, j.place, j.number); err != nil {
		return err
	}
	task, err := sup.Open(ctx, j.number, j.issue)
	if err != nil {
		return err
	}
	acts := make(chan supervisor.Act)
	desk, err := installation.OpenDesk(in.Dir, installation.ObeyRun(j.number, acts))
	if err != nil {
		return err
	}
	served, end := context.WithCancel(ctx)
	answered := make(chan struct{})
	go func() { defer close(answered); desk.Serve(served) }()
	st, err := task.Drive(ctx, supervisor.DriveOptions{Actor: a.LocalActor(), Once: j.flags.once, Acts: acts})
	end()
	<-answered
	a.LogCycles(context.WithoutCancel(ctx), in, j.number)
	in.Checkpoint(context.WithoutCancel(ctx))
	endLive()
	in.NoteOlder(in.World, j.number, err)
	if err != nil && (st.Decision.Kind == "" || !errors.Is(err, context.Canceled)) {
		return err
	}
	return a.tellRun(context.WithoutCancel(ctx), j, in, task, st, err)
}

// tellRun prints the report and ends with the exit status of how the task
// stands.
func (a *app) tellRun(ctx context.Context, j *job, in *installation.Governed, task *supervisor.Task, st supervisor.Status, ended error) error {
	r, err := task.Report(ctx, st)
	if err != nil {
		return err
	}
	exit := problem.ExitOf(st.Decision)
	if ended != nil && exit == problem.ExitOther {
		r.Codes = append(r.Codes, kernel.CodeTaskInterrupted)
	}
	if slices.Contains(r.Codes, kernel.CodeTaskNumberTaken) {
		if refs, err := in.Repo.Refs(ctx, installation.RefPrefix(j.cfg.Refs)); err == nil {
			taken := append([]int64{0}, supervisor.TasksAt(refs.Names(), installation.RefPrefix(j.cfg.Refs))...)
			r.Notes = append(r.Notes, fmt.Sprintf("The next free number is %d: give --number %[1]d.", slices.Max(taken)+1))
		}
	}
	if err := a.printReport(j, r, exit); err != nil {
		return err
	}
	if exit == problem.ExitDone {
		return nil
	}
	return problem.Quiet(exit)
}

func (a *app) printReport(j *job, r report.Report, exit int) error {
	if a.json {
		data, err := r.JSON()
		if err != nil {
			return err
		}
		a.printJSON(data)
		return nil
	}
	a.print("%s", report.Plain(r))
	if next := nextStep(j, exit); next != "" {
		a.print("\n%s\n", next)
	}
	return nil
}

// nextStep is what a person may want to do after a run, as commands.
func nextStep(j *job, exit int) string {
	at := "--repo " + shellquote.Join(j.place.URL)
	if j.flags.state != "" {
		at += " --state-dir " + shellquote.Join(j.flags.state)
	}
	switch exit {
	case problem.ExitDone:
		change := fmt.Sprintf("writ/change/%d", j.number)
		see := "the branch " + change
		if strings.HasPrefix(j.place.URL, "/") {
			see = "git -C " + shellquote.Join(j.place.URL) + " show " + change
		}
		return fmt.Sprintf("see the change:  %s\nverify it:       writ verify %s --task %d", see, shellquote.Join(j.place.URL), j.number)
	case problem.ExitRetry:
		return "run the same command again when the retry is due; it takes the next attempt"
	case problem.ExitBlocked:
		return fmt.Sprintf("when the cause is mended:  writ task resume %d %s", j.number, at)
	case problem.ExitHeld:
		return fmt.Sprintf("see who works on it:  writ task show %d %s", j.number, at)
	case problem.ExitWaiting:
		return fmt.Sprintf("see what it waits for:  writ task show %d %s", j.number, at)
	}
	return ""
}

// open opens the installation and the one world of a command. Close of what it
// returns gives both back.
func (a *app) open(ctx context.Context, cfg config.Config, p installation.Place, statePath string, use installation.Use, log *slog.Logger) (*installation.Governed, error) {
	repo, err := git.Open(ctx, git.Endpoint{URL: p.URL}, git.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	use.Repo, use.World, use.Names = p.URL, p.World, map[string]string{p.World: p.Display}
	in, err := installation.Open(ctx, cfg, statePath, use, log)
	if err != nil {
		_ = repo.Close() // nothing was asked of it yet
		return nil, err
	}
	g, err := in.Govern(ctx, p.World, p.Display, repo)
	if err != nil {
		_ = repo.Close() // nothing was asked of it yet
		in.Close()
		return nil, err
	}
	return g, nil
}
