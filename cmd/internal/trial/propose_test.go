package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// history makes commits on top of each other, each with one more line in its files, and
// returns a reader and the last.
func history(t *testing.T, commits ...[]string) (*History, git.OID) {
	t.Helper()
	dir := gittest.NewBare(t)
	files, tip := map[string]string{}, ""
	for i, touched := range commits {
		for _, path := range touched {
			files[path] += fmt.Sprintln(i)
		}
		tip = gittest.Commit(t, dir, "refs/heads/main", tip, files)
	}
	repo, err := git.Open(context.Background(), git.Endpoint{URL: dir}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repo.Close() })
	return Read(repo), git.OID(tip)
}

// TestPropose_NothingRare: no pattern reaches a directory that fewer than one commit in
// twenty touches, and none names what is protected.
func TestPropose_NothingRare(t *testing.T) {
	var commits [][]string
	for range 20 {
		commits = append(commits, []string{"src/a.go", "src/often/b.go", "lib/x/y.go", "README", ".github/ci.yml", "odd*/f", "locks/go.sum"})
	}
	commits = append(commits, []string{"src/rare/deep/c.go", "src/rare2/c.go", "rare/d", "LICENSE", "docs/new"})
	h, tip := history(t, commits...)
	got, err := Propose(context.Background(), h, tip, triedHere, contract.Default())
	if want := []string{"README", "lib/**", "src/*", "src/often/**"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("proposed %q (%v), want %q", got, err, want)
	}
	if s := Flow(append(got, "a b/*", "it's/*")); s != "README, lib/**, src/*, src/often/**, 'a b/*', 'it''s/*'" {
		t.Errorf("in a contract: %s", s)
	}
	text := "version: 1\ndefaults: {allowed_files: [" + Flow(got) + ", 'a b/*', 'it''s/*']}\n"
	if _, _, faults := contract.Load([]byte(text), contract.Source{}); len(faults) > 0 {
		t.Errorf("the proposal can't stand in a contract: %v", faults)
	}
}

const triedHere = 100

// TestTry_Counts: each rule counts a commit once, and each place once for it; and what a
// second contract says otherwise is listed by its commits.
func TestTry_Counts(t *testing.T) {
	h, tip := history(t, []string{"a"}, []string{"go.sum", "x/go.sum", "x/package-lock.json"}, []string{"go.sum", ".github/workflows/ci.yml"}, []string{"a", "b", "c", "d"})
	first, other := contract.Default(), contract.Default()
	first.Paths.Accept, other.Paths.Accept = contract.AcceptNobody, contract.AcceptNobody
	other.Paths.Unprotect = []string{"go.sum", "x/*"}
	other.Budgets.Files = 3
	s, err := Try(context.Background(), h, tip, triedHere, first, &other)
	if err != nil {
		t.Fatal(err)
	}
	if s.Commits != 4 || s.Accepted != 2 || s.Refused != 2 || len(s.Rules) != 1 {
		t.Fatalf("%+v", s)
	}
	want := Rule{"policy.protected_path", 2, []Place{{"go.sum", 2}, {".github/workflows/", 1}, {"x/", 1}}}
	if r := s.Rules[0]; r.Code != want.Code || r.Commits != want.Commits || !slices.Equal(r.Places, want.Places) {
		t.Errorf("counted %+v, want %+v", r, want)
	}
	if s.Second.Moves != 2 || len(s.Second.Moved[0].After) != 1 || s.Second.Moved[0].After[0] != "scope.size" || len(s.Second.Moved[1].Before) != 1 || s.Second.Accepted != 2 {
		t.Errorf("%+v", s.Second)
	}
	if text := s.Text(); !strings.Contains(text, "changing sides: 2 commits") || !strings.Contains(text, "Checks were not run.") || !strings.Contains(text, "own paths were its scope") {
		t.Errorf("the text:\n%s", text)
	}
}

// TestTry_Shallow: where the clone ends, so does what is known, and it is said.
func TestTry_Shallow(t *testing.T) {
	dir := t.TempDir()
	h, tip := history(t, []string{"a"}, []string{"b"}, []string{"c"})
	source, _ := h.repo.Dirs()
	gittest.Git(t, dir, "clone", "--quiet", "--bare", "--depth=2", "file://"+source, dir+"/shallow")
	repo, err := git.Open(context.Background(), git.Endpoint{URL: dir + "/shallow"}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	s, err := Try(context.Background(), Read(repo), tip, triedHere, contract.Default(), nil)
	if err != nil || s.Commits != 1 || !s.Shallow || !strings.Contains(s.Text(), "--unshallow") {
		t.Errorf("%d commits, %v: %+v", s.Commits, err, s)
	}
	if s, err = Try(context.Background(), h, tip, triedHere, contract.Default(), nil); err != nil || s.Commits != 3 || s.Shallow {
		t.Errorf("of the whole clone: %d commits, shallow %v, %v", s.Commits, s.Shallow, err)
	}
}

// TestTry_Classes: a commit counts for the gravest class of what it changes, and a lock
// file by its content.
func TestTry_Classes(t *testing.T) {
	sum := func(host string) string { return host + "/m v1.0.0 h1:x=\n" }
	dir, tip := gittest.NewBare(t), ""
	for _, files := range []map[string]string{
		{"go.mod": "1", "go.sum": sum("a.example")},
		{"go.mod": "2", "go.sum": sum("a.example") + sum("a.example/x")},                                      // with its manifest
		{"go.mod": "2", "go.sum": sum("a.example")},                                                           // without
		{"go.mod": "3", "go.sum": sum("a.example") + sum("b.example")},                                        // a new source
		{"go.mod": "4", "go.sum": sum("a.example"), ".github/ci.yml": "1"},                                    // guarded beside it
		{"go.mod": "4", "go.sum": sum("a.example"), ".github/ci.yml": "2", "AGENTS.md": "1", "api/open": "1"}, // forbidden
		{"go.mod": "4", "go.sum": sum("a.example"), ".github/ci.yml": "2", "AGENTS.md": "1", "api/open": "2"}, // the contract's
		{"go.mod": "5", "go.sum": sum("a.example"), ".github/ci.yml": "2", "AGENTS.md": "1", "api/open": "2"}, // nothing
	} {
		tip = gittest.Commit(t, dir, "refs/heads/main", tip, files)
	}
	repo, err := git.Open(context.Background(), git.Endpoint{URL: dir}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	k, _, faults := contract.Load([]byte("version: 1\npaths: {guarded: [api/*]}\n"), contract.Source{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s, err := Try(context.Background(), Read(repo), git.OID(tip), triedHere, k, nil)
	if want := (Classes{Forbidden: 1, Guarded: 5, Lock: 1}); err != nil || s.Classes != want || s.Accepted != 7 || s.Waiting != 5 {
		t.Errorf("%+v accepted %d (%v), want %+v and seven accepted, five of them waiting", s.Classes, s.Accepted, err, want)
	}
	if !strings.Contains(s.Text(), "     1  lock files with their manifests") {
		t.Errorf("the text:\n%s", s.Text())
	}
	h := Read(repo)
	h.LockSources = []string{"b.example"}
	s, err = Try(context.Background(), h, git.OID(tip), triedHere, k, nil)
	if want := (Classes{Forbidden: 1, Guarded: 4, Lock: 2}); err != nil || s.Classes != want {
		t.Errorf("with the operator's source: %+v (%v), want %+v", s.Classes, err, want)
	}
}
