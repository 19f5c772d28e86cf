package builder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

func tokens(n int64) gateway.Usage { return gateway.Usage{Model: "m", Output: n} }

// aPurse pays tokens, at one millionth each.
func aPurse(limit kernel.Spend, ended *error) *purse {
	p := newPurse(limit, "default", keysOf("default", limit, kernel.Budgets{}), func(model string) *kernel.Price {
		if model == "unknown" {
			return nil
		}
		return &kernel.Price{Currency: "USD", Output: 1_000_000}
	})
	p.ends(func(err error) { *ended = err })
	return p
}

// TestPurse_Limit: what is used and what is reserved never go beyond the limit together. What
// is settled for less makes room, what isn't charged all of it, and the request that doesn't
// fit any more ends the program, by tokens or by money.
func TestPurse_Limit(t *testing.T) {
	for kind, limit := range map[string]kernel.Spend{"tokens": {Tokens: 100}, "cost": {Cost: 100}, "both": {Tokens: 1000, Cost: 100}} {
		var ended error
		p, ctx := aPurse(limit, &ended), t.Context()
		used := tokens(30)
		for range 3 {
			if err := p.Reserve(ctx, tokens(40)); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			p.Settle(tokens(40), &used)
			if err := p.Reserve(ctx, tokens(10)); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			p.Settle(tokens(10), nil)
			if used = tokens(30); p.used.Tokens == 90 {
				break
			}
		}
		if ended != nil || p.reached() != nil {
			t.Errorf("%s: ended: %v", kind, ended)
		}
		if err := p.Reserve(ctx, tokens(10)); err != nil {
			t.Errorf("%s: the last unit: %v", kind, err)
		}
		p.Settle(tokens(10), nil)
		err := p.Reserve(ctx, tokens(11))
		if err == nil || !errors.Is(ended, err) || p.reached() == nil || !strings.Contains(err.Error(), "builders.default.budget.") || !strings.Contains(err.Error(), "operator") {
			t.Errorf("%s: %v, ended by %v", kind, err, ended)
		}
		if err := p.Reserve(ctx, tokens(1)); err == nil {
			t.Errorf("%s: it goes on after its end", kind)
		}
	}
}

// TestPurse_WaitsForThoseUnderWay: two at once can't both have what is left for one, and the
// second one has it once the first is settled for less.
func TestPurse_WaitsForThoseUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		p := aPurse(kernel.Spend{Tokens: 100}, &ended)
		if err := p.Reserve(t.Context(), tokens(60)); err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() { second <- p.Reserve(t.Context(), tokens(60)) }()
		synctest.Wait()
		select {
		case err := <-second:
			t.Fatalf("both have it: %v", err)
		default:
		}
		ctx, cancel := context.WithCancel(t.Context())
		third := make(chan error, 1)
		go func() { third <- p.Reserve(ctx, tokens(60)) }()
		synctest.Wait()
		cancel()
		if err := <-third; err == nil {
			t.Error("it waits for ever")
		}
		used := tokens(40)
		p.Settle(tokens(60), &used)
		if err := <-second; err != nil || ended != nil || p.held.Tokens != 60 {
			t.Errorf("%v, ended by %v, held %d", err, ended, p.held.Tokens)
		}
	})
}

// TestPurse_NoPrice: where money is limited a model without a price is refused by name, and
// nothing ends; one that the provider answered with instead costs all that was reserved.
func TestPurse_NoPrice(t *testing.T) {
	var ended error
	p := aPurse(kernel.Spend{Cost: 100}, &ended)
	if err := p.Reserve(t.Context(), gateway.Usage{Model: "unknown", Output: 1}); err == nil || !strings.Contains(err.Error(), "no price for unknown") || ended != nil {
		t.Errorf("%v, ended by %v", err, ended)
	}
	if err := p.Reserve(t.Context(), tokens(40)); err != nil {
		t.Fatal(err)
	}
	p.Settle(tokens(40), &gateway.Usage{Model: "unknown", Output: 1})
	if p.used != (kernel.Spend{Tokens: 1, Cost: 40}) || p.held != (kernel.Spend{}) {
		t.Errorf("used %+v, held %+v", p.used, p.held)
	}
	if p := aPurse(kernel.Spend{Tokens: 100}, &ended); p.Reserve(t.Context(), gateway.Usage{Model: "unknown", Output: 1}) != nil {
		t.Error("where tokens alone are limited a price is asked for")
	}
}

