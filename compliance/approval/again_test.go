package approval_test

import (
	"testing"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// TestI3_RetryOfTheSameBytes: a retry whose payload was lost has the bytes done
// again that the task was last claimed on, if the ledger holds that approval, the
// text is the same, and nothing speaks of another one or of a change of mind since.
func TestI3_RetryOfTheSameBytes(t *testing.T) {
	unproven := string(kernel.CodeApprovalUnproven)
	retried := func(change func(*approval.Facts)) func(*approval.Facts) {
		return func(f *approval.Facts) {
			f.Rows = nil
			f.Comments = []forge.Comment{says(20, ana, 10, "/writ retry")}
			f.Earlier = kernel.Approval{Digest: digestA, Actor: "2:ana", Evidence: approval.EvidenceNamed, Time: at(2).UnixMilli()}
			if change != nil {
				change(f)
			}
		}
	}
	edit := func(s int) func(*approval.Facts) {
		return retried(func(f *approval.Facts) { f.History = append(f.History, event(11, forge.EventEdited, rita, s)) })
	}
	refused := func(name string, change func(*approval.Facts)) row {
		return row{name, change, approval.Retry, "2:ana", "", "", unproven, false}
	}
	counts := func(name string, change func(*approval.Facts)) row {
		return row{name, change, approval.Retry, "2:ana", approval.EvidenceEarlier, digestA, "", false}
	}
	also := func(c forge.Comment) func(*approval.Facts) {
		return retried(func(f *approval.Facts) { f.Comments = append([]forge.Comment{c}, f.Comments...) })
	}
	check(t, []row{
		counts("the same text", retried(nil)),
		counts("an edit before the approval", edit(1)),
		refused("a stop by somebody who wasn't asked about", also(says(19, rita, 5, "/writ stop"))),
		counts("a stop before the approval", also(says(19, ana, 1, "/writ stop"))),
		counts("closed and put back open since", retried(func(f *approval.Facts) {
			f.History = append(f.History, event(11, forge.EventClosed, rita, 5), event(12, forge.EventReopened, ana, 6))
		})),
		refused("nothing is known of before", retried(func(f *approval.Facts) { f.Earlier = kernel.Approval{} })),
		refused("another text now", retried(func(f *approval.Facts) { f.Digest = digestB })),
		refused("the approval had no evidence", retried(func(f *approval.Facts) { f.Earlier.Evidence = "local" })),
		refused("the approval is later", retried(func(f *approval.Facts) { f.Earlier.Time = at(11).UnixMilli() })),
		refused("an edit that was undone", edit(5)),
		refused("an edit at the time of the approval", edit(2)),
		refused("it was stopped since", also(says(19, ana, 5, "/writ stop"))),
		refused("its label was taken off since", retried(func(f *approval.Facts) {
			f.History = append(f.History, event(11, forge.EventUnlabeled, rita, 5), event(12, forge.EventLabeled, ana, 6))
		})),
		{"a run", retried(func(f *approval.Facts) { f.Comments[0].Body = "/writ run" }), approval.Run, "2:ana", "", "", unproven, false},
		{"a label", retried(func(f *approval.Facts) {
			f.Comments, f.History = nil, []forge.Event{event(12, forge.EventLabeled, ana, 10)}
		}), approval.Labeled, "2:ana", "", "", unproven, false},
		{"a stranger's retry", retried(func(f *approval.Facts) { f.Comments[0].Author = rita }), approval.Labeled, "2:ana", "", "", unproven, false},
	})
}

// TestI3_AStrangersStop: somebody of whom the forge said that he may not has taken
// nothing back.
func TestI3_AStrangersStop(t *testing.T) {
	f := approved()
	f.Rows = nil
	f.Comments = []forge.Comment{says(19, rita, 5, "/writ stop"), says(20, ana, 10, "/writ retry")}
	f.Earlier = kernel.Approval{Digest: digestA, Evidence: approval.EvidenceNamed, Time: at(2).UnixMilli()}
	f.Permissions = map[int64]forge.Permission{ana.ID: forge.Admin, rita.ID: forge.Read}
	if v := approval.Judge(f); v.Approval.Evidence != approval.EvidenceEarlier {
		t.Errorf("approved %+v, though only a stranger said stop", v.Approval)
	}
}
