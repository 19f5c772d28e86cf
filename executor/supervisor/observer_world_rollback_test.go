package supervisor

import (
	"strings"
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// unequipped is an installation whose checks lack a host, as the base's do.
type unequipped struct {
	*forged
	lacks  bool
	more   []kernel.Violation // what else a check says
	checks int
}

const lackedWords = "It fails on the base as well, and both lack the same: the host proxy.golang.org."

func newUnequipped(t *testing.T, change func(*forged)) *unequipped {
	u := &unequipped{lacks: true}
	u.forged = newTold(t, func(f *forged) {
		f.place.terms = strings.Replace(guardedTerms, "paths: {guarded: [out.txt]}\n", "", 1)
		f.exec.build = edits(t, map[string]string{"out.txt": hidden}, nil)
		f.exec.check = func(job executor.CheckJob) executor.CheckOutcome {
			u.checks++
			out := passed(job)
			if !u.lacks {
				return out
			}
			k := &out.Run.Checks[0]
			k.Passed, k.Exit.Code = false, 1
			k.OnBase, k.Lacks = &kernel.Exit{Code: 1, Cause: kernel.CauseExited}, &kernel.Lack{Code: kernel.CodeLacksNetwork, What: "proxy.golang.org"}
			out.Violations = append([]kernel.Violation{{Code: kernel.CodeLacksNetwork, Subject: "test", Detail: lackedWords}}, u.more...)
			return out
		}
		if change != nil {
			change(f)
		}
	})
	return u
}

// stays fails unless the work waits for what its checks lack.
func (u *unequipped) stays(st Status, builds, checks int, interruptions string) {
	u.t.Helper()
	if st.Decision.Standing != kernel.StandWaiting || u.trailer("writ-waiting-for") != kernel.WaitEnvironment {
		u.t.Errorf("it stands %s, %v, and HEAD waits for %q", st.Decision.Standing, st.Decision.Codes, u.trailer("writ-waiting-for"))
	}
	if u.started() != builds || u.checks != checks || u.trailer("writ-attempt") != "1" || u.trailer("writ-interruptions") != interruptions {
		u.t.Errorf("%d builds, %d runs of checks, attempt %s, interruptions %s", u.started(), u.checks, u.trailer("writ-attempt"), u.trailer("writ-interruptions"))
	}
	u.sound()
}

// TestK11_WorkWaitsForWhatItsChecksLack: where the base's checks lack the same, the work
// waits with what it is, no attempt is counted and no other builder paid. The issue says
// what is lacking. Once the operator has mended it, the checks alone run again, and what
// comes out verifies.
func TestK11_WorkWaitsForWhatItsChecksLack(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(*unequipped){
		"configuration": func(u *unequipped) {
			u.task.Close()
			u.sup = u.sup.With(u.sup.cfg, u.sup.deps)
			var err error
			u.task, err = u.sup.Open(u.t.Context(), 1, nil)
			must(u.t, err)
		},
		"restart": func(u *unequipped) { u.open() },
		"resume": func(u *unequipped) {
			must(u.t, u.sup.Resume(u.t.Context(), 1, "ops", "installed it"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnequipped(t, nil)
			other := u.another()
			u.stays(u.drive(), 1, 1, "1")
			said := u.marked("task")[0].Body
			for _, want := range []string{"waits for what its checks lack", string(kernel.CodeLacksNetwork), "proxy.golang.org", "`hosts`"} {
				if !strings.Contains(said, want) {
					t.Errorf("the issue doesn't say %s:\n%s", want, said)
				}
			}
			if u.ref(changeRef) != "" {
				t.Error("it has a change branch")
			}
			st := u.later()
			if u.stays(st, 1, 1, "1"); st.Wake != u.clock.Now().WallMs+baseAgain.Milliseconds() {
				t.Errorf("it is looked at again at %d", st.Wake)
			}
			if st := other.tick(); st.Decision.Action != kernel.ActionNone {
				t.Errorf("another installation does %s", st.Decision.Action)
			}
			u.clock.advance(60_000)
			mend(u)
			u.stays(u.drive(), 1, 2, "1") // nobody had: the checks alone were run
			u.lacks = false
			u.clock.advance(60_000)
			mend(u)
			u.wants(u.drive(), kernel.StandFinal)
			if u.started() != 1 || u.checks != 3 || u.trailer("writ-attempt") != "1" {
				t.Errorf("%d builds, %d runs of checks, attempt %s", u.started(), u.checks, u.trailer("writ-attempt"))
			}
			u.verify(stateRef)
		})
	}
}

// TestK8_LackingPaysNoBuilderWithoutEnd: another commit on the base has the work done anew,
// since it may bring what is lacking, but only as often as there are attempts; another
// contract does so as often as there are interruptions. Then a person is asked.
func TestK8_LackingPaysNoBuilderWithoutEnd(t *testing.T) {
	t.Parallel()
	u := newUnequipped(t, func(f *forged) { f.place.terms += "budgets: {interruptions: 4}\n" })
	u.drive()
	for i := range 5 {
		u.based(map[string]string{"other": strings.Repeat("x", i+1)})
		u.clock.advance(3_600_000)
		u.drive()
	}
	u.stays(u.later(), 3, 3, "3")
	for i := range 4 {
		u.place.terms += "# " + strings.Repeat("x", i) + "\n"
		u.open()
		u.clock.advance(3_600_000)
		u.drive()
	}
	if u.trailer("aynig-state") != "blocked" || u.started() != 5 {
		t.Errorf("HEAD is %s after %d builds", u.trailer("aynig-state"), u.started())
	}
	u.sound()
}

// TestK8_LackingBesideAFailure: what the change itself fails counts as ever, whatever else
// is lacking.
func TestK8_LackingBesideAFailure(t *testing.T) {
	t.Parallel()
	u := newUnequipped(t, nil)
	u.more = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "vet", Detail: "The check ended with exit status 2."}}
	st := u.reach(kernel.ActionResult)
	if st.Decision.State != kernel.TaskRetryPending || u.trailer("aynig-state") != "retry_pending" || u.trailer("writ-interruptions") == "1" {
		t.Errorf("it is %s, %v", st.Decision.State, st.Decision.Codes)
	}
}

// TestP10_LackingWorkAndAPerson: what takes an approval back ends that wait, and who
// approves anew has the work done anew.
func TestP10_LackingWorkAndAPerson(t *testing.T) {
	t.Parallel()
	u := newUnequipped(t, nil)
	u.drive()
	u.lacks = false
	u.comment(u.scene.Owner, "/writ retry")
	u.wants(u.later(), kernel.StandFinal)
	if u.started() != 2 {
		t.Errorf("%d builds", u.started())
	}
	u.verify(stateRef)
	for name, c := range takings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnequipped(t, nil)
			other := u.another()
			u.drive()
			c.act(u.forged)
			u.wants(u.reach(kernel.ActionWait), kernel.StandActing, c.code)
			if u.trailer("writ-waiting-for") != kernel.WaitApproval {
				t.Errorf("HEAD waits for %q", u.trailer("writ-waiting-for"))
			}
			c.undo(u.forged)
			u.waits(other, 1)
		})
	}
}
