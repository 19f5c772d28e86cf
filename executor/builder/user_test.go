package builder

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// ordinaryUser is the user id without privileges that tests use when run by
// root; nothing else runs as it.
const ordinaryUser = 23457

// asOrdinaryUser are the tests in which it matters who Writ is: directories
// that their owner closed, files that were given away, trees that are removed.
const asOrdinaryUser = "^Test(S4|S10|S16|S17|X3|X5_Ends|X7_ResultOf|Kill|Sweep|Honest|Check_Fresh|T59|P9_Nothing|Closed)"

// elsewhere puts these tests, with what they read, where another user can be
// given them.
func elsewhere(t *testing.T) (dir, binary string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "writ-tests-") // what t.TempDir makes is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "builder.test")
	gittest.WriteProgram(t, binary, string(self))
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	return dir, binary
}

// TestOrdinaryUser runs them again without root's privileges. Run by an
// ordinary user they have already shown it.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("not root: the other tests ran as an ordinary user")
		return
	}
	dir, binary := elsewhere(t)
	if err := os.Chown(dir, ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run", asOrdinaryUser, "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
	for _, name := range []string{"TestS16_", "TestS17_", "TestX5_", "TestX7_", "TestClosed", "TestClosed_Prepared"} {
		if !strings.Contains(string(out), "--- PASS: "+name) {
			t.Errorf("%s did not run as an ordinary user:\n%s", name, out)
		}
	}
}

// TestClosedDirectories are gone with the rest of the workspace, and a result
// that its own builder closed is no result: only root could read it.
func TestClosedDirectories(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`echo '// changed' >> calc/add.go; result '["calc/add.go"]'; chmod 000 "$WRIT_RESULT"
mkdir -p build/a/b/c; echo x > build/a/b/c/x; chmod 000 build/a/b/c build/a/b build/a build "${WRIT_RESULT%/*}"; chmod 000 .git/objects/pack .git`)
	want := "execution.result.invalid"
	if os.Geteuid() == 0 {
		want = ""
	}
	if codes(o) != want || paths(o.Diff) != "modify calc/add.go" {
		t.Errorf("codes %q, changes %s: %v", codes(o), paths(o.Diff), o.Violations)
	}
}
