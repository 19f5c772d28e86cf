package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// doctorFlags are what `writ doctor` was asked.
type doctorFlags struct {
	file    string
	forge   string
	repo    string
	json    bool
	noProbe bool
	time    time.Duration // of one check
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Check whether writ can work here: machine, secrets, forges, repositories",
		Long: `Doctor looks at everything that writ serve needs, also while it runs, and says in
a line for each check how it stands; below what is not as it should be stands
what to do. It changes nothing, but for two refs that it pushes to each
repository below the state refs and deletes again. Exit status 0: nothing failed;
there may be warnings.`,
		Example: "  writ doctor --config writ.yaml\n  writ doctor --config writ.yaml --forge github --repo acme/shop",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.file, "config", "", "configuration of this machine; without one only the machine is looked at")
	cmd.Flags().StringVar(&f.forge, "forge", "", "only this forge: github, gitlab or local")
	cmd.Flags().StringVar(&f.repo, "repo", "", "only this repository, OWNER/NAME")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON document instead")
	cmd.Flags().DurationVar(&f.time, "time", doctor.CheckTime, "how long each check may take")
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "push nothing")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		// What a probe has pushed is deleted before doctor ends.
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		context.AfterFunc(ctx, stop) // the second signal kills
		return a.doctor(ctx, f)
	})
	return cmd
}

// examination is one run of `writ doctor`.
type examination struct {
	*app
	flags doctorFlags
	cfg   config.Config
	done  []doctor.Check
}

// doctor is `writ doctor`.
func (a *app) doctor(ctx context.Context, f doctorFlags) error {
	e := &examination{app: a, flags: f}
	if err := e.asked(); err != nil {
		return err
	}
	e.examine(ctx)
	if ctx.Err() != nil {
		return &problem.Error{Exit: problem.ExitOther, Text: "Interrupted: not everything was looked at.", Remedy: "Call it again when you like."}
	}
	if f.json {
		data, err := json.Marshal(map[string]any{"ok": doctor.Good(e.done), "checks": e.done})
		if err != nil {
			return err
		}
		a.printJSON(data)
	}
	if !doctor.Good(e.done) {
		return problem.Quiet(problem.ExitRefused)
	}
	return nil
}

// asked refuses wrong usage.
func (e *examination) asked() error {
	if err := installation.PathFlag("config", e.flags.file); err != nil {
		return err
	}
	if e.flags.time <= 0 {
		return problem.Usage("--time must be more than nothing, such as 10s.")
	}
	if e.flags.forge != "" && !slices.Contains(wire.ForgeNames(), e.flags.forge) {
		return problem.Usage("--forge is github, gitlab or local.")
	}
	if e.flags.file == "" && e.flags.forge+e.flags.repo != "" {
		return problem.Usage("--config is missing: it says how the forge is reached.")
	}
	return nil
}

// told takes a check in, and shows it at once.
func (e *examination) told(c doctor.Check) {
	e.done = append(e.done, c)
	if !e.flags.json {
		var line strings.Builder
		_ = doctor.Line(&line, c) // a builder takes everything
		e.print("%s", line.String())
	}
}

func (e *examination) getenv(name string) string { return e.Env[name] }

func (e *examination) examine(ctx context.Context) {
	e.cfg = config.Default()
	if e.flags.file != "" {
		var err error
		e.cfg, err = config.Load(e.flags.file)
		e.told(doctor.Configuration(e.flags.file, err))
		if err != nil {
			return
		}
		e.Hide(e.cfg.Redact)
		e.HideValues(doctor.SecretValues(e.cfg, e.getenv))
		doctor.Secrets(e.cfg, e.getenv, e.told)
		looking, stop := context.WithTimeout(ctx, e.flags.time)
		doctor.Mounts(looking, e.cfg, e.getenv, e.told)
		stop()
	}
	doctor.Installation(ctx, e.machine())
	found := e.flags.file == "" || !e.cfg.Forges.Any()
	for _, name := range wire.ForgeNames() {
		if cfg, ok := e.alone(name); ok && ctx.Err() == nil {
			found = e.atForge(ctx, name, cfg) || found
		}
	}
	if !found && ctx.Err() == nil {
		e.told(doctor.Check{
			Name: doctor.NameRepository, Subject: e.flags.repo, Status: doctor.Failed, Detail: "The configuration doesn't list it.",
			Remedy: "Add it to repositories of its forge; without --forge and --repo everything that is listed is checked.",
		})
	}
}

// machine is this machine, as its checks look at it.
func (e *examination) machine() doctor.Machine {
	names := slices.Sorted(maps.Keys(e.cfg.Builders))
	return doctor.Machine{
		Config: e.cfg, Unconfigured: e.flags.file == "", Time: e.flags.time, Each: e.told, Builders: names, Environment: e.environment, Preflight: e.preflight,
		State: func(path string) (string, string) {
			if _, err := installation.OpenDir(path, false); err != nil {
				p := problem.Explain(err)
				return p.Text, p.Remedy
			}
			return "", ""
		},
		Git:     func(ctx context.Context) (string, error) { return git.Version(ctx, "") },
		Sandbox: func(ctx context.Context, level string) error { return e.level(level).Probe(ctx) },
		Memory:  func() bool { return sandbox.HoldsMemory(sandbox.Config{}) },
		Lacks:   sandbox.LandlockLacks,
		Layers:  e.layers,
	}
}

