package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/executor/scheduler"
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

// TestLogs_NewestLines: what is kept is bounded, who asks again gets what is new and how
// much he missed, and nothing is kept of a task that isn't worked on.
func TestLogs_NewestLines(t *testing.T) {
	var tails taskTails
	k := scheduler.Key{World: "w", Task: 1}
	if tails.add(k, "nobody's"); tails.since(k, 0).Runs {
		t.Error("a task that isn't worked on is shown")
	}
	end := tails.begin(k)
	for i := range maxKeptLines + 3 {
		tails.add(k, fmt.Sprint("line ", i))
	}
	got := tails.since(k, 1)
	if len(got.Lines) != maxKeptLines || got.Lines[0] != "line 3" || got.Lost != 2 || got.Next != maxKeptLines+3 {
		t.Errorf("%d lines from %q, %d lost, then %d", len(got.Lines), got.Lines[0], got.Lost, got.Next)
	}
	tails.add(k, strings.Repeat("x", maxKeptBytes-10))
	if got = tails.since(k, got.Next); len(got.Lines) != 1 || got.Lost != 0 {
		t.Errorf("%d new lines, %d lost", len(got.Lines), got.Lost)
	}
	if kept := tails.since(k, 0); len(kept.Lines) != 2 { // with a short one before it
		t.Errorf("%d lines are kept", len(kept.Lines))
	}
	other := tails.begin(k) // its next run, before the end of this one is told
	end()
	tails.add(k, "again")
	want := tailed{Kind: actLogs, Runs: true, Lines: []string{"again"}, Next: 1}
	if diff := cmp.Diff(want, tails.since(k, 9999)); diff != "" {
		t.Error(diff)
	}
	other()
	if left := tails.since(k, 0); left.Runs || len(left.Lines) != 1 {
		t.Errorf("of what has just ended there is %+v", left)
	}
	for i := range maxEndedTails {
		tails.begin(scheduler.Key{World: "w", Task: int64(i + 2)})()
	}
	if left := tails.since(k, 0); len(left.Lines) > 0 || len(tails.of) != maxEndedTails {
		t.Errorf("of what ended long ago there is %+v, beside %d others", left, len(tails.of))
	}
}
