package supervisor

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestP10_UnansweredClaimIsTakenBack: a person takes the approval back while a claim is
// without its answer. Nothing is built, and wherever the claim came to the repository the
// issue says so, by the process that made it or the next one; else nothing was claimed, and
// a command has its reaction.
func TestP10_UnansweredClaimIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range withdrawals {
		for _, when := range []string{"while it hangs", "later", "killed", "killed, and it arrives"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				f, u := newUnsent(t, kernel.ActionClaim, nil)
				if u.away = true; when == "while it hangs" {
					u.away, u.meanwhile = false, func() { c.act(f) }
				}
				f.drive()
				if u.away {
					c.act(f)
				}
				switch when {
				case "killed, and it arrives":
					if out := u.Repo.CompareAndSwap(t.Context(), u.first, u.pack); out.Err != nil {
						t.Fatal(out.Err)
					}
					f.open()
				case "killed":
					f.open()
				}
				u.away = false
				f.later()
				f.later()
				if f.started() > 0 || f.trailer("aynig-state") == kernel.HeadWorking {
					t.Errorf("%d builders, HEAD is %s", f.started(), f.trailer("aynig-state"))
				}
				if told := len(f.marked("task")) == 1; !told || gittest.RefOID(f.bare, stateRef) == "" {
					t.Fatalf("the issue is told %t, HEAD is %q", told, f.trailer("aynig-state"))
				} else if !strings.Contains(f.marked("task")[0].Body, "`"+string(c.code)+"`") {
					t.Errorf("the issue says %s", f.marked("task")[0].Body)
				}
				list, err := f.scene.Owner.Comments(t.Context(), f.scene.Repo, 1)
				must(t, err)
				for _, k := range list {
					if k.Body == "/writ stop" {
						f.reacted(k.ID, forge.ReactionDone)
					}
				}
			})
		}
	}
}

// TestP10_TakenBackAndMovedOn: a process writes at HEAD that a person took the approval back,
// and dies before it tells. The issue hears of it though somebody moved on from that HEAD.
func TestP10_TakenBackAndMovedOn(t *testing.T) {
	t.Parallel()
	for name, c := range withdrawals {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) { f.exec.hold = true })
			f.reach(kernel.ActionDispatch)
			c.act(f)
			f.reach(kernel.ActionWait)
			f.open()
			must(t, f.sup.Resume(t.Context(), 1, "local:0:ana", "go on"))
			f.wants(f.later(), kernel.StandRefused, c.code)
			if list := f.marked("task"); len(list) != 1 || !strings.Contains(list[0].Body, "`"+string(c.code)+"`") {
				t.Errorf("the issue says %+v", list)
			}
		})
	}
}
