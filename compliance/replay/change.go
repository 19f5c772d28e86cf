package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

func byPath(a, b git.Entry) int { return cmp.Compare(a.Path, b.Path) }

// checkChange holds the delivered commit against the pinned base and the
// recorded changes: paths, modes, ids and bytes, and nothing else.
func (v *verifier) checkChange(f *findings) string {
	named, base, change := v.said(kernel.TrailerChange), v.head.Base, v.head.Change
	switch {
	case !v.accepted():
		f.file("", "HEAD names a change %s, but the task is %s.", named, v.state)
		return ""
	case v.seed == nil || v.diff == nil && !v.redacted():
		f.file("", "Without seed pack and diff nothing says what the change must be.")
		return ""
	case base == nil:
		f.file("", "The base commit %s can't be read in this repository.", v.seed.Pins.BaseCommit)
		return ""
	case change == nil:
		f.file("", "The change %q can't be read in this repository.", named)
		return ""
	}
	need := func(ok bool, format string, args ...any) {
		if !ok {
			f.file("", format, args...)
		}
	}
	need(string(base.Commit.OID) == v.seed.Pins.BaseCommit, "The base %s is not the pinned one.", base.Commit.OID)
	need(string(change.Commit.OID) == named, "The change is %s, HEAD names %q.", change.Commit.OID, named)
	need(len(change.Commit.Ambiguous) == 0, "The change %s can be read in two ways.", named)
	need(slices.Equal(change.Commit.Parents, []git.OID{base.Commit.OID}), "The change does not have the base, and nothing else, as its parent.")
	need(bytes.Equal(change.Commit.Message, []byte(v.seed.CommitMessage)), "The change has another message than the seed pack's.")
	if v.redacted() {
		f.add(kernel.CodeEvidenceRedacted, FileRecords, NoSeq, "Base and message are right; which files were to change is kept as a hash only.")
		return ""
	}
	v.checkBase(f)
	v.checkDelivered(f)
	v.checkBytes(f)
	said := fmt.Sprintf("The change %s is the base %s with the %d recorded changes, and nothing else.", named, base.Commit.OID, len(v.diff.Changes))
	if v.head.Unheld != nil {
		said += " " + v.head.Unheld.String()
	}
	return said
}

// String says what is known, what isn't, and how to see.
func (u Unheld) String() string {
	own := strings.TrimPrefix(u.Own, "refs/heads/")
	where := own
	if u.Default != "" {
		where = strings.TrimPrefix(u.Default, "refs/heads/") + " nor " + own
	}
	said := fmt.Sprintf("No branch holds this commit: none of this repository is at it, and it isn't in the history of %s. ", where)
	if u.Landed {
		return said + "The default branch has the changed files just as this commit has them, as after a squash or a rebase; which commit brought them isn't checked here."
	}
	return said + "Git doesn't tell why: it may have been merged as another commit (squash, rebase) and changed since, " +
		"its branch may have been deleted or rewritten, or the server may have lost it. The task's change on the forge shows whether it was merged."
}

// checkBase: the tree given is the commit's, and the changes were made on it.
func (v *verifier) checkBase(f *findings) {
	base := v.head.Base
	if id, err := git.NewObjects().Tree(base.Tree.Entries); err != nil || id != base.Commit.Tree {
		f.file("", "The tree of the base %s can't be verified.", base.Commit.OID)
	}
	for _, c := range v.diff.Changes {
		e, there := base.Tree.Find(c.Path)
		add := c.Op == kernel.OpAdd
		if there == add || there && (string(e.OID) != c.BeforeID || e.Mode.String() != c.BeforeMode) || add && c.BeforeID+c.BeforeMode != "" {
			f.record(v.diffSeq(), "What it says of %q before the change is not the base.", c.Path)
		}
	}
}

func (v *verifier) diffSeq() int64 {
	if list := v.of(kernel.KindDiff); len(list) > 0 {
		return list[len(list)-1].Seq
	}
	return NoSeq
}

// changedTree is the id of the base's tree with the recorded changes.
func (v *verifier) changedTree() (git.OID, error) {
	return git.NewObjects().Tree(v.changedEntries())
}

func (v *verifier) changedEntries() []git.Entry {
	base := make([]scope.Entry, 0, len(v.head.Base.Tree.Entries))
	for _, e := range v.head.Base.Tree.Entries {
		base = append(base, scope.Entry{Path: e.Path, Mode: e.Mode.String(), OID: string(e.OID)})
	}
	modes := map[string]git.Mode{}
	for _, m := range []git.Mode{git.ModeFile, git.ModeExec, git.ModeSymlink, git.ModeGitlink} {
		modes[m.String()] = m
	}
	var out []git.Entry
	for _, e := range scope.Apply(base, v.diff.Changes) {
		out = append(out, git.Entry{Path: e.Path, Mode: modes[e.Mode], OID: git.OID(e.OID)})
	}
	return out
}

// maxNamedPaths is how many differing paths a sentence names.
const maxNamedPaths = 5

// checkDelivered compares the delivered tree, and names what differs.
func (v *verifier) checkDelivered(f *findings) {
	want := v.changedEntries()
	id, err := git.NewObjects().Tree(want)
	if err == nil && id == v.head.Change.Commit.Tree {
		return
	}
	differ := git.Unequal(git.Tree{Entries: want}, v.head.Change.Tree)
	f.file("", "The change delivers another tree than base and recorded changes make: %s, recorded is %s; it differs at %q.",
		v.head.Change.Commit.Tree, id, strings.Join(differ[:min(len(differ), maxNamedPaths)], " "))
}

// checkBytes hashes every delivered file (conformance KC56).
func (v *verifier) checkBytes(f *findings) {
	for _, c := range v.diff.Changes {
		if c.Op == kernel.OpDelete {
			if c.AfterID+c.AfterMode+string(c.AfterHash) != "" {
				f.record(v.diffSeq(), "It deletes %q and says what is there afterwards.", c.Path)
			}
			continue
		}
		data, ok := v.head.Blobs[git.OID(c.AfterID)]
		switch {
		case !ok:
			f.file("", "The bytes of %q can't be read in this repository.", c.Path)
		case string(git.HashBlob(data)) != c.AfterID:
			f.file("", "The bytes of %q are not those of its id.", c.Path)
		case canon.Sum(data) != c.AfterHash || int64(len(data)) != c.Size:
			f.record(v.diffSeq(), "The bytes of %q have not the recorded hash and size.", c.Path)
		case c.AfterMode != git.ModeFile.String() && c.AfterMode != git.ModeExec.String():
			f.record(v.diffSeq(), "The mode %s of %q can't be delivered.", c.AfterMode, c.Path)
		}
	}
}
