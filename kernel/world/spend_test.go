package world_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/world"
)

const day = int64(86_400_000)

// reserving are the drafts of a claim that reserves tokens, and as many millionths.
func (j job) reserving(n int64) []kernel.Draft {
	return j.claiming(kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: n, Cost: n}, Pots: []kernel.Pot{}})
}

func (j job) claiming(budget kernel.BudgetFacts) []kernel.Draft {
	f := j.facts("", "")
	f.Budget = &budget
	_, _, planned := j.planned()
	drafts := append(j.decided(f, kernel.ActionClaim, kernel.TaskClaimed), planned...)
	return append(drafts, j.intent(kernel.ActionClaim, ""))
}

// using is a builder's end, and the start of the checks.
func (j job) using(list ...kernel.Usage) []kernel.Draft {
	drafts := j.built()
	drafts[0] = j.draft(kernel.KindBuilderResult, kernel.BuilderResult{
		Kind: string(kernel.KindBuilderResult), Run: j.run, Builder: "default", Egress: &kernel.Egress{Connections: []kernel.Connection{}, Denied: []kernel.Denied{}, Usage: list},
	})
	return drafts
}

// pots holds what is used and held of each scope against what it should be: by the kernel
// that folded it, by one that folds the records again, and by one that was saved.
func (b *book) pots(task, now int64, scopes map[string][2]int64) {
	b.t.Helper()
	again, err := world.Open(b.records)
	if err != nil {
		b.t.Fatal(err)
	}
	kernels := map[string]*world.Kernel{"facade": b.k, "records": again}
	if saved, err := b.k.Save(); err != nil {
		b.t.Fatal(err)
	} else if kernels["saved"], err = world.Restore(saved); err != nil {
		b.t.Fatal(err)
	}
	for name, k := range kernels {
		for scope, want := range scopes {
			p := k.Pot(scope, task, now)
			if got := [2]int64{p.Used.Tokens, p.Held.Tokens}; got != want {
				b.t.Errorf("%s: of the %s %d are used and %d held, want %d", name, scope, got[0], got[1], want)
			}
		}
	}
}

// TestSpending_ReservedAndSettled: a claim reserves, what was really used takes its place
// when the builder has ended, on the day of the claim, and each result counts once.
func TestSpending_ReservedAndSettled(t *testing.T) {
	b := open(t, config())
	b.now = 20_000*day - 10_000 // the day ends meanwhile
	one := b.job(1, "r1")
	b.round(one.reserving(100)...)
	before := b.now
	all := func(used, held int64) map[string][2]int64 {
		return map[string][2]int64{kernel.ScopeTask: {0, 0}, kernel.ScopeWorld: {used, held}, kernel.ScopeDay: {used, held}}
	}
	b.pots(2, before, all(0, 100)) // also while nobody knows what became of the push
	b.round(one.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	b.pots(2, before, all(0, 100))
	one.step(kernel.ActionDispatch, one.dispatches())
	b.now += day
	price := &kernel.Price{Currency: "USD", Output: 1_000_000}
	built := one.using(kernel.Usage{Model: "m", Output: 30, Input: 1}.Priced(price))
	b.round(built...)
	b.round(built[0]) // recorded again
	b.pots(2, before, all(31, 0))
	b.pots(1, before, map[string][2]int64{kernel.ScopeTask: {31, 0}})
	b.pots(1, b.now, map[string][2]int64{kernel.ScopeDay: {0, 0}})
	if p := b.k.Pot(kernel.ScopeWorld, 2, before); p.Used.Cost != 30 {
		t.Errorf("it cost %d", p.Used.Cost)
	}
}

// TestSpending_Unshared: a limit of the contract alone reserves nothing of the operator's
// budgets, neither while its run is under way nor once that is gone without an end.
func TestSpending_Unshared(t *testing.T) {
	b := open(t, config())
	b.now = 20_000 * day
	one := b.job(1, "r1")
	b.round(one.claiming(kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 100}, Pots: []kernel.Pot{}, Unshared: true})...)
	b.round(one.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	one.step(kernel.ActionDispatch, one.dispatches())
	for _, task := range []int64{1, 2} { // for task 1 the run is one of before
		b.pots(task, b.now, map[string][2]int64{kernel.ScopeTask: {0, 0}, kernel.ScopeWorld: {0, 0}, kernel.ScopeDay: {0, 0}})
	}
}

// TestSpending_UnpricedCostsAllThatWasReserved: what isn't known isn't nothing.
func TestSpending_UnpricedCostsAllThatWasReserved(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	j.step(kernel.ActionClaim, j.reserving(100))
	j.step(kernel.ActionDispatch, j.dispatches())
	b.round(j.using(kernel.Usage{Model: "m", Output: 30}.Priced(&kernel.Price{Output: 1_000_000}), kernel.Usage{Model: "unknown", Output: 1})...)
	if p := b.k.Pot(kernel.ScopeWorld, 2, b.now); p.Used != (kernel.Spend{Tokens: 31, Cost: 100}) {
		t.Errorf("used %+v", p.Used)
	}
}

