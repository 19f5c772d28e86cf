package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// ruledFor drives a task under a rule until it waits at least so long before it is tried
// again, and leaves it.
func (b *bench) ruledFor(least time.Duration) {
	b.t.Helper()
	for {
		st := b.until(kernel.StandDue)
		left := st.Decision.Wake - b.clock.Now().WallMs
		if left >= least.Milliseconds() {
			b.task.Close()
			return
		}
		b.clock.advance(left)
	}
}

// again opens a task anew in the same process.
func (b *bench) again(n int64) {
	b.t.Helper()
	var err error
	b.task, err = b.sup.Open(b.t.Context(), n, b.issue)
	must(b.t, err)
}

// TestG6_ARuleMayBeMended: another configuration or contract, a restart, and once that
// another task got through, have what waits for a rule tried again, a claim and a result,
// and not before the least wait.
func TestG6_ARuleMayBeMended(t *testing.T) {
	t.Parallel()
	const noText = `while read old new ref; do git cat-file -e $new:seed_pack.json 2>/dev/null && { echo "policy 9" >&2; exit 1; }; done; exit 0`
	hints := map[string]func(*bench){
		"configuration": func(b *bench) { b.sup = b.sup.With(b.sup.cfg, b.sup.deps) },
		"contract":      func(b *bench) { b.sup.RulesMayBeMended() },
		"another":       func(b *bench) { b.sup.gotThrough() },
		"restart":       func(b *bench) { b.open(); b.task.Close() },
	}
	for name, hint := range hints {
		for rule, what := range map[string]kernel.Action{noBranches: kernel.ActionResult, noText: kernel.ActionClaim} {
			if name == "another" && rule == noText {
				continue // it is this task's text
			}
			t.Run(name+" "+string(what), func(t *testing.T) {
				b := newBench(t, newRepo(t), func(b *bench) { b.exec.hold = true })
				gittest.Hook(t, b.bare, "pre-receive", rule)
				b.ruledFor(10 * time.Minute)
				if b.again(1); b.tick().Decision.Standing != kernel.StandDue {
					t.Fatal("nothing is waited for")
				}
				b.task.Close()
				b.clock.advance(ruleSoon.Milliseconds())
				hint(b)
				b.again(1)
				st := b.tick()
				acted := st.Decision.Action
				if name == "restart" && what == kernel.ActionResult {
					what = kernel.ActionClaim // goes on with the work
				}
				if acted != what {
					t.Fatalf("%s, %q comes then: %v %v", st.Decision.Standing, acted, st.Decision.Violations, st.Facts.Sealed)
				}
				if b.until(kernel.StandDue); name == "another" {
					b.task.Close()
					b.clock.advance(ruleSoon.Milliseconds())
					hint(b)
					b.again(1)
				}
				for range 3 {
					if st := b.tick(); st.Decision.Standing != kernel.StandDue {
						t.Fatalf("then it is %s", st.Decision.Action)
					}
				}
				gittest.Hook(t, b.bare, "pre-receive", "exit 0")
				b.until(kernel.StandFinal)
				delivered(t, b.bare)
			})
		}
	}
}

// TestG6_TheLeastWaitIsKept: however often a rule may have been mended, work is pushed
// again once the least wait after its last try is over, and not before.
func TestG6_TheLeastWaitIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.hold = true })
	gittest.Hook(t, b.bare, "pre-receive", noBranches)
	b.ruledFor(10 * time.Minute)
	b.clock.advance(ruleSoon.Milliseconds() / 2)
	for range 3 {
		b.sup.RulesMayBeMended()
		if b.again(1); b.tick().Decision.Standing != kernel.StandDue {
			t.Fatal("it is tried again at once")
		}
		b.task.Close()
	}
	b.clock.advance(ruleSoon.Milliseconds() / 2)
	if b.again(1); b.tick().Decision.Action != kernel.ActionResult {
		t.Error("it isn't tried again after the least wait")
	}
}

// TestG6_WhoGotThroughWakesTheOthers: a result that the server took wakes those that a rule
// refused, and those whose account was refused.
func TestG6_WhoGotThroughWakesTheOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.hold = true })
	var woken []int64
	b.sup.deps.Healed = func(tasks []int64) { woken = append(woken, tasks...) }
	gittest.Hook(t, b.bare, "pre-receive", `while read old new ref; do case $ref in refs/heads/writ/change/1) echo "policy 7" >&2; exit 1;; esac; done; exit 0`)
	b.ruledFor(time.Minute)
	b.sup.denied[3] = true
	b.again(2)
	b.until(kernel.StandFinal)
	if slices.Sort(woken); !slices.Equal(woken, []int64{1, 3}) {
		t.Errorf("woken: %v", woken)
	}
}

// TestG6_TheServersWords: who shows why a task waits has the server's words, of a result
// and of a claim that is refused.
func TestG6_TheServersWords(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{noBranches, `while read old new ref; do git cat-file -e $new:seed_pack.json 2>/dev/null && { echo "policy 7: bots may not make branches" >&2; exit 1; }; done; exit 0`} {
		r := newRivals(t)
		const words = "policy 7: bots may not make branches"
		if got, is := r.toWait(rule).Rule(); !is || !strings.Contains(got, words) {
			t.Errorf("it says %q, %t", got, is)
		}
		if got, is := r.b.tick().Rule(); !is || !strings.HasSuffix(got, "declined\n"+words) {
			t.Errorf("another says %q, %t", got, is)
		}
		r.hook("exit 0")
		r.a.clock.advance(time.Hour.Milliseconds())
		if got, is := r.a.until(kernel.StandFinal).Rule(); is || got != "" {
			t.Errorf("when it is done, it says %q", got)
		}
	}
}
