package status

import (
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestM2_HaltedBy: who halted a task is whoever did so since it was last resumed.
func TestM2_HaltedBy(t *testing.T) {
	var list []kernel.Record
	for _, c := range []struct{ act, actor, want string }{{kernel.ActHalt, "ana", "ana"}, {kernel.ActResume, "bob", ""}, {kernel.ActHalt, "tim", "tim"}} {
		body, err := canon.Marshal(kernel.OperatorAct{Kind: string(kernel.KindOperatorAct), Act: c.act, Actor: c.actor})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, kernel.Record{Kind: kernel.KindOperatorAct, Body: body})
		by, err := haltedBy(func(yield func(kernel.Record, error) bool) {
			for _, r := range list {
				if !yield(r, nil) {
					return
				}
			}
		})
		if err != nil || by != c.want {
			t.Errorf("after %s by %s: %q, %v", c.act, c.actor, by, err)
		}
	}
}
