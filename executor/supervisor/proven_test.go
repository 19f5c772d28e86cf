package supervisor

import (
	"testing"

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
