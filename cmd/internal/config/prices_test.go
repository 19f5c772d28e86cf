package config

import (
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

const somePrices = `
prices:
  currency: USD
  models:
    claude-sonnet-*: {input: 3000000, cache_read: 300000, cache_write: 3750000, output: 15000000}
    claude-*: {input: 9, cache_read: 9, cache_write: 9, output: 9}
    claude-sonnet-4-5: {input: 1, cache_read: 2, cache_write: 3, output: 1000000000000}
    free: {input: 0, cache_read: 0, cache_write: 0, output: 0}
`

// TestPrices_Of: the whole name wins, then the longest beginning, and what isn't listed has
// no price, which is another thing than one of 0.
func TestPrices_Of(t *testing.T) {
	c, err := Parse("writ.yaml", []byte(somePrices))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]*kernel.Price{
		"claude-sonnet-4-5":          {Currency: "USD", Input: 1, CacheRead: 2, CacheWrite: 3, Output: kernel.MaxPrice},
		"claude-sonnet-4-5-20250929": {Currency: "USD", Input: 3000000, CacheRead: 300000, CacheWrite: 3750000, Output: 15000000},
		"claude-haiku":               {Currency: "USD", Input: 9, CacheRead: 9, CacheWrite: 9, Output: 9},
		"free":                       {Currency: "USD"},
		"free-of-charge":             nil,
		"gpt":                        nil,
		"":                           nil,
	} {
		got := c.Prices.Of(model)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
}

// TestPrices_Refuses: a kind that would count as nothing since its price was forgotten, and
// what is no price or no name.
func TestPrices_Refuses(t *testing.T) {
	const four = "{input: 1, cache_read: 1, cache_write: 1, output: 1}"
	for text, want := range map[string]string{
		"{currency: USD, models: {m: {input: 1, output: 1}}}":                                            "no price for cache_read, cache_write",
		"{models: {m: " + four + "}}":                                                                    "prices.currency",
		"{currency: '3 USD', models: {m: " + four + "}}":                                                 "prices.currency",
		"{currency: USD, models: {'a*b': " + four + "}}":                                                 "prices.models.a*b",
		"{currency: USD, models: {'a b': " + four + "}}":                                                 "prices.models.a b",
		"{currency: USD, models: {m: {input: 1.5, cache_read: 1, cache_write: 1, output: 1}}}":           "whole number",
		"{currency: USD, models: {m: {input: -1, cache_read: 1, cache_write: 1, output: 1}}}":            "whole number",
		"{currency: USD, models: {m: {input: 1, cache_read: 1, cache_write: 1, output: 1e3}}}":           "whole number",
		"{currency: USD, models: {m: {input: 1000000000001, cache_read: 1, cache_write: 1, output: 1}}}": "whole number",
	} {
		if _, err := Parse("writ.yaml", []byte("prices: "+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestBudgets_Refuses: a shared limit that nothing would be reserved of, money without prices,
// and what could never be met.
func TestBudgets_Refuses(t *testing.T) {
	const (
		prices   = "prices: {currency: USD, models: {m: {input: 1, cache_read: 1, cache_write: 1, output: 1}}}\n"
		provider = "egress: [{host: api.anthropic.com, credential: {secret: KEY, api: anthropic}}]"
	)
	builder := func(more string) string { return "builders: {b: {argv: [x], " + more + "}}\n" }
	for text, want := range map[string]string{
		prices + builder(provider+", budget: {tokens: 5, cost: 5}") + "budgets: {task: {tokens: 5}, day: {cost: 9}}\n": "",
		builder(provider+", budget: {tokens: 5}") + "budgets: {world: {tokens: 5}}\n":                                  "",
		builder("result: optional") + "budgets: {world: {tokens: 5}}\n":                                                "",
		builder(provider) + "budgets: {task: {tokens: 5}}\n":                                                           "builders.b.budget.tokens",
		prices + builder(provider+", budget: {tokens: 5}") + "budgets: {day: {cost: 5}}\n":                             "builders.b.budget.cost",
		builder(provider+", budget: {tokens: 6}") + "budgets: {world: {tokens: 5}}\n":                                  "could ever be claimed",
		builder(provider + ", budget: {cost: 6}"):                                                                      "builders.b.budget.cost",
		"budgets: {day: {cost: 5}}\n":                                                                                  "budgets.day.cost",
		builder("budget: {tokens: 6}"):                                                                                 "no provider",
		builder(provider + ", budget: {tokens: -1}"):                                                                   "whole number",
	} {
		_, err := Parse("writ.yaml", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestWarnings: it is said where a model has no price, where nobody meters a builder, and
// where the key of a model goes to a host without a table.
func TestWarnings(t *testing.T) {
	const prices = "prices: {currency: USD, models: {a*: {input: 1, cache_read: 1, cache_write: 1, output: 1}}}\n"
	agent := func(model, more string) string {
		return "builders: {default: {kind: claude-code, argv: [a], model: " + model + more + ", egress: [{host: api.anthropic.com, credential: {secret: KEY, api: anthropic}}]}}\n"
	}
	for text, want := range map[string]string{
		prices + agent("abc", ""):                  "",
		prices + agent("b", ""):                    "prices.models has no price for b, the model of builders.default: what it costs isn't known.",
		prices + agent("b", ", budget: {cost: 5}"): "prices.models has no price for b, the model of builders.default: what it costs isn't known, and with builders.default.budget.cost nothing is claimed for it.",
		agent("b", ""):                             "",
		"budgets: {day: {tokens: 5}}\nbuilders: {default: {argv: [a], egress: [{host: models.example, credential: {secret: KEY}}]}}\n":                                                                                            "builders.default has a credential without an api, so that nobody meters what it uses by that: budgets don't hold it.",
		"budgets: {day: {tokens: 5}}\nbuilders: {default: {argv: [a], budget: {tokens: 5}, egress: [{host: api.anthropic.com, credential: {secret: KEY, api: anthropic}}, {host: models.example, credential: {secret: KEY}}]}}\n": "builders.default has a credential without an api, so that nobody meters what it uses by that: budgets don't hold it.",
		"budgets: {day: {tokens: 5}}\nbuilders: {default: {argv: [a]}}\n":                                                                                                                           "",
		"builders: {default: {argv: [a], egress: [{host: models.example, credential: {secret: MY_API_KEY}}]}}\n":                                                                                    "builders.default sends MY_API_KEY to models.example, a host without an api: what is asked there is held to no table, and metered by nobody.",
		"builders: {default: {argv: [a], egress: [{host: models.example, credential: {secret: MY_API_KEY, api: openai}}]}}\n":                                                                       "",
		"budgets: {task: {time: 1h}}\nbuilders: {default: {argv: [a], egress: [{host: models.example, credential: {secret: MY_API_KEY}}]}}\n":                                                       "builders.default sends MY_API_KEY to models.example, a host without an api: what is asked there is held to no table, and metered by nobody.",
		"budgets: {day: {tokens: 5}}\nbuilders: {default: {argv: [a], egress: [{host: mirror.example, credential: {secret: MIRROR}}, {host: models.example, credential: {secret: MY_API_KEY}}]}}\n": "builders.default sends MY_API_KEY to models.example, a host without an api: what is asked there is held to no table, and metered by nobody, so that budgets don't hold it.",
		"builders: {default: {argv: [a], egress: [{host: mirror.example, credential: {secret: MIRROR}}]}}\n":                                                                                        "",
	} {
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := strings.Join(c.Warnings(), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
