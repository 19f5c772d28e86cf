package lease

import (
	"bytes"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	runA = "3f0c2a52-7d0e-4b9a-9a51-0d3c7f4e6b18"
	runB = "9d2f6f0e-1c55-4a39-8a1e-6f2b7c7a4d10"
	oidA = "1111111111111111111111111111111111111111"
	oidB = "2222222222222222222222222222222222222222"
)

// claimA is the claim of the package comment.
func claimA() Claim {
	return Claim{
		OriginState: "open", RunID: runA, RunnerID: "builder-7.example.org", LeaseSeconds: 120,
		Body:  "Make Add handle negative numbers.\n\naynig-state: done",
		Extra: []Trailer{{"writ-attempt", "1"}},
	}
}

func asError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

func mustWorking(t testing.TB, c Claim) []byte {
	t.Helper()
	b, err := Working(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustEvent(t testing.TB, message []byte, seconds int64) Event {
	t.Helper()
	ev, err := ReadEvent(Head{OID: oidA, Message: message, CommitterSeconds: seconds, CommitterOK: true})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestGoldenCommits holds the bytes of the commits that the kernel makes, has
// git read them back out of real commits, and the package comment to them.
func TestGoldenCommits(t *testing.T) {
	working := mustWorking(t, claimA())
	ev := mustEvent(t, working, 1000)
	heartbeat, err := Renew(ev, Renewal{RunID: runA, Replace: []Trailer{{"writ-ledger-head", "sha256:00"}}})
	if err != nil {
		t.Fatal(err)
	}
	stalled, err := Stalled(ev, Break{Body: ev.Body, Extra: []Trailer{{"writ-origin-state", ev.OriginState}}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "working.golden", working)
	golden(t, "heartbeat.golden", heartbeat)
	golden(t, "stalled.golden", stalled)

	messages := [][]byte{working, heartbeat, stalled}
	for i, got := range commitAndLog(t, messages) {
		if diff := cmp.Diff(printed(Parse(messages[i]).Trailers), got); diff != "" {
			t.Errorf("commit %d as git log reads it (-ours +git):\n%s", i, diff)
		}
	}

	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(doc), "//\t", ""), "//\n", "\n")
	if !strings.Contains(text, string(working)) {
		t.Error("the package comment doesn't show the golden lease commit")
	}
}

// commitAndLog makes a commit of each message and has `git log` print its
// trailers: git's second reader, which parses real commit objects.
func commitAndLog(t *testing.T, messages [][]byte) [][]string {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, nil, "init", "-q", "--bare", ".")
	var in bytes.Buffer
	for _, m := range messages {
		in.WriteString("commit refs/heads/x\ncommitter a <a@example.org> 1 +0000\ndata ")
		in.WriteString(strconv.Itoa(len(m)) + "\n")
		in.Write(m)
		in.WriteString("\n")
	}
	runGit(t, dir, in.Bytes(), "fast-import", "--quiet")
	out := runGit(t, dir, nil, "log", "--reverse", "--format=%(trailers:only,unfold)%x00", "x")
	parts := strings.Split(string(out), "\x00\n")
	answers := make([][]string, len(messages))
	for i := range messages {
		answers[i] = strings.SplitAfter(parts[i], "\n")
		answers[i] = answers[i][:len(answers[i])-1]
	}
	return answers
}

// TestA17_OnlyWorkingAndStalledAreWritten lists everything exported that makes
// message bytes: a constructor for another state can't appear unnoticed.
func TestA17_OnlyWorkingAndStalledAreWritten(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && returnsBytes(fn) {
				got[fn.Name.Name] = true
			}
		}
	}
	want := map[string]bool{"Format": true, "Working": true, "Renew": true, "Stalled": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions that write messages (-want +got):\n%s", diff)
	}
	for _, state := range []string{StateWorking, StateStalled} {
		_, err := Format(Message{Title: "t", Trailers: []Trailer{{KeyState, state}}})
		if !HasCode(err, CodeUnwritable) {
			t.Errorf("Format writes %q: %v", state, err)
		}
	}
}

func returnsBytes(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil {
		return false
	}
	for _, r := range fn.Type.Results.List {
		if a, ok := r.Type.(*ast.ArrayType); ok {
			if id, ok := a.Elt.(*ast.Ident); ok && id.Name == "byte" {
				return true
			}
		}
	}
	return false
}
