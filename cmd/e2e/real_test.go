package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// A repository that this project did not make: the source of a module that it
// uses, with its own layout, tests and odd files. The builder is gofmt with a
// rewrite rule, a real formatter doing a real change.
func TestRealRepository(t *testing.T) {
	const module = "github.com/google/go-cmp"
	source := moduleDir(t, module)
	repo := importTree(t, source)
	issue := write(t, t.TempDir(), "7-any.md", "# Say any\n\nUse the predeclared name.\n\n"+
		"```writ\nallowed_files: ['**/*.go']\nexpected_outcome: no file says interface{}\n```\n")
	gofmt := gofmtPath(t)
	a := writ(t, nil, "task", "run", "--json", "--repo", repo, "--issue", issue, "--state-dir", filepath.Join(t.TempDir(), "state"),
		"--ro", filepath.Dir(filepath.Dir(gofmt)), "--builder", gofmt+` -r "interface{} -> any" -w .`)
	r := a.want(t, 0).report(t)
	if len(r.ChangedFiles) == 0 || !r.Verified {
		t.Fatalf("report %+v", r)
	}
	if n := gittest.Git(t, repo, "rev-list", "--count", "main..writ/change/7"); n != "1" {
		t.Errorf("%s commits on the change branch, want 1", n)
	}
	if got := strings.Fields(gittest.Git(t, repo, "diff", "--name-only", "main", "writ/change/7")); strings.Join(got, "\n") != strings.Join(r.ChangedFiles, "\n") {
		t.Errorf("the commit has %v, the report %v", got, r.ChangedFiles)
	}
	for _, f := range r.ChangedFiles {
		before := gittest.Git(t, repo, "show", "main:"+f)
		after := gittest.Git(t, repo, "show", "writ/change/7:"+f)
		if strings.Count(after, "interface{}") >= strings.Count(before, "interface{}") { // comments keep theirs
			t.Errorf("%s wasn't rewritten", f)
		}
	}
	writ(t, nil, "verify", repo, "--task", "7").want(t, 0)
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil || strings.TrimSpace(string(out)) == "" {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

func gofmtPath(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "bin", "gofmt")
}

// importTree makes a bare repository of a directory, byte for byte.
func importTree(t *testing.T, dir string) string {
	t.Helper()
	repo := gittest.NewBare(t)
	index := filepath.Join(t.TempDir(), "index")
	run := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"--git-dir", repo, "--work-tree", dir, "-c", "core.autocrlf=false"}, args...)...)
		cmd.Env = append(append(os.Environ(), gittest.Env()...), "GIT_INDEX_FILE="+index)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("add", "-A", ".")
	run("update-ref", "refs/heads/main", run("commit-tree", "-m", "Import", run("write-tree")))
	return repo
}
