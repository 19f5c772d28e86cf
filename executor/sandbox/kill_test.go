package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stubborn ignores every polite signal and leaves a grandchild in a session of
// its own that does the same and holds the standard output.
const stubborn = `
trap '' TERM INT HUP QUIT PIPE
setsid sh -c 'trap "" TERM INT HUP QUIT PIPE; echo grandchild; while :; do sleep 1000; done' "$1" &
echo child
while :; do sleep 1000; done`

// marker is a word that no other process of the host has among its arguments.
func marker(t *testing.T) string {
	return fmt.Sprintf("marker-%d-%s-%d", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
}

// eachEnd runs a test with every level, and with landlock as on a kernel that can't
// keep signals inside.
func eachEnd(t *testing.T, test func(*testing.T, Sandbox)) {
	t.Helper()
	eachLevel(t, test)
	if os.Geteuid() == 0 { // who isn't has no such level: TestLandlock_UsersInUse
		t.Run("unscoped", func(t *testing.T) { test(t, unscoped(t)) })
	}
}

func unscoped(t *testing.T) *Landlocked {
	n := newLandlocked(t)
	n.abi = abiScoped - 1
	n.cfg.Cgroup = filepath.Join(t.TempDir(), "none") // which would end the tree as well
	return n
}

func TestX5_StubbornTreeIsKilled(t *testing.T) { eachEnd(t, stubbornTree) }

func stubbornTree(t *testing.T, s Sandbox) {
	m := marker(t)
	r := start(t, s, script(t, stubborn, m))
	r.await(t, "the start", r.Started())
	r.await(t, "the grandchild", r.line("grandchild"))
	if len(processesWith(t, m)) < 2 {
		t.Fatal("the tree is not visible from the host, so its death can't be seen")
	}
	if !r.Kill() {
		t.Fatalf("not dead after %v", KillGrace)
	}
	select {
	case <-r.Done():
	default:
		t.Error("Kill came back before the end")
	}
	if e := r.Wait(); e.Cause != CauseKilled || e.Code != -1 {
		t.Errorf("exit = %+v", e)
	}
	if left := processesWith(t, m); len(left) != 0 {
		t.Errorf("processes %v survived", left)
	}
}

// The main program ends while a grandchild holds the output: the end comes at
// once and the grandchild with it.
func TestX5_GrandchildDoesNotOutliveTheProgram(t *testing.T) { eachEnd(t, leftGrandchild) }

func leftGrandchild(t *testing.T, s Sandbox) {
	m := marker(t)
	spec := script(t, `
mkfifo f; setsid sh -c 'trap "" TERM HUP; echo ready > f; while :; do sleep 1000; done' "$1" &
read line < f; exit 7`, m)
	r := start(t, s, spec)
	if e := r.finish(t); e.Cause != CauseExited || e.Code != 7 || e.Wall > waitLimit {
		t.Errorf("exit = %+v", e)
	}
	if left := processesWith(t, m); len(left) != 0 {
		t.Errorf("processes %v survived", left)
	}
}

// successors has processes of other groups, each of which starts its successor and
// ends, until there is a file "stop".
const successors = `
for i in $(seq 20); do setsid perl -e 'while (!-e "stop") { fork && exit }' & done
wait; echo ready; `

// Processes that replace themselves faster than anybody can list them end with the
// program, and when they are killed.
func TestX5_SuccessorsAreKilled(t *testing.T) {
	eachEnd(t, func(t *testing.T, s Sandbox) {
		for name, then := range map[string]string{"ended": "exit 0", "killed": "sleep 1000000"} {
			t.Run(name, func(t *testing.T) {
				spec := script(t, successors+then)
				r := start(t, s, spec)
				t.Cleanup(func() { // where nothing else ended them
					_ = os.WriteFile(filepath.Join(spec.Workspace, "stop"), nil, 0o600)
				})
				r.await(t, "the start", r.line("ready"))
				if name == "killed" && !r.Kill() {
					t.Fatalf("not dead after %v", KillGrace)
				}
				r.await(t, "the end", r.Done())
			})
		}
	})
}

// In the reaper's domain no signal reaches what was there before. Killed is what was
// started in it, whether anybody would find it or not: here no parent leads to it.
func TestX5_SignalsStayInTheDomain(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if err := scopeSignals(); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Kill(os.Getppid(), 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("a signal outwards: %v", err)
			return // what follows would end all that this user runs
		}
		said, err := exec.Command("setsid", "sh", "-c", "sleep 3600 > /dev/null 2>&1 & echo $!").Output()
		if err != nil {
			t.Error(err)
			return
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(said)))
		if err != nil {
			t.Error(err)
			return
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		(&reaper{}).slayOnce()
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(KillGrace.Milliseconds())); n != 1 {
			t.Errorf("what was started in the domain lives: %v", err)
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
	}()
	<-done
}

