package webhook

import "testing"

// TestI17_TaskOfChange: a number that no record holds is no task's, in a description and in
// the name of a ref.
func TestI17_TaskOfChange(t *testing.T) {
	for number, want := range map[string]int64{"7": 7, "9007199254740991": 9007199254740991, "9007199254740992": 0, "9223372036854775807": 0, "07": 0} {
		if got := TaskOfChange("<!-- writ:task:local/1:" + number + " run=r -->\nIt is done."); got != want {
			t.Errorf("%s in a description: task %d", number, got)
		}
		if got := taskOfRef("refs/heads/writ/change/" + number); got != want {
			t.Errorf("%s in a ref: task %d", number, got)
		}
	}
}
