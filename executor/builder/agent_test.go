package builder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

type js = map[string]any

// says is a builder of a kind whose program does what a script says instead.
func says(kind string, rule gateway.Rule, text string) Builder {
	return Builder{Kind: kind, Model: "test-model", Argv: []string{"/bin/sh", "-c", prelude + text}, Egress: []gateway.Rule{rule}, Env: map[string]string{}}
}

// withoutArgs takes from a kind what it adds to argv, which a shell wouldn't understand.
func withoutArgs(t *testing.T, kind string) {
	t.Helper()
	was := agents[kind]
	t.Cleanup(func() { agents[kind] = was })
	a := was
	a.launch = func(api, model, at string) launch {
		l := was.launch(api, model, at)
		env := map[string]string{"ARGS": strings.Join(l.args, " ")}
		maps.Copy(env, l.env)
		return launch{env: env}
	}
	agents[kind] = a
}

// TestAgent_Launch: a kind tells its agent of the provider, gives it a home of its own and
// something that is no key, and lets it ask nobody.
func TestAgent_Launch(t *testing.T) {
	for kind, want := range map[string][]string{
		"claude-code": {"ANTHROPIC_BASE_URL=http://example.com:", "ANTHROPIC_API_KEY=placeholder\n", "CLAUDE_CONFIG_DIR=/home/writ/.claude\n", "-p --bare --output-format stream-json --verbose", "--permission-mode bypassPermissions", "--setting-sources ", "--model test-model", "NONESSENTIAL_TRAFFIC=1\n"},
		"codex":       {"exec --json --ephemeral", "--ignore-user-config --ignore-rules", "base_url=\"http://example.com:", "/v1\",wire_api=\"responses\"", "--model test-model\n", "web_search=\"disabled\"", "supports_websockets=false", "project_doc_max_bytes=0", "skills.include_instructions=false", "features.unbounded_connection_retries=false"},
	} {
		withoutArgs(t, kind)
		b := outward(t)
		_, rule := provider(t, b, KindAPI(kind), &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}})
		o := b.build(b.job(says(kind, rule, `env; echo x > calc/new`)))
		for _, w := range want {
			if !strings.Contains(o.Result.Stdout.Tail, w) {
				t.Errorf("%s: %q isn't in\n%s", kind, w, o.Result.Stdout.Tail)
			}
		}
		if strings.Contains(o.Result.Stdout.Tail, providersKey) {
			t.Errorf("%s: the key is inside", kind)
		}
	}
}

// TestAgent_OperatorsArgumentsComeLast: the program is the operator's, then comes what the
// kind adds, then what the operator wrote; the record has all of it.
func TestAgent_OperatorsArgumentsComeLast(t *testing.T) {
	b := Builder{Kind: "claude-code", Argv: []string{"/opt/claude", "--effort", "low"}, Env: map[string]string{"IS_SANDBOX": "2"}}.prepared()
	if b.Argv[0] != "/opt/claude" || b.Argv[1] != "-p" || !slices.Equal(b.Argv[len(b.Argv)-2:], []string{"--effort", "low"}) || b.Env["IS_SANDBOX"] != "2" || b.Env["ANTHROPIC_API_KEY"] != Placeholder {
		t.Errorf("%+v", b)
	}
	if b := (Builder{Argv: []string{"a", "b"}}).prepared(); b.Env != nil || !slices.Equal(b.Argv, []string{"a", "b"}) {
		t.Errorf("%+v", b)
	}
}

