package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// forgetter is a server that acknowledges one push of an action and then loses it, or of
// two refs the second one. Nobody has looked in between.
type forgetter struct {
	Repo
	bare   string
	at     kernel.Action
	half   bool // of two refs the second one
	deaf   bool // its answer is lost, and it can't be asked any more
	gone   bool
	branch bool // of two refs the first one
	due    bool
	pushed git.OID // what was lost
	looked func()  // before the refs are listed
}

func (f *forgetter) fault(at Point) {
	if f.pushed == "" && at == PointOf(f.at, StageRecorded) {
		f.due = true
	}
}

func (f *forgetter) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	out := f.Repo.CompareAndSwap(ctx, cmds, pack)
	if !f.due || out.Status != git.Won {
		return out
	}
	f.due, f.pushed = false, cmds[0].New
	switch {
	case f.half:
		cmds = cmds[1:]
	case f.branch:
		cmds = cmds[:1]
	}
	for _, c := range cmds {
		gitIn(f.bare, c)
	}
	if f.gone = f.deaf; f.gone {
		return git.Outcome{Status: git.Unknown}
	}
	return out
}

func (f *forgetter) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	if f.gone {
		return git.Refs{}, &git.Error{Code: git.CodeUnreachable, Msg: "no network"}
	}
	if f.looked != nil {
		f.looked()
	}
	return f.Repo.Refs(ctx, names...)
}

// gitIn sets a ref back to where a push found it.
func gitIn(bare string, c git.Command) {
	if c.Old.IsZero() {
		_, _ = gittest.TryGit(bare, "", "update-ref", "-d", c.Ref) // a ref that stays fails the test
		return
	}
	_, _ = gittest.TryGit(bare, "", "update-ref", c.Ref, string(c.Old)) // as above
}

// newForgetful is an installation whose server loses one push of an action.
func newForgetful(t *testing.T, at kernel.Action, terms ...string) (*bench, *forgetter, *int) {
	f, builders := &forgetter{at: at}, 0
	b := newBench(t, newRepo(t), func(b *bench) {
		f.bare = b.bare
		b.place.terms, b.place.fault = append(terms, checkTerms)[0], f.fault
		b.place.wrap = func(r Repo) Repo { f.Repo = r; return f }
		b.exec.hold = true
		b.exec.started = func(executor.BuildJob) { builders++ }
	})
	return b, f, &builders
}

// loses drives until the server has lost the push of the action.
func (b *bench) loses(f *forgetter) {
	b.t.Helper()
	for range 20 {
		req := kernel.RequestTick
		if b.task.worker.run != nil && b.task.worker.run.phase == kernel.PhaseBuilding {
			switch f.at {
			case kernel.ActionHeartbeat:
				b.clock.advance(45_000)
			case kernel.ActionWait:
				req = kernel.RequestStop
			default:
				b.exec.finish()
			}
		}
		b.ask(req)
		if f.pushed != "" {
			return
		}
	}
	b.t.Fatalf("no %s is lost", f.at)
}

// mends looks until the server shows what it had acknowledged, and reports how often it
// didn't. A person is never asked.
func (b *bench) mends() (unshown int) {
	b.t.Helper()
	for range 20 {
		st, err := b.task.Tick(b.t.Context(), kernel.RequestTick, "local:0:root")
		if err == nil {
			if st.Decision.WaitingFor == kernel.WaitRepair {
				b.t.Fatalf("a person is asked: %v", st.Decision.Violations)
			}
			return unshown
		}
		if !errors.Is(err, ErrUnsettled) || !strings.Contains(err.Error(), "doesn't show it") {
			b.t.Fatal(err)
		}
		unshown++
		b.clock.advance(1000)
	}
	b.t.Fatal("it is never shown")
	return 0
}

// TestE8_WonAndLost: real git acknowledges a push and loses it before anybody looked. The
// very same commit is pushed again, by this process or the next, and the task is done by
// one execution.
func TestE8_WonAndLost(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionSeal, kernel.ActionWait, kernel.ActionResult} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restarted=%v", at, restarted), func(t *testing.T) {
				b, f, builders := newForgetful(t, at)
				b.loses(f)
				if restarted {
					b.task.Close()
					b.open()
				}
				if b.ref(stateRef) == string(f.pushed) || b.mends() != 1 {
					t.Error("the look after it isn't told from the one that shows it")
				}
				if log := gittest.Git(t, b.bare, "log", "--format=%H", stateRef); !strings.Contains(log, string(f.pushed)) {
					t.Error("another commit was pushed instead")
				}
				if at == kernel.ActionWait {
					if st := b.tick(); st.Facts.Head.State != string(kernel.TaskWaiting) {
						t.Errorf("HEAD is %q", st.Facts.Head.State)
					}
					return
				}
				b.until(kernel.StandFinal)
				delivered(t, b.bare)
				b.verify(stateRef)
				if again := restarted && at == kernel.ActionHeartbeat; *builders != 1 && !again {
					t.Errorf("%d builders", *builders)
				}
			})
		}
	}
}

