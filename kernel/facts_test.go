package kernel_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

func TestFacts_NewerAct(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", false}, {"5/event:1", "", true}, {"", "5/event:1", false}, {"5/event:1", "5/event:1", false},
		{"6/comment:1", "5/event:9", true}, {"5/event:9", "6/comment:1", false}, {"5/comment:2", "5/event:1", true},
		{"junk", "5/event:1", false}, {"5/event:1", "junk", true}, {"10/event:1", "9/event:1", true},
	} {
		if got := kernel.NewerAct(c.a, c.b); got != c.want {
			t.Errorf("NewerAct(%q, %q) is %v", c.a, c.b, got)
		}
	}
}
