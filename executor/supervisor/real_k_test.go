package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// Cases K over real bare repositories, with processes that are really killed.

// dies arms a fault point and goes on until the process has died there.
func (r *resident) dies(at Point) {
	r.w.t.Helper()
	r.ask("die " + string(at))
	r.until(string(at), func(reply) bool { return false })
	if r.alive {
		r.w.t.Fatalf("%s was not reached", at)
	}
}

func (w *town) head() kerneltest.Head {
	w.t.Helper()
	oid := gittest.RefOID(w.bare, "refs/writ/task/1")
	if oid == "" {
		return kerneltest.Head{}
	}
	raw := gittest.Git(w.t, w.bare, "cat-file", "commit", oid)
	return kerneltest.ReadHead(oid, kerneltest.Object{Kind: "commit", Data: []byte(raw + "\n")})
}

// expect compares what a task came to.
func (w *town) expect(state string, dispatched int, attempt, interruptions int64) {
	w.t.Helper()
	h := w.head()
	if h.State != state || len(w.builds()) != dispatched || h.Attempt != attempt || h.Interruptions != interruptions {
		w.t.Errorf("HEAD %q, %d dispatched, attempt %d, interruptions %d; want %q %d %d %d",
			h.State, len(w.builds()), h.Attempt, h.Interruptions, state, dispatched, attempt, interruptions)
	}
	w.oneDispatchPerRun()
	if state == string(kernel.TaskCompleted) {
		delivered(w.t, w.bare)
	}
}

// onBoth runs a case over the file system and over smart HTTP.
func onBoth(t *testing.T, f func(*testing.T, *town)) {
	for _, transport := range []string{"file", "http"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			if transport == "http" {
				w.url = gittest.ServeHTTP(t, w.bare).URL
			}
			f(t, w)
		})
	}
}

func TestK1_KilledBeforeTheLeasePush(t *testing.T) { onBoth(t, killedBeforeTheLeasePush) }

func killedBeforeTheLeasePush(t *testing.T, w *town) {
	w.runner("a").dies(PointOf(kernel.ActionClaim, StageRecorded))
	if h := w.head(); h.OID != "" {
		t.Fatalf("a lease was pushed: %+v", h)
	}
	w.runner("a").final()
	w.expect("completed", 1, 1, 0)
}

func TestK2_KilledBetweenLeaseAndDispatch(t *testing.T) { onBoth(t, killedBetweenLeaseAndDispatch) }

func killedBetweenLeaseAndDispatch(_ *testing.T, w *town) {
	w.runner("a").dies(PointOf(kernel.ActionClaim, StageDone))
	w.runner("a").final()
	w.expect("completed", 1, 1, 1)
}

func TestK3_KilledAroundTheStart(t *testing.T) { onBoth(t, killedAroundTheStart) }

func killedAroundTheStart(_ *testing.T, w *town) {
	w.runner("a").dies(PointOf(kernel.ActionDispatch, StageRecorded))
	w.runner("a").dies(PointOf(kernel.ActionDispatch, StageDone))
	w.runner("a").final()
	w.expect("completed", 2, 1, 2)
}

// TestK4_TheTreeDiesWithItsSupervisor kills the supervisor while a real builder
// runs in a real sandbox: nothing of its tree is left, and the task goes on.
func TestK4_TheTreeDiesWithItsSupervisor(t *testing.T) {
	t.Setenv("TMPDIR", disk)
	w := newTown(t)
	mark := fmt.Sprintf("marker-%d-%d", os.Getpid(), time.Now().UnixNano())
	script := "trap '' TERM INT HUP; setsid sleep 1000 & echo started; while :; do sleep 1000; done"
	a := w.runner("a", func(s *setup) { s.Sandboxed = []string{"/bin/sh", "-c", script, mark} })
	a.reach(kernel.ActionDispatch)
	a.ask("await") // it has started its grandchild
	tree := processesWith(t, mark)
	if len(tree) == 0 {
		t.Fatal("no process of the builder is seen from outside, so its death can't be")
	}
	a.kill()
	for _, fd := range tree {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(10*time.Second/time.Millisecond)); n != 1 {
			t.Errorf("a process of the tree outlives its supervisor (%v)", err)
		}
		_ = unix.Close(fd)
	}
	w.runner("a").final()
	w.expect("completed", 1, 1, 1) // the real builder isn't counted in the file
}