// TestE8_RepairWonAndLost: so is the claim by which a person moved on from a state that
// was set back.
func TestE8_RepairWonAndLost(t *testing.T) {
	t.Parallel()
	b, f, _ := newForgetful(t, "")
	b.exec.build = failing
	b.reach(kernel.ActionResult)
	b.tick()
	gitIn(b.bare, git.Command{Ref: stateRef, Old: git.OID(strings.TrimSpace(gittest.Git(t, b.bare, "rev-parse", stateRef+"~1")))})
	b.clock.advance(600_000)
	want(t, b.tick(), kernel.ActionNone, "", kernel.CodeStateRollback)
	must(t, b.sup.Resume(t.Context(), 1, "alice", "I looked"))
	f.at, b.exec.build = kernel.ActionClaim, writes(map[string]string{"out.txt": "hello\n"})
	b.loses(f)
	b.mends()
	b.until(kernel.StandFinal)
	delivered(t, b.bare)
}

// TestE8_LostToAnother: another installation moves on from the HEAD that the server lost
// a claim or a result over. Ours is not pushed, there is one result, and the other's
// builder alone ran where ours hadn't begun.
func TestE8_LostToAnother(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionClaim, kernel.ActionResult} {
		t.Run(string(at), func(t *testing.T) {
			b, f, builders := newForgetful(t, at)
			b.loses(f)
			other := b.joins(t)
			b.place.cfg.Trusted = append(b.place.cfg.Trusted, other.key)
			other.pastLease()
			other.until(kernel.StandFinal)
			b.task.Close()
			b.open()
			if st := b.until(kernel.StandFinal); st.Decision.State != kernel.TaskCompleted {
				t.Errorf("it stands %s", st.Decision.State)
			}
			delivered(t, b.bare)
			if log := gittest.Git(t, b.bare, "log", "--format=%H", stateRef); strings.Contains(log, string(f.pushed)) {
				t.Error("what was lost to another is there")
			}
			if at == kernel.ActionClaim && *builders != 0 {
				t.Errorf("%d builders ran for a claim that nobody saw", *builders)
			}
		})
	}
}

// TestE8_WonAndLostOnAForge: a result, or the completion at the merge, that the server
// acknowledged and lost closes nothing. It is pushed again, by this process or the next,
// and the issue is closed once.
func TestE8_WonAndLostOnAForge(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionResult, kernel.ActionComplete} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restarted=%v", at, restarted), func(t *testing.T) {
				server := &forgetter{at: at}
				f := newTold(t, func(f *forged) {
					server.bare, f.place.fault = f.bare, server.fault
					f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
					if at == kernel.ActionComplete {
						f.place.terms = mergeTerms
					}
				})
				if at == kernel.ActionComplete {
					f.drive()
					f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
				}
				hidden := 0
				for range 12 {
					_, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
					if err != nil && !errors.Is(err, ErrUnsettled) {
						t.Fatal(err)
					}
					if err != nil && f.forgeIssue().State != forge.Open {
						t.Error("the issue is closed over a result that nobody sees")
					}
					if err != nil && hidden == 0 && restarted {
						f.task.Close()
						f.open()
					}
					if err != nil {
						hidden++
					}
					f.clock.advance(60_000)
				}
				f.shows("task 1 completed", kernel.LabelCompleted, false)
				if n := f.acts(f.scene.Robot, forge.EventClosed); n != 1 || hidden == 0 || f.started() != 1 {
					t.Errorf("%d closings, %d looks that didn't show it, %d builders", n, hidden, f.started())
				}
			})
		}
	}
}

// TestL19_ShownAndGone: what a look showed and the server then lost was rolled back.
func TestL19_ShownAndGone(t *testing.T) {
	t.Parallel()
	b, _, _ := newForgetful(t, "")
	b.reach(kernel.ActionDispatch)
	gitIn(b.bare, git.Command{Ref: stateRef})
	b.task.Close()
	b.open()
	want(t, b.tick(), kernel.ActionNone, "", kernel.CodeStateRollback)
}

