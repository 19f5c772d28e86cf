package builder

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/kernel"
)

// actAsk asks a provider with each body, and prints the answers.
func actAsk(url string, bodies []string) {
	for _, body := range bodies {
		answer, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println("failed:", err)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Printf("%d %s\n", answer.StatusCode, text)
	}
}

const providersKey = "s3cret-key-of-the-operator"

// provider is a stand-in for a provider of models, of which the operator has the key, and
// where it is asked for.
func provider(t *testing.T, b *bed, api string, h http.Handler) (at string, rule gateway.Rule) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	b.local.roots = x509.NewCertPool()
	b.local.roots.AddCert(s.Certificate())
	a := gateway.APIs()[api]
	rule = gateway.Rule{
		Host: "example.com", Ports: []uint16{netip.MustParseAddrPort(s.Listener.Addr().String()).Port()}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Credential: &gateway.Credential{Header: a.Header, Value: a.Prefix + providersKey, API: a},
	}
	return rule.Inside(), rule
}

// ask asks the provider for a message, with what is said beside it.
func ask(at, more string) string {
	return fmt.Sprintf(`"$INIT" act-ask %s/v1/messages '{%s"model":"m","max_tokens":1,"messages":[]}'; `, at, more)
}

// asks is a builder that may reach the provider.
func asks(rule gateway.Rule, text string) Builder {
	b := script(text)
	b.Egress = []gateway.Rule{rule}
	return b
}

// TestF3_ProviderKey: a builder works with a model whose key it finds nowhere, and what it
// asks for beyond that is refused by name, and recorded.
func TestF3_ProviderKey(t *testing.T) {
	t.Parallel()
	var told []string
	b := outward(t, func(c *Config) {
		c.Usage = func(world, builder string, one kernel.Usage) {
			told = append(told, fmt.Sprint(world, " ", builder, " unmeasured: ", one.Reserved+one.Unknown))
		}
	})
	m := &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}}
	at, rule := provider(t, b, "anthropic", m)
	o := b.build(b.job(asks(rule, `echo x > calc/new; env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null || true; `+ask(at, `"new":1,`)+ask(at, `"mcp_servers":[1],`))))
	if codes(o) != "" || !strings.Contains(o.Result.Stdout.Tail, `"text":"hello"`) || !strings.Contains(o.Result.Stdout.Tail, "mcp_servers: the provider would call servers") {
		t.Errorf("%s, output %q", codes(o), o.Result.Stdout.Tail)
	}
	kept, err := json.Marshal(o.Result)
	if err != nil || strings.Contains(string(kept)+b.lines.all()+b.log.String(), providersKey) {
		t.Errorf("the key is in the result or the log: %s, %v", kept, err)
	}
	if want := fmt.Sprint(b.job(Builder{}).World, " ", o.Result.Builder, " unmeasured: 0"); len(told) != 1 || told[0] != want {
		t.Errorf("told of usage %q, want %q", told, want)
	}
	e := o.Result.Egress
	if e == nil || len(e.Usage) != 1 || e.Usage[0].Requests != 1 || e.Usage[0].Tokens() == 0 || len(e.Connections) != 2 || !slices.ContainsFunc(e.Connections, func(c kernel.Connection) bool { return c.Detail == "left out: new" }) ||
		!slices.ContainsFunc(e.Connections, func(c kernel.Connection) bool { return c.Code == gateway.CodeBody }) || len(m.Asked()) != 1 || len(m.Wrong()) > 0 {
		t.Errorf("recorded %+v, the provider was asked %q, without the key %q", e, m.Asked(), m.Wrong())
	}
}

