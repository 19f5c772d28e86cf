package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git/gittest"
)

// program is the built writ.
var program string

// beside is how many tests run at one time where -parallel doesn't say: they wait for
// processes most of the time.
const beside = "8"

func TestMain(m *testing.M) {
	maybeAgent()
	_ = flag.Set("test.parallel", beside) // it is there, and takes numbers
	os.Exit(gittest.InMemory(built{m}).Run())
}

// built are the tests, for which the program is built.
type built struct{ *testing.M }

func (m built) Run() int {
	dir, err := os.MkdirTemp("", "writ-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "writ")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "github.com/writbot/writ/cmd/writ")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.M.Run()
}

// dependOnSources looks at every source file, so that go test doesn't take the
// cached result of an older program for one of this. Only what is looked at
// while tests run counts.
var dependOnSources = sync.OnceValue(func() error {
	return filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
})

// answer is how one call of the program ended.
type answer struct {
	exit           int
	stdout, stderr string
}

// report is the part of the compliance report that the tests look at.
type report struct {
	FinalState   string   `json:"task_final_state"`
	Dispatched   bool     `json:"execution_dispatched"`
	Verified     bool     `json:"execution_verified"`
	Codes        []string `json:"codes"`
	ChangedFiles []string `json:"changed_files"`
	ChangeCommit string   `json:"change_commit"`
	Attempts     int      `json:"attempts"`
	RunID        string   `json:"run_id"`
}

// command is a call of the program, not started yet.
func command(t testing.TB, env []string, args ...string) (*exec.Cmd, *answer) {
	t.Helper()
	if err := dependOnSources(); err != nil {
		t.Fatal(err)
	}
	a := &answer{}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &sink{&a.stdout}, &sink{&a.stderr}
	return cmd, a
}

type sink struct{ s *string }

func (w *sink) Write(p []byte) (int, error) { *w.s += string(p); return len(p), nil }

// writ calls the program and waits.
func writ(t testing.TB, env []string, args ...string) answer {
	t.Helper()
	cmd, a := command(t, env, args...)
	a.exit = ended(t, cmd.Run())
	return *a
}

func ended(t testing.TB, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return -1
}

// report parses standard output, which must be one JSON document.
func (a answer) report(t testing.TB) report {
	t.Helper()
	var r report
	dec := json.NewDecoder(strings.NewReader(a.stdout))
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("standard output is no report: %v\n%s\n%s", err, a.stdout, a.stderr)
	}
	if dec.More() {
		t.Fatalf("standard output has more than the report:\n%s", a.stdout)
	}
	return r
}

// want fails the test if the call ended otherwise.
func (a answer) want(t testing.TB, exit int) answer {
	t.Helper()
	if a.exit != exit {
		t.Fatalf("exit %d, want %d\nstdout:\n%s\nstderr:\n%s", a.exit, exit, a.stdout, a.stderr)
	}
	return a
}

// write writes a file and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// task is an issue file's text.
func task(title, allowed string) string {
	return "# " + title + "\n\nPlease do it.\n\n```writ\nallowed_files: ['" + allowed + "']\nexpected_outcome: the file says so\n```\n"
}

// newRepo makes a bare repository with a commit on main.
func newRepo(t testing.TB, files map[string]string) string {
	t.Helper()
	repo := gittest.NewBare(t)
	gittest.Commit(t, repo, "refs/heads/main", "", files)
	return repo
}

// countingSandbox makes a bwrap that notes every start of a builder and then is
// the real one. A check has no directory for its result, by which it is told
// apart. It returns the environment that puts it first, and the count.
func countingSandbox(t testing.TB) (env []string, started func() int) {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "started")
	script := "#!/bin/sh\ncase \"$*\" in */workspaces/*\" " + sandbox.OutDir + " \"*) echo x >> '" + log + "' ;; esac\nexec '" + bwrap + "' \"$@\"\n"
	path := write(t, dir, "bin/bwrap", script)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")}, func() int {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("x"))
	}
}