// TestA5_HalfAResult: a server that took the state ref of a result and lost the change
// branch has not taken the result. Verification says that no ref holds the change.
func TestA5_HalfAResult(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint(restarted), func(t *testing.T) {
			b, f, _ := newForgetful(t, kernel.ActionResult)
			f.half = true
			b.loses(f)
			r, err := replay.VerifyTask(t.Context(), b.repo, stateRef, replay.Options{})
			must(t, err)
			if !strings.Contains(r.Plain(), "No branch holds") {
				t.Errorf("it isn't said that nothing holds the change:\n%s", r.Plain())
			}
			if restarted {
				b.task.Close()
				b.open()
			}
			b.redelivers()
			delivered(t, b.bare)
			if r, err = replay.VerifyTask(t.Context(), b.repo, stateRef, replay.Options{}); err != nil || strings.Contains(r.Plain(), "No branch holds") {
				t.Errorf("%v\n%s", err, r.Plain())
			}
		})
	}
}

// TestA5_HalfAResultUnheard: the same, of a server that took one of the two refs, and a
// process that died before it heard the answer.
func TestA5_HalfAResultUnheard(t *testing.T) {
	t.Parallel()
	for name, half := range map[string]bool{"state ref": true, "change branch": false} {
		t.Run(name, func(t *testing.T) {
			b, f, builders := newForgetful(t, kernel.ActionResult)
			f.half, f.branch, f.deaf = half, !half, true
			b.loses(f)
			f.gone = false
			b.task.Close()
			b.open()
			if half {
				b.redelivers()
			} else if b.mends() != 1 {
				t.Error("half a result counts")
			}
			delivered(t, b.bare)
			if *builders != 1 {
				t.Errorf("%d builders ran", *builders)
			}
		})
	}
}

// TestE8_LostAndRefused: what was acknowledged and lost, whole or but for its change branch,
// and is refused by a rule when it is pushed again, waits for the rule. It costs no second
// builder, whether or not the work was sealed and the process lives, and nobody is sent away.
// A result waits with the server's words, is pushed once a minute, counts nothing, and is
// delivered within two minutes after the rule is gone.
func TestE8_LostAndRefused(t *testing.T) {
	t.Parallel()
	rules := map[string]string{
		"work":   `git ls-tree -r --name-only $new | grep -q ^sealed/`,
		"change": `test $ref = refs/heads/writ/change/1`,
		"state":  `test $ref = refs/writ/task/1`,
		"result": `git ls-tree --name-only $new | grep -q ^report`,
	}
	for i, c := range []struct {
		at          kernel.Action
		terms, rule string
		branch      bool // the server keeps the change branch
	}{
		{kernel.ActionSeal, checkTerms, "work", false},
		{kernel.ActionResult, checkTerms, "change", false},
		{kernel.ActionResult, checkTerms, "result", false},
		{kernel.ActionResult, checkTerms, "result", true},
		{kernel.ActionResult, checkTerms, "work", true},
		{kernel.ActionResult, "", "change", false},
		{kernel.ActionResult, "", "result", true},
		{kernel.ActionResult, "", "work", true},
		{kernel.ActionResult, "", "state", true},
	} {
		for n, restarted := range []bool{false, true} {
			if !noTurns() && (i+i/2+n)%2 > 0 { // the suite has each once
				continue
			}
			t.Run(fmt.Sprintf("%s sealed=%v %s branch=%v restarted=%v", c.at, c.terms != "", c.rule, c.branch, restarted), func(t *testing.T) {
				b, f, builders := newForgetful(t, c.at, c.terms)
				f.branch = c.branch
				b.loses(f)
				tries := filepath.Join(t.TempDir(), "tries")
				gittest.Hook(t, b.bare, "pre-receive", "echo x >> "+tries+"; while read old new ref; do "+rules[c.rule]+" && { echo 'policy 9' >&2; exit 1; }; done; exit 0")
				for range 40 {
					b.looks()
					b.clock.advance(10_000)
				}
				if restarted {
					b.task.Close()
					b.open()
				}
				var st Status
				for range 10 {
					st = b.looks()
					b.clock.advance(1000)
				}
				if c.at == kernel.ActionResult && c.rule != "work" { // which the rest of that push isn't
					n, err := os.ReadFile(tries)
					must(t, err)
					if words, _ := st.Rule(); st.Decision.WaitingFor != kernel.WaitRule || !strings.Contains(words, "policy 9") || len(n)/2 > 10 {
						t.Errorf("it stands %s with %q, after %d tries", st.Decision.Standing, words, len(n)/2)
					}
				}
				gittest.Hook(t, b.bare, "pre-receive", "exit 0")
				for range 24 {
					if st = b.looks(); st.Decision.Standing == kernel.StandFinal {
						break
					}
					b.clock.advance(5000)
				}
				if c.at == kernel.ActionResult && (st.Decision.Standing != kernel.StandFinal || st.Decision.Interruptions != 0) {
					t.Errorf("two minutes later it stands %s, %d interruptions", st.Decision.Standing, st.Decision.Interruptions)
				}
				b.until(kernel.StandFinal)
				delivered(t, b.bare)
				b.verify(stateRef)
				if *builders != 1 {
					t.Errorf("%d builders ran", *builders)
				}
			})
		}
	}
}

