package supervisor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// told are acts that can't be read, or whose ref isn't as it was seen.
type told struct {
	err   error
	fault *worldref.Error
}

func (a told) Ref() string                         { return "refs/writ/world" }
func (a told) Look(context.Context, git.OID) error { return a.err }
func (a told) Append(context.Context, worldref.Act, worldref.Writer) (git.OID, error) {
	return "", a.err
}
func (a told) PutBack(context.Context) (bool, error) { return false, nil }
func (a told) Fault() *worldref.Error                { return a.fault }
func (a told) Standing(listed ...ssh.PublicKey) worldref.Standing {
	return worldref.Fold("", nil, worldref.Lists(listed))
}

// TestL18_UnreadActsDecideNothing: a key may have been revoked where the acts can't be
// read, so nothing begins. A ref that was set back is told once and holds nothing up:
// what was seen of it counts.
func TestL18_UnreadActsDecideNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(*bench) {})
	gone := errors.New("the server doesn't answer")
	b.sup.deps.Acts = told{err: gone}
	if _, err := b.task.Tick(t.Context(), kernel.RequestTick, "writ"); !errors.Is(err, gone) || b.ref(stateRef) != "" || len(b.exec.builds) > 0 {
		t.Errorf("it was decided without the acts: %v, %d builds", err, len(b.exec.builds))
	}
	var log bytes.Buffer
	b.sup.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.sup.deps.Acts = told{fault: &worldref.Error{Code: kernel.CodeWorldRollback, Detail: "It lacks an act."}}
	b.until(kernel.StandFinal)
	if n := strings.Count(log.String(), string(kernel.CodeWorldRollback)); n != 1 || len(b.exec.builds) != 1 {
		t.Errorf("it was told %d times, after %d builds\n%s", n, len(b.exec.builds), log.String())
	}
}

// TestL18_ActsMoveBeforeAnEffect: nothing is written to the forge by a look that was before an
// act of the world, which may have revoked the key that it went by.
func TestL18_ActsMoveBeforeAnEffect(t *testing.T) {
	t.Parallel()
	hook := func() {}
	f := newTold(t, func(f *forged) {
		f.place.acts = true
		f.place.wrap = func(r Repo) Repo { return read{r, func() { hook() }} }
	})
	f.reach(kernel.ActionDispatch)
	reads, before := 0, len(f.scene.Bot.Calls(forgetest.Writes()))
	hook = func() {
		if reads++; reads == 2 {
			gittest.Commit(t, f.bare, f.sup.deps.Acts.Ref(), "", map[string]string{"x": "y"})
		}
	}
	st, err := f.task.Tick(t.Context(), kernel.RequestTell, "writ")
	must(t, err)
	if writes := f.scene.Bot.Calls(forgetest.Writes())[before:]; st.Outcome == nil || st.Outcome.Status != kernel.OutcomeFailed || len(writes) > 0 {
		t.Errorf("%s came to %+v, and the forge was asked for %v", st.Decision.Action, st.Outcome, writes)
	}
}

// TestG1_TasksAt: another spelling of a number is no second name of a task.
func TestG1_TasksAt(t *testing.T) {
	t.Parallel()
	names := []string{"refs/writ/task/12", "refs/writ/task/3", "refs/writ/task/03", "refs/writ/task/+4", "refs/writ/task/0", "refs/writ/task/x", "refs/writ/world", "5"}
	if got := TasksAt(names, "refs/writ/task/"); !slices.Equal(got, []int64{3, 12}) {
		t.Errorf("got %v", got)
	}
}

