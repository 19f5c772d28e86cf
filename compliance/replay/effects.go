package replay

import (
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// announced is an effect: its intent and what came of it.
type announced struct {
	intent  kernel.Intent
	seq     int64
	outcome kernel.OutcomeStatus // "" while there is none
}

// journal follows the effects of a pack.
type journal struct {
	v       *verifier
	f       *findings
	byKey   map[string]*announced
	order   []*announced
	allowed *kernel.Decision // whose effect is not announced yet
	begun   bool             // an observation was seen
	handed  canon.Digest     // of the dispatch record
}

// checkEffects holds effects against intents, decisions and outcomes (invariants
// E3, E4, E5), and against the commits that git has.
func (v *verifier) checkEffects(f *findings) string {
	j := v.effects(f)
	for _, a := range j.order {
		if a.outcome == "" {
			f.record(a.seq, "The effect %s has no outcome.", a.intent.Key)
		}
	}
	j.checkPushes()
	j.checkStarts()
	j.checkDone()
	return fmt.Sprintf("%s, each with a decision and an intent before and an outcome after.", report.Counted(len(j.order), "effect"))
}

// effects reads all of them.
func (v *verifier) effects(f *findings) *journal {
	j := &journal{v: v, f: f, byKey: map[string]*announced{}}
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindObservation:
			j.begun = true
		case kernel.KindDecision:
			j.allowed = nil
			if d := read[kernel.Decision](f, r); d != nil && d.body.Verdict == kernel.Allow {
				j.allowed = &d.body
			}
		case kernel.KindDispatch:
			j.handed = canon.Sum(r.Body)
		case kernel.KindIntent:
			j.intent(r)
		case kernel.KindOutcome:
			j.outcome(r)
		}
	}
	return j
}

func (j *journal) intent(r record) {
	b := read[kernel.Intent](j.f, r)
	if b == nil {
		return
	}
	i := b.body
	former := j.byKey[i.Key]
	switch {
	case former != nil && !former.again(i):
		j.f.record(r.Seq, "The effect %s is announced a second time.", i.Key)
		return
	case j.allowed == nil || j.allowed.Action != i.Effect:
		j.f.record(r.Seq, "No decision before it allows the effect %s.", i.Effect)
	case j.allowed.Issue != nil && !ofIssue(i, *j.allowed.Issue):
		j.f.record(r.Seq, "It announces another effect on the issue than was decided.")
	case i.Effect == kernel.ActionDispatch && i.Digest != j.handed:
		j.f.record(r.Seq, "It hands out a dispatch that is not recorded.")
	}
	j.allowed = nil // a decision has one effect
	a := &announced{intent: i, seq: r.Seq}
	j.byKey[i.Key] = a
	j.order = append(slices.DeleteFunc(j.order, func(one *announced) bool { return one == former }), a)
}

// ofIssue reports whether an intent says what was decided of the issue, and nothing else.
func ofIssue(i kernel.Intent, e kernel.IssueEffect) bool {
	target := ""
	if e.Target != 0 {
		target = fmt.Sprint(e.Target)
	}
	return i.Digest == e.Digest && i.Ref == e.Label && i.New == target && i.Old == "" && i.Seq == 0
}

// again reports whether an effect may be announced once more: the very same one, after the
// server did not do it. Who tries again within a second makes the same commit, though its
// objects may be packed in another order.
func (a *announced) again(i kernel.Intent) bool {
	switch a.outcome {
	case kernel.OutcomeLost, kernel.OutcomeRefused, kernel.OutcomeFailed, kernel.OutcomeUnable:
		i.Digest = a.intent.Digest
		return a.intent == i
	}
	return false
}

func (j *journal) outcome(r record) {
	b := read[kernel.Outcome](j.f, r)
	if b == nil {
		return
	}
	a := j.byKey[b.body.Key]
	switch {
	case a == nil && !j.begun:
		// What the request before this run left unsettled.
	case a == nil:
		j.f.record(r.Seq, "The effect %s was never announced.", b.body.Key)
	case !possible(b.body):
		j.f.record(r.Seq, "Its status %q with the code %q is none that an effect can come to.", b.body.Status, b.body.Code)
	case a.intent.Effect != b.body.Effect:
		j.f.record(r.Seq, "It is the outcome of another effect than %s.", a.intent.Effect)
	case a.outcome != "" && a.outcome != kernel.OutcomeUnknown:
		j.f.record(r.Seq, "The effect %s has ended before, as %s.", a.intent.Key, a.outcome)
	default:
		a.outcome = b.body.Status
	}
}

