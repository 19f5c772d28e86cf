package supervisor

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/kerneltest"
)

// sealedBy has a runner come to its checks, with the work sealed at HEAD.
func (s *sim) sealedBy(r *simRunner) {
	s.t.Helper()
	r.reach(kernel.ActionChecks)
	if !s.sealedAtHead() {
		s.fail("the checks begin and nothing is sealed")
	}
}

// expectResumed: the task was completed with one build, whose work a later run went on
// with.
func (s *sim) expectResumed(claims int, interruptions int64) {
	s.t.Helper()
	s.expect("completed", claims, 1, 1)
	s.expectCounts(1, interruptions)
	if s.check.Resumed != s.check.Claims-1 {
		s.fail("%d of %d claims went on with sealed work", s.check.Resumed, claims)
	}
	if s.sealedAtHead() && s.head().State != "completed" {
		s.fail("HEAD still holds sealed blobs")
	}
}

// TestSim_K11_InterruptedInTheChecks: whatever ends a run once its builder has ended,
// in the checks, its sealed work is judged by whoever comes next, and nobody builds
// again. The interruption counts as any other, the attempt doesn't.
func TestSim_K11_InterruptedInTheChecks(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sim, *simRunner){
		"killed":         func(_ *sim, a *simRunner) { a.crash() },
		"the lease lost": func(s *sim, a *simRunner) { a.asleep = true; s.pastLease(s.runners[1]); a.asleep = false },
		"shut down":      func(_ *sim, a *simRunner) { _, _ = a.ask(kernel.RequestShutdown); a.crash() },
	} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other=%v", name, other), func(t *testing.T) {
				s := newSim(t, 1, 0, 0)
				a, b := s.runners[0], s.runners[1]
				s.sealedBy(a)
				end(s, a)
				if other {
					a.crash()
					s.pastLease(b)
					s.finishBy(b)
				} else {
					s.finishBy(a)
				}
				n := s.check.Claims // the sleeper's lease is taken, and given back by who took it
				s.expectResumed(n, int64(n-1))
				if name != "the lease lost" && n != 2 {
					s.fail("%d claims", n)
				}
			})
		}
	}
}

// TestSim_K11_AgainAndAgain: sealed work outlives several interruptions, each by
// another instance, and each of them counts.
func TestSim_K11_AgainAndAgain(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0, 0)
	for i, r := range s.runners {
		s.pastLease(s.runners[i:]...)
		for range 40 {
			if st := r.tick(); st.Decision.Action == kernel.ActionChecks {
				break
			} else if st.Decision.Standing == kernel.StandDue {
				s.advance(st.Decision.Wake - r.clock.Now().WallMs)
			}
			for _, j := range r.building() {
				j.finish()
			}
		}
		r.crash()
	}
	a := s.runners[0]
	a.up()
	s.pastLease(a)
	s.finishBy(a)
	if n := s.check.Claims; n < 3 {
		s.fail("%d claims", n)
	}
	s.expectResumed(s.check.Claims, int64(s.check.Claims-1))
}

// TestSim_K11_Unlisted: what an instance has sealed that isn't listed is of no use to
// another.
func TestSim_K11_Unlisted(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	s.isolate()
	s.sealedBy(a)
	a.crash()
	for range 100 {
		s.advance(60_000)
		b.tick()
	}
	if s.check.Resumed != 0 {
		s.fail("an unlisted writer's work was gone on with")
	}
}

// TestSim_K11_Dropped: sealed work is not gone on with where a person stopped it, the
// base was rewritten below it, or the contract is another: the work is built anew, under
// what holds then.
func TestSim_K11_Dropped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sim, *simRunner){
		"stopped by a person": func(s *sim, r *simRunner) {
			_, _ = r.ask(kernel.RequestStop)
			must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "go on"))
		},
		"another contract": func(s *sim, r *simRunner) {
			s.terms += "notify: [ana]\n"
			r.crash()
			r.up()
		},
		"a rewritten base": func(s *sim, _ *simRunner) {
			s.server.Force("refs/heads/main", s.commit("", "another root\n", map[string]string{"README": "other\n"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1, 0)
			a := s.runners[0]
			s.sealedBy(a)
			_, _ = a.ask(kernel.RequestShutdown)
			a.crash()
			a.up()
			change(s, a)
			s.finishBy(a)
			s.expect("completed", 2, 2, 1)
			if s.check.Resumed != 0 {
				s.fail("sealed work was gone on with")
			}
		})
	}
}

