package local_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/local"
)

// TestServe_Health: the forge says that it lives, and whether it can serve.
func TestServe_Health(t *testing.T) {
	dir := t.TempDir()
	s, err := local.Open(t.Context(), local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, err := s.Handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	ask := func(path string, status int, says string) {
		t.Helper()
		r, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != status || strings.TrimSpace(string(body)) != says {
			t.Errorf("%s: %d %s %v", path, r.StatusCode, body, err)
		}
	}
	ask("/healthz", http.StatusOK, `{"live":true,"ready":true}`)
	ask("/readyz", http.StatusOK, `{"ready":true,"checks":[{"name":"store","ok":true},{"name":"repositories","ok":true}]}`)
	if err := os.Remove(filepath.Join(dir, "repos")); err != nil {
		t.Fatal(err)
	}
	ask("/readyz", http.StatusServiceUnavailable, `{"ready":false,"checks":[{"name":"store","ok":true},{"name":"repositories","ok":false}]}`)
	ask("/healthz", http.StatusOK, `{"live":true,"ready":true}`)
}
