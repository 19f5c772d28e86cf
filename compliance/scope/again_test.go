package scope

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestK11_JudgedAgain: recorded changes are judged by every rule for a workspace. What
// nobody could have found in one, whoever says so, is refused.
func TestK11_JudgedAgain(t *testing.T) {
	id := func(text string) string { return BlobID([]byte(text)) }
	base := []Entry{
		{"README", ModeFile, id("read me")}, {"dir/a", ModeFile, id("a")}, {"dir/b", ModeExec, id("b")},
		{"link", ModeSymlink, id("dir/a")}, {"sub", ModeGitlink, id("sub")},
	}
	add := func(path string) kernel.Change {
		return kernel.Change{Path: path, Op: kernel.OpAdd, AfterID: id("new"), AfterMode: ModeFile, AfterHash: canon.Sum([]byte("new")), Size: 3}
	}
	with := func(c kernel.Change, change func(*kernel.Change)) []kernel.Change {
		change(&c)
		return []kernel.Change{c}
	}
	modify := kernel.Change{Path: "dir/a", Op: kernel.OpModify, BeforeID: id("a"), BeforeMode: ModeFile, AfterID: id("new"), AfterMode: ModeFile, AfterHash: canon.Sum([]byte("new")), Size: 3}
	mode := kernel.Change{Path: "dir/a", Op: kernel.OpMode, BeforeID: id("a"), BeforeMode: ModeFile, AfterID: id("a"), AfterMode: ModeExec, AfterHash: canon.Sum([]byte("a")), Size: 1}
	remove := kernel.Change{Path: "dir/a", Op: kernel.OpDelete, BeforeID: id("a"), BeforeMode: ModeFile}
	var thousands []kernel.Change
	for i := range 5_000 {
		thousands = append(thousands, add(fmt.Sprintf("many/%05d", i)))
	}
	for name, c := range map[string]struct {
		changes []kernel.Change
		want    kernel.Code
	}{
		"an addition":                {[]kernel.Change{add("dir/new")}, ""},
		"a modification":             {[]kernel.Change{modify}, ""},
		"a mode":                     {[]kernel.Change{mode}, ""},
		"a deletion":                 {[]kernel.Change{remove}, ""},
		"a file in a file's place":   {[]kernel.Change{{Path: "README", Op: kernel.OpDelete, BeforeID: id("read me"), BeforeMode: ModeFile}, add("README/x")}, ""},
		"outside the scope":          {[]kernel.Change{add("else")}, kernel.CodeScopeOutside},
		"a protected path":           {[]kernel.Change{add(".github/workflows/x.yml")}, kernel.CodeProtectedPath},
		"the contract":               {[]kernel.Change{add(".writ/contract.yaml")}, kernel.CodeProtectedPath},
		".git":                       {[]kernel.Change{add("dir/.git/config")}, kernel.CodePathUnsafe},
		".GIT":                       {[]kernel.Change{add("dir/.GIT/config")}, kernel.CodePathUnsafe},
		"git~1":                      {[]kernel.Change{add("dir/git~1/config")}, kernel.CodePathUnsafe},
		".git, hidden":               {[]kernel.Change{add("dir/.g\u200cit/config")}, kernel.CodePathUnsafe},
		"..":                         {[]kernel.Change{add("dir/../../etc/passwd")}, kernel.CodePathUnsafe},
		"a path from the root":       {[]kernel.Change{add("/dir/x")}, kernel.CodePathUnsafe},
		"a twin in another case":     {[]kernel.Change{add("dir/A")}, kernel.CodePathUnsafe},
		"a file below a file":        {[]kernel.Change{add("dir/a/x")}, kernel.CodePathUnsafe},
		"a file over a directory":    {[]kernel.Change{add("dir")}, kernel.CodePathUnsafe},
		"a symbolic link":            {with(add("dir/x"), func(c *kernel.Change) { c.AfterMode = ModeSymlink }), kernel.CodeScopeFileType},
		"a submodule":                {with(add("dir/x"), func(c *kernel.Change) { c.AfterMode = ModeGitlink }), kernel.CodeScopeFileType},
		"a mode of its own":          {with(add("dir/x"), func(c *kernel.Change) { c.AfterMode = "104755" }), kernel.CodeScopeFileType},
		"the base's submodule":       {with(remove, func(c *kernel.Change) { c.Path, c.BeforeID, c.BeforeMode = "sub", id("sub"), ModeGitlink }), kernel.CodeEvidenceInvalid},
		"another state before":       {with(modify, func(c *kernel.Change) { c.BeforeID = id("x") }), kernel.CodeEvidenceInvalid},
		"another mode before":        {with(modify, func(c *kernel.Change) { c.BeforeMode = ModeExec }), kernel.CodeEvidenceInvalid},
		"an addition that is none":   {[]kernel.Change{add("dir/a")}, kernel.CodeEvidenceInvalid},
		"a modification of nothing":  {with(modify, func(c *kernel.Change) { c.Path = "dir/none" }), kernel.CodeEvidenceInvalid},
		"a deletion of nothing":      {with(remove, func(c *kernel.Change) { c.Path = "dir/none" }), kernel.CodeEvidenceInvalid},
		"a change that is none":      {with(modify, func(c *kernel.Change) { c.AfterID = c.BeforeID }), kernel.CodeEvidenceInvalid},
		"other bytes as a mode":      {with(mode, func(c *kernel.Change) { c.AfterID = id("b") }), kernel.CodeEvidenceInvalid},
		"an unknown operation":       {with(modify, func(c *kernel.Change) { c.Op = "copy" }), kernel.CodeEvidenceInvalid},
		"a path twice":               {[]kernel.Change{modify, modify}, kernel.CodeEvidenceInvalid},
		"taken out and put in again": {[]kernel.Change{remove, modify}, kernel.CodeEvidenceInvalid},
		"out of order":               {[]kernel.Change{add("dir/y"), add("dir/x")}, kernel.CodeEvidenceInvalid},
		"too many":                   {[]kernel.Change{add("dir/1"), add("dir/2"), add("dir/3"), add("dir/4")}, kernel.CodeScopeSize},
		"thousands":                  {thousands, kernel.CodeScopeSize},
		"too large":                  {with(add("dir/x"), func(c *kernel.Change) { c.Size = 1 << 20 }), kernel.CodeScopeSize},
		"a path over 4096 bytes":     {[]kernel.Change{add("dir/" + strings.Repeat("x/", 2_100) + "x")}, kernel.CodePathUnsafe},
	} {
		s, err := New(base, Rules{Allowed: []string{"dir/**", "dir", "README", "README/**", "many/**", "sub", ".github/**", ".writ/**"}, MaxFiles: 3, MaxBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Again(t.Context(), c.changes, nil)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(v.Violations, func(v kernel.Violation) bool { return v.Code == c.want })
		if c.want == "" && len(v.Violations) > 0 || c.want != "" && !has {
			t.Errorf("%s: %v, want %q", name, v.Violations, c.want)
		}
	}
}
