package branch

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel/lease"
)

// everywhere runs a test in local mode and in remote mode. where is the repository
// that has the truth.
func everywhere(t *testing.T, commands map[string]string, f func(t *testing.T, h *hub, dir, where string, change func(*Config))) {
	t.Run("local", func(t *testing.T) {
		h := newHub(t, commands)
		dir := h.cloneOf(t)
		f(t, h, dir, dir, func(*Config) {})
	})
	t.Run("remote", func(t *testing.T) {
		h := newHub(t, commands)
		f(t, h, h.cloneOf(t), h.dir, remote)
	})
}

// TestA10_OneTick: claim, command, completion, in this order, and nothing of it
// stays but the commits. The lease is HEAD when the command begins (A20), and the
// runner changes nothing while it runs (A16).
func TestA10_OneTick(t *testing.T) {
	build := `
[ "$(git rev-parse HEAD^)" = "$AYNIG_COMMIT_HASH" ]
git log -1 --format=%B | grep -q "aynig-run-id: $AYNIG_RUN_ID"
[ -z "$AYNIG_REMOTE" ] || [ "$(git ls-remote "$AYNIG_REMOTE" "$AYNIG_BRANCH" | cut -f1)" = "$(git rev-parse HEAD)" ]
[ "$AYNIG_BODY" = "make it" ] && [ "$AYNIG_TRAILER_FOO" = "a,b" ]
before=$(git for-each-ref; git worktree list; git count-objects)
for n in 1 2 3; do :; done
[ "$before" = "$(git for-each-ref; git worktree list; git count-objects)" ]
advance tested`
	everywhere(t, map[string]string{"command/build": build}, func(t *testing.T, _ *hub, dir, where string, change func(*Config)) {
		first := event(t, where, "job", "t\n\nmake it\n\naynig-state: build\nfoo: a\nfoo: b\n")
		r := runnerAt(t, dir, realClock, change)
		res := ticked(t, r, "job")
		wantStatus(t, res, StatusDone)
		if head := gittest.RefOID(where, "refs/heads/job"); res.Output != head || res.Head != string(first) || *res.Exit != 0 {
			t.Errorf("%+v; HEAD %s", res, head)
		}
		if want := gittest.Git(t, where, "rev-parse", "job^"); res.Claim != want {
			t.Errorf("claim %s, want %s", res.Claim, want)
		}
		if left, _ := os.ReadDir(r.cfg.Worktrees); len(left) > 1 { // .gitignore
			t.Errorf("working trees stay: %v", left)
		}
		if out := gittest.Git(t, dir, "worktree", "list", "--porcelain"); strings.Count(out, "worktree ") != 1 {
			t.Errorf("git knows working trees: %s", out)
		}
		// The same HEAD again is run by nobody: there is no command `tested` (A38).
		wantStatus(t, ticked(t, r, "job"), StatusMissing)
		wantStatus(t, ticked(t, r, "main"), StatusNone)
	})
}

// TestA11_HEADAloneJudges: an exit status never decides, and is always told.
func TestA11_HEADAloneJudges(t *testing.T) {
	commands := map[string]string{
		"command/fails-with-result": "advance done; exit 1",
		"command/says-it-failed":    "advance failed",
		"command/says-nothing":      "exit 0",
		"command/breaks":            "exit 3",
		"command/works-on": `git commit -q --allow-empty -m done -m "aynig-state: done"; git commit -q --allow-empty -F- <<X
t

aynig-state: working
aynig-run-id: $AYNIG_RUN_ID
X
[ -z "$AYNIG_REMOTE" ] || git push -q`,
		"command/no-state": `git commit -q --allow-empty -m plain; [ -z "$AYNIG_REMOTE" ] || git push -q`,
		"command/set-back": `git reset -q --hard HEAD^; [ -z "$AYNIG_REMOTE" ] || git push -q -f`,
	}
	everywhere(t, commands, func(t *testing.T, _ *hub, dir, where string, change func(*Config)) {
		for _, c := range []struct {
			name string
			want Status
			exit int
		}{
			{"fails-with-result", StatusDone, 1},
			{"says-it-failed", StatusDone, 0}, // A46
			{"says-nothing", StatusInvalid, 0},
			{"breaks", StatusFailed, 3},
			{"works-on", StatusInvalid, 0}, // A36
			{"no-state", StatusInvalid, 0},
			{"set-back", StatusInvalid, 0},
		} {
			event(t, where, c.name, state(c.name))
			r := runnerAt(t, dir, realClock, func(cfg *Config) { change(cfg); cfg.Globs = []string{c.name} })
			res := ticked(t, r, c.name)
			wantStatus(t, res, c.want)
			if *res.Exit != c.exit {
				t.Errorf("%s: exit %d", c.name, *res.Exit)
			}
		}
	})
}

