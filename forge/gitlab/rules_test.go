package gitlab

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestProtection_Covers: a star stands for any text, slashes included, and the
// rest for itself.
func TestProtection_Covers(t *testing.T) {
	for _, c := range []struct {
		name, branch string
		want         bool
	}{
		{"main", "main", true}, {"main", "maintenance", false}, {"writ/*", "writ/change/1", true}, {"*", "writ/change/1", true},
		{"*-stable", "v1-stable", true}, {"v1.0", "v1x0", false}, {"WRIT/*", "writ/change/1", false},
	} {
		if got := (Protection{Name: c.name}).Covers(c.branch); got != c.want {
			t.Errorf("%s covers %s: %t", c.name, c.branch, got)
		}
	}
}

// TestProtection_Admits: by level or by account; groups and keys aren't guessed.
func TestProtection_Admits(t *testing.T) {
	const me, level = 7, 30
	for _, c := range []struct {
		name string
		push []AccessLevel
		want bool
	}{
		{"nobody", []AccessLevel{{Level: 0}}, false},
		{"developers", []AccessLevel{{Level: 30}}, true},
		{"maintainers", []AccessLevel{{Level: 40}}, false},
		{"me", []AccessLevel{{Level: 40}, {User: me}}, true},
		{"somebody else", []AccessLevel{{Level: 30, User: 8}}, false},
		{"a group", []AccessLevel{{Level: 30, Group: 3}}, false},
		{"a key", []AccessLevel{{Level: 30, Key: 3}}, false},
	} {
		if got := (Protection{Push: c.push}).Admits(me, level); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestProtections: what protects branches and what is asked of commits is read by
// who may, and kept from others.
func TestProtections(t *testing.T) {
	w := newWorld(t)
	w.Protect(w.repo.ID, gitlabtest.Protected{Name: "writ/*", Push: gitlabtest.Maintainer, User: w.bot.user.ID})
	if _, err := w.bot.host.Protections(t.Context(), w.repo); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("a Developer is shown the protected branches: %v", err)
	}
	w.SetMember(w.repo.ID, w.bot.user.ID, gitlabtest.Maintainer)
	got := must[[]Protection](t)(w.bot.host.Protections(t.Context(), w.repo))
	want := []Protection{{Name: "main", Push: []AccessLevel{{Level: gitlabtest.Maintainer}}}, {Name: "writ/*", Push: []AccessLevel{{Level: gitlabtest.Maintainer}, {User: w.bot.user.ID}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("protected branches (-want +got):\n%s", d)
	}
	if _, err := w.bot.host.PushRules(t.Context(), w.repo); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("there are push rules: %v", err)
	}
	w.SetPushRule(w.repo.ID, gitlabtest.PushRule{Signed: true, Branch: "^main$"})
	if got := must[PushRules](t)(w.bot.host.PushRules(t.Context(), w.repo)); got != (PushRules{Signed: true, Branch: "^main$"}) {
		t.Errorf("push rules %+v", got)
	}
	for user, want := range map[int64]int{w.owner.user.ID: gitlabtest.Owner, w.bot.user.ID: gitlabtest.Maintainer, 999_999: 0} {
		if got := must[int](t)(w.bot.host.Level(t.Context(), w.repo, user)); got != want {
			t.Errorf("account %d has the level %d, want %d", user, got, want)
		}
	}
}

// TestHook_Missing: the events that a hook lacks, in the words of GitLab's page.
func TestHook_Missing(t *testing.T) {
	if got := (Hook{Push: true, Issues: true, Notes: true, Merges: true}).Missing(); len(got) > 0 {
		t.Errorf("missing are %v", got)
	}
	if d := cmp.Diff([]string{"Issues events", "Comments"}, (Hook{Push: true, Merges: true}).Missing()); d != "" {
		t.Errorf("missing (-want +got):\n%s", d)
	}
}
