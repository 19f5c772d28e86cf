package kernel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
)

// budgeted are the facts of a task that could be claimed, under budgets.
func budgeted(b kernel.BudgetFacts) kernel.Facts {
	f := fresh()
	f.Budget = &b
	return f
}

// TestBudget_ReservedBeforeTheClaim: an attempt is claimed with all that it may use, or not
// at all: what others use or have reserved is gone. The last unit is for one of them.
func TestBudget_ReservedBeforeTheClaim(t *testing.T) {
	pot := func(scope string, limit, used, held int64) kernel.Pot {
		return kernel.Pot{Scope: scope, Limit: kernel.Spend{Tokens: limit}, Used: kernel.Spend{Tokens: used}, Held: kernel.Spend{Tokens: held}}
	}
	cost := kernel.Pot{Scope: kernel.ScopeDay, Limit: kernel.Spend{Cost: 10}, Used: kernel.Spend{Tokens: 1 << 40, Cost: 6}}
	for name, c := range map[string]struct {
		attempt kernel.Spend
		pots    []kernel.Pot
		keys    string
	}{
		"none":                {kernel.Spend{Tokens: 9}, nil, "[]"},
		"fits":                {kernel.Spend{Tokens: 4}, []kernel.Pot{pot(kernel.ScopeTask, 10, 6, 0)}, "[]"},
		"used":                {kernel.Spend{Tokens: 5}, []kernel.Pot{pot(kernel.ScopeTask, 10, 6, 0)}, "[budgets.task.tokens]"},
		"reserved by another": {kernel.Spend{Tokens: 5}, []kernel.Pot{pot(kernel.ScopeWorld, 10, 0, 6)}, "[budgets.world.tokens]"},
		"both":                {kernel.Spend{Tokens: 5}, []kernel.Pot{pot(kernel.ScopeDay, 10, 3, 3)}, "[budgets.day.tokens]"},
		"no attempt's budget": {kernel.Spend{Cost: 1}, []kernel.Pot{pot(kernel.ScopeDay, 10, 10, 0)}, "[budgets.day.tokens]"},
		"something left":      {kernel.Spend{Cost: 1}, []kernel.Pot{pot(kernel.ScopeDay, 10, 9, 0)}, "[]"},
		"cost fits":           {kernel.Spend{Tokens: 5, Cost: 4}, []kernel.Pot{cost}, "[]"},
		"cost":                {kernel.Spend{Tokens: 5, Cost: 5}, []kernel.Pot{cost}, "[budgets.day.cost]"},
		"time fits":           {kernel.Spend{Time: 4}, []kernel.Pot{{Scope: kernel.ScopeTask, Limit: kernel.Spend{Time: 10}, Used: kernel.Spend{Tokens: 1 << 40, Time: 3}, Held: kernel.Spend{Time: 3}}}, "[]"},
		"time":                {kernel.Spend{Time: 5}, []kernel.Pot{{Scope: kernel.ScopeTask, Limit: kernel.Spend{Time: 10}, Used: kernel.Spend{Time: 3}, Held: kernel.Spend{Time: 3}}}, "[budgets.task.time]"},
		"several":             {kernel.Spend{Tokens: 5, Cost: 5}, []kernel.Pot{pot(kernel.ScopeTask, 5, 1, 0), cost}, "[budgets.day.cost budgets.task.tokens]"},
	} {
		d := decide(t, budgeted(kernel.BudgetFacts{Attempt: c.attempt, Pots: c.pots}))
		keys := []string{}
		for _, v := range d.Violations {
			keys = append(keys, v.Subject)
			if v.Code != kernel.CodeBudgetSpent || v.Code.Info().Counts != kernel.CountsNothing {
				t.Errorf("%s: %+v", name, v)
			}
		}
		if fmt.Sprint(keys) != c.keys || (d.Action == kernel.ActionClaim) != (len(keys) == 0) || len(keys) > 0 && (d.Standing != kernel.StandRefused || d.Wake == 0) {
			t.Errorf("%s: %s %s, wake %d, by %q, want %s", name, d.Standing, d.Action, d.Wake, keys, c.keys)
		}
	}
}

// TestBudget_LooksAgain: soon where a run holds some of it, at the day's end, and hourly.
func TestBudget_LooksAgain(t *testing.T) {
	const day = 86_400_000
	spent := kernel.Pot{Scope: kernel.ScopeTask, Limit: kernel.Spend{Tokens: 1}, Used: kernel.Spend{Tokens: 1}}
	daily := spent
	daily.Scope = kernel.ScopeDay
	held := spent
	held.Held.Tokens = 1
	for name, c := range map[string]struct {
		pot       kernel.Pot
		now, wake int64
	}{
		"hourly":          {spent, 3*day + 5, 3*day + 5 + 3_600_000},
		"soon":            {held, 3*day + 5, 3*day + 5 + 60_000},
		"the day's end":   {daily, 4*day - 7000, 4 * day},
		"long before it":  {daily, 3 * day, 3*day + 3_600_000},
		"its last moment": {daily, 4*day - 1, 4 * day},
	} {
		f := budgeted(kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 1}, Pots: []kernel.Pot{c.pot}})
		f.Now = c.now
		if d := decide(t, f); d.Wake != c.wake {
			t.Errorf("%s: wakes at %d, want %d", name, d.Wake, c.wake)
		}
	}
}