// TestA17_WhatIsLeftIsTheCommands: without a commit of the command's HEAD stays the
// lease, and nothing is tried again (A18, A42).
func TestA17_WhatIsLeftIsTheCommands(t *testing.T) {
	file, lines := marker(t)
	everywhere(t, map[string]string{"command/build": "echo x >> " + file + "; exit 1"}, func(t *testing.T, _ *hub, dir, where string, change func(*Config)) {
		before := len(lines())
		event(t, where, "job", state("build"))
		r := runnerAt(t, dir, realClock, change)
		res := ticked(t, r, "job")
		wantStatus(t, res, StatusFailed)
		if head := gittest.RefOID(where, "refs/heads/job"); head != res.Claim {
			t.Errorf("HEAD %s isn't the lease %s", head, res.Claim)
		}
		wantStatus(t, ticked(t, r, "job"), StatusHeld)
		if got := len(lines()) - before; got != 1 {
			t.Errorf("%d executions", got)
		}
	})
}

// TestA40_TakeoverGoesOn: one tick leads from a dead lease to the end of the command
// of `stalled`, in whose environment is what was lost; without a command the tick
// took over and did nothing else (T7).
func TestA40_TakeoverGoesOn(t *testing.T) {
	stalled := `[ "$AYNIG_TRAILER_WRIT_ORIGIN_STATE" = build ] && [ "$AYNIG_BODY" = prompt ] && [ "$AYNIG_TRAILER_NOTE" = x ]
advance "$AYNIG_TRAILER_WRIT_ORIGIN_STATE"`
	for name, commands := range map[string]map[string]string{
		"with": {"command/build": "exit 1", "command/stalled": stalled}, "without": {"command/build": "exit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, commands, func(t *testing.T, _ *hub, dir, where string, change func(*Config)) {
				event(t, where, "job", "t\n\nprompt\n\naynig-state: build\nnote: x\n")
				clock := newClock()
				dead := ticked(t, runnerAt(t, dir, clock.now, change), "job")
				wantStatus(t, dead, StatusFailed)
				// Runners that start, look and end add up (L15); the first only sees it.
				wantStatus(t, ticked(t, runnerAt(t, dir, clock.now, change), "job"), StatusHeld)
				clock.add(60 * time.Second)
				wantStatus(t, ticked(t, runnerAt(t, dir, clock.now, change), "job"), StatusHeld)
				clock.add(time.Second)
				res := ticked(t, runnerAt(t, dir, clock.now, change), "job")
				if res.TakenOver != dead.RunID {
					t.Errorf("took over %q, not %s", res.TakenOver, dead.RunID)
				}
				if name == "without" {
					wantStatus(t, res, StatusTakenOver)
					if got := message(t, where, "job"); !strings.Contains(got, "aynig-stalled-run: "+dead.RunID) {
						t.Errorf("HEAD says %q", got)
					}
					wantStatus(t, ticked(t, runnerAt(t, dir, clock.now, change), "job"), StatusIdle)
					return
				}
				wantStatus(t, res, StatusDone)
				if got := message(t, where, "job"); !strings.Contains(got, "aynig-state: build") {
					t.Errorf("HEAD says %q", got)
				}
			})
		})
	}
}

