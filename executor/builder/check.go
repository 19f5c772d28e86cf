package builder

import (
	"context"
	"errors"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// check runs one check as often as the contract wants. Every run counts: the
// first failure is what is kept, and runs that end differently on the same tree
// are a failure of their own (case X9). After a run that had to be ended there
// is no other: it would cost as much again.
func (k *checks) check(ctx context.Context, trees *trees, c kernel.Check) (kernel.CheckResult, []kernel.Violation) {
	out := kernel.CheckResult{Name: c.Name, Passed: true, Stable: true}
	out.Output = k.l.evidence(k.l.newWatch(nil).stdout)
	egress := k.l.newEgressLog(taskName(k.job.World, k.job.Task), k.told)
	var first, told ending
	var vs []kernel.Violation
	for n := range max(c.Repeat, 1) {
		end, w := k.once(ctx, trees, c, int(n), egress)
		if n == 0 {
			first = end
		}
		passed := end.succeeded()
		if n == 0 || !passed && out.Passed {
			told, out.Exit, out.Output = end, end.exit, k.l.evidence(w.stdout)
			vs = append(vs, checkFaults(c.Name, end)...)
		}
		out.Stable = out.Stable && end.exit == first.exit
		out.Passed = out.Passed && passed
		out.Runs++
		if end.exit.Cause != kernel.CauseExited {
			break
		}
	}
	if !out.Stable {
		out.Passed = false
		vs = append(vs, kernel.Violation{Code: kernel.CodeNondeterministic, Subject: c.Name, Detail: "Repeated on the same tree, the check ended differently."})
	}
	if out.Egress = egress.result(); out.Egress != nil {
		k.told -= len(out.Egress.Connections)
	}
	return out, k.compare(ctx, c, &out, k.lacks(c, told, out.Output.Tail, out.Egress), vs)
}

// once runs a check on the next fresh tree.
func (k *checks) once(ctx context.Context, trees *trees, c kernel.Check, n int, egress *egressLog) (ending, *watch) {
	w := k.l.newWatch(k.job.OnLine)
	t, err := trees.take(ctx)
	if err == nil {
		end := k.in(ctx, t, c, n, w, egress)
		if !k.l.layersRefused(end.err) {
			return end, w
		}
		// In a tree that holds everything itself. Nothing of the check has run.
		if t, err = k.freshTree(ctx); err == nil {
			return k.in(ctx, t, c, n, w, egress), w
		}
	}
	if ctx.Err() != nil {
		return stoppedEarly(), w
	}
	k.l.doubt(err)
	return notStarted(err), w
}

// in runs a check in a tree, and throws that away.
func (k *checks) in(ctx context.Context, t *tree, c kernel.Check, n int, w *watch, egress *egressLog) ending {
	defer k.l.stock.discard(t)
	end, err := k.l.inside(ctx, k.job.World, c, k.spec(c, n, t, w), w, egress)
	if err == nil {
		k.l.doubt(end.err)
		if end.diskLow {
			k.l.stock.discardNow(t)
		}
		return end
	}
	if ctx.Err() != nil {
		return stoppedEarly()
	}
	k.l.doubt(err)
	return notStarted(err)
}

// inside runs a check, or a step of the preparation, whose tree is laid out.
func (l *Local) inside(ctx context.Context, world string, c kernel.Check, spec sandbox.Spec, w *watch, egress *egressLog) (ending, error) {
	t := checkTimes(c)
	if len(c.Hosts) == 0 {
		return l.through(ctx, nil, spec, w, t)
	}
	lists, err := l.checkLists(world, c)
	if err != nil {
		return ending{}, failed(kernel.CodeEgressDenied, "the check's hosts can't be read", err)
	}
	o, err := l.outlet(ctx, lists, t.total, egress)
	if err != nil {
		return ending{}, err
	}
	return l.through(ctx, o, spec, w, t)
}

// spec is the invocation. Both streams are one: a check's output is read as one.
func (k *checks) spec(c kernel.Check, n int, t *tree, w *watch) sandbox.Spec {
	cfg := k.l.cfg.Checks
	return sandbox.Spec{
		Argv: c.Argv, Env: environment(withProxy(cfg.Env, len(c.Hosts) > 0), variation(c, n)), Umask: umask(c, n),
		Workspace: t.workspace(), Layers: k.l.stock.shown(t), ReadOnly: cfg.ReadOnly, Loopback: cfg.Loopback,
		Dirs: k.prep.dirs(t, cfg.ReadOnly, k.taken), Stdout: w.stdout, Stderr: w.stdout, Limits: k.l.cfg.Limits,
	}
}

// checkFaults are what is wrong with one run of a check. A check whose program
// isn't there, or can't be executed, has failed: it is the contract's, and it
// would be missing in every other run too. What the host failed to do is no
// check's failure.
func checkFaults(name string, e ending) []kernel.Violation {
	if e.succeeded() {
		return nil
	}
	if isOutage(e.err) {
		return []kernel.Violation{faultOf(name, e.err)}
	}
	if e.exit.Cause == kernel.CauseStopped {
		return []kernel.Violation{{Code: kernel.CodeTaskInterrupted, Subject: name, Detail: "The check was ended: " + e.detail + "."}}
	}
	if e.err != nil && !isProgramFault(e.err) {
		return []kernel.Violation{faultOf(name, e.err)}
	}
	sentence := "The check " + e.sentence()
	out := []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: name, Detail: sentence}}
	switch e.exit.Cause {
	case kernel.CauseTimeout, kernel.CauseIdle, kernel.CauseStart:
		out = append(out, kernel.Violation{Code: kernel.CodeTimeout, Subject: name, Detail: sentence})
	case kernel.CauseResource:
		out = append(out, kernel.Violation{Code: kernel.CodeExecutionResource, Subject: name, Detail: sentence})
	}
	return out
}

// isProgramFault tells a program that can't be run from a sandbox that can't.
func isProgramFault(err error) bool {
	var xe *executor.Error
	var se *sandbox.Error
	return !errors.As(err, &xe) && errors.As(err, &se) && se.Code != sandbox.CodeUnavailable
}

// zones are far from UTC, one of them by an odd fraction of an hour, so that
// another date or minute shows.
var zones = []string{"Pacific/Kiritimati", "America/St_Johns", "Asia/Kathmandu"}

// variation changes what a sound check doesn't depend on, from the second run
// on, where the contract asks for it.
func variation(c kernel.Check, n int) map[string]string {
	if !c.Vary || n == 0 {
		return nil
	}
	return map[string]string{"TZ": zones[(n-1)%len(zones)], "LC_ALL": "C", "GOMAXPROCS": "1"}
}

// variedUmask hides new files from everybody else.
const variedUmask = 0o077

func umask(c kernel.Check, n int) int {
	if c.Vary && n > 0 {
		return variedUmask
	}
	return 0 // the sandbox's own
}
