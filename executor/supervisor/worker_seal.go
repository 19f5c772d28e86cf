package supervisor

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// shelfTime bounds a write to the store that a push waits for.
const shelfTime = 5 * time.Second

// workOf is what the builder of the live run left, with what its checks said, where they
// were run.
func workOf(r *run) sealed.Work {
	w := sealed.New(r.dispatch, r.built.Result, r.built.Diff, r.built.Contents)
	failed := func(c kernel.CheckResult) bool { return !c.Passed }
	if (r.vetted || r.phase == kernel.PhaseChecked) && !slices.ContainsFunc(r.checked.Run.Checks, failed) {
		k := r.checked.Run
		w.Checked = &k
	}
	return w
}

// shelved is sealed work in the store, with what it was made of.
type shelved struct {
	SeedPack []byte            `json:"seed_pack"`
	Contract []byte            `json:"contract"`
	Files    map[string][]byte `json:"files"`
}

// shelve keeps in the store what the builder left, once nothing speaks against it and
// before anything is recorded or pushed: from here on no end of this process costs a
// second build. It stays there until a push that was won brings it. What can't be kept
// isn't: the push that follows is what counts.
func (w *worker) shelve(ctx context.Context, c *observation) {
	if c.facts.Keepable() {
		w.keep(ctx, w.run)
	}
}

func (w *worker) keep(ctx context.Context, r *run) {
	if w.s.deps.Shelf == nil || r.shelved {
		return
	}
	files, err := workOf(r).Files()
	if err == nil {
		var data []byte
		if data, err = json.Marshal(shelved{r.objects.pack, r.intake.Contract, files}); err == nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shelfTime)
			defer cancel()
			err = w.s.deps.Shelf.Put(ctx, w.number, r.id, data)
		}
	}
	if r.shelved = err == nil; err != nil {
		w.log().Warn("sealed work is not kept in the store", "error", err)
	}
}

// unpushed is what the store keeps of a run that was dispatched, "" for any; nil where that
// is nothing.
func (w *worker) unpushed(ctx context.Context, run string) (*shelved, error) {
	if w.s.deps.Shelf == nil {
		return nil, nil
	}
	of, data, err := w.s.deps.Shelf.Get(ctx, w.number)
	if err != nil || of == "" || run != "" && of != run {
		return nil, err
	}
	kept := &shelved{}
	if err := json.Unmarshal(data, kept); err != nil {
		w.log().Warn("sealed work in the store can't be read", "error", err)
		return nil, nil
	}
	return kept, nil
}

// readUnpushed looks in our store for what the builder of a dead lease of ours left,
// where the lease holds none: it is sealed in the same push that ends the lease, so that
// whoever comes first goes on with it.
func (w *worker) readUnpushed(ctx context.Context, c *observation) error {
	h := c.facts.Head
	if w.run != nil || c.request != kernel.RequestTick || h.State != kernel.HeadWorking || h.Trust != kernel.TrustOwn ||
		!h.Trusted() || !h.LeaseExpired {
		return nil
	}
	kept, err := w.unpushed(ctx, dispatchedOf(c.event))
	if err != nil || kept == nil {
		return err
	}
	tree, err := w.s.deps.Repo.Tree(ctx, c.head.Tree)
	if err != nil || slices.ContainsFunc(tree.Entries, func(e git.Entry) bool { return sealed.Is(e.Path) }) {
		return err
	}
	if _, err := sealed.Read(kept.Files); err != nil {
		w.log().Warn("sealed work in the store is none that could be gone on with", "error", err)
		return nil
	}
	c.unpushed, c.inputs = kept.Files, tree.Entries
	return nil
}

// sealLate adds the renewal of the lease at HEAD that seals work beside the lease's inputs:
// what only our store has of a dead lease of ours, or what ends unpushed. It is not there
// where nothing is to be sealed, or the lease can't be renewed, or the server doesn't take it:
// then it stays in the store, for a claim to bring it.
func (w *worker) sealLate(c *observation, objs *git.Objects, inputs []git.Entry, work map[string][]byte) (made madeCommit, tree git.OID, err error) {
	if work == nil || w.bare {
		return made, "", nil
	}
	if tree, err = evidence(objs, slices.Clone(inputs), work); err != nil {
		return made, "", err
	}
	made, err = w.stateCommit(c, objs, stateCommit{
		tree: tree, parent: git.OID(c.facts.Head.OID), date: c.nextDate(), seq: c.facts.NextSeq(),
		message: func(stamp []lease.Trailer) ([]byte, error) {
			return lease.Renew(c.event, lease.Renewal{RunID: c.event.RunID, Replace: stamp})
		},
	})
	return made, tree, err
}
