package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/branch"
	"github.com/writbot/writ/executor/command"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/tick"
)

// branchLeaseSeconds is the lease of a command unless one is given: that of the
// existing implementation, whose commands renew by hand.
const branchLeaseSeconds = 300

// watchInterval is how often a watching tick looks at a remote.
const watchInterval = 30 * time.Second

// branchFlags are those that all commands of the branch runner share.
type branchFlags struct {
	remote string
	role   string
	from   string
}

type tickFlags struct {
	branchFlags
	globs     []string
	current   string
	worktrees string
	logLevel  string
	lease     int64
	grace     int64
	jobs      int
	wait      bool
	detach    bool
	watch     bool
	interval  time.Duration
}

func (a *app) tickCommand() *cobra.Command {
	var f tickFlags
	cmd := &cobra.Command{
		Use:   "tick",
		Short: "Run the commands that the HEADs of branches name, once",
		Long: `Tick looks at the HEAD of each selected branch of this clone, or of a remote.
Where its trailer aynig-state names a state that has a command, .aynig/command/STATE,
it takes the branch by a lease that is a commit, runs the command, and says what came
of it. Of all runners that try, one wins. Whoever may push is trusted, and a command
runs as you; its code is taken from the default branch, whoever pushed the event.

Exit status: 0 done, 12 refused by the server, 13 held by another runner, 20 nothing
to do, 21 lost to another runner, 22 no command, 23 no valid completion, 24 the same
and the command failed, 25 taken over and nothing else to do, 26 HEAD can't be read,
1 something can't be done now. Of several branches the gravest counts.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error { return a.tick(ctx, f) })
	fs := cmd.Flags()
	f.add(cmd, a.Env, "")
	fs.StringArrayVar(&f.globs, "branch", nil, "which branches, such as 'feature/*'; may be repeated (default all)")
	fs.StringVar(&f.current, "current-branch", branch.CurrentSkip, "the branch that is checked out: skip, include or only")
	fs.StringVar(&f.worktrees, "worktree", "", "directory for working trees (default .worktrees at the top of the clone)")
	fs.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error; commands are told too (default the event's aynig-log-level, then $AYNIG_LOG_LEVEL, then error)")
	fs.StringVar(&f.from, "commands-from", "", "branch that .aynig is taken from (default the default branch). With `event` it is the event's own commit: whoever may push an event then says what is executed here, as you")
	fs.Int64Var(&f.lease, "lease-seconds", branchLeaseSeconds, "how long a lease lasts unless the command renews it, at most 3600")
	fs.Int64Var(&f.grace, "grace", lease.DefaultGraceSeconds, "seconds that a lease may be overdue before it is taken over")
	fs.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "commands at once")
	fs.BoolVar(&f.wait, "wait", true, "wait for the commands' ends")
	fs.BoolVar(&f.detach, "detach", false, "return when the commands run; a process of its own waits for them and judges what they leave")
	fs.BoolVar(&f.watch, "watch", false, "go on, with a tick whenever a ref of the clone moves and after each interval")
	fs.DurationVar(&f.interval, "interval", watchInterval, "with --watch")
	fs.BoolVar(&a.json, "json", false, "print one line of JSON for each branch")
	cmd.MarkFlagsMutuallyExclusive("wait", "detach")
	cmd.MarkFlagsMutuallyExclusive("watch", "detach")
	return cmd
}

// add adds them; remote is the default of --remote: a command's helpers know where
// its run is.
func (f *branchFlags) add(cmd *cobra.Command, env map[string]string, remote string) {
	cmd.Flags().StringVar(&f.remote, "remote", remote, "the remote that has the truth (default this clone, or inside a command the run's)")
	cmd.Flags().StringVar(&f.role, "role", env["AYNIG_ROLE"], "commands of .aynig/roles/ROLE/command go first (default $AYNIG_ROLE)")
}

func (f tickFlags) check() error {
	for _, g := range f.globs {
		if _, err := path.Match(g, ""); err != nil {
			return problem.Usage("--branch %q is no pattern: %s.", g, err)
		}
	}
	switch {
	case f.current != branch.CurrentSkip && f.current != branch.CurrentInclude && f.current != branch.CurrentOnly:
		return problem.Usage("--current-branch is skip, include or only, not %q.", f.current)
	case f.lease < 1 || f.lease > lease.MaxLeaseSeconds:
		return problem.Usage("--lease-seconds is 1 to %d.", lease.MaxLeaseSeconds)
	case f.grace < 0 || f.grace > lease.MaxPolicySeconds:
		return problem.Usage("--grace is 0 to %d.", lease.MaxPolicySeconds)
	case f.jobs < 1:
		return problem.Usage("--jobs is 1 or more.")
	case f.interval < time.Second:
		return problem.Usage("--interval is a second or more.")
	case f.role != "" && !tick.ValidRole(f.role):
		return problem.Usage("--role is a word of lower-case letters, digits, _ and -, not %q.", f.role)
	}
	return nil
}

// branchPlace is a clone, and the remote that has the truth, opened.
type branchPlace struct {
	clone  *clone.Clone
	remote *git.Repo
}

func (p branchPlace) close() {
	installation.CloseRepo(p.remote)
	_ = p.clone.Close() // everything that counts was answered before
}

// openBranches opens the clone around the current directory, and a remote of it.
func (a *app) openBranches(ctx context.Context, remote string) (branchPlace, error) {
	c, err := clone.Open(ctx, ".")
	if err != nil {
		return branchPlace{}, err
	}
	p := branchPlace{clone: c}
	if remote == "" {
		return p, nil
	}
	url, err := c.PushURL(ctx, remote)
	if err == nil {
		auth := c.Credential(ctx, url)
		a.HideValues([]string{auth.Password})
		p.remote, err = git.Open(ctx, git.Endpoint{URL: url, Auth: auth}, git.Options{})
	}
	if err != nil {
		_ = c.Close() // it was only opened
		return branchPlace{}, err
	}
	return p, nil
}

// detached is the variable that makes a tick the one that goes on in the background.
const detached = "WRIT_TICK_DETACHED"

func (a *app) tick(ctx context.Context, f tickFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p, err := a.openBranches(ctx, f.remote)
	if err != nil {
		return err
	}
	defer p.close()
	if f.detach && a.Env[detached] == "" {
		return a.tickAway(p)
	}
	out := &tickOutput{a: a, seen: map[branch.Status]bool{}}
	if f.detach {
		const caller = 3 // the first of command.Detach's files
		unix.CloseOnExec(caller)
		out.up = os.NewFile(caller, "caller")
	}
	r, err := branch.New(a.branchConfig(f, p), branch.Deps{
		Clone: p.clone, Remote: p.remote, Now: installation.NewClock().Lag(a.Behind).Now, NewRunID: uuid.NewString,
		Log: a.branchLog(f.logLevel), Told: out.tell, Launched: out.launched,
	})
	if err != nil {
		return err
	}
	if f.watch {
		return branch.Watch(ctx, p.clone, f.interval, func(ctx context.Context) error {
			if _, err := r.Tick(ctx); err != nil {
				a.tell(problem.Explain(err)) // a server may be back at the next tick
			}
			return nil
		})
	}
	if _, err := r.Tick(ctx); err != nil {
		return err
	}
	if exit := problem.TickExit(out.seen); exit != problem.ExitDone {
		return problem.Quiet(exit)
	}
	return nil
}

func (a *app) branchConfig(f tickFlags, p branchPlace) branch.Config {
	var env []string
	for k, v := range a.Env {
		env = append(env, k+"="+v)
	}
	trees := f.worktrees
	if trees == "" {
		trees = filepath.Join(filepath.Dir(p.clone.Common), ".worktrees")
		if filepath.Base(p.clone.Common) != ".git" {
			trees = filepath.Join(p.clone.Common, "writ", "worktrees")
		}
	}
	if abs, err := filepath.Abs(trees); err == nil {
		trees = abs
	}
	return branch.Config{
		Remote: f.remote, Globs: f.globs, Current: f.current, Worktrees: trees, Role: f.role, LogLevel: f.logLevel, From: f.from,
		LeaseSeconds: f.lease, GraceSeconds: f.grace, Jobs: f.jobs, RunnerID: installation.HostName(), Env: env,
	}
}

func (a *app) branchLog(level string) *slog.Logger {
	at := slog.LevelError
	if text := cmp.Or(level, a.Env["AYNIG_LOG_LEVEL"]); text != "" {
		_ = at.UnmarshalText([]byte(text)) // an unknown word is as none
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: at, ReplaceAttr: wire.WithoutTime}))
}

// tickAway starts this call anew as a process of its own, and passes on what that
// says until every branch has come to an end or to a running command.
func (a *app) tickAway(p branchPlace) error {
	state, err := p.clone.State()
	if err != nil {
		return err
	}
	log, err := os.CreateTemp(state, "tick-*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	env := append(os.Environ(), detached+"=1")
	lines, err := command.Detach(os.Args[1:], env, log)
	if err != nil {
		return err
	}
	defer lines.Close()
	out := &tickOutput{a: a, seen: map[branch.Status]bool{}, quietly: true}
	s := bufio.NewScanner(lines)
	s.Buffer(nil, kernelLine)
	for s.Scan() {
		var res branch.Result
		if err := json.Unmarshal(s.Bytes(), &res); err != nil {
			return err
		}
		out.tell(res)
	}
	if len(out.seen) == 0 {
		text, _ := io.ReadAll(io.LimitReader(mustOpen(log.Name()), kernelLine)) // what it said before it ended
		return &problem.Error{Exit: problem.ExitOther, Text: "The process in the background ended: " + strings.TrimSpace(string(text)), Remedy: "The same without --detach says more."}
	}
	if !a.json {
		a.print("in the background; it says what comes of it in %s\n", log.Name())
	}
	if exit := problem.TickExit(out.seen); exit != problem.ExitDone {
		return problem.Quiet(exit)
	}
	return nil
}

// kernelLine bounds one line of a process's own, in bytes.
const kernelLine = 1 << 20

func mustOpen(name string) io.Reader {
	f, err := os.Open(name)
	if err != nil {
		return bytes.NewReader(nil)
	}
	return f
}

// tickOutput prints results as they come.
type tickOutput struct {
	a       *app
	up      *os.File // of a process in the background: whoever started it
	quietly bool     // a running command is all there is to say

	mu   sync.Mutex
	seen map[branch.Status]bool
}

func (o *tickOutput) tell(res branch.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, err := json.Marshal(res); err == nil && o.up != nil {
		_, _ = o.up.Write(append(data, '\n')) // he may have gone
	}
	if res.Status == branch.StatusRunning && !o.quietly {
		return
	}
	o.seen[res.Status] = true
	if o.a.json {
		if data, err := json.Marshal(res); err == nil {
			fmt.Fprintln(o.a.stdout, report.CleanJSON(o.a.Redactor.String(string(data))))
		}
		return
	}
	o.a.print("%s", tickText(res))
}

func (o *tickOutput) launched() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.up != nil {
		_ = o.up.Close() // he has read what there is
		o.up = nil
	}
}

// tickText is what a person reads of a branch. One without an event says nothing.
func tickText(res branch.Result) string {
	if res.Status == branch.StatusNone {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", res.Branch, strings.ReplaceAll(string(res.Status), "_", " "))
	if res.State != "" {
		fmt.Fprintf(&b, " (%s)", res.State)
	}
	if res.TakenOver != "" && res.Status != branch.StatusTakenOver {
		fmt.Fprintf(&b, ", after run %s was taken over", res.TakenOver)
	}
	if res.Reason != "" {
		fmt.Fprintf(&b, ": %s", res.Reason)
	}
	if res.Exit != nil && (*res.Exit != 0 || res.Status != branch.StatusDone) {
		fmt.Fprintf(&b, "; the command's exit status is %d", *res.Exit)
	}
	b.WriteString("\n")
	if res.Exit != nil && res.Status != branch.StatusDone {
		for line := range strings.Lines(res.Tail()) {
			b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
		}
		fmt.Fprintf(&b, "    all of its output: %s\n", res.Log)
	}
	return b.String()
}