// TestL8_NoEternalLock: whatever a lease says of itself, it ends once it has been
// seen unchanged for the time that counts, and not before.
func TestL8_NoEternalLock(t *testing.T) {
	h := newHub(t, map[string]string{"command/stalled": "advance done"})
	dir := h.cloneOf(t)
	full := "t\n\naynig-state: working\naynig-origin-state: build\naynig-run-id: 3f0c2a52-7d0e-4b9a-9a51-0d3c7f4e6b18\naynig-runner-id: x\n"
	for name, c := range map[string]struct {
		message string
		seconds int
	}{
		"no-seconds": {full, lease.DefaultLeaseSeconds},
		"zero":       {full + "aynig-lease-seconds: 0\n", lease.DefaultLeaseSeconds},
		"enormous":   {full + "aynig-lease-seconds: 999999999999\n", lease.MaxLeaseSeconds},
		"existing":   {"chore: working\n\nLease heartbeat\n\naynig-state: working\naynig-origin-state: build\naynig-run-id: run-3f0c\naynig-runner-id: x\naynig-lease-seconds: 300\n", 300},
		"bare":       {"t\n\naynig-state: working\n", lease.DefaultLeaseSeconds},
	} {
		t.Run(name, func(t *testing.T) {
			event(t, h.dir, name, c.message)
			clock := newClock()
			r := runnerAt(t, dir, clock.now, func(cfg *Config) { remote(cfg); cfg.Globs = []string{name} })
			wantStatus(t, ticked(t, r, name), StatusHeld)
			clock.add(time.Duration(c.seconds)*time.Second - time.Millisecond)
			wantStatus(t, ticked(t, r, name), StatusHeld)
			clock.add(2 * time.Second)
			wantStatus(t, ticked(t, r, name), StatusDone)
		})
	}
}

// TestT9_ARivalsResultIsNotOurs: while the command is away, another takes over and
// finishes; what the first one then finds isn't its own.
func TestT9_ARivalsResultIsNotOurs(t *testing.T) {
	go1, go2 := filepath.Join(t.TempDir(), "started"), filepath.Join(t.TempDir(), "go")
	for _, p := range []string{go1, go2} {
		gittest.Git(t, "/", "init", "-q", "--bare", p+".unused") // a directory to make pipes in
		if err := mkfifo(p); err != nil {
			t.Fatal(err)
		}
	}
	build := `if [ -e ` + go1 + ` ]; then echo > ` + go1 + `; read -r _ < ` + go2 + `; fi; advance done || :`
	everywhere(t, map[string]string{"command/build": build, "command/stalled": "advance again"}, func(t *testing.T, h *hub, dir, where string, change func(*Config)) {
		event(t, where, "job", state("build"))
		clock := newClock()
		other := dir
		if where != dir {
			other = h.cloneOf(t)
		}
		result := make(chan Result)
		go func() { result <- ticked(t, runnerAt(t, dir, clock.now, change), "job") }()
		readLine(t, go1)
		rival := runnerAt(t, other, clock.now, change)
		wantStatus(t, ticked(t, rival, "job"), StatusHeld)
		clock.add(2 * time.Minute)
		wantStatus(t, ticked(t, rival, "job"), StatusDone)
		after := gittest.RefOID(where, "refs/heads/job")
		writeLine(t, go2)
		res := <-result
		if where != dir { // on one branch of one clone git lets the late one commit
			wantStatus(t, res, StatusLost)
			if head := gittest.RefOID(where, "refs/heads/job"); head != after {
				t.Errorf("HEAD moved from %s to %s", after, head)
			}
		}
	})
}