// TestBudget_Revision: a revision of delivered work pays a builder as well. Where
// the budget doesn't, that work stays as it is, and the revision begins once there is enough. A
// refresh pays nobody.
func TestBudget_Revision(t *testing.T) {
	pots := func(used int64) *kernel.BudgetFacts {
		return &kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 5}, Pots: []kernel.Pot{{Scope: kernel.ScopeTask, Limit: kernel.Spend{Tokens: 10}, Used: kernel.Spend{Tokens: used}}}}
	}
	for _, c := range [][2]string{{"completed", ""}, {"waiting", kernel.WaitMerge}} {
		f := with(reviewed(c[0], c[1]), func(f *kernel.Facts) { f.Budget = pots(6) })
		if d := decide(t, f); d.Action != kernel.ActionNone || d.Wake != f.Now+3_600_000 {
			t.Errorf("%s: %s, wakes at %d", c[0], d.Action, d.Wake)
		}
		if d := decide(t, with(f, func(f *kernel.Facts) { f.Budget = pots(5) })); d.Action != kernel.ActionClaim || d.Fixes == "" {
			t.Errorf("%s: with enough: %s", c[0], d.Action)
		}
		f = with(delivered(c[0], c[1]), func(f *kernel.Facts) { f.Budget = pots(6) })
		if d := decide(t, f); d.Action != kernel.ActionClaim || d.Refreshes == "" || f.Pays() {
			t.Errorf("%s: a refresh: %s", c[0], d.Action)
		}
	}
}

// TestSpendOf: all kinds together, and whether each of the models had a price.
func TestSpendOf(t *testing.T) {
	priced := kernel.Usage{Input: 1, CacheRead: 20, CacheWrite: 300, Output: 4000}.Priced(&kernel.Price{Output: 1_000_000})
	if sum, all := kernel.SpendOf([]kernel.Usage{priced, priced}); sum != (kernel.Spend{Tokens: 8642, Cost: 8000}) || !all {
		t.Errorf("%+v, %t", sum, all)
	}
	if sum, all := kernel.SpendOf([]kernel.Usage{priced, {Output: kernel.MaxCost, Input: kernel.MaxCost}}); sum != (kernel.Spend{Tokens: kernel.MaxCost, Cost: 4000}) || all {
		t.Errorf("%+v, %t", sum, all)
	}
}

// TestBudget_SaysWhatIsNeeded: which budget it is and what an attempt needs of it, money with
// its decimals, and the same words whatever others use meanwhile.
func TestBudget_SaysWhatIsNeeded(t *testing.T) {
	limit := kernel.Spend{Tokens: 10, Cost: 15_000_000}
	for _, c := range []struct {
		attempt, used, held kernel.Spend
		says                []string
	}{
		{kernel.Spend{Tokens: 6}, kernel.Spend{Tokens: 5}, kernel.Spend{}, []string{"Less is left than an attempt needs, 6 tokens, of the budget for this task (budgets.task.tokens)."}},
		{kernel.Spend{Tokens: 6}, kernel.Spend{Tokens: 7}, kernel.Spend{Tokens: 2}, []string{"Less is left than an attempt needs, 6 tokens, of the budget for this task (budgets.task.tokens)."}},
		{kernel.Spend{Cost: 5_250_000}, kernel.Spend{Cost: 10_000_000}, kernel.Spend{}, []string{"Less is left than an attempt needs, 5.25 in the currency of the price list, of the budget for this task (budgets.task.cost)."}},
		{kernel.Spend{Cost: 1}, kernel.Spend{Tokens: 10}, kernel.Spend{}, []string{"Nothing is left of the budget for this task (budgets.task.tokens)."}},
	} {
		d := decide(t, budgeted(kernel.BudgetFacts{Attempt: c.attempt, Pots: []kernel.Pot{{Scope: kernel.ScopeTask, Limit: limit, Used: c.used, Held: c.held}}}))
		says := []string{}
		for _, v := range d.Violations {
			says = append(says, v.Detail)
		}
		if !slices.Equal(says, c.says) {
			t.Errorf("of %+v with %+v used and %+v held: %q, want %q", c.attempt, c.used, c.held, says, c.says)
		}
	}
}

// TestBudgets_Lower: the contract lowers what the operator lets an attempt use, of each kind
// by itself, and never raises it.
func TestBudgets_Lower(t *testing.T) {
	for _, c := range []struct {
		contract        kernel.Budgets
		operators, want kernel.Spend
	}{
		{kernel.Budgets{}, kernel.Spend{}, kernel.Spend{}},
		{kernel.Budgets{}, kernel.Spend{Tokens: 5, Cost: 6}, kernel.Spend{Tokens: 5, Cost: 6}},
		{kernel.Budgets{Tokens: 4, Cost: 7}, kernel.Spend{Tokens: 5, Cost: 6}, kernel.Spend{Tokens: 4, Cost: 6}},
		{kernel.Budgets{Tokens: 7, Cost: 4}, kernel.Spend{Tokens: 5, Cost: 6}, kernel.Spend{Tokens: 5, Cost: 4}},
		{kernel.Budgets{Tokens: 4, Cost: 7}, kernel.Spend{}, kernel.Spend{Tokens: 4, Cost: 7}},
	} {
		if got := c.contract.Lower(c.operators); got != c.want {
			t.Errorf("%+v under %+v: %+v, want %+v", c.contract, c.operators, got, c.want)
		}
	}
}

// TestMoney: at least two decimals, and all that aren't 0.
func TestMoney(t *testing.T) {
	for micro, want := range map[int64]string{0: "0.00", 1: "0.000001", 1_500_000: "1.50", 15_000_000: "15.00", 1_234_567: "1.234567"} {
		if got := kernel.Money(micro); got != want {
			t.Errorf("%d: %s, want %s", micro, got, want)
		}
	}
}