// TestL19_ActsRemoved: somebody removes the ref of the world's acts after a key was
// replaced. Whoever verifies is told which act is lacking, of a result before it and of
// one after it, and a server that saw the act puts it back, so that both count again.
func TestL19_ActsRemoved(t *testing.T) {
	t.Parallel()
	acts := func(b *bench) { b.place.acts = true }
	bare := newRepo(t)
	a := newBench(t, bare, acts)
	a.until(kernel.StandFinal)
	b := newBench(t, bare, acts)
	_, err := b.sup.deps.Acts.Append(t.Context(), worldref.Act{
		Act: worldref.Rotate, Actor: "ada", Time: fixtureTime, Old: worldref.KeyLine(a.key), New: worldref.KeyLine(b.key),
		Refs: []worldref.Mark{{Ref: stateRef, Head: a.ref(stateRef)}},
	}, worldref.Writer{Signer: b.sup.deps.Signer, Name: "writ", Email: "writ@localhost"})
	must(t, err)
	b.task, err = b.sup.Open(t.Context(), 2, b.issue)
	must(t, err)
	b.until(kernel.StandFinal)

	verify := func(want bool) {
		t.Helper()
		for _, ref := range []string{stateRef, b.task.StateRef()} {
			rep, err := replay.VerifyTask(t.Context(), b.repo, ref, replay.Options{Keys: []ssh.PublicKey{b.key}})
			must(t, err)
			if rep.OK != want || slices.Contains(rep.Codes, kernel.CodeWorldRollback) == want {
				t.Errorf("%s: verified %v, %v", ref, rep.OK, rep.Codes)
			}
		}
	}
	verify(true)
	gittest.Git(t, bare, "update-ref", "-d", b.sup.deps.Acts.Ref())
	verify(false)
	var log bytes.Buffer
	b.sup.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.sup.cfg.Observe = true
	must(t, b.sup.WatchActs(t.Context()))
	if f := b.sup.ActsFault(); f == nil || f.Code != kernel.CodeWorldRollback || !strings.Contains(log.String(), string(f.Code)) {
		t.Errorf("a server that only observes shows %v\n%s", f, log.String())
	}
	b.sup.cfg.Observe = false
	must(t, b.sup.WatchActs(t.Context()))
	if f := b.sup.ActsFault(); f != nil {
		t.Error(f)
	}
	verify(true)
}

// revokes says that a key counts for nothing, as an installation that saw no acts.
func (b *bench) revokes(key ssh.PublicKey) {
	b.t.Helper()
	own, err := instancekey.Load(b.place.dir)
	must(b.t, err)
	room, err := worldref.Open(b.repo, b.place.cfg.World, worldref.Ref(DefaultRefPrefix), forgetful{})
	must(b.t, err)
	_, err = room.Append(b.t.Context(), worldref.Act{Act: worldref.Revoke, Actor: "ada", Time: fixtureTime, Old: worldref.KeyLine(key)},
		worldref.Writer{Signer: git.NewSigner(own.SSHSigner()), Name: "writ", Email: "writ@localhost"})
	must(b.t, err)
}

// TestL19_NewcomerSeesLess: whoever is new, and finds the ref of the acts removed or covered
// by a stranger, sees of other tasks that their state was signed under an act which is
// lacking. He decides nothing by others' keys until it is put back, or a person goes on
// without it.
func TestL19_NewcomerSeesLess(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(b, c *bench){
		"put back": func(b, _ *bench) { must(b.t, b.sup.WatchActs(b.t.Context())) },
		"repaired": func(_, c *bench) {
			_, err := c.sup.deps.Acts.Append(c.t.Context(), worldref.Act{
				Act: worldref.Repair, Actor: "ada", Time: 1 << 43, Refs: []worldref.Mark{{Ref: c.sup.deps.Acts.Ref(), Head: string(git.ZeroOID)}},
			}, worldref.Writer{Signer: c.sup.deps.Signer, Name: "writ", Email: "writ@localhost"})
			must(c.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acts := func(b *bench) { b.place.acts = true }
			bare := newRepo(t)
			a := newBench(t, bare, acts)
			a.until(kernel.StandFinal)
			b := newBench(t, bare, acts)
			b.revokes(a.key)
			must(t, b.sup.WatchActs(t.Context()))
			var err error
			b.task, err = b.sup.Open(t.Context(), 2, b.issue)
			must(t, err)
			b.until(kernel.StandFinal)
			gittest.Git(t, bare, "update-ref", "refs/writ/task/3", gittest.Git(t, bare, "hash-object", "-w", "--stdin"))
			gittest.Git(t, bare, "update-ref", "-d", b.sup.deps.Acts.Ref())

			c := newBench(t, bare, func(c *bench) {
				c.place.acts = true
				c.place.cfg.Trusted = []ssh.PublicKey{a.key, b.key}
			})
			rep, err := replay.VerifyTask(t.Context(), c.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{a.key, b.key}})
			if must(t, err); rep.OK || !slices.Contains(rep.Codes, kernel.CodeWorldRollback) {
				t.Errorf("verified %v, %v", rep.OK, rep.Codes)
			}
			_, err = c.task.Tick(t.Context(), kernel.RequestTick, "writ")
			if e, ok := errors.AsType[*worldref.Error](err); !ok || e.Code != kernel.CodeWorldRollback || !strings.Contains(e.Detail, "task/2") {
				t.Fatalf("it went by the revoked key: %v", err)
			}
			_, err = c.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
			if o, down := c.sup.outage.of(1); err == nil || !down || o.Code() != kernel.CodeWorldRollback {
				t.Errorf("%+v, %v, %v", o, down, err)
			}
			then(b, c)
			tick, err := c.task.Tick(t.Context(), kernel.RequestTick, "writ")
			must(t, err)
			if tick.Decision.Standing == kernel.StandFinal != (name == "repaired") {
				t.Errorf("afterwards it is %s, %v", tick.Decision.Standing, tick.Decision.Codes)
			}
		})
	}
}

