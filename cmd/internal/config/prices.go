package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// Prices are what models cost.
type Prices struct {
	Currency string           `key:"currency" doc:"The currency's name, such as USD. It is yours: nothing is converted. Needed with models."`
	Models   map[string]Price `key:"models" doc:"Prices, by the name of a model, or by what its name begins with and a star: claude-sonnet-*. The whole name wins, then the longest beginning. The name is the one that the provider answers with. What a model that is not here used is told with its tokens and without a cost."`
}

// Price is what a million tokens of each kind cost.
type Price struct {
	Input      int64 `key:"input" max:"1000000000000" doc:"Millionths of the currency for a million tokens of input that were neither read from the provider's cache nor written to it. 3000000 is 3 for a million. Each of the four must be given."`
	CacheRead  int64 `key:"cache_read" max:"1000000000000" doc:"The same for those that were read from the provider's cache."`
	CacheWrite int64 `key:"cache_write" max:"1000000000000" doc:"The same for those that were written to it."`
	Output     int64 `key:"output" max:"1000000000000" doc:"The same for those of the answer."`
}

// Spend is a limit of what is used of models.
type Spend struct {
	Tokens int64 `key:"tokens" max:"1000000000000" doc:"Tokens, of input, cache and output together. 0: no limit."`
	Cost   int64 `key:"cost" max:"1000000000000" doc:"Cost by prices, in millionths of their currency: 5000000 is 5. Models without a price are refused then. 0: no limit."`
}

// Kernel is the limit as the kernel has it.
func (s Spend) Kernel() kernel.Spend { return kernel.Spend{Tokens: s.Tokens, Cost: s.Cost} }

// Shared is a limit of what several attempts use together.
type Shared struct {
	Tokens int64         `key:"tokens" max:"1000000000000" doc:"Tokens, of input, cache and output together. 0: no limit."`
	Cost   int64         `key:"cost" max:"1000000000000" doc:"Cost by prices, in millionths of their currency: 5000000 is 5. Models without a price are refused then. 0: no limit."`
	Time   time.Duration `key:"time" max:"87600h" doc:"How long builders run, of every kind: budgets.build_timeout of the contract is reserved before an attempt, and what it took counts after it. 0: no limit."`
}

// Kernel is the limit as the kernel has it.
func (s Shared) Kernel() kernel.Spend {
	return kernel.Spend{Tokens: s.Tokens, Cost: s.Cost, Time: s.Time.Milliseconds()}
}

// Budgets are limits that several attempts share.
type Budgets struct {
	Task  Shared `key:"task" doc:"All attempts of one task, for good."`
	World Shared `key:"world" doc:"All tasks of one repository, for good."`
	Day   Shared `key:"day" doc:"All tasks of one repository that are claimed on one day (UTC)."`
}

// Attempts are the limits of one attempt of those builders that have any.
func (c Config) Attempts() map[string]kernel.Spend {
	out := map[string]kernel.Spend{}
	for name, b := range c.Builders {
		if b.Budget != (Spend{}) {
			out[name] = b.Budget.Kernel()
		}
	}
	return out
}

