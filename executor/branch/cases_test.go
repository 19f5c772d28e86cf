package branch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel/lease"
)

// firstPush applies a fault to the first push only.
func firstPush(fault gittest.Fault) gittest.Fault {
	var taken atomic.Bool
	return gittest.OnPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if taken.CompareAndSwap(false, true) {
				fault(next).ServeHTTP(w, req)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
}

// stops makes a command that says that it has begun, and goes on when it is told to.
func stops(t *testing.T) (script string, begun func(), goOn func()) {
	t.Helper()
	up, down := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "go")
	for _, p := range []string{up, down} {
		if err := mkfifo(p); err != nil {
			t.Fatal(err)
		}
	}
	return "echo > " + up + "; read -r _ < " + down + "\n", func() { readLine(t, up) }, func() { writeLine(t, down) }
}

// TestL2_IdenticalClaims: two runners that mint one run id in one second make the same
// commit. git calls the second push up to date; it is lost, and nothing is run for it.
func TestL2_IdenticalClaims(t *testing.T) {
	file, lines := marker(t)
	script, begun, goOn := stops(t)
	h := newHub(t, map[string]string{"command/build": "echo x >> " + file + "\n" + script + "advance done"})
	event(t, h.dir, "job", state("build"))
	clk := newClock()
	twin := func() *Runner {
		r := runnerAt(t, h.cloneOf(t), clk.now, remote)
		r.deps.NewRunID = func() string { return heldRun }
		return r
	}
	a, b := twin(), twin()
	second := make(chan Result, 1)
	var pushed []byte
	h.http.Set(firstPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			pushed, _ = io.ReadAll(req.Body) // what is missing of it is missed below
			req.Body = io.NopCloser(bytes.NewReader(pushed))
			go func() { second <- ticked(t, b, "job") }()
			begun()
			next.ServeHTTP(w, req)
		})
	}))
	wantStatus(t, ticked(t, a, "job"), StatusLost)
	goOn()
	won := <-second
	wantStatus(t, won, StatusDone)
	if !bytes.Contains(pushed, []byte(won.Claim)) {
		t.Errorf("the loser didn't push %s", won.Claim)
	}
	if n := len(lines()); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestL5_NobodyMakesABranch: a branch that is removed and made again between look and
// push is lost, and one that isn't there is made by no state.
func TestL5_NobodyMakesABranch(t *testing.T) {
	file, lines := marker(t)
	h := newHub(t, map[string]string{"command/build": "echo x >> " + file + "\nadvance done"})
	event(t, h.dir, "job", state("build"))
	a, b := runnerAt(t, h.cloneOf(t), realClock, remote), runnerAt(t, h.cloneOf(t), realClock, remote)
	h.http.Set(firstPush(gittest.Before(func() {
		gittest.Git(t, h.dir, "update-ref", "-d", "refs/heads/job")
		event(t, h.dir, "job", "again\n\naynig-state: build\n")
	})))
	wantStatus(t, ticked(t, a, "job"), StatusLost)
	wantStatus(t, ticked(t, b, "job"), StatusDone)
	wantStatus(t, ticked(t, a, "job"), StatusIdle)
	if n := len(lines()); n != 1 {
		t.Errorf("%d executions", n)
	}
	by := &Holder{Clone: a.deps.Clone, Remote: a.deps.Remote, Ref: "refs/heads/gone", Now: realClock, Host: "host"}
	_, err := by.Set(t.Context(), lease.Message{Title: "t", Trailers: []lease.Trailer{{Key: lease.KeyState, Value: "build"}}})
	if git.CodeOf(err) != git.CodeRefInvalid || gittest.RefOID(h.dir, "refs/heads/gone") != "" {
		t.Errorf("%v", err)
	}
}

// TestL7_AppliedLater: the server takes the claim, cuts the connection, and applies it
// only after the same commit was pushed again: one lease, one execution.
func TestL7_AppliedLater(t *testing.T) {
	file, lines := marker(t)
	h := newHub(t, map[string]string{"command/build": "echo x >> " + file + "\nadvance done"})
	event(t, h.dir, "job", state("build"))
	held := gittest.NewHeld()
	h.http.Set(firstPush(held.Fault))
	res := ticked(t, runnerAt(t, h.cloneOf(t), realClock, remote), "job")
	wantStatus(t, res, StatusDone)
	held.Release()
	if head := gittest.RefOID(h.dir, "refs/heads/job"); head != res.Output {
		t.Errorf("the late push moved HEAD to %s", head)
	}
	if got := gittest.Git(t, h.dir, "rev-list", "--count", "main..job"); got != "3" || len(lines()) != 1 {
		t.Errorf("%s commits, %d executions", got, len(lines()))
	}
}