// TestA12_RenamedStates: three workflows of random words with the same binary and no
// configuration give the same trace (A43).
func TestA12_RenamedStates(t *testing.T) {
	var traces [][]Status
	for _, w := range [][]string{{"build", "test", "release"}, {"q7", "done-not", "noop-x"}, {"done", "failed", "waiting"}} {
		h := newHub(t, map[string]string{"command/" + w[0]: "advance " + w[1], "command/" + w[1]: "advance " + w[2]})
		dir := h.cloneOf(t)
		event(t, h.dir, "job", state(w[0]))
		var trace []Status
		for range 2 {
			trace = append(trace, ticked(t, runnerAt(t, dir, realClock, remote), "job").Status)
		}
		traces = append(traces, trace)
	}
	for _, trace := range traces {
		if !slices.Equal(trace, []Status{StatusDone, StatusDone}) {
			t.Errorf("%v", trace)
		}
	}
}

// TestA9_WhoPushesAnEventDoesntSupplyTheCode, unless it is asked for.
func TestA9_WhoPushesAnEventDoesntSupplyTheCode(t *testing.T) {
	everywhere(t, map[string]string{"command/build": "advance good", "command/out": "-> ../lib/advance"}, func(t *testing.T, _ *hub, dir, where string, change func(*Config)) {
		evil := &hub{dir: where}
		gittest.Git(t, where, "branch", "job", "main")
		evil.commit(t, "refs/heads/job", map[string]string{"command/build": "advance evil", "command/extra": "advance evil"})
		event(t, where, "job", state("build"))
		event(t, where, "out", state("out"))
		wantStatus(t, ticked(t, runnerAt(t, dir, realClock, change), "out"), StatusUnrunnable)
		if got := message(t, where, "job"); !strings.Contains(got, "aynig-state: good") {
			t.Errorf("HEAD says %q", got)
		}
		event(t, where, "job", state("extra"))
		wantStatus(t, ticked(t, runnerAt(t, dir, realClock, change), "job"), StatusMissing)
		wantStatus(t, ticked(t, runnerAt(t, dir, realClock, func(c *Config) { change(c); c.From = FromEvent }), "job"), StatusDone)
		wantStatus(t, ticked(t, runnerAt(t, dir, realClock, func(c *Config) { change(c); c.From = "job" }), "out"), StatusMissing)
		event(t, where, "job", state("build"))
		wantStatus(t, ticked(t, runnerAt(t, dir, realClock, func(c *Config) { change(c); c.From = "gone" }), "job"), StatusUnable)
	})
}

// TestCurrentBranch: the one that somebody has checked out is skipped, included or
// the only one, and its command runs in that working tree.
func TestCurrentBranch(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done; pwd"})
	dir := h.cloneOf(t)
	gittest.Git(t, dir, "checkout", "--quiet", "-b", "mine")
	for _, name := range []string{"mine", "job"} {
		event(t, dir, name, state("build"))
	}
	seen := func(current string) []string {
		results, err := runnerAt(t, dir, realClock, func(c *Config) { c.Current, c.From = current, "gone" }).Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range results {
			names = append(names, r.Branch)
		}
		return names
	}
	for current, want := range map[string][]string{CurrentSkip: {"job", "main"}, CurrentOnly: {"mine"}, CurrentInclude: {"job", "main", "mine"}} {
		if got := seen(current); !slices.Equal(got, want) {
			t.Errorf("%s: %v", current, got)
		}
	}
	res := ticked(t, runnerAt(t, dir, realClock, func(c *Config) { c.Current = CurrentOnly }), "mine")
	wantStatus(t, res, StatusDone)
	if !strings.Contains(res.Tail(), dir) {
		t.Errorf("it ran elsewhere: %s", res.Tail())
	}
	if out := gittest.Git(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("the working tree isn't clean: %s", out)
	}
}

