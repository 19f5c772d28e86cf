package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// agreed is how many commits of a history are judged one by one.
const agreed = 100

// TestTry_AgreesWithTheWalk: of a hundred commits, each laid out in a workspace and
// walked there as what a builder left, every one has the verdict that was tried: rules,
// paths, words and what is left out. The commits do all that a commit can do.
func TestTry_AgreesWithTheWalk(t *testing.T) {
	dir, tip := madeHistory(t)
	own := "version: 1\nbudgets: {files: 6, bytes: 2KiB}\n"
	for name, text := range map[string]string{
		"own paths":     own,
		"allowed files": own + "defaults: {allowed_files: ['src/**', docs/*, go.mod, go.sum]}\npaths: {unprotect: [go.sum], protected: [src/secret/**]}\n",
		"leftovers":     own + "defaults: {allowed_files: ['src/**', README]}\npaths: {ignored: refuse}\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := agree(t, dir, tip, text)
			if w.judged < agreed || w.merges < 5 {
				t.Errorf("%d commits were judged, %d of them merges", w.judged, w.merges)
			}
			for _, code := range []kernel.Code{"", kernel.CodeProtectedPath, kernel.CodePathUnsafe, kernel.CodeScopeFileType, kernel.CodeScopeSize, kernel.CodeNoOutput} {
				if w.codes[code] == 0 {
					t.Errorf("no commit came to %q: the history shows nothing of it", code)
				}
			}
		})
	}
}

// TestTry_AgreesOnThisRepository: the same for this repository's own history. A clone that
// ends before a hundred commits of it are judged has shown too little.
func TestTry_AgreesOnThisRepository(t *testing.T) {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	tip := git.OID(gittest.Git(t, dir, "-c", "safe.directory=*", "rev-parse", "HEAD"))
	w := agree(t, dir, tip, "version: 1\ndefaults: {allowed_files: ['cmd/**', 'executor/**', 'compliance/**', docs/*, README.md, CHANGELOG.md]}\n"+
		"commit: {template: 'work {task}: {title}', pattern: '^work [0-9]+: [^,]+$'}\n")
	tellShort(t, w, os.Getenv("CI") == "true")
	t.Logf("%d commits of this repository were judged, %d of them accepted", w.judged, w.codes[""])
	refused := 0
	for _, c := range w.list {
		comma := strings.Contains(contract.SafeTitle(c.Title), ",")
		refused += int(count(comma))
		if got := slices.ContainsFunc(w.said[c.ID], named); got != comma {
			t.Errorf("%q: refused for its first line: %v, and it has a comma: %v", c.Title, got, comma)
		}
	}
	if w.judged >= agreed && (refused == 0 || refused == w.judged) {
		t.Errorf("of %d commits %d have a comma in their first line: the rule divides nothing", w.judged, refused)
	}
}

// named reports whether a violation is one of the contract's own rule for first lines.
func named(v kernel.Violation) bool {
	return v.Code == kernel.CodeMessageInvalid && v.Subject == "commit.pattern"
}