// TestPurse_SaysWhoseLimit: the key that limits is named, and who may raise it: the contract's
// where it is the lower one.
func TestPurse_SaysWhoseLimit(t *testing.T) {
	for name, c := range map[string]struct {
		operators kernel.Spend
		contracts kernel.Budgets
		want      []string
	}{
		"the operator's":      {kernel.Spend{Tokens: 5}, kernel.Budgets{}, []string{"5 of builders.b.budget.tokens,", "the operator of the server can raise it"}},
		"the same":            {kernel.Spend{Tokens: 5}, kernel.Budgets{Tokens: 5}, []string{"5 of builders.b.budget.tokens,", "the operator of the server can raise it"}},
		"the contract's":      {kernel.Spend{Tokens: 5}, kernel.Budgets{Tokens: 4}, []string{"4 of budgets.tokens of the contract,", "who maintains the repository can raise it"}},
		"the contract's cost": {kernel.Spend{Cost: 1 << 40}, kernel.Budgets{Cost: 1}, []string{"0.000001 of budgets.cost_cents of the contract, with its next request 0.000006;"}},
	} {
		p := newPurse(c.contracts.Lower(c.operators), "b", keysOf("b", c.operators, c.contracts), func(string) *kernel.Price { return &kernel.Price{Output: 1_000_000} })
		err := p.Reserve(t.Context(), tokens(6))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestPurse_DearestKind: a builder chooses which of a request's tokens are written to a cache
// or read from one, so that they are reserved, and charged where no provider told them, at the
// highest of the three prices; what was told is charged as it was told.
func TestPurse_DearestKind(t *testing.T) {
	t.Parallel()
	const million = 1_000_000
	for name, price := range map[string]kernel.Price{
		"input": {Input: 7, CacheRead: 1, CacheWrite: 2}, "read": {Input: 1, CacheRead: 7, CacheWrite: 2}, "written": {Input: 1, CacheRead: 2, CacheWrite: 7},
	} {
		price.Currency = "USD"
		of := func(string) *kernel.Price { return &price }
		p := newPurse(kernel.Spend{Cost: 1000}, "default", limitKeys{}, of)
		l := New(Config{WorkDir: t.TempDir(), Price: of})
		defer l.Close()
		g := l.newEgressLog("here#7", 1)
		use := func(u gateway.Usage, held, used, recorded int64) {
			t.Helper()
			most := gateway.Usage{Model: "m", Basis: gateway.Reserved, Input: million}
			if err := p.Reserve(t.Context(), most); err != nil || p.held.Cost != held {
				t.Errorf("%s: reserved %+v, %v, want %d", name, p.held, err, held)
			}
			p.Settle(most, &u)
			g.add(gateway.Record{API: "anthropic", Verdict: gateway.Allowed, Usage: &u})
			if got := g.result().Usage[0]; p.held.Cost != 0 || p.used.Cost != used || got.Cost != recorded || got.Tokens() != p.used.Tokens {
				t.Errorf("%s: held %+v, used %+v, want %d; recorded %+v, want %d", name, p.held, p.used, used, got, recorded)
			}
		}
		use(gateway.Usage{Model: "m", Basis: gateway.Reserved, Input: million}, 7, 7, 7)
		use(gateway.Usage{Model: "m", Basis: gateway.Unknown, Input: million}, 7, 14, 14)
		use(gateway.Usage{Model: "m", Basis: gateway.Measured, Input: million}, 7, 14+price.Input, 14+price.Input)
	}
}

// TestBudget_ReachedAndWellEnded: a builder that reached its budget and was faster than its end
// has failed as well. One that was stopped by a person, or never ran, has not.
func TestBudget_ReachedAndWellEnded(t *testing.T) {
	var ended error
	p := aPurse(kernel.Spend{Tokens: 1}, &ended)
	b := &build{egress: &egressLog{purse: p}}
	well := ending{exit: kernel.Exit{Cause: kernel.CauseExited}}
	if vs := b.overBudget(well); len(vs) > 0 {
		t.Errorf("before it is reached: %v", vs)
	}
	if p.Reserve(t.Context(), tokens(2)) == nil {
		t.Fatal("it is paid")
	}
	if vs := b.overBudget(well); len(vs) != 1 || vs[0].Code != kernel.CodeExecutionBudget || vs[0].Code.Info().Counts != kernel.CountsAttempt {
		t.Errorf("once it is reached: %v", vs)
	}
	for _, e := range []ending{stoppedEarly(), notStarted(errStopped), {exit: kernel.Exit{Cause: kernel.CauseBudget}}} {
		if vs := b.overBudget(e); len(vs) > 0 {
			t.Errorf("%+v: %v", e.exit, vs)
		}
	}
	if vs := (&build{egress: &egressLog{}}).overBudget(well); len(vs) > 0 {
		t.Errorf("without a budget: %v", vs)
	}
}

// TestBudget_EndsTheBuilder: the request that an attempt can't pay never reaches the
// provider, the builder is ended, and the attempt has failed by its own code, be it that the
// builder was about to end well.
func TestBudget_EndsTheBuilder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then string
		want kernel.Code
	}{
		"ended":     {"while :; do sleep 1; done", kernel.CodeExecutionBudget},
		"by itself": {"exit 0", kernel.CodeExecutionBudget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t)
			m := &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}}
			at, rule := provider(t, b, "anthropic", m)
			job := b.job(asks(rule, "echo x > calc/new; "+ask(at, "")+ask(at, "")+c.then))
			job.Spend = kernel.Spend{Tokens: 25}
			o := b.build(job)
			list := strings.Fields(codes(o))
			if fmt.Sprint(list) != fmt.Sprint([]kernel.Code{c.want}) || len(m.Asked()) != 1 {
				t.Errorf("%q, the provider was asked %d times: %v", codes(o), len(m.Asked()), o.Violations)
			}
			e := o.Result.Egress
			if e == nil || len(e.Usage) != 1 || e.Usage[0].Requests != 1 || len(e.Denied) != 1 || e.Denied[0].Code != gateway.CodeBudget {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

// TestBudget_Unpriced: that nobody said what a model costs is the operator's fault. Where
// the configuration names the model nothing is claimed; where the agent chose it, what fails
// over that is no attempt, and names the key.
func TestBudget_Unpriced(t *testing.T) {
	t.Parallel()
	b := outward(t, func(c *Config) {
		c.Price = func(model string) *kernel.Price {
			return map[string]*kernel.Price{"priced": {Currency: "USD", Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}}[model]
		}
	})
	m := &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}}
	at, rule := provider(t, b, "anthropic", m)
	builder := asks(rule, "echo x > calc/new; "+ask(at, "")+"exit 1")
	job := b.job(builder)
	job.Spend = kernel.Spend{Cost: 1000}
	o := b.build(job)
	if codes(o) != "execution.exit_status budget.unpriced" && codes(o) != "budget.unpriced execution.exit_status" || len(m.Asked()) > 0 || !strings.Contains(fmt.Sprint(o.Violations), "no price for m in prices of the server's configuration") || kernel.CodeBudgetUnpriced.Info().Counts == kernel.CountsAttempt {
		t.Errorf("%s: %v", codes(o), o.Violations)
	}
	for model, want := range map[string]string{"priced": "", "other": "budget.unpriced", "": ""} {
		builder.Model, builder.Budget = model, kernel.Spend{Cost: 1000}
		b.local.cfg.Builders["default"] = builder
		if vs := b.local.Unheld("w", "default", kernel.Budgets{}); words(vs) != want {
			t.Errorf("%s: %v", model, vs)
		}
	}
}

