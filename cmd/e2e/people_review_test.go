package e2e

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/worldtest"
)

// TestI17_RevisedOnForges: a change is reviewed, revised for what was said of it, applied on
// a base that moved, and merged, on each forge, with a kill -9 between each two. At the end
// there is one result of all of it, and it replays.
func TestI17_RevisedOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		terms := "version: 1\nclose_on: merged\n"
		s.contract(terms)
		s.builders = `w: {argv: [sh, -c, 'if test -f w.txt; then echo again >> w.txt; else echo hello > w.txt; fi']}`
		v := s.serve()
		again := func() { v.kill(); v = s.serve() }
		waits := func(after, before string) { // what was cut off is put back, and done again
			s.until("it waits for the merge, "+after, func() bool {
				change := s.trailer(n1, "writ-change") // a lease has none
				return s.head(n1) == "waiting" && change != "" && change != before && strings.Contains(s.report(n1), "waits for the merge") && strings.Contains(s.report(n1), change)
			})
		}
		s.asksFor("w")
		waits("built", "")
		again()
		ch, first := s.change(n1), s.trailer(n1, "writ-change")
		s.must(s.Maintainer.ReviewAt(t.Context(), s.Repo, ch.Number, forge.ReviewPlace{Path: "w.txt", Start: 1, End: 1, Commit: first}, "Say it again."))
		_, err := s.Maintainer.AddComment(t.Context(), s.Repo, ch.Number, "/writ fix below")
		s.must(err)
		s.until("it is revised", func() bool { return s.trailer(n1, "writ-fixes") != "" })
		again()
		waits("revised", first)
		second := s.trailer(n1, "writ-change")
		if parent := strings.TrimSpace(gittest.Git(t, s.GitDir, "rev-parse", second+"^")); parent != first {
			t.Errorf("the revision stands on %s, want %s", parent, first)
		}
		if told := gittest.Git(t, s.GitDir, "show", s.ref(n1)+":dispatch.json"); !strings.Contains(told, "Say it again.") || !strings.Contains(told, "below") {
			t.Errorf("the builder was told %s", told)
		}
		s.Commit(t, map[string]string{"README": "the base has moved\n", ".writ/contract.yaml": terms})
		again()
		s.says(n1, "/writ refresh")
		s.until("it is refreshed", func() bool { return s.trailer(n1, "writ-refreshes") != "" })
		again()
		waits("refreshed", second)
		third := s.trailer(n1, "writ-change")
		if got := gittest.Git(t, s.GitDir, "show", third+":w.txt"); strings.TrimSpace(got) != "hello\nagain" {
			t.Errorf("refreshed it says %q", got)
		}
		again()
		s.Merge(t, s.change(n1), worldtest.ByMerge)
		s.mergedAs(n1, true)
		v.end()
		s.replays(n1)
	})
}

// n1 is the first issue of a world.
const n1 = 1