// TestTry_TooShort: which histories have shown too little.
func TestTry_TooShort(t *testing.T) {
	for name, c := range map[string]struct {
		w       walked
		ci, bad bool
	}{
		"enough":                 {w: walked{judged: agreed}},
		"enough of a shallow":    {w: walked{judged: agreed, shallow: true}, ci: true},
		"whole, and too few":     {w: walked{judged: agreed - 1}, bad: true},
		"shallow":                {w: walked{judged: 1, shallow: true}},
		"shallow, for others":    {w: walked{judged: 1, shallow: true}, ci: true, bad: true},
		"nothing of a whole one": {bad: true},
	} {
		if got := tooShort(c.w, c.ci); (got != "") != c.bad {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// tellShort fails where too few commits were judged: each history but a shallow clone's has
// enough, and who runs all tests for others has to clone it whole.
func tellShort(t *testing.T, w walked, ci bool) {
	t.Helper()
	if why := tooShort(w, ci); why != "" {
		t.Error(why)
	} else if w.judged < agreed {
		fmt.Fprintf(os.Stderr, "%s SHOWS NOTHING: the clone is shallow, and %d of %d commits were judged. `git fetch --unshallow` gets the others.\n", t.Name(), w.judged, agreed)
	}
}

func tooShort(w walked, ci bool) string {
	if w.judged >= agreed || w.shallow && !ci {
		return ""
	}
	return fmt.Sprintf("%d commits were judged, not %d; the clone is shallow: %v", w.judged, agreed, w.shallow)
}

// walked is what a history came to.
type walked struct {
	judged, merges int
	codes          map[kernel.Code]int
	shallow        bool // the clone ends before the history does
	list           []Commit
	said           map[git.OID][]kernel.Violation
}

// agree judges each commit twice.
func agree(t *testing.T, dir string, tip git.OID, text string) walked {
	t.Helper()
	k, _, faults := contract.Load([]byte(text), contract.Source{Name: "test"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	repo, err := git.Open(context.Background(), git.Endpoint{URL: dir}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	var list []Commit
	shallow, err := Read(repo).Each(context.Background(), tip, agreed, func(c Commit) error { list = append(list, c); return nil })
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	w := walked{codes: map[kernel.Code]int{}, shallow: shallow, list: list, said: map[git.OID][]kernel.Violation{}}
	ws := workspace{t: t, repo: repo, dir: filepath.Join(t.TempDir(), "ws")}
	for _, c := range list {
		want := ws.judge(c, k)
		got, err := Judge(context.Background(), c, k)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got.Discarded)
		slices.Sort(want.Discarded)
		want.Class = got.Class // which decides nothing
		refused := slices.ContainsFunc(got.Violations, func(v kernel.Violation) bool { return v.Code == kernel.CodeProtectedPath })
		if (got.Class == scope.ClassForbidden) != refused || (got.Class == scope.ClassGuarded) && !got.Waits {
			t.Errorf("%s: class %q, and %v", c.ID, got.Class, got.Violations)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s %q: the walk wants:\n%s", c.ID, c.Title, diff)
		}
		w.judged++
		w.said[c.ID] = got.Violations
		w.merges += int(count(c.Merge))
		if got.Accepted() {
			w.codes[""]++
		}
		for _, v := range got.Violations {
			w.codes[v.Code]++
		}
	}
	return w
}

// workspace is a directory that holds one commit after the other.
type workspace struct {
	t    *testing.T
	repo *git.Repo
	dir  string
	made bool
}

// judge lays a commit out and judges it as executor/builder does what a builder left:
// against the whole tree of its base, by a walk.
func (w *workspace) judge(c Commit, k contract.Contract) Verdict {
	w.t.Helper()
	ctx := context.Background()
	base := w.tree(c.base)
	if !w.made {
		w.must(scope.Materialise(ctx, w.dir, base, w.blob))
		w.made = true
	}
	for _, change := range c.Changes {
		w.remove(change)
	}
	for _, change := range c.Changes {
		w.write(change)
	}
	rules := scope.Rules{Allowed: k.Defaults.AllowedFiles, Forbidden: k.Paths.Forbidden, Guarded: k.Paths.Guarded, Unprotect: k.Paths.Unprotect, Accepts: k.Paths.Accepts(), MaxFiles: k.Budgets.Files, MaxBytes: k.Budgets.Bytes, Blob: w.blob}
	if len(rules.Allowed) == 0 {
		for _, change := range c.Changes {
			rules.Allowed = append(rules.Allowed, change.Path)
		}
	}
	if k.Paths.Ignored == contract.IgnoredDiscard {
		rules.Ignore = map[string][]byte{}
		for _, e := range scope.IgnoreFiles(base) {
			data, err := w.blob(e.OID)
			w.must(err)
			rules.Ignore[e.Path] = data
		}
	}
	s, err := scope.New(base, rules)
	w.must(err)
	v, err := s.Verify(ctx, w.dir)
	w.must(err)
	for _, change := range c.Changes {
		if change.AfterMode == scope.ModeGitlink {
			w.must(os.Remove(filepath.Join(w.dir, change.Path, "file")))
		}
	}
	out := Verdict{Discarded: v.Discarded, Waits: len(v.Guarded) > 0}
	for _, x := range v.Violations {
		if x.Code != kernel.CodeScopeViolation {
			out.Violations = append(out.Violations, x)
		}
	}
	if _, message := k.Message(c.Title, sampleTask); len(message) > 0 {
		out.Violations = append(out.Violations, message...)
	}
	out.Violations = append(out.Violations, v.NoOutput()...)
	return out
}

func (w *workspace) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *workspace) tree(oid git.OID) []scope.Entry {
	w.t.Helper()
	if oid == "" {
		return nil
	}
	tree, err := w.repo.Tree(context.Background(), oid)
	w.must(err)
	var out []scope.Entry
	for _, e := range tree.Entries {
		out = append(out, scope.Entry{Path: e.Path, Mode: e.Mode.String(), OID: string(e.OID)})
	}
	return out
}

func (w *workspace) blob(oid string) ([]byte, error) {
	return w.repo.Blob(context.Background(), git.OID(oid))
}

// remove takes away what a commit replaces, with the directories that it leaves empty.
func (w *workspace) remove(c kernel.Change) {
	path := filepath.Join(w.dir, c.Path)
	w.must(os.RemoveAll(path))
	for dir := filepath.Dir(path); dir != w.dir && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
		continue
	}
}

func (w *workspace) write(c kernel.Change) {
	path := filepath.Join(w.dir, c.Path)
	if c.Op == kernel.OpDelete {
		return
	}
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	if c.AfterMode == scope.ModeGitlink { // as whoever works on it has it
		w.must(os.MkdirAll(path, 0o755))
		w.must(os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
		return
	}
	data, err := w.blob(c.AfterID)
	w.must(err)
	if c.AfterMode == scope.ModeSymlink {
		w.must(os.Symlink(string(data), path))
		return
	}
	mode := os.FileMode(0o644)
	if c.AfterMode == scope.ModeExec {
		mode = 0o755
	}
	w.must(os.WriteFile(path, data, mode))
	w.must(os.Chmod(path, mode))
}

// madeHistory makes a repository whose last commits do all that commits can do: the same
// ones each time.
func madeHistory(t *testing.T) (string, git.OID) {
	t.Helper()
	dir := gittest.NewBare(t)
	rnd := rand.New(rand.NewPCG(1000, 14))
	pool := []string{
		"src/a.go", "src/A.go", "src/b/c.go", "Src/b/d.go", "src/b/link", "src/secret/key", "README", "docs/one", "docs/Two", "docs/two",
		"go.mod", "go.sum", ".github/workflows/ci.yml", ".gitignore", "src/.gitignore", "build/out", "src/x.log", "trace.log",
		"src/aux.go", "docs/-x", "src/big", "tool/run.sh", "src/b", "vendor/pkg/deep/file", "vendor/.gitignore", "vendor/x.log", "vendor/pkg/y.log", "CLAUDE.md",
	}
	var b strings.Builder
	files := map[string]string{"sub": "160000 " + strings.Repeat("1", 40)}
	titles := []string{"Add a thing", "Fixes #12 [skip ci] @org/all", "feat: größer", "", "Revert \"x\"\x07"}
	for i := 1; i <= agreed+20; i++ {
		for range rnd.IntN(5) { // none now and then
			if p := pool[rnd.IntN(len(pool))]; files[p] != "" && rnd.IntN(3) == 0 {
				delete(files, p)
			} else if fits(files, p) {
				files[p] = made(rnd, p)
			}
		}
		if i%40 == 0 {
			files["sub"] = "160000 " + strings.Repeat(fmt.Sprint(i/40+1), 40)
		}
		if i == 30 {
			for n := range 12 {
				files[fmt.Sprintf("src/many/%d", n)] = "100644 x"
			}
		}
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\n", i, 1_700_000_000+i)
		title := titles[rnd.IntN(len(titles))]
		fmt.Fprintf(&b, "data %d\n%s\n", len(title), title)
		if i > 1 {
			fmt.Fprintf(&b, "from :%d\n", i-1)
		}
		if i > 5 && i%10 == 0 {
			fmt.Fprintf(&b, "merge :%d\n", i-3)
		}
		b.WriteString("deleteall\n")
		for path, f := range files {
			mode, content, _ := strings.Cut(f, " ")
			if mode == "160000" {
				fmt.Fprintf(&b, "M %s %s %s\n", mode, content, path)
				continue
			}
			fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, path, len(content), content)
		}
		b.WriteString("\n")
	}
	gittest.GitInput(t, dir, b.String(), "fast-import", "--quiet")
	return dir, git.OID(gittest.RefOID(dir, "refs/heads/main"))
}

// made is a file's mode and content, as its name says.
func made(rnd *rand.Rand, path string) string {
	switch {
	case strings.HasSuffix(path, "link"):
		return fmt.Sprintf("120000 target%d", rnd.IntN(2))
	case strings.HasSuffix(path, "big"):
		return "100644 " + strings.Repeat("b", 1000+rnd.IntN(1500))
	case path == ".gitignore":
		return []string{"100644 trace.log\n/build/\n", "100644 /trace.*\n"}[rnd.IntN(2)]
	case strings.HasSuffix(path, ".gitignore"):
		return []string{"100644 *.log\n", "100644 *.log\n!x.log\n"}[rnd.IntN(2)]
	case rnd.IntN(4) == 0:
		return fmt.Sprintf("100755 %d", rnd.IntN(3))
	}
	return fmt.Sprintf("100644 %d", rnd.IntN(3))
}

// fits reports whether a path can stand beside the others.
func fits(files map[string]string, path string) bool {
	for p := range files {
		if strings.HasPrefix(p, path+"/") || strings.HasPrefix(path, p+"/") {
			return false
		}
	}
	return true
}
