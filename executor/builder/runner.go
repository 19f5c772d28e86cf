package builder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// checks is a running evaluation of a proposed change (seed 003, role 3).
type checks struct {
	l      *Local
	job    executor.CheckJob
	feed   *feed
	change *change
	prep   *preparation
	taken  func(dir string) bool
	told   int // connections that may still be told one by one: of all checks together
	cancel context.CancelCauseFunc
	done   chan struct{}
	out    executor.CheckOutcome
}

// Check implements executor.Executor: every check, and every repetition of one,
// runs in a fresh sandbox on a fresh tree. The builder's workspace is never
// looked at, so that nothing counts but what will be committed.
func (l *Local) Check(ctx context.Context, job executor.CheckJob) (executor.Checks, error) {
	if v := l.probe(ctx); v != nil {
		return nil, failed(v.Code, v.Detail, nil)
	}
	if err := l.makeWorkDir(); err != nil {
		return nil, failed(kernel.CodeEnvWorkspace, "there is no directory for workspaces", err)
	}
	change, err := newChange(entries(job.Base.Files), job.Diff.Changes, job.Contents)
	if err != nil {
		return nil, failed(kernel.CodeEnvWorkspace, "the change can't be checked", err)
	}
	place := job.Run + " checks"
	if err := l.enter(place); err != nil {
		return nil, err
	}
	k := &checks{l: l, job: job, change: change, feed: l.stock.feedOf(job.Base), told: kernel.MaxConnections, done: make(chan struct{})}
	ctx, k.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(k.done)
		defer l.leave(place)
		defer k.cancel(nil)
		k.run(ctx)
	}()
	return k, nil
}

// run runs the checks one after another; all of them, for all violations are
// named (seed 001, verification).
func (k *checks) run(ctx context.Context) {
	defer func() { k.prep.end() }()
	res := kernel.RunResult{
		Kind: string(kernel.KindRunResult), Run: k.job.Run, Tree: k.job.TreeID,
		Sandbox: k.l.cfg.Sandbox.Name(), Checks: []kernel.CheckResult{},
	}
	var vs []kernel.Violation
	if err := k.prepare(ctx); err != nil {
		k.out = k.notPrepared(ctx, res, err)
		return
	}
	res.Prepared = k.prep.result()
	trees := k.startTrees(ctx)
	defer trees.end()
	var tails []string
	for _, c := range k.job.Checks {
		r, bad := k.check(ctx, trees, c)
		res.Checks = append(res.Checks, r)
		vs = append(vs, bad...)
		if !r.Passed {
			tails = append(tails, c.Name+":\n"+r.Output.Tail)
		}
		if ctx.Err() != nil {
			break
		}
	}
	k.out = executor.CheckOutcome{Run: res, Violations: k.l.plain(vs), Tail: tail(strings.Join(tails, "\n"), tailBytes)}
}

// prepare has what the contract prepares: of the base, or where the change touches key
// files of those.
func (k *checks) prepare(ctx context.Context) error {
	base := k.feed
	if k.job.Trusted != nil {
		base = newFeed(*k.job.Trusted)
	}
	if k.prep = k.l.newPreparation(k.job.World, k.job.Task, k.job.Prepare, base, k.job.OnLine); k.prep == nil {
		return nil
	}
	k.taken = takenBy(k.change.after)
	if err := k.prep.takeChange(ctx, k.change, k.job.Base.Blobs); err != nil {
		return err
	}
	return k.prep.ready(ctx)
}

// takenBy reports of a tree whether a prepared directory would hide a file of it: what is
// checked is what is delivered.
func takenBy(list []scope.Entry) func(string) bool {
	return func(dir string) bool {
		return slices.ContainsFunc(list, func(e scope.Entry) bool {
			return e.Path == dir || strings.HasPrefix(e.Path, dir+"/") || strings.HasPrefix(dir, e.Path+"/")
		})
	}
}

// notPrepared is the outcome of checks that weren't run.
func (k *checks) notPrepared(ctx context.Context, res kernel.RunResult, err error) executor.CheckOutcome {
	res.Prepared = k.prep.result()
	if ctx.Err() != nil {
		v := kernel.Violation{Code: kernel.CodeTaskInterrupted, Subject: "prepare", Detail: "The preparation was ended: " + detailStopped + "."}
		return executor.CheckOutcome{Run: res, Violations: []kernel.Violation{v}}
	}
	out := executor.CheckOutcome{Run: res, Violations: k.l.plain([]kernel.Violation{faultOf("prepare", err)})}
	if pe, ok := errors.AsType[*prepareError](err); ok {
		out.Tail = tail(pe.tail, tailBytes)
	}
	return out
}

// Done, Kill and Outcome implement executor.Checks.
func (k *checks) Done() <-chan struct{} { return k.done }

// Kill ends the check that runs and all that were to follow.
func (k *checks) Kill() {
	k.cancel(errStopped)
	<-k.done
}

// Outcome is valid once Done is closed.
func (k *checks) Outcome() executor.CheckOutcome { return k.out }

// trees lays out one fresh tree after the other, one ahead of the check that
// runs.
type trees struct {
	next   chan laid
	cancel context.CancelFunc
	work   sync.WaitGroup
}

type laid struct {
	tree *tree
	err  error
}

func (k *checks) startTrees(ctx context.Context) *trees {
	t := &trees{next: make(chan laid)}
	ctx, t.cancel = context.WithCancel(ctx)
	n := 0
	for _, c := range k.job.Checks {
		n += int(max(c.Repeat, 1))
	}
	t.work.Go(func() {
		k.feed.hold()
		defer k.feed.release()
		for range n {
			tree, err := k.freshTree(ctx)
			select {
			case t.next <- laid{tree, err}:
			case <-ctx.Done():
				if tree != nil {
					k.l.stock.discard(tree)
				}
				return
			}
		}
	})
	return t
}

// freshTree is the base with the change.
func (k *checks) freshTree(ctx context.Context) (*tree, error) {
	t, err := k.l.stock.take(ctx, k.feed, use{runner: true})
	if err != nil {
		return nil, err
	}
	apply, dir := k.change.apply, t.workspace()
	if t.layered {
		apply, dir = k.change.applyAbove, sandbox.Upper(dir)
	}
	if err := apply(dir); err != nil {
		k.l.stock.discard(t)
		return nil, failed(kernel.CodeEnvWorkspace, "the change can't be laid out", err)
	}
	return t, nil
}

// take waits for the next one.
func (t *trees) take(ctx context.Context) (*tree, error) {
	select {
	case l := <-t.next:
		return l.tree, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end throws away what was laid out too much.
func (t *trees) end() {
	t.cancel()
	t.work.Wait()
}
