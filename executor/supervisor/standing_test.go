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

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/worldref"
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
