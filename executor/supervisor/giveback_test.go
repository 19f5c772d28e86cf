package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
)

// TestF4_PausedBeforeTheStart: a forge that won't be asked before the lease of a
// claim would have to be given up has it given back at once, without an attempt
// being counted; who drives is told when to come back.
func TestF4_PausedBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionClaim)
	f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Limited, RetryAfter: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), patience) // held, it would go on for good
	defer cancel()
	_, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true})
	var limited *forge.Error
	if !errors.As(err, &limited) || limited.RetryAfter != time.Hour {
		t.Errorf("it ends with %v", err)
	}
	if f.task.worker.run != nil || f.started() != 0 || f.trailer("aynig-state") != "stalled" || f.trailer("writ-interruptions") != "1" {
		t.Errorf("%d builders, HEAD %s, interruptions %s", f.started(), f.trailer("aynig-state"), f.trailer("writ-interruptions"))
	}
	f.scene.Bot.Clear()
	f.withBranch()
	f.clock.advance(time.Hour.Milliseconds())
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	if f.trailer("writ-attempt") != "1" {
		t.Errorf("attempt %s", f.trailer("writ-attempt"))
	}
}

// TestF4_WhatIsKeptInAPause: a short pause, or another trouble, costs no lease
// before the start, and none at all does afterwards.
func TestF4_WhatIsKeptInAPause(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionClaim)
	d := &drive{task: f.task, o: DriveOptions{Actor: "writ"}}
	d.giveBack(t.Context(), &forge.Error{Reason: forge.Limited, RetryAfter: time.Minute})
	d.giveBack(t.Context(), &forge.Error{Reason: forge.Unavailable, RetryAfter: time.Hour})
	d.giveBack(t.Context(), errors.New("git is away"))
	if f.task.worker.run == nil {
		t.Fatal("the claim was given back")
	}
	f.reach(kernel.ActionDispatch)
	d.giveBack(t.Context(), &forge.Error{Reason: forge.Limited, RetryAfter: time.Hour})
	if f.task.worker.run == nil {
		t.Error("a running build was given up")
	}
}

// TestF4_ShutdownBeforeTheStart: a process that ends gives a claim back without
// asking the forge.
func TestF4_ShutdownBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionClaim)
	f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
	if st := f.ask(kernel.RequestShutdown); st.Decision.Action != kernel.ActionRelease || f.trailer("aynig-state") != "stalled" {
		t.Errorf("%s, HEAD %s", st.Decision.Action, f.trailer("aynig-state"))
	}
}
