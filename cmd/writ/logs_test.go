package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestLogs_ShowsARunningBuilder: what a builder prints is shown while it runs, to who
// follows up to its end, without secrets and control characters.
func TestLogs_ShowsARunningBuilder(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Builders = fmt.Sprintf(`  talks: {argv: [sh, -c, 'printf "one \033[2J%s\n"; echo two >&2; until test -e /gate/open; do sleep 0.05; done; echo three; echo hello > out.txt'], ro: ['%s/gate:/gate']}
`, localtest.Secret, p.Root)
	p.want(problem.ExitUsage, "--state-dir is missing", "logs", "1")
	p.want(problem.ExitRefused, "is not there", "logs", "1", "--state-dir", p.State())
	s := p.Serve()
	p.UntilReady()
	p.want(problem.ExitOther, "Nothing of task 7 runs now", "logs", "7", "--state-dir", p.State())
	n := p.File("talks")
	p.Approve(n)
	at := []string{"logs", fmt.Sprint(n), "--state-dir", p.State()}
	var out string
	p.Until("both streams are shown", func() bool {
		_, out = p.cli(at...)
		return strings.Contains(out, "one ") && strings.Contains(out, "two")
	})
	if strings.Contains(out, localtest.Secret) || strings.Contains(out, "\x1b") || strings.Contains(out, "three") {
		t.Errorf("it shows %q", out)
	}
	followed, done := &servertest.Buffer{}, make(chan int, 1)
	go func() {
		done <- Main(append(at, "--follow"), strings.NewReader(""), followed, followed, append(os.Environ(), p.Env...))
	}()
	p.Until("it is followed", func() bool { return strings.Contains(followed.String(), "two") })
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	if exit := <-done; exit != problem.ExitDone {
		t.Errorf("following ended with %d", exit)
	}
	if got := followed.String(); strings.Count(got, "one ") != 1 || strings.Count(got, "three\n") != 1 {
		t.Errorf("who followed read %q", got)
	}
	p.Until("it is done", func() bool { return p.Head(n) == "completed" })
	s.End()
	p.want(problem.ExitOther, "No process runs", at...)
}
