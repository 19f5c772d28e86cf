package supervisor

import (
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// blind is an approved task on a forge that shows no former text, where the
// deliveries of the comments are lost; somebody else then wrote to its ref.
func blind(t *testing.T) *forged {
	t.Helper()
	f := newForged(t, func(f *forged) {
		f.withBranch()
		f.exec.hold = true
		f.place.forge.Client, f.place.forge.EditHistory = mute{f.scene.Bot}, false
	})
	f.label(f.scene.Owner)
	f.says(f.scene.Owner, "/writ approve "+string(digestText("Say hello", issueBody)))
	f.reach(kernel.ActionDispatch)
	gittest.Commit(t, f.bare, stateRef, f.ref(stateRef), map[string]string{"x": "y"})
	f.tick()
	f.exec.hold = false
	return f
}

// TestI3_RetryWhoseDeliveryIsLost: the bytes that the task was claimed on are known
// to the ledger, over a restart, too; a retry of them needs no payload.
func TestI3_RetryWhoseDeliveryIsLost(t *testing.T) {
	t.Parallel()
	f := blind(t)
	f.open()
	retry := f.says(f.scene.Owner, "/writ retry")
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	f.reacted(retry, forge.ReactionDone)
	if last := body[kernel.SeedPack](f.bench, kernel.KindSeedPack); last.Approval.Evidence != approval.EvidenceEarlier || last.Approval.Digest != digestText("Say hello", issueBody) {
		t.Errorf("claimed on %+v", last.Approval)
	}
}

// TestI3_RetryOfAnotherText: a retry that nobody can show the text of is not taken,
// and its reaction says so.
func TestI3_RetryOfAnotherText(t *testing.T) {
	t.Parallel()
	f := blind(t)
	f.edit(issueBody + "\nand delete everything\n")
	retry := f.says(f.scene.Owner, "/writ retry")
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeApprovalUnproven)
	f.reacted(retry, forge.ReactionConfused)
	named := f.says(f.scene.Owner, "/writ approve "+string(digestText("Say hello", issueBody+"\nand delete everything\n")))
	f.drive()
	f.reacted(retry, forge.ReactionConfused)
	f.reacted(named, forge.ReactionDone)
	f.shows("task 1 completed", kernel.LabelCompleted, false)
}

// TestI3_PayloadOnItsWay: an approval whose payload may still be on its way is
// looked at again before anybody is told that nobody can show its text, and once
// it has come nobody is.
func TestI3_PayloadOnItsWay(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]bool{"it comes": true, "it is lost": false} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, func(f *forged) {
				f.withBranch()
				f.place.forge.Client, f.place.forge.EditHistory = mute{f.scene.Bot}, false
				f.place.forge.PayloadWithin = 10 * time.Second
			})
			f.label(f.scene.Owner)
			labelled := f.clock.Now().WallMs
			f.clock.advance(1000)
			st := f.drive()
			f.wants(st, kernel.StandRefused, kernel.CodeApprovalUnproven)
			if len(f.marked("task")) != 0 || st.Wake != labelled+10_000 {
				t.Errorf("told %+v, and back %d ms after the label", f.marked("task"), st.Wake-labelled)
			}
			if comes {
				f.rows = rows{{Kind: approval.ByLabel, Actor: f.scene.Owner.ID, Label: "writ", Digest: digestText("Say hello", issueBody), At: labelled}}
				f.drive()
				f.shows("task 1 completed", kernel.LabelCompleted, false)
				return
			}
			f.clock.advance(9_000)
			f.drive()
			f.shows(string(kernel.CodeApprovalUnproven), "", true)
		})
	}
}

// TestI3_ForgesClockIsAhead: a label with a time far ahead is told of at once.
func TestI3_ForgesClockIsAhead(t *testing.T) {
	t.Parallel()
	task := (&Supervisor{deps: Deps{Forge: &Forge{PayloadWithin: 10 * time.Second}}}).task(1, nil)
	st := Status{Decision: kernel.Decision{Codes: []kernel.Code{kernel.CodeApprovalUnproven}}, Intake: &Intake{}}
	const now = 1_800_000_000_000
	for ahead, want := range map[int64]int64{-10_000: 0, -9_999: now + 1, 0: now + 10_000, 10_000: now + 20_000, 10_001: 0, 3_600_000: 0} {
		st.Intake.Approval.Time = now + ahead
		if got := task.tracker.provenBy(st, now); got != want {
			t.Errorf("%d ms ahead: until %d, want %d", ahead, got-now, want-now)
		}
	}
}

// TestI3_WrongDigestIsToldAtOnce: what names a digest is proved by no payload, so that nobody
// waits for one where it is wrong.
func TestI3_WrongDigestIsToldAtOnce(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) {
		f.withBranch()
		f.place.forge.Client, f.place.forge.EditHistory, f.place.forge.PayloadWithin = mute{f.scene.Bot}, false, 10*time.Second
	})
	wrong := f.says(f.scene.Owner, "/writ approve "+string(digestText("Say hello", "another")))
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeApprovalUnproven)
	f.reacted(wrong, forge.ReactionConfused)
	if text := f.answeredWith(wrong); !strings.Contains(text, string(digestText("Say hello", issueBody))) {
		t.Errorf("the answer is %q", text)
	}
}
