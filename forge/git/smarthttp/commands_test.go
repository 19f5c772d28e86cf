package smarthttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

// FuzzReadCommands: what is read is exactly what git will read as commands, and
// what follows is left alone.
func FuzzReadCommands(f *testing.F) {
	oid := strings.Repeat("1", 40)
	for _, s := range []string{
		"0000PACK", "0001", "", "003f",
		"0067" + oid + " " + oid + " refs/heads/main\x00report-status0000PACK",
		"0035shallow " + oid + "0067" + oid + " " + zeroOID + " refs/heads/main\x00side-band-64k0000",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		c, err := readCommands(r)
		if err != nil {
			return
		}
		rest, err := io.ReadAll(r)
		if err != nil || !bytes.HasSuffix(c.raw, []byte("0000")) || string(c.raw)+string(rest) != string(data) {
			t.Fatalf("%q was read as %q and %q", data, c.raw, rest)
		}
		for _, u := range c.list {
			if !isOID(u.Old) || !isOID(u.New) || u.Ref == "" || strings.Contains(u.Ref, "\x00") {
				t.Errorf("command %+v", u)
			}
		}
	})
}

// TestReadReport: only what git says at the end of its answer counts, not what
// looks like it among its words.
func TestReadReport(t *testing.T) {
	const ok = "0019ok refs/heads/main\n"
	band := func(n, text string) string { return pktLine(n + text) }
	for name, c := range map[string]struct {
		text     string
		sideband bool
		whole    bool
		moved    string
	}{
		"plain":         {"000eunpack ok\n" + pktLine("ok refs/a\n") + pktLine("ng refs/b no\n") + "0000", false, true, "refs/a"},
		"cut":           {"000eunpack ok\n" + pktLine("ok refs/a\n"), false, false, "refs/a"},
		"nothing":       {"", false, false, ""},
		"in two frames": {band("\x01", "000eunpack ok\n00") + band("\x02", ok+"0000") + band("\x01", "0eok refs/a\n0000") + "0000", true, true, "refs/a"},
		"words only":    {band("\x02", ok+"0000") + "0000", true, false, ""},
		"fatal":         {band("\x03", "fatal: no") + "0000", true, false, ""},
	} {
		got := readReport(strings.NewReader(c.text), c.sideband)
		if got.whole != c.whole || len(got.moved) > 1 || c.moved != "" && !got.moved[c.moved] || c.moved == "" && len(got.moved) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func pktLine(text string) string { return string(pkt.Append(nil, "%s", text)) }

// TestNoPlace: who finds all places taken does not wait for ever.
func TestNoPlace(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"r.git/objects", "r.git/refs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "r.git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{Root: root, MaxProcesses: 1, Authorize: func(*http.Request, string, bool) (string, error) { return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	h.slots <- struct{}{}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/r.git/info/refs?service=git-upload-pack", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
