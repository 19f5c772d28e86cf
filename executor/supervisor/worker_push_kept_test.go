package supervisor

import (
	"context"
	"testing"

	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// answers is a repository that answers one push with something else than came of it.
type answers struct {
	Repo
	nth   int // of the pushes, from 0
	swap  func(ctx context.Context, r Repo, cmds []git.Command, pack git.Pack) git.Outcome
	again git.Outcome // to the repetition
	n     int
}

func (a *answers) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if a.n++; a.n == a.nth+1 {
		return a.swap(ctx, a.Repo, cmds, pack)
	}
	return a.Repo.CompareAndSwap(ctx, cmds, pack)
}

func (a *answers) Reassert(context.Context, []git.Command, git.Pack) git.Outcome { return a.again }

// TestL19_PushesThatWentThrough: a push that was sent twice on its way is lost the second
// time, and one whose answer was lost may be refused when it is repeated. Both are kept:
// what they brought may be at HEAD. One that was refused is not.
func TestL19_PushesThatWentThrough(t *testing.T) {
	t.Parallel()
	twice := func(ctx context.Context, r Repo, cmds []git.Command, pack git.Pack) git.Outcome {
		r.CompareAndSwap(ctx, cmds, pack)
		return git.Outcome{Status: git.Lost, Reason: "the ref has moved"}
	}
	says := func(s git.Status) func(context.Context, Repo, []git.Command, git.Pack) git.Outcome {
		return func(context.Context, Repo, []git.Command, git.Pack) git.Outcome {
			return git.Outcome{Status: s, Reason: "no"}
		}
	}
	for _, c := range []struct {
		name string
		a    answers
		kept bool
	}{
		{"sent twice", answers{swap: twice}, true},
		{"refused when repeated", answers{swap: says(git.Unknown), again: git.Outcome{Status: git.Refused, Reason: "no"}}, true},
		{"refused", answers{swap: says(git.Refused)}, false},
		{"unable", answers{swap: says(git.Unable)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var head git.OID
			swap := c.a.swap
			c.a.swap = func(ctx context.Context, r Repo, cmds []git.Command, pack git.Pack) git.Outcome {
				head = cmds[0].New
				return swap(ctx, r, cmds, pack)
			}
			b := newBench(t, newRepo(t), func(b *bench) {
				b.place.wrap = func(r Repo) Repo { c.a.Repo = r; return &c.a }
			})
			kept := pushed.Of(b.db, b.place.cfg.World)
			b.sup.deps.Pushes = kept
			b.reach(kernel.ActionClaim)
			_, gap, err := kept.Since(t.Context(), 1, "", string(head))
			if err != nil || (gap == "") != c.kept {
				t.Errorf("kept is %v (%v), want %v", gap == "", err, c.kept)
			}
		})
	}
}
