package supervisor

import "github.com/writbot/writ/kernel"

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
	actions := []kernel.Action{
		kernel.ActionTakeOver, kernel.ActionClaim, kernel.ActionDispatch, kernel.ActionHeartbeat,
		kernel.ActionSeal, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionResult, kernel.ActionRelease, kernel.ActionWait,
		kernel.ActionAbandon, kernel.ActionNone,
	}
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
	var out []Point
	for _, a := range append(kernel.ForgeActions(), kernel.ActionComplete) {
		for _, s := range []string{StageDecided, StageRecorded, StageDone, StageSettled} {
			out = append(out, PointOf(a, s))
		}
	}
	return out
}

func (t *Task) fault(a kernel.Action, stage string) {
	if t.s.deps.Fault != nil {
		t.s.deps.Fault(PointOf(a, stage))
	}
}
