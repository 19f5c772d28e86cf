package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"

	"github.com/writbot/writ/cmd/internal/config"
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

// supervision is in what a command and a server differ.
type supervision struct {
	file     *supervisor.ContractFile      // instead of the repository's contract
	progress func(line string)             // told of each step; nil: nobody watches
	forge    *supervisor.Forge             // nil: tasks come from files
	ended    func(supervisor.Cycle)        // nil: the execution log
	repo     supervisor.Repo               // nil: the world's own
	healed   func(tasks []int64)           // nil: nobody waits
	tail     func(task int64, line string) // nil: nobody looks on
	observe  bool                          // claim nothing, whatever the contract says
	saved    *supervisor.Saved             // what was folded of the ledger's first records; nil: nothing
}

// supervise makes the supervisor of a world.
func (a *process) supervise(ctx context.Context, in *governed, ex executor.Executor, o supervision) (*supervisor.Supervisor, error) {
	var history *supervisor.History
	err := in.boot(in.world, func() (err error) {
		history, err = in.history(ctx, o.saved)
		return err
	})
	if err != nil {
		return nil, err
	}
	cfg, deps, err := a.supervision(in, ex, o)
	if err != nil {
		return nil, err
	}
	return supervisor.New(cfg, deps, history), nil
}

// supervision is what a supervisor is made of, beside its world's history.
func (a *process) supervision(in *governed, ex executor.Executor, o supervision) (cfg supervisor.Config, deps supervisor.Deps, err error) {
	runner, err := in.dir.runnerID()
	if err != nil {
		return cfg, deps, err
	}
	trusted, err := parseKeys(in.cfg.TrustedRunners)
	if err != nil {
		return cfg, deps, err
	}
	var acts supervisor.Acts
	if in.repo != nil {
		if acts, err = in.actsOf(in.repo, in.world); err != nil {
			return cfg, deps, err
		}
	}
	l := in.cfg.Lease
	deps = supervisor.Deps{
		Repo: in.repo, Ledger: evidence{in.ledger}, Executor: ex, Clock: newClock().lag(a.behind),
		Observations: in.seen.of(in.world), Shelf: shelf.Of(in.db, in.world), Pushes: pushed.Of(in.db, in.world),
		NewRunID: uuid.NewString, Signer: git.NewSigner(in.key.SSHSigner()), Log: in.log, Fault: a.fault,
		Ended: o.ended, Forge: o.forge, Healed: o.healed, Acts: acts,
		Holds: a.redactor.Holds,
	}
	if o.repo != nil {
		deps.Repo = o.repo
	}
	deps.Tail = o.tail
	if in.savings != nil {
		deps.Savings = in.savings
	}
	if deps.Ended == nil {
		deps.Ended = a.logCycle(in)
	}
	deps.Progress = o.progress
	cfg = supervisor.Config{
		World: in.world, Repository: in.display, RunnerID: runner, RefPrefix: refPrefix(in.cfg.Refs), Base: in.baseRef(), Contract: o.file,
		Caps: in.cfg.Caps.Contract(), Lease: l.Policy(), LeaseSeconds: l.Seconds, MarginSeconds: l.MarginSeconds(),
		Name: in.cfg.Identity.Name, Email: in.cfg.Identity.Email, Trusted: trusted, Observe: o.observe,
		Budgets: supervisor.Budgets{
			Attempts: in.cfg.Attempts(), Task: in.cfg.Budgets.Task.Kernel(), World: in.cfg.Budgets.World.Kernel(), Day: in.cfg.Budgets.Day.Kernel(),
		},
	}
	return cfg, deps, nil
}

// overrides are what a command line gives beside the configuration.
type overrides struct {
	argv []string       // of the only builder; nil: those of the configuration
	ro   []config.Mount // shown to builders and checks besides
}

// executor makes the executor of this host, and clears what dead runs left.
func (a *process) executor(in *installation, o overrides) (*builder.Local, error) {
	x, err := a.newExecutor(in, o)
	if err != nil {
		return nil, err
	}
	if err := x.Sweep(); err != nil {
		return nil, failedState(in.dir.path, err, "has workspaces that can't be cleared")
	}
	return x, nil
}