// TestSpending_GivenBack: a claim that was lost, a run that was given back before its builder
// started, and a builder that never started spend nothing.
func TestSpending_GivenBack(t *testing.T) {
	b := open(t, config())
	one := b.job(1, "r1")
	b.round(one.reserving(100)...)
	b.round(one.outcome(kernel.ActionClaim, kernel.OutcomeLost))
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {0, 0}})
	one = b.job(1, "r2")
	one.step(kernel.ActionClaim, one.reserving(100))
	b.pots(1, b.now, map[string][2]int64{kernel.ScopeWorld: {0, 0}}) // it is to be claimed anew
	b.round(append(one.decided(one.facts("working", kernel.PhaseClaimed), kernel.ActionRelease, kernel.TaskOpen), one.intent(kernel.ActionRelease, ""))...)
	b.round(one.outcome(kernel.ActionRelease, kernel.OutcomeDone))
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {0, 0}})
	one = b.job(1, "r3")
	one.step(kernel.ActionClaim, one.reserving(7))
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {0, 7}})
	b.round(one.dispatches()...)
	b.round(one.outcome(kernel.ActionDispatch, kernel.OutcomeFailed))
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {0, 0}})
}

// TestSpending_EndUnseen: of a builder whose end nobody recorded all that was reserved is
// spent, whatever the task does since.
func TestSpending_EndUnseen(t *testing.T) {
	b := open(t, config())
	one := b.job(1, "r1")
	one.step(kernel.ActionClaim, one.reserving(100))
	one.step(kernel.ActionDispatch, one.dispatches())
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {0, 100}, kernel.ScopeTask: {0, 0}})
	b.pots(1, b.now, map[string][2]int64{kernel.ScopeWorld: {100, 0}, kernel.ScopeTask: {100, 0}}) // its process is gone: it is claimed anew
	b.round(append(one.decided(one.facts("working", kernel.PhaseBuilding), kernel.ActionRelease, kernel.TaskOpen), one.intent(kernel.ActionRelease, ""))...)
	b.round(one.outcome(kernel.ActionRelease, kernel.OutcomeDone))
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {100, 0}, kernel.ScopeDay: {100, 0}})
	again := b.job(1, "r2")
	again.step(kernel.ActionClaim, again.reserving(5))
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {100, 5}})
}

// TestSpending_MovedOnByAnother: what a run holds ends with the look that finds HEAD moved on
// while this process has no such run. A builder that may have started has used all of it, also
// where a result comes after all; the process that has the run, and its lease at HEAD, keep it.
func TestSpending_MovedOnByAnother(t *testing.T) {
	for name, c := range map[string]struct {
		started    bool
		see        func(*kernel.Facts)
		used, held int64
	}{
		"before the start":     {false, func(f *kernel.Facts) { f.Head.RunID = "r9" }, 0, 0},
		"after the start":      {true, func(f *kernel.Facts) { f.Head.RunID = "r9" }, 100, 0},
		"given back":           {true, func(f *kernel.Facts) { f.Head.State = kernel.HeadStalled }, 100, 0},
		"finished":             {true, func(f *kernel.Facts) { f.Head.State, f.Head.RunID = string(kernel.TaskCompleted), "" }, 100, 0},
		"its lease":            {true, func(*kernel.Facts) {}, 0, 100},
		"a claim's lease":      {false, func(*kernel.Facts) {}, 0, 100},
		"not seen by who runs": {false, func(f *kernel.Facts) { f.Head.RunID, f.Run = "r9", &kernel.RunFacts{RunID: "r1"} }, 0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, config())
			j := b.job(1, "r1")
			j.step(kernel.ActionClaim, j.reserving(100))
			if c.started {
				j.step(kernel.ActionDispatch, j.dispatches())
			}
			other := b.job(2, "r2")
			b.round(other.decided(other.facts("", ""), kernel.ActionNone, "")...) // which ends nothing of task 1
			f := j.facts(kernel.HeadWorking, "")
			c.see(&f)
			b.round(j.decided(f, kernel.ActionNone, "")...)
			b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {c.used, c.held}, kernel.ScopeDay: {c.used, c.held}})
			b.pots(1, b.now, map[string][2]int64{kernel.ScopeTask: {c.used + started(c.started, c.held), 0}})
			if c.used > 0 {
				b.round(j.using(kernel.Usage{Model: "m", Output: 30})[0])
				b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {c.used, 0}})
			}
		})
	}
}

// started is what a run holds of its own task's budget: another claim of that finds it used.
func started(is bool, held int64) int64 {
	if !is {
		return 0
	}
	return held
}

// TestSpending_ResultAfterTheEnd: what a builder used that was ended with its run is recorded
// after the outcome, and settles the run.
func TestSpending_ResultAfterTheEnd(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	j.step(kernel.ActionClaim, j.reserving(100))
	j.step(kernel.ActionDispatch, j.dispatches())
	b.round(append(j.decided(j.facts("working", kernel.PhaseBuilding), kernel.ActionRelease, kernel.TaskOpen), j.intent(kernel.ActionRelease, ""))...)
	b.round(j.outcome(kernel.ActionRelease, kernel.OutcomeDone), j.using(kernel.Usage{Model: "m", Output: 30})[0])
	b.round(j.decided(j.facts(kernel.HeadStalled, ""), kernel.ActionNone, "")...)
	b.pots(2, b.now, map[string][2]int64{kernel.ScopeWorld: {30, 0}, kernel.ScopeDay: {30, 0}})
	b.pots(1, b.now, map[string][2]int64{kernel.ScopeTask: {30, 0}})
}
