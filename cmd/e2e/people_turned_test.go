package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
)

// TestF7_TurnedDownOnForges: an issue that writ closed is put back open, once, when
// its change is closed unmerged, and when its branch is deleted before the merge,
// which has the forge close it.
func TestF7_TurnedDownOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.builders = writers("closed", "deleted")
		v := s.serve()
		closed, deleted := s.asksFor("closed"), s.asksFor("deleted")
		for _, n := range []int64{closed, deleted} {
			s.until("it is done", func() bool { return s.done(n) })
		}
		s.CloseChange(t, s.change(closed))
		s.DeleteBranch(t, s.change(deleted).Head)
		for _, n := range []int64{closed, deleted} {
			s.until(fmt.Sprintf("#%d is reopened", n), func() bool {
				return s.issue(n).State == forge.Open && strings.Contains(s.report(n), "closed unmerged")
			})
		}
		v.end()
		for _, n := range []int64{closed, deleted} {
			if got := s.closings(n); got != 1 || count(s.states(n), "completed") != 1 {
				t.Errorf("#%d was closed %d times, after %v", n, got, s.states(n))
			}
		}
	}, "github", "gitlab")
}
