package supervisor

import (
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// Point is a place where a process may die. Every place is registered in
// [Points]; the crash tests kill a process at each of them.
type Point string

// Stages of an effect at which a process may die.
const (
	StageDecided  = "decided"  // decided, nothing recorded
	StageRecorded = "recorded" // intent durable, nothing done
	StageDone     = "done"     // done, outcome not recorded
	StageSettled  = "settled"  // outcome durable
)

// PointOf names the fault point of an action's stage.
func PointOf(a kernel.Action, stage string) Point { return Point(string(a) + ":" + stage) }

// Points lists every fault point, in the order of a run.
func Points() []Point {
	return pointsOf(
		kernel.ActionTakeOver, kernel.ActionClaim, kernel.ActionDispatch, kernel.ActionHeartbeat,
		kernel.ActionSeal, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionResult, kernel.ActionRelease, kernel.ActionWait,
		kernel.ActionAbandon, kernel.ActionNone,
	)
}

// pointsOf are the fault points of these actions.
func pointsOf(actions ...kernel.Action) []Point {
	var out []Point
	for _, a := range actions {
		for _, s := range []string{StageDecided, StageRecorded, StageDone, StageSettled} {
			if (s == StageDone || s == StageSettled) && !a.External() {
				continue // one append is all there is
			}
			out = append(out, PointOf(a, s))
		}
	}
	return out
}

// RepairSaid is the fault point between what is said of a repair on the ref of the world's
// acts, and its push.
const RepairSaid Point = "repair:said"

// IssuePoints lists the fault points of the effects on an issue, and of the one on the
// task that the issue's change brings about.
func IssuePoints() []Point {
	return pointsOf(append(kernel.ForgeActions(), kernel.ActionComplete)...)
}

func (t *Task) fault(a kernel.Action, stage string) {
	if t.s.deps.Fault != nil {
		t.s.deps.Fault(PointOf(a, stage))
	}
}

// faultRecorded is the fault point after an append, if there is a kernel left to go on.
func (t *Task) faultRecorded(c *cycle, stage string) {
	if t.machine.State() != machine.Halted {
		t.fault(c.decision.Action, stage)
	}
}

// probe lets a test see in which state something is done.
func (t *Task) probe(c *cycle, what string) {
	if t.s.seen != nil {
		t.s.seen(t, c, what)
	}
}
