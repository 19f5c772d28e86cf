package replay_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestS7_RebasedDiff: a diff applies on another base path by path, or not at all.
func TestS7_RebasedDiff(t *testing.T) {
	const a, b, x = "aaaa", "bbbb", "xxxx"
	const file, exec = "100644", "100755"
	tree := func(list ...string) (out git.Tree) {
		for i := 0; i < len(list); i += 3 {
			mode := git.ModeFile
			if list[i+2] == exec {
				mode = git.ModeExec
			}
			out.Entries = append(out.Entries, git.Entry{Path: list[i], Mode: mode, OID: git.OID(list[i+1])})
		}
		return out
	}
	add := kernel.Change{Path: "d/f", Op: kernel.OpAdd, AfterID: b, AfterMode: file}
	modify := kernel.Change{Path: "f", Op: kernel.OpModify, BeforeID: a, BeforeMode: file, AfterID: b, AfterMode: file}
	mode := kernel.Change{Path: "f", Op: kernel.OpMode, BeforeID: a, BeforeMode: file, AfterID: a, AfterMode: exec}
	del := kernel.Change{Path: "d", Op: kernel.OpDelete, BeforeID: a, BeforeMode: file}
	for name, c := range map[string]struct {
		changes   []kernel.Change
		base      git.Tree
		left      int
		conflicts []string
	}{
		"added where nothing is":        {[]kernel.Change{add}, tree("e", x, file), 1, nil},
		"added there already":           {[]kernel.Change{add}, tree("d/f", b, file), 0, nil},
		"added there otherwise":         {[]kernel.Change{add}, tree("d/f", x, file), 0, []string{"d/f"}},
		"added there as a program":      {[]kernel.Change{add}, tree("d/f", b, exec), 0, []string{"d/f"}},
		"a file where its directory is": {[]kernel.Change{add}, tree("d", x, file), 0, []string{"d/f"}},
		"files below it":                {[]kernel.Change{add}, tree("d/f/g", x, file), 0, []string{"d/f"}},
		"files beside it":               {[]kernel.Change{add}, tree("d/fg", x, file), 1, nil},
		"a file that it deletes itself": {[]kernel.Change{del, add}, tree("d", a, file), 2, nil},
		"modified as it was":            {[]kernel.Change{modify}, tree("f", a, file), 1, nil},
		"modified there too":            {[]kernel.Change{modify}, tree("f", x, file), 0, []string{"f"}},
		"modified there alike":          {[]kernel.Change{modify}, tree("f", b, file), 0, nil},
		"modified, deleted there":       {[]kernel.Change{modify}, tree(), 0, []string{"f"}},
		"another mode, and its bytes":   {[]kernel.Change{mode}, tree("f", x, file), 0, []string{"f"}},
		"deleted, modified there":       {[]kernel.Change{del}, tree("d", x, file), 0, []string{"d"}},
		"deleted there too":             {[]kernel.Change{del}, tree(), 0, nil},
		"one of two":                    {[]kernel.Change{add, modify}, tree("f", x, file), 1, []string{"f"}},
	} {
		got := replay.Rebased(c.changes, c.base, nil)
		if len(got.Changes) != c.left || !slices.Equal(got.Conflicts, c.conflicts) || len(got.Merged)+len(got.Contents) > 0 {
			t.Errorf("%s: %d are left, conflicts %q; want %d and %q", name, len(got.Changes), got.Conflicts, c.left, c.conflicts)
		}
	}
}

