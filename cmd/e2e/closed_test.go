package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// closedTask is the command of a task without namespaces. All of it is in one
// directory that every user may pass through.
func closedTask(t *testing.T) (dir string, argv []string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "writ-closed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "writ")
	gittest.WriteProgram(t, binary, string(text))
	repo := filepath.Join(dir, "repo.git")
	if err := os.CopyFS(repo, os.DirFS(newRepo(t, map[string]string{"a.txt": "a\n"}))); err != nil {
		t.Fatal(err)
	}
	config := write(t, dir, "writ.yaml", "sandbox: landlock\nbuilders:\n  default:\n    argv: [sh, -c, 'git config user.name b && git log -1 > /dev/null && echo b > a.txt']\n")
	issue := write(t, dir, "7.md", task("Say b", "a.txt"))
	return dir, []string{binary, "task", "run", "--json", "--repo", repo, "--issue", issue, "--config", config, "--state-dir", filepath.Join(dir, "state")}
}

// landlocked is how a report names the level. Where no control group can be made,
// it says in brackets what isn't held.
var landlocked = regexp.MustCompile(`"sandbox":"landlock( \([^"]+\))?"`)

// runLandlocked runs the command and sees that the task is done and that its
// report names the level.
func runLandlocked(t *testing.T, dir string, argv []string) {
	t.Helper()
	cmd, a := command(t, nil)
	cmd.Path, cmd.Args = argv[0], argv
	a.exit = ended(t, cmd.Run())
	r := a.want(t, 0).report(t)
	if !r.Verified || strings.Join(r.ChangedFiles, " ") != "a.txt" {
		t.Errorf("report %+v", r)
	}
	if !landlocked.MatchString(a.stdout) {
		t.Errorf("the report doesn't name the level:\n%s", a.stdout)
	}
	if got := gittest.Git(t, filepath.Join(dir, "repo.git"), "show", "writ/change/7:a.txt"); got != "b" {
		t.Errorf("the change has %q", got)
	}
}

// In a container that forbids namespaces, as an ordinary user.
func TestX4_ClosedContainer(t *testing.T) {
	dir, argv := closedTask(t)
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
	runLandlocked(t, dir, append([]string{bwrap, "--unshare-user", "--disable-userns", "--unshare-pid", "--uid", "1000", "--gid", "1000",
		"--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", dir, dir,
		"--die-with-parent", "--setenv", "HOME", dir, "--setenv", "TMPDIR", dir, "--"}, argv...))
}

// The same level outside of one. As root each program has a user of its own,
// who must be able to pass through the state directory.
func TestX4_WithoutNamespaces(t *testing.T) {
	dir, argv := closedTask(t)
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o711); err != nil {
		t.Fatal(err)
	}
	runLandlocked(t, dir, argv)
}
