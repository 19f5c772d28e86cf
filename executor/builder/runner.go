package builder

import (
	"context"
	"strings"
	"sync"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// checks is a running evaluation of a proposed change (seed 003, role 3).
type checks struct {
	l      *Local
	job    executor.CheckJob
	feed   *feed
	change *change
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
		return nil, failed(kernel.CodeEnvState, "there is no directory for workspaces", err)
	}
	change, err := newChange(entries(job.Base.Files), job.Diff.Changes, job.Contents)
	if err != nil {
		return nil, failed(kernel.CodeEnvState, "the change can't be checked", err)
	}
	place := job.Run + " checks"
	if err := l.enter(place); err != nil {
		return nil, err
	}
	k := &checks{l: l, job: job, change: change, feed: l.stock.feedOf(job.Base), done: make(chan struct{})}
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
	trees := k.startTrees(ctx)
	defer trees.end()
	res := kernel.RunResult{
		Kind: string(kernel.KindRunResult), Run: k.job.Run, Tree: k.job.TreeID,
		Sandbox: k.l.cfg.Sandbox.Name(), Checks: []kernel.CheckResult{},
	}
	var vs []kernel.Violation
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
	if err := k.change.apply(t.workspace()); err != nil {
		k.l.stock.discard(t)
		return nil, failed(kernel.CodeEnvState, "the change can't be laid out", err)
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
