package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// gate is a repository whose pushes or reads of refs hang while a test wants it.
type gate struct {
	Repo
	mu      sync.Mutex
	ref     string        // pushes to it hang
	reads   bool          // reads hang
	entered chan struct{} // gets a word when something hangs
	release chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 8), release: make(chan struct{})} }

func (g *gate) hang(ref string, reads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ref, g.reads = ref, reads
}

func (g *gate) wait(on bool) {
	if on {
		g.entered <- struct{}{}
		<-g.release
	}
}

func (g *gate) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	g.mu.Lock()
	on := g.reads
	g.mu.Unlock()
	g.wait(on)
	return g.Repo.Refs(ctx, names...)
}

func (g *gate) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	g.mu.Lock()
	on := g.ref != "" && cmds[0].Ref == g.ref
	g.mu.Unlock()
	g.wait(on)
	return g.Repo.CompareAndSwap(ctx, cmds, pack)
}

func (b *bench) verify(ref string) {
	b.t.Helper()
	r, err := replay.VerifyTask(b.t.Context(), b.repo, ref, replay.Options{Keys: []ssh.PublicKey{b.key}, World: b.place.cfg.World})
	if err != nil || !r.OK || r.Evidence != replay.EvidenceFull || r.State != kernel.TaskCompleted && r.State != kernel.TaskWaiting {
		b.t.Errorf("%s: %v\n%s", ref, err, r.Plain())
	}
}

// TestE3_TriedAgainWithinASecond: who tries again what the server did not do, within the
// same second, makes the very same commit. The evidence has it announced as often as it
// was tried, and is sound.
func TestE3_TriedAgainWithinASecond(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionHeartbeat, kernel.ActionSeal} {
		for words, came := range map[string]kernel.OutcomeStatus{"locked": kernel.OutcomeLost, "full": kernel.OutcomeUnable} {
			if at == kernel.ActionSeal && words == "full" {
				continue // it goes on, with the work in the store
			}
			t.Run(string(at)+" "+words, func(t *testing.T) {
				b := newBench(t, newRepo(t), func(b *bench) { b.exec.hold, b.place.terms = true, checkTerms })
				b.reach(kernel.ActionDispatch)
				if at == kernel.ActionHeartbeat {
					b.clock.advance(60_000)
				} else {
					b.exec.finish()
				}
				lock := filepath.Join(b.bare, filepath.FromSlash(stateRef)+".lock")
				if words == "locked" {
					must(t, os.WriteFile(lock, nil, 0o600))
				} else {
					gittest.Hook(t, b.bare, "pre-receive", `echo "fatal: write error: No space left on device" >&2; exit 1`)
				}
				for range 2 {
					want(t, b.tick(), at, came)
				}
				_ = os.Remove(lock) // it may be the other case
				gittest.Hook(t, b.bare, "pre-receive", "exit 0")
				want(t, b.tick(), at, kernel.OutcomeDone)
				b.exec.hold = false
				b.until(kernel.StandFinal)
				b.verify(stateRef)
			})
		}
	}
}

// TestL11_HangingPushHoldsNobody: while the push of one task hangs, another task
// of the same world is done from claim to result, and whatever order their
// records then have, both verify offline and the ledger folds.
func TestL11_HangingPushHoldsNobody(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionResult} {
		t.Run(string(at), func(t *testing.T) {
			g := newGate()
			b := newBench(t, newRepo(t), func(b *bench) { b.place.wrap = func(r Repo) Repo { g.Repo = r; return g } })
			other, err := b.sup.Open(t.Context(), 2, sayHello())
			must(t, err)
			switch at {
			case kernel.ActionHeartbeat:
				b.exec.hold = true
				b.reach(kernel.ActionDispatch)
				b.exec.hold = false
				b.clock.advance(45_000)
			case kernel.ActionResult:
				b.reach(kernel.ActionJudge)
			}
			g.hang("refs/writ/task/1", false)
			hung := make(chan Status)
			go func() {
				st, err := b.task.Tick(context.Background(), kernel.RequestTick, "local:0:root")
				if err != nil {
					t.Error(err)
				}
				hung <- st
			}()
			<-g.entered
			done := make(chan Status, 1)
			go func() { done <- drain(t, other) }()
			select {
			case st := <-done:
				if st.Decision.State != kernel.TaskCompleted {
					t.Errorf("task 2 is %s, %s", st.Decision.State, st.Decision.Standing)
				}
			case <-time.After(patience):
				t.Error("task 2 waits for the push of task 1")
			}
			g.hang("", false)
			close(g.release)
			if st := <-hung; st.Decision.Action != at || st.Outcome.Status != kernel.OutcomeDone {
				t.Errorf("the hanging request: %s %+v", st.Decision.Action, st.Outcome)
			}
			b.until(kernel.StandFinal)
			b.verify("refs/writ/task/1")
			b.verify("refs/writ/task/2")
			h, err := Replay(b.led.Records(t.Context(), 0, 0))
			must(t, err)
			if got, want := h.World.StateHash(), b.sup.world.StateHash(); got != want {
				t.Errorf("replayed, the world is %s, it was %s", got, want)
			}
		})
	}
}

