package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestF7_ForcedChangeBranchOnForges: somebody replaces what is on the change branch
// with something else, outside the task's scope. It stays where it is, and the check
// on it says that it isn't what was asked for.
func TestF7_ForcedChangeBranchOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		v := s.serve()
		n := s.asks("default")
		s.until("it is done", func() bool { return s.done(n) })
		branch := fmt.Sprintf("writ/change/%d", n)
		verified := gittest.RefOID(s.GitDir, "refs/heads/"+branch)
		passed := func(oid string, state forge.CheckState) func() bool {
			return func() bool {
				return slices.ContainsFunc(s.Checks(t, oid), func(c forge.Check) bool { return c.State == state })
			}
		}
		s.until("the verified commit has its check", passed(verified, forge.CheckPassed))
		theirs := gittest.Commit(t, s.GitDir, "refs/heads/scratch", gittest.RefOID(s.GitDir, "refs/heads/main"), map[string]string{"elsewhere.txt": "hi\n"})
		s.PushBranch(t, branch, theirs)
		s.until("what was pushed is judged", passed(theirs, forge.CheckFailed))
		v.end()
		if now := gittest.RefOID(s.GitDir, "refs/heads/"+branch); now != theirs {
			t.Errorf("the change branch is at %s, somebody's commit is %s", now, theirs)
		}
		if i := s.issue(n); i.State != forge.Closed || count(s.states(n), "completed") != 1 || s.closings(n) != 1 {
			t.Errorf("#%d is %s after %v", n, i.State, s.states(n))
		}
	}, "github", "gitlab")
}