// TestSim_K11_HaltedInTheChecks: a halt and its resume cost no build either, and count
// nothing.
func TestSim_K11_HaltedInTheChecks(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	s.sealedBy(a)
	_, _ = a.ask(kernel.RequestHalt)
	must(t, a.proc.sup.Halt(t.Context(), 1, "alice", "wait"))
	a.crash()
	a.up()
	must(t, a.proc.sup.Resume(t.Context(), 1, "alice", "go on"))
	s.finishBy(a)
	s.expectResumed(2, 0)
}

// TestSim_K11_BaseMovesOn: a base that moved on above the pinned commit holds the work:
// it is delivered on the commit that it was made on, as without the interruption.
func TestSim_K11_BaseMovesOn(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	s.sealedBy(a)
	pinned := s.server.Ref("refs/heads/main")
	for range 3 {
		s.server.Force("refs/heads/main", s.commit(s.server.Ref("refs/heads/main"), "on\n", map[string]string{"README": "hi\n", "more": "x"}))
	}
	a.crash()
	a.up()
	s.finishBy(a)
	s.expectResumed(2, 1)
	o, _ := s.server.Object(s.head().Change)
	if !strings.Contains(string(o.Data), "parent "+pinned) {
		s.fail("the change isn't made on the pinned base")
	}
}

// TestSim_K11_Tampered: each byte of sealed work is hashed again, and its scope judged
// from the trees, though a listed instance has signed it.
func TestSim_K11_Tampered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string][]byte){
		"other bytes": func(files map[string][]byte) {
			for n := range files {
				if strings.HasPrefix(n, sealed.Dir) {
					files[n] = []byte("evil\n")
				}
			}
		},
		"a blob more": func(files map[string][]byte) { files[sealed.Dir+"00"] = []byte("x") },
		"a blob less": func(files map[string][]byte) { drop(files, sealed.Dir) },
		"no manifest": func(files map[string][]byte) { files[sealed.File] = []byte("{}") },
		"outside the scope": func(files map[string][]byte) {
			files[sealed.File] = []byte(strings.ReplaceAll(string(files[sealed.File]), `"path":"out.txt"`, `"path":"evil.txt"`))
		},
		"a protected path": func(files map[string][]byte) {
			files[sealed.File] = []byte(strings.ReplaceAll(string(files[sealed.File]), `"path":"out.txt"`, `"path":".github/workflows/x.yml"`))
		},
		"another dispatch": func(files map[string][]byte) {
			files[sealed.File] = []byte(strings.ReplaceAll(string(files[sealed.File]), `"step":"s1"`, `"step":"s2"`))
		},
		"another run": func(files map[string][]byte) {
			m, err := sealed.Decode(files[sealed.File])
			if err != nil {
				panic(err)
			}
			const run = "0b9c6f0e-3c1e-4f5e-9a59-0f6e2b7d4c11"
			files[sealed.File] = []byte(strings.ReplaceAll(string(files[sealed.File]), m.Dispatch.RunID, run))
		},
		"an addition that is none": func(files map[string][]byte) {
			files[sealed.File] = []byte(strings.ReplaceAll(string(files[sealed.File]), `"before_id":""`, `"before_id":"`+strings.Repeat("a", 40)+`"`))
		},
		"the seed pack of another task": func(files map[string][]byte) {
			files[replay.FileSeedPack] = []byte(strings.ReplaceAll(string(files[replay.FileSeedPack]), `"task_id":1`, `"task_id":2`))
		},
		"the seed pack of another world": func(files map[string][]byte) {
			files[replay.FileSeedPack] = []byte(strings.ReplaceAll(string(files[replay.FileSeedPack]), "forge.example/owner/repo", "forge.example/owner/fork"))
		},
		"another text in the seed pack": func(files map[string][]byte) {
			files[replay.FileSeedPack] = []byte(strings.ReplaceAll(string(files[replay.FileSeedPack]), "Please do it.", "Please do that."))
		},
		"a wider scope": func(files map[string][]byte) {
			files[replay.FileSeedPack] = []byte(strings.ReplaceAll(string(files[replay.FileSeedPack]), `"out.txt"`, `"**"`))
		},
		"thousands of blobs": func(files map[string][]byte) {
			for i := range maxSealedFiles {
				files[fmt.Sprintf("%s%064x", sealed.Dir, i)] = []byte("x")
			}
		},
		"a merge that nobody asked for": func(files map[string][]byte) {
			id := strings.Repeat("a", 40)
			files[sealed.File] = []byte(strings.Replace(string(files[sealed.File]), `"kind":"diff",`,
				`"kind":"diff","merged":[{"base_id":"`+id+`","ours_id":"`+id+`","path":"out.txt","theirs_id":"`+id+`"}],`, 1))
		},
		"a symbolic link": func(files map[string][]byte) {
			files[sealed.File] = []byte(strings.ReplaceAll(string(files[sealed.File]), `"after_mode":"100644"`, `"after_mode":"120000"`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 1, 0, 0)
			a, b := s.runners[0], s.runners[1]
			s.sealedBy(a)
			a.crash()
			a.up()
			a.reach(kernel.ActionTakeOver)
			s.retree(a, change) // B has seen nothing of the task yet
			a.crash()
			b.until(kernel.StandFinal)
			s.expect("completed", 2, 2, 1)
			if s.check.Resumed != 0 {
				s.fail("tampered work was gone on with")
			}
		})
	}
}