// processesWith opens the processes that have a word among their arguments.
func processesWith(t *testing.T, word string) (fds []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range list {
		var pid int
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), word) {
			continue // gone meanwhile, or another's
		}
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// everyTerms leave room for two deaths at every fault point of one task.
const everyTerms = "version: 1\nchecks: [{name: test, run: [\"true\"]}]\n" +
	"budgets: {attempts: 20, interruptions: 1000, retry_backoff: 1s, retry_backoff_max: 1s}\n"

// provoke brings a process to a fault point, where it dies.
func (r *resident) provoke(at Point) {
	r.w.t.Helper()
	action, _, _ := strings.Cut(string(at), ":")
	if r.w.head().State == string(kernel.TaskWaiting) {
		r.ask("resume") // where an earlier death left it
	}
	switch kernel.Action(action) {
	case kernel.ActionHeartbeat:
		r.reach(kernel.ActionDispatch)
		r.w.pass(45_000)
	case kernel.ActionTakeOver: // the predecessor's lease is there
	case kernel.ActionRelease, kernel.ActionWait:
		r.reach(kernel.ActionDispatch)
		r.ask("die " + string(at))
		r.ask(map[kernel.Action]string{kernel.ActionRelease: "shutdown", kernel.ActionWait: "stop"}[kernel.Action(action)])
		return
	case kernel.ActionAbandon:
		r.reach(kernel.ActionDispatch)
		gittest.Git(r.w.t, r.w.bare, "update-ref", "refs/writ/task/1", r.w.head().Parent)
	case kernel.ActionNone:
		r.reach(kernel.ActionDispatch) // then it waits for the builder
		r.ask("die " + string(at))
		r.ask("tick")
		return
	}
	r.dies(at)
}

// livesOfATask is how many fault points one task of the crash tests goes through:
// its ledger grows, and is verified at each start.
const livesOfATask = 6

// TestK7_EveryPointSameDisk kills one installation at each fault point, twice,
// in the life of a task. Everything before a point is recovered from the death
// before.
func TestK7_EveryPointSameDisk(t *testing.T) {
	t.Parallel()
	everyPointIn(t, func(w *town, part []Point) {
		for _, at := range part {
			w.diesAt("a", at)
			w.diesAt("a", at)
		}
		w.ends("a")
	})
}

// TestK7_EveryPointOtherDisk lets two installations, which list each other's
// keys, take turns: each is killed at a fault point, and the other goes on from
// git alone.
func TestK7_EveryPointOtherDisk(t *testing.T) {
	t.Parallel()
	everyPointIn(t, func(w *town, part []Point) {
		names := []string{"b", "a"}
		for i, at := range part {
			w.diesAt(names[i%2], at)
		}
		w.ends(names[len(part)%2])
	})
}

// everyPointIn gives each part of the fault points a town with a dead lease of A
// in it, to take over.
func everyPointIn(t *testing.T, f func(*town, []Point)) {
	for part := range slices.Chunk(Points(), livesOfATask) {
		t.Run(string(part[0]), func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			w.terms = everyTerms
			w.runner("b").kill() // its key is known from now on
			w.runner("a").dies(PointOf(kernel.ActionDispatch, StageDone))
			f(w, part)
		})
	}
}