// newExecutor makes an executor beside whatever runs already.
func (a *process) newExecutor(in *installation, o overrides) (*builder.Local, error) {
	given, err := a.credentials(in.cfg)
	if err != nil {
		return nil, err
	}
	cfg := builder.Config{
		Sandbox: a.sandbox(in), Builders: map[string]builder.Builder{}, Limits: in.cfg.Limits.Sandbox(),
		Worlds: worldRules(in.cfg.Worlds), Gateway: in.cfg.Limits.Gateway(), Connection: a.connection, Usage: a.usage, Price: in.cfg.Prices.ByModel(), Resolver: a.resolver,
		WorkDir: in.dir.file(workspaces), Redact: a.redactor.String, Holds: a.redactor.Holds,
		Now: func() int64 { return newClock().Now().WallMs }, Log: in.log,
		Checks: builder.Builder{
			Env: in.cfg.Checks.Env, ReadOnly: mounts(in.cfg.Checks.RO, o.ro), Loopback: in.cfg.Checks.Loopback,
			Egress: config.Rules(in.cfg.Checks.Egress, given),
		},
	}
	if size := in.cfg.Layers.Size; size > 0 {
		cfg.Layers = builder.Layers{Dir: in.dir.file(layers), Bytes: int64(size), Age: in.cfg.Layers.Age, ChecksOnly: !in.cfg.Layers.Builders}
	}
	for name, b := range in.cfg.Builders {
		cfg.Builders[name] = toBuilder(b, o.ro, given)
	}
	if o.argv != nil { // the person at the keyboard overrides what a task names
		only := toBuilder(config.DefaultBuilder(o.argv...), o.ro, nil)
		only.Loopback = in.cfg.Sandbox != config.SandboxLandlock // which has none to give
		cfg.Any = &only
	}
	return builder.New(cfg), nil
}

func (a *process) sandbox(in *installation) sandbox.Sandbox {
	cfg := sandbox.Config{WithoutLandlock: in.cfg.WithoutLandlock, Log: in.log}
	if in.cfg.Sandbox == config.SandboxNone {
		in.log.Warn("sandbox: none. Builders and checks run with all your rights")
		return sandbox.NewNone(cfg)
	}
	if in.cfg.Sandbox == config.SandboxLandlock {
		if what, remedy := sandbox.LandlockLacks(); what != "" {
			in.log.Warn("sandbox: landlock. "+what, "remedy", remedy)
		}
		return sandbox.NewLandlocked(cfg)
	}
	return sandbox.NewBubblewrap(cfg)
}

func toBuilder(b config.Builder, ro []config.Mount, given map[string]string) builder.Builder {
	return builder.Builder{
		Kind: b.Kind, Model: b.Model, Argv: b.Argv, Env: b.Env, ReadOnly: mounts(b.RO, ro), Loopback: b.Loopback, Egress: config.Rules(b.Egress, given),
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

func mounts(lists ...[]config.Mount) []sandbox.Mount {
	var out []sandbox.Mount
	for _, list := range lists {
		for _, m := range list {
			out = append(out, sandbox.Mount(m))
		}
	}
	return out
}

// contractFile is --contract: read again at every look, so that a change under
// a running task is noticed.
func contractFile(path string) (*supervisor.ContractFile, error) {
	if path == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	read := func() ([]byte, error) { return readLimited(abs, contract.MaxBytes) }
	if _, err := read(); err != nil {
		return nil, coded(kernel.CodeEnvGovernance, "--contract can't be read: %s.", cause(err))
	}
	return &supervisor.ContractFile{Name: filepath.Base(path), Read: read}, nil
}

// localActor is the person at the keyboard.
func (a *process) localActor() string {
	name := a.env["USER"]
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("local:%s:%s", strconv.Itoa(os.Getuid()), safeName(name))
}
