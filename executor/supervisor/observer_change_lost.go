package supervisor

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// makerWait is how long the change branch of another installation's result is left to that
// one, where it isn't there.
const makerWait = time.Minute

// missing is the change branch of an accepted result at HEAD that isn't there.
type missing struct {
	change  git.OID
	pack    git.Pack           // what is to be pushed, nil data for nothing
	refused []kernel.Violation // by a rule, with the server's words
	again   int64              // when the next try is due, Unix milliseconds
}

// readMissing looks for the commit that an accepted result at HEAD names. A server that
// isn't atomic may have taken the state ref alone, and whoever pushed it may be gone: the
// branch is made from what that one has sealed, or from the server's own objects. Where
// somebody took it away, it stays away.
func (o *observer) readMissing(ctx context.Context, c *observation) error {
	f, change := &c.facts, c.verified()
	if o.worker.run != nil || c.noBase != nil || !f.Delivered() || !change.Valid() {
		return nil //nolint:nilerr // where the base is lacking, nothing is made
	}
	if c.change == change {
		f.Head.Shown = string(change)
	}
	owed, err := o.owesBranch(ctx, c, change)
	if err != nil {
		return err
	}
	if !owed {
		o.worker.missing = nil
		o.worker.confirm()
		return nil
	}
	if o.worker.missing == nil || o.worker.missing.change != change {
		m := &missing{change: change}
		if m.pack, err = o.deliverable(ctx, c, change); err != nil {
			return err
		}
		o.worker.missing = m
	}
	m := o.worker.missing
	f.Missing = &kernel.MissingFacts{Change: string(change), Due: m.again, Refused: m.refused, Faults: []kernel.Violation{}}
	if f.Head.Trust != kernel.TrustOwn {
		f.Missing.Due = max(m.again, c.headAt()+makerWait.Milliseconds())
	}
	switch {
	case c.inWay != "":
		f.Missing.Faults = o.branchTaken(c)
	case len(m.pack.Data) == 0:
		f.Missing.Faults = []kernel.Violation{{
			Code: kernel.CodeChangeLost, Subject: o.ChangeRef(),
			Detail: "The result is commit " + string(change) + ", and the server has neither that branch nor the commit.",
		}}
	}
	return nil
}

