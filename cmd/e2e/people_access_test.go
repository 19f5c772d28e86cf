package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestF6_AccessEndsDuringABuild: writ's access goes in the middle of a build: an App
// is suspended, a bot is blocked. The lease can't be renewed, so that the builder is
// killed, and nothing is delivered or said. Once the access is back the task is taken
// up by itself, and done once.
func TestF6_AccessEndsDuringABuild(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		mark := fmt.Sprintf("access-%s-%d", s.Forge, os.Getpid())
		script := filepath.Join(s.dir, "builders", "builder.sh")
		now := func(text string) {
			write(t, s.dir, "builders/builder.sh", text)
			s.must(os.Chmod(script, 0o644)) // the sandbox reads it as another user
		}
		now("sleep 600")
		s.builders = fmt.Sprintf("default: {argv: [sh, /builders/builder.sh, %s], ro: ['%s/builders:/builders']}", mark, s.dir)
		s.more = "lease: {seconds: 9, grace: 1s, margin: 3s}"
		v := s.serve()
		n := s.asks("default")
		s.until("the builder works", func() bool { return len(processes(mark)) > 0 })
		s.Trouble(t, true)
		s.until("the builder is killed", func() bool { return len(processes(mark)) == 0 })
		now("echo hello > out.txt")
		if head := gittest.RefOID(s.GitDir, fmt.Sprintf("refs/heads/writ/change/%d", n)); head != "" || slices.Contains(s.states(n), "completed") {
			t.Errorf("without access the change is at %q, after %v", head, s.states(n))
		}
		if i := s.issue(n); i.State != forge.Open || len(s.ours(n)) > 1 {
			t.Errorf("without access the issue became %+v", i)
		}
		s.Trouble(t, false)
		s.until("it is done", func() bool { return s.done(n) })
		v.end()
		s.wantDone(n)
		s.wantNoSecret(v.log.String())
	}, "github", "gitlab")
}
