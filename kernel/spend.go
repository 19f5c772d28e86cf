package kernel

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Spend is a number of tokens, of all kinds together, what they cost, in millionths of
// the currency of the operator's price list, and how long builders ran. As a limit, 0 is none.
type Spend struct {
	Tokens int64 `json:"tokens"`
	Cost   int64 `json:"cost_micro"`
	Time   int64 `json:"time_ms,omitempty"` // milliseconds
}

// Add is both together, and no more than a record holds.
func (s Spend) Add(o Spend) Spend {
	return Spend{min(s.Tokens+o.Tokens, MaxCost), min(s.Cost+o.Cost, MaxCost), min(s.Time+o.Time, MaxCost)}
}

// Money writes millionths: 1234567 is 1.234567, and 1500000 is 1.50.
func Money(micro int64) string {
	text := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	for n := 0; n < 4 && strings.HasSuffix(text, "0"); n++ {
		text = text[:len(text)-1]
	}
	return text
}

// SpendOf is what was used of all models. priced says that each of them had a price: without
// it the cost isn't all of it.
func SpendOf(list []Usage) (sum Spend, priced bool) {
	priced = true
	for _, u := range list {
		sum = sum.Add(Spend{Tokens: min(u.Tokens(), MaxCost), Cost: u.Cost})
		priced = priced && u.Price != nil
	}
	return sum, priced
}

// BudgetFacts is what a claim that pays a builder depends on, of the operator's budgets.
type BudgetFacts struct {
	Attempt Spend `json:"attempt"` // reserved for the run, which may use no more
	Pots    []Pot `json:"pots"`    // those with a limit
	// Unshared is that of models Attempt is the contract's limit alone: the operator's budgets
	// of them are for other builders, and nothing but time is reserved in them.
	Unshared bool `json:"unshared,omitempty"`
}

// Pot is one of the operator's budgets that several runs share.
type Pot struct {
	Scope string `json:"scope"` // ScopeTask, ScopeWorld or ScopeDay
	Limit Spend  `json:"limit"`
	Used  Spend  `json:"used"` // by runs that ended, or of which nobody saw the end
	Held  Spend  `json:"held"` // reserved for runs under way
}

// The scopes of a pot. A run belongs to the UTC day on which it was claimed.
const (
	ScopeTask  = "task"  // all runs of a task
	ScopeWorld = "world" // all runs of a repository
	ScopeDay   = "day"   // all runs of a repository that were claimed on one UTC day
)

// dayMs is a UTC day: Unix time has no leap seconds.
const dayMs = 24 * 60 * 60 * 1000

// Day is the UTC day of a time in Unix milliseconds, counted from the first of January 1970.
func Day(now int64) int64 { return now / dayMs }

// potWords say of each scope whose runs it counts.
var potWords = map[string]string{
	ScopeTask: "this task", ScopeWorld: "this repository", ScopeDay: "this repository on this day (UTC)",
}

// Pays reports whether a claim of the task would start a builder: work that was built before
// is gone on with without one.
func (f Facts) Pays() bool {
	return !f.RefreshNext() && !f.ResumesFix() && !f.replacing() && !(f.Resumable() && !f.BaseMoved)
}

// budgetRule: what the attempt may use is reserved before it is claimed, as a whole. So what
// runs at once can't spend the same tokens, and no run ends over what another one spent. What
// is used isn't said: each run that ends would have the issue of each task that waits written
// anew.
func budgetRule(f Facts) (out []Violation) {
	if f.Budget == nil || !f.Pays() {
		return nil
	}
	need := f.Budget.Attempt
	for _, p := range f.Budget.Pots {
		for _, n := range []struct {
			kind, needs             string
			need, limit, used, held int64
		}{
			{"tokens", fmt.Sprintf("%d tokens", need.Tokens), need.Tokens, p.Limit.Tokens, p.Used.Tokens, p.Held.Tokens},
			{"cost", Money(need.Cost) + " in the currency of the price list", need.Cost, p.Limit.Cost, p.Used.Cost, p.Held.Cost},
			{"time", (time.Duration(need.Time) * time.Millisecond).String(), need.Time, p.Limit.Time, p.Used.Time, p.Held.Time},
		} {
			if n.limit == 0 || n.used+n.held+max(n.need, 1) <= n.limit {
				continue
			}
			key, left := "budgets."+p.Scope+"."+n.kind, "Nothing is left"
			if n.need > 0 {
				left = "Less is left than an attempt needs, " + n.needs + ","
			}
			out = append(out, Violation{CodeBudgetSpent, key, fmt.Sprintf("%s of the budget for %s (%s).", left, potWords[p.Scope], key)})
		}
	}
	return out
}

// How soon a claim is looked at again that a budget keeps back: what is reserved is given
// back when its run ends, a day ends, and the operator may raise a budget.
const (
	budgetHeld  = 60_000    // ms, while runs are under way that hold some of it
	budgetSpent = 3_600_000 // ms
)

// unpaid is the refusal of a claim, which is looked at again where a budget keeps it back.
func unpaid(f Facts, d Decision) Decision {
	d.Wake = f.budgetWake()
	return d
}

// budgetWake is when to look again, 0 where no budget keeps the claim back.
func (f Facts) budgetWake() int64 {
	if len(budgetRule(f)) == 0 {
		return 0
	}
	wait := int64(budgetSpent)
	for _, p := range f.Budget.Pots {
		if p.Held != (Spend{}) {
			wait = budgetHeld
		}
		if p.Scope == ScopeDay {
			wait = min(wait, cmp.Or((Day(f.Now)+1)*dayMs-f.Now, 1))
		}
	}
	return min(f.Now+wait, lastTime)
}
