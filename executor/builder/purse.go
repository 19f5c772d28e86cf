package builder

import (
	"context"
	"fmt"
	"sync"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/kernel"
)

// purse is what the requests of one attempt may use of models. A request goes out once all
// that it may use is reserved, so that none goes beyond the limit by more than what its
// provider counts beyond that. It implements [gateway.Purse].
type purse struct {
	limit   kernel.Spend
	builder string // whose limit it is
	keys    limitKeys
	price   func(model string) *kernel.Price

	mu         sync.Mutex
	used, held kernel.Spend
	settled    chan struct{} // closed with the next settlement
	over       *overBudget   // once the limit was reached
	unpriced   error         // the last request that nobody could pay for want of a price; nil: none
	end        func(error)   // ends the program
}

// overBudget ends a program that has reached the limit.
type overBudget struct{ text string }

func (e *overBudget) Error() string { return e.text }

// newPurse is nil where nothing is limited.
func newPurse(limit kernel.Spend, builder string, keys limitKeys, price func(string) *kernel.Price) *purse {
	if limit == (kernel.Spend{}) {
		return nil
	}
	return &purse{limit: limit, builder: builder, keys: keys, price: price, settled: make(chan struct{}), end: func(error) {}}
}

// limitKeys say which key limits tokens and cost of an attempt.
type limitKeys struct{ tokens, cost limitKey }

// limitKey is a key and who may raise it.
type limitKey struct{ name, who string }

// keysOf are the operator's keys, or those of the contract where it has the lower limit.
func keysOf(builder string, operators kernel.Spend, contracts kernel.Budgets) limitKeys {
	key := func(name, contractName string, operators, contracts int64) limitKey {
		if contracts > 0 && (operators == 0 || contracts < operators) {
			return limitKey{"budgets." + contractName + " of the contract", "who maintains the repository"}
		}
		return limitKey{fmt.Sprintf("builders.%s.budget.%s", builder, name), "the operator of the server"}
	}
	return limitKeys{key("tokens", "tokens", operators.Tokens, contracts.Tokens), key("cost", "cost_cents", operators.Cost, contracts.Cost)}
}

// ends says how the program is ended.
func (p *purse) ends(end func(error)) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.end = end
	}
}

// reached is that the limit was reached; nil if it wasn't.
func (p *purse) reached() *overBudget {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// lacksPrice says that requests were refused for want of a price, which is the operator's to
// give: a run that failed over it is no failure of the builder's.
func (p *purse) lacksPrice() []kernel.Violation {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpriced == nil {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeBudgetUnpriced, Subject: p.builder, Detail: "A request was refused: " + p.unpriced.Error() + "."}}
}

// Reserve implements [gateway.Purse]. While others are under way that may use less than is
// reserved for them it waits for these. One that doesn't fit even then ends the program.
func (p *purse) Reserve(ctx context.Context, most gateway.Usage) error {
	need, err := p.spend(most)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unpriced = err
		return err
	}
	for {
		wait, err := p.try(need)
		if wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try reserves, or gives what to wait for.
func (p *purse) try(need kernel.Spend) (wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return nil, p.over
	}
	if over := p.beyond(p.used.Add(need)); over != nil {
		p.over = over
		p.end(over)
		return nil, over
	}
	if p.beyond(p.used.Add(p.held).Add(need)) != nil {
		return p.settled, nil
	}
	p.held = p.held.Add(need)
	return nil, nil
}

// beyond says that a sum is beyond the limit, and which one; nil where it isn't.
func (p *purse) beyond(sum kernel.Spend) *overBudget {
	for _, n := range []struct {
		key        limitKey
		sum, limit int64
		written    func(int64) string
	}{
		{p.keys.tokens, sum.Tokens, p.limit.Tokens, func(n int64) string { return fmt.Sprint(n) }},
		{p.keys.cost, sum.Cost, p.limit.Cost, kernel.Money},
	} {
		if n.limit > 0 && n.sum > n.limit {
			return &overBudget{fmt.Sprintf("the attempt has reached what it may use of models: %s of %s, with its next request %s; %s can raise it", n.written(n.limit), n.key.name, n.written(n.sum), n.key.who)}
		}
	}
	return nil
}

// Settle implements [gateway.Purse].
func (p *purse) Settle(most gateway.Usage, used *gateway.Usage) {
	held, _ := p.spend(most) // it was reserved
	var spent kernel.Spend
	if used != nil {
		var err error
		if spent, err = p.spend(*used); err != nil {
			spent.Cost = held.Cost // of the model that answered nobody knows what it costs
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = kernel.Spend{Tokens: p.held.Tokens - held.Tokens, Cost: p.held.Cost - held.Cost}
	p.used = p.used.Add(spent)
	close(p.settled)
	p.settled = make(chan struct{})
}

// spend is what a request uses. Where money is limited a model without a price can't be
// paid; its tokens are counted in any case.
func (p *purse) spend(u gateway.Usage) (kernel.Spend, error) {
	price := p.price(u.Model)
	one := metered(u, price)
	out := kernel.Spend{Tokens: min(one.Tokens(), kernel.MaxCost), Cost: one.Cost}
	if price == nil && p.limit.Cost > 0 {
		return out, fmt.Errorf("there is no price for %s in prices of the server's configuration, and %s limits the attempt; the operator of the server can add one", u.Model, p.keys.cost.name)
	}
	return out, nil
}

// metered is what one request used, as it is recorded, with its cost. Of a usage that no
// provider has told the request's tokens are those of the dearest kind: the builder chooses
// what of it is written to a cache or read from one.
func metered(u gateway.Usage, price *kernel.Price) kernel.Usage {
	one := kernel.Usage{Model: u.Model, Requests: 1, Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output}
	switch u.Basis {
	case gateway.Reserved:
		one.Reserved = 1
	case gateway.Unknown:
		one.Unknown = 1
	case gateway.Measured:
	}
	switch {
	case u.Basis == gateway.Measured || price == nil:
	case price.CacheWrite > max(price.Input, price.CacheRead):
		one.Input, one.CacheWrite = 0, u.CacheWrite+u.Input
	case price.CacheRead > price.Input:
		one.Input, one.CacheRead = 0, u.CacheRead+u.Input
	}
	return one.Priced(price)
}
