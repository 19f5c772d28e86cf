package builder

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// Builder is a configured builder. The program is the operator's choice; no
// repository can name one.
type Builder struct {
	Argv          []string
	Env           map[string]string // on top of the sandbox's base environment
	ReadOnly      []sandbox.Mount
	RequireResult bool // without a result file: execution.no_output
	Loopback      bool // a loopback interface of its own
	WithoutGit    bool // no throw-away .git in the workspace
}

// Config is what the operator decided for this host.
type Config struct {
	Sandbox  sandbox.Sandbox
	Builders map[string]Builder
	Any      *Builder // does the work by whatever name a task gives; nil: those of Builders
	Checks   Builder  // environment and mounts of checks; its Argv is unused
	Limits   sandbox.Limits
	WorkDir  string // workspaces are made below it and removed
	// Redact takes secrets out of what is kept or shown; nil for none.
	Redact func(string) string
	// Holds reports whether a file has a secret in it, and may not be delivered; nil for none.
	Holds func(data []byte) bool
	// Now is the wall clock in Unix milliseconds.
	Now func() int64
	Log *slog.Logger // nil: none
}

// Local is the executor of this host.
type Local struct {
	cfg   Config
	stock *stock

	judgeLimit time.Duration // tests lower it

	mu     sync.Mutex
	probed bool
	live   map[string]bool // what runs: run ids, and run ids with their checks
}

// New returns an executor. It starts nothing.
func New(cfg Config) *Local {
	if cfg.Holds == nil {
		cfg.Holds = func([]byte) bool { return false }
	}
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Local{cfg: cfg, stock: newStock(cfg.WorkDir, cfg.Log), judgeLimit: judgeLimit, live: map[string]bool{}}
	l.stock.disk = func(need int64) bool { return !sandbox.DiskSpent(cfg.WorkDir, need, cfg.Limits.DiskReserveBytes) }
	return l
}

// Close waits until every workspace is gone. Nothing may be started afterwards.
// A process that ends without it leaves directories that Sweep removes.
func (l *Local) Close() { l.stock.close() }

// Sweep ends and removes what runs of dead processes left behind. The caller holds the
// state directory's lock, so that no other process has a live run there.
func (l *Local) Sweep() error {
	if n := sandbox.KillStrays(l.cfg.WorkDir); n > 0 && l.cfg.Log != nil {
		l.cfg.Log.Info("processes of a sandbox that a killed writ left were ended", "processes", n)
	}
	return l.stock.sweep()
}

// Prepare implements [executor.Preparer].
func (l *Local) Prepare(name string, base executor.Base) {
	cfg, ok := l.builder(name)
	if !ok || base.Commit == "" || l.makeWorkDir() != nil {
		return
	}
	f := l.stock.feedOf(base)
	if t := l.stock.keep(f, use{git: !cfg.WithoutGit}); t != nil {
		l.stock.busy.Go(func() {
			<-t.done // the builder's tree is wanted first
			l.stock.ahead(f)
		})
	}
}

// enter takes a run's place: one sandbox at a time for it, and no second start
// while the first one lives (seed 001, principle 2).
func (l *Local) enter(what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live[what] {
		return failed(kernel.CodeLockViolation, "this run is being executed already", nil)
	}
	l.live[what] = true
	return nil
}

func (l *Local) leave(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, what)
}

// probe asks whether the sandbox works, until it does: once in this process, unless
// it fails later.
func (l *Local) probe(ctx context.Context) *kernel.Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probed {
		return nil
	}
	if err := l.cfg.Sandbox.Probe(ctx); err != nil {
		return &kernel.Violation{Code: kernel.CodeSandboxUnavailable, Subject: l.cfg.Sandbox.Name(), Detail: err.Error()}
	}
	l.probed = true
	return nil
}

// doubt has the next look at the environment ask again, where the sandbox itself
// could not start: what was there at the start of this process may be gone.
func (l *Local) doubt(err error) {
	if se, ok := errors.AsType[*sandbox.Error](err); ok && se.Code == sandbox.CodeUnavailable {
		l.mu.Lock()
		l.probed = false
		l.mu.Unlock()
	}
}

// faultOf turns what went wrong before anything ran into a violation.
func faultOf(subject string, err error) kernel.Violation {
	v := kernel.Violation{Code: kernel.CodeEnvBuilderFailed, Subject: subject, Detail: err.Error()}
	var xe *executor.Error
	var se *sandbox.Error
	var be *baseError
	switch {
	case errors.As(err, &be):
		return be.violation
	case errors.As(err, &xe):
		v.Code = xe.Code
	case errors.As(err, &se) && se.Code == sandbox.CodeUnavailable:
		v.Code = kernel.CodeSandboxUnavailable
	}
	return v
}

// entries are a base's files as the scope room knows them.
func entries(files []executor.File) []scope.Entry {
	out := make([]scope.Entry, len(files))
	for i, f := range files {
		out[i] = scope.Entry{Path: f.Path, Mode: f.Mode, OID: f.ID}
	}
	return out
}
