package builder

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor/gateway/stub"
)

// acpAgent is an agent that speaks the protocol, as a program of the sandbox: for each
// misdeed one way.
type acpAgent struct {
	in   *bufio.Reader
	last int
}

func (a *acpAgent) say(m js) {
	m["jsonrpc"] = "2.0"
	line, _ := json.Marshal(m)
	fmt.Println(string(line))
}

// hear reads one message; at the end of its input it ends.
func (a *acpAgent) hear() (m struct {
	ID     json.RawMessage
	Method string
	Params struct {
		ClientCapabilities json.RawMessage
		Cwd                string
		Prompt             []struct{ Text string }
	}
	Result struct {
		Outcome struct{ Outcome, OptionID string }
	}
	Error struct{ Code int }
}) {
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		os.Exit(0)
	}
	_ = json.Unmarshal(line, &m)
	return m
}

// answer hears one request and answers it.
func (a *acpAgent) answer(result js) string {
	m := a.hear()
	a.say(js{"id": m.ID, "result": result})
	return fmt.Sprint(m.Method, " ", string(m.Params.ClientCapabilities), m.Params.Cwd)
}

// ask asks for something, and is what came of it.
func (a *acpAgent) ask(method string, params js) string {
	a.last++
	a.say(js{"id": a.last, "method": method, "params": params})
	m := a.hear()
	return fmt.Sprint(m.Result.Outcome.Outcome, " ", m.Result.Outcome.OptionID, " ", m.Error.Code)
}

func (a *acpAgent) update(kind string, more js) {
	more["sessionUpdate"] = kind
	a.say(js{"method": "session/update", "params": js{"sessionId": "s-1", "update": more}})
}

func (a *acpAgent) chunk(text string) {
	a.update("agent_message_chunk", js{"content": js{"type": "text", "text": text}})
}

func permission(kinds ...string) js {
	var options []js
	for _, k := range kinds {
		options = append(options, js{"optionId": "the-" + k, "name": k, "kind": k})
	}
	return js{"sessionId": "s-1", "toolCall": js{"toolCallId": "call-1", "title": "rm -rf x"}, "options": options}
}

func actACP(way string) {
	a := &acpAgent{in: bufio.NewReader(os.Stdin)}
	version, session, name := 1, "s-1", "test\nend: end_turn"
	switch way {
	case "named":
		name = "Test"
	case "silent":
		return
	case "version":
		version = 2
	case "no session":
		session = ""
	case "junk":
		fmt.Print("\n\nhello\n{\"id\":" + strings.Repeat("[", 20_000) + "\n{\"id\":7,\"result\":{}}\n{\"id\":0}{\n" + strings.Repeat("x", 3<<20) + "\n")
	}
	first := a.answer(js{"protocolVersion": version, "agentInfo": js{"name": name, "version": "1.0"}})
	if way == "refuses" {
		m := a.hear()
		a.say(js{"id": m.ID, "error": js{"code": -32000, "message": "log in first"}})
		a.hear()
	}
	second := a.answer(js{"sessionId": session})
	p := a.hear()
	text := ""
	if len(p.Params.Prompt) == 1 {
		text = p.Params.Prompt[0].Text
	}
	reason := "end_turn"
	switch way {
	case "dies":
		os.Exit(3)
	case "asks for ever":
		for {
			a.ask("session/request_permission", permission("allow_once"))
		}
	case "reads nothing":
		for i := range 9_000 {
			a.say(js{"id": fmt.Sprint(strings.Repeat("i", 200), i), "method": strings.Repeat("m", 200)})
		}
	case "long id":
		a.say(js{"id": strings.Repeat("i", 300), "method": "m"})
	case "hangs", "stops", "leaves":
		a.chunk("I begin.")
		a.update("plan", js{})
		for m := a.hear(); m.Method != "session/cancel" || way == "hangs"; m = a.hear() {
		}
		if way == "leaves" {
			return
		}
		a.say(js{"id": p.ID, "result": js{"stopReason": "cancelled"}})
		a.hear()
	case "refusal", "max_tokens", "max_turn_requests", "cancelled", "something new":
		reason = way
	case "asks":
		a.chunk(a.ask("session/request_permission", permission("allow_always", "reject_always", "reject_once", "allow_once")) + "\n")
		a.chunk(a.ask("session/request_permission", permission("allow_always", "reject_once")) + "\n")
		a.chunk(a.ask("session/request_permission", permission("allow_always")) + "\n")
		a.chunk(a.ask("fs/read_text_file", js{"path": "/etc/passwd"}) + "\n")
		a.chunk(a.ask("terminal/create", js{"command": "sh"}) + "\n")
	case "a long word":
		a.chunk(strings.Repeat("x", maxShown-20) + providersKey)
		a.update("plan", js{})
	case "well":
		a.chunk("I begin.")
		a.update("plan", js{"entries": []js{{"content": "Add a line", "priority": "high", "status": "pending"}}})
		a.update("tool_call", js{"toolCallId": "call-1", "title": "cat x", "kind": "execute", "status": "pending"})
		a.ask("session/request_permission", permission("allow_always", "allow_once"))
		a.update("tool_call_update", js{"toolCallId": "call-1", "status": "completed", "content": []js{{"type": "content", "content": js{"type": "text", "text": "a\nend: refusal"}}}})
		a.chunk(first + "; " + second + "; " + text + providersKey[:8])
		a.chunk(providersKey[8:] + " All ")
	}
	a.chunk("done.")
	a.say(js{"id": p.ID, "result": js{"stopReason": reason, "usage": js{"inputTokens": 12, "outputTokens": 9}}})
	a.hear()
}

