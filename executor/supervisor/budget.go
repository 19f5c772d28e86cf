package supervisor

import (
	"context"

	"github.com/writbot/writ/kernel"
)

// Budgets are what the operator lets builders use of models.
type Budgets struct {
	// Attempts are those of one attempt, by the builder's name. One that isn't there has none,
	// and spends of no budget: it reaches no provider.
	Attempts map[string]kernel.Spend
	// Task, World and Day are shared: see [kernel.Pot].
	Task, World, Day kernel.Spend
}

// readBudget reads what the budgets leave for a claim, with the world to itself: what another
// task has reserved is in the records by then, and what this one reserves will be before
// anybody else asks. It is read again at the last moment before the decision.
func (o *observer) readBudget(c *observation) {
	b := o.s.cfg.Budgets
	f := kernel.BudgetFacts{Attempt: b.Attempts[c.intake.Spec.Builder], Pots: []kernel.Pot{}}
	if c.facts.Budget = nil; f.Attempt == (kernel.Spend{}) || !kernel.WantsClaim(c.facts) {
		return
	}
	now := o.virtualNow(c.clock)
	for _, pot := range []struct {
		scope string
		limit kernel.Spend
	}{{kernel.ScopeTask, b.Task}, {kernel.ScopeWorld, b.World}, {kernel.ScopeDay, b.Day}} {
		if pot.limit != (kernel.Spend{}) {
			p := o.s.world.Pot(pot.scope, o.number, now)
			p.Limit = pot.limit
			f.Pots = append(f.Pots, p)
		}
	}
	c.facts.Budget = &f
}

// reservedFor is what a claim reserves for its run.
func reservedFor(f kernel.Facts) kernel.Spend {
	if f.Budget == nil {
		return kernel.Spend{}
	}
	return f.Budget.Attempt
}

// earlier is the earlier of two times, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// untaken is the result of a builder that was killed and whose run is given up before that
// was taken in. It is recorded for what the builder used of models: without it all that was
// reserved for the run would stay spent.
func (r *run) untaken(task int64) []kernel.Draft {
	if r == nil || r.phase != kernel.PhaseBuilding || r.build == nil || !closed(r.build.Done()) {
		return nil
	}
	return []kernel.Draft{{Kind: kernel.KindBuilderResult, Task: task, Run: r.id, Body: bounded(r.build.Outcome()).Result}}
}

// takeKilled are the results of killed builders that are to be recorded, once.
func (w *worker) takeKilled() (list []kernel.Draft) {
	w.guard.Lock()
	defer w.guard.Unlock()
	list, w.killed = w.killed, nil
	return list
}

// recordKilled records what killed builders used whose runs were given up beside an effect:
// before the request that follows, of which the records belong to another run.
func (t *Task) recordKilled(ctx context.Context) (err error) {
	t.s.locked(func() { err = t.s.recordResults(ctx, t.work.takeKilled()) })
	return err
}

// recordResults records results of builders in a round of their own; s.mu is held.
func (s *Supervisor) recordResults(ctx context.Context, list []kernel.Draft) error {
	if len(list) == 0 {
		return nil
	}
	return s.write(ctx, s.now().WallMs, list, true)
}