// TestL7_NobodyAnswers: nothing is run on a lease that isn't known to stand. When it
// turns out to stand it ends as that of a machine that died.
func TestL7_NobodyAnswers(t *testing.T) {
	file, lines := marker(t)
	h := newHub(t, map[string]string{"command/build": "echo x >> " + file + "\nadvance done", "command/stalled": "advance build"})
	at := string(event(t, h.dir, "job", state("build")))
	clk := newClock()
	r := runnerAt(t, h.cloneOf(t), clk.now, remote)
	held := gittest.NewHeld()
	taken := false // requests come one by one
	h.http.Set(func(next http.Handler) http.Handler {
		push := gittest.OnPush(gittest.Before(func() { taken = true }))(held.Fault(next))
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			switch {
			case taken:
				gittest.Status(http.StatusBadGateway, "down")(next).ServeHTTP(w, req)
			case req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/git-receive-pack"):
				push.ServeHTTP(w, req)
			default:
				next.ServeHTTP(w, req)
			}
		})
	})
	wantStatus(t, ticked(t, r, "job"), StatusUnknown)
	if got := gittest.RefOID(h.dir, "refs/heads/job"); got != at || len(lines()) != 0 {
		t.Fatalf("HEAD %s, %d executions", got, len(lines()))
	}
	held.Release()
	h.http.Set(nil)
	wantStatus(t, ticked(t, r, "job"), StatusHeld)
	clk.add(61 * time.Second)
	wantStatus(t, ticked(t, r, "job"), StatusDone) // of stalled
	wantStatus(t, ticked(t, r, "job"), StatusDone)
	if n := len(lines()); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestL12_ForeignPush: what a person pushes onto the branch while the command runs is
// never pushed over, and stays until he says what is next.
func TestL12_ForeignPush(t *testing.T) {
	for name, foreign := range map[string]string{"on the lease": "refs/heads/job", "in its place": "refs/heads/main"} {
		t.Run(name, func(t *testing.T) {
			script, begun, goOn := stops(t)
			h := newHub(t, map[string]string{"command/build": script + "advance done"})
			event(t, h.dir, "job", state("build"))
			clk := newClock()
			dir := h.cloneOf(t)
			result := make(chan Result, 1)
			go func() { result <- ticked(t, runnerAt(t, dir, clk.now, remote), "job") }()
			begun()
			theirs := gittest.Commit(t, h.dir, "refs/heads/job", gittest.RefOID(h.dir, foreign), map[string]string{"note": "I was here\n"})
			goOn()
			wantStatus(t, <-result, StatusLost)
			for range 2 {
				wantStatus(t, ticked(t, runnerAt(t, dir, clk.now, remote), "job"), StatusNone)
				clk.add(2 * time.Hour)
			}
			if head := gittest.RefOID(h.dir, "refs/heads/job"); head != theirs {
				t.Fatalf("HEAD is %s, not the person's %s", head, theirs)
			}
			event(t, h.dir, "job", state("waiting"))
			wantStatus(t, ticked(t, runnerAt(t, dir, clk.now, remote), "job"), StatusIdle)
		})
	}
}

// TestG1_BranchNames: a name that a shell would take for a command is a name, and one
// that begins as an option does isn't worked with.
func TestG1_BranchNames(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	names := []string{"$(touch${IFS}" + canary + ")", "a;touch${IFS}canary", "`touch`", "é/ü", strings.Repeat("n", 200)}
	options := []string{"-x", "--upload-pack=x"}
	everywhere(t, map[string]string{"command/build": "advance done"}, func(t *testing.T, _ *hub, dir, where string, change func(*Config)) {
		oid := string(event(t, where, "job", state("build")))
		var b strings.Builder
		for _, name := range append(names, options...) {
			b.WriteString("create refs/heads/" + name + " " + oid + "\n")
		}
		gittest.GitInput(t, where, b.String(), "update-ref", "--stdin")
		results, err := runnerAt(t, dir, realClock, change).Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done := map[string]bool{}
		for _, res := range results {
			done[res.Branch] = res.Status == StatusDone
		}
		for _, name := range names {
			if !done[name] {
				t.Errorf("%s wasn't run: %+v", name, results)
			}
		}
		for _, name := range options {
			if got := gittest.RefOID(where, "refs/heads/"+name); got != oid {
				t.Errorf("%s was moved", name)
			}
		}
		if _, err := os.Lstat(canary); err == nil {
			t.Error("a name was executed")
		}
	})
}

// TestA16_NothingChangesWhileTheCommandRuns: no ref, object or working tree, here or on
// the remote, though the lease and more passes: renewing is the command's business.
func TestA16_NothingChangesWhileTheCommandRuns(t *testing.T) {
	script, begun, goOn := stops(t)
	everywhere(t, map[string]string{"command/build": script + "advance done"}, func(t *testing.T, h *hub, dir, where string, change func(*Config)) {
		event(t, where, "job", state("build"))
		clk := newClock()
		result := make(chan Result, 1)
		go func() { result <- ticked(t, runnerAt(t, dir, clk.now, change), "job") }()
		begun()
		before := files(t, h.dir) + files(t, filepath.Join(dir, ".git"))
		clk.add(2 * time.Hour)
		if after := files(t, h.dir) + files(t, filepath.Join(dir, ".git")); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		goOn()
		wantStatus(t, <-result, StatusDone)
	})
}