// possible reports whether an effect can come to that.
func possible(o kernel.Outcome) bool {
	switch o.Status {
	case kernel.OutcomeDone:
		return o.Code == ""
	case kernel.OutcomeLost, kernel.OutcomeUnknown, kernel.OutcomeRefused, kernel.OutcomeFailed, kernel.OutcomeUnable:
		return true
	}
	return false
}

// checkPushes: the run's leases in git are those that the records announce, in
// order, and no other push of it was won.
func (j *journal) checkPushes() {
	var pushed []string
	for _, a := range j.order {
		if a.intent.Effect != kernel.ActionClaim && a.intent.Effect != kernel.ActionHeartbeat && a.intent.Effect != kernel.ActionSeal {
			continue
		}
		if a.outcome == kernel.OutcomeDone || a.outcome == kernel.OutcomeUnknown && j.v.lease(a.intent.New) != nil {
			pushed = append(pushed, a.intent.New)
			j.checkPush(*a)
		}
	}
	var inGit []string
	for _, c := range slices.Backward(j.v.head.Leases) {
		inGit = append(inGit, string(c.OID))
	}
	if !slices.Equal(pushed, inGit) {
		j.f.file(FileRecords, "The records announce the leases %v, the ref has %v.", pushed, inGit)
	}
}

// checkPush: what was announced is what git has. A claim may have put an event of its
// own below its lease, so what it stood on isn't asked.
func (j *journal) checkPush(a announced) {
	c := j.v.lease(a.intent.New)
	if c == nil {
		return // said of all of them
	}
	ev, _ := eventOf(*c)
	stamp, err := kernel.ReadStamp(ev.Trailers)
	on := a.intent.Effect == kernel.ActionClaim || slices.Equal(c.Parents, []git.OID{git.OID(a.intent.Old)})
	if a.intent.Ref != j.v.head.Ref || err != nil || a.intent.Seq != stamp.Seq || !on {
		j.f.record(a.seq, "It announces another push than that of %s.", c.OID)
	}
}

// lease is the run's lease of that id, nil if there is none.
func (v *verifier) lease(oid string) *git.Commit {
	for i, c := range v.head.Leases {
		if string(c.OID) == oid {
			return &v.head.Leases[i]
		}
	}
	return nil
}

// checkedTree is what the checks ran on and the recorded changes make, "" where the two
// differ: then one of them is the lie.
func (v *verifier) checkedTree() string {
	list := v.of(kernel.KindRunResult)
	if v.diff == nil || v.head.Base == nil || len(list) == 0 {
		return ""
	}
	tree, err := v.changedTree()
	run, err2 := decoded[kernel.RunResult](list[len(list)-1].Body)
	if err != nil || err2 != nil || run.Tree != string(tree) {
		return ""
	}
	return run.Tree
}

// checkDone: accepted work was built and checked, and the checks were of its tree.
func (j *journal) checkDone() {
	tree := j.v.checkedTree()
	for _, a := range j.order {
		i := a.intent
		switch {
		case i.Effect != kernel.ActionDispatch && i.Effect != kernel.ActionChecks:
			continue
		case j.v.accepted() && a.outcome != "" && a.outcome != kernel.OutcomeDone:
			j.f.record(a.seq, "The work was accepted, but its effect %s is %s.", i.Effect, a.outcome)
		case i.Ref+i.Old != "" || i.Seq != 0 || i.Effect == kernel.ActionDispatch && i.New != "" || i.Effect == kernel.ActionChecks && i.Digest != "":
			j.f.record(a.seq, "It says what the effect %s has not.", i.Effect)
		case i.Effect == kernel.ActionChecks && tree != "" && tree != i.New:
			j.f.record(a.seq, "It announces the checks of the tree %s, they ran on %s.", i.New, tree)
		}
	}
}

// checkStarts: a result of a run has one dispatch, of the bytes that HEAD
// names. One that went on with sealed work has none of its own: the dispatch that HEAD
// names is the earlier run's, which its claim below HEAD bears out.
func (j *journal) checkStarts() {
	var starts []*announced
	for _, a := range j.order {
		if a.intent.Effect == kernel.ActionDispatch {
			starts = append(starts, a)
		}
	}
	if j.v.resumes() != "" {
		if len(starts) > 0 {
			j.f.record(starts[0].seq, "It starts a builder, though the run went on with sealed work.")
		}
		return
	}
	switch {
	case len(starts) == 0:
		j.f.file(FileRecords, "No builder was started.")
	case len(starts) > 1:
		j.f.record(starts[1].seq, "It starts a builder a second time.")
	case string(starts[0].intent.Digest) != j.v.said(kernel.TrailerDispatch):
		j.f.record(starts[0].seq, "It hands out another dispatch than HEAD names.")
	}
}
