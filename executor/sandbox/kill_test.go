package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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

func TestX5_StubbornTreeIsKilled(t *testing.T) { eachLevel(t, stubbornTree) }

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
func TestX5_GrandchildDoesNotOutliveTheProgram(t *testing.T) { eachLevel(t, leftGrandchild) }

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
	s := map[string]Sandbox{"bubblewrap": NewBubblewrap(Config{}), "landlock": NewLandlocked(Config{Init: args[3]})}[args[2]]
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

func TestK4_TreeDiesWithTheSupervisor(t *testing.T) { eachLevel(t, diesWithTheSupervisor) }

func diesWithTheSupervisor(t *testing.T, s Sandbox) {
	m := marker(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "act-supervise", place(t), m, s.Name(), passable(t))
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
	stand := func(name string, args ...string) *exec.Cmd {
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