// TestUnheld: a contract's limit that wouldn't be held, or with which no request could be
// paid, is refused by its key before the claim. A builder that reaches nothing asks no model.
func TestUnheld(t *testing.T) {
	t.Parallel()
	of := func(model, api string) Builder {
		b := Builder{Argv: []string{"x"}, Model: model, Egress: []gateway.Rule{{Host: "models.example"}}}
		if api != "" {
			a := gateway.APIs()[api]
			b.Egress[0].Credential = &gateway.Credential{Header: a.Header, Value: providersKey, API: a}
		}
		return b
	}
	cents, tokens := kernel.Budgets{Cost: 20_000}, kernel.Budgets{Tokens: 7}
	for name, c := range map[string]struct {
		builder   Builder
		world     string
		contracts kernel.Budgets
		code, key string
	}{
		"no limit":                {of("other", ""), "w", kernel.Budgets{}, "", ""},
		"unmetered":               {of("other", ""), "w", tokens, "budget.unmetered", "budgets.tokens of the contract"},
		"money that's unmetered":  {of("other", ""), "w", cents, "budget.unmetered", "budgets.cost_cents of the contract"},
		"no network":              {Builder{Argv: []string{"x"}}, "w", tokens, "", ""},
		"no network there":        {of("other", ""), "elsewhere", tokens, "", ""},
		"tokens without a price":  {of("other", "anthropic"), "w", tokens, "", ""},
		"money without a price":   {of("other", "anthropic"), "w", cents, "budget.unpriced", "budgets.cost_cents of the contract"},
		"money with a price":      {of("priced", "anthropic"), "w", cents, "", ""},
		"money of a model unsaid": {of("", "anthropic"), "w", cents, "", ""},
		"money without prices":    {of("", "anthropic"), "w", cents, "budget.unpriced", "budgets.cost_cents of the contract limits the attempt, and prices.models has no price at all"},
		"tokens without prices":   {of("", "anthropic"), "w", tokens, "", ""},
	} {
		cfg := Config{
			Builders: map[string]Builder{"default": c.builder}, WorkDir: t.TempDir(), Sandbox: sandbox.NewNone(sandbox.Config{}),
			Worlds: map[string][]gateway.Rule{"w": {{Host: "models.example"}}},
			Price:  func(model string) *kernel.Price { return map[string]*kernel.Price{"priced": {}}[model] },
		}
		if strings.Contains(name, "without prices") {
			cfg.Price = nil
		}
		l := New(cfg)
		vs := l.Unheld(c.world, "default", c.contracts)
		if words(vs) != c.code || c.code != "" && !strings.Contains(vs[0].Detail, c.key) {
			t.Errorf("%s: %v", name, vs)
		}
	}
}
