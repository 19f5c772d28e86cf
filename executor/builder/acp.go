package builder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// talk is what writ says to an agent by the Agent Client Protocol, of which it is the
// client: JSON-RPC, a line for each message, on the agent's standard input and output. The
// instruction is the one prompt of one session. The agent is offered neither files nor
// terminals of the client's, since it has its own inside. What it asks permission for it gets,
// once each time, for it is the sandbox that holds it; what else it asks for is an error.
//
// Whatever the agent says is hostile: a line, an id, a message and what waits to be read
// are bounded, and so is how often it asks. What it says is never shown as it came, but as
// a transcript, a line for each event.
type talk struct {
	instruction string
	transcript  io.Writer
	redact      func(string) string
	said        *claims

	mu      sync.Mutex
	more    *sync.Cond // there is something to read, or there never will be
	unread  []byte     // what the agent hasn't read yet
	closed  bool       // nothing more is said to it
	stopped bool       // it was asked to stop
	at      step       // the request that it has to answer
	session string
	asked   int           // how many requests it has made
	allowed int           // how many of them were allowed
	message []byte        // what has come so far of a message
	over    chan struct{} // closed when the turn has ended
	once    sync.Once
}

// step is a request of writ's, and its id.
type step int

const (
	initialize step = iota
	newSession
	prompt
	noStep
)

func (s step) String() string {
	return [...]string{"initialize", "session/new", "session/prompt", ""}[s]
}

// The bounds of what an agent says. A line is bounded by maxSaidLine.
const (
	// acpVersion is the version of the protocol.
	acpVersion = 1
	// maxAsked is how often an agent may ask for something: a few times for each tool that
	// it calls in a long run.
	maxAsked = 10_000
	// maxUnread is how many bytes may wait for an agent that doesn't read, besides the
	// instruction.
	maxUnread = 1 << 20
	// maxID bounds an id, which is repeated in the answer, in bytes.
	maxID = 256
	// maxMessage bounds what is kept of a message, and maxShown what is shown of an event,
	// in bytes.
	maxMessage = 64 << 10
	maxShown   = 4 << 10
	// stopGrace is how long an agent has to stop by itself, of the two seconds that a stop
	// takes at most.
	stopGrace = time.Second
)

func newTalk(instruction string, transcript io.Writer, redact func(string) string) *talk {
	t := &talk{instruction: instruction, transcript: transcript, redact: redact, over: make(chan struct{})}
	t.more = sync.NewCond(&t.mu)
	t.said = &claims{read: func(_ *claims, line []byte) { t.hear(line) }}
	t.ask(initialize, map[string]any{
		"protocolVersion":    acpVersion,
		"clientCapabilities": map[string]any{"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         map[string]any{"name": "writ", "version": kernel.Version()},
	})
	return t
}

// Read is the agent's standard input.
func (t *talk) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.unread) == 0 && !t.closed {
		t.more.Wait()
	}
	n := copy(p, t.unread)
	if t.unread = t.unread[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// close ends the agent's input, whatever is left of it. What ends an agent that behaves is
// the end of its input.
func (t *talk) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hangUp()
}

func (t *talk) hangUp() {
	t.closed = true
	t.more.Broadcast()
}

// stop asks the agent to stop, and waits a moment for that, or for its end. It is ended all
// the same.
func (t *talk) stop(ended <-chan struct{}) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.stopped = true
	asked := t.at == prompt && !t.closed
	if asked {
		t.say(map[string]any{"method": "session/cancel", "params": map[string]any{"sessionId": t.session}})
	}
	t.mu.Unlock()
	if !asked {
		return
	}
	select {
	case <-t.over:
	case <-ended:
	case <-time.After(stopGrace):
	}
}

// ask makes a request.
func (t *talk) ask(s step, params map[string]any) {
	t.at = s
	t.say(map[string]any{"id": int(s), "method": s.String(), "params": params})
}

// say has the agent read a message.
func (t *talk) say(message map[string]any) {
	if t.closed {
		return
	}
	message["jsonrpc"] = "2.0"
	line, err := json.Marshal(message)
	if err != nil {
		t.fail("it asked in a way that can't be answered")
		return
	}
	if len(t.unread)+len(line) > maxUnread+len(t.instruction)*6 { // as JSON spells it at worst
		t.fail("it doesn't read its input")
		return
	}
	t.unread = append(append(t.unread, line...), '\n')
	t.more.Broadcast()
}

// fail ends the conversation for what the agent did.
func (t *talk) fail(why string) {
	t.endMessage()
	t.said.ended, t.said.failed = true, why
	t.show("failed", why)
	t.finish()
}

// message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// hear takes in one line of the agent's.
func (t *talk) hear(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.transcript.Write(nil) // a sign of life, whatever comes of it
	var m message
	line = bytes.TrimSpace(line)
	switch err := json.Unmarshal(line, &m); {
	case len(line) == 0 || t.closed:
	case err != nil:
		t.show("not of the protocol", string(line))
	case m.Method == "":
		t.answered(m)
	case m.Method == "session/update":
		t.update(m.Params)
	case len(m.ID) > 0 && string(m.ID) != "null":
		t.requested(m)
	}
}

