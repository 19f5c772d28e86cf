package builder

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// versioned is a builder of a kind whose program does what a script says when it is asked
// for its version, and what first says when it is to work.
func versioned(t *testing.T, kind string, rule gateway.Rule, text string, first ...string) Builder {
	t.Helper()
	dir := t.TempDir()
	gittest.WriteProgram(t, filepath.Join(dir, "agent"), "#!/bin/sh\n[ \"$*\" = --version ] || { "+strings.Join(append(first, "exit 9"), "\n")+"; }\n"+text+"\n")
	return Builder{Kind: kind, Argv: []string{"/opt/agent/agent"}, Env: map[string]string{"INIT": "/run/writ/init"}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/agent"}}, Egress: []gateway.Rule{rule}}
}

const saysTested = "echo '2.1.332 (Claude Code)'"

// works asks for a message as an agent that has tools, with what is said beside it.
func works(more string) string {
	return `"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/messages" '{` + more + `"model":"m","max_tokens":1,"messages":[],"tools":[{"name":"a","input_schema":{}}]}'`
}

// TestPreflight_FirstRequest: the installed agent is run once, with nobody behind the gateway,
// and what its table refuses of the agent's request is said before anything is claimed, with
// the row that would let it through. Nobody is asked for anything that costs.
func TestPreflight_FirstRequest(t *testing.T) {
	t.Parallel()
	const title = `"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/messages" '{"model":"m","max_tokens":1,"messages":[]}'`
	const refused = "The gateway's table refuses what claude-code 2.2.0 asks its provider for: hints: it isn't known; the row for credential.allow: hints. Tested is 2.1.332."
	for name, c := range map[string]struct {
		first, version string
		rows           []string
		passes         bool
		detail, note   string
	}{
		"well":                         {first: works(""), passes: true},
		"an option of another":         {first: works(`"hints":1,`), passes: true},
		"what the table lacks":         {first: works(`"hints":{"a":1},`), version: "2.2.0", detail: refused, note: "Tested is"},
		"the row":                      {first: works(`"hints":{"a":1},`), rows: []string{"hints"}, passes: true},
		"its work beside a title":      {first: title + "\n" + works(`"hints":{"a":1},`), version: "2.2.0", detail: refused, note: "Tested is"},
		"another endpoint besides":     {first: `"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/events" '{}'` + "\n" + works(""), passes: true},
		"without tools":                {first: title, passes: true},
		"another endpoint alone":       {first: `"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/events" '{}'`, detail: "POST /v1/events isn't allowed there; the row for credential.allow: POST /v1/events as /v1/messages."},
		"another endpoint and a title": {first: `"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/events" '{}'` + "\n" + title, passes: true},
		"all of it, one refused":       {first: `"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/events" '{}'` + "\n" + title + "\n" + works(`"hints":{"a":1},`), version: "2.2.0", detail: refused, note: "Tested is"},
		"it ends":                      {first: "echo no such option: --bare >&2; exit 7", note: "It ended with the exit status 7 before it asked its provider for anything, so that it isn't known whether the gateway's table has what it asks for. no such option: --bare"},
		"it asks somebody else":        {first: `"$INIT" act-fetch http://evil.example/x http://models.example.org/x`, note: "It ended with the exit status 9"},
		"what is said isn't hidden":    {first: "echo " + providersKey + " >&2; exit 7", note: "[secret]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t, withoutKey)
			m := &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}}
			_, rule := provider(t, b, "anthropic", m)
			var err error
			if rule.Credential.API, err = rule.Credential.API.With(c.rows); err != nil {
				t.Fatal(err)
			}
			agent := versioned(t, "claude-code", rule, "echo "+cmp.Or(c.version, "2.1.332"), c.first)
			agent.Egress = append(agent.Egress, gateway.Rule{Host: "models.example.org", Ports: []uint16{80}})
			b.local.cfg.Builders["default"] = agent
			p := b.local.Preflight(t.Context(), "default")
			detail := ""
			for _, v := range p.Faults {
				if detail += v.Detail; v.Code != kernel.CodeEnvBuilderRequest {
					t.Errorf("%+v", v)
				}
			}
			if p.Passes != c.passes || detail != c.detail && !strings.HasSuffix(detail, c.detail) || (detail == "") != (c.detail == "") || !strings.Contains(p.Note, c.note) || c.note == "" && p.Note != "" || len(m.Asked()) > 0 {
				t.Errorf("%+v, asked %q", p, m.Asked())
			}
		})
	}
}

