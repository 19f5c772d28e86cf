package supervisor

import (
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestX8_NoClaimWithoutRoom: a task for whose builder there is no room is not
// claimed, and nothing is recorded of it; with room it goes its way.
func TestX8_NoClaimWithoutRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	before := b.sup.deps.Ledger.Chain().Head
	asked := 0
	room := false
	admit := func(scope []string) bool {
		asked++
		if scope != nil {
			t.Errorf("asked with the scope %v although the contract lets tasks overlap", scope)
		}
		return room
	}
	st, err := b.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Admit: admit})
	must(t, err)
	if st.Decision.Standing != kernel.StandDue || asked != 1 {
		t.Errorf("%s after %d questions, want due after one", st.Decision.Standing, asked)
	}
	if refs := gittest.Git(t, b.bare, "for-each-ref", "refs/writ"); refs != "" {
		t.Errorf("it was claimed: %s", refs)
	}
	if after := b.sup.deps.Ledger.Chain().Head; after != before {
		t.Errorf("the ledger went from %v to %v", before, after)
	}
	room = true
	st, err = b.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true, Admit: admit})
	must(t, err)
	if st.Decision.Standing != kernel.StandFinal || asked != 2 {
		t.Errorf("%s after %d questions, want final after two", st.Decision.Standing, asked)
	}
}

// TestG7_LentForOwnTrouble: a task lends its place at once where it met trouble with the
// server itself, and not for what a neighbour met.
func TestG7_LentForOwnTrouble(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	lent := 0
	b.task.worker.enter(DriveOptions{Idle: func() { lent++ }})
	b.task.worker.admission.since = time.Now().Add(time.Hour)
	b.sup.outage.failed(2, b.clock.Now(), "a lock is left", true, false)
	if b.task.worker.lend(); lent != 0 {
		t.Error("its place is lent for its neighbour's trouble")
	}
	b.sup.outage.failed(1, b.clock.Now(), "no answer", true, false)
	if b.task.worker.lend(); lent != 1 {
		t.Error("its place isn't lent for its own trouble")
	}
}

// TestX6_NoStartAfterTheDeadline: a builder that stands in line for room is not started
// once the deadline of its dispatch is over. The lease is given back, and no attempt is
// counted.
func TestX6_NoStartAfterTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = "version: 1\nbudgets: {build_timeout: 10s}\n" })
	b.reach(kernel.ActionClaim)
	b.task.worker.enter(DriveOptions{Admit: func([]string) bool { return false }})
	b.clock.advance(9_000)
	if st := b.tick(); !st.crowded {
		t.Errorf("before its deadline it stands %s", st.Decision.Standing)
	}
	b.clock.advance(4_000)
	st := b.tick()
	want(t, st, kernel.ActionRelease, kernel.OutcomeDone, kernel.CodeTaskInterrupted)
	if d := st.Decision; d.Attempt != 1 || d.Interruptions != 1 || len(b.exec.builds) != 0 {
		t.Errorf("attempt %d, %d interruptions, %d builds", d.Attempt, d.Interruptions, len(b.exec.builds))
	}
}
