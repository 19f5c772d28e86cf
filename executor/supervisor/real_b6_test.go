package supervisor

import (
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
)

// neitherBranchesNorWork is a server's rule against branches and against sealed work.
const neitherBranchesNorWork = `while read old new ref; do
case $ref in refs/heads/*) echo "policy 7: bots may not make branches" >&2; exit 1;; esac
git cat-file -e $new:sealed.json 2>/dev/null && { echo "policy 8: no foreign files" >&2; exit 1; }
done; exit 0`

// toWait drives A under a rule until its result waits for that.
func (r *rivals) toWait(rule string) Status {
	r.t.Helper()
	r.hook(rule)
	return r.a.tickTo(func(st Status) bool {
		return st.Decision.Standing == kernel.StandDue && st.Decision.WaitingFor == kernel.WaitRule
	}, "waits for a rule")
}

// TestB6_ARuleAndAKill: work that a rule refuses outlives its process, sealed or not: the
// next one over the same store goes on with it at once, at the rule's pace from there, and
// no builder runs again. It counts nothing, however often that happens and however long
// nobody was there. Once the rule is mended it is delivered, and verifies.
func TestB6_ARuleAndAKill(t *testing.T) {
	t.Parallel()
	for i, rule := range []string{noBranches, neitherBranchesNorWork} {
		for n, terms := range []string{"", checkTerms} {
			for k, away := range []time.Duration{0, 3 * time.Hour} {
				if !noTurns() && (i+n+k)%2 > 0 { // the suite has each two of them together once
					continue
				}
				r := newRivals(t)
				r.a.place.terms = terms
				r.a.open()
				r.toWait(rule)
				for range 2 { // the second time from what the first one left
					r.a.clock.advance(away.Milliseconds())
					r.a.open()
					if st := r.a.tick(); st.Decision.Action != kernel.ActionClaim || st.Decision.Resumes == "" || st.Decision.Interruptions != 0 {
						t.Fatalf("%q after %s: %s resumes %q, %d interruptions", terms, away, st.Decision.Action, st.Decision.Resumes, st.Decision.Interruptions)
					}
					st := r.toWait(rule)
					if left := st.Decision.Wake - r.a.clock.Now().WallMs; left <= 0 || left > ruleSoon.Milliseconds() {
						t.Errorf("%q after %s: the next try is in %d ms", terms, away, left)
					}
				}
				r.hook("exit 0")
				if away > 0 {
					r.a.open()
				}
				r.a.until(kernel.StandFinal)
				delivered(t, r.bare)
				r.a.verify(stateRef)
				if n := len(r.a.exec.builds); n != 1 || r.said("log", "-1", "--format=%(trailers:key=writ-interruptions,valueonly)", stateRef) != "0" {
					t.Errorf("%q after %s: %d builds", terms, away, n)
				}
				if of, _, err := r.a.sup.deps.Shelf.Get(t.Context(), 1); err != nil || of != "" {
					t.Errorf("%q after %s: the store still keeps the work of run %s, %v", terms, away, of, err)
				}
			}
		}
	}
}

// TestB6_AnotherBuildsAnew: an installation that has no such store builds anew when who
// had the work stayed away for too long. Who comes back then leaves it alone, and what he
// keeps is of no more use.
func TestB6_AnotherBuildsAnew(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		r := newRivals(t)
		r.toWait(noBranches)
		r.a.close()
		if st := r.b.tick(); st.Decision.Standing != kernel.StandDue {
			t.Fatalf("B finds it %s", st.Decision.Standing)
		}
		r.b.clock.advance(kernel.RuleLeft + 1000)
		r.hook("exit 0")
		if want(t, r.b.tick(), kernel.ActionClaim, kernel.OutcomeDone); done {
			r.b.until(kernel.StandFinal)
		}
		head := r.head()
		r.a.open()
		standing := kernel.StandHeld
		if done {
			standing = kernel.StandFinal
		}
		for range 3 {
			if st := r.a.tick(); st.Decision.Standing != standing || st.Decision.Action != kernel.ActionNone || r.head() != head {
				t.Errorf("A finds it %s and does %s", st.Decision.Standing, st.Decision.Action)
			}
		}
		r.b.until(kernel.StandFinal)
		delivered(t, r.bare)
		r.b.verify(stateRef)
		if a, b := len(r.a.exec.builds), len(r.b.exec.builds); a != 1 || b != 1 {
			t.Errorf("A builds %d times, B %d times", a, b)
		}
	}
}