// owesBranch reports whether the branch of HEAD's result isn't there and was never seen:
// no look of ours showed it, the base hasn't got its changes, and no change of it was
// opened. Where the branch is what HEAD says that it was before the result, the push that
// was to move it did that by half; an open change then shows what it showed before.
func (o *observer) owesBranch(ctx context.Context, c *observation, change git.OID) (bool, error) {
	behind := !c.change.IsZero() && c.change == c.named(kernel.TrailerBranch)
	if c.change == change || !c.change.IsZero() && !behind {
		return false, nil
	}
	if c.facts.View.Shown == string(change) {
		if back, err := o.putBackAt(ctx, c); err != nil || !back || !behind {
			return false, err
		}
	}
	if has, err := o.landed(ctx, c, change); has || err != nil || !o.remote {
		return !has, err
	}
	found, err := o.tracker.findChange(ctx, c.intake.baseBranch())
	if forge.IsReason(err, forge.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if behind && found.State == forge.ChangeOpen {
		return true, nil
	}
	self, err := o.s.self(ctx)
	if err != nil {
		return false, err
	}
	run, _ := o.marker().status(found.Body)
	return o.tracker.endedBefore(ctx, c, found, run, found.Author.ID == self.ID)
}

// putBackAt reports whether HEAD is a result that was put back over the lease of a run that
// was to replace it. What that run may have left on the branch doesn't stay there, though
// the branch was seen as it is to be.
func (o *observer) putBackAt(ctx context.Context, c *observation) (bool, error) {
	data, err := o.readFile(ctx, c.head.Tree, replay.FileRefresh)
	return data != nil, err
}

// landed reports whether the base has a commit that was made on it, or everything that
// it changed, be it squashed or picked.
func (o *observer) landed(ctx context.Context, c *observation, change git.OID) (bool, error) {
	tip, on := c.intake.BaseCommit, c.builtOn()
	if tip == on {
		return false, nil
	}
	since, _, err := o.s.deps.Repo.Log(ctx, []git.OID{tip}, []git.OID{on, change}, maxBaseMoves)
	if err != nil {
		return false, gitTrouble(err)
	}
	if tip == change || slices.ContainsFunc(since, func(k git.Commit) bool { return slices.Contains(k.Parents, change) }) {
		return true, nil
	}
	differ, err := o.tracker.compare(ctx, on, change, change, tip)
	if err != nil {
		return false, gitTrouble(err)
	}
	return len(differ) == 0, nil
}

// deliverable is what brings the commit of HEAD's result: our own push, what was sealed
// below it, or the commit itself where the server has it without a branch. It is the one
// that HEAD names under its signature, or nothing.
func (o *observer) deliverable(ctx context.Context, c *observation, change git.OID) (git.Pack, error) {
	if p := o.worker.unseen; p != nil && string(p.to()) == c.facts.Head.OID {
		return p.pack, nil
	}
	objs := git.NewObjects()
	made, err := o.madeAgain(ctx, c, objs)
	if err == nil && made == change {
		return objs.Pack(), nil
	}
	if err != nil {
		return git.Pack{}, err
	}
	commit, err := o.s.deps.Repo.Commit(ctx, change)
	if err == nil {
		_, err = o.s.deps.Repo.Tree(ctx, change)
	}
	if err != nil {
		return git.Pack{}, gitTrouble(err)
	}
	objs = git.NewObjects()
	objs.Again(commit)
	return objs.Pack(), nil
}

// madeAgain adds the commit that delivers what was sealed right below HEAD, or that HEAD's
// evidence tells of, "" for none.
func (o *observer) madeAgain(ctx context.Context, c *observation, objs *git.Objects) (git.OID, error) {
	if len(c.head.Parents) != 1 {
		return "", nil
	}
	below, err := o.s.deps.Repo.Commit(ctx, c.head.Parents[0])
	if err != nil {
		return "", gitTrouble(err)
	}
	made, err := o.remade(ctx, below.Tree, objs, c.head.Committer)
	if err != nil || made == c.verified() {
		return made, err
	}
	return o.reapplied(ctx, &replacedResult{commit: c.head, event: c.event}, c.head.Tree, objs, c.head.Committer)
}

// reapplied adds the commit by which somebody delivers the work that the evidence of a
// result tells of, on the base of the seed pack in another tree, or in its own; "" where it
// can't be made. A run that applies delivered work on another base seals nothing: the bytes
// are in what it replaces.
func (o *observer) reapplied(ctx context.Context, of *replacedResult, inputs git.OID, objs *git.Objects, who git.Person) (git.OID, error) {
	work, err := o.workAt(ctx, of.commit.Tree)
	if err != nil || !work.ok {
		return "", err
	}
	if of.commit.Tree != inputs { // revised work is more than its last revision
		pack, err := o.seedAt(ctx, of.commit.Tree)
		if err != nil {
			return "", gitTrouble(err)
		}
		if v := pack.Revision; v != nil {
			d, err := o.readDelivered(ctx, git.OID(trailer(of.event, kernel.TrailerChange)), git.OID(v.Origin))
			if err != nil {
				return "", gitTrouble(err)
			}
			work.diff.Changes = d.changes
		}
	}
	data, err := o.readFile(ctx, inputs, replay.FileSeedPack)
	if err != nil {
		return "", gitTrouble(err)
	}
	r := &run{dispatch: work.dispatch, built: executor.BuildOutcome{Diff: work.diff}}
	if canon.UnmarshalCanonical(data, &r.pack) != nil {
		return "", nil //nolint:nilerr // it can't be made
	}
	if r.base, err = o.s.deps.Repo.Tree(ctx, git.OID(r.pack.Pins.BaseCommit)); err != nil {
		return "", gitTrouble(err)
	}
	on, err := rebasedOn(ctx, o.s.deps.Repo, work.diff.Changes, r.base)
	if err != nil || len(on.Changes) == 0 {
		return "", err
	}
	r.built.Diff.Changes = on.Changes
	if of.commit.Tree == inputs { // its own merges
		if on.Contents, err = o.mergedAgain(ctx, work.diff.Merged); err != nil {
			return "", gitTrouble(err)
		}
	}
	if r.built.Contents, err = o.contentsOf(ctx, on); err != nil {
		return "", gitTrouble(err)
	}
	oid, err := changeCommit(objs, r, who)
	if err != nil {
		return "", nil //nolint:nilerr // what lies there is no work of ours
	}
	return oid, nil
}

// mergedAgain merges files that were merged once before, by blob id.
func (o *observer) mergedAgain(ctx context.Context, list []kernel.MergedFile) (map[string][]byte, error) {
	out, blobs := map[string][]byte{}, map[git.OID][]byte{}
	var ids []git.OID
	for _, m := range list {
		ids = append(ids, git.OID(m.BaseID), git.OID(m.OursID), git.OID(m.TheirsID))
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return out, nil
	}
	err := o.s.deps.Repo.Blobs(ctx, slices.Compact(ids), func(oid git.OID, data []byte) error {
		blobs[oid] = bytes.Clone(data)
		return nil
	})
	for _, m := range list {
		if data, ok := git.MergeLines(blobs[git.OID(m.BaseID)], blobs[git.OID(m.OursID)], blobs[git.OID(m.TheirsID)]); ok {
			out[string(git.HashBlob(data))] = data
		}
	}
	return out, err
}

// remade adds the commit by which somebody delivers what lies sealed in a tree, or else
// in our store; "" where nothing does.
func (o *observer) remade(ctx context.Context, tree git.OID, objs *git.Objects, who git.Person) (git.OID, error) {
	l := &leftWork{}
	err := o.leftAt(ctx, tree, l)
	if err == nil && l.files == nil {
		err = o.leftInStore(ctx, "", l)
	}
	if err != nil || l.files == nil || l.read() != nil {
		return "", err
	}
	base, err := o.s.deps.Repo.Tree(ctx, git.OID(l.pack.Pins.BaseCommit))
	if err != nil {
		return "", gitTrouble(err)
	}
	r := &run{pack: l.pack, dispatch: l.work.Dispatch, base: base, built: executor.BuildOutcome{Diff: l.work.Diff, Contents: l.work.Contents}}
	oid, err := changeCommit(objs, r, who)
	if err != nil {
		return "", nil //nolint:nilerr // what lies there is no work of ours
	}
	return oid, nil
}

// readStray looks whether the change branch is what a run of this task would have
// delivered, of whose result a server took the branch alone. That is so where HEAD says so,
// or where the commit is the one that a judged run delivers, or that brings what lies sealed
// at HEAD or else in our store, or the result that a lease at HEAD is to replace on that
// lease's base: message, base, tree and time are the dispatch's, whoever pushed it. Such a
// branch is nobody's work but writ's, and stands in no run's way.
func (o *observer) readStray(ctx context.Context, c *observation) error {
	switch r := o.worker.run; {
	case c.change.IsZero() || c.facts.Delivered():
		return nil
	case r != nil:
		if c.change == r.stray || c.change == r.change {
			c.stray = c.change
		}
		return nil
	case !c.facts.Head.Trusted():
		return nil
	case c.named(kernel.TrailerBranch) == c.change:
		c.stray = c.change
		return nil
	}
	if k := (strayKey{c.head.Tree, c.change, c.was != nil}); o.stray.of != k {
		commit, err := o.s.deps.Repo.Commit(ctx, c.change)
		if err != nil {
			return gitTrouble(err)
		}
		made, err := o.remade(ctx, c.head.Tree, git.NewObjects(), commit.Committer)
		if err == nil && made != c.change && c.was != nil {
			made, err = o.reapplied(ctx, c.was, c.head.Tree, git.NewObjects(), commit.Committer)
		}
		if err != nil {
			return err
		}
		o.stray.of, o.stray.is = k, made == c.change
	}
	if o.stray.is {
		c.stray = c.change
	}
	return nil
}

type strayKey struct {
	tree, change git.OID
	replaces     bool // the result is known that the lease at HEAD is to replace
}

// stray is what was found last of a change branch that HEAD doesn't tell of.
type stray struct {
	of strayKey
	is bool
}

// rest leaves the server alone until the next try. Only the branch is pushed, so that it
// needn't be ever more seldom.
func (m *missing) rest(now int64, refused []kernel.Violation) {
	m.refused, m.again = refused, now+ruleSoon.Milliseconds()
}
