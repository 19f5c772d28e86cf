package builder

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/writbot/writ/executor/sandbox"
)

// confinedVar is set in the run of these tests that TestX4_ClosedContainer makes.
const confinedVar = "WRIT_TEST_CONFINED"

func confined() bool { return os.Getenv(confinedVar) != "" }

// hostileTests are those that a closed container must pass, too. The rest of the
// package's tests is about what no level of isolation changes.
const hostileTests = "^Test(S[0-9]+|X(10|[1235678])|Hostile|Confined)_"

// TestX4_ClosedContainer runs the hostile builders in a container that forbids
// namespaces, as Docker's default profile and restricted pods do. There writ has
// an ordinary user, no capabilities, and no sandbox but the level landlock.
func TestX4_ClosedContainer(t *testing.T) {
	t.Parallel()
	dir, binary := elsewhere(t)
	cmd := exec.Command("bwrap", "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", dir, dir, "--chdir", dir, "--die-with-parent",
		"--setenv", confinedVar, "yes", "--setenv", "HOME", dir, "--setenv", "TMPDIR", dir, "--", binary, "-test.run", hostileTests, "-test.v")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in a closed container: %v\n%s", err, out)
	}
	for _, name := range []string{"TestConfined_", "TestS1_", "TestS16_", "TestX1_", "TestX2_", "TestX3_", "TestX5_", "TestX8_", "TestX10_"} {
		if !strings.Contains(string(out), "--- PASS: "+name) {
			t.Errorf("%s did not run in the closed container:\n%s", name, out)
		}
	}
}

// In the closed container there is nothing else: the run above would mean little
// if bubblewrap worked there.
func TestConfined_NoNamespaces(t *testing.T) {
	if !confined() {
		t.Log("TestX4_ClosedContainer runs this where namespaces are forbidden")
		return
	}
	if err := sandbox.NewBubblewrap(sandbox.Config{}).Probe(t.Context()); err == nil {
		t.Error("bubblewrap works here, so this container isn't closed")
	}
	if os.Getuid() == 0 {
		t.Error("this container runs as root")
	}
}
