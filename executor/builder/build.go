package builder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// Where a builder finds its things, inside.
const (
	dispatchPath = sandbox.RunDir + "/dispatch.json"
	resultName   = "result.json"
	resultPath   = sandbox.OutDir + "/" + resultName
)

// errStopped is the cause with which the supervisor ends a job.
var errStopped = errors.New("stopped")

// build is a running builder.
type build struct {
	l      *Local
	job    executor.BuildJob
	cfg    Builder
	scope  *scope.Scope
	tree   *tree
	egress *egressLog
	prep   *preparation
	said   *claims              // nil: of no kind
	talk   atomic.Pointer[talk] // nil: it isn't talked to
	// version is what its program said of it at the last preflight; "" where none was made.
	version string
	cancel  context.CancelCauseFunc
	done    chan struct{}
	out     executor.BuildOutcome
}

// Build implements executor.Executor.
func (l *Local) Build(ctx context.Context, job executor.BuildJob) (executor.Build, error) {
	cfg, ok := l.builder(job.Builder)
	if !ok || len(cfg.Argv) == 0 {
		return nil, failed(kernel.CodeEnvBuilder, "builder "+job.Builder+" is not configured", nil)
	}
	if err := l.makeWorkDir(); err != nil {
		return nil, failed(kernel.CodeEnvWorkspace, "there is no directory for workspaces", err)
	}
	if err := l.enter(job.Run); err != nil {
		return nil, err
	}
	b := &build{l: l, job: job, cfg: cfg.prepared(), version: l.keptVersion(l.preflights.entry(cfg).version()), egress: l.newEgressLog(taskName(job.World, job.Task), kernel.MaxConnections), done: make(chan struct{})}
	b.egress.world, b.egress.builder, b.egress.purse = job.World, job.Builder, newPurse(job.Spend, job.Builder, keysOf(job.Builder, cfg.Budget, job.Budgets), l.cfg.Price)
	ctx, b.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(b.done)
		defer l.leave(job.Run)
		defer b.cancel(nil)
		b.run(ctx)
	}()
	return b, nil
}

// run lays out, starts, waits and takes in.
func (b *build) run(ctx context.Context) {
	f := b.l.stock.feedOf(b.job.Base)
	w := b.l.newWatch(b.job.OnLine)
	w.speaks = b.cfg.isAgent()
	err := b.prepareFirst(ctx, f)
	if err == nil {
		err = b.prepare(ctx, f)
	}
	defer b.prep.end()
	defer func() {
		if b.tree != nil {
			b.l.stock.discard(b.tree)
		}
	}()
	started := b.l.cfg.Now()
	var end ending
	switch {
	case ctx.Err() != nil:
		end = stoppedEarly()
	case err != nil:
		end = notStarted(err)
	default:
		if end = b.execute(ctx, w); b.l.layersRefused(end.err) {
			end = b.again(ctx, f, w)
		}
		if end.diskLow {
			b.l.stock.discardNow(b.tree)
		}
	}
	if b.tree != nil {
		b.prep.unshow(b.tree)
	}
	b.takeIn(ctx, w, end, started, b.l.cfg.Now())
	if r := b.out.Result; b.l.cfg.Ran != nil {
		b.l.cfg.Ran(b.job.World, b.job.Builder, time.Duration(max(r.Ended-r.Started, 0))*time.Millisecond)
	}
}

// prepareFirst has what the contract prepares before it pays a builder.
func (b *build) prepareFirst(ctx context.Context, f *feed) error {
	if b.job.Trusted != nil {
		f = newFeed(*b.job.Trusted)
	}
	if b.prep = b.l.newPreparation(b.job.World, b.job.Task, b.job.Prepare, f, b.job.OnLine); b.prep == nil {
		return nil
	}
	if b.job.Trusted != nil { // what further runs share is never made from a change
		if err := b.prep.takeChange(ctx, &change{after: entries(b.job.Base.Files)}, b.job.Base.Blobs); err != nil {
			return err
		}
	}
	return b.prep.ready(ctx)
}

// prepare gets the workspace, compiles the scope and makes the directory of the
// result.
func (b *build) prepare(ctx context.Context, f *feed) error {
	f.hold()
	defer f.release()
	var err error
	if b.scope, err = newScope(ctx, b.job); err != nil {
		return err
	}
	if b.tree, err = b.l.stock.take(ctx, f, use{git: !b.cfg.WithoutGit}); err != nil {
		return err
	}
	if err := os.Mkdir(b.outDir(), 0o700); err != nil {
		return failed(kernel.CodeEnvWorkspace, "there is no directory for the result", err)
	}
	// While the builder works, the runner's tree is laid out: no sandbox sees it
	// before the checks.
	b.l.stock.ahead(f)
	return nil
}

// execute runs the builder to its end.
func (b *build) execute(ctx context.Context, w *watch) ending {
	t := buildTimes(b.job.Budgets)
	var o *outlet
	var err error
	if len(b.cfg.Egress) > 0 {
		o, err = b.l.outlet(ctx, b.l.builderLists(b.job.World, b.cfg), t.total, b.egress)
	}
	var end ending
	if err == nil {
		end, err = b.l.through(ctx, o, b.spec(w), w, t)
		b.talk.Load().close()
	}
	if err != nil && ctx.Err() != nil || b.talk.Load().wasStopped() {
		return stoppedEarly()
	}
	if err != nil {
		b.l.doubt(err)
		return notStarted(err)
	}
	b.l.doubt(end.err)
	if o != nil && slices.Contains([]string{kernel.CauseStart, kernel.CauseTimeout, kernel.CauseIdle}, end.exit.Cause) {
		end.detail = joined(end.detail, b.egress.saw())
	}
	return end
}