// TestL19_ActsCovered: a stranger's act in the place of the acts is put back over by the
// first look of a process that saw them; the act of somebody whom the contract lists isn't.
func TestL19_ActsCovered(t *testing.T) {
	t.Parallel()
	for name, listed := range map[string]bool{"a stranger": false, "one whom the contract lists": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare := newRepo(t)
			other := newBench(t, bare, nil)
			b := newBench(t, bare, func(b *bench) {
				b.place.acts = true
				if listed {
					own, _, err := instancekey.LoadOrCreate(b.place.dir)
					must(t, err)
					b.place.terms = "version: 1\nrunners: ['" + worldref.KeyLine(own.SSHSigner().PublicKey()) + "', '" + worldref.KeyLine(other.key) + "']\n"
				}
			})
			act := b.sup.deps.Acts.Ref()
			b.revokes(gittest.NewKey(t).PublicKey())
			refs, err := b.repo.Refs(t.Context(), act)
			must(t, err)
			must(t, b.sup.deps.Acts.Look(t.Context(), refs.OID(act)))
			gittest.Git(t, bare, "update-ref", "-d", act)
			other.revokes(gittest.NewKey(t).PublicKey())
			cover := b.ref(act)
			must(t, b.sup.WatchActs(t.Context()))
			if got := b.ref(act); (got == cover) != listed || !listed && got != string(refs.OID(act)) {
				t.Errorf("the ref is at %s; seen was %s, covered by %s", got, refs.OID(act), cover)
			}
			if f := b.sup.ActsFault(); (f != nil && f.Code == kernel.CodeWorldFork) != listed {
				t.Error(f)
			}
		})
	}
}

// brokenAt is a repository with one commit that nobody can read.
type brokenAt struct {
	Repo
	oid git.OID
}

func (r brokenAt) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	if oid == r.oid {
		return git.Commit{}, &git.Error{Code: git.CodeObjectInvalid, Msg: "it is broken"}
	}
	return r.Repo.Commit(ctx, oid)
}

// TestL19_UnreadableHeadHoldsNothingUp: what nobody can read at HEAD keeps no rotation or
// revocation of a key back; it is said of its task.
func TestL19_UnreadableHeadHoldsNothingUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	b.until(kernel.StandFinal)
	refs, err := b.repo.Refs(t.Context(), "refs/writ/", "refs/heads/", git.OnlyHead)
	must(t, err)
	b.sup.deps.Repo = brokenAt{b.sup.deps.Repo, refs.OID(stateRef)}
	stands, err := b.sup.Stands(t.Context(), refs, 1)
	if err != nil || len(stands) != 1 || stands[0].Signer != "" {
		t.Errorf("%+v, %v", stands, err)
	}
}

// TestL19_OwnKeyOver: an installation whose own key counts no more, by the word of one that
// it lists, claims nothing, ends what runs, and pushes nothing: what it signed would strand
// the task for everybody. It says so, and the other one goes on.
func TestL19_OwnKeyOver(t *testing.T) {
	t.Parallel()
	for _, began := range []kernel.Action{"", kernel.ActionClaim, kernel.ActionDispatch} {
		t.Run(string(began), func(t *testing.T) {
			t.Parallel()
			acts := func(b *bench) { b.place.acts = true }
			bare := newRepo(t)
			b := newBench(t, bare, acts)
			a := newBench(t, bare, func(a *bench) {
				a.place.acts = true
				a.place.cfg.Trusted = []ssh.PublicKey{b.key}
			})
			if began != "" {
				a.reach(began)
			}
			b.revokes(a.key)
			head, builds := a.ref(stateRef), len(a.exec.builds)
			_, err := a.task.Tick(t.Context(), kernel.RequestTick, "writ")
			if e, ok := errors.AsType[*worldref.Error](err); !ok || e.Code != kernel.CodeKeyOver || !strings.Contains(e.Detail, "was revoked") {
				t.Fatalf("it goes on with a revoked key: %v", err)
			}
			_, err = a.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
			if o, down := a.sup.outage.of(1); err == nil || !down || o.Code() != kernel.CodeKeyOver {
				t.Errorf("%+v, %v, %v", o, down, err)
			}
			if a.ref(stateRef) != head || len(a.exec.builds) != builds || a.task.worker.run != nil {
				t.Errorf("HEAD %s, was %s; %d builders, %d before; a run: %t", a.ref(stateRef), head, len(a.exec.builds), builds, a.task.worker.run != nil)
			}
		})
	}
}
