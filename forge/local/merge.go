package local

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// maxHistory is how many commits are looked at for the common ancestor of two
// branches: far above what a forge on a laptop holds.
const maxHistory = 100_000

// MergeChange merges a change into its base: by moving the base where it can be
// moved forward, by a merge commit elsewhere. What both sides changed in one
// file is a Conflict; this forge merges no lines.
func (c *Client) MergeChange(ctx context.Context, r forge.Repo, number int64) (out forge.Change, err error) {
	c.s.merging.Lock()
	defer c.s.merging.Unlock()
	var change changeRow
	err = c.inItem(ctx, r, number, writes(forge.Write, "merge"), func(x *session, in scope, it itemRow) error {
		change, err = x.change(in.repoRow, it)
		if err == nil && change.State != forge.ChangeOpen {
			err = refuse(forge.Conflict, "it is %s", change.State)
		}
		return err
	})
	if err != nil {
		return forge.Change{}, err
	}
	op := fmt.Sprintf("merge %s#%d", r, number)
	m, err := c.s.merger(ctx, r.ID, c.user)
	if err != nil {
		return forge.Change{}, asForge(op, err)
	}
	start, merged, err := m.merge(change.Change)
	if err != nil {
		return forge.Change{}, asForge(op, err)
	}
	err = c.inItem(ctx, r, number, writes(forge.Write, "merge"), func(x *session, in scope, it itemRow) error {
		change.item, change.start, change.MergedOID, change.State = it, string(start), string(merged), forge.ChangeMerged
		out = change.Change
		if err := x.pushed(in, RefUpdate{"refs/heads/" + change.Base, start, merged}); err != nil {
			return err
		}
		return x.endChange(in, change, eventMerged)
	})
	return out, err
}

// merger works on one repository, in somebody's name.
type merger struct {
	ctx  context.Context
	repo *git.Repo
	who  git.Person
}

func (s *Store) merger(ctx context.Context, repo int64, by forge.User) (*merger, error) {
	r, err := s.git(repo)
	if err != nil {
		return nil, err
	}
	return &merger{ctx, r, person(by, s.now().Unix())}, nil
}

func person(u forge.User, seconds int64) git.Person {
	return git.Person{Name: u.Login, Email: u.Login + "@localhost", Seconds: seconds, TZ: "+0000", OK: true}
}

// merge moves the base, and says from where to where.
func (m *merger) merge(c forge.Change) (start, merged git.OID, err error) {
	ref := "refs/heads/" + c.Base
	refs, err := m.repo.Refs(m.ctx, ref)
	if err != nil {
		return "", "", err
	}
	head := git.OID(c.HeadOID)
	if start = refs.OID(ref); start.IsZero() {
		return "", "", refuse(forge.Conflict, "the base %s is gone", c.Base)
	}
	common, err := m.common(start, head)
	if err != nil {
		return "", "", err
	}
	objects := git.NewObjects()
	switch common {
	case head: // it is contained already, by a push or by a merge that was not told
		return start, start, nil
	case start:
		merged = head
	default:
		if merged, err = m.commit(objects, c, common, start, head); err != nil {
			return "", "", err
		}
	}
	out := m.repo.CompareAndSwap(m.ctx, []git.Command{{Ref: ref, Old: start, New: merged}}, objects.Pack())
	switch out.Status {
	case git.Won:
		return start, merged, nil
	case git.Lost, git.Refused:
		return "", "", refuse(forge.Conflict, "the base %s could not be moved: %s", c.Base, out.Reason)
	}
	if out.Status == git.Unable {
		return "", "", out.Err
	}
	return "", "", errors.Join(out.Err, errors.New("whether the base has moved is not known; merging again finds out"))
}

// common is the nearest common ancestor of two commits, "" for none.
func (m *merger) common(ours, theirs git.OID) (git.OID, error) {
	behind := map[git.OID]bool{}
	if err := m.walk(ours, func(oid git.OID) bool { behind[oid] = true; return true }); err != nil {
		return "", err
	}
	var found git.OID
	err := m.walk(theirs, func(oid git.OID) bool {
		if found == "" && behind[oid] {
			found = oid
		}
		return found == ""
	})
	return found, err
}

// walk visits a commit and what is behind it, nearest first, until f says no.
func (m *merger) walk(from git.OID, f func(git.OID) bool) error {
	seen := map[git.OID]bool{from: true}
	for queue := []git.OID{from}; len(queue) > 0; queue = queue[1:] {
		if !f(queue[0]) {
			return nil
		}
		c, err := m.repo.Commit(m.ctx, queue[0])
		if err != nil && git.CodeOf(err) != git.CodeCommitAmbiguous {
			return err
		}
		for _, p := range c.Parents {
			if !seen[p] && p != "" {
				seen[p] = true
				queue = append(queue, p)
			}
		}
		if len(seen) > maxHistory {
			return refuse(forge.Invalid, "the history is longer than %d commits", maxHistory)
		}
	}
	return nil
}

// commit makes the merge commit.
func (m *merger) commit(objects *git.Objects, c forge.Change, common, ours, theirs git.OID) (git.OID, error) {
	sides := make([]map[string]git.Entry, 0, 3)
	for _, oid := range []git.OID{common, ours, theirs} {
		side := map[string]git.Entry{}
		if oid != "" {
			tree, err := m.repo.Tree(m.ctx, oid)
			if err != nil {
				return "", err
			}
			for _, e := range tree.Entries {
				side[e.Path] = e
			}
		}
		sides = append(sides, side)
	}
	entries, err := mergeTrees(sides[0], sides[1], sides[2])
	if err != nil {
		return "", err
	}
	tree, err := objects.Tree(entries)
	if err != nil {
		return "", refuse(forge.Conflict, "the two sides don't fit into one tree: %w", err)
	}
	message := fmt.Sprintf("Merge change #%d from %s\n\n%s\n", c.Number, c.Head, c.Title)
	return objects.Commit(git.CommitSpec{
		Tree: tree, Parents: []git.OID{ours, theirs}, Author: m.who, Committer: m.who, Message: []byte(message),
	}, nil)
}

// mergeTrees takes, for each path, the side that changed it.
func mergeTrees(base, ours, theirs map[string]git.Entry) ([]git.Entry, error) {
	paths := maps.Clone(base)
	maps.Copy(paths, ours)
	maps.Copy(paths, theirs)
	var out []git.Entry
	for path := range paths {
		take := ours[path]
		switch base[path] {
		case ours[path]:
			take = theirs[path]
		case theirs[path]:
		default:
			if ours[path] != theirs[path] {
				return nil, refuse(forge.Conflict, "both sides changed %q", path)
			}
		}
		if take.OID != "" {
			out = append(out, take)
		}
	}
	return out, nil
}
