package gateway

import (
	"strings"
	"testing"
)

// withRows is a gateway to a stand-in for Anthropic, to whose table the operator has added.
func withRows(t *testing.T, rows ...string) (*gate, *origin, *[]string) {
	t.Helper()
	got := &[]string{}
	o := newOrigin(t, true, heard(got, "answered"))
	l := o.ofProvider("anthropic")
	with, err := l.Builder[0].Credential.API.With(rows)
	if err != nil {
		t.Fatal(err)
	}
	l.Builder[0].Credential.API = with
	return open(t, l, generous, believing(o)), o, got
}

// TestRows_LetThrough: what an operator has added is sent as it came, and nothing else that the
// table doesn't know. What is refused names the row that would let it through.
func TestRows_LetThrough(t *testing.T) {
	body := func(more string) string { return strings.Replace(asked, "{", "{"+more+",", 1) }
	rows := []string{"hints", "messages.n.note", "tools.n.type=bash_20260101", "messages.n.content.n.type=plan", "POST /v1/plans as /v1/messages"}
	for name, c := range map[string]struct {
		rows             []string
		path, body, says string // says is "" for what is sent
	}{
		"a field":                     {rows, "/v1/messages", body(`"hints":{"a":[1,"x y"],"properties":{"url":{"type":"string"}}}`), ""},
		"a schema":                    {rows, "/v1/messages", body(`"hints":{"input_schema":{"type":"object","properties":{"url":{"type":"string"},"file":{"type":"object","properties":{"key":{"type":"string"}}}},"required":["url"]},"cache_control":{"type":"ephemeral"}}`), ""},
		"a field without a row":       {nil, "/v1/messages", body(`"hints":{"a":1}`), "hints: it isn't known; the row for credential.allow: hints"},
		"an option":                   {rows, "/v1/messages", body(`"hints":7`), ""},
		"a type":                      {rows, "/v1/messages", body(`"tools":[{"type":"bash_20260101","name":"bash","max":7}]`), ""},
		"a type without a row":        {nil, "/v1/messages", body(`"tools":[{"type":"bash_20260101","name":"bash"}]`), `tools.0.type: "bash_20260101" isn't known; the row for credential.allow: tools.n.type=bash_20260101`},
		"another type":                {rows, "/v1/messages", body(`"tools":[{"type":"bash_20260102","name":"bash"}]`), `"bash_20260102" isn't known`},
		"deep":                        {rows, "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","note":{"x":[]},"content":[{"type":"plan","steps":["see https://example.org"]}]}]}`, ""},
		"a name that isn't its place": {rows, "/v1/messages", body(`"messages.0.note":{"x":1}`), "messages.0.note: it isn't known"},
		"an endpoint":                 {rows, "/v1/plans", asked, ""},
		"an endpoint, another body":   {rows, "/v1/plans", body(`"mcp_servers":[{"url":"https://evil.example"}]`), "servers of the agent's choice"},
		"an endpoint without a row":   {nil, "/v1/plans", asked, "POST /v1/plans isn't allowed there; the row for credential.allow: POST /v1/plans as /v1/messages"},
		"what the table refuses":      {rows, "/v1/messages", body(`"container":{"id":"c"}`), "container: it names what is stored at the provider"},
		"an address":                  {rows, "/v1/messages", body(`"hints":{"at":"https://evil.example/?canary"}`), "hints.at: an address"},
		"an address in a list":        {rows, "/v1/messages", body(`"hints":[["//evil.example"]]`), "hints: an address"},
		"an address in pieces":        {rows, "/v1/messages", body(`"hints":{"at":" ht\ttps:\n//evil.example"}`), "hints.at: an address"},
		"an address of one slash":     {rows, "/v1/messages", body(`"hints":{"at":"https:evil.example"}`), "hints.at: an address"},
		"a host by its name":          {rows, "/v1/messages", body(`"hints":{"serverUrl":"evil.example"}`), "hints.serverUrl: it is for what the provider fetches"},
		"a stored file":               {rows, "/v1/messages", body(`"tools":[{"type":"bash_20260101","file_ids":["f"]}]`), "file_ids: it is for what the provider fetches"},
		"a schema that refers":        {rows, "/v1/messages", body(`"hints":{"$ref":"other.json"}`), "a schema refers to another document"},
		"a host as a property":        {rows, "/v1/messages", body(`"hints":{"properties":{"url":"evil.example/?c"}}`), "hints.properties.url: it is for"},
		"hosts as a property":         {rows, "/v1/messages", body(`"hints":{"properties":{"servers":["evil.example"]}}`), "hints.properties.servers: it is for"},
		"a host below a property":     {rows, "/v1/messages", body(`"hints":{"properties":{"at":{"url":{"x":"evil.example"}}}}`), "hints.properties.at.url: it is for"},
		"properties by a dot":         {rows, "/v1/messages", body(`"hints":{"a.properties":{"url":{"x":1}}}`), "hints.a.properties.url: it is for"},
		"a list named properties":     {rows, "/v1/messages", body(`"hints":{"properties":[{"url":{"x":1}}]}`), "hints.properties.url: it is for"},
		"an acronym":                  {rows, "/v1/messages", body(`"hints":{"URLSource":"evil.example"}`), "hints.URLSource: it is for"},
		"an acronym's servers":        {rows, "/v1/messages", body(`"hints":{"MCPServers":["evil.example"]}`), "hints.MCPServers: it is for"},
		"within a word":               {rows, "/v1/messages", body(`"hints":{"imageurl":"evil.example"}`), "hints.imageurl: it is for"},
		"a stored file in a word":     {rows, "/v1/messages", body(`"hints":{"fileid":"f"}`), "hints.fileid: it is for"},
		"a stored cache":              {rows, "/v1/messages", body(`"hints":{"cached_content":"c"}`), "hints.cached_content: it is for"},
		"a type inside":               {rows, "/v1/messages", body(`"hints":[{"tools":[{"type":"web_search_20260101"}]}]`), `hints.tools.type: "web_search_20260101" is for`},
		"an address unseen before":    {rows, "/v1/messages", body(`"hints":{"at":"\ufeff\u200bhttps://evil.example"}`), "hints.at: an address"},
		"an address with unseen":      {rows, "/v1/messages", body(`"hints":{"at":"ht\u00adtps\ufe0f://evil.example"}`), "hints.at: an address"},
		"an address as a name":        {rows, "/v1/messages", body(`"hints":{"https://evil.example/":1}`), "hints.https://evil.example/: an address"},
		"an address as a property":    {rows, "/v1/messages", body(`"hints":{"properties":{"//evil.example":{}}}`), "hints.properties.//evil.example: an address"},
		"what no row lets through":    {nil, "/v1/messages", body(`"tools":[{"type":"web_search_20260101"}]`), `tools.0.type: "web_search_20260101" isn't known`},
	} {
		t.Run(name, func(t *testing.T) {
			g, o, got := withRows(t, c.rows...)
			answer := text(t, g.post(o, c.path, c.body))
			switch {
			case c.says == "":
				if g.want(Allowed, ""); len(*got) != 1 || (*got)[0] != c.body {
					t.Errorf("answered %q, the provider got %q", answer, *got)
				}
			case len(*got) > 0 || !strings.Contains(answer, strings.ReplaceAll(c.says, `"`, `\"`)) || strings.HasPrefix(name, "what no") && strings.Contains(answer, "credential.allow"):
				t.Errorf("answered %q, the provider got %q", answer, *got)
			}
		})
	}
}