// TestA5_BranchOfStoredWork: the server keeps the change branch of a lost result alone, and
// takes no sealed work; the next process has the work and not the push. The branch is in
// nobody's way, and no builder runs again.
func TestA5_BranchOfStoredWork(t *testing.T) {
	t.Parallel()
	b, f, builders := newForgetful(t, kernel.ActionResult, "")
	f.branch = true
	b.loses(f)
	b.task.Close()
	b.open()
	b.sup.deps.Pushes = nil
	gittest.Hook(t, b.bare, "pre-receive", "while read old new ref; do git ls-tree -r --name-only $new | grep -q ^sealed/ && { echo 'policy 9' >&2; exit 1; }; done; exit 0")
	for range 6 {
		b.looks()
		b.clock.advance(hiddenMost.Milliseconds())
	}
	b.until(kernel.StandFinal)
	delivered(t, b.bare)
	if *builders != 1 {
		t.Errorf("%d builders ran", *builders)
	}
}

// TestE8_LostAndRefusedIsTold: the issue names the rule in the server's words, and no longer
// says that somebody works on it; once the rule is gone it shows the end. A person who stops
// the task meanwhile has it stopped: it isn't delivered.
func TestE8_LostAndRefusedIsTold(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		server := &forgetter{at: kernel.ActionResult, branch: true}
		f := newTold(t, func(f *forged) {
			server.bare, f.place.fault = f.bare, server.fault
			f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
		})
		f.reach(kernel.ActionResult)
		gittest.Hook(t, f.bare, "pre-receive", "while read old new ref; do test $ref = "+stateRef+" && { echo 'policy 9' >&2; exit 1; }; done; exit 0")
		_, _ = f.task.Tick(t.Context(), kernel.RequestTick, "writ") // it doesn't show it
		st := f.drive()
		if words, _ := st.Rule(); !strings.Contains(words, "policy 9") || st.Wake == 0 {
			t.Errorf("it stands %s, waits for %q, until %d", st.Decision.Standing, words, st.Wake)
		}
		f.shows("policy 9", "", true)
		gittest.Hook(t, f.bare, "pre-receive", "exit 0")
		if stopped {
			for range 3 {
				_, err := f.task.Tick(t.Context(), kernel.RequestStop, "alice")
				must(t, err)
			}
		}
		f.clock.advance(ruleSoon.Milliseconds())
		st = f.drive()
		if stopped {
			if st.Facts.Head.State != string(kernel.TaskWaiting) || st.Decision.WaitingFor != kernel.WaitApproval {
				t.Errorf("HEAD is %s, and it waits for %q", st.Facts.Head.State, st.Decision.WaitingFor)
			}
			continue
		}
		f.shows("task 1 completed", kernel.LabelCompleted, false)
		delivered(t, f.bare)
	}
}

// looks has builders end. A person is never asked, nor sent away.
func (b *bench) looks() Status {
	b.t.Helper()
	st, err := b.task.Tick(b.t.Context(), kernel.RequestTick, "local:0:root")
	if err != nil && !errors.Is(err, ErrUnsettled) {
		b.t.Fatal(err)
	}
	if d := st.Decision; d.Standing == kernel.StandRefused || d.State == kernel.TaskBlocked || d.WaitingFor == kernel.WaitRepair {
		b.t.Fatalf("it is %s: %v", d.Standing, d.Violations)
	}
	if b.task.worker.run != nil && b.task.worker.run.phase == kernel.PhaseBuilding {
		b.exec.finish()
	}
	return st
}

// refuser is a server that takes the change branch of a result alone, and says that it
// refuses all of it.
type refuser struct {
	Repo
	done bool
}

func (r *refuser) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if r.done || len(cmds) < 2 {
		return r.Repo.CompareAndSwap(ctx, cmds, pack)
	}
	r.done = true
	r.Repo.CompareAndSwap(ctx, cmds[1:], pack)
	return git.Outcome{Status: git.Refused, Reason: "policy 9"}
}

// TestA5_BranchOfARefusedResult: the change branch that a server took of a result that it
// refused is what the run delivers: it is in nobody's way.
func TestA5_BranchOfARefusedResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) {
		b.place.wrap = func(r Repo) Repo { return &refuser{Repo: r} }
	})
	b.reach(kernel.ActionResult)
	if b.ref(changeRef) == "" {
		t.Fatal("the server took nothing")
	}
	if st := b.until(kernel.StandFinal); st.Decision.State != kernel.TaskCompleted {
		t.Errorf("it is %s: %v", st.Decision.State, st.Decision.Violations)
	}
	delivered(t, b.bare)
	b.verify(stateRef)
}
