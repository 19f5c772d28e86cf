package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Rebase is a verified diff as it applies on another base.
type Rebase struct {
	Changes   []kernel.Change // that are left to do there
	Merged    []kernel.MergedFile
	Contents  map[string][]byte // of the merged files, by blob id
	Conflicts []string          // paths where it doesn't apply
}

// maxMerges bounds the files of one diff that are merged; what is more is a conflict. Each
// takes a tenth of a second at most.
const maxMerges = 100

// Rebased applies a verified diff on another base. A diff replaces whole files and names
// what each was before: it applies where the base has that at a path, or has what the diff
// leaves there already, which is then no change any more. A file of the same mode that both
// changed is merged by lines from the three blobs, which [ToMerge] names; nobody verified
// the outcome, so whoever calls has it judged and checked like new work. All else is a
// conflict.
func Rebased(changes []kernel.Change, base git.Tree, blobs map[git.OID][]byte) Rebase {
	out := Rebase{Changes: []kernel.Change{}, Contents: map[string][]byte{}}
	merges := mergesOf(changes, base)
	for _, c := range changes {
		id, mode := at(base, c.Path)
		switch {
		case id == c.AfterID && mode == c.AfterMode:
		case id == c.BeforeID && mode == c.BeforeMode && (id != "" || !inTheWay(base, c.Path, changes)):
			out.Changes = append(out.Changes, c)
		case !slices.ContainsFunc(merges, func(m kernel.MergedFile) bool { return m.Path == c.Path }) || !out.merge(c, id, blobs):
			out.Conflicts = append(out.Conflicts, c.Path)
		}
	}
	return out
}

// merge merges a file, if that can be done.
func (r *Rebase) merge(c kernel.Change, id string, blobs map[git.OID][]byte) bool {
	m := kernel.MergedFile{Path: c.Path, BaseID: c.BeforeID, OursID: c.AfterID, TheirsID: id}
	var texts [3][]byte
	for i, of := range []string{m.BaseID, m.OursID, m.TheirsID} {
		data, there := blobs[git.OID(of)]
		if !there || string(git.HashBlob(data)) != of {
			return false
		}
		texts[i] = data
	}
	if c.AfterHash != "" && canon.Sum(texts[1]) != c.AfterHash {
		return false
	}
	data, ok := git.MergeLines(texts[0], texts[1], texts[2])
	if !ok {
		return false
	}
	c.BeforeID, c.AfterID = id, string(git.HashBlob(data))
	if c.BeforeID == c.AfterID {
		return true // the base has all of it, among other changes
	}
	c.AfterHash, c.Size = canon.Sum(data), int64(len(data))
	r.Changes, r.Merged = append(r.Changes, c), append(r.Merged, m)
	r.Contents[c.AfterID] = data
	return true
}

// ToMerge are the blobs that [Rebased] needs to merge files.
func ToMerge(changes []kernel.Change, base git.Tree) (ids []git.OID) {
	for _, m := range mergesOf(changes, base) {
		ids = append(ids, git.OID(m.BaseID), git.OID(m.OursID), git.OID(m.TheirsID))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// mergesOf are the files that a diff and another base both changed, where both left a file
// of the mode that it had.
func mergesOf(changes []kernel.Change, base git.Tree) (out []kernel.MergedFile) {
	for _, c := range changes {
		id, mode := at(base, c.Path)
		file := mode == git.ModeFile.String() || mode == git.ModeExec.String()
		switch {
		case !file || mode != c.BeforeMode || mode != c.AfterMode:
		case id == c.BeforeID || id == c.AfterID || c.BeforeID == c.AfterID:
		case len(out) < maxMerges:
			out = append(out, kernel.MergedFile{Path: c.Path, BaseID: c.BeforeID, OursID: c.AfterID, TheirsID: id})
		}
	}
	return out
}

// at is what a tree has at a path; empty for nothing.
func at(t git.Tree, path string) (id, mode string) {
	if e, there := t.Find(path); there {
		return string(e.OID), e.Mode.String()
	}
	return "", ""
}

// mergedWords names merged files with the blobs that each was merged of.
func mergedWords(list []kernel.MergedFile) string {
	var words []string
	for _, m := range list[:min(len(list), maxNamedPaths)] {
		words = append(words, fmt.Sprintf("%q of %s (the work), %s (its base before) and %s (this base)", m.Path, m.OursID, m.BaseID, m.TheirsID))
	}
	if more := len(list) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// inTheWay reports whether a file can't be added: something lies below its path, or a file
// where one of its directories must be. What the diff deletes is in nobody's way.
func inTheWay(base git.Tree, added string, changes []kernel.Change) bool {
	deleted := func(p string) bool {
		return slices.ContainsFunc(changes, func(c kernel.Change) bool { return c.Path == p && c.Op == kernel.OpDelete })
	}
	for at := strings.LastIndexByte(added, '/'); at > 0; at = strings.LastIndexByte(added[:at], '/') {
		if _, is := base.Find(added[:at]); is && !deleted(added[:at]) {
			return true
		}
	}
	return slices.ContainsFunc(base.Entries, func(e git.Entry) bool {
		return strings.HasPrefix(e.Path, added+"/") && !deleted(e.Path)
	})
}
