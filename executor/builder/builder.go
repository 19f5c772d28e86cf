package builder

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// Builder is a configured builder. The program is the operator's choice; no
// repository can name one.
type Builder struct {
	Kind          string // what is known of the program, of [Kinds]; "": nothing
	Model         string // of a kind, what it works with; "" for its own choice
	Instructions  bool   // of a kind: it obeys the repository's plain instructions; see [Instructs]
	Argv          []string
	Env           map[string]string // on top of the sandbox's base environment
	ReadOnly      []sandbox.Mount
	RequireResult bool           // without a result file: execution.no_output
	Loopback      bool           // a loopback interface of its own
	Egress        []gateway.Rule // what it may reach; of checks: the most that a contract may ask for
	WithoutGit    bool           // no throw-away .git in the workspace
	Budget        kernel.Spend   // of one attempt, as the operator wrote it
}

// Config is what the operator decided for this host.
type Config struct {
	Sandbox  sandbox.Sandbox
	Builders map[string]Builder
	Any      *Builder // does the work by whatever name a task gives; nil: those of Builders
	Checks   Builder  // environment and mounts of checks; its Argv is unused
	Limits   sandbox.Limits
	// Worlds cap what is reached in each world, by its name in texts. Nil: no world has
	// a cap of its own. One that isn't listed reaches nothing.
	Worlds     map[string][]gateway.Rule
	Gateway    gateway.Limits       // of each sandbox, but for the time, which is the program's
	Resolver   gateway.Resolver     // nil: the host's
	Connection func(gateway.Record) // told of each connection to the outside; nil for nobody
	// Usage is told what each request of a builder's to a provider used, with the model's
	// price, if it has one; nil for nobody.
	Usage func(world, builder string, one kernel.Usage)
	// Ran is told how long each builder ran, as its result says; nil for nobody.
	Ran func(world, builder string, took time.Duration)
	// Price is what a model costs, nil where the operator didn't say it. Without the
	// function no model has a price.
	Price   func(model string) *kernel.Price
	WorkDir string // workspaces are made below it and removed
	Layers  Layers
	// Redact takes secrets out of what is kept or shown; nil for none.
	Redact func(string) string
	// Holds reports whether a file has a secret in it, and may not be delivered; nil for none.
	Holds func(data []byte) bool
	// Now is the wall clock in Unix milliseconds.
	Now func() int64
	Log *slog.Logger // nil: none
}

// Layers are the bases that are kept for further runs, where the sandbox can show them;
// see layers.go. Without a directory each workspace is laid out whole.
type Layers struct {
	Dir   string        // nobody else writes there
	Bytes int64         // of those that no run uses; 0: DefaultLayerBytes
	Age   time.Duration // how long one stays that no run uses; 0: DefaultLayerAge
	// ChecksOnly lays a builder's workspace out whole: in one above a layer the kernel
	// refuses to rename a directory of the base (EXDEV).
	ChecksOnly bool
}

// The defaults keep a few large bases, and none that nobody has used for a week.
const (
	DefaultLayerBytes = 4 << 30
	DefaultLayerAge   = 7 * 24 * time.Hour
)

// Local is the executor of this host.
type Local struct {
	cfg    Config
	stock  *stock
	bases  baseEnds
	losers losers

	preflights preflights
	priced     bool // some model may have a price

	judgeLimit time.Duration      // tests lower it
	onGateway  func(net.Listener) // tests end it
	roots      *x509.CertPool     // tests have authorities of their own

	mu     sync.Mutex
	probed bool
	live   map[string]bool // what runs: run ids, and run ids with their checks
}

// New returns an executor. It starts nothing.
func New(cfg Config) *Local {
	if cfg.Holds == nil {
		cfg.Holds = func([]byte) bool { return false }
	}
	priced := cfg.Price != nil
	if !priced {
		cfg.Price = func(string) *kernel.Price { return nil }
	}
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	if cfg.Gateway == (gateway.Limits{}) {
		cfg.Gateway = DefaultEgress
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Local{cfg: cfg, stock: newStock(cfg.WorkDir, cfg.Log), judgeLimit: judgeLimit, live: map[string]bool{}, priced: priced}
	l.stock.layers, l.stock.checksOnly = l.newLayers(), l.cfg.Layers.ChecksOnly
	if s, ok := cfg.Sandbox.(interface{ Owner() int }); ok {
		l.stock.owner = s.Owner
	}
	l.stock.disk = func(need int64) bool { return !sandbox.DiskSpent(cfg.WorkDir, need, cfg.Limits.DiskReserveBytes) }
	return l
}

func (l *Local) newLayers() *layers {
	cfg := l.cfg.Layers
	return &layers{
		dir: cfg.Dir, limit: cmp.Or(cfg.Bytes, DefaultLayerBytes), age: cmp.Or(cfg.Age, DefaultLayerAge), log: l.cfg.Log,
		now: time.Now, held: map[string]*layer{}, live: map[string]bool{},
		try: l.tryOverlay,
	}
}

// overlayTime bounds the trial of an overlay: a sandbox that doesn't start holds up no
// builder, whose own time to start hasn't begun.
const overlayTime = 10 * time.Second

func (l *Local) tryOverlay(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, overlayTime)
	defer cancel()
	err := sandbox.Overlays(ctx, l.cfg.Sandbox, l.cfg.WorkDir)
	if ctx.Err() != nil {
		err = &sandbox.Error{Code: sandbox.CodeLayers, Msg: "an overlay was tried, and that took longer than " + overlayTime.String(), Err: err}
	}
	return err
}

// layersRefused reports whether a sandbox couldn't show layers although it could when
// it was tried. Then nobody gets any more of them.
func (l *Local) layersRefused(err error) bool {
	se, ok := errors.AsType[*sandbox.Error](err)
	if ok = ok && se.Code == sandbox.CodeLayers; ok {
		l.stock.layers.turnOff(se)
	}
	return ok
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
	return errors.Join(l.stock.sweep(), l.stock.layers.sweep())
}

// Prefetch implements [executor.Prefetcher].
func (l *Local) Prefetch(name string, base executor.Base) {
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
	var pe *prepareError
	switch {
	case errors.As(err, &pe):
		return pe.violation
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
