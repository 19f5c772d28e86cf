package worlds

import (
	"testing"

	"github.com/writbot/writ/compliance/worldref"
)

// TestL18_SpokenOf: which world a clone's acts are of, a listed key says, whatever somebody
// else pushed after it.
func TestL18_SpokenOf(t *testing.T) {
	act := func(world, signer, fault string) worldref.Entry {
		return worldref.Entry{Signer: signer, Fault: fault, Act: worldref.Act{World: world}}
	}
	listed := func(s string) bool { return s == "mine" }
	for want, acts := range map[string][]worldref.Entry{
		"here":    nil,
		"new":     {act("old", "mine", ""), act("new", "mine", ""), act("theirs", "eve", ""), act("x", "mine", "it is no act")},
		"theirs":  {act("first", "eve", ""), act("theirs", "eve", ""), act("x", "", "")},
		"rebound": {act("eve's", "eve", ""), act("rebound", "mine", "")},
	} {
		if got := spokenOf(acts, listed, "here"); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
}