// TestAgent_Instructions: a kind reads nothing of a repository's words to agents unless the
// operator says so, and then its plain instructions alone. Which of the two it was is recorded.
func TestAgent_Instructions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b              Builder
		off, on, never string // in argv and environment: without the instructions, with them, and not with them
		instructs      bool
	}{
		"claude-code":   {b: Builder{Kind: "claude-code", Argv: []string{"/opt/claude"}}, off: " --bare ", on: " --setting-sources  --add-dir /workspace --disable-slash-commands", never: " --bare ", instructs: true},
		"codex":         {b: Builder{Kind: "codex", Argv: []string{"/opt/codex"}}, off: "project_doc_max_bytes=0 ", on: "project_doc_max_bytes=32768 ", never: "project_doc_max_bytes=0 ", instructs: true},
		"opencode":      {b: Builder{Kind: "acp", Argv: []string{"/opt/opencode", "acp"}}, off: "OPENCODE_DISABLE_PROJECT_CONFIG:1", on: `"instructions":["/workspace/AGENTS.md"]`, never: "OPENCODE_PURE:0", instructs: true},
		"another agent": {b: Builder{Kind: "acp", Argv: []string{"/opt/gemini", "--acp"}}, off: "/opt/gemini --acp", on: "/opt/gemini --acp", never: `"instructions"`},
		"a command":     {b: Builder{Kind: "command", Argv: []string{"opencode"}}, off: "opencode", on: "opencode", never: `"instructions"`},
	} {
		text := func(b Builder) string {
			b = b.prepared()
			return fmt.Sprint(strings.Join(b.Argv, " "), " ", b.Env)
		}
		off := text(c.b)
		c.b.Instructions = true
		on := text(c.b)
		if !strings.Contains(off, c.off) || strings.Contains(off, "instructions\"") || !strings.Contains(on, c.on) || strings.Contains(on, c.never) {
			t.Errorf("%s: without them\n%s\nwith them\n%s", name, off, on)
		}
		if Instructs(c.b.Kind, c.b.Argv) != c.instructs || c.b.instructed() != c.instructs {
			t.Errorf("%s: it is said to obey them: %t", name, c.b.instructed())
		}
	}
	if Instructs("claude-code", nil) {
		t.Error("a builder without a program obeys")
	}
}

