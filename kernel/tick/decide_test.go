package tick

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel/lease"
)

const (
	runID   = "3f0c2a52-7d0e-4b9a-9a51-0d3c7f4e6b18"
	otherID = "9a3b1c52-7d0e-4b9a-9a51-0d3c7f4e6b18"
	boot    = "boot"
)

// commit is a HEAD of that message, dated at second 1000.
func commit(oid, message string) lease.Head {
	return lease.Head{OID: oid, Message: []byte(message), CommitterSeconds: 1000, CommitterOK: true}
}

func working(run string) string {
	return "t\n\nprompt\n\naynig-state: working\naynig-origin-state: build\naynig-run-id: " + run +
		"\naynig-runner-id: host\naynig-lease-seconds: 60\nnote: x\naynig-remote: elsewhere\n"
}

// decideAt is the decision at that second about a HEAD that was seen first at second 1000.
func decideAt(h lease.Head, second int64) Decision {
	at := func(s int64) lease.Clock { return lease.Clock{WallMs: s * 1000, BootMs: s * 1000, BootID: boot} }
	obs := lease.Observe(nil, "refs/heads/job", h.OID, at(1000))
	pol := lease.DefaultPolicy()
	pol.GraceSeconds = 5
	return Decide(h, obs, at(second), pol)
}

// TestA8_WhatIsNoEvent: without exactly one good aynig-state nothing is to be done,
// and what only looks like an event says why.
func TestA8_WhatIsNoEvent(t *testing.T) {
	for message, want := range map[string]Step{
		"t\n":                                      StepNone,
		"t\n\nbody\n":                              StepNone,
		"aynig-state: build\n":                     StepNone,
		"t\n\naynig-state: build\n\nmore\n":        StepNone,
		"t\n\naynig-state:\n":                      StepMalformed,
		"t\n\naynig-state: a\naynig-state: b\n":    StepMalformed,
		"t\n\nAynig-State: build\n":                StepMalformed,
		"t\n\naynig-state: ../build\n":             StepMalformed,
		"t\n\naynig-state: BUILD\n":                StepMalformed,
		"t\n\naynig-state: build\n":                StepRun,
		"t\n\n---\n\naynig-state: build\n":         StepRun,
		"t\r\n\r\nb\r\n\r\naynig-state: build\r\n": StepRun,
		"t\n\nb\n\naynig-state: stalled\naynig-stalled-run: unknown\n": StepRun,
	} {
		d := decideAt(commit("1", message), 1000)
		if d.Step != want || (d.Err != nil) != (want == StepMalformed) {
			t.Errorf("%q: %s, %v; want %s", message, d.Step, d.Err, want)
		}
	}
}

// TestA30_TakeOverStrictlyAfterTheLease: at date + lease + grace it is held, a
// second later it isn't; other states never expire.
func TestA30_TakeOverStrictlyAfterTheLease(t *testing.T) {
	h := commit("1", working(runID))
	for second, want := range map[int64]Step{1000: StepHeld, 1064: StepHeld, 1065: StepHeld, 1066: StepTakeOver} {
		if got := decideAt(h, second).Step; got != want {
			t.Errorf("at %d: %s, want %s", second, got, want)
		}
	}
	if got := decideAt(commit("1", "t\n\naynig-state: build\n"), 1<<40).Step; got != StepRun {
		t.Errorf("an old state: %s", got)
	}
}

// TestA12_OnlyWorkingHasAMeaning: whatever a workflow calls its states, the same
// is decided.
func TestA12_OnlyWorkingHasAMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.StringMatching(`[a-z][a-z0-9_-]{0,20}(/[a-z0-9]{1,5})?`).Filter(func(s string) bool { return s != lease.StateWorking }).Draw(t, "state")
		title := rapid.StringMatching(`[ -~]{1,40}`).Draw(t, "title")
		d := decideAt(commit("1", strings.TrimSpace("x"+title)+"\n\nb\n\naynig-state: "+state+"\n"), 1000)
		if d.Step != StepRun || d.Event.State != state || d.Event.Body != "b" {
			t.Fatalf("%s: %+v", state, d)
		}
	})
}

// TestA23_ClaimCarriesTheEvent: what is at HEAD under the lease says all there is to say.
func TestA23_ClaimCarriesTheEvent(t *testing.T) {
	ev := decideAt(commit("1", "t\n\nprompt\n\naynig-state: build\nnote: x\naynig-remote: evil\n"), 1000).Event
	message, err := Claim(ev, Lease{RunID: runID, RunnerID: "host", Seconds: 60, Remote: "origin"})
	if err != nil {
		t.Fatal(err)
	}
	want := "writ: working\n\nprompt\n\naynig-state: working\naynig-origin-state: build\naynig-run-id: " + runID +
		"\naynig-runner-id: host\naynig-lease-seconds: 60\nnote: x\naynig-remote: origin\n"
	if diff := cmp.Diff(want, string(message)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// An event that can't be written again can be claimed all the same.
	ev.Body = "x\n# ------------------------ >8 ------------------------\n"
	if message, err = Claim(ev, Lease{RunID: runID, RunnerID: "host", Seconds: 60}); err != nil || strings.Contains(string(message), "note") {
		t.Errorf("%q, %v", message, err)
	}
}

// TestA39_TakeOverNamesTheRun and keeps what its command needs.
func TestA39_TakeOverNamesTheRun(t *testing.T) {
	message, err := TakeOver(decideAt(commit("1", working(runID)), 1000).Event, "origin")
	if err != nil {
		t.Fatal(err)
	}
	want := "writ: stalled\n\nprompt\n\naynig-state: stalled\naynig-stalled-run: " + runID +
		"\nnote: x\naynig-remote: origin\nwrit-origin-state: build\n"
	if diff := cmp.Diff(want, string(message)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	big := fmt.Sprintf("t\n\nb\n\naynig-state: working\nnote: %s\n", strings.Repeat("x", 5000))
	if message, err = TakeOver(decideAt(commit("1", big), 1000).Event, ""); err != nil || !strings.Contains(string(message), "aynig-stalled-run: unknown") {
		t.Errorf("%q, %v", message, err)
	}
}

// TestA34_WhatCompletes: HEAD has a state that isn't working, and is the commit
// that the command left; nothing below it is looked for (A36).
func TestA34_WhatCompletes(t *testing.T) {
	run := Run{ID: runID, Event: "event"}
	done := "t\n\naynig-state: done\n"
	for _, c := range []struct {
		name string
		head lease.Head
		left string
		want Completion
	}{
		{"the command's state", commit("new", done), "new", CompletionDone},
		{"a state of failure", commit("new", "t\n\naynig-state: failed\n"), "new", CompletionDone},
		{"somebody else's state", commit("new", done), "mine", CompletionLost},
		{"our lease", commit("claim", working(runID)), "claim", CompletionInvalid},
		{"our lease, and a commit that wasn't pushed", commit("claim", working(runID)), "mine", CompletionInvalid},
		{"working above done", commit("up", working(runID)), "up", CompletionInvalid},
		{"another run's lease", commit("rival", working(otherID)), "rival", CompletionLost},
		{"no state", commit("new", "t\n"), "new", CompletionInvalid},
		{"somebody's commit without a state", commit("new", "t\n"), "mine", CompletionLost},
		{"set back to the event", commit("event", "t\n\naynig-state: build\n"), "event", CompletionInvalid},
		{"gone", lease.Head{}, "", CompletionLost},
	} {
		if got, why := Complete(run, c.head, c.left); got != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
}
