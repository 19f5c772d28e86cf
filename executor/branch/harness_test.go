package branch

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel/lease"
)

// hub is a bare repository that clones share, over smart HTTP.
type hub struct {
	dir  string
	http *gittest.HTTP
}

// advance ends a command with a commit of the next state, and pushes it in remote mode.
const advance = `
git commit --quiet --allow-empty -m "$1" -m "aynig-state: $1"
[ -z "$AYNIG_REMOTE" ] || git push --quiet
`

// newHub has the commands on main, by their names below .aynig, and advance as
// .aynig/lib/advance.
func newHub(t testing.TB, commands map[string]string) *hub {
	t.Helper()
	h := &hub{dir: gittest.NewBare(t)}
	h.http = gittest.ServeHTTP(t, h.dir)
	h.commit(t, "refs/heads/main", commands)
	return h
}

// commit puts commands on a branch, as an ordinary commit.
func (h *hub) commit(t testing.TB, ref string, commands map[string]string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "commit %s\ncommitter C <c@example.com> 1700000000 +0000\ndata 8\ncommands\n", ref)
	file := func(mode, name, text string) {
		fmt.Fprintf(&b, "M %s inline .aynig/%s\ndata %d\n%s\n", mode, name, len(text), text)
	}
	file("100755", "lib/advance", "#!/bin/sh\nset -e\n"+advance)
	for name, script := range commands {
		if target, ok := strings.CutPrefix(script, "-> "); ok {
			file("120000", name, target)
			continue
		}
		if strings.HasPrefix(script, "#!") || strings.HasPrefix(script, "\x7fELF") {
			file("100755", name, script) // as it is
			continue
		}
		file("100755", name, "#!/bin/sh\nset -e\nadvance() { \"${0%/command/*}/lib/advance\" \"$1\"; }\n"+script+"\n")
	}
	gittest.GitInput(t, h.dir, b.String(), "fast-import", "--quiet", "--force")
}

// event puts an event on a branch of a repository and returns its id.
func event(t testing.TB, dir, branch, message string) git.OID {
	t.Helper()
	ref := "refs/heads/" + branch
	parent := gittest.RefOID(dir, ref)
	if parent == "" {
		parent = gittest.RefOID(dir, "refs/heads/main")
	}
	oid := gittest.GitInput(t, dir, message, "commit-tree", parent+"^{tree}", "-p", parent, "-F", "-")
	gittest.Git(t, dir, "update-ref", ref, oid)
	return git.OID(oid)
}

// moves returns a function that waits for the next push to the hub, and says where
// its branch is then.
func (h *hub) moves(t testing.TB) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "moves")
	if err := mkfifo(path); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) // the hook needn't wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	gittest.Hook(t, h.dir, "post-receive", "cat > "+path)
	lines := bufio.NewScanner(pipe)
	return func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		return strings.Fields(lines.Text())[1] // old, new, ref
	}
}

func state(name string) string { return "t\n\naynig-state: " + name + "\n" }

// cloneOf is a new clone of the hub, on main.
func (h *hub) cloneOf(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	gittest.Git(t, "/", "clone", "--quiet", h.http.URL, dir)
	return dir
}

// clock is a clock of both domains that only moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() lease.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return lease.Clock{WallMs: c.at.UnixMilli(), BootMs: c.at.UnixMilli(), BootID: "boot"}
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// realClock reads this machine's.
func realClock() lease.Clock {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return lease.Clock{WallMs: time.Now().UnixMilli(), BootMs: ts.Nano() / 1e6, BootID: "boot"}
}

// env is a caller's environment.
func env(more ...string) []string { return append(gittest.Env(), more...) }

// runnerAt is a runner in a clone; change makes its configuration another.
func runnerAt(t testing.TB, dir string, now func() lease.Clock, change func(*Config)) *Runner {
	t.Helper()
	c, err := clone.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	cfg := Config{Current: CurrentInclude, LeaseSeconds: 60, Jobs: 4, RunnerID: "host", Worktrees: filepath.Join(t.TempDir(), "w"), Env: env()}
	if change != nil {
		change(&cfg)
	}
	deps := Deps{Clone: c, Now: now, NewRunID: uuid.NewString, Log: slog.New(slog.DiscardHandler)}
	if cfg.Remote != "" {
		url, err := c.PushURL(context.Background(), cfg.Remote)
		if err == nil {
			deps.Remote, err = git.Open(context.Background(), git.Endpoint{URL: url}, git.Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = deps.Remote.Close() })
	}
	r, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func remote(c *Config) { c.Remote = "origin" }

// ticked is the result for one branch.
func ticked(t testing.TB, r *Runner, branch string) Result {
	t.Helper()
	results, err := r.Tick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range results {
		if res.Branch == branch {
			return res
		}
	}
	t.Fatalf("no result for %s in %+v", branch, results)
	return Result{}
}

// wantStatus fails with all there is to know.
func wantStatus(t testing.TB, res Result, want Status) {
	t.Helper()
	if res.Status != want {
		t.Fatalf("status %s, want %s: %+v\n%s", res.Status, want, res, res.Tail())
	}
}

// message is the commit message at a branch.
func message(t testing.TB, dir, branch string) string {
	t.Helper()
	return gittest.Git(t, dir, "log", "-1", "--format=%B", "refs/heads/"+branch)
}

// marker is a file that commands write a line to.
func marker(t testing.TB) (path string, lines func() []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "marker")
	return path, func() []string {
		data, _ := os.ReadFile(path)
		return strings.Fields(string(data))
	}
}
