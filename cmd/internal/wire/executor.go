package wire

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/shelf"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Supervision is in what a command and a server differ.
type Supervision struct {
	File     *supervisor.ContractFile      // instead of the repository's contract
	Progress func(line string)             // told of each step; nil: nobody watches
	Forge    *supervisor.Forge             // nil: tasks come from files
	Ended    func(supervisor.EndedRun)     // nil: the execution log
	Repo     supervisor.Repo               // nil: the world's own
	Healed   func(tasks []int64)           // nil: nobody waits
	Tail     func(task int64, line string) // nil: nobody looks on
	Observe  bool                          // claim nothing, whatever the contract says
	Saved    *supervisor.Saved             // what was folded of the ledger's first records; nil: nothing
}

// Supervise makes the supervisor of a world.
func (proc *Process) Supervise(ctx context.Context, in *installation.Governed, ex executor.Executor, o Supervision) (*supervisor.Supervisor, error) {
	var history *supervisor.History
	err := in.Boot(in.World, func() (err error) {
		history, err = in.History(ctx, o.Saved)
		return err
	})
	if err != nil {
		return nil, err
	}
	cfg, deps, err := proc.Supervision(in, ex, o)
	if err != nil {
		return nil, err
	}
	return supervisor.New(cfg, deps, history), nil
}

// Supervision is what a supervisor is made of, beside its world's history.
func (proc *Process) Supervision(in *installation.Governed, ex executor.Executor, o Supervision) (cfg supervisor.Config, deps supervisor.Deps, err error) {
	runner, err := in.Dir.RunnerID()
	if err != nil {
		return cfg, deps, err
	}
	trusted, err := installation.ParseKeys(in.Cfg.TrustedRunners)
	if err != nil {
		return cfg, deps, err
	}
	var acts supervisor.Acts
	if in.Repo != nil {
		if acts, err = in.ActsOf(in.Repo, in.World); err != nil {
			return cfg, deps, err
		}
	}
	l := in.Cfg.Lease
	deps = supervisor.Deps{
		Repo: in.Repo, Ledger: installation.Evidence{Ledger: in.Ledger}, Executor: ex, Clock: installation.NewClock().Lag(proc.Behind),
		Sightings: in.Seen.Of(in.World), Shelf: shelf.Of(in.DB, in.World), Pushes: pushed.Of(in.DB, in.World),
		NewRunID: uuid.NewString, Signer: git.NewSigner(in.Key.SSHSigner()), Log: in.Log, Fault: proc.Fault,
		Ended: o.Ended, Forge: o.Forge, Healed: o.Healed, Acts: acts,
		Holds: proc.Redactor.Holds,
	}
	if o.Repo != nil {
		deps.Repo = o.Repo
	}
	deps.Tail = o.Tail
	if in.Savings != nil {
		deps.Savings = in.Savings
	}
	if deps.Ended == nil {
		deps.Ended = proc.LogCycle(in)
	}
	deps.Progress = o.Progress
	cfg = supervisor.Config{
		World: in.World, Repository: in.Display, RunnerID: runner, RefPrefix: installation.RefPrefix(in.Cfg.Refs), Base: in.BaseRef(), Contract: o.File,
		Caps: in.Cfg.Caps.Contract(), LockSources: in.Cfg.LockSources, Lease: l.Policy(), LeaseSeconds: l.Seconds, MarginSeconds: l.MarginSeconds(),
		Name: in.Cfg.Identity.Name, Email: in.Cfg.Identity.Email, Trusted: trusted, Observe: o.Observe,
		Budgets: supervisor.Budgets{
			Attempts: in.Cfg.Attempts(), Task: in.Cfg.Budgets.Task.Kernel(), World: in.Cfg.Budgets.World.Kernel(), Day: in.Cfg.Budgets.Day.Kernel(),
		},
	}
	return cfg, deps, nil
}

// Overrides are what a command line gives beside the configuration.
type Overrides struct {
	Argv []string       // of the only builder; nil: those of the configuration
	Ro   []config.Mount // shown to builders and checks besides
}

// Executor makes the executor of this host, and clears what dead runs left.
func (proc *Process) Executor(in *installation.Installation, o Overrides) (*builder.Local, error) {
	x, err := proc.NewExecutor(in, o)
	if err != nil {
		return nil, err
	}
	if err := x.Sweep(); err != nil {
		return nil, installation.FailedState(in.Dir.Path, err, "has workspaces that can't be cleared")
	}
	return x, nil
}

