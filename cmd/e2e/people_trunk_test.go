package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestI12_DefaultBranchRenamedOnForges: the default branch is renamed while a builder
// works. That task is done, and so is one that is approved afterwards, towards the
// branch by its new name. Before, the first one's change was asked for on the old
// name, refused, and its issue closed without one.
func TestI12_DefaultBranchRenamedOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		gate := filepath.Join(s.dir, "gate")
		s.must(os.Mkdir(gate, 0o755))
		s.builders = writers("waits") + fmt.Sprintf("\n  works: {argv: [sh, -c, 'until test -e /gate/open; do sleep 0.05; done; echo hello > works.txt'], ro: ['%s:/gate']}", gate)
		v := s.serve()
		works := s.asksFor("works")
		s.until("the builder works", func() bool { return s.started() == 1 })
		s.RenameDefaultBranch(t, "trunk")
		waits := s.asksFor("waits")
		write(t, gate, "open", "")
		for _, n := range []int64{works, waits} {
			s.until(fmt.Sprintf("#%d is done", n), func() bool { return s.done(n) })
			if base := s.change(n).Base; base != "trunk" {
				t.Errorf("the change of #%d goes to %s", n, base)
			}
			s.wantDone(n)
		}
		v.end()
	})
}
