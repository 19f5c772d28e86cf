package supervisor

import (
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestX8_NoClaimWithoutRoom: a task for whose builder there is no room is not
// claimed, and nothing is recorded of it; with room it goes its way.
func TestX8_NoClaimWithoutRoom(t *testing.T) {
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
