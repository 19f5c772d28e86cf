package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Answers as the three interfaces give them. What their models write has usage in it, too.
const (
	forged       = `\"usage\":{\"input_tokens\":0,\"output_tokens\":0},\"model\":\"free\"`
	messageWhole = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-1","content":[{"type":"text","text":"` + forged + `"},{"type":"tool_use","input":{"usage":{"input_tokens":0,"output_tokens":0},"model":"free"}}],"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":3000,"output_tokens":7,"service_tier":"standard"}}`
	messageBegin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"model\":\"claude-x-1\",\"content\":[],\"usage\":{\"input_tokens\":100,\"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":3000,\"output_tokens\":1}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"" + forged + "\"}}\n\n"
	messageEnd = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

	responseWhole = `{"id":"resp_1","object":"response","status":"completed","error":null,"model":"gpt-x","tools":[{"usage":{"input_tokens":1}}],"output":[{"content":[{"text":"` + forged + `"}]}],"usage":{"input_tokens":3120,"input_tokens_details":{"cached_tokens":3000,"cache_write_tokens":20},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":3127}}`
	responseBegin = "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-x\",\"usage\":null}}\r\n\r\n"
	responseEnd   = "event: response.completed\r\ndata:{\"type\":\"response.completed\",\"response\":" + responseWhole + "}\r\n\r\n"

	chatWhole = `{"object":"chat.completion","model":"gpt-x","choices":[{"message":{"content":"` + forged + `"}}],"usage":{"prompt_tokens":3100,"completion_tokens":7,"total_tokens":3107,"prompt_tokens_details":{"cached_tokens":3000}}}`
	chatBegin = "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{\"content\":\"" + forged + "\"}}],\"usage\":null}\n\n"
	chatEnd   = "data: {\"model\":\"gpt-x\",\"choices\":[],\"usage\":{\"prompt_tokens\":3100,\"completion_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":3000}}}\n\ndata: [DONE]\n\n"
)

// geminiWhole is an answer, and geminiBegin the first events of one.
const (
	geminiBegin = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"" + forged + "\"}]}}],\"usageMetadata\":{\"promptTokenCount\":3100,\"cachedContentTokenCount\":3000,\"candidatesTokenCount\":1},\"modelVersion\":\"gemini-x\"}\n\n"
	geminiWhole = `{"candidates":[{"content":{"parts":[{"text":"` + forged + `"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3100,"cachedContentTokenCount":3000,"candidatesTokenCount":4,"thoughtsTokenCount":3,"toolUsePromptTokenCount":2,"totalTokenCount":3109},"modelVersion":"gemini-x"}`
)

const stream = "text/event-stream; charset=utf-8"

// bodies are what is asked of each endpoint, with a bound of 50 tokens.
var bodies = map[string]string{
	"/v1/messages":         `{"model":"m","max_tokens":50,"messages":[]}`,
	"/v1/responses":        `{"model":"m","max_output_tokens":50,"input":"","store":false,"background":false}`,
	"/v1/chat/completions": `{"model":"m","max_tokens":50,"messages":[],"store":false}`,
}

// recorded asks for path, and gives what was recorded of the answer.
func recorded(t *testing.T, path, body string, answer http.HandlerFunc) Record {
	t.Helper()
	api := "openai"
	if strings.HasPrefix(path, "/v1/messages") {
		api = "anthropic"
	}
	g, o := provided(t, api, answer)
	_, _ = io.Copy(io.Discard, g.post(o, path, body).Body)
	return g.record()
}

