package supervisor

import (
	"context"
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// denier is a server that takes pushes and reports that it didn't.
type denier struct {
	Repo
	says git.Status
	moot bool // it tells the truth: nothing is pushed
	only int  // the push that it lies about, from 1; 0: each
	n    int
}

func (d *denier) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if d.n++; d.says == "" || d.only > 0 && d.n != d.only {
		return d.Repo.CompareAndSwap(ctx, cmds, pack)
	}
	if !d.moot {
		if out := d.Repo.CompareAndSwap(ctx, cmds, pack); out.Status != git.Won {
			return out
		}
	}
	out := git.Outcome{Status: d.says, Reason: "ng: no", Err: &git.Error{Code: git.CodeUnable, Msg: "ng"}}
	for _, c := range cmds {
		out.PerRef = append(out.PerRef, git.RefStatus{Ref: c.Ref, Status: d.says, Reason: "ng: no"})
	}
	return out
}

// TestG5_DeniedThatWentThrough: a push that the server reports as failed is held
// against its refs. What went through is won, and the task is done by one execution;
// what didn't is what the server said.
func TestG5_DeniedThatWentThrough(t *testing.T) {
	t.Parallel()
	for _, says := range []git.Status{git.Refused, git.Unable} {
		t.Run(string(says), func(t *testing.T) {
			d, builders := &denier{says: says}, 0
			b := newBench(t, newRepo(t), func(b *bench) {
				b.place.wrap = func(r Repo) Repo { d.Repo = r; return d }
				b.exec.started = func(executor.BuildJob) { builders++ }
			})
			want(t, b.tick(), kernel.ActionClaim, kernel.OutcomeDone)
			b.until(kernel.StandFinal)
			if builders != 1 {
				t.Errorf("%d builders", builders)
			}
			delivered(t, b.bare)
			b.verify(stateRef)
		})
		t.Run(string(says)+", in truth", func(t *testing.T) {
			d := &denier{says: says, moot: true}
			b := newBench(t, newRepo(t), func(b *bench) { b.place.wrap = func(r Repo) Repo { d.Repo = r; return d } })
			if st := b.tick(); st.Outcome == nil || st.Outcome.Status == kernel.OutcomeDone {
				t.Errorf("it is taken for won: %+v", st.Outcome)
			}
		})
	}
}

// TestG5_LostThatWasWon: a server says of a push that somebody else was first, though it
// took it. What stands at HEAD is our own commit, and it goes on from there: one builder,
// one result.
func TestG5_LostThatWasWon(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"claim", "heartbeat", "result"} {
		t.Run(name, func(t *testing.T) {
			d, builders := &denier{says: git.Lost, only: i + 1}, 0
			b := newBench(t, newRepo(t), func(b *bench) {
				b.place.wrap = func(r Repo) Repo { d.Repo = r; return d }
				b.exec.hold = true
				b.exec.started = func(executor.BuildJob) { builders++ }
			})
			b.reach(kernel.ActionDispatch)
			b.exec.hold = false
			b.clock.advance(45_000)
			b.until(kernel.StandFinal)
			if builders != 1 {
				t.Errorf("%d builders", builders)
			}
			delivered(t, b.bare)
			b.verify(stateRef)
		})
	}
}

// TestG5_TakenAndNotGiven: a server takes pushes and shows its refs, but gives out no object
// that was pushed. The commit of a claim is read back before anything is done by it, so no
// builder starts, and the work is done once the server gives it.
func TestG5_TakenAndNotGiven(t *testing.T) {
	t.Parallel()
	bare, builders := newRepo(t), 0
	server := gittest.ServeHTTP(t, bare)
	server.Set(gittest.TakesOnly())
	b := newBench(t, bare, func(b *bench) {
		b.place.url = server.URL
		b.exec.started = func(executor.BuildJob) { builders++ }
	})
	want(t, b.tick(), kernel.ActionClaim, kernel.OutcomeDone)
	for range 10 {
		b.clock.advance(1500)
		if _, err := b.task.Tick(t.Context(), kernel.RequestTick, "local:0:root"); err == nil || builders > 0 {
			t.Fatalf("%d builders, and the tick says: %v", builders, err)
		}
	}
	server.Set(nil)
	b.until(kernel.StandFinal)
	if builders != 1 {
		t.Errorf("%d builders", builders)
	}
	delivered(t, bare)
	b.verify(stateRef)
}
