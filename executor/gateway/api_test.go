package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// ofProvider are lists in which the operator has the key of a provider.
func (o *origin) ofProvider(api string) Lists {
	a := APIs()[api]
	l := o.lists("example.com")
	l.Builder[0].Credential = &Credential{Header: a.Header, Value: a.Prefix + "s3cret-of-the-operator", API: a}
	return l
}

// provided is a gateway to a stand-in for a provider.
func provided(t *testing.T, api string, answer http.HandlerFunc, change ...func(*Server)) (*gate, *origin) {
	t.Helper()
	o := newOrigin(t, true, answer)
	return open(t, o.ofProvider(api), generous, append(change, believing(o))...), o
}

// heard is a handler that keeps the body of what it is asked, and answers with a text.
func heard(into *[]string, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*into = append(*into, string(body))
		fmt.Fprint(w, text)
	}
}

// post sends a body as an agent does.
func (g *gate) post(o *origin, path, body string, head ...string) answered {
	g.t.Helper()
	req, err := http.NewRequest("POST", "http://"+o.at("example.com")+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(head); i += 2 {
		req.Header[head[i]] = []string{head[i+1]}
	}
	answer, err := g.client(o).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = answer.Body.Close() })
	return answered{answer}
}

// answered is an answer whose body is closed when its test ends.
type answered struct{ *http.Response }

func text(t *testing.T, r answered) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

