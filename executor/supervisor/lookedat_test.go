package supervisor

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// askedRepo notes which refs are asked for.
type askedRepo struct {
	Repo
	names []string
}

func (a *askedRepo) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	a.names = append(a.names, names...)
	if len(names) == 0 {
		a.names = append(a.names, "all")
	}
	return a.Repo.Refs(ctx, names...)
}

// TestJ5_OnlyRefsThatAreNeeded: no look asks for the repository's branches, which are as
// many as whoever pushes likes, and it finds the base nonetheless: HEAD's, the operator's
// and the contract's.
func TestJ5_OnlyRefsThatAreNeeded(t *testing.T) {
	t.Parallel()
	needed := []string{stateRef, changeRef, changeRef + "/", "refs/heads/writ/change", "refs/heads/writ", "refs/heads/main", "refs/heads/work", git.OnlyHead}
	for name, set := range map[string]func(b *bench){
		"HEAD":     func(*bench) {},
		"operator": func(b *bench) { b.place.cfg.Base = "refs/heads/work" },
		"contract": func(b *bench) {
			gittest.Commit(t, b.bare, "refs/heads/main", b.ref("refs/heads/main"), map[string]string{".writ/contract.yaml": "version: 1\nbase: work\n"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, base := &askedRepo{}, "refs/heads/work"
			b := newBench(t, newRepo(t), func(b *bench) {
				b.place.wrap = func(r Repo) Repo { asked.Repo = r; return asked }
				gittest.Commit(t, b.bare, "refs/heads/work", b.ref("refs/heads/main"), map[string]string{"here": "work\n"})
				set(b)
			})
			if name == "HEAD" {
				base = "refs/heads/main"
			}
			tip := b.ref(base)
			for range 2 {
				at, err := b.sup.Base(t.Context())
				if must(t, err); at.Ref != base || string(at.Tip) != tip {
					t.Errorf("the base is %s at %s", at.Ref, at.Tip)
				}
			}
			b.until(kernel.StandFinal)
			if parent := gittest.Git(t, b.bare, "rev-parse", changeRef+"^"); parent != tip {
				t.Errorf("the change stands on %s, not on %s", parent, base)
			}
			for _, n := range asked.names {
				if !slices.Contains(needed, n) && !strings.HasPrefix(n, "refs/writ/") {
					t.Errorf("%s was asked for", n)
				}
			}
		})
	}
}

// strictNames refuses to ask for what can be no ref, as git does.
type strictNames struct{ Repo }

func (s strictNames) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	for _, n := range names {
		if n != git.OnlyHead && !strings.HasSuffix(n, "/") && git.ValidateRef(n) != nil {
			return git.Refs{}, &git.Error{Code: git.CodeRefInvalid, Msg: n}
		}
	}
	return s.Repo.Refs(ctx, names...)
}

// TestJ5_NamesThatCantBeAsked: a base that can be no branch is a fault of the contract at
// every look, and never an error of one.
func TestJ5_NamesThatCantBeAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) {
		b.place.wrap = func(r Repo) Repo { return strictNames{r} }
		gittest.Commit(t, b.bare, "refs/heads/main", b.ref("refs/heads/main"), map[string]string{".writ/contract.yaml": "version: 1\nbase: missing\n"})
	})
	for range 3 {
		if st := b.tick(); len(st.Decision.Violations) == 0 || st.Decision.Violations[0].Code != kernel.CodeGovernanceInvalid {
			t.Errorf("%v", st.Decision.Violations)
		}
	}
	task := b.sup.task(1, nil)
	task.worker.run = &run{intake: &Intake{contractRef: "refs/heads/..odd"}}
	if slices.Contains(task.observer.lookedAt(), "refs/heads/..odd") {
		t.Error("a name that can be no ref is asked for at every look")
	}
}

// paidRepo notes who pays for what is fetched.
type paidRepo struct {
	Repo
	refs, blobs []*git.Budget
}

func (p *paidRepo) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	p.refs = append(p.refs, git.BudgetOf(ctx))
	return p.Repo.Refs(ctx, names...)
}

func (p *paidRepo) Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	p.blobs = append(p.blobs, git.BudgetOf(ctx))
	return p.Repo.Blobs(ctx, oids, f)
}

// TestJ5_OneBudgetALook: all that a look fetches is paid out of one budget, and each look
// has its own. A base that is laid out is bounded by itself.
func TestJ5_OneBudgetALook(t *testing.T) {
	t.Parallel()
	paid := &paidRepo{}
	b := newBench(t, newRepo(t), func(b *bench) { b.place.wrap = func(r Repo) Repo { paid.Repo = r; return paid } })
	var looks []*git.Budget
	for range 2 {
		paid.refs = nil
		b.tick()
		for _, one := range paid.refs {
			if one == nil || one != paid.refs[0] {
				t.Errorf("fetches of one look are paid out of %p and %p", one, paid.refs[0])
			}
		}
		looks = append(looks, paid.refs[0])
	}
	if looks[0] == looks[1] {
		t.Error("two looks share one budget")
	}
	paid.blobs = nil
	base := b.task.worker.baseAt(git.ZeroOID, git.Tree{})
	_ = base.Blobs(git.LookBudget().On(t.Context()), []string{b.ref("refs/heads/main")}, func(string, []byte) error { return nil })
	if len(paid.blobs) != 1 || paid.blobs[0] != nil {
		t.Errorf("a base is laid out from the budget of a look: %v", paid.blobs)
	}
}