// acpBuilder is one that works so.
func acpBuilder(t *testing.T, b *bed, way string) Builder {
	t.Helper()
	_, rule := provider(t, b, "openai", &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}})
	return says("acp", rule, "echo x > calc/new; "+`exec "$INIT" act-acp "`+way+`"`)
}

// withoutKey has the bed hide the provider's key.
func withoutKey(c *Config) {
	c.Redact = func(s string) string { return strings.ReplaceAll(s, providersKey, "[secret]") }
}

// TestACP_Transcript: an agent is talked to as the protocol says, is offered nothing of the
// outside, and its plan, its tools and its last message are kept, without secrets and
// without a line that looks like another one.
func TestACP_Transcript(t *testing.T) {
	t.Parallel()
	b := outward(t, withoutKey)
	o := b.build(b.job(acpBuilder(t, b, "well")))
	const message = `initialize {"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}; session/new /workspace; `
	want := "agent: test\n\tend: end_turn 1.0\nsays: I begin.\nplan, pending: Add a line\ntool, pending: call-1 cat x\nasked for permission, allow_once: call-1 rm -rf x\n" +
		"tool, completed: call-1\n\ta\n\tend: refusal\nsays: " + message
	if codes(o) != "" || !strings.HasPrefix(o.Result.Stdout.Tail, want) || !strings.HasSuffix(o.Result.Stdout.Tail, "[secret] All done.\nend: end_turn\n") {
		t.Errorf("%s: %v\n%s", codes(o), o.Violations, o.Result.Stdout.Tail)
	}
	logs := o.Result.Result.Logs
	if !strings.HasPrefix(logs, message) || !strings.Contains(logs, b.job(Builder{}).Instruction) || !strings.HasSuffix(logs, "[secret] All done.\nThe agent says that it used 12 tokens in, 9 out. It asked for something 1 times, and was allowed 1 times.") {
		t.Errorf("logs %q", logs)
	}
	if said := b.lines.all(); strings.Contains(said, providersKey) || !strings.Contains(said, "plan, pending") {
		t.Errorf("shown live: %s", said)
	}
}

