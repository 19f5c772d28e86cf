package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const canary = "CANARY-6f1d0c"

// host lays out what a builder would like to find and gives the script that
// looks for it.
func host(t *testing.T) (home, search string) {
	t.Helper()
	home = t.TempDir()
	for name, text := range map[string]string{
		".gitconfig":       "[credential]\n\thelper = \"!echo password=" + canary + "; :\"\n",
		".git-credentials": "https://u:" + canary + "@example.com\n",
		"state":            canary,
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := net.Listen("unix", filepath.Join(home, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	t.Setenv("WRIT_TEST_SECRET", canary)
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(home, "agent"))
	other := exec.Command("sleep", "3600", "3600") // a program of the host with the canary in its name and environment
	other.Args[0] = canary
	other.Env = []string{"SECRET=" + canary}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	return home, `
env
cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'
cat "$1"/.gitconfig "$1"/.git-credentials "$1"/state 2>/dev/null
test -S "$1"/agent && echo found agent socket
for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock; do test -e $s && echo found $s; done
ls -d /root /var /srv /mnt /opt /sys /boot 2>/dev/null | sed 's/^/found /'
ls /home | grep -v '^writ$' | sed 's/^/found home /'
ls /etc | grep -E 'shadow|ssh|gitconfig|sudoers' | sed 's/^/found etc /'
ls /etc/ssl/private 2>/dev/null
printf 'protocol=https\nhost=example.com\n\n' | GIT_TERMINAL_PROMPT=0 git credential fill 2>/dev/null
ls /proc | grep -c '^[0-9]' | sed 's/^/processes: /'
ls -l /proc/self/fd | grep -c '[0-9] -> ' | sed 's/^/descriptors: /'
echo search: end
`
}

func TestX1_NothingOfTheHostIsSeen(t *testing.T) {
	home, search := host(t)
	spec := script(t, search, home)
	out := succeed(t, newSandbox(t), spec)
	if !strings.Contains(out, "search: end") {
		t.Fatalf("the search did not run to its end:\n%s", out)
	}
	// The script's own process prints its path of the host, nothing else may.
	if strings.Contains(out, canary) || strings.Contains(out, "\nfound ") {
		t.Errorf("found:\n%s", out)
	}
	// bwrap, the shell, ls, grep and sed; standard streams and ls's own.
	var processes, descriptors int
	for line := range strings.Lines(out) {
		_, _ = fmt.Sscanf(line, "processes: %d", &processes)
		_, _ = fmt.Sscanf(line, "descriptors: %d", &descriptors)
	}
	if processes < 2 || processes > 5 || descriptors != 4 {
		t.Errorf("%d processes and %d descriptors are visible:\n%s", processes, descriptors, out)
	}
}

// Not even a writ that runs as root gives its programs that identity.
func TestX1_NotRootOnTheHost(t *testing.T) {
	spec := script(t, "touch mine")
	succeed(t, newSandbox(t), spec)
	st, err := os.Stat(filepath.Join(spec.Workspace, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; owner == 0 || os.Geteuid() == 0 && owner != DefaultRootUID {
		t.Errorf("the program runs as user %d of the host", owner)
	}
}

// The search must be able to find something, or its silence means nothing.
func TestX1_TheSearchFindsTheCanaryWithoutASandbox(t *testing.T) {
	home, search := host(t)
	out := succeed(t, NewNone(Config{}), script(t, search, home))
	if !strings.Contains(out, canary) || !strings.Contains(out, "found agent socket") {
		t.Errorf("the search found nothing where there was no sandbox:\n%s", out)
	}
}

// listeners opens what a builder would like to reach on the host.
func listeners(t *testing.T) (args []string, heard chan string) {
	t.Helper()
	heard = make(chan string, 100)
	for _, a := range [][2]string{{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"unix", fmt.Sprintf("@writ-test-%d-%s", os.Getpid(), t.Name())}} {
		l, err := net.Listen(a[0], a[1])
		if err != nil {
			t.Logf("this host has no %s %s: %v", a[0], a[1], err)
			continue
		}
		t.Cleanup(func() { _ = l.Close() })
		args = append(args, a[0], l.Addr().String())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 100))
				heard <- l.Addr().String()
				_ = c.Close()
			}
		}()
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	go func() {
		buf := make([]byte, 100)
		for {
			if _, _, err := u.ReadFrom(buf); err != nil {
				return
			}
			heard <- "udp"
		}
	}()
	return append(args, "udp", u.LocalAddr().String(), "tcp", "169.254.169.254:80", "tcp", "1.1.1.1:443", "udp", "8.8.8.8:53"), heard
}

func TestX2_NoNetwork(t *testing.T) {
	args, heard := listeners(t)
	out := succeed(t, newSandbox(t), act(t, "act-net", args...))
	if !strings.Contains(out, "net: end") || strings.Contains(out, "reached") {
		t.Errorf("output:\n%s", out)
	}
	for _, family := range []string{"family 2:", "family 10:", "family 16:", "family 17:", "family 40:"} {
		if !strings.Contains(out, family+" address family not supported") {
			t.Errorf("%s is not refused:\n%s", family, out)
		}
	}
	if !strings.Contains(out, "family 1: <nil>") {
		t.Errorf("local sockets don't work:\n%s", out)
	}
	if len(heard) != 0 {
		t.Errorf("the host heard from inside: %s", <-heard)
	}
}

// With a loopback interface of its own the sandbox still reaches nobody else.
func TestX2_OwnLoopbackOnly(t *testing.T) {
	b := newSandbox(t)
	args, heard := listeners(t)
	spec := act(t, "act-net", args...)
	spec.Loopback = true
	out := succeed(t, b, spec)
	for line := range strings.Lines(out) {
		// A datagram to one's own loopback interface is sent, to nobody.
		if strings.HasPrefix(line, "reached") && !strings.HasPrefix(line, "reached udp 127.") {
			t.Errorf("reached the host: %s", line)
		}
	}
	spec = act(t, "act-server")
	spec.Loopback = true
	if out := succeed(t, b, spec); !strings.Contains(out, "own loopback") {
		t.Errorf("the own loopback interface does not work:\n%s", out)
	}
	if len(heard) != 0 {
		t.Errorf("the host heard from inside: %s", <-heard)
	}
}

// The attempts must be able to succeed, or their failure means nothing.
func TestX2_TheHostIsReachedWithoutASandbox(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args, heard := listeners(t)
	spec := act(t, "act-net", args[:len(args)-6]...)
	spec.Argv[0] = self
	out := succeed(t, NewNone(Config{}), spec)
	if !strings.Contains(out, "reached tcp 127.0.0.1:") || !strings.Contains(out, "reached unix @") {
		t.Errorf("output:\n%s", out)
	}
	select {
	case <-heard:
	case <-time.After(waitLimit):
		t.Error("the host heard nothing")
	}
}

func TestX3_NothingOutsideTheWorkspaceIsWritten(t *testing.T) {
	cache, other := t.TempDir(), t.TempDir()
	for _, path := range []string{cache + "/cached", other + "/other"} {
		if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	spec := script(t, `
try() { if (echo evil > "$1") 2>/dev/null; then echo "wrote $1"; fi; }
for f in /usr/bin/evil /etc/passwd /etc/evil /run/evil /run/writ/evil /run/writ/dispatch.json /run/writ/init /evil /home/evil /dev/evil \
  /cache/cached /cache/evil "$1/other" /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/self/comm /proc/self/oom_score_adj; do try $f; done
rm -f /cache/cached /run/writ/dispatch.json /usr/bin/env 2>/dev/null
ln -f /cache/cached /workspace/linked 2>/dev/null && echo linked
chmod 777 /run/writ/dispatch.json 2>/dev/null && echo changed mode
mount -o remount,rw /usr 2>/dev/null && echo remounted
grep ' / tmpfs ro,' /proc/mounts >/dev/null && echo root is read-only
ln -s "$1/other" /workspace/link && try /workspace/link
try /workspace/fine; try /tmp/fine; try /home/writ/fine; try /run/writ/out/fine; try /dev/null; try /dev/shm/fine
echo attempts: end`, other)
	spec.OutDir = t.TempDir()
	spec.ReadOnly = []Mount{{Source: cache, Target: "/cache"}}
	spec.Files = []File{{Target: RunDir + "/dispatch.json", Content: []byte("{}")}}
	out := succeed(t, newSandbox(t), spec)
	want := "root is read-only\nwrote /workspace/fine\nwrote /tmp/fine\nwrote /home/writ/fine\nwrote /run/writ/out/fine\nwrote /dev/null\nwrote /dev/shm/fine\nattempts: end\n"
	if out != want {
		t.Errorf("output:\n%s\nwant:\n%s", out, want)
	}
	for _, path := range []string{cache + "/cached", other + "/other"} {
		if data, err := os.ReadFile(path); err != nil || string(data) != "before" {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
	if data, err := os.ReadFile(spec.OutDir + "/fine"); err != nil || string(data) != "evil\n" {
		t.Errorf("the result directory holds %q, %v", data, err)
	}
}

func TestX3_ReadOnlyWorkspace(t *testing.T) {
	spec := script(t, `echo evil > /workspace/f && echo wrote; echo end`)
	spec.ReadOnlyWorkspace = true
	if out := succeed(t, newSandbox(t), spec); !strings.HasSuffix(out, "end\n") || strings.Contains(out, "wrote") {
		t.Errorf("output: %s", out)
	}
}

func TestX3_SystemCalls(t *testing.T) {
	out := succeed(t, newSandbox(t), act(t, "act-syscalls"))
	const eperm, enosys = 1, 38
	for name, want := range map[string]int{
		"unshare_user": eperm, "unshare_files": 0, "clone_user": eperm, "clone3": enosys, "setns": eperm, "ptrace": eperm,
		"bpf": eperm, "keyctl": eperm, "io_uring": enosys, "userfaultfd": eperm, "fsopen": eperm, "chroot": eperm,
		"personality": eperm, "personality_query": 0, "tiocsti": eperm, "tiocsti_high": eperm, "remount": eperm,
	} {
		if !strings.Contains(out, fmt.Sprintf("%s=%d\n", name, want)) {
			t.Errorf("%s does not end with error %d:\n%s", name, want, out)
		}
	}
}

// fake writes a program that stands for bwrap.
func fake(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bwrap")
	if err := writeProgram(path, []byte("#!/bin/bash\n"+text)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestX4_NoSandboxNoRun(t *testing.T) {
	for name, bwrap := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "bwrap"),
		"failing": fake(t, "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1\n"),
		"silent":  fake(t, "exit 0\n"),
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBubblewrap(Config{Bubblewrap: bwrap})
			checkUnavailable(t, b.Probe(t.Context()))
			spec := script(t, "touch ran")
			p, err := b.Start(t.Context(), spec)
			if err == nil {
				e := p.Wait()
				if e.Cause != CauseStartFailed {
					t.Errorf("cause = %s", e.Cause)
				}
				err = e.Err
			}
			checkUnavailable(t, err)
			if _, err := os.Stat(filepath.Join(spec.Workspace, "ran")); err == nil {
				t.Error("the program ran without a sandbox")
			}
		})
	}
}

// A bwrap that runs the program but isolates nothing is noticed before it does.
func TestX4_BubblewrapThatIsolatesNothing(t *testing.T) {
	b := NewBubblewrap(Config{Bubblewrap: fake(t, `while [ "$1" != -- ]; do shift; done; shift; shift; exec -a /run/writ/init "$(readlink /proc/$PPID/exe)" "$@"`)})
	spec := script(t, "touch ran")
	p, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e.Cause != CauseStartFailed || !strings.Contains(e.Err.Error(), `"isolation"`) {
		t.Errorf("exit = %+v", e)
	}
	if _, err := os.Stat(filepath.Join(spec.Workspace, "ran")); err == nil {
		t.Error("the program ran without a sandbox")
	}
}

func checkUnavailable(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeUnavailable || !strings.Contains(e.Remedy, "apt-get install bubblewrap") {
		t.Errorf("error = %v, want %s with the remedy", err, CodeUnavailable)
	}
}

// TestX10_FilesMove: a file or a directory is moved, and linked, from one directory to
// another, as package managers do, in each place that the program may write.
func TestX10_FilesMove(t *testing.T) {
	eachLevel(t, func(t *testing.T, s Sandbox) {
		succeed(t, s, script(t, `for place in . "$HOME" "${TMPDIR:-/tmp}"; do
	cd "$place" && mkdir -p a/d b && echo x > a/x && ln a/x b/y &&
		perl -e 'rename("a/x", "b/x") && rename("a/d", "b/d") or die "$!\n"' || exit 1
done`))
	})
}
