package branch

import (
	"context"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
)

// place is where the truth is: a remote, or the clone itself.
type place struct {
	clone  *clone.Clone
	remote *git.Repo // nil: the clone
}

func (p place) repo() *git.Repo {
	if p.remote != nil {
		return p.remote
	}
	return p.clone.Repo
}

// commit reads a commit, from the clone where it has it: an id names the bytes.
func (p place) commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	c, err := p.clone.Repo.Commit(ctx, oid)
	if p.remote != nil && git.CodeOf(err) == git.CodeObjectMissing {
		return p.remote.Commit(ctx, oid)
	}
	return c, err
}

// commits reads many, those that the clone lacks in one exchange, and returns how
// to get at each.
func (p place) commits(ctx context.Context, oids []git.OID) func(git.OID) (git.Commit, error) {
	got := map[git.OID]git.Commit{}
	var absent []git.OID
	for _, oid := range oids {
		if c, err := p.clone.Repo.Commit(ctx, oid); err == nil {
			got[oid] = c
		} else if p.remote != nil {
			absent = append(absent, oid)
		}
	}
	if len(absent) > 0 {
		// What this doesn't bring is asked for alone, for its own reason.
		_ = p.remote.Commits(ctx, absent, func(c git.Commit) { got[c.OID] = c })
	}
	return func(oid git.OID) (git.Commit, error) {
		if c, ok := got[oid]; ok {
			return c, nil
		}
		return p.commit(ctx, oid)
	}
}

// head reads the HEAD of a branch. A branch that isn't there has the zero Commit.
func (p place) head(ctx context.Context, ref string) (git.Commit, error) {
	refs, err := p.repo().Refs(ctx, ref)
	if err != nil || refs.OID(ref).IsZero() {
		return git.Commit{}, err
	}
	return p.commit(ctx, refs.OID(ref))
}

// maxReasserts is how often an answer that got lost is asked for.
const maxReasserts = 3

// put moves a branch from a commit to a new one on it.
func (p place) put(ctx context.Context, ref string, old git.Commit, spec git.CommitSpec, what string) (git.Commit, git.Outcome) {
	objs := git.NewObjects()
	oid, err := objs.Commit(spec, nil)
	if err != nil {
		return git.Commit{}, git.Outcome{Status: git.Unable, Err: err}
	}
	made := git.Commit{OID: oid, Tree: spec.Tree, Parents: spec.Parents, Author: spec.Author, Committer: spec.Committer, Message: spec.Message}
	made.Committer.OK = true
	return made, p.push(ctx, git.Command{Ref: ref, Old: old.OID, New: oid}, objs, objs.Pack(), what)
}

// push moves a branch. In the clone objs are written; a remote gets the pack, and
// the clone the objects, unless it lacks what they stand on: a commit without its
// parents would look like a damaged history.
func (p place) push(ctx context.Context, c git.Command, objs *git.Objects, pack git.Pack, what string) git.Outcome {
	if p.remote == nil {
		return p.clone.Repo.MoveRef(ctx, c, objs, what)
	}
	cmds := []git.Command{c}
	out := p.remote.CompareAndSwap(ctx, cmds, pack)
	for n := 0; n < maxReasserts && out.Status == git.Unknown && ctx.Err() == nil; n++ {
		out = p.remote.Reassert(ctx, cmds, pack)
	}
	if _, err := p.clone.Repo.Commit(ctx, c.Old); out.Status == git.Won && objs != nil && err == nil {
		if err := p.clone.Repo.Store(objs); err != nil {
			return git.Outcome{Status: git.Unable, Err: err}
		}
	}
	return out
}