// layers tries an overlay where the workspaces are, or will be.
func (e *examination) layers(ctx context.Context) error {
	dir := filepath.Join(e.cfg.Server.StateDir, installation.Workspaces)
	if _, err := os.Stat(dir); err != nil {
		dir = os.TempDir()
	}
	return sandbox.Overlays(ctx, e.level(e.cfg.Sandbox), dir)
}

// level is an isolation level by its name.
func (e *examination) level(name string) sandbox.Sandbox {
	return (&wire.Process{}).Sandbox(&installation.Installation{Cfg: config.Config{Sandbox: name, WithoutLandlock: e.cfg.WithoutLandlock}, Log: slog.New(slog.DiscardHandler)})
}

// environment asks the executor about a builder.
func (e *examination) environment(ctx context.Context, name string) (vs []kernel.Violation) {
	err := e.trying(name, nil, func(x *builder.Local) { vs = x.Surroundings(ctx, name) })
	if err != nil {
		return []kernel.Violation{{Code: kernel.CodeEnvBuilder, Subject: name, Detail: "No directory for its workspace can be made."}}
	}
	return vs
}

// preflight has the executor try a builder.
func (e *examination) preflight(ctx context.Context, name string) (p builder.Preflight, err error) {
	given, err := e.Credentials(e.cfg)
	if err != nil {
		return p, err
	}
	err = e.trying(name, given, func(x *builder.Local) { p = x.Preflight(ctx, name) })
	return p, err
}

// trying gives f an executor of one builder. Its workspaces lie in a directory that is gone
// afterwards: the server's is the server's.
func (e *examination) trying(name string, given map[string]string, f func(*builder.Local)) error {
	dir, err := os.MkdirTemp("", "writ-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	x := builder.New(builder.Config{
		Sandbox: e.level(e.cfg.Sandbox), Builders: map[string]builder.Builder{name: wire.ToBuilder(e.cfg.Builders[name], nil, given)},
		Checks: builder.Builder{ReadOnly: wire.Mounts(e.cfg.Checks.RO)}, Limits: e.cfg.Limits.Sandbox(), WorkDir: dir, Resolver: e.Resolver,
		Redact: e.Redactor.String, Now: func() int64 { return installation.NewClock().Now().WallMs },
	})
	defer x.Close()
	f(x)
	return nil
}

// alone is the configuration as if it had this forge only; ok is false where it
// doesn't have it, or nobody asked for it.
func (e *examination) alone(name string) (cfg config.Config, ok bool) {
	cfg = e.cfg
	cfg.Forges = config.Default().Forges
	switch all := e.cfg.Forges; name {
	case "github":
		cfg.Forges.GitHub = all.GitHub
	case "gitlab":
		cfg.Forges.GitLab = all.GitLab
	case "local":
		cfg.Forges.Local = all.Local
	}
	return cfg, cfg.Forges.Any() && (e.flags.forge == "" || e.flags.forge == name)
}

// atForge checks one forge and its repositories. It reports whether there was
// one to check.
func (e *examination) atForge(ctx context.Context, name string, cfg config.Config) bool {
	listed := slices.DeleteFunc(repositoriesOf(cfg.Forges), func(r string) bool { return e.flags.repo != "" && !strings.EqualFold(r, e.flags.repo) })
	if len(listed) == 0 {
		return false
	}
	f, err := e.connectOne(ctx, cfg)
	if err != nil {
		p := problem.Explain(err)
		remedy := p.Remedy
		if remedy == "" {
			remedy = "See the secrets above, and forges." + name + " in " + e.flags.file + "."
		}
		e.told(doctor.Check{Name: doctor.NameReach, Subject: name, Status: doctor.Failed, Detail: p.Text, Remedy: remedy})
		e.skip("The forge can't be used.", listed)
		return true
	}
	defer f.Host.Close()
	poll := cfg.Server.Intake == config.IntakePoll
	if _, answers := doctor.Forge(ctx, doctor.Site{Forge: name, Host: f.Host, URL: f.Asked(cfg), Git: f.Git, Poll: poll, Time: e.flags.time, Each: e.told}); !answers {
		e.skip("The forge can't be used.", listed)
		return true
	}
	for _, r := range listed {
		if ctx.Err() != nil {
			break
		}
		doctor.Repository(ctx, doctor.Target{
			Forge: name, Host: f.Host, Name: r, Git: f.Git, Refs: cfg.Refs, Base: cfg.Base, Signer: e.signer(), Poll: poll, NoProbe: e.flags.noProbe,
			Identity: doctor.Identity{Name: cfg.Identity.Name, Email: cfg.Identity.Email}, Time: e.flags.time, Each: e.told,
		})
	}
	return true
}

func repositoriesOf(f config.Forges) []string {
	return slices.Concat(f.GitHub.Repositories, f.GitLab.Repositories, f.Local.Repositories)
}

func (e *examination) skip(why string, repositories []string) {
	for _, r := range repositories {
		e.told(doctor.Check{Name: doctor.NameRepository, Subject: r, Status: doctor.Skipped, Detail: why})
	}
}

// connectOne prepares the one forge of a configuration.
func (e *examination) connectOne(ctx context.Context, cfg config.Config) (*wire.Forge, error) {
	cfg.Server.Traces = config.Traces{} // whose secrets aren't needed
	given, err := e.ReadSecrets(cfg)
	if err != nil {
		return nil, err
	}
	list, err := e.Connect(ctx, cfg, given, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// signer is the instance's, where there is one: with it, a probe's commit is one
// that the server would push.
func (e *examination) signer() git.Signer {
	key, err := instancekey.Load(e.cfg.Server.StateDir)
	if err != nil {
		return nil
	}
	return git.NewSigner(key.SSHSigner())
}