// TestTryAgent: a program that starts and asks its provider for nothing isn't the agent, and
// what it did instead is said. One that asks needs no provider that answers.
func TestTryAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version, first, code, detail string
	}{
		"the agent":            {version: saysTested, first: works("")},
		"nothing at all":       {version: "exit 0", first: "exit 0", code: "environment.builder.failed", detail: "It ended with the exit status 0 before it asked its provider for anything"},
		"no version":           {version: "exit 2", code: "environment.builder.failed", detail: "asked for its version it ended with the exit status 2"},
		"what the table lacks": {version: saysTested, first: works(`"hints":{"a":1},`), code: "environment.builder.request_denied", detail: "hints"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t, withoutKey)
			_, rule := provider(t, b, "anthropic", &stub.Model{Key: providersKey})
			b.local.roots = nil // the provider can't be reached
			b.local.cfg.Builders["default"] = versioned(t, "claude-code", rule, c.version, c.first)
			var code, detail string
			for _, v := range b.local.TryAgent(t.Context(), "default").Faults {
				code, detail = string(v.Code), v.Detail
			}
			if code != c.code || !strings.Contains(detail, c.detail) {
				t.Errorf("%s: %s", code, detail)
			}
		})
	}
}

// TestPreflight_FirstRequestOnce: it is made once for a program as it is.
func TestPreflight_FirstRequestOnce(t *testing.T) {
	t.Parallel()
	b := outward(t)
	_, rule := provider(t, b, "anthropic", &stub.Model{Key: providersKey})
	agent := versioned(t, "claude-code", rule, saysTested, works(""))
	b.local.cfg.Builders["default"] = agent
	if p := b.local.Preflight(t.Context(), "default"); !p.Passes {
		t.Fatalf("%+v", p)
	}
	again := func() Preflight {
		b.local.preflights.entry(agent).first.passed = false // only another try finds out otherwise
		b.local.doubtPreflight("default")
		return b.local.Preflight(t.Context(), "default")
	}
	if p := again(); p.Passes {
		t.Error("the same program is tried again")
	}
	if err := os.Chtimes(filepath.Join(agent.ReadOnly[0].Source, "agent"), time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if p := again(); !p.Passes {
		t.Errorf("another program isn't tried: %+v", p)
	}
}

// TestPreflight_FirstRequestAgain: where it asked for nothing, that is found out the next time,
// and doesn't count for the program.
func TestPreflight_FirstRequestAgain(t *testing.T) {
	t.Parallel()
	b := outward(t)
	_, rule := provider(t, b, "anthropic", &stub.Model{Key: providersKey})
	ready := filepath.Join(t.TempDir(), "ready")
	agent := versioned(t, "claude-code", rule, saysTested, "[ -e /opt/ready/ready ] || exit 7", works(""))
	agent.ReadOnly = append(agent.ReadOnly, sandbox.Mount{Source: filepath.Dir(ready), Target: "/opt/ready"})
	b.local.cfg.Builders["default"] = agent
	if p := b.local.Preflight(t.Context(), "default"); p.Passes || !strings.Contains(p.Note, "status 7") || len(p.Faults) > 0 {
		t.Fatalf("%+v", p)
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := b.local.Preflight(t.Context(), "default"); p.Passes {
		t.Error("what was noted doesn't count for a while")
	}
	b.local.doubtPreflight("default")
	if p := b.local.Preflight(t.Context(), "default"); !p.Passes || p.Note != "" {
		t.Errorf("it isn't tried again: %+v", p)
	}
}

// TestPreflight_Waits: while one is made, whoever waits for it can be ended, a run that ends
// over its provider doesn't wait at all, and what it doubts isn't kept.
func TestPreflight_Waits(t *testing.T) {
	t.Parallel()
	b := outward(t)
	var asked atomic.Int64
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	_, rule := provider(t, b, "anthropic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		begun <- struct{}{}
		<-goOn
	}))
	b.local.cfg.Builders["default"] = Builder{Kind: "command", Argv: []string{"true"}, Egress: []gateway.Rule{rule}}
	ended := make(chan Preflight)
	go func() { ended <- b.local.Preflight(t.Context(), "default") }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waited := make(chan Preflight, 1)
	go func() { waited <- b.local.Preflight(ctx, "default") }()
	select {
	case p := <-waited:
		if len(p.Faults) != 1 || !strings.Contains(p.Faults[0].Detail, "the wait") {
			t.Errorf("the wait that was ended: %+v", p)
		}
	case <-time.After(preflightTime / 2):
		t.Error("the wait isn't ended")
	}
	b.local.doubtPreflight("default")
	close(goOn)
	if p := <-ended; len(p.Faults) > 0 {
		t.Errorf("%+v", p)
	}
	for range 2 {
		b.local.Preflight(t.Context(), "default")
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want 2: what was doubted while it was found out is kept, or nothing is", n)
	}
}