// TestA37_NoHistory: a tick works where every parent is missing.
func TestA37_NoHistory(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done"})
	event(t, h.dir, "job", state("old"))
	event(t, h.dir, "job", state("build"))
	dir := filepath.Join(t.TempDir(), "shallow")
	gittest.Git(t, "/", "clone", "--quiet", "--depth=1", "--no-single-branch", h.http.URL, dir)
	gittest.Git(t, dir, "branch", "job", "origin/job")
	wantStatus(t, ticked(t, runnerAt(t, dir, realClock, nil), "job"), StatusDone)
	wantStatus(t, ticked(t, runnerAt(t, dir, realClock, remote), "job"), StatusDone)
}

// TestG4_AmbiguousCommitsAreNoEvents.
func TestG4_AmbiguousCommitsAreNoEvents(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done"})
	dir := h.cloneOf(t)
	tree := gittest.Git(t, h.dir, "rev-parse", "main^{tree}")
	raw := "tree " + tree + "\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\ncommitter B <b@example.com> 9 +0000\n\n" + state("build")
	oid := gittest.GitInput(t, h.dir, raw, "hash-object", "-w", "-t", "commit", "--literally", "--stdin")
	gittest.Git(t, h.dir, "update-ref", "refs/heads/job", oid)
	res := ticked(t, runnerAt(t, dir, realClock, remote), "job")
	wantStatus(t, res, StatusMalformed)
	if res.Code != "commit.ambiguous" || gittest.RefOID(h.dir, "refs/heads/job") != oid {
		t.Errorf("%+v", res)
	}
}

// TestA52_ARefWakesATick: a watching runner ticks at once, again when a ref moves,
// and by its own moves it isn't kept awake (A38).
func TestA52_ARefWakesATick(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done"})
	dir := h.cloneOf(t)
	r := runnerAt(t, dir, realClock, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	results := make(chan []Result, 10)
	ended := make(chan error)
	go func() {
		ended <- Watch(ctx, r.deps.Clone, time.Hour, func(ctx context.Context) error {
			found, err := r.Tick(ctx)
			results <- found
			return err
		})
	}()
	if first := <-results; len(first) != 1 {
		t.Errorf("%+v", first)
	}
	event(t, dir, "job", state("build"))
	wantStatus(t, (<-results)[0], StatusDone)
	wantStatus(t, (<-results)[0], StatusIdle) // its own move is looked at once
	stop()
	if err := <-ended; err != nil || len(results) > 0 {
		t.Errorf("%v, and %d more ticks", err, len(results))
	}
}

// branchesAtOnce is what the ordinary suite has time for; issue and page say 200.
var branchesAtOnce = flag.Int("branches", 30, "branches that are run at once")

// TestManyBranches at once: each is run, and none is in another's way.
func TestManyBranches(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done"})
	dir := h.cloneOf(t)
	many := *branchesAtOnce
	oid := event(t, dir, "job-0", state("build"))
	var b strings.Builder
	for i := range many {
		fmt.Fprintf(&b, "update refs/heads/job-%d %s\n", i, oid)
	}
	gittest.GitInput(t, dir, b.String(), "update-ref", "--stdin")
	results, err := runnerAt(t, dir, realClock, func(c *Config) { c.Jobs = many }).Tick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, res := range results {
		if res.Status == StatusDone {
			done++
		} else if res.Branch != "main" {
			t.Errorf("%+v\n%s", res, res.Tail())
		}
	}
	if done != many {
		t.Errorf("%d of %d", done, many)
	}
}

// TestL1_OneWinnerRuns: one of eight runners, with a clone each and in one clone; what they
// are told when they lose leaves nothing behind (A21).
func TestL1_OneWinnerRuns(t *testing.T) {
	file, lines := marker(t)
	everywhere(t, map[string]string{"command/build": "echo x >> " + file + "\nadvance done"}, func(t *testing.T, h *hub, dir, where string, change func(*Config)) {
		const runners, rounds = 8, 5
		all := make([]*Runner, runners)
		for i := range all {
			if where != dir && i > 0 {
				dir = h.cloneOf(t)
			}
			all[i] = runnerAt(t, dir, realClock, change)
		}
		for range rounds {
			before := len(lines())
			event(t, where, "job", state("build"))
			statuses := make(chan Status, runners)
			for _, r := range all {
				go func() { statuses <- ticked(t, r, "job").Status }()
			}
			done := 0
			for range runners {
				switch s := <-statuses; s {
				case StatusDone:
					done++
				case StatusLost, StatusHeld, StatusIdle:
				default:
					t.Errorf("a runner says %s", s)
				}
			}
			if got := len(lines()) - before; got != 1 || done != 1 {
				t.Fatalf("%d executions, %d say done", got, done)
			}
		}
	})
}

// TestG6_G7_FiveAnswers: a rule, an outage and a lost answer are no rival, and
// nothing is run where the lease isn't known to stand.
func TestG6_G7_FiveAnswers(t *testing.T) {
	file, lines := marker(t)
	h := newHub(t, map[string]string{"command/build": "echo x >> " + file + "\nadvance done"})
	dir := h.cloneOf(t)
	r := runnerAt(t, dir, realClock, remote)
	at := string(event(t, h.dir, "job", state("build")))
	gittest.Hook(t, h.dir, "pre-receive", "echo 'denied by policy' >&2; exit 1")
	wantStatus(t, ticked(t, r, "job"), StatusRefused)
	gittest.Hook(t, h.dir, "pre-receive", "exit 0")
	h.http.Set(gittest.OnPush(gittest.Status(503, "maintenance")))
	if res := ticked(t, r, "job"); res.Status != StatusUnable && res.Status != StatusUnknown {
		t.Errorf("%+v", res)
	}
	h.http.Set(nil)
	if got := gittest.RefOID(h.dir, "refs/heads/job"); got != at || len(lines()) > 0 {
		t.Fatalf("HEAD %s, %d executions", got, len(lines()))
	}
	// L6: the lease was taken, and only the answer lost: it is recognised.
	var once sync.Once
	h.http.Set(gittest.OnPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			faulty := next
			once.Do(func() { faulty = gittest.DropResponse(next) })
			faulty.ServeHTTP(w, req)
		})
	}))
	wantStatus(t, ticked(t, r, "job"), StatusDone)
	if n := len(lines()); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestG3_RedirectsAreRefused.
