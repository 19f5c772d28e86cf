package branch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor/command"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel/lease"
)

const heldRun = "3f0c2a52-7d0e-4b9a-9a51-0d3c7f4e6b18"

const heldLease = "t\n\nprompt\n\naynig-state: working\naynig-origin-state: build\naynig-run-id: " + heldRun +
	"\naynig-runner-id: host\naynig-lease-seconds: 60\naynig-note: x\n"

// holding is a run that holds branch job of a hub, as its command finds it.
func holding(t *testing.T, clk *clock) (*hub, *Holder, git.OID) {
	t.Helper()
	h := newHub(t, nil)
	claim := event(t, h.dir, "job", heldLease)
	c, err := clone.Open(t.Context(), h.cloneOf(t))
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Add(t.Context(), filepath.Join(t.TempDir(), "w"), "job", "", claim)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := clone.Open(t.Context(), w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := git.Open(t.Context(), git.Endpoint{URL: h.http.URL}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = c.Close(), inside.Close(), remote.Close() })
	return h, &Holder{Clone: inside, Remote: remote, Ref: "refs/heads/job", RunID: heldRun, Now: clk.now, Host: "host"}, claim
}

func wantAnswer(t *testing.T, err error, want Status) {
	t.Helper()
	var a *Answer
	if !errors.As(err, &a) || a.Status != want {
		t.Fatalf("%v, want %s", err, want)
	}
}

