package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/local/localtest"
)

// TestLogs_ShowsARunningBuilder: what a builder prints is shown while it runs, to who
// follows up to its end, without secrets and control characters.
func TestLogs_ShowsARunningBuilder(t *testing.T) {
	p := newForgePlace(t)
	p.builders = fmt.Sprintf(`  talks: {argv: [sh, -c, 'printf "one \033[2J%s\n"; echo two >&2; until test -e /gate/open; do sleep 0.05; done; echo three; echo hello > out.txt'], ro: ['%s/gate:/gate']}
`, localtest.Secret, p.dir)
	p.want(exitUsage, "--state-dir is missing", "logs", "1")
	p.want(exitRefused, "is not there", "logs", "1", "--state-dir", p.state())
	s := p.serve()
	p.untilReady()
	p.want(exitOther, "Nothing of task 7 runs now", "logs", "7", "--state-dir", p.state())
	n := p.File("talks")
	p.Approve(n)
	at := []string{"logs", fmt.Sprint(n), "--state-dir", p.state()}
	var out string
	p.until("both streams are shown", func() bool {
		_, out = p.cli(at...)
		return strings.Contains(out, "one ") && strings.Contains(out, "two")
	})
	if strings.Contains(out, localtest.Secret) || strings.Contains(out, "\x1b") || strings.Contains(out, "three") {
		t.Errorf("it shows %q", out)
	}
	followed, done := &syncBuffer{}, make(chan int, 1)
	go func() {
		done <- Main(append(at, "--follow"), strings.NewReader(""), followed, followed, append(os.Environ(), p.env...))
	}()
	p.until("it is followed", func() bool { return strings.Contains(followed.String(), "two") })
	must(t, os.WriteFile(p.gate(), nil, 0o600))
	if exit := <-done; exit != exitDone {
		t.Errorf("following ended with %d", exit)
	}
	if got := followed.String(); strings.Count(got, "one ") != 1 || strings.Count(got, "three\n") != 1 {
		t.Errorf("who followed read %q", got)
	}
	p.until("it is done", func() bool { return p.head(n) == "completed" })
	s.end()
	p.want(exitOther, "No process runs", at...)
}
