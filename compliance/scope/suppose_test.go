package scope

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
)

// directories gives a tree's entries out one directory at a time, by invented ids.
func directories(entries []Entry) func(string) ([]Node, error) {
	all := map[string]map[string]Node{"/": {}}
	for _, e := range entries {
		names := strings.Split(e.Path, "/")
		at := "/"
		for _, name := range names[:len(names)-1] {
			sub := at + name + "/"
			all[at][name] = Node{name, ModeTree, sub}
			if at = sub; all[at] == nil {
				all[at] = map[string]Node{}
			}
		}
		name := names[len(names)-1]
		all[at][name] = Node{name, e.Mode, e.OID}
	}
	return func(id string) ([]Node, error) {
		var out []Node
		for _, n := range all[id] {
			out = append(out, n)
		}
		slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
		return out, nil
	}
}

// TestSuppose_AsAWalk: what is supposed of changes, with no more of the base than is
// around them, is what the walk of a workspace finds that holds them.
func TestSuppose_AsAWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(14, 9))
	pool := []string{
		"a", "A", "a/x", "A/x", "A/X", "a/b/c", "A/B/d", "a/B/c", "go.sum", "calc/add.go", "calc/new.go", "calc/Add.go",
		".gitignore", "build/out", "build/deep/out", "build", "x.log", "calc/x.log", "big", "calc/big", "docs/é", "docs/e\u0301",
		".github/workflows/ci.yml", "-dash", "calc/aux", "link", "calc/link", "calc/sub/.gitignore", "calc/sub/tmp", "calc/sub/keep.tmp",
	}
	seen := map[kernel.Code]int{}
	for round := range 400 {
		w := newWorld(t, nil)
		w.dir += fmt.Sprint(round)
		before, after := tree(rnd, w, pool), tree(rnd, w, pool)
		if round%4 != 0 { // most changes are small
			after = nudged(rnd, w, before, pool)
		}
		w.entries = before
		rules := Rules{Allowed: []string{"calc/**", "a/*", "docs/?", "go.sum"}, MaxFiles: 6, MaxBytes: 900, Ignore: map[string][]byte{}}
		if round%5 == 0 {
			rules.Allowed, rules.Paths, rules.Ignore = nil, pool, nil
		}
		for _, e := range IgnoreFiles(before) {
			if rules.Ignore != nil {
				rules.Ignore[e.Path] = w.blobs[e.OID]
			}
		}
		w.entries = after
		w.layOut()
		whole, err := New(before, rules)
		must(t, err)
		want, err := whole.Verify(context.Background(), w.dir)
		must(t, err)

		changes := w.changesBetween(before, after)
		part, err := Around("/", changes, directories(before))
		must(t, err)
		s, err := New(part, rules)
		must(t, err)
		got, err := s.Suppose(context.Background(), changes)
		must(t, err)
		for i := range want.Changes {
			want.Changes[i].AfterHash = ""
		}
		slices.Sort(want.Discarded)
		slices.Sort(got.Discarded)
		if diff := cmp.Diff(want.Diff("", ""), got.Diff("", "")); diff != "" {
			t.Fatalf("round %d, from %v to %v: the walk wants:\n%s", round, before, after, diff)
		}
		for _, v := range got.Violations {
			seen[v.Code]++
		}
		if len(got.Violations) == 0 {
			seen[""]++
		}
		seen["discarded"] += len(got.Discarded)
		must(t, os.RemoveAll(w.dir))
	}
	for _, code := range []kernel.Code{"", "discarded", kernel.CodeScopeOutside, kernel.CodeProtectedPath, kernel.CodePathUnsafe, kernel.CodeScopeFileType, kernel.CodeScopeSize} {
		if seen[code] < 10 {
			t.Errorf("%q came up %d times: the test shows nothing of it", code, seen[code])
		}
	}
}

// tree is a random tree of names that can stand together.
func tree(rnd *rand.Rand, w *world, pool []string) []Entry {
	w.entries = nil
	for _, p := range pool {
		if rnd.IntN(2) == 0 {
			w.put(rnd, p)
		}
	}
	return w.entries
}