// wasStopped reports whether the agent was asked to stop: however it ended then, it was
// writ that wanted it.
func (t *talk) wasStopped() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped
}

func buildTimes(b kernel.Budgets) times {
	return times{ms(b.StartTimeoutMs), ms(b.BuildTimeoutMs), ms(b.IdleTimeoutMs)}
}

// again runs the builder in a workspace that holds everything itself, where the kernel
// showed no layers after all. Nothing of the builder has run.
func (b *build) again(ctx context.Context, f *feed, w *watch) ending {
	b.l.stock.discardNow(b.tree)
	b.tree = nil
	if err := b.prepare(ctx, f); ctx.Err() != nil {
		return stoppedEarly()
	} else if err != nil {
		return notStarted(err)
	}
	return b.execute(ctx, w)
}

// newScope compiles what may change. The rules were checked before the claim.
func newScope(ctx context.Context, job executor.BuildJob) (*scope.Scope, error) {
	base := entries(job.Base.Files)
	rules := scope.Rules{
		Allowed: job.Scope.Allowed, Forbidden: job.Scope.Forbidden, Guarded: job.Scope.Guarded, Unprotect: job.Scope.Unprotect,
		Accepts: job.Scope.Accepts, MaxFiles: job.Budgets.Files, MaxBytes: job.Budgets.Bytes, LockSources: job.Scope.LockSources,
		Blob: func(id string) (data []byte, err error) {
			err = job.Base.Blobs(ctx, []string{id}, func(_ string, b []byte) error { data = bytes.Clone(b); return nil })
			return data, err
		},
	}
	if !job.Scope.KeepIgnored {
		var err error
		if rules.Ignore, err = ignoreFiles(ctx, job.Base, base); err != nil {
			return nil, failed(kernel.CodeEnvRepository, "the base can't be read", err)
		}
	}
	s, err := scope.New(base, rules)
	if v, bad := unusable(err); bad {
		return nil, failed(v.Code, "the base can't be laid out", &baseError{v})
	}
	if err != nil {
		return nil, failed(kernel.CodeDispatchMalformed, "the scope can't be used", err)
	}
	return s, nil
}

// ignoreFiles reads the base's own .gitignore files: what a builder writes into
// its copies ignores nothing.
func ignoreFiles(ctx context.Context, base executor.Base, list []scope.Entry) (map[string][]byte, error) {
	out := map[string][]byte{}
	paths := map[string][]string{}
	var ids []string
	for _, e := range scope.IgnoreFiles(list) {
		if paths[e.OID] == nil {
			ids = append(ids, e.OID)
		}
		paths[e.OID] = append(paths[e.OID], e.Path)
	}
	if len(ids) == 0 {
		return out, nil
	}
	err := base.Blobs(ctx, ids, func(id string, data []byte) error {
		for _, p := range paths[id] {
			out[p] = data
		}
		return nil
	})
	return out, err
}

func (b *build) outDir() string { return filepath.Join(b.tree.dir, "out") }

// spec is the invocation: the operator's argv, and values of the dispatch only.
func (b *build) spec(w *watch) sandbox.Spec {
	stdin, stdout := b.streams(w.stdout)
	return sandbox.Spec{
		Argv:      b.cfg.Argv,
		Env:       environment(withProxy(b.cfg.Env, len(b.cfg.Egress) > 0), map[string]string{"WRIT_DISPATCH": dispatchPath, "WRIT_RESULT": resultPath}),
		Workspace: b.tree.workspace(), Layers: b.l.stock.shown(b.tree), OutDir: b.outDir(), ReadOnly: b.cfg.ReadOnly, Loopback: b.cfg.Loopback,
		Dirs:  b.prep.dirs(b.tree, b.cfg.ReadOnly, nothingTaken),
		Files: []sandbox.File{{Target: dispatchPath, Content: b.job.Dispatch}},
		Stdin: stdin, Stdout: stdout, Stderr: w.stderr,
		Limits: b.l.cfg.Limits,
	}
}

// nothingTaken is for a base itself: what was prepared is nowhere in it.
func nothingTaken(string) bool { return false }

// streams are a builder's standard input, and where its standard output goes. What an agent
// says is read beside being captured; with one that is talked to, the transcript is captured
// instead.
func (b *build) streams(stdout io.Writer) (io.Reader, io.Writer) {
	in := strings.NewReader(b.job.Instruction)
	a, ok := agents[b.cfg.Kind]
	switch {
	case !ok:
		return in, stdout
	case a.talks:
		t := newTalk(b.job.Instruction, stdout, b.l.cfg.Redact)
		b.talk.Store(t)
		b.said = t.said
		return t, t.said
	}
	b.said = &claims{read: a.read}
	return in, io.MultiWriter(stdout, b.said)
}

// Done, Kill and Outcome implement executor.Build.
func (b *build) Done() <-chan struct{} { return b.done }

// Kill ends the tree; it returns when nothing runs and the outcome is there.
func (b *build) Kill() {
	b.talk.Load().stop(b.done)
	b.cancel(errStopped)
	<-b.done
}

// Outcome is valid once Done is closed.
func (b *build) Outcome() executor.BuildOutcome { return b.out }