// TestA27_AHolderKeepsTheRun: run id, origin state and other trailers, on what the
// command has committed so far, which goes with it.
func TestA27_AHolderKeepsTheRun(t *testing.T) {
	h, holder, claim := holding(t, newClock())
	for range 2 {
		oid, err := holder.Renew(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := gittest.RefOID(h.dir, "refs/heads/job"); got != string(oid) || gittest.Git(t, holder.Clone.Top, "rev-parse", "HEAD") != string(oid) {
			t.Fatalf("HEAD is %s, not %s", got, oid)
		}
	}
	if got := gittest.Git(t, h.dir, "rev-parse", "job~2"); got != string(claim) {
		t.Errorf("the second heartbeat stands on %s", got)
	}
	gittest.Git(t, holder.Clone.Top, "commit", "-q", "--allow-empty", "-m", "work")
	if _, err := holder.Renew(t.Context(), 90); err != nil {
		t.Fatal(err)
	}
	got := message(t, h.dir, "job")
	for _, want := range []string{"prompt", "aynig-state: working", "aynig-origin-state: build", "aynig-run-id: " + heldRun, "aynig-note: x", "aynig-lease-seconds: 90"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	if got := gittest.Git(t, h.dir, "log", "-1", "--format=%s", "job^"); got != "work" {
		t.Errorf("it stands on %q", got)
	}
	gittest.Git(t, h.dir, "fsck")
}

// TestL10_RenewAfterATakeover changes nothing anywhere, and says so; nor does a state.
func TestL10_RenewAfterATakeover(t *testing.T) {
	h, holder, claim := holding(t, newClock())
	rival := event(t, h.dir, "job", "t\n\naynig-state: stalled\naynig-stalled-run: "+heldRun+"\n")
	_, err := holder.Renew(t.Context(), 0)
	wantAnswer(t, err, StatusLost)
	_, err = holder.Set(t.Context(), lease.Message{Title: "t", Trailers: []lease.Trailer{{Key: lease.KeyState, Value: "done"}}})
	wantAnswer(t, err, StatusLost)
	if got := gittest.RefOID(h.dir, "refs/heads/job"); got != string(rival) {
		t.Errorf("HEAD is %s", got)
	}
	if got := gittest.Git(t, holder.Clone.Top, "rev-parse", "HEAD"); got != string(claim) {
		t.Errorf("the working tree is at %s", got)
	}
	// A lease of another run, on which this working tree stands.
	_, other, _ := holding(t, newClock())
	other.RunID = "9a3b1c52-7d0e-4b9a-9a51-0d3c7f4e6b18"
	_, err = other.Renew(t.Context(), 0)
	wantAnswer(t, err, StatusLost)
	// The rival is first between our reading and our push.
	h, holder, claim = holding(t, newClock())
	h.http.Set(gittest.OnPush(gittest.Before(func() { event(t, h.dir, "job", "t\n\naynig-state: stalled\naynig-stalled-run: "+heldRun+"\n") })))
	_, err = holder.Renew(t.Context(), 0)
	wantAnswer(t, err, StatusLost)
	if got := gittest.Git(t, holder.Clone.Top, "rev-parse", "HEAD"); got != string(claim) {
		t.Errorf("the working tree is at %s", got)
	}
}

// TestA24_ReservedStates: nobody sets them, and nobody sets a state over a lease.
func TestA24_ReservedStates(t *testing.T) {
	h, holder, _ := holding(t, newClock())
	for _, m := range []lease.Message{
		{Title: "t", Trailers: []lease.Trailer{{Key: lease.KeyState, Value: "working"}}},
		{Title: "t", Trailers: []lease.Trailer{{Key: lease.KeyState, Value: "stalled"}}},
		{Title: "t", Trailers: []lease.Trailer{{Key: lease.KeyState, Value: "done"}, {Key: "Aynig-Run-Id", Value: heldRun}}},
	} {
		if _, err := holder.Set(t.Context(), m); !lease.HasCode(err, lease.CodeUnwritable) {
			t.Errorf("%v: %v", m.Trailers, err)
		}
	}
	done := lease.Message{Title: "t", Trailers: []lease.Trailer{{Key: lease.KeyState, Value: "done"}}}
	holder.RunID = ""
	_, err := holder.Set(t.Context(), done)
	wantAnswer(t, err, StatusHeld)
	holder.RunID = heldRun
	if err := os.WriteFile(filepath.Join(holder.Clone.Top, "result"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, holder.Clone.Top, "add", "result")
	if _, err := holder.Set(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if got := gittest.Git(t, h.dir, "show", "job:result"); got != "x" {
		t.Errorf("what was staged isn't there: %q", got)
	}
}

// program is one that never ends by itself.
var program = command.Spec{Argv: []string{"/bin/sh", "-c", "while :; do sleep 1000; done"}}

// hold has a holder run it, and says how that ends.
func hold(t *testing.T, holder *Holder, log func(error)) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := holder.Hold(t.Context(), 60, program, log)
		ended <- err
	}()
	return ended
}

// TestL11_HoldFencesItself: a holder that can't renew kills its program before the
// lease ends, and pushes nothing.
func TestL11_HoldFencesItself(t *testing.T) {
	clk := newClock()
	h, holder, _ := holding(t, clk)
	logged := make(chan error, 100)
	moved := h.moves(t)
	ended := hold(t, holder, func(err error) { logged <- err })
	before := moved()
	h.http.Set(gittest.Status(503, "maintenance"))
	clk.add(21 * time.Second)
	if err := <-logged; err == nil {
		t.Error("the heartbeat stands")
	}
	clk.add(24*time.Second + 100*time.Millisecond) // 60 less a margin of 15
	wantAnswer(t, <-ended, StatusLost)
	if got := gittest.RefOID(h.dir, "refs/heads/job"); got != before {
		t.Errorf("HEAD moved to %s", got)
	}
}

// TestL16_HoldAfterASuspend: what wakes behind its lease is killed at once, and
// nothing is pushed.
func TestL16_HoldAfterASuspend(t *testing.T) {
	clk := newClock()
	h, holder, _ := holding(t, clk)
	moved := h.moves(t)
	ended := hold(t, holder, func(error) {})
	before := moved()
	clk.add(time.Hour)
	wantAnswer(t, <-ended, StatusLost)
	if got := gittest.RefOID(h.dir, "refs/heads/job"); got != before {
		t.Errorf("HEAD moved to %s", got)
	}
}

// TestA25_HoldRenews, and hands the program's status on; a takeover ends it.
func TestA25_HoldRenews(t *testing.T) {
	clk := newClock()
	h, holder, _ := holding(t, clk)
	moved := h.moves(t)
	ended := hold(t, holder, func(error) {})
	moved()
	for range 4 { // longer than one lease
		clk.add(21 * time.Second)
		moved()
	}
	event(t, h.dir, "job", "t\n\naynig-state: stalled\naynig-stalled-run: "+heldRun+"\n")
	clk.add(21 * time.Second)
	wantAnswer(t, <-ended, StatusLost)

	_, holder, _ = holding(t, clk)
	exit, err := holder.Hold(t.Context(), 60, command.Spec{Argv: []string{"/bin/sh", "-c", "exit 7"}}, func(error) {})
	if exit != 7 || err != nil {
		t.Errorf("%d, %v", exit, err)
	}
}