// TestRows_Get: an endpoint without a body is asked for by its very path.
func TestRows_Get(t *testing.T) {
	g, o, _ := withRows(t, "GET /v1/models")
	for path, want := range map[string]int{"/v1/models?x=1": 200, "/v1/models/a": 400} {
		answer, err := g.client(o).Get("http://" + o.at("example.com") + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
		}
	}
	if r := o.requests(); len(r) != 1 || r[0].URL.RawQuery != "" {
		t.Errorf("the provider got %v", r)
	}
}

// TestRows_WordsAndQueries: a word of a list in the head, and a name of a query with its value,
// pass where a row has them, and nothing beside them does. The table itself stays as it was.
func TestRows_WordsAndQueries(t *testing.T) {
	words := len(APIs()["anthropic"].Tokens["Anthropic-Beta"])
	g, o, _ := withRows(t, "anthropic-beta: plans-2026-01-01", "POST /v1/messages?trace=on", "GET /v1/models", "GET /v1/models?limit=9")
	head := []string{"Anthropic-Beta", "plans-2026-01-01, plans-2026-01-02"}
	_ = text(t, g.post(o, "/v1/messages?trace=on&trace2=on&limit=9", asked, head...))
	// The record of a request is written after its answer, so perhaps after that of the next one.
	recorded := g.want(Allowed, "").Detail
	_ = text(t, g.post(o, "/v1/messages?trace=off", asked, head...))
	r := o.requests()
	if len(r) != 2 || r[0].URL.RawQuery != "trace=on" || r[0].Header.Get("Anthropic-Beta") != "plans-2026-01-01" || r[1].URL.RawQuery != "" {
		t.Fatalf("the provider got %v", r)
	}
	if recorded != "left out: query.limit, query.trace2, anthropic-beta.plans-2026-01-02" {
		t.Errorf("recorded %q", recorded)
	}
	table := APIs()["anthropic"]
	if len(table.Tokens["Anthropic-Beta"]) != words || len(table.Endpoints[0].Query) != 1 {
		t.Errorf("the table itself has changed: %v, %v", table.Tokens, table.Endpoints[0].Query)
	}
}

