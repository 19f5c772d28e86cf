package worldref

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/writbot/writ/forge/git"
)

// Reader is a repository that is read.
type Reader interface {
	Refs(ctx context.Context, names ...string) (git.Refs, error)
	Commit(ctx context.Context, oid git.OID) (git.Commit, error)
	Tree(ctx context.Context, commitOrTree git.OID) (git.Tree, error)
	Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error
}

// Repo is the repository that has the ref.
type Repo interface {
	Reader
	CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome
}

const (
	// maxActs bounds the acts that are kept, and the commits that one look follows.
	// A world has a few acts a year; who may push could write any number, and each
	// costs every reader a request once.
	maxActs = 4096
	// maxActBytes bounds act.json: two hundred thousand refs.
	maxActBytes = 32 << 20
	// maxKeptBytes bounds all that is kept of one world.
	maxKeptBytes = 128 << 20
)

// link is a commit of the ref with what is needed to judge it, and to put it back.
type link struct {
	commit git.Commit
	act    []byte // act.json; nil where there is none
}

// walk is what a look at the ref read.
type walk struct {
	links []link // the oldest first
	met   bool   // the first one follows the commit that was known
	// broken is why nothing before the first one was read, "" where all was.
	broken string
}

// chain reads the commits from a tip down to one that is known, or to the first.
// known is "" where nothing is, and no more
// commits than most are read. Of a merge the first parent is followed. What
// can't be a commit of anybody's act ends it: somebody put it there.
func chain(ctx context.Context, repo Reader, tip, known git.OID, most int) (h walk, err error) {
	for oid := tip; !oid.IsZero(); {
		if oid == known {
			h.met = true
			break
		}
		if len(h.links) == most {
			h.broken = fmt.Sprintf("there are more than %d commits", most)
			break
		}
		c, err := repo.Commit(ctx, oid)
		if code := git.CodeOf(err); code == git.CodeObjectInvalid || code == git.CodeTooLarge {
			h.broken = fmt.Sprintf("%s can't be read as a commit", oid)
			break
		} else if err != nil && code != git.CodeCommitAmbiguous {
			return walk{}, err
		}
		h.links = append(h.links, link{commit: c})
		oid = ""
		if len(c.Parents) > 0 {
			oid = c.Parents[0]
		}
	}
	slices.Reverse(h.links)
	for i := range h.links {
		if h.links[i].act, err = actOf(ctx, repo, h.links[i].commit); err != nil {
			return walk{}, err
		}
	}
	return h, nil
}

// acts are the commits that are somebody's signed acts and follow the commit known,
// or begin the history, without anything else between them. No other is kept or
// built upon: it may have to be put back, which takes its bytes and all of its
// parents.
func (h walk) acts(known git.OID) (list []link) {
	for _, l := range h.links {
		before := git.OID("")
		if len(l.commit.Parents) > 0 {
			before = l.commit.Parents[0]
		}
		if e := l.entry(); before == known && e.Fault == "" && e.Signer != "" {
			list, known = append(list, l), l.commit.OID
		}
	}
	return list
}

// actOf reads act.json of a commit; nil where the tree has anything else.
func actOf(ctx context.Context, repo Reader, c git.Commit) (data []byte, err error) {
	if c.Tree == "" || len(c.Ambiguous) > 0 {
		return nil, nil
	}
	tree, err := repo.Tree(ctx, c.Tree)
	if git.CodeOf(err) == git.CodeTooLarge || git.CodeOf(err) == git.CodeObjectInvalid {
		return nil, nil // somebody's, and no act
	}
	if err != nil || len(tree.Entries) != 1 || tree.Entries[0].Path != File || tree.Entries[0].Mode != git.ModeFile {
		return nil, err
	}
	err = repo.Blobs(ctx, []git.OID{tree.Entries[0].OID}, func(_ git.OID, b []byte) error {
		data = bytes.Clone(b)
		return nil
	})
	if git.CodeOf(err) == git.CodeTooLarge || len(data) > maxActBytes {
		return nil, nil
	}
	return data, err
}

// entry judges the bytes of one commit.
func (l link) entry() Entry {
	e := Entry{OID: string(l.commit.OID)}
	if signer, err := l.commit.Verify(nil); err == nil || git.CodeOf(err) == git.CodeUntrusted {
		e.Signer = signer
	}
	act, err := l.read()
	if err != nil {
		e.Fault = "it is no act: " + err.Error()
		return e
	}
	e.Act, e.Old, e.New = act, act.Old, act.New
	if act.Act == Rotate || act.Act == Revoke {
		e.Old, e.New = keyOf(act.Old), keyOf(act.New)
	}
	e.Proven = act.proven()
	return e
}

func (l link) read() (Act, error) {
	switch {
	case len(l.commit.Ambiguous) > 0:
		return Act{}, errors.New("the commit can be read in two ways")
	case len(l.commit.Parents) > 1:
		return Act{}, errors.New("the commit is a merge")
	case l.act == nil:
		return Act{}, errors.New("its tree isn't an act's")
	}
	a, err := parse(l.act)
	if err == nil && !bytes.Equal(l.commit.Message, a.message()) {
		err = errors.New("its message isn't the act's")
	}
	return a, err
}

func entries(links []link) []Entry {
	list := make([]Entry, len(links))
	for i, l := range links {
		list[i] = l.entry()
	}
	return list
}

// Read reads all commits of a ref at a tip, the oldest first, and remembers nothing.
// Which of them are acts that [Fold] may count is said in their faults. Where not
// all could be read, the first entry says why.
func Read(ctx context.Context, repo Reader, tip git.OID) ([]Entry, error) {
	h, err := chain(ctx, repo, tip, "", maxActs)
	if err != nil {
		return nil, err
	}
	acts := map[git.OID]bool{}
	for _, l := range h.acts("") {
		acts[l.commit.OID] = true
	}
	list := entries(h.links)
	for i := range list {
		if e := &list[i]; e.Fault == "" && e.Signer != "" && !acts[git.OID(e.OID)] {
			e.Fault = "it stands on what is no act"
		}
	}
	if h.broken != "" {
		list = slices.Insert(list, 0, Entry{OID: string(tip), Fault: "nothing before can be read: " + h.broken})
	}
	return list, nil
}