// Warnings say, in a sentence for each, where prices, budgets or tables don't hold as their
// reader may think: it is no fault, since a price may be left out, and a budget for some.
func (c Config) Warnings() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Builders)) {
		b, key := c.Builders[name], join("builders", name)
		if len(c.Prices.Models) > 0 && b.Model != "" && c.Prices.Of(b.Model) == nil {
			text := "prices.models has no price for " + b.Model + ", the model of " + key + ": what it costs isn't known"
			if b.Budget.Cost > 0 {
				text += ", and with " + key + ".budget.cost nothing is claimed for it"
			}
			list = append(list, text+".")
		}
		if text := c.Unmetered(name); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// Unmetered says in one sentence that a builder asks a host with a credential and without a
// table, where that matters: what is sent there looks like the key of a model's provider, or
// budgets are shared, which don't hold what nobody meters. "" where neither is so.
func (c Config) Unmetered(name string) string {
	key, egress := join("builders", name), c.Builders[name].Egress
	bare := func(e Egress) bool { return e.Credential.Secret != "" && e.Credential.API == "" }
	i := slices.IndexFunc(egress, func(e Egress) bool { return bare(e) && isModelKey(e.Credential.Secret) })
	switch budgets := c.Budgets.ofModels(); {
	case i >= 0 && budgets:
		return fmt.Sprintf(untabled, key, egress[i].Credential.Secret, egress[i].Host) + ", so that budgets don't hold it."
	case i >= 0:
		return fmt.Sprintf(untabled, key, egress[i].Credential.Secret, egress[i].Host) + "."
	case budgets && slices.ContainsFunc(egress, bare):
		return key + " has a credential without an api, so that nobody meters what it uses by that: budgets don't hold it."
	}
	return ""
}

const untabled = "%s sends %s to %s, a host without an api: what is asked there is held to no table, and metered by nobody"

// budgets looks at the limits: one that is shared is kept only if each attempt has one to
// reserve, and money only if there are prices.
func (r *reader) budgets(c *Config) {
	priced := func(key string, cost int64) {
		if cost > 0 && len(c.Prices.Models) == 0 {
			r.doubt(join(key, "cost"), "There are no prices, so nothing could be paid: give prices.models, or take it out.")
		}
	}
	for name, b := range c.Builders {
		key := join(join("builders", name), "budget")
		priced(key, b.Budget.Cost)
		provided := b.AsksModels()
		if b.Budget != (Spend{}) && !provided {
			r.doubt(key, "It has no provider that the gateway meters: give egress a credential with its api, or take it out.")
		}
		for scope, s := range c.Budgets.scopes() {
			for _, n := range []struct {
				kind       string
				limit, own int64
			}{{"tokens", s.Tokens, b.Budget.Tokens}, {"cost", s.Cost, b.Budget.Cost}} {
				if provided && n.limit > 0 && n.own == 0 {
					r.doubt(join(key, n.kind), "It must be given since "+join(join("budgets", scope), n.kind)+" is: it is what an attempt reserves of that.")
				} else if provided && n.limit > 0 && n.own > n.limit {
					r.doubt(join(key, n.kind), "It is more than "+join(join("budgets", scope), n.kind)+", so nothing could ever be claimed.")
				}
			}
		}
	}
	for scope, s := range c.Budgets.scopes() {
		priced(join("budgets", scope), s.Cost)
	}
}

func (b Budgets) scopes() map[string]Shared {
	return map[string]Shared{"task": b.Task, "world": b.World, "day": b.Day}
}

// ofModels reports whether any of them limits what is used of models.
func (b Budgets) ofModels() bool {
	for _, s := range b.scopes() {
		if s.Tokens > 0 || s.Cost > 0 {
			return true
		}
	}
	return false
}

var (
	currencyForm = lazyregexp.New(`^[A-Za-z]{1,16}$`)
	modelForm    = lazyregexp.New(`^[A-Za-z0-9._:/-]{0,255}(\*|[A-Za-z0-9._:/-])$`)
)

// ByModel is Of, or nil where no model has a price.
func (p Prices) ByModel() func(model string) *kernel.Price {
	if len(p.Models) == 0 {
		return nil
	}
	return p.Of
}

// Of is the price of a model, nil where there is none.
func (p Prices) Of(model string) *kernel.Price {
	best, found := "", false
	for name := range p.Models {
		begins, pattern := strings.CutSuffix(name, "*")
		switch {
		case !pattern && name == model:
			best, found = name, true
		case !pattern || !strings.HasPrefix(model, begins):
			continue
		case !found || strings.HasSuffix(best, "*") && len(name) > len(best):
			best, found = name, true
		}
	}
	if !found {
		return nil
	}
	one := p.Models[best]
	return &kernel.Price{Currency: p.Currency, Input: one.Input, CacheRead: one.CacheRead, CacheWrite: one.CacheWrite, Output: one.Output}
}

// prices looks at the price list. A kind without a price would count as nothing.
func (r *reader) prices(p Prices) {
	if (len(p.Models) > 0 || p.Currency != "") && !currencyForm().MatchString(p.Currency) {
		r.doubt("prices.currency", "It must be the currency's name, of 1 to 16 letters, such as USD.")
	}
	for name := range p.Models {
		key := join("prices.models", name)
		if !modelForm().MatchString(name) {
			r.doubt(key, "It must be the name of a model, or its beginning and a star at the end, such as claude-sonnet-*.")
		}
		missing := slices.DeleteFunc([]string{"input", "cache_read", "cache_write", "output"}, func(kind string) bool { _, given := r.lines[join(key, kind)]; return given })
		if len(missing) > 0 {
			r.doubt(key, "It has no price for "+strings.Join(missing, ", ")+". Give each of the four; 0 is for what costs nothing.")
		}
	}
}