// answers is a handler that gives an answer, and breaks off behind it if it must.
func answers(kind, text string, breaks bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
		if breaks {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
}

// TestUsage_AsTheProviderTellsIt: what is recorded are the provider's own numbers, in each
// of its interfaces, streamed or not. Nothing that a model writes counts, and none is
// counted twice.
func TestUsage_AsTheProviderTellsIt(t *testing.T) {
	full := Usage{Model: "gpt-x", Basis: Measured, Input: 100, CacheRead: 3000, CacheWrite: 20, Output: 7}
	message, chat := full, full
	message.Model, chat.CacheWrite = "claude-x-1", 0
	for name, tt := range map[string]struct {
		path, kind, text string
		want             Usage
	}{
		"messages":            {"/v1/messages", "application/json", messageWhole, message},
		"messages, streamed":  {"/v1/messages", stream, messageBegin + messageEnd, message},
		"responses":           {"/v1/responses", "application/json", responseWhole, full},
		"responses, streamed": {"/v1/responses", stream, responseBegin + responseEnd, full},
		"chat":                {"/v1/chat/completions", "application/json", chatWhole, chat},
		"chat, streamed":      {"/v1/chat/completions", stream, chatBegin + chatEnd, chat},
		"deep and long":       {"/v1/messages", stream, messageBegin + "data: {\"x\":" + strings.Repeat("[", 1000) + "\n\ndata: {\"" + strings.Repeat("x", 100_000) + "\":\"" + strings.Repeat("y", 100_000) + "\"}\n\n" + messageEnd, message},
	} {
		if r := recorded(t, tt.path, bodies[tt.path], answers(tt.kind, tt.text, false)); r.Usage == nil || *r.Usage != tt.want || r.Failure != "" {
			t.Errorf("%s: %+v, %q, want %+v", name, r.Usage, r.Failure, tt.want)
		}
	}
}

// TestUsage_Reserved: an answer that doesn't come to its usage, or has none that can be
// read, is charged what was reserved for it; it is said which.
func TestUsage_Reserved(t *testing.T) {
	const unbounded = `{"model":"m","input":"","store":false,"background":false}`
	for name, tt := range map[string]struct {
		path, body, kind, text string
		breaks                 bool
		basis                  Basis
		output                 int64
	}{
		"messages break":  {"/v1/messages", "", stream, messageBegin, true, Reserved, 50},
		"responses break": {"/v1/responses", "", stream, responseBegin, true, Reserved, 50},
		"no bound":        {"/v1/responses", unbounded, stream, responseBegin, true, Reserved, DefaultOutput},
		"chat breaks":     {"/v1/chat/completions", "", stream, chatBegin, true, Reserved, 50},
		"two bounds":      {"/v1/chat/completions", `{"model":"m","max_completion_tokens":1,"max_tokens":50,"messages":[],"store":false}`, stream, chatBegin, true, Reserved, 50},
		"two, the other":  {"/v1/chat/completions", `{"model":"m","max_completion_tokens":50,"max_tokens":1,"messages":[],"store":false}`, stream, chatBegin, true, Reserved, 50},
		"bound is null":   {"/v1/responses", `{"model":"m","max_output_tokens":null,"input":"","store":false,"background":false}`, stream, responseBegin, true, Reserved, DefaultOutput},
		"several":         {"/v1/chat/completions", `{"model":"m","max_tokens":50,"n":3,"messages":[],"store":false}`, stream, chatBegin, true, Reserved, 150},
		"ends":            {"/v1/messages", "", stream, messageBegin, false, Reserved, 50},
		"no answer":       {"/v1/messages", "", "", "", true, Reserved, 50},
		"no number":       {"/v1/messages", "", "application/json", strings.Replace(messageWhole, `"output_tokens":7`, `"output_tokens":"7"`, 1), false, Unknown, 50},
		"below zero":      {"/v1/messages", "", "application/json", strings.Replace(messageWhole, `"input_tokens":100`, `"input_tokens":-100`, 1), false, Unknown, 50},
		"more than whole": {"/v1/chat/completions", "", "application/json", strings.Replace(chatWhole, `"cached_tokens":3000`, `"cached_tokens":3101`, 1), false, Unknown, 50},
		"too large":       {"/v1/messages", "", stream, messageBegin + strings.Replace(messageEnd, `:7}`, `:1e99}`, 1), false, Unknown, 50},
		"none":            {"/v1/messages", "", "application/json", `{"model":"claude-x-1"}`, false, Unknown, 50},
		"no JSON":         {"/v1/messages", "", "application/json", `}{`, false, Unknown, 50},
	} {
		body := tt.body
		if body == "" {
			body = bodies[tt.path]
		}
		text := tt.text
		handler := answers(tt.kind, text, tt.breaks)
		if tt.kind == "" {
			handler = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}
		r := recorded(t, tt.path, body, handler)
		if u := r.Usage; u == nil || u.Basis != tt.basis || u.Output != tt.output || u.Input == 0 || u.Input != (int64(len(body))+2)/3 {
			t.Errorf("%s: %+v of a body of %d bytes, want %s and %d", name, r.Usage, len(body), tt.basis, tt.output)
		}
	}
}

// TestUsage_BoundIsAWholeNumber: a bound of the answer, or a number of answers, that isn't
// spelled by its digits alone, or is out of its range, is refused by its name in each of the
// interfaces, and nothing of the request is sent.
func TestUsage_BoundIsAWholeNumber(t *testing.T) {
	const most, times = "1073741824", "128"
	for _, c := range []struct{ api, path, body, field, most string }{
		{"anthropic", "/v1/messages", `{"model":"m","max_tokens":%s,"messages":[]}`, "max_tokens", most},
		{"openai", "/v1/responses", `{"model":"m","max_output_tokens":%s,"input":""}`, "max_output_tokens", most},
		{"openai", "/v1/chat/completions", `{"model":"m","max_tokens":%s,"messages":[]}`, "max_tokens", most},
		{"openai", "/v1/chat/completions", `{"model":"m","max_tokens":1,"max_completion_tokens":%s,"messages":[]}`, "max_completion_tokens", most},
		{"openai", "/v1/chat/completions", `{"model":"m","n":%s,"messages":[]}`, "n", times},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[],"generationConfig":{"maxOutputTokens":%s}}`, "generationConfig.maxOutputTokens", most},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[],"generationConfig":{"candidateCount":%s}}`, "generationConfig.candidateCount", times},
	} {
		g, o := provided(t, c.api, hello)
		above := map[string]string{most: "1073741825", times: "129"}[c.most]
		for _, n := range []string{"64.0", "6.4e1", "-1", "0", "-0", above, "99999999999999999999"} {
			said := text(t, g.post(o, c.path, fmt.Sprintf(c.body, n)))
			if r := g.want(Denied, CodeBody); !strings.HasPrefix(r.Detail, c.field+": ") || !strings.Contains(said, c.field+": it isn't a whole number from 1 to "+c.most) {
				t.Errorf("%s %s: answered %s, recorded %+v", c.field, n, said, r)
			}
		}
		if o.connections() > 0 {
			t.Errorf("%s: the provider was reached", c.field)
		}
		if said := text(t, g.post(o, c.path, fmt.Sprintf(c.body, c.most))); said != "hello" {
			t.Errorf("%s %s: answered %s", c.field, c.most, said)
		}
	}
}