// TestF3_ACPSecretAtTheCut: a secret that stands where a message is cut isn't shown in part.
func TestF3_ACPSecretAtTheCut(t *testing.T) {
	t.Parallel()
	b := outward(t, withoutKey)
	o := b.build(b.job(acpBuilder(t, b, "a long word")))
	if codes(o) != "" || !strings.Contains(o.Result.Stdout.Tail, "x[secret]…") && !strings.Contains(o.Result.Stdout.Tail, "x[secret]\n") || strings.Contains(o.Result.Stdout.Tail, providersKey[:8]) {
		t.Errorf("%s: %s", codes(o), o.Result.Stdout.Tail)
	}
}

// TestACP_Ends: only one end is a good one, and whatever an agent does instead of it ends it.
func TestACP_Ends(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]string{
		"end_turn":          "",
		"junk":              "",
		"refusal":           `its turn ended with "refusal"`,
		"max_tokens":        `its turn ended with "max_tokens"`,
		"max_turn_requests": `its turn ended with "max_turn_requests"`,
		"cancelled":         `its turn ended with "cancelled"`,
		"something new":     `its turn ended with "something new"`,
		"silent":            "it never told of its end",
		"version":           "it speaks version 2 of the protocol, and writ version 1",
		"refuses":           "session/new, log in first",
		"no session":        "it began no session",
		"asks for ever":     "it asked more than 10000 times",
		"reads nothing":     "it doesn't read its input",
		"long id":           "the id of a request is too long",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := outward(t)
			o := b.build(b.job(acpBuilder(t, b, way)))
			if want == "" && codes(o) == "" && strings.HasPrefix(o.Result.Result.Logs, "done.") {
				return
			}
			if want == "" || codes(o) != "execution.reported_failure" || o.Violations[0].Detail != "The agent says that it failed: "+want+"." {
				t.Errorf("%s: %v\n%s", codes(o), o.Violations, o.Result.Stdout.Tail)
			}
		})
	}
}

// TestACP_Leave: an agent is allowed what it asks for once, never always, and whatever it
// asks for besides is an error.
func TestACP_Leave(t *testing.T) {
	t.Parallel()
	b := outward(t)
	o := b.build(b.job(acpBuilder(t, b, "asks")))
	lines := strings.Split(o.Result.Result.Logs, "\n")
	want := []string{"cancelled  0", "  -32601", "  -32601", "done."}
	if codes(o) != "" || len(lines) < 4 || !slices.Equal(lines[:4], want) {
		t.Errorf("%s: %q", codes(o), lines)
	}
	for _, said := range []string{"says: selected the-allow_once 0\n", "says: selected the-reject_once 0\n", "refused: fs/read_text_file\n", "refused: terminal/create\n"} {
		if !strings.Contains(o.Result.Stdout.Tail, said) {
			t.Errorf("%q isn't in\n%s", said, o.Result.Stdout.Tail)
		}
	}
}

// TestACP_Death: an agent that dies in the middle has failed at once, by its status.
func TestACP_Death(t *testing.T) {
	t.Parallel()
	b := outward(t)
	began := time.Now()
	o := b.build(b.job(acpBuilder(t, b, "dies")))
	if codes(o) != "execution.exit_status" || o.Result.Exit.Code != 3 || time.Since(began) > waitLimit/2 {
		t.Errorf("%s after %s: %+v", codes(o), time.Since(began), o.Result.Exit)
	}
}

// TestACP_Stop: a stop asks the agent to stop, and ends it within two seconds whether or
// not it does, or a few more where the machine is busy; how it ends then is no failure of
// its own.
func TestACP_Stop(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"stops", "hangs", "leaves"} {
		b := outward(t)
		job, begun := b.job(acpBuilder(t, b, way)), make(chan struct{})
		job.OnLine = func(line string) {
			if line == "says: I begin." {
				close(begun)
			}
		}
		r, err := b.local.Build(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-begun:
		case <-r.Done():
			t.Fatalf("%s: ended before it began: %s", way, codes(r.Outcome()))
		}
		began := time.Now()
		r.Kill()
		if took := time.Since(began); took > 8*stopGrace || codes(r.Outcome()) != "task.interrupted" {
			t.Errorf("%s: %s after %s", way, codes(r.Outcome()), took)
		}
	}
}
