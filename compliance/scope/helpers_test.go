package scope

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
)

// world is a base tree with its blobs, laid out in a fresh workspace.
type world struct {
	t       *testing.T
	entries []Entry
	blobs   map[string][]byte
	dir     string
	mounted bool // an overlay; see above_test.go
}

// baseFiles is the tree that most tests begin with.
var baseFiles = map[string]string{
	"go.mod":         "module x\n",
	"calc/add.go":    "package calc\n",
	"calc/run.sh":    "#!/bin/sh\n",
	"calc/sub/a.go":  "package sub\n",
	"docs/readme.md": "read me\n",
	".gitignore":     "*.log\n/build/\n",
	"dot.git/config": "not git's\n",
}

func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, blobs: map[string][]byte{}, dir: filepath.Join(t.TempDir(), "ws")}
	for path, content := range files {
		mode := ModeFile
		if filepath.Ext(path) == ".sh" {
			mode = ModeExec
		}
		w.add(path, mode, content)
	}
	return w
}

func (w *world) add(path, mode, content string) {
	oid := BlobID([]byte(content))
	if mode == ModeGitlink {
		oid = "1111111111111111111111111111111111111111"
	}
	w.blobs[oid] = []byte(content)
	w.entries = append(w.entries, Entry{path, mode, oid})
}

func (w *world) blob(oid string) ([]byte, error) {
	if b, ok := w.blobs[oid]; ok {
		return b, nil
	}
	return nil, errors.New("no such blob")
}

func (w *world) layOut() {
	w.t.Helper()
	if err := Materialise(context.Background(), w.dir, w.entries, w.blob); err != nil {
		w.t.Fatal(err)
	}
	if above() {
		w.mount()
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *world) write(name, content string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	must(w.t, os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) remove(name string) { w.t.Helper(); must(w.t, os.RemoveAll(w.path(name))) }

// rules allow calc/** and little else.
func (w *world) rules() Rules {
	r := Rules{Allowed: []string{"calc/**", "go.mod"}, MaxFiles: 200, MaxBytes: 4 << 20, Ignore: map[string][]byte{}}
	for _, e := range IgnoreFiles(w.entries) {
		r.Ignore[e.Path] = w.blobs[e.OID]
	}
	return r
}

func (w *world) scope(r Rules) *Scope {
	w.t.Helper()
	s, err := New(w.entries, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) verify(r Rules) Verdict {
	w.t.Helper()
	s := w.scope(r)
	snap, err := w.snapshot(s)
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := s.Compare(context.Background(), snap)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// changed lists "op path" in order.
func ops(v Verdict) []string {
	out := []string{}
	for _, c := range v.Changes {
		out = append(out, string(c.Op)+" "+c.Path)
	}
	return out
}

// has reports whether a violation with this code and subject is there, and the
// umbrella with it.
func has(v Verdict, code kernel.Code, subject string) bool {
	umbrella := slices.ContainsFunc(v.Violations, func(x kernel.Violation) bool { return x.Code == kernel.CodeScopeViolation })
	return umbrella && slices.ContainsFunc(v.Violations, func(x kernel.Violation) bool { return x.Code == code && x.Subject == subject })
}

func wantViolation(t *testing.T, v Verdict, code kernel.Code, subject string) {
	t.Helper()
	if !has(v, code, subject) {
		t.Errorf("no %s for %q in %v", code, subject, v.Violations)
	}
}

func wantClean(t *testing.T, v Verdict) {
	t.Helper()
	if len(v.Violations) > 0 {
		t.Errorf("violations: %v", v.Violations)
	}
}