// NewExecutor makes an executor beside whatever runs already.
func (proc *Process) NewExecutor(in *installation.Installation, o Overrides) (*builder.Local, error) {
	given, err := proc.Credentials(in.Cfg)
	if err != nil {
		return nil, err
	}
	cfg := builder.Config{
		Sandbox: proc.Sandbox(in), Builders: map[string]builder.Builder{}, Limits: in.Cfg.Limits.Sandbox(),
		Worlds: worldRules(in.Cfg.Worlds), Gateway: in.Cfg.Limits.Gateway(), Connection: proc.connection, Usage: proc.Usage, Ran: proc.BuilderRan, Price: in.Cfg.Prices.ByModel(), Resolver: proc.Resolver,
		WorkDir: in.Dir.File(installation.Workspaces), Redact: proc.Redactor.String, Holds: proc.Redactor.Holds,
		Now: func() int64 { return installation.NewClock().Now().WallMs }, Log: in.Log,
		Checks: builder.Builder{
			Env: in.Cfg.Checks.Env, ReadOnly: Mounts(in.Cfg.Checks.RO, o.Ro), Loopback: in.Cfg.Checks.Loopback,
			Egress: config.Rules(in.Cfg.Checks.Egress, given),
		},
	}
	if size := in.Cfg.Layers.Size; size > 0 {
		cfg.Layers = builder.Layers{Dir: in.Dir.File(installation.Layers), Bytes: int64(size), Age: in.Cfg.Layers.Age, ChecksOnly: !in.Cfg.Layers.Builders}
	}
	for name, b := range in.Cfg.Builders {
		cfg.Builders[name] = ToBuilder(b, o.Ro, given)
	}
	if o.Argv != nil { // the person at the keyboard overrides what a task names
		only := ToBuilder(config.DefaultBuilder(o.Argv...), o.Ro, nil)
		only.Loopback = in.Cfg.Sandbox != config.SandboxLandlock // which has none to give
		cfg.Any = &only
	}
	return builder.New(cfg), nil
}

// Sandbox makes the sandbox that the configuration names, and warns of what it lacks.
func (proc *Process) Sandbox(in *installation.Installation) sandbox.Sandbox {
	cfg := sandbox.Config{WithoutLandlock: in.Cfg.WithoutLandlock, Log: in.Log}
	if in.Cfg.Sandbox == config.SandboxNone {
		in.Log.Warn("sandbox: none. Builders and checks run with all your rights")
		return sandbox.NewNone(cfg)
	}
	if in.Cfg.Sandbox == config.SandboxLandlock {
		if what, remedy := sandbox.LandlockLacks(); what != "" {
			in.Log.Warn("sandbox: landlock. "+what, "remedy", remedy)
		}
		return sandbox.NewLandlocked(cfg)
	}
	return sandbox.NewBubblewrap(cfg)
}

// ToBuilder is a builder of the configuration as the executor takes it: with more that is
// shown to it, and the secrets that were given for hosts, by their names.
func ToBuilder(b config.Builder, ro []config.Mount, given map[string]string) builder.Builder {
	return builder.Builder{
		Kind: b.Kind, Model: b.Model, Instructions: b.RepositoryInstructions, Argv: b.Argv, Env: b.Env, ReadOnly: Mounts(b.RO, ro), Loopback: b.Loopback, Egress: config.Rules(b.Egress, given),
		RequireResult: b.Result == config.ResultRequired, WithoutGit: !b.Git, Budget: b.Budget.Kernel(),
	}
}

// worldRules cap each repository, if the operator caps any.
func worldRules(worlds map[string]config.World) map[string][]gateway.Rule {
	if len(worlds) == 0 {
		return nil
	}
	out := map[string][]gateway.Rule{}
	for name, w := range worlds {
		out[name] = config.Rules(w.Egress, nil)
	}
	return out
}

// Mounts are the mounts of all lists, in order.
func Mounts(lists ...[]config.Mount) []sandbox.Mount {
	var out []sandbox.Mount
	for _, list := range lists {
		for _, m := range list {
			out = append(out, sandbox.Mount(m))
		}
	}
	return out
}

// ContractFile is --contract: read again at every look, so that a change under
// a running task is noticed.
func ContractFile(path string) (*supervisor.ContractFile, error) {
	if path == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	read := func() ([]byte, error) { return installation.ReadLimited(abs, contract.MaxBytes) }
	if _, err := read(); err != nil {
		return nil, problem.Coded(kernel.CodeEnvGovernance, "--contract can't be read: %s.", problem.Cause(err))
	}
	return &supervisor.ContractFile{Name: filepath.Base(path), Read: read}, nil
}

// LocalActor is the person at the keyboard.
func (proc *Process) LocalActor() string {
	name := proc.Env["USER"]
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("local:%s:%s", strconv.Itoa(os.Getuid()), installation.SafeName(name))
}
