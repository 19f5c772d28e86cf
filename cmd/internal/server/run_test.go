package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel/machine"
)

// TestF4_ALimitIsNoFailure: a look that the forge's limits ended comes back when
// the forge said, and isn't counted among the failures that take a task out of the
// rotation; other errors are.
func TestF4_ALimitIsNoFailure(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limited := func(after time.Duration) error {
		return fmt.Errorf("looking: %w", &forge.Error{Reason: forge.Limited, Op: "read o/n#3", RetryAfter: after})
	}
	for name, c := range map[string]struct {
		err    error
		next   time.Duration // after now, 0: it is a failure
		halted bool
	}{
		"until the reset":       {limited(2 * time.Hour), 2 * time.Hour, false},
		"nobody knows how long": {limited(0), limitedPause, false},
		"the forge is down":     {&forge.Error{Reason: forge.Unavailable, RetryAfter: time.Hour}, 0, false},
		"git is down":           {errors.New("no route"), 0, false},
		"halted":                {machine.ErrHalted, 0, true},
		"halted for a limit":    {errors.Join(machine.ErrHalted, limited(time.Hour)), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := leftAlone(scheduler.Result{RunID: "r1", Ended: true}, c.err, now)
			if c.next > 0 && (err != nil || r.Next != now.Add(c.next).UnixMilli() || r.Ended || r.Outcome != outcomeLimited || r.RunID != "r1") {
				t.Errorf("%+v, %v", r, err)
			}
			if c.next == 0 && (!errors.Is(err, c.err) || errors.Is(err, scheduler.ErrHalted) != c.halted) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestX4_ServeSaysWhatLacks: a server whose sandbox or builder is missing says so at
// its start, once and with the remedy, before anybody approves anything.
func TestX4_ServeSaysWhatLacks(t *testing.T) {
	p := newServerPlace(t)
	p.Builders = "  gone: {argv: [/usr/bin/no-such-agent]}\n  lost: {argv: [/usr/bin/no-such-agent]}\n"
	s := p.Serve()
	says := func(words ...string) int {
		n := 0
		for line := range strings.Lines(s.Log.String()) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				n++
			}
		}
		return n
	}
	p.Until("it says that the program is missing", func() bool {
		return says("level=WARN", "environment.builder.missing", "/usr/bin/no-such-agent", "remedy=") == 1
	})
	if says("level=WARN", "builder=default") > 0 {
		t.Error("it warns of a builder that lacks nothing")
	}
	s.End()
	t.Setenv("PATH", t.TempDir())
	s = p.Serve()
	p.Until("it says that there is no sandbox", func() bool { return says("level=WARN", "sandbox.unavailable", "bwrap", "remedy=") == 1 })
}
