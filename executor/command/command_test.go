package command

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary a runner that starts a command and waits.
func TestMain(m *testing.M) {
	if script := os.Getenv("WRIT_TEST_RUNNER"); script != "" {
		p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", script}, Stdout: os.Stdout, Env: os.Environ()})
		if err != nil {
			os.Exit(1)
		}
		os.Exit(p.Wait())
	}
	os.Exit(m.Run())
}

// TestWaitCountsAsAShell.
func TestWaitCountsAsAShell(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 143} {
		p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", script}, Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Wait(); got != want {
			t.Errorf("%s: %d, want %d", script, got, want)
		}
	}
	if _, err := Start(Spec{Argv: []string{"/nonexistent/program"}}); err == nil {
		t.Error("nothing was started, and no error")
	}
}

// gone waits until a process is dead.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		if n == 1 {
			return
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatalf("process %d lives: %v", pid, err)
		}
	}
}

// TestK4_TheGroupDiesWithTheRunner: kill -9 of the runner ends the command and the
// processes that it started, from its first moment on: the group that watches it is
// there before it is.
func TestK4_TheGroupDiesWithTheRunner(t *testing.T) {
	runner := exec.Command(os.Args[0])
	runner.Env = append(os.Environ(), "WRIT_TEST_RUNNER=sleep 1000 & echo $!; echo $$; cut -d' ' -f5 /proc/$$/stat; wait")
	out, err := runner.StdoutPipe()
	if err == nil {
		err = runner.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var pids []int
	for len(pids) < 3 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) < 3 || pids[2] == pids[1] {
		t.Errorf("the program leads its own group, so that nobody watches it until it has one: %v", pids)
	}
	_ = runner.Process.Kill() // it runs
	_ = runner.Wait()
	for _, pid := range pids {
		gone(t, pid)
	}
}

// TestStopEndsWhatIgnoresTERM, and all that it started.
func TestStopEndsWhatIgnoresTERM(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1000; done"}, Stdout: write})
	if err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // the child has its own
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(10 * time.Millisecond)
	if got := p.Wait(); got != 128+int(syscall.SIGKILL) {
		t.Errorf("exit %d", got)
	}
	gone(t, pid)
}

// TestStopOfAProgramThatLeftItsGroup ends that program, too.
func TestStopOfAProgramThatLeftItsGroup(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Argv: []string{"setsid", "/bin/sh", "-c", "echo $$; exec sleep 1000"}, Stdout: write})
	if err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // the child has its own
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || pid != p.cmd.Process.Pid {
		t.Fatalf("%q isn't the program itself, %d", line, p.cmd.Process.Pid)
	}
	p.Stop(time.Minute)
	if got := p.Wait(); got != 128+int(syscall.SIGTERM) {
		t.Errorf("exit %d", got)
	}
}