// TestSim_K11_Modes: of a file whose mode alone was changed nothing lies sealed, so that
// what the work says of its bytes is held against the base.
func TestSim_K11_Modes(t *testing.T) {
	t.Parallel()
	for lie, builders := range map[string]int{"": 1, "size": 2, "hash": 2} {
		s := newSim(t, 1, 0, 0)
		s.server.Force("refs/heads/main", s.commit("", "base\n", map[string]string{"out.txt": "hi\n"}))
		a, b := s.runners[0], s.runners[1]
		a.reach(kernel.ActionDispatch)
		id := git.HashBlob([]byte("hi\n"))
		job := a.building()[0]
		job.out.Diff.Changes = []kernel.Change{{
			Path: "out.txt", Op: kernel.OpMode, BeforeID: string(id), BeforeMode: "100644", AfterID: string(id), AfterMode: "100755",
			AfterHash: canon.Sum([]byte("hi\n")), Size: 3,
		}}
		job.out.Contents = nil
		switch c := &job.out.Diff.Changes[0]; lie {
		case "size":
			c.Size = 2
		case "hash":
			c.AfterHash = canon.Sum(nil)
		}
		a.reach(kernel.ActionChecks)
		a.crash()
		s.pastLease(b)
		for range 20 {
			if b.last.Decision.Action == kernel.ActionClaim {
				break
			}
			b.tick()
		}
		if got := s.check.Claims - s.check.Resumed; got != builders {
			s.fail("a lie about the %q: %d claims, %d went on with sealed work", lie, s.check.Claims, s.check.Resumed)
		}
	}
}

// TestSim_K11_SealedByAStranger: a listed writer's word that a lease is broken copies the
// tree of that lease. Who sealed it is read from the lease, and must be listed himself.
func TestSim_K11_SealedByAStranger(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	s.sealedBy(a)
	a.crash()
	a.up()
	a.reach(kernel.ActionTakeOver)
	s.sealedByStranger(a)
	a.crash()
	b.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
	if s.check.Resumed != 0 {
		s.fail("a stranger's work was gone on with")
	}
}

// sealedByStranger signs the lease below HEAD with a key that nobody lists, and HEAD as it was.
func (s *sim) sealedByStranger(r *simRunner) {
	s.t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	s.choice.Bytes(seed)
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	must(s.t, err)
	own := r.signer
	s.rebuild(r, func(map[string][]byte) {}, git.NewSigner(key), own)
}

func drop(files map[string][]byte, prefix string) {
	for n := range files {
		if strings.HasPrefix(n, prefix) {
			delete(files, n)
		}
	}
}

// retree puts other files under HEAD and the lease below it, as a listed instance
// could that lies.
func (s *sim) retree(r *simRunner, change func(map[string][]byte)) {
	s.t.Helper()
	s.rebuild(r, change, r.signer, r.signer)
}