// nudged is a tree with one to three other entries.
func nudged(rnd *rand.Rand, w *world, before []Entry, pool []string) []Entry {
	w.entries = slices.Clone(before)
	for range 1 + rnd.IntN(3) {
		p := pool[rnd.IntN(len(pool))]
		had := len(w.entries)
		w.entries = slices.DeleteFunc(w.entries, func(e Entry) bool { return e.Path == p })
		if had == len(w.entries) || rnd.IntN(2) == 0 {
			w.put(rnd, p)
		}
	}
	return w.entries
}

// put adds an entry, where it fits, as its name says.
func (w *world) put(rnd *rand.Rand, path string) {
	if slices.ContainsFunc(w.entries, func(e Entry) bool {
		return strings.HasPrefix(e.Path, path+"/") || strings.HasPrefix(path, e.Path+"/")
	}) {
		return
	}
	mode, content := ModeFile, fmt.Sprintf("%s %d", path, rnd.IntN(3))
	switch {
	case strings.HasSuffix(path, "link") && rnd.IntN(3) > 0:
		mode = ModeSymlink
	case strings.HasSuffix(path, "big"):
		content = strings.Repeat("b", 400+300*rnd.IntN(3))
	case strings.HasSuffix(path, ignoreName):
		content = []string{"build/\n*.log\n", "*.tmp\n!keep.tmp\n", "/build\n"}[rnd.IntN(3)]
	case rnd.IntN(4) == 0:
		mode = ModeExec
	}
	w.add(path, mode, content)
}

// changesBetween lists what differs, as a comparison of two trees does.
func (w *world) changesBetween(before, after []Entry) []kernel.Change {
	var out []kernel.Change
	find := func(list []Entry, path string) Entry {
		i := slices.IndexFunc(list, func(e Entry) bool { return e.Path == path })
		if i < 0 {
			return Entry{}
		}
		return list[i]
	}
	for _, e := range before {
		if now := find(after, e.Path); now.OID == "" {
			out = append(out, kernel.Change{Path: e.Path, Op: kernel.OpDelete, BeforeID: e.OID, BeforeMode: e.Mode})
		}
	}
	for _, e := range after {
		was := find(before, e.Path)
		c := kernel.Change{Path: e.Path, Op: kernel.OpModify, BeforeID: was.OID, BeforeMode: was.Mode, AfterID: e.OID, AfterMode: e.Mode, Size: int64(len(w.blobs[e.OID]))}
		switch {
		case was == e:
			continue
		case was.OID == "":
			c.Op = kernel.OpAdd
		case was.OID == e.OID:
			c.Op = kernel.OpMode
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b kernel.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// TestSuppose_Submodules: no task can do what a commit does to a submodule.
func TestSuppose_Submodules(t *testing.T) {
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for name, c := range map[string]struct {
		change kernel.Change
		why    string
	}{
		"moved":    {kernel.Change{Path: "sub", Op: kernel.OpModify, BeforeID: one, BeforeMode: ModeGitlink, AfterID: two, AfterMode: ModeGitlink}, whySubmodule},
		"removed":  {kernel.Change{Path: "sub", Op: kernel.OpDelete, BeforeID: one, BeforeMode: ModeGitlink}, whySubmodule},
		"replaced": {kernel.Change{Path: "sub", Op: kernel.OpModify, BeforeID: one, BeforeMode: ModeGitlink, AfterID: two, AfterMode: ModeFile, Size: 1}, whyReplaced},
		"new":      {kernel.Change{Path: "new", Op: kernel.OpAdd, AfterID: two, AfterMode: ModeGitlink}, whySubmodule},
	} {
		s, err := New([]Entry{{"sub", ModeGitlink, one}}, Rules{Paths: []string{"sub", "new"}, MaxFiles: 9, MaxBytes: 9})
		must(t, err)
		v, err := s.Suppose(context.Background(), []kernel.Change{c.change})
		must(t, err)
		if !slices.Contains(v.Violations, kernel.Violation{Code: kernel.CodeScopeFileType, Subject: c.change.Path, Detail: c.why}) {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}