// TestS7_RebasedByLines: a file that the base changed elsewhere is merged of the three blobs
// and nothing else, and the outcome says of which. What is no file of the same mode on all
// sides isn't merged, nor what can't be read, or isn't what was verified.
func TestS7_RebasedByLines(t *testing.T) {
	const was, work, base, both = "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"
	id := func(s string) string { return string(git.HashBlob([]byte(s))) }
	file, exec := git.ModeFile, git.ModeExec
	type try struct {
		change kernel.Change
		mode   git.Mode
		theirs string
		blobs  map[git.OID][]byte
	}
	for name, c := range map[string]struct {
		spoil                   func(*try)
		left, merged, conflicts int
	}{
		"elsewhere":            {func(*try) {}, 1, 1, 0},
		"programs":             {func(x *try) { x.mode, x.change.BeforeMode, x.change.AfterMode = exec, exec.String(), exec.String() }, 1, 1, 0},
		"hash of a tree":       {func(x *try) { x.change.AfterHash, x.change.Size = "", 0 }, 1, 1, 0},
		"all of it and more":   {func(x *try) { x.theirs = both }, 0, 0, 0},
		"the same line":        {func(x *try) { x.theirs = "X\nb\nc\n" }, 0, 0, 1},
		"the line beside it":   {func(x *try) { x.theirs = "a\nX\nc\n" }, 0, 0, 1},
		"a NUL":                {func(x *try) { x.theirs = "a\nb\nC\x00\n" }, 0, 0, 1},
		"its mode there":       {func(x *try) { x.mode = exec }, 0, 0, 1},
		"its mode by the work": {func(x *try) { x.change.AfterMode = exec.String() }, 0, 0, 1},
		"symbolic links": {func(x *try) {
			x.mode, x.change.BeforeMode, x.change.AfterMode = git.ModeSymlink, git.ModeSymlink.String(), git.ModeSymlink.String()
		}, 0, 0, 1},
		"deleted by the work": {func(x *try) {
			x.change = kernel.Change{Path: "f", Op: kernel.OpDelete, BeforeID: id(was), BeforeMode: file.String()}
		}, 0, 0, 1},
		"added by both":       {func(x *try) { x.change.Op, x.change.BeforeID, x.change.BeforeMode = kernel.OpAdd, "", "" }, 0, 0, 1},
		"unread":              {func(x *try) { delete(x.blobs, git.OID(id(was))) }, 0, 0, 1},
		"other bytes":         {func(x *try) { x.blobs[git.OID(id(was))] = []byte(base) }, 0, 0, 1},
		"its mode by both":    {func(x *try) { x.mode, x.change.AfterMode = exec, exec.String() }, 0, 0, 1},
		"other than verified": {func(x *try) { x.change.AfterHash = canon.Sum([]byte("evil\n")) }, 0, 0, 1},
	} {
		x := try{theirs: base, mode: file, blobs: map[git.OID][]byte{}, change: kernel.Change{
			Path: "f", Op: kernel.OpModify, BeforeID: id(was), BeforeMode: file.String(), AfterID: id(work), AfterMode: file.String(),
			AfterHash: canon.Sum([]byte(work)), Size: int64(len(work)),
		}}
		for _, s := range []string{was, work} {
			x.blobs[git.OID(id(s))] = []byte(s)
		}
		c.spoil(&x)
		x.blobs[git.OID(id(x.theirs))] = []byte(x.theirs)
		on := git.Tree{Entries: []git.Entry{{Path: "f", Mode: x.mode, OID: git.OID(id(x.theirs))}}}
		got := replay.Rebased([]kernel.Change{x.change}, on, x.blobs)
		if len(got.Changes) != c.left || len(got.Merged) != c.merged || len(got.Contents) != c.merged || len(got.Conflicts) != c.conflicts {
			t.Errorf("%s: it comes to %+v", name, got)
		}
		if c.merged == 0 {
			continue
		}
		want := x.change
		want.BeforeID, want.AfterID, want.AfterHash, want.Size = id(x.theirs), id(both), canon.Sum([]byte(both)), int64(len(both))
		if got.Changes[0] != want || string(got.Contents[id(both)]) != both || got.Merged[0] != (kernel.MergedFile{Path: "f", BaseID: id(was), OursID: id(work), TheirsID: id(x.theirs)}) {
			t.Errorf("%s: it comes to %+v", name, got)
		}
	}
}

// TestS7_RebasedIsBounded: more files than are merged are conflicts, and aren't read either.
func TestS7_RebasedIsBounded(t *testing.T) {
	var changes []kernel.Change
	var on git.Tree
	blobs := map[git.OID][]byte{}
	for _, s := range []string{"a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n"} {
		blobs[git.HashBlob([]byte(s))] = []byte(s)
	}
	id := func(s string) string { return string(git.HashBlob([]byte(s))) }
	for i := range 103 {
		path := fmt.Sprintf("f%03d", i)
		changes = append(changes, kernel.Change{Path: path, Op: kernel.OpModify, BeforeID: id("a\nb\nc\n"), BeforeMode: "100644", AfterID: id("A\nb\nc\n"), AfterMode: "100644"})
		on.Entries = append(on.Entries, git.Entry{Path: path, Mode: git.ModeFile, OID: git.HashBlob([]byte("a\nb\nC\n"))})
	}
	if got := replay.Rebased(changes, on, blobs); len(got.Merged) != 100 || len(got.Conflicts) != 3 {
		t.Errorf("%d are merged, conflicts %q", len(got.Merged), got.Conflicts)
	}
	if ids := replay.ToMerge(changes, on); len(ids) != 3 {
		t.Errorf("read is %q", ids)
	}
}