// asRoot runs a test on a thread that ends with it, where root runs the tests.
func asRoot(t *testing.T, test func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not root: no program gets a user of its own")
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		test()
	}()
	<-done
}

// program is a process with a user of its own, in a session of its own.
func program(t *testing.T, uid int, script string) (cmd *exec.Cmd, in io.Writer, out *bufio.Reader) {
	t.Helper()
	cmd = exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	in, err := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, in, bufio.NewReader(stdout)
}

// ownUser is a user whom only one of these tests has.
const ownUser = ordinaryUser + 1000

// Where no domain keeps signals, the reaper kills by the user: all that has it and
// nobody else, and it is as root again afterwards.
func TestX5_SignalsOfAUser(t *testing.T) {
	asRoot(t, func() {
		his, _, _ := program(t, ownUser, "read line")
		other, _, _ := program(t, ownUser+1, "read line")
		(&reaper{uid: ownUser}).slayOnce()
		if err := his.Wait(); err == nil || his.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Errorf("the user's process: %v", err)
		}
		if err := other.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("another user's process: %v", err)
		}
		if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 1 || os.Geteuid() != 0 {
			t.Errorf("afterwards the thread is user %d, dumpable %d, %v", os.Geteuid(), dumpable, err)
		}
	})
}

// While it kills by the user, no signal of that user ends the reaper.
func TestX5_ReaperIsOutOfTheUsersReach(t *testing.T) {
	asRoot(t, func() {
		_, in, out := program(t, ownUser+2, "read pid; kill -0 $pid 2>&1 && echo reached || echo refused")
		if err := asUser(ownUser+2, func() error {
			fmt.Fprintln(in, unix.Gettid())
			said, err := io.ReadAll(out)
			if !strings.HasSuffix(string(said), "refused\n") {
				t.Errorf("a signal to the reaper: %q", said)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}

// A reaper that keeps its rights with another user would kill all that runs: it
// refuses to.
func TestX5_RightsThatStay(t *testing.T) {
	const noSetuidFixup = 1 << 2
	asRoot(t, func() {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noSetuidFixup, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		if err := signalUser(ownUser, 0); err == nil {
			t.Error("it would have killed")
		}
	})
}

func TestX5_ContextEndsTheTree(t *testing.T) {
	eachLevel(t, func(t *testing.T, s Sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		p, err := s.Start(ctx, script(t, stubborn, "x"))
		if err != nil {
			t.Fatal(err)
		}
		<-p.Started()
		cancel()
		if e := p.Wait(); e.Cause != CauseKilled {
			t.Errorf("exit = %+v", e)
		}
	})
}

// The kernel ties the parent-death signal to a thread. A caller whose thread
// ends must not take the sandbox along.
func TestStart_SurvivesTheCallersThread(t *testing.T) { eachLevel(t, callersThread) }

func callersThread(t *testing.T, b Sandbox) {
	spec := script(t, "read line; echo got $line")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	c := &Capture{}
	spec.Stdin, spec.Stdout = in, c
	got := make(chan *Process)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		p, err := b.Start(context.Background(), spec)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	p := <-got
	<-p.Started()
	fmt.Fprintln(out, "word")
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e.Cause != CauseExited || c.Text() != "got word\n" {
		t.Errorf("exit = %+v, output %q", e, c.Text())
	}
}

func TestX6_ProgramThatCantStart(t *testing.T) { eachLevel(t, cantStart) }

func cantStart(t *testing.T, b Sandbox) {
	for name, c := range map[string]struct {
		argv0, code string
		prepare     string
	}{
		"missing":        {argv0: "/usr/bin/no-such-program", code: CodeNotFound},
		"not on path":    {argv0: "no-such-program", code: CodeNotFound},
		"not executable": {argv0: "/etc/passwd", code: CodeNotExecutable},
		"a directory":    {argv0: "/usr", code: CodeNotExecutable},
	} {
		t.Run(name, func(t *testing.T) {
			spec := script(t, "")
			spec.Argv = []string{c.argv0}
			r := start(t, b, spec)
			e := r.finish(t)
			var err *Error
			if e.Cause != CauseStartFailed || !errors.As(e.Err, &err) || err.Code != c.code {
				t.Errorf("exit = %+v", e)
			}
			select {
			case <-r.Started():
				t.Error("there was a sign of life")
			default:
			}
		})
	}
}

// No sign of life comes from a sandbox that hangs before its program runs; the
// caller's start timeout then kills it.
func TestX6_NoSignOfLife(t *testing.T) {
	b := NewBubblewrap(Config{Bubblewrap: fake(t, "echo hanging; exec sleep 1000000\n")})
	p, err := b.Start(t.Context(), script(t, "true"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Started():
		t.Error("there was a sign of life")
	case <-p.Done():
		t.Errorf("it ended: %+v", p.Wait())
	case <-time.After(100 * time.Millisecond): // the caller's start timeout
	}
	if !p.Kill() {
		t.Fatalf("not dead after %v", KillGrace)
	}
	if e := p.Wait(); e.Cause != CauseKilled {
		t.Errorf("exit = %+v", e)
	}
}

func TestX6_ExitWithoutOutput(t *testing.T) {
	r := start(t, newSandbox(t), script(t, "exit 0"))
	if e := r.finish(t); e.Cause != CauseExited || e.Code != 0 || r.out.Total() != 0 {
		t.Errorf("exit = %+v, %d bytes", e, r.out.Total())
	}
	select {
	case <-r.Started():
	default:
		t.Error("a program that ran had no sign of life")
	}
}

// supervise is the writ of TestK4: it starts a stubborn tree, says so and waits
// to be killed.
func supervise(args []string) {
	ready := make(chan struct{})
	spec := Spec{Argv: []string{"/bin/sh", "-c", stubborn, "sh", args[1]}, Env: BaseEnv(), Workspace: args[0]}
	var s Sandbox = NewBubblewrap(Config{})
	if abi, err := strconv.Atoi(args[2]); err == nil {
		n := NewLandlocked(Config{Init: args[3]})
		n.abi, s = abi, n
	}
	spec.Stdout = &Capture{OnLine: func(line string) {
		if line == "grandchild" {
			close(ready)
		}
	}}
	if _, err := s.Start(context.Background(), spec); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	<-ready
	fmt.Println("ready")
	select {
	case <-context.Background().Done():
	case <-time.After(time.Hour):
	}
}

func TestK4_TreeDiesWithTheSupervisor(t *testing.T) { eachEnd(t, diesWithTheSupervisor) }

func diesWithTheSupervisor(t *testing.T, s Sandbox) {
	m := marker(t)
	cmd := supervised(t, s, m)
	tree := handles(t, m, cmd.Process.Pid)
	if len(tree) < 3 { // the reaper, or two of bwrap; the child, the grandchild
		t.Fatalf("only %d processes are visible", len(tree))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for pid, fd := range tree {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(KillGrace.Milliseconds())); n != 1 {
			t.Errorf("process %d is alive %v after the supervisor: %v", pid, KillGrace, err)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		unix.Close(fd)
	}
}

// supervised starts the writ of TestK4, and waits until its tree is there.
func supervised(t *testing.T, s Sandbox, m string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	level := s.Name()
	if n, ok := s.(*Landlocked); ok {
		level = strconv.Itoa(n.abi)
	}
	cmd := exec.Command(self, "act-supervise", place(t), m, level, passable(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the supervisor said %q, %v", line, err)
	}
	return cmd
}

// A temporary directory is in use as long as the tree is, whose reaper is held up
// here, and not only as long as its writ is.
func TestK4_SweepSparesALivingTree(t *testing.T) {
	t.Setenv("TMPDIR", place(t))
	if err := os.Chmod(os.TempDir(), 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := supervised(t, newLandlocked(t), marker(t))
	reapers := children(cmd.Process.Pid)
	if len(reapers) != 1 {
		t.Fatalf("the supervisor has the children %v", reapers)
	}
	reaper, err := unix.PidfdOpen(reapers[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reaper)
	if err := unix.PidfdSendSignal(reaper, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	left := func() []string {
		sweepScratch()
		dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
		return dirs
	}
	if dirs := left(); len(dirs) != 1 {
		t.Errorf("of a living tree there is %v", dirs)
	}
	if err := unix.PidfdSendSignal(reaper, unix.SIGCONT, nil, 0); err != nil {
		t.Fatal(err)
	}
	fds := []unix.PollFd{{Fd: int32(reaper), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, int(waitLimit.Milliseconds())); n != 1 {
		t.Fatalf("the reaper is alive %v after its writ: %v", waitLimit, err)
	}
	if dirs := left(); len(dirs) != 0 {
		t.Errorf("of a dead tree there is %v", dirs)
	}
}

// handles opens all processes below the supervisor, and those with the marker.
func handles(t *testing.T, m string, supervisor int) map[int]int {
	t.Helper()
	pids := append(processesWith(t, m), new(meter).measure(supervisor).pids[1:]...)
	fds := map[int]int{}
	for _, pid := range pids {
		if _, ok := fds[pid]; ok || pid == supervisor {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			fds[pid] = fd
		}
	}
	return fds
}

// A writ that died while bwrap started leaves a process that only its command
// line tells; another's sandboxes and programs of other names are left alone.
func TestK4_StraysAreKilled(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	stand := func(name string, args ...string) *exec.Cmd { return standIn(t, name, args...) }
	stray := stand("bwrap", "--unshare-pid", "--bind", dir+"/run-1/workspace", WorkspaceDir)
	for _, spared := range [][]string{
		{"bwrap", "--bind", other + "/run-1/workspace", WorkspaceDir},
		{"bwrap", "--bind", dir + "x/run-1/workspace", WorkspaceDir},
		{"bwrap", "--ro-bind", dir + "/cache", "/cache"},
		{"agent", "--bind", dir + "/run-1/workspace", WorkspaceDir},
	} {
		stand(spared[0], spared[1:]...)
	}
	if n := KillStrays(dir); n != 1 {
		t.Errorf("%d processes were killed", n)
	}
	if err := stray.Wait(); err == nil {
		t.Error("the stray ended by itself")
	}
	stand("bwrap", "--ro-bind", dir+"/layers/1", lowerPlace(0), "--bind", dir+"/run-1/workspace", upperPlace)
	if n := KillStrays(dir); n != 1 {
		t.Errorf("%d processes with layers were killed", n)
	}
	link := filepath.Join(other, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for started, asked := range map[string]string{link: dir, dir: link} {
		stray := stand("bwrap", "--unshare-pid", "--bind", started+"/run-1/workspace", WorkspaceDir)
		if n := KillStrays(asked); n != 1 {
			t.Errorf("below %s, asked for %s, %d processes were killed", started, asked, n)
		}
		_ = stray.Process.Kill() // where it wasn't
		_ = stray.Wait()
	}
}

// standIn is a process that is called so, and waits.
func standIn(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-c", `exec -a "$0" sh -c 'echo up; read line' sh "$@"`, name}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("it said %q, %v", line, err)
	}
	return cmd
}

// What a writ leaves that is killed while it tries the sandbox is taken away by the
// next one that does; what one that lives has is left alone.
func TestK4_ProbesLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead := filepath.Join(os.TempDir(), scratchPrefix+"dead")
	if err := os.MkdirAll(filepath.Join(dead, "workspace", "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dead, "workspace", "closed"), 0); err != nil {
		t.Fatal(err)
	}
	stray := standIn(t, "bwrap", "--unshare-pid", "--bind", filepath.Join(dead, "workspace"), WorkspaceDir)
	other, err := newScratch()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.remove() }()
	live := filepath.Join(other.dir, "workspace")
	working := standIn(t, "bwrap", "--unshare-pid", "--bind", live, WorkspaceDir)
	if err := NewBubblewrap(Config{}).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stray.Wait(); err == nil {
		t.Error("the stray ended by itself")
	}
	if err := working.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("what one that lives has was ended: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	if err != nil || !slices.Equal(left, []string{other.dir}) {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A process that is killed in the middle of the probe leaves nothing that the next
// one doesn't take away.
func TestK4_KilledWhileProbing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for range 12 {
		cmd := exec.Command(os.Args[0], "act-probe")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("it said %q, %v", line, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := NewBubblewrap(Config{}).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if n := KillStrays(os.TempDir()); n > 0 {
		t.Errorf("%d processes wait for a dead parent", n)
	}
}