// files lists what is below a directory, with sizes and times.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestA47_AnyExecutableIsACommand: a script of another interpreter, and a program.
func TestA47_AnyExecutableIsACommand(t *testing.T) {
	program, err := os.ReadFile("/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	awk := "#!/usr/bin/awk -f\nBEGIN { exit system(\"git commit -q --allow-empty -m t -m 'aynig-state: done' && git push -q\") }\n"
	h := newHub(t, map[string]string{"command/awk": awk, "command/program": string(program)})
	dir := h.cloneOf(t)
	event(t, h.dir, "job", state("awk"))
	wantStatus(t, ticked(t, runnerAt(t, dir, realClock, remote), "job"), StatusDone)
	event(t, h.dir, "job", state("program"))
	res := ticked(t, runnerAt(t, dir, realClock, remote), "job")
	wantStatus(t, res, StatusInvalid) // it makes no commit
	if !strings.Contains(res.Tail(), "AYNIG_BRANCH=refs/heads/job") {
		t.Errorf("it wasn't told the branch: %s", res.Tail())
	}
}

// TestExistingRunner_BothWays has what the existing runner and its helpers write, in the
// shapes of their commits, read here, and what is written here held against its rules.
func TestExistingRunner_BothWays(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done", "command/stalled": "advance build"})
	dir := h.cloneOf(t)
	const lock = "chore: working\n\ncommand build takes control of the branch\n\naynig-state: working\naynig-origin-state: build\n" +
		"aynig-run-id: 5f6f3a0e-8a43-4a3f-9d1a-2f1f1b7f9d10\naynig-runner-id: laptop\naynig-lease-seconds: 300\naynig-remote: origin\n"
	for name, c := range map[string]struct {
		message string
		want    Status
	}{
		"state":         {"chore: set build\n\nmake it\n\naynig-state: build\n", StatusDone},
		"no-prompt":     {"chore: set build\n\naynig-state: build\n", StatusDone}, // which it can't read itself
		"taken":         {lock, StatusHeld},
		"heartbeat":     {strings.Replace(lock, "command build takes control of the branch", "Lease heartbeat", 1), StatusHeld},
		"stalled-there": {"chore: stalled\n\nLease expired\n\naynig-state: stalled\naynig-stalled-run: unknown\naynig-remote: origin\n", StatusDone},
	} {
		event(t, h.dir, name, c.message)
		res := ticked(t, runnerAt(t, dir, realClock, func(cfg *Config) { remote(cfg); cfg.Globs = []string{name} }), name)
		wantStatus(t, res, c.want)
		if res.Claim == "" {
			continue
		}
		// It takes exactly one of each key, in this spelling, and seconds above zero.
		for key, want := range map[string]string{"aynig-state": "working", "aynig-run-id": res.RunID, "aynig-runner-id": "host", "aynig-lease-seconds": "60", "aynig-remote": "origin", "aynig-origin-state": res.State} {
			if got := gittest.Git(t, h.dir, "log", "-1", "--format=%(trailers:key="+key+",valueonly,separator=%x2C)", res.Claim); got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
}

// TestL13_HostileMessages: HEAD's trailers are those that git reads, and a lease in which
// a key is missing, stands twice or in another case is malformed, and a lock all the
// same: nothing runs, and the branch stays.
func TestL13_HostileMessages(t *testing.T) {
	const lock = "t\n\naynig-state: working\naynig-run-id: a\naynig-runner-id: r\naynig-lease-seconds: 60\naynig-origin-state: build\n"
	h := newHub(t, map[string]string{"command/build": "advance done"})
	for name, c := range map[string]struct {
		message string
		want    Status
	}{
		"the text ends like trailers":     {"t\n\nx-state: done\naynig-state: review\n\n---\n\naynig-state: build\n", StatusDone},
		"folded":                          {"t\n\naynig-state:\n  build\n", StatusDone},
		"another case":                    {"t\n\nAynig-State: build\n", StatusMalformed},
		"two states":                      {"t\n\naynig-state: build\naynig-state: done\n", StatusMalformed},
		"a commented line in the block":   {"t\n\n# aynig-state: done\naynig-state: build\n", StatusDone},
		"a lease":                         {lock, StatusHeld},
		"a lease with two runs":           {lock + "aynig-run-id: b\n", StatusHeld},
		"a lease with a key in caps":      {strings.Replace(lock, "aynig-run-id", "Aynig-Run-Id", 1), StatusHeld},
		"a lease that says no duration":   {strings.Replace(lock, "aynig-lease-seconds: 60\n", "", 1), StatusHeld},
		"a lease whose trailers are text": {lock + "\nand more\n", StatusNone},
	} {
		t.Run(name, func(t *testing.T) {
			oid := event(t, h.dir, "job", c.message)
			res := ticked(t, runnerAt(t, h.cloneOf(t), realClock, remote), "job")
			wantStatus(t, res, c.want)
			if head := gittest.RefOID(h.dir, "refs/heads/job"); c.want != StatusDone && head != string(oid) {
				t.Errorf("the branch was moved: %s", message(t, h.dir, "job"))
			}
		})
	}
}
