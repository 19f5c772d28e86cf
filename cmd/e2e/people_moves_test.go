package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestI12_MovedOnForges: the repository is given to another owner, by another name,
// while a builder works. Once the new name is listed the task is done, once.
func TestI12_MovedOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		gated, open := s.gated("out.txt")
		s.builders = "default: " + gated
		s.more = "lease: {seconds: 9, grace: 1s, margin: 3s}"
		v := s.serve()
		n := s.asks("default")
		s.until("the builder works", func() bool { return s.started() == 1 })
		s.Move(t, "elsewhere", "moved")
		open()
		s.config()
		s.must(v.cmd.Process.Signal(syscall.SIGHUP))
		s.until("it is done under the new name", func() bool { return s.done(n) })
		v.end()
		s.wantDone(n)
	})
}

// TestI12_DefaultBranchRenamedOnForges: the default branch is renamed while a builder
// works. That task is done, and so is one that is approved afterwards, towards the
// branch by its new name.
func TestI12_DefaultBranchRenamedOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		gated, open := s.gated("works.txt")
		s.builders = writers("waits") + "\n  works: " + gated
		v := s.serve()
		works := s.asksFor("works")
		s.until("the builder works", func() bool { return s.started() == 1 })
		s.RenameDefaultBranch(t, "trunk")
		waits := s.asksFor("waits")
		open()
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

// gated is a builder, as YAML, that writes a file and ends once it is let.
func (s *forgeSite) gated(file string) (builder string, open func()) {
	s.t.Helper()
	gate := filepath.Join(s.dir, "gate")
	s.must(os.Mkdir(gate, 0o755))
	builder = fmt.Sprintf("{argv: [sh, -c, 'until test -e /gate/open; do sleep 0.05; done; echo hello > %s'], ro: ['%s:/gate']}", file, gate)
	return builder, func() { write(s.t, gate, "open", "") }
}
