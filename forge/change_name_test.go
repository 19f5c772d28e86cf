package forge_test

import (
	"testing"

	"github.com/writbot/writ/forge"
)

// TestF7_ChangeNumber: a name that people write for a change leads back to its number, and
// nothing else leads to one.
func TestF7_ChangeNumber(t *testing.T) {
	for _, n := range []int64{1, 9, forge.MergeRequests + 1, forge.MergeRequests + 9} {
		if got := forge.ChangeNumber(forge.ChangeName(n)); got != n {
			t.Errorf("%s is %d", forge.ChangeName(n), got)
		}
	}
	for _, name := range []string{"", "#", "!", "9", "#09", "#-1", "!-1", "#1x", "#0", "#9223372036854775808", "!9223372036854775807", "deadbeef"} {
		if got := forge.ChangeNumber(name); got != 0 {
			t.Errorf("%q is %d", name, got)
		}
	}
}
