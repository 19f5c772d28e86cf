package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if act, ok := acts()[os.Args[1]]; ok {
			act(os.Args[2:])
			os.Exit(0)
		}
	}
	code := m.Run()
	if path, err := publicSelf(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// waitLimit bounds waits for events that normally take milliseconds. Reaching
// it is a failure, so its size costs nothing.
const waitLimit = 2 * time.Minute

// ordinaryUser is the first of the user ids without privileges that tests use when run by
// root; no other program runs as one of them.
const ordinaryUser = 23456

// ordinaryUsers is how many of these ids were given out. Each run has one of its own, because
// some limits are on all processes of a user.
var ordinaryUsers atomic.Uint32

// newSandbox gives the real thing, or says how to get it.
func newSandbox(t *testing.T) *Bubblewrap {
	t.Helper()
	b := NewBubblewrap(Config{})
	if err := probed(b); err != nil {
		t.Fatalf("these tests need a working sandbox: %v", err)
	}
	return b
}

// newLandlocked gives the level without namespaces.
func newLandlocked(t *testing.T) *Landlocked {
	t.Helper()
	n := NewLandlocked(Config{Init: passable(t)})
	if err := probed(n); err != nil {
		t.Fatalf("these tests need a kernel with Landlock: %v", err)
	}
	return n
}

// passable is this program where each user can execute it: a test's own place is
// closed to all others.
func passable(t *testing.T) string {
	t.Helper()
	path, err := publicSelf()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var publicSelf = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("/tmp", publicPrefix)
	if err != nil {
		return "", err
	}
	self, err := os.ReadFile("/proc/self/exe")
	path := filepath.Join(dir, "sandbox.test")
	return path, errors.Join(err, os.Chmod(dir, 0o755), writeProgram(path, self))
})

// writeProgram writes a file that everybody may execute. No process is started meanwhile:
// until its exec it would have the file open for writing, too, and what somebody writes
// to can't be executed (golang.org/issue/22315).
func writeProgram(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}

// publicPrefix begins the name of passable's directory.
const publicPrefix = "writ-sandbox-test-"

// place is a new directory that every user can reach.
func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// closedHost says that the host forbids namespaces, so that the level
// without them is the only one: the lane of CI that runs in a closed container.
const closedHost = "WRIT_TEST_WITHOUT_NAMESPACES"

// eachLevel runs a test with every level that isolates.
func eachLevel(t *testing.T, test func(*testing.T, Sandbox)) {
	t.Helper()
	if os.Getenv(closedHost) == "" {
		t.Run("bubblewrap", func(t *testing.T) { test(t, newSandbox(t)) })
	}
	t.Run("landlock", func(t *testing.T) { test(t, newLandlocked(t)) })
}

// probes remember which sandboxes this host has, for all tests.
var probes sync.Map

func probed(s Sandbox) error {
	once, _ := probes.LoadOrStore(s.Name(), sync.OnceValue(func() error { return s.Probe(context.Background()) }))
	return once.(func() error)()
}

// script is a Spec that runs a shell script in a new workspace. Its $0 is the
// program of acts.
func script(t *testing.T, text string, args ...string) Spec {
	t.Helper()
	return Spec{Argv: append([]string{"/bin/sh", "-c", text, initPath}, args...), Env: BaseEnv(), Workspace: place(t)}
}

// act is a Spec that runs one of acts inside.
func act(t *testing.T, name string, args ...string) Spec {
	t.Helper()
	env := append(BaseEnv(), "GORACE=atexit_sleep_ms=0") // or a binary with the race detector ends a second late
	return Spec{Argv: append([]string{initPath, name}, args...), Env: env, Workspace: place(t)}
}

// outside begins an argument that is a path of the host. Tests have theirs below
// /tmp, for which the level without namespaces would put the program's own.
const outside = "@"

// running is a process with the lines it printed.
type running struct {
	*Process
	out *Capture
	mu  sync.Mutex
	got map[string]chan struct{}
}

// start starts spec with both streams in one Capture. The tree is dead at the
// end of the test whatever happens.
func start(t *testing.T, s Sandbox, spec Spec) *running {
	t.Helper()
	r := &running{got: map[string]chan struct{}{}}
	r.out = &Capture{Cap: 4 << 20, OnLine: func(line string) {
		c := r.line(line)
		select {
		case <-c:
		default:
			close(c)
		}
	}}
	spec.Stdout, spec.Stderr = r.out, r.out
	p, err := s.Start(context.Background(), spec)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	r.Process = p
	t.Cleanup(func() {
		if !p.Kill() {
			t.Errorf("the tree is not dead %v after Kill", KillGrace)
		}
	})
	return r
}

// line is closed when the program prints that line.
func (r *running) line(text string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got[text] == nil {
		r.got[text] = make(chan struct{})
	}
	return r.got[text]
}

// await waits for an event of r.
func (r *running) await(t *testing.T, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(waitLimit):
		t.Fatalf("%s did not happen in %v; output:\n%s", what, waitLimit, r.out.Text())
	}
}

// finish waits for the end.
func (r *running) finish(t *testing.T) Exit {
	t.Helper()
	r.await(t, "the end", r.Done())
	return r.Wait()
}

// succeed runs spec to its successful end and gives the output.
func succeed(t *testing.T, s Sandbox, spec Spec) string {
	t.Helper()
	r := start(t, s, spec)
	if e := r.finish(t); e.Cause != CauseExited || e.Code != 0 {
		t.Fatalf("exit = %+v; output:\n%s", e, r.out.Text())
	}
	return r.out.Text()
}

// processesWith lists processes of the host with marker among their arguments.
func processesWith(t *testing.T, marker string) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range paths {
		data, _ := os.ReadFile(path)
		if strings.Contains(string(data), marker) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
				t.Fatal(err)
			}
			if pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestOrdinaryUser runs the cases again without root's privileges, since the
// two levels differ. Run by an ordinary user the cases have already shown that.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("not root: the other tests ran as an ordinary user")
		return
	}
	for pattern, names := range map[string][]string{
		"^TestX8_Resources$":              {"TestX8_Resources"},
		"^TestX8_(ResourcesWithout|[^R])": {"TestX8_ResourcesWithoutNamespaces", "TestX8_ProgramsStillWork"},
		"^Test(X[1-6]_|X10_(EachSystemCall|ForeignInterface)|K4|Start|Inside|Landlock)": {"TestX1_", "TestX2_", "TestX3_", "TestX10_", "TestK4_", "TestLandlock_"},
	} {
		t.Run(names[0], func(t *testing.T) {
			t.Parallel()
			asOrdinaryUser(t, pattern, names...)
		})
	}
}

// asOrdinaryUser runs tests as a user of their own, who owns nothing else. Those of names must be
// among them.
func asOrdinaryUser(t *testing.T, pattern string, names ...string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "writ-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	user := ordinaryUser + ordinaryUsers.Add(1) - 1
	if err := os.Chown(dir, int(user), int(user)); err != nil {
		t.Fatal(err)
	}
	swept, err := sweeper()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(passable(t), "-test.run", pattern, "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, sweeperVar+"="+swept, elsewhereVar+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
	for _, name := range names {
		if !strings.Contains(string(out), "--- PASS: "+name) {
			t.Errorf("%s did not run as an ordinary user:\n%s", name, out)
		}
	}
}
