package housekeeping

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/treetest"
)

// The patches show that a new kind of waiting, a second candidate and a second step of a
// plan are added without touching the driver. They are applied one on the other.
var extensions = []string{"hours", "candidate", "step"}

const extensionDir = "executor/supervisor/testdata/extend"

// TestExtend_LeavesTheDriver applies the patches to copies of the files, runs the
// simulations that come with them on these, and compares the driver before and after.
func TestExtend_LeavesTheDriver(t *testing.T) {
	top, work := root(t), t.TempDir()
	replace := map[string]string{}
	for _, name := range extensions {
		patch := filepath.Join(top, extensionDir, name+".patch")
		data, err := os.ReadFile(patch)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^diff --git a/(\S+) `).FindAllSubmatch(data, -1) {
			copied(t, top, work, string(m[1]), replace)
		}
		cmd := exec.Command("git", "apply", "--whitespace=nowarn", patch)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(work, "none"), "GIT_CEILING_DIRECTORIES="+filepath.Dir(work))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s.patch doesn't apply any more; mend it by hand and write it with git diff -U1: %v\n%s", name, err, out)
		}
	}
	if len(driver(t, filepath.Join(top, "executor/supervisor/drive.go"))) < 10 {
		t.Fatal("the driver isn't found")
	}
	for path, copied := range replace {
		before, after := driver(t, treetest.Source(t, path)), driver(t, copied)
		if !slices.Equal(before, after) {
			t.Errorf("%s: the driver is touched:\n%s", path, after)
		}
	}
	passes(t, work, replace, "./executor/supervisor", "TestExtend_Hours", "TestExtend_Candidate", "TestExtend_Step")
}

// passes runs tests of a package, some of whose sources are replaced.
func passes(t *testing.T, work string, replace map[string]string, dir string, tests ...string) {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-overlay", file, "-count=1", "-run", "^("+strings.Join(tests, "|")+")$", "-v", dir)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), treetest.Variable+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range tests {
		if !bytes.Contains(out, []byte("--- PASS: "+want+" ")) {
			t.Errorf("%s wasn't run:\n%s", want, out)
		}
	}
}

// TestExtend_AKindOfItsOwn does what docs/builders.md says of a new kind of builder, to the
// letter: an agent of it does a task, and every test that holds of each kind holds of it.
func TestExtend_AKindOfItsOwn(t *testing.T) {
	const room, most = "executor/builder/", 30 // lines that the page may have added
	top, work := root(t), t.TempDir()
	replace := map[string]string{}
	_, section, _ := strings.Cut(read(t, "docs/builders.md"), "## A kind of its own")
	blocks := regexp.MustCompile("(?s)```(go|diff)\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 || blocks[0][1] != "go" || blocks[1][1] != "diff" {
		t.Fatalf("the page doesn't have a file and what else changes: %q", blocks)
	}
	put := func(path, text string) {
		copied(t, top, work, path, replace)
		if err := os.WriteFile(replace[filepath.Join(top, path)], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(room+"agent_mine.go", blocks[0][2])
	put(room+"agent_mine_test.go", read(t, room+"testdata/extend/agent_mine_test.go"))
	added := strings.Count(blocks[0][2], "\n")
	for change := range strings.SplitSeq(strings.TrimPrefix(blocks[1][2], "--- "), "\n--- ") {
		path, lines, _ := strings.Cut(change, "\n")
		var before, after string
		for l := range strings.Lines(strings.TrimSuffix(lines, "\n") + "\n") {
			if l[0] != '+' {
				before += l[1:]
			}
			if l[0] != '-' {
				after += l[1:]
			}
			if l[0] == '+' {
				added++
			}
		}
		was := read(t, path)
		if !strings.Contains(was, before) {
			t.Fatalf("%s doesn't have what the page changes in it:\n%s", path, before)
		}
		put(path, strings.Replace(was, before, after, 1))
	}
	if added > most {
		t.Errorf("the page adds %d lines, %d is what it promises", added, most)
	}
	passes(t, work, replace, "./"+room, "TestAgent_Mine", "TestS14_AgentsFilesAreForbidden")
	passes(t, work, replace, "./cmd/housekeeping", "TestKinds_Documented")
}

// TestExtend_IsDocumented: docs/architecture.md has the first patch, but for its test.
func TestExtend_IsDocumented(t *testing.T) {
	doc := read(t, "docs/architecture.md")
	for part := range strings.SplitSeq(read(t, extensionDir+"/"+extensions[0]+".patch"), "diff --git ") {
		if name, _, _ := strings.Cut(part, "\n"); !strings.Contains(name, "_test.go") && !strings.Contains(doc, part) {
			t.Errorf("docs/architecture.md doesn't have the change of %s as the patch has it now", name)
		}
	}
}

// copied notes that a file of the repository is replaced by a copy, which it makes where
// there is one to make.
func copied(t *testing.T, root, work, path string, replace map[string]string) {
	t.Helper()
	from, to := filepath.Join(root, path), filepath.Join(work, path)
	if replace[from] != "" {
		return
	}
	replace[from] = to
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(treetest.Source(t, from))
	if os.IsNotExist(err) {
		return
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// driver are the functions of a file that lead requests through the machine and through the
// rooms: the methods of Task and of drive. A file that isn't there has none.
func driver(t *testing.T, path string) []string {
	t.Helper()
	if _, err := os.Stat(path); os.IsNotExist(err) || !strings.HasSuffix(path, ".go") {
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		var recv, body bytes.Buffer
		_ = printer.Fprint(&recv, set, f.Recv.List[0].Type)
		if r := recv.String(); r != "*Task" && r != "*drive" {
			continue
		}
		if err := printer.Fprint(&body, set, f); err != nil {
			t.Fatal(err)
		}
		out = append(out, body.String())
	}
	return out
}
