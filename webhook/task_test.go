package webhook

import "testing"

// TestTaskOfRef: a branch belongs to a task by the number that ends it, written as a number
// is; one that no record holds is no task's.
func TestTaskOfRef(t *testing.T) {
	for ref, want := range map[string]int64{
		"refs/heads/writ/change/7":                   7,
		"refs/heads/writ/task/7":                     7,
		"refs/heads/writ/change/9007199254740991":    9007199254740991,
		"refs/heads/writ/change/9007199254740992":    0,
		"refs/heads/writ/change/9223372036854775808": 0,
		"refs/heads/writ/change/07":                  0,
		"refs/heads/writ/change/0":                   0,
		"refs/heads/writ/change/-7":                  0,
		"refs/heads/writ/change/7/8":                 0,
		"refs/heads/main":                            0,
		"refs/tags/writ/change/7":                    0,
		"":                                           0,
	} {
		if got := taskOfRef(ref); got != want {
			t.Errorf("%s: task %d", ref, got)
		}
	}
}