// TestUsage_OnlyWhatCosts: what the provider refuses, and what it does for nothing, isn't
// counted.
func TestUsage_OnlyWhatCosts(t *testing.T) {
	refuses := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, messageWhole, http.StatusBadRequest) }
	for path, answer := range map[string]http.HandlerFunc{"/v1/messages": refuses, "/v1/messages/count_tokens": answers("application/json", `{"input_tokens":5}`, false)} {
		if r := recorded(t, path, bodies["/v1/messages"], answer); r.Usage != nil {
			t.Errorf("%s: %+v", path, r.Usage)
		}
	}
}

// TestUsage_ChatIsAskedForIt: a stream of chat tells what it used only if it is asked to.
func TestUsage_ChatIsAskedForIt(t *testing.T) {
	for asked, want := range map[string]string{
		`"stream":true`: `,"stream_options":{"include_usage":true}`,
		`"stream":true,"stream_options":{"include_usage":false}`: `,"stream_options":{"include_usage":true}`,
		`"stream":false`: ``,
	} {
		var got []string
		g, o := provided(t, "openai", heard(&got, ""))
		_, _ = io.Copy(io.Discard, g.post(o, "/v1/chat/completions", `{"model":"m","messages":[],"store":false,`+asked+`}`).Body)
		first, _, _ := strings.Cut(asked, ",")
		if whole := fmt.Sprintf(`{"model":"m","messages":[],"store":false,%s%s}`, first, want); len(got) != 1 || got[0] != whole {
			t.Errorf("%s: the provider got %s, want %s", asked, got, whole)
		}
	}
}

