package replay

import (
	"slices"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// checkSaid holds what the run's records say of each other, which the verdict alone doesn't
// read: what it was claimed on, by whom it was built, what the builder says that it changed,
// and what programs wrote.
func (v *verifier) checkSaid(f *findings) {
	v.checkClaimed(f)
	for _, r := range v.of(kernel.KindBuilderResult) {
		if b := read[kernel.BuilderResult](f, r); b != nil {
			v.checkBuilder(f, r.Seq, b.body)
			v.checkPrepared(f, r.Seq, b.body.Prepared)
		}
	}
	for _, r := range v.of(kernel.KindRunResult) {
		b := read[kernel.RunResult](f, r)
		if b == nil {
			continue
		}
		v.checkPrepared(f, r.Seq, b.body.Prepared)
		for _, c := range b.body.Checks {
			checkStream(f, r.Seq, c.Output)
			if c.Passed && (c.OnBase != nil || c.Lacks != nil) || c.Lacks != nil && !c.Lacks.Code.Lacks() {
				f.record(r.Seq, "It says of the check %q what can hold only of one that failed.", c.Name)
			}
		}
	}
	if v.diff == nil {
		return
	}
	for _, c := range v.diff.Changes {
		if !fits(c) {
			f.record(v.diffSeq(), "What happened to %q is no %q.", c.Path, c.Op)
		}
	}
}

// checkPrepared: only what the contract has is prepared, each step once at most, and what a
// step wrote is what it is said to be. What the layer holds is the instance's own word.
func (v *verifier) checkPrepared(f *findings, seq int64, p *kernel.Prepared) {
	if p == nil {
		return
	}
	if v.seed != nil && len(v.seed.Prepare) == 0 {
		f.record(seq, "It tells of a preparation, and the contract has none.")
		return
	}
	told := map[string]bool{}
	for _, s := range p.Steps {
		if told[s.Name] || v.seed != nil && !slices.ContainsFunc(v.seed.Prepare, func(one kernel.Step) bool { return one.Name == s.Name }) {
			f.record(seq, "It tells of a step %q of the preparation, which is none of the contract's, or was told of already.", s.Name)
		}
		told[s.Name] = true
		checkStream(f, seq, s.Output)
	}
}

// checkClaimed: the run was claimed on what the seed pack pins. A claim that goes on with
// sealed work is held against that of the run which it goes on from.
func (v *verifier) checkClaimed(f *findings) {
	var seen, claimed *record
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindObservation:
			seen = &r
		case kernel.KindDecision:
			if d, err := decoded[kernel.Decision](r.Body); err == nil && d.Verdict == kernel.Allow && d.Action == kernel.ActionClaim {
				claimed = seen
			}
		}
	}
	if claimed == nil || v.resumes() != "" {
		return // said elsewhere
	}
	if facts, err := decoded[kernel.Facts](claimed.Body); err == nil && (!v.pins(*facts) || !v.reserves(*facts)) {
		f.record(claimed.Seq, "The run was claimed on another approval, contract, budget or number of checks than the seed pack's.")
	}
}

// reserves reports whether a claim on facts reserves no more for a builder than the seed
// pack's budgets allow.
func (v *verifier) reserves(x kernel.Facts) bool {
	var attempt kernel.Spend
	if x.Budget != nil {
		attempt = x.Budget.Attempt
	}
	return !x.Pays() || within(v.seed.Budgets, attempt)
}

// pins reports whether facts are of the seed pack's approval, contract, budgets and checks.
func (v *verifier) pins(x kernel.Facts) bool {
	return x.Approved == v.seed.Approval.Digest && x.Governance == v.seed.Pins.Governance &&
		x.Budgets == v.seed.Budgets && x.Checks == int64(len(v.seed.Checks))
}

// checkBuilder: the builder is the approved one, and an accepted result names the files
// that were found changed. Of a refresh the base may have some of them already, and a
// revision before it named only its own: there the diff is held against the earlier one.
func (v *verifier) checkBuilder(f *findings, seq int64, b kernel.BuilderResult) {
	if b.Builder != v.seed.Spec.Builder {
		f.record(seq, "It is of the builder %q, approved was %q.", b.Builder, v.seed.Spec.Builder)
	}
	checkStream(f, seq, b.Stdout)
	checkStream(f, seq, b.Stderr)
	checkCost(f, seq, b.Egress)
	if !v.accepted() || v.refreshes() != "" || b.Result == nil || v.diff == nil || !keptWhole(v.diff.Changes) {
		return
	}
	for _, x := range scope.CheckReported(b.Result.ChangedFiles, scope.Verdict{Changes: v.diff.Changes, Discarded: v.diff.Discarded}) {
		f.record(v.diffSeq(), "%s: %s", x.Subject, x.Detail)
	}
}

// checkCost: what models were used costs what the recorded tokens come to by the recorded
// price.
func checkCost(f *findings, seq int64, e *kernel.Egress) {
	if e == nil {
		return
	}
	for _, u := range e.Usage {
		if want := u.Priced(u.Price).Cost; u.Cost != want {
			f.record(seq, "It says that the tokens of %s cost %d millionths, and by its price they cost %d.", scope.Display(u.Model), u.Cost, want)
		}
	}
}

// maxPlainName bounds the names that a result keeps as they are, in bytes.
const maxPlainName = 256

// keptWhole reports whether a result keeps the names of all changes as they are.
func keptWhole(changes []kernel.Change) bool {
	return len(changes) < scope.MaxListed && !slices.ContainsFunc(changes, func(c kernel.Change) bool {
		return len(c.Path) > maxPlainName || scope.Display(c.Path) != c.Path
	})
}

// checkStream: of nothing that was written there is neither a digest of something nor an
// end, and the reverse.
func checkStream(f *findings, seq int64, s kernel.Stream) {
	nothing := s.Digest == canon.Sum(nil)
	if s.Bytes < 0 || nothing != (s.Bytes == 0) || nothing && s.Tail != "" {
		f.record(seq, "It says that %d bytes with the digest %s were written, which end with %q.", s.Bytes, s.Digest, s.Tail)
	}
}

// fits reports whether a change's word is that of what was there before and after.
func fits(c kernel.Change) bool {
	before, after := c.BeforeID != "", c.AfterID != ""
	switch c.Op {
	case kernel.OpAdd:
		return !before && after
	case kernel.OpDelete:
		return before && !after
	case kernel.OpModify:
		return before && after && c.BeforeID != c.AfterID
	case kernel.OpMode:
		return before && after && c.BeforeID == c.AfterID && c.BeforeMode != c.AfterMode
	}
	return false
}