// patience is how long a test waits for what a fault would keep for ever.
const patience = time.Minute

// drain ticks a task to its end.
func drain(t *testing.T, task *Task) (st Status) {
	for range 20 {
		var err error
		st, err = task.Tick(context.Background(), kernel.RequestTick, "local:0:root")
		if err != nil {
			t.Error(err)
		}
		if st.Decision.Standing == kernel.StandFinal {
			break
		}
	}
	return st
}

// TestX5_StopKillsWhileAReadHangs: a person's stop ends the builder at once even
// if the repository doesn't answer, and is recorded when it does: the task
// waits, and neither attempt nor interruption is counted.
func TestX5_StopKillsWhileAReadHangs(t *testing.T) {
	t.Parallel()
	for _, act := range []string{kernel.ActStop, kernel.ActHalt} {
		t.Run(act, func(t *testing.T) {
			g := newGate()
			b := newBench(t, newRepo(t), func(b *bench) {
				b.exec.hold = true
				b.place.wrap = func(r Repo) Repo { g.Repo = r; return g }
			})
			b.exec.started = func(executor.BuildJob) { g.hang("", true) }
			acts, ended := make(chan Act), make(chan error, 1)
			go func() {
				_, err := b.task.Drive(context.Background(), DriveOptions{Actor: "writ", Yield: true, Acts: acts})
				ended <- err
			}()
			<-g.entered
			answered := make(chan error, 1)
			acts <- Act{Kind: act, Actor: "alice", Reason: "enough", Done: answered}
			select {
			case <-b.exec.builds[0].Done():
			case <-time.After(patience):
				t.Error("the builder lives while a read hangs")
			}
			select {
			case err := <-answered:
				t.Errorf("answered before it was recorded: %v", err)
			default:
			}
			g.hang("", false)
			close(g.release)
			must(t, <-answered)
			must(t, <-ended)
			if act == kernel.ActHalt {
				if !b.sup.world.TaskView(1).Halted || b.task.machine.State() != machine.Halted {
					t.Errorf("halted %v, its kernel is %s", b.sup.world.TaskView(1).Halted, b.task.machine.State())
				}
				return
			}
			for trailer, want := range map[string]string{"aynig-state": "waiting", "writ-waiting-for": "approval", "writ-interruptions": "0", "writ-attempt": "1"} {
				if got := gittest.Git(t, b.bare, "log", "-1", "--format=%(trailers:key="+trailer+",valueonly)", stateRef); got != want && got != want+"\n" {
					t.Errorf("HEAD has %s %q, want %q", trailer, got, want)
				}
			}
		})
	}
}

// TestDrive_Yields: what waits gives its place away and says when to come back.
func TestDrive_Yields(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.build = failing })
	st, err := b.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	must(t, err)
	if st.Decision.Standing != kernel.StandDue || st.Wake <= b.clock.Now().WallMs {
		t.Errorf("%s, due at %d", st.Decision.Standing, st.Wake)
	}
	rival := newBench(t, b.bare, nil)
	rival.trusts(b)
	b.clock.advance(st.Wake - b.clock.Now().WallMs)
	rival.clock.advance(b.clock.Now().WallMs - rival.clock.Now().WallMs)
	b.exec.hold = true
	b.reach(kernel.ActionDispatch)
	st, err = rival.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	must(t, err)
	if st.Decision.Standing != kernel.StandHeld || st.Wake <= rival.clock.Now().WallMs {
		t.Errorf("%s, until %d", st.Decision.Standing, st.Wake)
	}
}

// TestDrive_YieldReturnsOutages: what can't be read is the caller's to try again.
func TestDrive_YieldReturnsOutages(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.place.wrap = func(r Repo) Repo { return noRefs{r} } })
	_, err := b.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	if err == nil || !Passing(err) {
		t.Errorf("the drive ends with %v", err)
	}
}

type noRefs struct{ Repo }

func (noRefs) Refs(context.Context, ...string) (git.Refs, error) {
	return git.Refs{}, &git.Error{Code: git.CodeUnreachable, Msg: "no route"}
}

// TestP5_OneKernelPerTask: a task is open once in a process; closed, it may be
// opened again and its audit chain goes on.
func TestP5_OneKernelPerTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	if _, err := b.sup.Open(t.Context(), 1, sayHello()); !errors.Is(err, ErrOpen) {
		t.Fatalf("opened twice: %v", err)
	}
	b.reach(kernel.ActionJudge)
	b.task.Close()
	var err error
	b.task, err = b.sup.Open(t.Context(), 1, sayHello())
	must(t, err)
	b.until(kernel.StandFinal)
	b.verify("refs/writ/task/1")
	must(t, b.sup.Resume(t.Context(), 1, "alice", "again"))
	b.tick() // the open task goes on in the new epoch
	b.open()
	b.tick()
}