// rebuild makes HEAD and the lease below it anew, each signed by somebody.
func (s *sim) rebuild(r *simRunner, change func(map[string][]byte), leases, heads git.Signer) {
	s.t.Helper()
	ctx, repo := context.Background(), &simRepo{r.proc}
	tree, err := repo.Tree(ctx, git.OID(s.head().Tree))
	must(s.t, err)
	files := map[string][]byte{}
	for _, e := range tree.Entries {
		o, _ := s.server.Object(string(e.OID))
		files[e.Path] = o.Data
	}
	change(files)
	objs := git.NewObjects()
	id, err := evidence(objs, nil, files)
	must(s.t, err)
	again := func(oid, parent string, signer git.Signer) string {
		c, err := repo.Commit(ctx, git.OID(oid))
		must(s.t, err)
		spec := git.CommitSpec{Tree: id, Author: c.Author, Committer: c.Committer, Message: c.Message, Parents: c.Parents}
		if parent != "" {
			spec.Parents = []git.OID{git.OID(parent)}
		}
		made, err := objs.Commit(spec, signer)
		must(s.t, err)
		return string(made)
	}
	head := again(s.head().OID, again(s.head().Parent, "", leases), heads)
	list, err := kerneltest.ReadPack(objs.Pack().Data)
	must(s.t, err)
	s.server.Put(list...)
	s.server.Force(s.check.StateRef, head)
}

// TestSim_K11_RefusedSeal: a server that takes no sealed work by a rule of its own costs
// the insurance, and nothing else.
func TestSim_K11_RefusedSeal(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	for _, j := range a.building() {
		j.finish()
	}
	a.push = kerneltest.Refuse
	if st := a.tick(); st.Decision.Action != kernel.ActionSeal || outcomeOf(st) != kernel.OutcomeRefused {
		s.fail("%s %s", st.Decision.Action, outcomeOf(st))
	}
	if st := a.tick(); st.Decision.Action != kernel.ActionChecks {
		s.fail("%s comes after the refused seal", st.Decision.Action)
	}
	a.until(kernel.StandFinal)
	s.expect("completed", 1, 1, 1)
	s.expectCounts(1, 0)
}

// TestSim_K11_ARuleAgainstSealedWork: where no push may bring sealed work, it is gone on
// with from the store, and an interruption costs neither task nor build, unless somebody
// without that store began anew meanwhile.
func TestSim_K11_ARuleAgainstSealedWork(t *testing.T) {
	t.Parallel()
	for _, at := range []Point{PointOf(kernel.ActionSeal, StageRecorded), PointOf(kernel.ActionSeal, StageDone), PointOf(kernel.ActionChecks, StageRecorded)} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other=%v", at, other), func(t *testing.T) {
				s := newSim(t, 1, 0, 0)
				s.rule = sealedWork
				a, b := s.runners[0], s.runners[1]
				a.dieAtPoint(at)
				if other {
					s.pastLease(b)
					b.crash()
				}
				a.up()
				s.pastLease(a)
				s.finishBy(a)
				if n := s.check.Dispatched(); s.head().State != "completed" || s.check.Accepted != 1 || other && n > 2 || !other && (n != 1 || s.check.Resumed == 0) || a.shelf.run != "" {
					s.fail("%s after %d dispatches, %d resumed", s.head().State, n, s.check.Resumed)
				}
			})
		}
	}
}

// TestSim_K11_KilledAnywhere: from the moment on at which the kernel knows what the
// builder left, no kill under one state directory costs a second build, and no two or
// three in a row do.
func TestSim_K11_KilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, at := range Points() {
		var deaths []Point
		switch a, _, _ := strings.Cut(string(at), ":"); kernel.Action(a) {
		case kernel.ActionSeal, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionResult:
			deaths = []Point{at}
		case kernel.ActionTakeOver, kernel.ActionClaim:
			deaths = []Point{PointOf(kernel.ActionSeal, StageRecorded), at}
		default:
			continue
		}
		for _, more := range [][]Point{nil, {at}, {PointOf(kernel.ActionClaim, StageRecorded)}} {
			deaths := append(slices.Clone(deaths), more...)
			t.Run(fmt.Sprint(deaths), func(t *testing.T) {
				t.Parallel()
				s := newSim(t, 1, 0)
				a := s.runners[0]
				a.reach(kernel.ActionDispatch)
				for _, j := range a.building() {
					j.finish()
				}
				for range 60 {
					if a.up(); a.dieAt == "" && len(deaths) > 0 {
						a.dieAt, deaths = deaths[0], deaths[1:]
					}
					st := a.tick()
					if st.Decision.Standing == kernel.StandFinal {
						break
					}
					if st.Decision.Standing == kernel.StandDue {
						s.advance(st.Decision.Wake - a.clock.Now().WallMs)
					}
				}
				s.expectResumed(s.check.Claims, int64(s.check.Claims-1))
				if a.shelf.run != "" {
					s.fail("the store still keeps the work of run %s", a.shelf.run)
				}
			})
		}
	}
}