const asked = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`

// TestF3_ProviderKeyIsTheGateways: of what an agent says of itself nothing arrives, whatever
// its spelling; the operator's key does, and of the account nothing comes back.
func TestF3_ProviderKeyIsTheGateways(t *testing.T) {
	var got []string
	g, o := provided(t, "anthropic", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Set-Cookie", "Anthropic-Organization-Id", "Anthropic-Ratelimit-Requests-Remaining", "Cf-Ray", "Location", "X-Unknown"} { //nolint:misspell // the provider spells it so
			w.Header().Set(name, "of-the-account")
		}
		w.Header().Set("Retry-After", "7")
		heard(&got, "answered")(w, r)
	})
	head := []string{"Anthropic-Version", "2023-06-01", "X-Stainless-Os", "inside", "Anthropic-Beta", "interleaved-thinking-2025-05-14, files-api-2025-04-14"}
	for _, name := range slices.Concat(spellings, []string{"Anthropic-Api-Key", "Proxy-Authorization", "X-Forwarded-For", "Openai-Organization"}) { //nolint:misspell // the provider spells it so
		head = append(head, name, "inside")
	}
	answer := g.post(o, "/v1/messages?beta=true&api_key=inside&to=elsewhere", strings.Replace(asked, "{", `{"metadata":{"user_id":"inside"},"new_option":1,`, 1), head...)
	if body := text(t, answer); body != "answered" || answer.Header.Get("Retry-After") != "7" {
		t.Errorf("answered %q, %v", body, answer.Header)
	}
	for name, values := range answer.Header {
		if values[0] == "of-the-account" {
			t.Errorf("came inside: %s", name)
		}
	}
	r := o.requests()[0]
	for name, values := range r.Header {
		if values[0] == "inside" {
			t.Errorf("the provider got %s", name)
		}
	}
	if h := r.Header; h.Get("X-Api-Key") != "s3cret-of-the-operator" || h.Get("Authorization") != "" || h.Get("Accept-Encoding") != "identity" || h.Get("Anthropic-Version") == "" || h.Get("Anthropic-Beta") != "interleaved-thinking-2025-05-14" {
		t.Errorf("the provider got %v", h)
	}
	if r.URL.RawQuery != "beta=true" || len(got) != 1 || got[0] != asked {
		t.Errorf("the provider got %s, %s", r.URL, got)
	}
	const left = "left out: query.api_key, query.to, anthropic-beta.files-api-2025-04-14, metadata, new_option"
	if r := g.want(Allowed, ""); r.Detail != left || r.Status != http.StatusOK || r.Mode != Reverse {
		t.Errorf("recorded %+v", r)
	}
}

// TestX2_ProviderIsNoWayOut: what the provider would fetch, run or look up for who asks is
// refused by its name, and nothing of the request is sent.
func TestX2_ProviderIsNoWayOut(t *testing.T) {
	content := func(block string) string {
		return `{"model":"m","messages":[{"role":"user","content":[` + block + `]}]}`
	}
	input := func(item string) string { return `{"model":"m","input":[` + item + `]}` }
	tool := func(tool string) string { return `{"model":"m","messages":[],"tools":[` + tool + `]}` }
	chat := func(part string) string {
		return `{"model":"m","messages":[{"role":"user","content":[` + part + `]}]}`
	}
	const anthropic, responses, chats = "anthropic /v1/messages", "openai /v1/responses", "openai /v1/chat/completions"
	for _, c := range []struct{ to, body, want string }{
		{anthropic, strings.Replace(asked, "{", `{"mcp_servers":[{"type":"url","url":"https://evil.example"}],`, 1), "mcp_servers: the provider would call"},
		{anthropic, strings.Replace(asked, "{", `{"container":"c_1",`, 1), "container: it names"},
		{anthropic, strings.Replace(asked, "{", `{"new_option":{"url":"https://evil.example"},`, 1), "new_option: it isn't known"},
		{anthropic, strings.Replace(asked, "{", `{"new_option":["https://evil.example"],`, 1), "new_option: it isn't known"},
		{anthropic, tool(`{"type":"web_search_20250305","name":"web_search"}`), `tools.0.type: "web_search_20250305" isn't known`},
		{anthropic, tool(`{"type":"web_fetch_20250910","name":"web_fetch"}`), `tools.0.type: "web_fetch_20250910" isn't known`},
		{anthropic, tool(`{"type":"code_execution_20250825","name":"x"}`), `tools.0.type: "code_execution_20250825" isn't known`},
		{anthropic, tool(`{"type":"mcp_toolset","mcp_server_name":"x"}`), `tools.0.type: "mcp_toolset" isn't known`},
		{anthropic, tool(`{"name":"x","input_schema":{"properties":{"a":{"$ref":"https://evil.example/a"}}}}`), "tools.0.input_schema.properties.a.$ref: a schema"},
		{anthropic, tool(`{"name":"x","input_schema":{},"callers":{"url":"x"}}`), "tools.0.callers: it isn't known"},
		{anthropic, content(`{"type":"image","source":{"type":"url","url":"https://evil.example/a.png"}}`), "messages.0.content.0(image).source(url): the provider would fetch it"},
		{anthropic, content(`{"type":"image","source":{"type":"file","file_id":"f_1"}}`), "messages.0.content.0(image).source(file): it names"},
		{anthropic, content(`{"type":"document","source":{"type":"url","url":"https://evil.example/a.pdf"}}`), "(document).source(url): the provider would fetch it"},
		{anthropic, content(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"x"}}]}`), "content.0(image).source(url): the provider"},
		{anthropic, content(`{"type":"container_upload","file_id":"f_1"}`), `messages.0.content.0.type: "container_upload" isn't known`},
		{anthropic, content(`{"type":["text"],"text":"x"}`), `messages.0.content.0.type: "" isn't known`},
		{anthropic, content(`{"type":"text","text":{"url":"x"}}`), "text: it isn't of the form"},
		{anthropic, `{"model":"m","messages":{"url":"x"}}`, "messages: it isn't of the form"},
		{anthropic, `["m"]`, "it isn't of the form"},
		{responses, input(`{"type":"item_reference","id":"i_1"}`), "input.0(item_reference): it names"},
		{responses, input(`{"type":"mcp_call","server_label":"x"}`), `input.0.type: "mcp_call" isn't known`},
		{responses, input(`{"role":"user","content":[{"type":"input_image","image_url":"https://evil.example/a.png"}]}`), `image_url: "https://evil.example/a.png" isn't allowed`},
		{responses, input(`{"role":"user","content":[{"type":"input_image","file_id":"f_1"}]}`), "file_id: it names"},
		{responses, input(`{"role":"user","content":[{"type":"input_file","file_url":"https://evil.example"}]}`), "file_url: the provider would fetch it"},
		{chats, `{"model":"gpt-4o-Search-preview","messages":[]}`, `model: "gpt-4o-Search-preview" isn't allowed`},
		{responses, `{"model":"o4-mini-deep-research","input":"x"}`, `model: "o4-mini-deep-research" isn't allowed`},
		{responses, `{"model":"m","input":"x","previous_response_id":"r_1"}`, "previous_response_id: it names"},
		{responses, `{"model":"m","input":"x","conversation":"c_1"}`, "conversation: it names"},
		{responses, `{"model":"m","input":"x","prompt":{"id":"p_1"}}`, "prompt: it names"},
		{responses, `{"model":"m","input":"x","include":["file_search_call.results"]}`, `include.0: "file_search_call.results" isn't allowed`},
		{responses, `{"model":"m","input":"x","tools":[{"type":"mcp","server_url":"https://evil.example"}]}`, `tools.0.type: "mcp" isn't known`},
		{responses, `{"model":"m","input":"x","tools":[{"type":"web_search"}]}`, `tools.0.type: "web_search" isn't known`},
		{responses, `{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}`, `tools.0.type: "code_interpreter" isn't known`},
		{responses, `{"model":"m","input":"x","tool_choice":{"type":"mcp","server_label":"x"}}`, `tool_choice.type: "mcp" isn't allowed`},
		{chats, chat(`{"type":"image_url","image_url":{"url":"https://evil.example/a.png"}}`), `image_url.url: "https://evil.example/a.png" isn't allowed`},
		{chats, chat(`{"type":"file","file":{"file_id":"f_1"}}`), `content.0.type: "file" isn't known`},
		{chats, `{"model":"m","messages":[],"web_search_options":{}}`, "web_search_options: the provider would search"},
		{chats, `{"model":"m","messages":[{"role":"robot","content":"x"}]}`, `messages.0.role: "robot" isn't known`},
	} {
		api, path, _ := strings.Cut(c.to, " ")
		g, o := provided(t, api, hello)
		answer := g.post(o, path, c.body)
		var e struct {
			Type  string
			Error struct{ Type, Code, Message string }
		}
		if err := json.Unmarshal([]byte(text(t, answer)), &e); err != nil || answer.StatusCode != http.StatusBadRequest || e.Error.Code != CodeBody || answer.Header.Get("X-Should-Retry") != "false" || !strings.Contains(e.Error.Message, c.want) {
			t.Errorf("%s %s: answered %s %+v, %v; want %s", c.to, c.body, answer.Status, e, err, c.want)
		}
		if r := g.want(Denied, CodeBody); !strings.Contains(r.Detail, c.want) || len(r.Detail) > maxText {
			t.Errorf("recorded %+v", r)
		}
		if o.connections() > 0 {
			t.Errorf("%s: the provider was reached", c.body)
		}
	}
}

// TestX2_ProviderKeepsNothing: what would be kept at the provider, and read there later, is
// not, whatever the agent asks for.
func TestX2_ProviderKeepsNothing(t *testing.T) {
	var got []string
	g, o := provided(t, "openai", heard(&got, "{}"))
	g.post(o, "/v1/responses", `{"store":true,"model":"m","input":"x","background":true}`)
	g.post(o, "/v1/responses", `{"model":"m","input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`)
	g.post(o, "/v1/chat/completions", `{"model":"m","messages":[]}`)
	if left := g.record().Detail + g.record().Detail + g.record().Detail; left != "left out: input.n.id" {
		t.Errorf("recorded %q", left)
	}
	want := []string{
		`{"store":false,"model":"m","input":"x","background":false}`, `{"model":"m","input":[{"type":"reasoning","summary":[]}],"background":false,"store":false}`,
		`{"model":"m","messages":[],"store":false}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the provider got %q", got)
	}
}

// TestX2_ProviderTier: at which of the provider's prices a request is answered isn't the
// agent's to choose.
func TestX2_ProviderTier(t *testing.T) {
	var got []string
	g, o := provided(t, "openai", heard(&got, "{}"))
	g.post(o, "/v1/responses", `{"service_tier":"priority","model":"m","input":"x","store":false,"background":false}`)
	g.post(o, "/v1/chat/completions", `{"service_tier":"priority","model":"m","messages":[],"store":false}`)
	if want := []string{`{"model":"m","input":"x","store":false,"background":false}`, `{"model":"m","messages":[],"store":false}`}; !slices.Equal(got, want) {
		t.Errorf("the provider got %q", got)
	}
	for range 2 {
		if r := g.want(Allowed, ""); r.Detail != "left out: service_tier" {
			t.Errorf("recorded %+v", r)
		}
	}
}

// TestX2_ProviderEndpoints: what stores, runs in batches or speaks of the account isn't
// reached, nor is an endpoint in another spelling.
func TestX2_ProviderEndpoints(t *testing.T) {
	g, o := provided(t, "anthropic", hello)
	for _, at := range []string{
		"POST /v1/files", "POST /v1/messages/batches", "GET /v1/messages", "POST /v1/messages/", "POST /v1//messages", "POST /v1/%6dessages", "POST /v1/x/../messages",
		"GET /v1/organizations/me", "DELETE /v1/messages", "POST /", "OPTIONS /v1/messages",
	} {
		method, path, _ := strings.Cut(at, " ")
		g.refused(fmt.Sprintf("%s http://%s%s HTTP/1.1\r\nHost: %[2]s\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", method, o.at("example.com"), path), CodeEndpoint)
	}
	g.refused(connectTo(o.at("example.com")), CodeTunnel)
	if o.connections() > 0 {
		t.Error("the provider was reached")
	}
}

// TestX17_ProviderBodyHasOneMeaning: a body that two readers may read differently, or that
// can't be read, is refused.
func TestX17_ProviderBodyHasOneMeaning(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2)
	g, o := provided(t, "anthropic", hello)
	for name, body := range map[string]string{
		"a name twice": `{"model":"a","model":"b","messages":[]}`, "a name twice inside": `{"messages":[{"role":"user","content":[{"type":"text","text":"a","type":"image"}]}]}`,
		"two documents": asked + asked, "no JSON": "model=m", "nothing": "", "half": asked[:20], "no UTF-8": "{\"model\":\"\xff\"}",
		"deep": `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":` + deep + `}]}]}`,
		"many": `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":[` + strings.Repeat("0,", maxValues) + `0]}]}]}`,
	} {
		if answer := text(t, g.post(o, "/v1/messages", body)); !strings.Contains(answer, CodeBody) {
			t.Errorf("%s is answered with %q", name, answer)
		}
		g.want(Denied, CodeBody)
	}
	for _, head := range [][]string{{"Content-Encoding", "gzip"}, {"Content-Encoding", "identity", "content-encoding", "gzip"}, {"Content-Encoding", "zstd"}, {"Content-Type", "text/plain"}, {"Content-Type", "multipart/form-data; boundary=x"}} {
		if answer := text(t, g.post(o, "/v1/messages", asked, head...)); !strings.Contains(answer, CodeBody) {
			t.Errorf("%v is answered with %q", head, answer)
		}
		g.want(Denied, CodeBody)
	}
	if o.connections() > 0 {
		t.Error("the provider was reached")
	}
}

// TestX21_ProviderBodyIsBounded: in size, in time, and in how many are held at once.
func TestX21_ProviderBodyIsBounded(t *testing.T) {
	g, o := provided(t, "anthropic", hello, func(s *Server) { s.bodyTime = 10 * time.Millisecond })
	head := fmt.Sprintf("POST http://%s/v1/messages HTTP/1.1\r\nHost: %[1]s\r\nContent-Type: application/json\r\n", o.at("example.com"))
	g.refused(head+"Content-Length: 100\r\n\r\n{", CodeRequest)
	g, o = provided(t, "anthropic", hello)
	if answer := text(t, g.post(o, "/v1/messages", strings.Repeat(" ", maxBody)+asked)); !strings.Contains(answer, "it has more than") {
		t.Errorf("a large one is answered with %q", answer)
	}
	g.want(Denied, CodeBody)
	places := make(chan struct{}) // there is none but what is taken from it here
	g, o = provided(t, "anthropic", hello, func(s *Server) { s.bodies = places })
	done := make(chan string)
	go func() { done <- text(t, g.post(o, "/v1/messages", asked)) }()
	select {
	case answer := <-done:
		t.Errorf("one more at once is answered with %q", answer)
	case <-places:
		places <- struct{}{} // it was given back
		if answer := <-done; answer != "hello" {
			t.Errorf("answered %q", answer)
		}
	}
}

// TestX21_ProviderNotesAreBounded: names of the inside's own are as long and as many as it
// likes, and what is kept of them isn't.
func TestX21_ProviderNotesAreBounded(t *testing.T) {
	var s sieve
	for i := range 10 * maxLeft {
		s.leave(strings.Repeat(".", 4*maxPlace) + strings.Repeat("x", i))
		s.leave(fmt.Sprint("name", i))
	}
	if len(s.left) != maxLeft || len(s.left[0]) > 2*maxPlace {
		t.Errorf("%d are noted, the first with %d bytes", len(s.left), len(s.left[0]))
	}
	name := strings.Repeat("x", 1<<20) // 4,000 places of a mebibyte each would be seen
	tree := object{{name, make([]any, 4000)}}
	allocated := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if err := remoteSchema("schema", tree); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 64<<20 {
		t.Errorf("%d bytes are taken for places in a schema", allocated)
	}
}

// TestF3_ProviderRefuses: an answer that speaks of the account, or leads elsewhere, doesn't
// come inside; the status does.
func TestF3_ProviderRefuses(t *testing.T) {
	other := newOrigin(t, true, hello)
	for status, code := range map[int]string{401: CodeProvider, 402: CodeProvider, 403: CodeProvider, 429: CodeProvider, 302: "", 307: "", 400: "the key", 404: "the key", 500: "the key"} {
		g, o := provided(t, "openai", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://"+other.at("example.com")+"/v1/responses")
			w.WriteHeader(status)
			if status >= 400 {
				fmt.Fprint(w, `{"error":"the key s3cr...ator of org-7, organization 'org-Ab12', proj_9xY, user-8, project_number:4711, 1b4e28ba-2fa1-11d2-883f-0016d3cca427", "account_id": 815}`) //nolint:misspell // the providers spell it so
			}
		})
		c := g.client(o)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		req, err := http.NewRequest("POST", "http://"+o.at("example.com")+"/v1/responses", strings.NewReader(`{"model":"m","input":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		answer, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := text(t, answered{answer})
		_ = answer.Body.Close()
		if answer.StatusCode != status || !strings.Contains(body, code) || regexp.MustCompile(`org-7|Ab12|9xY|user-8|4711|1b4e28ba|815`).MatchString(body) || code == "the key" && !json.Valid([]byte(body)) || answer.Header.Get("Location") != "" ||
			(answer.Header.Get("X-Should-Retry") == "false") != (status >= 400 && status < 429) {
			t.Errorf("%d: answered %s %q %v", status, answer.Status, body, answer.Header)
		}
		if r := g.want(Allowed, ""); r.Status != status {
			t.Errorf("%d: recorded %+v", status, r)
		}
	}
	if other.connections() > 0 {
		t.Error("a redirect was followed")
	}
}

// TestProvider_StreamsAtOnce: what the provider says in parts arrives in parts.
func TestProvider_StreamsAtOnce(t *testing.T) {
	next := make(chan struct{})
	g, o := provided(t, "anthropic", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			fmt.Fprint(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	answer := g.post(o, "/v1/messages", asked)
	lines := bufio.NewReader(answer.Body)
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil || line != "data: {}\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = lines.ReadString('\n')
		next <- struct{}{}
	}
}

// TestProvider_RecordedRequests: what tested versions of agents send passes, and but for
// what the file's name is listed with nothing is left out.
func TestProvider_RecordedRequests(t *testing.T) {
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Agent, API, Path string
			Left             []string
			Body             json.RawMessage
		}
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		a := APIs()[r.API]
		tested[r.API+" "+r.Agent] = true
		if !slices.Contains(a.Tested, r.Agent) {
			t.Errorf("%s: %s isn't among the tested", name, r.Agent)
		}
		e := a.Endpoints[slices.IndexFunc(a.Endpoints, func(e endpoint) bool { return e.Path == r.Path })]
		tree, err := readTree(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		s := &sieve{shapes: a.Shapes}
		if _, _, err := s.take(e.Body, "", tree); err != nil || !slices.Equal(s.left, r.Left) {
			t.Errorf("%s: %v, left out %q, want %q", name, err, s.left, r.Left)
		}
	}
	for name, a := range APIs() {
		for _, agent := range a.Tested {
			if !tested[name+" "+agent] {
				t.Errorf("there is no request of %s in testdata/requests", agent)
			}
		}
	}
}

// TestAPIs_RefuseMistakes: a table with a mistake is no table.
func TestAPIs_RefuseMistakes(t *testing.T) {
	if len(APIs()) != 3 {
		t.Errorf("there are %d tables", len(APIs()))
	}
	for name, body := range map[string]string{
		"nothing": `{}`, "two things": `{"kind":"text","drop":true}`, "an unknown kind": `{"kind":"url"}`, "an unknown name": `{"named":"x"}`, "a mistake inside": `{"list":{"fields":{"a":{}}}}`,
		"an unknown word": `{"allow":true}`,
	} {
		if _, err := readAPI([]byte(`{"name":"x","shapes":{"a":` + body + `}}`)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestTree_SameBytes: what was read, written again, says the same in the same order.
func TestTree_SameBytes(t *testing.T) {
	const data = `{"b":[1,-2.50e3,"a<b>&\u2028é\"\\",true,false,null,{},[]],"a":{"z":1,"y":{"x":[]}}}`
	v, err := readTree([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := writeTree(v); err != nil || string(got) != data {
		t.Errorf("%s", got)
	}
}

// TestTree_CutText: agents and we cut texts by their bytes, and half a letter is replaced.
func TestTree_CutText(t *testing.T) {
	v, err := readTree([]byte(`["\ud83d"]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{v, []any{"\xf0\x9f"[:1]}} {
		if got, err := writeTree(v); err != nil || string(got) != "[\"\ufffd\"]" {
			t.Errorf("%q", got)
		}
	}
}

// TestTree_NameTwice: a body in which a name has two meanings is neither read nor sent.
func TestTree_NameTwice(t *testing.T) {
	for _, body := range []string{`{"model":"a","model":"b"}`, `[{"a":{"b":1,"\u0062":2}}]`} {
		if v, err := readTree([]byte(body)); err == nil {
			t.Errorf("%s is read as %v", body, v)
		}
	}
	if got, err := writeTree(object{{"model", "a"}, {"model", "b"}}); err == nil {
		t.Errorf("%q is written", got)
	}
}

// TestX2_Gemini: what the provider would fetch, search for, run or look up among what it
// stores is refused by name, in either spelling, and so are other models' places.
func TestX2_Gemini(t *testing.T) {
	var got []string
	g, o := provided(t, "gemini", heard(&got, "{}"))
	for body, at := range map[string]string{
		`{"tools":[{"googleSearch":{}}]}`:                                                         "tools.0.googleSearch",
		`{"tools":[{"google_search":{}}]}`:                                                        "tools.0.google_search",
		`{"tools":[{"urlContext":{}}]}`:                                                           "tools.0.urlContext",
		`{"tools":[{"codeExecution":{}}]}`:                                                        "tools.0.codeExecution",
		`{"tools":[{"somethingNew":{"a":1}}]}`:                                                    "tools.0.somethingNew",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"https://x"}}]}]}`:                         "contents.0.parts.0.fileData",
		`{"contents":[{"parts":[{"file_data":{"file_uri":"https://x"}}]}]}`:                       "contents.0.parts.0.file_data",
		`{"cachedContent":"cachedContents/1"}`:                                                    "cachedContent",
		`{"cached_content":"cachedContents/1"}`:                                                   "cached_content",
		`{"generationConfig":{"max_output_tokens":1}}`:                                            "generationConfig.max_output_tokens",
		`{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"$ref":"https://x/y"}}]}]}`: "$ref",
	} {
		a := g.post(o, "/v1beta/models/m:generateContent", body)
		if said := text(t, a); a.StatusCode != http.StatusBadRequest || !strings.Contains(said, CodeBody) || !strings.Contains(said, at) {
			t.Errorf("%s: %d %s", body, a.StatusCode, said)
		}
		g.record()
	}
	for _, path := range []string{
		"/v1beta/models/m:embedContent", "/v1beta/models/m:batchGenerateContent", "/v1beta/models/../files/m:generateContent", "/v1beta/models/a/b:generateContent",
		"/v1beta/models/a%2Fb:generateContent", "/v1beta/models/:generateContent", "/v1beta/tunedModels/m:generateContent", "/v1beta/files", "/v1/models/m:generateContent",
	} {
		if a := g.post(o, path, "{}"); !strings.Contains(text(t, a), CodeEndpoint) {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
		g.record()
	}
	if len(got) > 0 {
		t.Errorf("the provider was asked %q", got)
	}
	const fine = `{"contents":[{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]}`
	if a := g.post(o, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=its-own", fine); a.StatusCode != http.StatusOK || len(got) != 1 || got[0] != fine {
		t.Errorf("%d, the provider was asked %q", a.StatusCode, got)
	}
}
