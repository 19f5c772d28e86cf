package supervisor

import (
	"context"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
)

// mostRequests is what one task may cost the forge, from its claim to its closing.
const mostRequests = 30

// TestF4_RequestsOfATask: a task costs the forge a number of requests that doesn't
// grow with the time that its build takes, and that one installation's hourly limit
// carries for two hundred tasks at once.
func TestF4_RequestsOfATask(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	shown := make(chan struct{})
	f.scene.Bot.After(forgetest.On(forgetest.AddLabel), 1, func(forgetest.Call) { close(shown) })
	nudges, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := f.task.Drive(context.Background(), DriveOptions{Actor: "writ", Yield: true, Nudges: nudges})
		ended <- err
	}()
	select {
	case <-shown: // that it is claimed
	case <-time.After(patience):
		t.Fatal("the claim isn't shown")
	}
	f.exec.finish()
	select {
	case err := <-ended:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("it doesn't end")
	}
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	if len(f.scene.Bot.Calls(forgetest.On(forgetest.EditComment))) == 0 {
		t.Error("the claim wasn't shown")
	}
	counts, n, closed := map[forgetest.Op]int{}, 0, false
	all := f.scene.Bot.Calls(forgetest.Any())
	for _, c := range all {
		if !closed {
			counts[c.Op]++
			n++
		}
		closed = closed || c.Op == forgetest.SetState
	}
	t.Logf("one task costs %d requests to the forge from its claim to its closing, and %d after it: %v", n, len(all)-n, counts)
	if n >= mostRequests || len(all)-n > 10 || !closed {
		t.Errorf("%d requests, %d in all, want fewer than %d: %v", n, len(all), mostRequests, counts)
	}
	writes := f.scene.Bot.Calls(forgetest.Writes())
	reads := f.scene.Bot.Calls(forgetest.On(forgetest.Comments, forgetest.History, forgetest.Issue, forgetest.FindChange))
	if last := writes[len(writes)-1]; len(reads) < 4 || reads[len(reads)-4].N < last.N {
		t.Errorf("what an ended task shows was not looked at after the last write, %s", last.Op)
	}
}

// TestF4_RefsAreReadOncePerEffect: while the issue is moved, refs are read once for each effect,
// and once before and after them. Where there is nothing to do, they are read once.
func TestF4_RefsAreReadOncePerEffect(t *testing.T) {
	t.Parallel()
	reads := 0
	f := newTold(t, func(f *forged) {
		f.exec.build = failing
		f.place.wrap = func(r Repo) Repo { return read{r, func() { reads++ }} }
	})
	f.tickTo(func(Status) bool { return f.trailer("aynig-state") == "retry_pending" }, "failed once")
	reads = 0
	f.drive()
	f.shows("retry_pending", kernel.LabelRetryPending, true)
	done := f.effects(kernel.ActionSee, kernel.OutcomeDone) + f.effects(kernel.ActionComment, kernel.OutcomeDone) + f.effects(kernel.ActionLabel, kernel.OutcomeDone)
	if done != 3 || reads > 1+done+1 {
		t.Errorf("refs are read %d times for %d effects, want no more than %d", reads, done, 1+done+1)
	}
	reads = 0
	f.drive()
	if reads != 1 {
		t.Errorf("refs are read %d times where there is nothing to do", reads)
	}
}

// TestF4_WhichRefsAreKept: a look goes by refs that are kept only while the issue is moved,
// once, and where nothing was pushed since. Those of some time ago are stale.
func TestF4_WhichRefsAreKept(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		change      func(*tracker, *observation)
		kept, stale bool
	}{
		"while the issue is moved": {func(*tracker, *observation) {}, true, false},
		"after an effect":          {func(i *tracker, _ *observation) { i.kept.refs.stale = true }, true, true},
		"a second later":           {func(_ *tracker, c *observation) { c.clock.BootMs += staleAfter }, true, true},
		"long after":               {func(_ *tracker, c *observation) { c.clock.BootMs += keptFor }, false, false},
		"a tick":                   {func(_ *tracker, c *observation) { c.request = kernel.RequestTick }, false, false},
		"outside of a pass":        {func(i *tracker, _ *observation) { i.worker.telling = false }, false, false},
		"after a push":             {func(i *tracker, _ *observation) { i.dropRefs() }, false, false},
		"a second time":            {func(i *tracker, c *observation) { c.refs = i.takeRefs(c); i.keepRefs(c) }, false, false},
		"nothing kept":             {func(i *tracker, _ *observation) { i.kept = nil; i.dropRefs() }, false, false},
	} {
		c := &observation{request: kernel.RequestTell}
		i := &tracker{worker: &worker{telling: true}, kept: &kept{refs: &readRefs{}}}
		want.change(i, c)
		got := i.takeRefs(c)
		if (got != nil) != want.kept || got != nil && got.stale != want.stale {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestF4_HeartbeatsAskNothing: while nobody says that there is something to see, a
// long build asks the forge once in a while, and renews its lease all the same. Who
// says so is heard at once.
func TestF4_HeartbeatsAskNothing(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	asked := func(quiet bool) int {
		f.task.tracker.quiet = quiet
		before := len(f.scene.Bot.Calls(forgetest.Any()))
		f.tick()
		return len(f.scene.Bot.Calls(forgetest.Any())) - before
	}
	for range 6 {
		f.clock.advance(45_000)
		if n := asked(true); n != 0 {
			t.Fatalf("%d requests of a heartbeat", n)
		}
	}
	f.clock.advance(45_000)
	if asked(true) == 0 || asked(false) == 0 || asked(true) != 0 {
		t.Error("it doesn't look where it has to, or looks where it needn't")
	}
	must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Closed))
	f.task.tracker.quiet = false
	f.wants(f.tick(), kernel.StandActing, kernel.CodeSuperseded)
}

// TestF5_LostAnswerEndsWhatIsKept: what is kept of the issue while it is moved is
// gone by only as long as every effect is known to have come about.
func TestF5_LostAnswerEndsWhatIsKept(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.scene.Bot.Fail(forgetest.On(forgetest.AddLabel), 1, forgetest.Fault{Reason: forge.Unavailable, Applied: true})
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	labels, reads := f.scene.Bot.Calls(forgetest.On(forgetest.AddLabel)), f.scene.Bot.Calls(forgetest.On(forgetest.History))
	if len(labels) != 1 || reads[len(reads)-1].N < labels[0].N {
		t.Errorf("%d labels set, the history was read last in call %d", len(labels), reads[len(reads)-1].N)
	}
}
