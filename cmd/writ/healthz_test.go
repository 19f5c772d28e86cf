package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/problem"
)

// TestHealthz_AsksThisMachine: the server's own answer decides, and its
// configuration says where it is, also if it listens on every address.
func TestHealthz_AsksThisMachine(t *testing.T) {
	status := http.StatusOK
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(status)
	}))
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	file := filepath.Join(t.TempDir(), "writ.yaml")
	if err := os.WriteFile(file, []byte("server: {listen: '127.0.0.1:1', probes: '0.0.0.0:"+port+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func() (int, string) {
		var told bytes.Buffer
		// A proxy that must not be asked.
		t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
		exit := Main([]string{"healthz", "--config", file}, nil, &told, &told, nil)
		return exit, told.String()
	}
	if exit, told := ask(); exit != problem.ExitDone || told != "" {
		t.Errorf("of a server that answers: exit %d, %q", exit, told)
	}
	status = http.StatusServiceUnavailable
	if exit, told := ask(); exit != problem.ExitOther || !strings.Contains(told, "503") {
		t.Errorf("of a server that answers 503: exit %d, %q", exit, told)
	}
	server.Close()
	if exit, told := ask(); exit != problem.ExitOther || !strings.Contains(told, "127.0.0.1:"+port) {
		t.Errorf("without a server: exit %d, %q", exit, told)
	}
	for _, got := range asked {
		if got != "GET /healthz" {
			t.Errorf("asked %s", got)
		}
	}
	if len(asked) != 2 {
		t.Errorf("asked %d times, want twice", len(asked))
	}
}

func TestHealthz_NearestAddress(t *testing.T) {
	for listen, want := range map[string]string{
		":8714": "127.0.0.1:8714", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1",
		"127.0.0.1:8714": "127.0.0.1:8714", "10.1.2.3:80": "10.1.2.3:80", "writ.example:80": "writ.example:80",
	} {
		if got := doctor.Nearest(listen); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", listen, got, want)
		}
	}
}