// TestSim_K11_FromTheStoreOverAnother: another instance breaks the lease that holds no
// sealed work, and dies. Who has the work in its store goes on with it all the same.
func TestSim_K11_FromTheStoreOverAnother(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{StageDecided, StageRecorded} {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		a.dieAtPoint(PointOf(kernel.ActionSeal, stage))
		s.advance(40_000)
		for range 20 {
			if b.tick().Decision.Action == kernel.ActionTakeOver {
				break
			}
			s.advance(20_000)
		}
		b.crash()
		a.up()
		s.finishBy(a)
		s.expectResumed(2, 1)
		if a.shelf.run != "" {
			s.fail("the store still keeps the work of run %s", a.shelf.run)
		}
	}
}

// TestSim_K11_SealedWithItsEnd: who comes back finds the work in his store, and seals it
// in the push that ends his dead lease. Another instance may then go on with it.
func TestSim_K11_SealedWithItsEnd(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{StageDone, StageSettled} {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		a.dieAtPoint(PointOf(kernel.ActionSeal, StageRecorded))
		a.up()
		a.dieAtPoint(PointOf(kernel.ActionTakeOver, stage))
		if !s.sealedAtHead() {
			s.fail("a dead lease is ended and its work isn't sealed")
		}
		b.until(kernel.StandFinal)
		s.expectResumed(2, 1)
	}
}

// TestSim_K11_NothingBadIsKept: work that something speaks against is neither sealed nor
// kept in the store, be it looked at or not.
func TestSim_K11_NothingBadIsKept(t *testing.T) {
	t.Parallel()
	for _, build := range []string{"bad", "leaks"} {
		for _, blind := range []bool{false, true} {
			s := newSim(t, 1, 0)
			a := s.runners[0]
			a.build = build
			if blind {
				s.endsUnread(a)
			} else {
				a.reach(kernel.ActionResult)
			}
			if a.shelf.run != "" {
				s.fail("%s work is kept, unread: %v", build, blind)
			}
		}
	}
}

// endsUnread has a builder end while nothing can be read, and the process go on until the
// lease is over.
func (s *sim) endsUnread(a *simRunner) {
	s.t.Helper()
	s.built(a)
	s.blind = true
	for range 200 {
		a.step()
		s.advance(2_000)
	}
	if a.proc.task.worker.run != nil {
		s.fail("it still holds its lease")
	}
	s.blind = false
}

// TestSim_K11_EndedUnread: a builder ends while the server is down, and its lease with it.
// What it left is gone on with, by the same process and by another under the same state
// directory; not where a person stopped it meanwhile.
func TestSim_K11_EndedUnread(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		s.endsUnread(a)
		if killed {
			a.crash()
		}
		s.finishBy(a)
		s.expect("completed", 2, 1, 1)
	}
	s := newSim(t, 1, 0)
	a := s.runners[0]
	s.built(a)
	a.proc.task.worker.run.heeded.Human = []kernel.Violation{{Code: kernel.CodeTaskStopped}}
	a.proc.task.worker.giveUpIfOverdue()
	if a.shelf.run != "" {
		s.fail("what a person stopped is kept")
	}
}

// TestSim_K11_KeptInTheStore: while the server takes no push, sealed work stays in the
// instance's store, and the next claim brings it: nobody builds again after an outage.
func TestSim_K11_KeptInTheStore(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionDispatch)
	for _, j := range a.building() {
		j.finish()
	}
	a.dieAt = PointOf(kernel.ActionSeal, StageDone)
	a.push = kerneltest.Refuse
	a.tick()
	if a.proc != nil || s.sealedAtHead() {
		s.fail("it lives, or the work was pushed")
	}
	if a.shelf.run == "" {
		s.fail("nothing is kept")
	}
	a.up()
	s.finishBy(a)
	s.expectResumed(2, 1)
	if a.shelf.run != "" {
		s.fail("the store still keeps the work of run %s", a.shelf.run)
	}
}

// memShelf is a shelf in memory, on a runner's disk.
type memShelf struct {
	run  string
	work []byte
}

func (m *memShelf) Put(_ context.Context, _ int64, run string, work []byte) error {
	m.run, m.work = run, work
	return nil
}

func (m *memShelf) Get(context.Context, int64) (string, []byte, error) { return m.run, m.work, nil }

func (m *memShelf) Drop(context.Context, int64) error { *m = memShelf{}; return nil }