// TestUsage_FailureInAStream: what a provider says went wrong in an answer that began with
// 200 is recorded; what a model writes of errors isn't.
func TestUsage_FailureInAStream(t *testing.T) {
	for name, tt := range map[string]struct{ path, text, want string }{
		"messages":  {"/v1/messages", messageBegin + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", "overloaded_error"},
		"responses": {"/v1/responses", responseBegin + "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_is_overloaded\",\"message\":\"x\"}}}\n\n", "server_is_overloaded"},
		"an event":  {"/v1/responses", responseBegin + "data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"x\"}\n\n", "rate_limit_exceeded"},
		"chat":      {"/v1/chat/completions", chatBegin + "data: {\"error\":{\"type\":\"server_error\",\"code\":\"slow_down\"}}\n\n", "slow_down"},
		"a model's": {"/v1/messages", messageBegin + "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"{\\\"error\\\":{\\\"type\\\":\\\"overloaded_error\\\"}}\",\"error\":{\"type\":\"x\"}}}\n\n" + messageEnd, ""},
	} {
		if r := recorded(t, tt.path, bodies[tt.path], answers(stream, tt.text, false)); r.Failure != tt.want || r.Status != http.StatusOK {
			t.Errorf("%s: %q, want %q", name, r.Failure, tt.want)
		}
	}
}

// TestUsage_ModelOfTheInside: a name that the inside has chosen refers to nothing.
func TestUsage_ModelOfTheInside(t *testing.T) {
	r := recorded(t, "/v1/messages", `{"model":"a/b-1.5:c@here #1 `+"`"+`x","messages":[]}`, answers(stream, "", true))
	if r.Usage == nil || r.Usage.Model != "a/b-1.5:here??1??x" && r.Usage.Model != "here??1??x" {
		t.Errorf("%+v", r.Usage)
	}
}

func TestAPI_UsageIsKnown(t *testing.T) {
	for _, e := range []string{`{"method":"POST","path":"/p","body":{"fields":{}},"usage":"other"}`, `{"method":"GET","path":"/p","usage":"chat"}`} {
		if _, err := readAPI([]byte(`{"name":"a","endpoints":[` + e + `]}`)); err == nil {
			t.Errorf("read: %s", e)
		}
	}
}

// TestUsage_CompressedAnswer: an answer that nobody could meter doesn't come inside, and is
// charged what was reserved for it.
func TestUsage_CompressedAnswer(t *testing.T) {
	for coding, refused := range map[string]bool{"gzip": true, "br, identity": true, "identity;gzip": true, "identity;identity": false, "identity": false, "": false} {
		g, o := provided(t, "anthropic", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for line := range strings.SplitSeq(coding, ";") {
				w.Header().Add("Content-Encoding", line)
			}
			_, _ = io.WriteString(w, messageWhole)
		})
		a := g.post(o, "/v1/messages", bodies["/v1/messages"])
		said, r := text(t, a), g.record()
		if refused != (r.Code == CodeEncoded) || refused != (a.StatusCode == http.StatusBadGateway) || refused == strings.Contains(said, "claude") {
			t.Errorf("%q: %d %s, recorded %+v", coding, a.StatusCode, said, r)
		}
		if want := map[bool]Basis{true: Reserved, false: Measured}[refused]; r.Usage == nil || r.Usage.Basis != want {
			t.Errorf("%q: charged %+v", coding, r.Usage)
		}
	}
}

// TestUsage_Gemini: the model stands in the path, each event has the numbers so far, and only
// those of an answer that came to its end are the whole answer's.
func TestUsage_Gemini(t *testing.T) {
	const body, at = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"maxOutputTokens":50,"candidateCount":2}}`, "/v1beta/models/gemini-asked:"
	measured := Usage{Model: "gemini-x", Basis: Measured, Input: 102, CacheRead: 3000, Output: 7}
	for name, c := range map[string]struct {
		path, kind, text string
		breaks           bool
		want             Usage
	}{
		"whole":               {"generateContent", "application/json", geminiWhole, false, measured},
		"streamed":            {"streamGenerateContent?alt=sse", stream, geminiBegin + "data: " + geminiWhole + "\n\n", false, measured},
		"streamed, in a list": {"streamGenerateContent", "application/json", "[" + geminiWhole + "\n,\n" + geminiWhole + "]", false, measured},
		"breaks off":          {"streamGenerateContent?alt=sse", stream, geminiBegin, true, Usage{Model: "gemini-x", Basis: Reserved, Output: 100}},
		"ends early":          {"streamGenerateContent?alt=sse", stream, geminiBegin, false, Usage{Model: "gemini-x", Basis: Reserved, Output: 100}},
		"breaks at its end":   {"streamGenerateContent?alt=sse", stream, geminiBegin + "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\n", true, Usage{Model: "gemini-x", Basis: Reserved, Output: 100}},
		"says nothing":        {"generateContent", "application/json", `{}`, false, Usage{Model: "gemini-asked", Basis: Unknown, Output: 100}},
	} {
		g, o := provided(t, "gemini", answers(c.kind, c.text, c.breaks))
		_, _ = io.Copy(io.Discard, g.post(o, at+c.path, body).Body)
		r := g.record()
		if c.want.Basis != Measured && r.Usage != nil && r.Usage.Input > 0 {
			c.want.Input = r.Usage.Input // the body's bytes
		}
		if r.Usage == nil || *r.Usage != c.want {
			t.Errorf("%s: %+v, want %+v, %s %s", name, r.Usage, c.want, r.Code, r.Detail)
		}
	}
}