// TestRows_RefusesMistakes: a row is for what the table doesn't know, at a place that it has,
// and never for what the provider fetches, looks up or runs.
func TestRows_RefusesMistakes(t *testing.T) {
	for row, says := range map[string]string{
		"":                               "write a field",
		"mesages.n.hints":                "no such place",
		"messages.0.hints":               "no such place",
		"model.hints":                    "no such place",
		"tools.n.kind=bash":              "no such place",
		"mcp_servers":                    `"mcp" is for what the provider fetches`,
		"container":                      `"container" is for`,
		"metadata":                       "has that already",
		"messages.n.content":             "has that already",
		"tools.n.name":                   "has that already",
		"tools.n.type":                   "has that already",
		"tools.n.type=custom":            "has that already",
		"tools.n.type=web_search_20":     `"web" is for`,
		"tools.n.type=browser_2026":      `"browse" is for`,
		"tools.n.type=WebFetch":          `"web" is for`,
		"tools.n.type=codeExecution":     `"execution" is for`,
		"messages.n.content.n.url":       `"url" is for`,
		"GET /v1/files":                  `"file" is for`,
		"GET /v1/batches":                `"batch" is for`,
		"GET /v1/models/*":               "write a field",
		"GET v1":                         "write a field",
		"GET /v1/../admin":               "write a field",
		"DELETE /v1/models":              "write a field",
		"POST /v1/plans":                 "write a field",
		"POST /v1/plans as /v1/x":        "no POST /v1/x",
		"tools.n.type=websearch":         `"web" is for`,
		"tools.n.type=MCPServers":        `"mcp" is for`,
		"messages.n.content.n.URLSource": `"url" is for`,
		"fileid":                         `"file" is for`,
		"prompt_ref":                     `"prompt" is for`,
		"grounding":                      `"grounding" is for`,
		"deep_links":                     `"link" is for`,
		"tools.n.type=retrieval":         `"retrieval" is for`,
		"tools.n.endpoint":               `"endpoint" is for`,
		"profile_files":                  `"file" is for`,
		"GET /v1/responses/resp_1":       `"response" is for`,
		"GET /v1/chat/completions/c":     `"completion" is for`,
		"GET /v1/conversations/c":        `"conversation" is for`,
		"GET /v1beta/cachedContents":     `"cache" is for`,
		"POST /v1/files as /v1/messages": `"file" is for`,
		"POST /v1/plans as /v1/messages/count_tokens":    "isn't counted",
		"POST /v1/messages as /v1/messages/count_tokens": "has that already",
		"POST /v1/* as /v1/messages":                     "as many stars",
		"anthropic-beta: files-2026":                     `"file" is for`,
		"anthropic-beta: effort-2025-11-24":              "has that already",
		"x-other: plans":                                 "no list of words in a field x-other",
		"anthropic-beta: a, b":                           "write a field",
		"POST /v1/messages?beta=true":                    "has that already",
		"POST /v1/messages?key=a":                        `"key" is for`,
		"POST /v1/messages?to=mcp":                       `"mcp" is for`,
		"POST /v1/messages?a=b&c=d":                      "write a field",
		"GET /v1/models?limit=9":                         "has the endpoint GET /v1/models",
	} {
		if _, err := APIs()["anthropic"].With([]string{"hints", row}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", row, err)
		}
	}
	for api, rows := range map[string][]string{
		"gemini":    {"POST /v1beta/models/*:plan as /v1beta/models/*:generateContent", "contents.n.parts.n.functionResponse.hints"},
		"openai":    {"input.n(function_call_output).hints", "POST /v1/responses/compact as /v1/responses"},
		"anthropic": {"profile_hints", "cache_control.hints"},
	} {
		if _, err := APIs()[api].With(rows); err != nil {
			t.Errorf("%s: %v", api, err)
		}
	}
}