// answered takes in the answer to what writ has asked for, and asks for what comes next.
func (t *talk) answered(m message) {
	if id, err := strconv.Atoi(string(m.ID)); err != nil || step(id) != t.at || t.at == noStep {
		return
	}
	if m.Error != nil {
		t.fail(t.at.String() + ", " + m.Error.Message)
		return
	}
	var a struct {
		ProtocolVersion int    `json:"protocolVersion"`
		SessionID       string `json:"sessionId"`
		StopReason      string `json:"stopReason"`
		AgentInfo       struct{ Name, Version string }
		Usage           *struct{ InputTokens, OutputTokens int64 }
	}
	_ = json.Unmarshal(m.Result, &a) // what isn't there is refused
	switch {
	case t.at == initialize && a.ProtocolVersion != acpVersion:
		t.fail(fmt.Sprintf("it speaks version %d of the protocol, and writ version %d", a.ProtocolVersion, acpVersion))
	case t.at == initialize:
		t.show("agent", a.AgentInfo.Name+" "+a.AgentInfo.Version)
		if a.AgentInfo.Version != "" {
			t.said.version = a.AgentInfo.Name + " " + a.AgentInfo.Version
		}
		t.ask(newSession, map[string]any{"cwd": sandbox.WorkspaceDir, "mcpServers": []any{}})
	case t.at == newSession && a.SessionID == "":
		t.fail("it began no session")
	case t.at == newSession:
		t.session = a.SessionID
		t.ask(prompt, map[string]any{"sessionId": t.session, "prompt": []any{map[string]any{"type": "text", "text": t.instruction}}})
	default:
		if a.Usage != nil {
			t.said.usage = fmt.Sprintf("The agent says that it used %d tokens in, %d out. ", a.Usage.InputTokens, a.Usage.OutputTokens)
		}
		t.ended(a.StopReason)
	}
}

// ended takes in why the turn has ended. Only one reason is a good one.
func (t *talk) ended(why string) {
	t.endMessage()
	t.said.ended = true
	t.said.usage += fmt.Sprintf("It asked for something %d times, and was allowed %d times.", t.asked, t.allowed)
	if t.show("end", why); why != "end_turn" {
		t.said.failed = "its turn ended with " + strconv.Quote(clip(t.redact(why), maxID))
	}
	t.finish()
}

// finish says nothing more to the agent, which has nothing more to do.
func (t *talk) finish() {
	t.at = noStep
	t.hangUp()
	t.once.Do(func() { close(t.over) })
}

// requested answers a request of the agent's.
func (t *talk) requested(m message) {
	if t.asked++; t.asked > maxAsked {
		t.fail(fmt.Sprintf("it asked more than %d times", maxAsked))
		return
	}
	switch {
	case len(m.ID) > maxID:
		t.fail("the id of a request is too long")
	case m.Method == "session/request_permission":
		t.say(map[string]any{"id": m.ID, "result": map[string]any{"outcome": t.permit(m.Params)}})
	default:
		t.show("refused", m.Method)
		t.say(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "writ doesn't offer " + clip(m.Method, maxID)}})
	}
}

// permit decides on what the agent asks permission for. Inside the sandbox it may do anything, but
// nothing that isn't asked for again.
func (t *talk) permit(params []byte) map[string]any {
	var p struct {
		ToolCall struct{ Title, ToolCallID string }
		Options  []struct{ OptionID, Kind string }
	}
	_ = json.Unmarshal(params, &p) // then there is nothing to choose
	t.endMessage()
	what := p.ToolCall.ToolCallID + " " + p.ToolCall.Title
	for _, kind := range []string{"allow_once", "reject_once"} {
		i := slices.IndexFunc(p.Options, func(o struct{ OptionID, Kind string }) bool { return o.Kind == kind })
		if i < 0 || t.stopped {
			continue
		}
		if kind == "allow_once" {
			t.allowed++
		}
		t.show("asked for permission, "+kind, what)
		return map[string]any{"outcome": "selected", "optionId": p.Options[i].OptionID}
	}
	t.show("asked for permission, not given", what)
	return map[string]any{"outcome": "cancelled"}
}

// update takes in what the agent tells of its work.
func (t *talk) update(params []byte) {
	var p struct {
		Update struct {
			SessionUpdate string          `json:"sessionUpdate"`
			Content       json.RawMessage `json:"content"`
			Entries       []struct{ Content, Status string }
			ToolCallID    string `json:"toolCallId"`
			Title, Status string
		}
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	switch u := p.Update; u.SessionUpdate {
	case "agent_message_chunk":
		var c struct{ Text string }
		_ = json.Unmarshal(u.Content, &c) // what isn't a text isn't kept
		t.message = append(t.message, c.Text[:min(len(c.Text), maxMessage-len(t.message))]...)
	case "plan":
		t.endMessage()
		for _, e := range u.Entries {
			t.show("plan, "+e.Status, e.Content)
		}
	case "tool_call", "tool_call_update":
		t.endMessage()
		t.show("tool, "+u.Status, strings.TrimSpace(u.ToolCallID+" "+u.Title)+"\n"+texts(u.Content))
	}
}

// texts are those of what a tool gave.
func texts(content []byte) string {
	var list []struct{ Content struct{ Text string } }
	_ = json.Unmarshal(content, &list) // what isn't a text isn't shown
	var out strings.Builder
	for _, c := range list {
		out.WriteString(c.Content.Text)
	}
	return out.String()
}

// endMessage takes what has come of a message for a whole one.
func (t *talk) endMessage() {
	if len(t.message) == 0 {
		return
	}
	t.said.message = string(t.message)
	t.message = nil
	t.show("says", t.said.message)
}

// show writes a line of the transcript. What the agent chose can't look like another one:
// its own lines are indented.
func (t *talk) show(what, text string) {
	line := clip(t.redact(what+": "+text), maxShown)
	_, _ = io.WriteString(t.transcript, strings.Join(strings.FieldsFunc(line, isBreak), "\n\t")+"\n")
}

// isBreak reports whether a terminal, or who reads lines, may begin a new one.
func isBreak(r rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) }

// clip cuts a text to its first n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