// TestProvider_OutageIsNoAttempt: where the provider did nothing for a run that failed, that
// is no failure of the builder's. It is the gateway that says so, and nobody inside.
func TestProvider_OutageIsNoAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		more, then string
		want       string
	}{
		"overload":        {529, "", "exit 1", "execution.exit_status provider.unavailable"},
		"too many":        {429, "", "exit 1", "execution.exit_status provider.unavailable"},
		"key":             {401, "", "exit 1", "execution.exit_status provider.refused"},
		"account":         {402, "", "exit 1", "execution.exit_status provider.refused"},
		"served":          {0, "", "exit 1", "execution.exit_status"},
		"its own mistake": {400, "", "exit 1", "execution.exit_status"},
		"overcome":        {529, "", "true", ""},
		"only said":       {0, "", "echo 529 overloaded >&2; exit 1", "execution.exit_status"},
		"out of scope":    {529, "", "echo x > outside; exit 1", "execution.scope.violation execution.exit_status scope.outside"},
		"refused by us":   {0, `"mcp_servers":[1],`, "exit 1", "execution.exit_status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t)
			at, rule := provider(t, b, "anthropic", &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello", Status: c.status}}})
			o := b.build(b.job(asks(rule, "echo x > calc/new; "+ask(at, c.more)+c.then)))
			if codes(o) != c.want {
				t.Errorf("%q, want %q: %v", codes(o), c.want, o.Violations)
			}
			for _, v := range o.Violations {
				if strings.HasPrefix(string(v.Code), "provider.") && (v.Subject != "example.com" || v.Code.Info().Counts != kernel.CountsInterruption || !strings.Contains(v.Detail, fmt.Sprint(c.status))) {
					t.Errorf("%+v", v)
				}
			}
		})
	}
	b := outward(t)
	at, rule := provider(t, b, "anthropic", http.NotFoundHandler())
	b.local.roots = x509.NewCertPool() // the other side is nobody
	if o := b.build(b.job(asks(rule, "echo x > calc/new; "+ask(at, "")+"exit 1"))); codes(o) != "execution.exit_status provider.unavailable" {
		t.Errorf("not reached: %q, %v", codes(o), o.Violations)
	}
}

// TestProvider_ContextExhausted: where the last answer of the provider says that the work is
// longer than the model's context, a failure has that code, and counts as an attempt. An agent
// that goes on with less has nothing to answer for.
func TestProvider_ContextExhausted(t *testing.T) {
	t.Parallel()
	bodies := map[string][2]string{
		"anthropic": {"/v1/messages", `{"model":"m","max_tokens":1,"messages":[]}`},
		"openai":    {"/v1/responses", `{"model":"m","input":"x"}`},
		"gemini":    {"/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`},
	}
	for api, c := range bodies {
		for then, want := range map[string]string{"exit 1": "execution.exit_status execution.context_exhausted", "true": ""} {
			t.Run(api+" "+then, func(t *testing.T) {
				t.Parallel()
				b := outward(t)
				at, rule := provider(t, b, api, &stub.Model{Key: providersKey, Turns: []stub.Turn{{Full: true}}})
				o := b.build(b.job(asks(rule, fmt.Sprintf(`echo x > calc/new; "$INIT" act-ask %s%s '%s'; %s`, at, c[0], c[1], then))))
				if codes(o) != want {
					t.Errorf("%q, want %q: %v, %s", codes(o), want, o.Violations, o.Result.Stdout.Tail)
				}
			})
		}
	}
	if kernel.CodeExecutionContext.Info().Counts != kernel.CountsAttempt {
		t.Error("the same task would be too long again, for nothing")
	}
}

// TestProvider_OutageWithinAnAnswer: an overload that a provider tells of in an answer that
// began with 200 is one, too.
func TestProvider_OutageWithinAnAnswer(t *testing.T) {
	t.Parallel()
	b := outward(t)
	word := ""
	at, rule := provider(t, b, "anthropic", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":%q}}\n\n", word)
	}))
	for said, want := range map[string]string{
		"overloaded_error":      "execution.exit_status provider.unavailable",
		"billing_error":         "execution.exit_status provider.refused",
		"invalid_request_error": "execution.exit_status",
	} {
		word = said
		o := b.build(b.job(asks(rule, "echo x > calc/new; "+ask(at, "")+"exit 1")))
		if codes(o) != want {
			t.Errorf("%s: %q, want %q: %v", said, codes(o), want, o.Violations)
		}
	}
}
