package supervisor

import "github.com/writbot/writ/kernel"

// Budgets are what the operator lets builders use, of models and of time.
type Budgets struct {
	// Attempts are those of one attempt, by the builder's name. One that isn't there has none,
	// and spends of no budget: where there are any it reaches no provider. A contract may
	// have a lower one.
	Attempts map[string]kernel.Spend
	// Task, World and Day are shared: see [kernel.Pot]. Time is of every builder, the rest of
	// those that have limits of one attempt.
	Task, World, Day kernel.Spend
}

// timed reports whether the time of builders is limited. What one may take of it is the
// contract's build_timeout, which is reserved as a whole.
func (b Budgets) timed() bool { return b.Task.Time > 0 || b.World.Time > 0 || b.Day.Time > 0 }

// readBudget reads what the budgets leave for a claim, with the world to itself: what another
// task has reserved is in the records by then, and what this one reserves will be before
// anybody else asks. It is read again at the last moment before the decision.
func (o *observer) readBudget(c *observation) {
	b := o.s.cfg.Budgets
	operators := b.Attempts[c.intake.Spec.Builder]
	f := kernel.BudgetFacts{Attempt: c.intake.Budgets.Lower(operators), Pots: []kernel.Pot{}}
	if b.timed() {
		f.Attempt.Time = c.intake.Budgets.BuildTimeoutMs
	}
	if c.facts.Budget = nil; f.Attempt == (kernel.Spend{}) || !kernel.WantsClaim(c.facts) {
		return
	}
	c.facts.Budget = &f
	if f.Unshared = operators == (kernel.Spend{}); f.Unshared && !b.timed() {
		return
	}
	now := o.virtualNow(c.clock)
	for _, pot := range []struct {
		scope string
		limit kernel.Spend
	}{{kernel.ScopeTask, b.Task}, {kernel.ScopeWorld, b.World}, {kernel.ScopeDay, b.Day}} {
		if f.Unshared {
			pot.limit = kernel.Spend{Time: pot.limit.Time}
		}
		if pot.limit == (kernel.Spend{}) {
			continue
		}
		p := o.s.world.Pot(pot.scope, o.number, now)
		if p.Limit = pot.limit; p.Limit.Time == 0 {
			p.Used.Time, p.Held.Time = 0, 0
		}
		f.Pots = append(f.Pots, p)
	}
}

// allowedFor is what the run of a claim may use of models: its time is bounded by the
// contract.
func allowedFor(f kernel.Facts) kernel.Spend {
	if f.Budget == nil {
		return kernel.Spend{}
	}
	return kernel.Spend{Tokens: f.Budget.Attempt.Tokens, Cost: f.Budget.Attempt.Cost}
}
