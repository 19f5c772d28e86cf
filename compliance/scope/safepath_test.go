package scope

import (
	"os"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

func TestS12_UnsafePaths(t *testing.T) {
	for _, p := range []string{
		"", "/a", "a//b", "a/", "./a", "a/..", "../a",
		".GIT/x", ".git/x", "a/.Git", ".g\u200dit/x", "\u200c.git/x", ".git\ufeff", "git~1/x", "GIT~2", "gitmod~1", "gi7eba~1",
		".git./x", ".git /x", ".git ..", "a./b", "a /b", "a.", `a\b`, "a:b", "c:/x", "a\tb", "a\nb", "a\rb", "a\x00b", "a\x7fb", "a\u202eb",
		"\xffa", "aux.c", "CON", "nul.tar.gz", "com1", "COM¹.txt", "lpt9.x", "conin$", "-a", "a/-rf", "a/--upload-pack=x/b", "~", "~/x", "~root/x", `a"b`, "a|b", "a?b", "a*b", "<a>",
		strings.Repeat("a", MaxSegmentBytes+1), strings.Repeat("a/", MaxDepth) + "a", strings.Repeat("abcdefg/", 200) + "a",
	} {
		if CheckPath(p) == "" {
			t.Errorf("%q is taken for safe", p)
		}
	}
	for _, p := range []string{"a", "src/A.go", ".gitkeep", "gitx", "a.git/x", "dot.git", "é/ü.go", "auxiliary.c", "console", "com10", "git~x", "foo~1", "a/~x", "a-b", "[id].tsx", "a b/c d", "日本語.md"} {
		if why := CheckPath(p); why != "" {
			t.Errorf("%q: %s", p, why)
		}
	}
}

func TestS12_NamesInTheWorkspace(t *testing.T) {
	for _, name := range []string{"calc/.GIT", "calc/.git", "calc/git~1", "calc/a ", "calc/a.", `calc/a\b`, "calc/a:b", "calc/a\nb", "calc/.g\u200cit", "calc/\xff.go"} {
		w := newWorld(t, baseFiles)
		w.layOut()
		w.write(name+"/x", "x")
		v := w.verify(w.rules())
		found := false
		for _, x := range v.Violations {
			found = found || x.Code == kernel.CodePathUnsafe
		}
		if !found {
			t.Errorf("%q: %v", name, v.Violations)
		}
	}
}

func TestS12_Collisions(t *testing.T) {
	for _, row := range []struct{ base, added string }{
		{"calc/src/a.go", "calc/SRC/b.go"},
		{"calc/a.go", "calc/A.go"},
		{"calc/\u00e9.go", "calc/e\u0301.go"},
		{"calc/stra\u00dfe.go", "calc/STRASSE.go"},
	} {
		w := newWorld(t, map[string]string{row.base: "x\n"})
		w.layOut()
		w.write(row.added, "y\n")
		wantViolation(t, w.verify(w.rules()), kernel.CodePathUnsafe, row.added)
	}
	w := newWorld(t, map[string]string{"calc/x": "x\n"})
	w.layOut()
	w.write("calc/new", "1")
	w.write("calc/NEW", "2")
	wantViolation(t, w.verify(w.rules()), kernel.CodePathUnsafe, "calc/new")
}

// What the base already has may be edited: it is not the change's doing.
func TestS12_OldNamesMayBeEdited(t *testing.T) {
	w := newWorld(t, map[string]string{"calc/aux.c": "1\n", "calc/a": "1\n", "calc/A": "1\n"})
	w.layOut()
	w.write("calc/aux.c", "2\n")
	w.write("calc/a", "2\n")
	w.write("calc/b", "new\n")
	wantClean(t, w.verify(w.rules()))
}

// A record can't hold such a path, so whatever became of it must be a violation.
func TestS12_ChangedNamesThatAreNotUTF8(t *testing.T) {
	const old, named = "calc/\xff.c", `calc/\xff.c`
	for name, change := range map[string]func(w *world){
		"modified": func(w *world) { w.write(old, "2\n") },
		"deleted":  func(w *world) { w.remove(old) },
		"its mode": func(w *world) { must(t, os.Chmod(w.path(old), 0o755)) },
		"its type": func(w *world) { w.remove(old); w.write(old+"/x", "2\n") },
		"its mode and bytes": func(w *world) {
			w.write(old, "2\n")
			must(t, os.Chmod(w.path(old), 0o755))
		},
	} {
		w := newWorld(t, map[string]string{old: "1\n", "calc/a": "1\n"})
		w.layOut()
		w.write("calc/a", "2\n")
		wantClean(t, w.verify(w.rules()))
		change(w)
		if v := w.verify(w.rules()); !has(v, kernel.CodePathUnsafe, named) {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}

// What was discarded is recorded as it is shown, and reported as it is.
func TestS15_DiscardedNamesWithEscapes(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("build/a  b", "x")
	w.write("a \u00a0.log", "x")
	v := w.verify(w.rules())
	if bad := CheckReported([]string{"build/a  b", "a \u00a0.log"}, v); len(bad) > 0 || len(v.Discarded) != 2 {
		t.Errorf("%q: %v", v.Discarded, bad)
	}
}

// TestS12_LongNamesDiffer: two names that begin alike are shown apart also where they are cut.
func TestS12_LongNamesDiffer(t *testing.T) {
	long := strings.Repeat("a/", 150)
	one, other := Display(long+"one"), Display(long+"two")
	if one == other || len(one) > maxShownPath+len("…")+16 {
		t.Errorf("they are shown as %q and %q", one, other)
	}
}
