package supervisor

import (
	"context"
	"slices"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/canon"
)

// mostAsked bounds the commits that are read besides the new ones, to find out what
// those revert.
const mostAsked = 100

// Reverted lists the tasks whose work new commits of the base may revert, each
// once. It is a hint of where to look, and asks nothing of the forge: a merge that
// nobody told of is known by the change that its message names, or by its parents.
func (s *Supervisor) Reverted(ctx context.Context, commits []git.Commit) (tasks []int64, err error) {
	l := &search{s: s, known: map[git.OID]git.Commit{}, looked: map[string]bool{}}
	for _, c := range commits {
		l.known[c.OID] = c
	}
	for _, c := range commits {
		for _, name := range namesReverted(string(c.Message)) {
			if err := l.look(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(l.found)
	return slices.Compact(l.found), nil
}

// search is one call of Reverted.
type search struct {
	s      *Supervisor
	known  map[git.OID]git.Commit
	looked map[string]bool
	asked  int
	found  []int64
}

// look finds whose work has a name, directly or by what that commit itself names.
func (l *search) look(ctx context.Context, name string) error {
	for names := []string{name}; len(names) > 0; {
		name, names = names[0], names[1:]
		if l.looked[name] {
			continue
		}
		l.looked[name] = true
		if l.hit(name) || !git.OID(name).Valid() {
			continue
		}
		c, err := l.commit(ctx, git.OID(name))
		if err != nil {
			return err
		}
		for _, m := range merges().FindAllStringSubmatch(string(c.Message), -1) {
			l.hit(m[1])
		}
		for _, p := range c.Parents {
			l.hit(string(p))
		}
		names = append(names, namesReverted(string(c.Message))...)
	}
	return nil
}

// hit notes the task of a name, if it has one.
func (l *search) hit(name string) (ok bool) {
	var task int64
	l.s.locked(func() {
		if task, ok = l.s.world.TaskOfCommit(name); !ok {
			task, ok = l.s.world.TaskOfChange(forge.ChangeNumber(name))
		}
	})
	if ok {
		l.found = append(l.found, task)
	}
	return ok
}

// commit reads one; a commit that is gone, or one too many, says nothing.
func (l *search) commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	if c, ok := l.known[oid]; ok || l.asked >= mostAsked {
		return c, nil
	}
	l.asked++
	c, err := l.s.deps.Repo.Commit(ctx, oid)
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
		err = nil
	}
	l.known[oid] = c
	return c, err
}

// merges is how the commit of a merge names its change: forges put the number into
// the title of a squash, and of a merge.
var merges = lazyregexp.New(`([#!][0-9]{1,18})\b`)

// Base is the branch that work is delivered to, by the contract in force.
type Base struct {
	Ref string
	Tip git.OID
	// Terms is a digest of the contract and of what is wrong with it: while it stays,
	// the contract refuses what it refused before.
	Terms canon.Digest
	// Auto says that the contract has delivered work applied on a base that moved.
	Auto bool
}

// Base reads the base and the contract as they are now.
func (s *Supervisor) Base(ctx context.Context) (Base, error) {
	refs, err := s.deps.Repo.Refs(ctx, s.baseRefs()...)
	if err != nil {
		return Base{}, err
	}
	t, err := s.contracts().read(ctx, refs)
	if err != nil {
		return Base{}, err
	}
	faults, err := canon.Marshal(t.faults)
	return Base{Ref: t.in.BaseRef, Tip: t.in.BaseCommit, Terms: canon.Sum(slices.Concat([]byte(t.in.Governance), faults)), Auto: t.in.autoRefreshes > 0}, err
}

// Delivered reports whether any work was delivered by a change, which might be
// reverted.
func (s *Supervisor) Delivered() (is bool) {
	s.locked(func() { is = s.world.Delivered() })
	return is
}
