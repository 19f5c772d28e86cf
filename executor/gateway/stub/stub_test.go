package stub

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestServer: who trusts its authority, and asks for its name, is answered; nobody else
// trusts it.
func TestServer(t *testing.T) {
	m := &Model{Key: "k", Turns: []Turn{{Run: "ls"}, {Run: "ls"}, {Run: "ls"}, {Say: "done"}}}
	s, err := Serve(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Authority)
	ask := func(roots *x509.CertPool, method, path, key, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("https://127.0.0.1:%d%s", s.Port, path), bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: Host}}}
		answer, err := c.Do(r)
		if err != nil {
			return "no answer"
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.Status + " " + string(text)
	}
	for _, c := range []struct{ got, want string }{
		{ask(x509.NewCertPool(), "GET", "/v1/models", "k", ""), "no answer"},
		{ask(roots, "GET", "/v1/models", "other", ""), "401 "},
		{ask(roots, "GET", "/v1/models", "k", ""), "200 "},
		{ask(roots, "POST", "/v1/chat/completions", "k", `{"tools":[{"type":"function","function":{"name":"run_shell_command"}}]}`), `"name":"run_shell_command"`},
		{ask(roots, "POST", "/v1/chat/completions", "k", `{"tools":[{"type":"function","function":{"name":"bash"}}]}`), `"name":"bash"`},
		{ask(roots, "POST", "/v1/messages", "k", "{}"), `"partial_json":"{\"command\":\"ls\"`},
		{ask(roots, "POST", "/v1/messages", "other", "{}"), `"text":"done"`},
		{ask(roots, "POST", "/v1/responses", "k", "{}"), `"text":"done"`},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%q isn't in %q", c.want, c.got)
		}
	}
	if len(m.Asked()) != 5 || !slices.Equal(m.Wrong(), []string{"/v1/messages"}) {
		t.Errorf("asked %q, without the key %q", m.Asked(), m.Wrong())
	}
}
