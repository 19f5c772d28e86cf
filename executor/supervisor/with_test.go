package supervisor

import (
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
)

// TestI6_AnotherAccount: a supervisor that goes on with another credential asks whose
// it is: the comments of the account before are not its own, and its new ones are.
func TestI6_AnotherAccount(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	if u, err := f.sup.self(t.Context()); err != nil || u.ID != f.scene.Robot.ID {
		t.Fatalf("it is %v, %v", u, err)
	}
	deps, hand := f.sup.deps, *f.sup.deps.Forge
	hand.Client = f.scene.Owner
	deps.Forge = &hand
	u, err := f.sup.With(f.sup.cfg, deps).self(t.Context())
	if err != nil || u.ID != f.scene.Owner.ID {
		t.Errorf("with another credential it still takes itself for %v, %v", u, err)
	}
	f.scene.Bot.Fail(forgetest.On(forgetest.Self), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
	if u, err := f.sup.self(t.Context()); err != nil || u.ID != f.scene.Robot.ID {
		t.Errorf("the one before is %v, %v", u, err)
	}
}