// diesAt starts an installation that dies at a point.
func (w *town) diesAt(name string, at Point) {
	w.t.Helper()
	r := w.runner(name, func(s *setup) {
		if strings.HasPrefix(string(at), string(kernel.ActionResult)) {
			s.Build = "bad" // a good result would be the end
		}
	})
	if w.stopped[name] {
		r.ask("resume")
	}
	w.stopped[name] = strings.HasPrefix(string(at), string(kernel.ActionWait)+":")
	if strings.HasPrefix(string(at), string(kernel.ActionTakeOver)) && w.head().State != kernel.HeadWorking {
		r.reach(kernel.ActionDispatch)
		r.kill()
		r = w.runner(name)
	}
	if strings.HasPrefix(string(at), "seal:") || strings.HasPrefix(string(at), "result:") {
		if w.head().State == kernel.HeadWorking {
			r.reach(kernel.ActionTakeOver)
		}
		if w.sealed() {
			r.ask("stop") // what a person stopped is built anew
		}
	}
	r.provoke(at)
	if r.alive {
		w.t.Fatalf("%s is alive after %s", name, at)
	}
}

// sealed reports whether HEAD holds sealed work.
func (w *town) sealed() bool {
	w.t.Helper()
	return strings.Contains(gittest.Git(w.t, w.bare, "ls-tree", "--name-only", "refs/writ/task/1"), sealed.File)
}

// ends brings the task to its end and holds it against what must be so.
func (w *town) ends(name string) {
	w.t.Helper()
	r := w.runner(name)
	if w.stopped[name] || w.head().State == string(kernel.TaskWaiting) {
		r.ask("resume")
	}
	r.final()
	if h := w.head(); h.State != "completed" {
		w.t.Errorf("HEAD %q", h.State)
	}
	w.oneDispatchPerRun()
	delivered(w.t, w.bare)
}

func TestK8_BlockedAfterN(t *testing.T) {
	t.Parallel()
	bad := func(s *setup) { s.Build = "bad" }
	w := newTown(t)
	for range 3 {
		a := w.runner("a", bad)
		a.reach(kernel.ActionDispatch)
		a.kill() // no attempt
		a = w.runner("a", bad)
		a.reach(kernel.ActionResult)
		a.kill()
	}
	a := w.runner("a", bad)
	a.final()
	w.expect("blocked", 6, 3, 3)
	w.pass(3_600_000)
	if st := a.tick(); st.Standing != kernel.StandFinal {
		t.Errorf("a blocked task is %s", st.Standing)
	}
	codes := " " + w.head().Codes + " "
	for _, c := range []kernel.Code{kernel.CodeEscalationBlocked, kernel.CodeVerificationFailed, kernel.CodeExecutionExit} {
		if !strings.Contains(codes, " "+string(c)+" ") {
			t.Errorf("%s is missing in %q", c, codes)
		}
	}
}

// TestK9_LostDisk: the first installation and its disk are gone. Another one that
// lists its key vouches for a result, or goes on from a failed attempt or a dead
// lease, from git alone. One that doesn't list it acts on no result.
func TestK9_LostDisk(t *testing.T) { onBoth(t, lostDisk) }

func lostDisk(t *testing.T, w *town) {
	w.runner("a", func(s *setup) { s.Build = "bad" }).dies(PointOf(kernel.ActionResult, StageDone))
	w.runner("b").dies(PointOf(kernel.ActionDispatch, StageDone))
	c := w.runner("c")
	c.final()
	w.expect("completed", 3, 2, 1)
	d := w.runner("d")
	if st := d.tick(); st.Standing != kernel.StandFinal || st.State != kernel.TaskCompleted {
		t.Errorf("another installation says %s %s", st.Standing, st.State)
	}
	stranger := w.runner("e", func(s *setup) { s.Trusted = nil })
	st := stranger.tick()
	if st.Standing != kernel.StandWaiting || len(st.Codes) != 1 || st.Codes[0] != kernel.CodeLeaseUntrusted {
		t.Errorf("one that lists nobody: %s %v", st.Standing, st.Codes)
	}
	w.expect("completed", 3, 2, 1)
}

func TestK10_TenDeploys(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for i := range 10 {
		a := w.runner("a")
		a.reach(kernel.ActionDispatch)
		if i%2 == 0 {
			if st := a.ask("shutdown"); st.Action != kernel.ActionRelease || st.Outcome != kernel.OutcomeDone {
				t.Fatalf("a shutdown does %s %s", st.Action, st.Outcome)
			}
		}
		a.kill()
	}
	w.runner("a").final()
	w.expect("completed", 11, 1, 10)
}