// TestPreflight_ProgramFiles: a program is each file that its argv names by an absolute path,
// as it is now, and a configuration with another network is another one.
func TestPreflight_ProgramFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "cli.js")
	if err := os.WriteFile(script, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	below := Builder{Argv: []string{"node", "/opt/cli/cli.js"}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/cli"}}}
	alone := Builder{Argv: []string{"node", "/opt/cli.js"}, ReadOnly: []sandbox.Mount{{Source: script, Target: "/opt/cli.js"}}}
	plain := Builder{Argv: []string{"node", script}}
	before := []string{below.program(), alone.program(), plain.program()}
	if err := os.WriteFile(script, []byte("22"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, b := range []Builder{below, alone, plain} {
		if b.program() == before[i] {
			t.Errorf("%q: another script is the same program: %q", b.Argv, before[i])
		}
	}
	var all preflights
	other := plain
	other.Loopback = true
	if all.entry(plain) == all.entry(other) {
		t.Error("what was found counts for another configuration")
	}
}

// TestPreflight_Faults: what a run would fail over is said before anything is claimed, with
// the code of whose it is, and nothing is asked for that costs anything.
func TestPreflight_Faults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program, key  string
		status        int
		unknown       bool // the provider can't show who it is
		want, details string
	}{
		"well":                       {program: saysTested, key: providersKey, want: ""},
		"a key for models alone":     {program: saysTested, key: providersKey, status: 403, want: ""},
		"a proxy without a list":     {program: saysTested, key: providersKey, status: 404, want: ""},
		"another key":                {program: saysTested, key: "other", want: "provider.refused", details: "status 401"},
		"an account without money":   {program: saysTested, key: providersKey, status: 402, want: "provider.refused", details: "status 402"},
		"an overload":                {program: saysTested, key: providersKey, status: 529, want: "provider.unavailable", details: "status 529"},
		"too many requests":          {program: saysTested, key: providersKey, status: 429, want: "provider.unavailable", details: "status 429"},
		"somebody else":              {program: saysTested, key: providersKey, unknown: true, want: "provider.unavailable", details: "didn't show by TLS"},
		"a program that ends":        {program: "echo no such library >&2; exit 127", key: providersKey, want: "environment.builder.failed", details: "no such library"},
		"a program without anything": {program: "exec /nowhere", key: providersKey, want: "environment.builder.failed", details: "exit status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t)
			m := &stub.Model{Key: c.key}
			_, rule := provider(t, b, "anthropic", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/v1/models" || r.Header.Get("Anthropic-Version") == "" {
					t.Errorf("asked for %s %s", r.Method, r.URL)
				}
				if c.status != 0 {
					w.WriteHeader(c.status)
					return
				}
				m.ServeHTTP(w, r)
			}))
			if c.unknown {
				b.local.roots = x509.NewCertPool()
			}
			b.local.cfg.Builders["default"] = versioned(t, "claude-code", rule, c.program)
			vs := b.local.Environment(t.Context(), "default")
			if got := words(vs); got != c.want || !strings.Contains(fmt.Sprint(vs), c.details) || strings.Contains(fmt.Sprint(vs), providersKey) {
				t.Errorf("%q, want %q: %v", got, c.want, vs)
			}
		})
	}
}

// TestPreflight_Said: it says the program's version, how that differs from what was tested,
// and who takes the key.
func TestPreflight_Said(t *testing.T) {
	t.Parallel()
	b := outward(t)
	_, rule := provider(t, b, "anthropic", &stub.Model{Key: providersKey})
	for program, note := range map[string]string{saysTested: "", "echo '2.2.0 (Claude Code)'; echo more": "Tested is 2.1.332; what another"} {
		b.local.cfg.Builders["default"] = versioned(t, "claude-code", rule, program, works(""))
		p := b.local.Preflight(t.Context(), "default")
		if !strings.HasSuffix(p.Version, " (Claude Code)") || !strings.HasPrefix(p.Note, note) || note == "" && p.Note != "" || fmt.Sprint(p.Takes) != "[example.com]" || len(p.Faults) > 0 {
			t.Errorf("%+v", p)
		}
	}
	command := script("exit 1")
	command.Kind = "command"
	b.local.cfg.Builders["default"] = command
	if p := b.local.Preflight(t.Context(), "default"); fmt.Sprint(p) != fmt.Sprint(Preflight{}) {
		t.Errorf("of no kind: %+v", p)
	}
}

// TestPreflight_Counts: it is made once for a while, and anew for another key, another
// program, and once a run has ended over its provider.
func TestPreflight_Counts(t *testing.T) {
	t.Parallel()
	b := outward(t)
	var asked atomic.Int64
	m := &stub.Model{Key: providersKey, Turns: []stub.Turn{{Status: 529}}}
	at, rule := provider(t, b, "anthropic", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked.Add(1)
		}
		m.ServeHTTP(w, r)
	}))
	want := func(n int64, why string) {
		t.Helper()
		for range 2 {
			b.local.Environment(t.Context(), "default")
		}
		if got := asked.Load(); got != n {
			t.Errorf("%s: asked %d times, want %d", why, got, n)
		}
	}
	job := b.job(asks(rule, "echo x > calc/new; "+ask(at, "")+"exit 1"))
	want(1, "at first")
	if o := b.build(job); codes(o) != "execution.exit_status provider.unavailable" {
		t.Fatal(codes(o))
	}
	want(2, "after an outage")
	other := *rule.Credential
	other.Value = "other"
	rule.Credential = &other
	again := b.local.cfg.Builders["default"]
	again.Egress = []gateway.Rule{rule}
	b.local.cfg.Builders["default"] = again
	want(3, "with another key")
	again.Instructions = true
	b.local.cfg.Builders["default"] = again
	want(4, "with the repository's instructions")
}