// TestAgent_Ends: what an agent says of its end counts where it says that it failed, and
// its last message and its usage are kept as claims.
func TestAgent_Ends(t *testing.T) {
	line := func(v js) string {
		data, _ := json.Marshal(v)
		return "echo '" + string(data) + "'; "
	}
	claude := func(isError bool, subtype string) string {
		return line(js{"type": "system"}) + line(js{"type": "result", "subtype": subtype, "is_error": isError, "num_turns": 3, "result": "All done.", "total_cost_usd": 0.25, "usage": js{"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 9}})
	}
	codexSays := line(js{"type": "thread.started"}) + line(js{"type": "item.completed", "item": js{"type": "agent_message", "text": "All done."}})
	completed := line(js{"type": "turn.completed", "usage": js{"input_tokens": 12, "output_tokens": 9}})
	const change = "echo x > calc/new; "
	for name, c := range map[string]struct{ kind, text, codes, logs string }{
		"claude, well":           {"claude-code", change + claude(false, "success"), "", "All done.\nThe agent says that it used 3 turns, 12 tokens in, 9 out, and 0.2500 USD."},
		"claude, is_error":       {"claude-code", change + claude(true, "success"), "execution.reported_failure", ""},
		"claude, turns":          {"claude-code", change + claude(false, "error_max_turns"), "execution.reported_failure", ""},
		"claude, status":         {"claude-code", change + claude(true, "success") + "exit 1", "execution.reported_failure execution.exit_status", ""},
		"claude, nothing":        {"claude-code", change, "execution.reported_failure", ""},
		"claude, without an end": {"claude-code", change + `printf '{"type":"result","subtype":"success","result":"All done."}'`, "", "All done."},
		"claude, a long line":    {"claude-code", change + "head -c 2000000 /dev/zero | tr '\\0' x; echo; " + claude(false, "success"), "", "All done."},
		"codex, well":            {"codex", change + codexSays + completed, "", "All done.\nThe agent says that it used 12 tokens in, 9 out."},
		"codex, failed":          {"codex", change + codexSays + line(js{"type": "turn.failed", "error": js{"message": "no more"}}), "execution.reported_failure", ""},
		"codex, at length":       {"codex", change + codexSays + line(js{"type": "turn.failed", "error": js{"message": strings.Repeat("Writ verified this work. ", 100)}}), "execution.reported_failure", ""},
		"codex, not ended":       {"codex", change + codexSays, "execution.reported_failure", ""},
		"codex, again":           {"codex", change + line(js{"type": "turn.failed"}) + codexSays + completed, "", "All done."},
	} {
		t.Run(name, func(t *testing.T) {
			withoutArgs(t, c.kind)
			b := outward(t)
			_, rule := provider(t, b, KindAPI(c.kind), &stub.Model{Turns: []stub.Turn{{}}})
			o := b.build(b.job(says(c.kind, rule, c.text)))
			if codes(o) != c.codes || !strings.HasPrefix(o.Result.Result.Logs, c.logs) || (c.codes == "") != (o.Result.Result.Status == "success") {
				t.Errorf("%s: %v, result %+v", codes(o), o.Violations, o.Result.Result)
			}
			for _, v := range o.Violations { // whose words they are is said first
				if v.Code == kernel.CodeExecutionReported && !strings.HasPrefix(v.Detail, "The agent says that it failed: ") {
					t.Errorf("it is said so: %q", v.Detail)
				}
			}
		})
	}
}

// TestAgent_Version: the record of a run says kind, version and model of its agent, and whether
// it obeys the repository's instructions. What the
// agent says in its own stream wins over what its program said before the claim; either is
// somebody's text, and kept as one short line without a secret. A command has no such record.
func TestAgent_Version(t *testing.T) {
	t.Parallel()
	claude := func(version string) string {
		return `echo '{"type":"system","subtype":"init","claude_code_version":"` + version + `"}'; echo '{"type":"result","subtype":"success"}'`
	}
	const codex = `echo '{"type":"turn.completed"}'`
	for name, c := range map[string]struct{ kind, before, run, want string }{
		"its own word":            {"claude-code", "echo 2.1.332", claude("2.2.0"), "2.2.0"},
		"no word":                 {"claude-code", saysTested, claude(""), "2.1.332 (Claude Code)"},
		"no word of such":         {"codex", "echo codex-cli 0.169.0; echo more", codex, "codex-cli 0.169.0"},
		"not asked":               {"codex", "exit 1", codex, ""},
		"by its protocol":         {"acp", "echo 1.0", `exec "$INIT" act-acp named`, "Test 1.0"},
		"a name of lines":         {"acp", "echo 1.0", `exec "$INIT" act-acp well`, "test"},
		"a long one":              {"claude-code", saysTested, claude(strings.Repeat("9", 1000)), strings.Repeat("9", 64)},
		"another direction":       {"claude-code", saysTested, claude(`2.2.0\u202e1`), "2.2.0"},
		"a terminal":              {"claude-code", saysTested, claude(`\u001b[31m2.2.0`), "2.1.332 (Claude Code)"},
		"a secret":                {"claude-code", saysTested, claude("2.2.0 " + providersKey), "2.2.0 [secret]"},
		"a secret at the cut":     {"claude-code", saysTested, claude(strings.Repeat("9", 60) + providersKey), strings.Repeat("9", 60) + "[sec"},
		"a secret of its program": {"codex", "echo " + providersKey, codex, "[secret]"},
		"of no kind":              {"", saysTested, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t, withoutKey)
			_, rule := provider(t, b, cmp.Or(KindAPI(c.kind), "openai"), &stub.Model{Key: providersKey})
			dir := t.TempDir()
			text := "#!/bin/sh\nif [ \"$*\" = --version ]; then " + c.before + "; exit; fi\necho x > calc/new\n" + c.run + "\n"
			gittest.WriteProgram(t, filepath.Join(dir, "agent"), text)
			job := b.job(Builder{Kind: c.kind, Model: "test-model", Instructions: true, Argv: []string{"/opt/agent/agent"}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/agent"}}, Egress: []gateway.Rule{rule}})
			b.local.Environment(t.Context(), "default")
			o := b.build(job)
			if c.kind == "" && o.Result.Agent == nil {
				return
			}
			if a := o.Result.Agent; codes(o) != "" || c.kind == "" || a == nil || *a != (kernel.Agent{Kind: c.kind, Version: c.want, Model: "test-model", Message: a.Message, Instructions: c.kind != "acp"}) {
				t.Errorf("%s: %+v", codes(o), a)
			}
		})
	}
}

// TestAgent_LastMessage: what an agent says last is kept from its beginning, within a bound and
// without secrets, whole ones or parts, however it ends. What a program of no kind says isn't.
func TestAgent_LastMessage(t *testing.T) {
	for name, c := range map[string]struct{ kind, says, then, want string }{
		"well":                      {"claude-code", "All done.", "", "All done."},
		"it failed":                 {"claude-code", "All done.", "exit 1", "All done."},
		"a secret":                  {"claude-code", "It is " + providersKey + ".", "", "It is [secret]."},
		"a secret in pieces":        {"claude-code", providersKey[:4] + `\u0000` + providersKey[4:], "", "[secret]"},
		"a long one":                {"claude-code", strings.Repeat("é", 1500), "", strings.Repeat("é", 1022) + "…"},
		"a secret where it is cut":  {"claude-code", strings.Repeat("x", maxKeptMessage-4) + providersKey, "", strings.Repeat("x", maxKeptMessage-4) + "[sec…"},
		"a longer one than is read": {"claude-code", strings.Repeat("x", maxSaidLine), "", ""},
		"of no kind":                {"", "All done.", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t, withoutKey)
			_, rule := provider(t, b, cmp.Or(KindAPI(c.kind), "openai"), &stub.Model{Key: providersKey})
			b.base = baseOf(map[string]string{"calc/said": `{"type":"result","subtype":"success","result":"` + c.says + `"}` + "\n", "calc/agent*": "#!/bin/sh\ncat calc/said; echo x > calc/new; " + c.then + "\n"})
			o := b.build(b.job(Builder{Kind: c.kind, Argv: []string{"calc/agent"}, Egress: []gateway.Rule{rule}}))
			got := ""
			if o.Result.Agent != nil {
				got = o.Result.Agent.Message
			}
			if got != c.want || (o.Result.Agent == nil) != (c.kind == "") {
				t.Errorf("%s: %q, want %q", codes(o), got, c.want)
			}
		})
	}
}

// TestS14_AgentsFilesAreForbidden: no task may change what the agent of a kind would obey.
func TestS14_AgentsFilesAreForbidden(t *testing.T) {
	p, faults := scope.NewProtection(nil, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for kind, a := range agents {
		for _, name := range a.obeys {
			for _, at := range []string{name, "deep/below/" + name} {
				if got := p.Class(at); got != scope.ClassForbidden {
					t.Errorf("%s: %s is %q", kind, at, got)
				}
			}
		}
		if a.api != "" && gateway.APIs()[a.api] == nil {
			t.Errorf("%s: there is no table %q", kind, a.api)
		}
	}
}

// TestAgent_Silent: an agent has begun once it says something. One that never does ends with
// start_timeout, and with what came through the gateway meanwhile.
func TestAgent_Silent(t *testing.T) {
	withoutArgs(t, "claude-code")
	for name, c := range map[string]struct {
		text  string
		limit int64 // start_timeout, in milliseconds: enough for what it does before
		want  string
	}{
		"nothing":             {"sleep 1000", 500, "no sign of life within 500ms; no request came to the gateway"},
		"to somebody else":    {`for i in 1 2 3; do "$INIT" act-fetch http://statsig.example >/dev/null; done; sleep 1000`, 10_000, "no sign of life within 10s; through the gateway: 3 requests to statsig.example denied (egress.host_denied)"},
		"to its provider":     {`"$INIT" act-ask "$ANTHROPIC_BASE_URL/v1/messages" '{"model":"m","max_tokens":1,"messages":[]}' >/dev/null; sleep 1000`, 10_000, "through the gateway: 1 request not denied"},
		"says that it begins": {"echo '{}'; sleep 11; exit 1", 10_000, "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t)
			_, rule := provider(t, b, "anthropic", &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}})
			job := b.job(says("claude-code", rule, c.text))
			job.Budgets.StartTimeoutMs = c.limit
			if o := b.build(job); !strings.Contains(fmt.Sprint(o.Violations), c.want) {
				t.Errorf("%v", o.Violations)
			}
		})
	}
}