func TestG3_RedirectsAreRefused(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done"})
	dir := h.cloneOf(t)
	r := runnerAt(t, dir, realClock, remote)
	event(t, h.dir, "job", state("build"))
	h.http.Set(gittest.Redirect("http://127.0.0.1:1"))
	if _, err := r.Tick(t.Context()); git.CodeOf(err) != git.CodeRedirectRefused {
		t.Errorf("%v", err)
	}
}

// TestL3_L4_MovedMeanwhile: a branch that is deleted or set back between look and
// push is lost, and not made again.
func TestL3_L4_MovedMeanwhile(t *testing.T) {
	h := newHub(t, map[string]string{"command/build": "advance done"})
	dir := h.cloneOf(t)
	for name, move := range map[string]func(){
		"deleted": func() { gittest.Git(t, h.dir, "update-ref", "-d", "refs/heads/job") },
		"rewound": func() { gittest.Git(t, h.dir, "update-ref", "refs/heads/job", "main") },
	} {
		event(t, h.dir, "job", state("build"))
		h.http.Set(gittest.OnPush(gittest.Before(move)))
		wantStatus(t, ticked(t, runnerAt(t, dir, realClock, remote), "job"), StatusLost)
		want := ""
		if name == "rewound" {
			want = gittest.RefOID(h.dir, "refs/heads/main")
		}
		if got := gittest.RefOID(h.dir, "refs/heads/job"); got != want {
			t.Errorf("%s: HEAD is %q", name, got)
		}
		h.http.Set(nil)
	}
}
