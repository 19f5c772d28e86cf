package supervisor

import (
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// TestI4_WithoutTheRight: what accounts do that may not approve claims nothing and
// starts nothing, whatever they are called; the permission is the forge's of now, by
// the account's number, at the approval and once more right before the start.
func TestI4_WithoutTheRight(t *testing.T) {
	t.Parallel()
	const terms = "version: 1\ntrigger: {bots: [\"release[bot]\"]}\n"
	for name, c := range map[string]struct {
		login   string
		kind    forge.Kind
		has     forge.Permission
		allowed bool
	}{
		"triage":                      {"tom", forge.Person, forge.Triage, false},
		"a bot that may write":        {"labeler[bot]", forge.Bot, forge.Write, false},
		"a person with a bot's name":  {"release", forge.Person, forge.Triage, false},
		"the bot that the rules name": {"release[bot]", forge.Bot, forge.Triage, true},
		"a writer":                    {"wanda", forge.Person, forge.Write, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, func(f *forged) { f.place.terms = terms })
			who := f.scene.AddUser(c.login, c.kind)
			f.scene.Grant(f.scene.Repo, who.ID, c.has)
			f.label(who)
			if c.allowed {
				f.until(kernel.StandFinal)
				return
			}
			f.wants(f.tick(), kernel.StandRefused, kernel.CodeAuthority)
			f.comment(who, "/writ run")
			f.wants(f.drive(), kernel.StandRefused, kernel.CodeAuthority)
			if head := f.ref(stateRef); head != "" || f.started() != 0 {
				t.Errorf("HEAD is %s, %d builders", head, f.started())
			}
			f.scene.Grant(f.scene.Repo, who.ID, forge.Admin)
			if c.kind == forge.Bot {
				f.wants(f.tick(), kernel.StandRefused, kernel.CodeAuthority)
				return
			}
			f.clock.advance(3_600_000)
			f.comment(who, "/writ run")
			f.reach(kernel.ActionClaim)
			f.scene.Grant(f.scene.Repo, who.ID, c.has)
			f.scene.Grant(f.scene.Repo, f.scene.AddUser(c.login+"-2", forge.Person).ID, forge.Admin)
			f.wants(f.tick(), kernel.StandActing, kernel.CodeAuthorityRevoked)
			if f.started() != 0 || f.trailer("aynig-state") != "waiting" {
				t.Errorf("%d builders, HEAD %s", f.started(), f.trailer("aynig-state"))
			}
		})
	}
}

// TestI16_NothingRuns: under a contract with a rule that nobody would keep
// nothing is claimed, and once the rule is out the same approval counts.
func TestI16_NothingRuns(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"mechanisms: [{deny: all}]", "overlap: wait", "evidence: digest", "paths: {tests: [tests/**]}"} {
		f := newForged(t, func(f *forged) { f.place.terms = "version: 1\n" + rule + "\n" })
		f.label(f.scene.Owner)
		f.wants(f.tick(), kernel.StandRefused, kernel.CodeGovernanceInvalid)
		if f.ref(stateRef) != "" || f.started() != 0 {
			t.Errorf("%s: it was claimed", rule)
		}
	}
}
