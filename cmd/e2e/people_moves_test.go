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
		gate := filepath.Join(s.dir, "gate")
		s.must(os.Mkdir(gate, 0o755))
		s.builders = fmt.Sprintf("default: {argv: [sh, -c, 'until test -e /gate/open; do sleep 0.05; done; echo hello > out.txt'], ro: ['%s:/gate']}", gate)
		s.more = "lease: {seconds: 9, grace: 1s, margin: 3s}"
		v := s.serve()
		n := s.asks("default")
		s.until("the builder works", func() bool { return s.started() == 1 })
		s.Move(t, "elsewhere", "moved")
		write(t, gate, "open", "")
		s.config()
		s.must(v.cmd.Process.Signal(syscall.SIGHUP))
		s.until("it is done under the new name", func() bool { return s.done(n) })
		v.end()
		s.wantDone(n)
	})
}
