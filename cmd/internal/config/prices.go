package config

import (
	"slices"
	"strings"

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

var (
	currencyForm = lazyregexp.New(`^[A-Za-z]{1,16}$`)
	modelForm    = lazyregexp.New(`^[A-Za-z0-9._:/-]{0,255}(\*|[A-Za-z0-9._:/-])$`)
)

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
