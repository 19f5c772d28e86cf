package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/executor/scheduler"
)

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
	want := LogLines{Kind: ActLogs, Runs: true, Lines: []string{"again"}, Next: 1}
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
