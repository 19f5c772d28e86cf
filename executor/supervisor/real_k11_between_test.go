package supervisor

import (
	"context"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// betweenChecks is an installation of an issue on a forge that died in its checks, and
// ended its lease: the sealed work is there for the next claim.
func betweenChecks(t *testing.T) *forged {
	f := newForged(t, func(f *forged) { f.place.terms = checkTerms })
	f.exec.held = func() {}
	f.label(f.scene.Owner)
	f.reach(kernel.ActionChecks)
	f.ask(kernel.RequestShutdown)
	f.exec.held = nil
	f.open()
	return f
}

// TestK11_ChangedBetween: what a person changes between the seal and the claim that
// would go on with it is judged first. Other text or a taken label waits for an
// approval; a narrower contract and a newer approval have the work done again, under
// what holds then. A halt that was taken back changes nothing.
func TestK11_ChangedBetween(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*forged)
		builders int
		ends     bool
	}{
		"nothing":         {func(*forged) {}, 1, true},
		"the instruction": {func(f *forged) { f.edit(strings.Replace(issueBody, "Please do it.", "Please do that.", 1)) }, 1, false},
		"the approval":    {func(f *forged) { f.unlabel(f.scene.Owner) }, 1, false},
		"a newer approval": {func(f *forged) {
			f.unlabel(f.scene.Owner)
			f.label(f.scene.Owner)
		}, 2, true},
		"a narrower contract": {func(f *forged) {
			f.place.terms = checkTerms + "paths: {protected: [out.txt]}\n"
			f.open()
		}, 1, false},
		"another contract": {func(f *forged) {
			f.place.terms = checkTerms + "notify: [ana]\n"
			f.open()
		}, 2, true},
		"a halt": {func(f *forged) {
			must(f.t, f.sup.Halt(f.t.Context(), 1, "alice", "stop"))
			must(f.t, f.sup.Resume(f.t.Context(), 1, "alice", "go on"))
			f.open()
		}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := betweenChecks(t)
			c.change(f)
			for range 30 {
				st := f.tick()
				if d := st.Decision.Standing; d == kernel.StandFinal || d == kernel.StandWaiting && !c.ends || d == kernel.StandRefused {
					break
				}
				f.clock.advance(1_000)
			}
			done := strings.Contains(gittest.Git(t, f.bare, "log", "-1", "--format=%B", stateRef), "aynig-state: completed")
			if f.started() != c.builders || done != c.ends {
				t.Errorf("%d builders, completed %v", f.started(), done)
			}
		})
	}
}

// TestK11_TwoAtOnce: two installations would go on with the same sealed work at the same
// moment. One claim wins; the other's store and run come to nothing.
func TestK11_TwoAtOnce(t *testing.T) {
	t.Parallel()
	b := newInChecks(t)
	b.open()
	b.reach(kernel.ActionTakeOver)
	b.exec.held = nil
	other := b.joins(t)
	b.trusts(other)
	b.place.wrap = func(r Repo) Repo { return &rivalled{Repo: r, first: func() { other.reach(kernel.ActionClaim) }} }
	b.open()
	b.tick()
	other.until(kernel.StandFinal)
	b.until(kernel.StandFinal)
	if n := len(b.exec.builds) + len(other.exec.builds); n != 1 {
		t.Errorf("%d builders", n)
	}
	if n := strings.Count(gittest.Git(t, b.bare, "log", "--format=%B", stateRef), "aynig-state: completed"); n != 1 {
		t.Errorf("%d results", n)
	}
}

// rivalled lets somebody else push first, once.
type rivalled struct {
	Repo
	first func()
}

func (r *rivalled) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if f := r.first; f != nil {
		r.first = nil
		f()
	}
	return r.Repo.CompareAndSwap(ctx, cmds, pack)
}
