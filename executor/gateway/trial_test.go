package gateway

import (
	"errors"
	"net/http"
	"slices"
	"testing"
)

// TestTry: a provider is asked for a list of models, with the key where its table has it, and
// what it answers says whether it takes the key. No program may ask for it.
func TestTry(t *testing.T) {
	for name, c := range map[string]struct {
		asked, header, prefix string
		refused               []int
	}{
		"anthropic": {"/v1/models?limit=1", "X-Api-Key", "", []int{401, 402}},
		"openai":    {"/v1/models", "Authorization", "Bearer ", []int{401, 402}},
		"gemini":    {"/v1beta/models?pageSize=1", "X-Goog-Api-Key", "", []int{400, 401, 402}},
	} {
		t.Run(name, func(t *testing.T) {
			status := 200
			o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Method + " " + r.URL.String() + " " + r.Header.Get(c.header); got != "GET "+c.asked+" "+c.prefix+"k" || name == "anthropic" && r.Header.Get("Anthropic-Version") == "" {
					t.Errorf("asked for %s with %v", got, r.Header)
				}
				w.WriteHeader(status)
			})
			lists := o.lists("example.com")
			lists.Builder[0].Credential = &Credential{Header: c.header, Value: c.prefix + "k", API: APIs()[name]}
			var s *Server
			g := open(t, lists, generous, believing(o), func(made *Server) { s = made })
			for _, status = range []int{200, 204, 400, 401, 402, 403, 404, 429, 500, 503, 529} {
				err := s.Try(t.Context(), lists.Builder[0])
				switch {
				case slices.Contains(c.refused, status):
					if !errors.Is(err, ErrKey) {
						t.Errorf("%d: %v", status, err)
					}
				case status == 429 || status >= 500:
					if err == nil || errors.Is(err, ErrKey) {
						t.Errorf("%d: %v", status, err)
					}
				case err != nil:
					t.Errorf("%d: %v", status, err)
				}
			}
			g.refused("GET http://"+o.at("example.com")+c.asked+" HTTP/1.1\r\n\r\n", CodeEndpoint)
		})
	}
}

// TestGateway_NothingGoesOutInATrial: where requests are judged only, what the table lets
// through to a model is told, and nobody is connected to, neither the provider nor another host.
func TestGateway_NothingGoesOutInATrial(t *testing.T) {
	var told []string
	o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {})
	lists := o.lists("example.com", "example.org")
	a, err := APIs()["anthropic"].With([]string{"GET /v1/models"})
	if err != nil {
		t.Fatal(err)
	}
	lists.Builder[0].Credential = &Credential{Header: a.Header, Value: "k", API: a}
	g := open(t, lists, generous, believing(o), func(s *Server) { s.c.Judged = func(body []byte) { told = append(told, string(body)) } })
	for path, code := range map[string]string{"/v1/messages": CodeProvider, "/v1/messages/count_tokens": CodeProvider, "/v1/files": CodeEndpoint} {
		if answer := g.post(o, path, asked); answer.StatusCode/100 != 4 {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
		g.want(Denied, code)
	}
	g.refused("GET http://"+o.at("example.com")+"/v1/models HTTP/1.1\r\n\r\n", CodeProvider)
	g.refused("GET http://"+o.at("example.org")+"/ HTTP/1.1\r\n\r\n", CodeProvider)
	g.refused("CONNECT "+o.at("example.org")+" HTTP/1.1\r\n\r\n", CodeProvider)
	if o.connections() > 0 || len(told) != 1 || told[0] != asked {
		t.Errorf("%d connections, told %q", o.connections(), told)
	}
}
