package replay_test

import (
	"slices"
	"testing"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
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
		left, conflicts := replay.Rebased(c.changes, c.base)
		if len(left) != c.left || !slices.Equal(conflicts, c.conflicts) {
			t.Errorf("%s: %d are left, conflicts %q; want %d and %q", name, len(left), conflicts, c.left, c.conflicts)
		}
	}
}
