package replay

import (
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// auditor follows the audit entries of a pack: a stretch of one kernel's chain,
// whose beginning lies before the run.
type auditor struct {
	v       *verifier
	f       *findings
	last    *machine.Entry
	digest  canon.Digest    // of last
	facts   canon.Digest    // of the newest observation
	act     canon.Digest    // the newest act of a person
	verdict kernel.Verdict  // of the newest decision
	due     map[string]bool // intents that are not begun yet
	begun   map[string]bool // effects that an entry let begin
}

// checkAudit follows the chain of entries, and holds them against the records
// that they tell of: each request's facts and decision, and for each effect an
// entry before it (promise P6).
func (v *verifier) checkAudit(f *findings) string {
	a := &auditor{v: v, f: f, due: map[string]bool{}, begun: map[string]bool{}}
	n := 0
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindObservation:
			a.facts = canon.Sum(r.Body)
		case kernel.KindOperatorAct: // a request of its own, which its kernel allowed
			a.act = canon.Sum(r.Body)
		case kernel.KindDecision:
			if d := read[kernel.Decision](f, r); d != nil {
				a.verdict = d.body.Verdict
			}
		case kernel.KindIntent:
			if i := read[kernel.Intent](f, r); i != nil {
				a.due[i.body.Key] = true
			}
		case kernel.KindOutcome:
			a.outcome(r)
		case kernel.KindAudit:
			n++
			a.entry(r)
		}
	}
	if n == 0 {
		f.file(FileRecords, "There is no audit entry.")
	} else if a.last != nil && a.last.StateTo != machine.Idle.String() {
		f.file(FileRecords, "The entries end in %s, in the middle of a request.", a.last.StateTo)
	}
	return fmt.Sprintf("The chain of audit entries is whole (%d), and each effect had its entry first.", n)
}

// outcome: what came to an end was let begin.
func (a *auditor) outcome(r record) {
	o := read[kernel.Outcome](a.f, r)
	if o != nil && a.facts != "" && a.due[o.body.Key] {
		a.f.record(r.Seq, "The effect %s was done without an audit entry before it.", o.body.Key)
	}
}

func (a *auditor) entry(r record) {
	b := read[machine.Entry](a.f, r)
	if b == nil {
		return
	}
	e := b.body
	digest, err := e.Digest()
	if err != nil {
		a.f.record(r.Seq, "The entry can't be hashed: %v.", err)
		return
	}
	if why := a.misfit(e); why != "" {
		a.f.record(r.Seq, "%s", why)
	}
	if e.StateTo == machine.Executing.String() && e.Tool != nil {
		if !a.due[e.Tool.Key] {
			a.f.record(r.Seq, "It lets the effect %s begin, which no intent announces.", e.Tool.Key)
		}
		delete(a.due, e.Tool.Key)
	}
	a.last, a.digest = &e, digest
}

// misfit says why an entry does not continue the chain or its request.
func (a *auditor) misfit(e machine.Entry) string {
	if err := e.Check(); err != nil {
		return fmt.Sprintf("The entry is none that the machine makes: %v.", err)
	}
	to, _ := machine.ParseState(e.StateTo)
	act, allowed := e.EvidenceHash, e.Decision != nil && *e.Decision == machine.Allow
	switch {
	case act != nil && allowed && *act != a.act:
		return "It allows an act that no record tells of."
	case e.ParamsHash != nil && *e.ParamsHash != a.facts:
		return "The entry is of a request with other facts."
	case act == nil && e.Decision != nil && string(*e.Decision) != string(a.verdict):
		return fmt.Sprintf("The entry says %s, the decision %s.", *e.Decision, a.verdict)
	case to == machine.Executing && (e.Tool == nil || act != nil || a.verdict != kernel.Allow):
		return "It lets an effect begin that no decision allows."
	case a.last == nil:
		return ""
	case e.Kernel != a.last.Kernel || e.Epoch != a.last.Epoch:
		return "The entry is of another kernel or epoch."
	case e.Seq != a.last.Seq+1 || e.Prev != a.digest:
		return "The entry does not follow the one before it."
	case e.Time < a.last.Time:
		return "The machine's clock goes back."
	case e.StateFrom != a.last.StateTo:
		return fmt.Sprintf("The machine was in %s, the entry leaves %s.", a.last.StateTo, e.StateFrom)
	case e.StateFrom != machine.Idle.String() && to != machine.Halted && !goesOn(*a.last, e):
		return "The entry is of another request than the one before it."
	}
	return ""
}

// goesOn reports whether an entry is of the same request as the one before it: what is
// known of a request stays.
func goesOn(a, b machine.Entry) bool {
	return same(a.RequestID, b.RequestID) && same(a.Actor, b.Actor) && same(a.Intent, b.Intent) &&
		same(a.ParamsHash, b.ParamsHash) && same(a.EvidenceHash, b.EvidenceHash) &&
		(a.Decision == nil || same(a.Decision, b.Decision)) && (a.Tool == nil || equal(a.Tool, b.Tool))
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
