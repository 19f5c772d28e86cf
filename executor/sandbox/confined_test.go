package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLandlock_NothingOfTheHostIsRead(t *testing.T) {
	home, search := host(t)
	// Names of processes are seen at this level; the package comment says so.
	search = strings.ReplaceAll(search, "/proc/*/cmdline", "")
	out := succeed(t, newLandlocked(t), script(t, search, home))
	if !strings.Contains(out, "search: end") {
		t.Fatalf("the search did not run to its end:\n%s", out)
	}
	if strings.Contains(out, canary) {
		t.Errorf("found:\n%s", out)
	}
	if !strings.Contains(out, "descriptors: 4\n") { // standard streams and ls's own
		t.Errorf("descriptors:\n%s", out)
	}
}

func TestLandlock_NoNetwork(t *testing.T) {
	args, heard := listeners(t)
	// A daemon's socket that everybody may write to: no rule of Landlock holds it.
	dir, err := os.MkdirTemp("/tmp", "writ-daemon-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	daemon := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", daemon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(daemon, 0o777)); err != nil {
		t.Fatal(err)
	}
	out := succeed(t, newLandlocked(t), act(t, "act-net", append(args, "unix", daemon)...))
	if !strings.Contains(out, "net: end") || strings.Contains(out, "reached") {
		t.Errorf("output:\n%s", out)
	}
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK} {
		if !strings.Contains(out, fmt.Sprintf("family %d: address family not supported", family)) {
			t.Errorf("family %d is not refused:\n%s", family, out)
		}
	}
	if len(heard) != 0 {
		t.Errorf("the host heard from inside: %s", <-heard)
	}
}

func TestLandlock_LoopbackIsRefused(t *testing.T) {
	spec := script(t, "touch ran")
	spec.Loopback = true
	_, err := newLandlocked(t).Start(t.Context(), spec)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeSpec || !strings.Contains(e.Remedy, "loopback") {
		t.Errorf("error = %v", err)
	}
}

func TestLandlock_NothingOutsideIsWritten(t *testing.T) {
	cache, other := place(t), place(t)
	for _, path := range []string{cache + "/cached", other + "/other"} {
		if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{cache, other} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	spec := script(t, strings.NewReplacer("OTHER", other, "CACHE", cache).Replace(`
try() { f=$1; shift; if (echo evil > "$f") 2>/dev/null; then echo "wrote $*"; fi; }
for f in /usr/bin/evil /etc/passwd /etc/evil /run/evil /evil /tmp/evil /var/tmp/evil /dev/shm/evil "$WRIT_DISPATCH" "${WRIT_DISPATCH%/*}/evil" \
  "CACHE/cached" "CACHE/evil" "OTHER/other" "OTHER/evil" /proc/sys/kernel/hostname /proc/self/oom_score_adj; do try "$f" "$f"; done
rm -f "CACHE/cached" "$WRIT_DISPATCH" 2>/dev/null
ln -f "CACHE/cached" linked 2>/dev/null && echo linked
mv "CACHE/cached" moved 2>/dev/null && echo moved
ln -s "OTHER/other" link && try link link
cat "CACHE/cached" > /dev/null && echo read the cache
cat "OTHER/other" 2>/dev/null && echo read another
try fine workspace; try "$TMPDIR/fine" tmp; try "$HOME/fine" home; try "$OUT/fine" out; try /dev/null null
echo attempts: end`))
	spec.OutDir = place(t)
	spec.ReadOnly = []Mount{{Source: cache, Target: "/cache"}}
	spec.Files = []File{{Target: RunDir + "/dispatch.json", Content: []byte("{}")}}
	spec.Env = append(spec.Env, "WRIT_DISPATCH="+RunDir+"/dispatch.json", "OUT="+OutDir)
	out := succeed(t, newLandlocked(t), spec)
	want := "read the cache\nwrote workspace\nwrote tmp\nwrote home\nwrote out\nwrote null\nattempts: end\n"
	if out != want {
		t.Errorf("output:\n%s\nwant:\n%s", out, want)
	}
	for _, path := range []string{cache + "/cached", other + "/other"} {
		if data, err := os.ReadFile(path); err != nil || string(data) != "before" {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
}

// A program that runs as writ's own user still can't touch writ.
func TestLandlock_OthersAreLeftAlone(t *testing.T) {
	dir := place(t)
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("sleep", "3600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	pid := strconv.Itoa(victim.Process.Pid)
	spec := act(t, "act-meddle", pid, outside+file)
	if out := succeed(t, newLandlocked(t), spec); out != "meddle: end\n" {
		t.Errorf("output:\n%s", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 6 {
		t.Errorf("the file is now %v, %v", info, err)
	}
	if os.Geteuid() == 0 { // nothing can be seen of an attack that root may carry out
		return
	}
	spec = act(t, "act-meddle", pid, outside+file)
	if out := succeed(t, NewNone(Config{}), asSelf(t, spec)); !strings.Contains(out, "could: chmod") || !strings.Contains(out, "could: signal\n") {
		t.Errorf("the attempts fail without a sandbox too:\n%s", out)
	}
}

// Modes are changed where files are written, and nowhere else, however the path
// is written.
func TestLandlock_Modes(t *testing.T) {
	outside := filepath.Join(place(t), "f")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := script(t, strings.ReplaceAll(`
set -e
mkdir d; echo 'echo ran' > d/f; chmod 700 d/f; d/f; cd d; chmod 755 f "$PWD/f" ../d/f; cd ..
git init -q . && git config core.filemode true && echo x > g && git add g && git -c user.name=a -c user.email=a@b commit -qm m && echo committed
echo x > "$TMPDIR/t"; chmod 640 "$TMPDIR/t"
ln -s OUTSIDE out; ln -s f d/in; chmod 711 d/in
for f in out OUTSIDE /etc/passwd /proc/self/../../etc/hosts /proc/1/root/OUTSIDE none ""; do chmod 777 "$f" 2>/dev/null && echo "changed $f"; done
stat -c '%a %n' d/f
echo end`, "OUTSIDE", outside))
	if out := succeed(t, newLandlocked(t), spec); out != "ran\ncommitted\n711 d/f\nend\n" {
		t.Errorf("output:\n%s", out)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode outside is %v, %v", info.Mode(), err)
	}
}

// What a program may read it can open, and a descriptor is enough for the owner to
// change a mode. It isn't here, but for files that the program may write.
func TestLandlock_ModesByDescriptor(t *testing.T) {
	cache := place(t)
	if err := os.WriteFile(filepath.Join(cache, "cached"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	spec := script(t, `echo x > mine; "$0" act-fchmod mine . "$1" /etc/passwd "$0"; stat -c '%a %n' mine; rm mine`, "/cache/cached")
	spec.ReadOnly = []Mount{{Source: cache, Target: "/cache"}}
	if out := succeed(t, newLandlocked(t), spec); out != "changed mine\nchanged .\nfchmod: end\n751 mine\n" {
		t.Errorf("output:\n%s", out)
	}
	if info, err := os.Stat(filepath.Join(cache, "cached")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the mode outside is %v, %v", info.Mode(), err)
	}
}

// asSelf replaces the inner program by the test's own, for None.
func asSelf(t *testing.T, spec Spec) Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec.Argv[0] = self
	return spec
}

// With root's rights each program has a user of its own, and never root's, nor
// that of one that has just ended.
func TestLandlock_UsersOfTheirOwn(t *testing.T) {
	n := newLandlocked(t)
	long, short, next := script(t, "touch mine; echo up; sleep 1000"), script(t, "touch mine"), script(t, "touch mine")
	r := start(t, n, long)
	r.await(t, "the first", r.line("up"))
	succeed(t, n, short)
	succeed(t, n, next)
	owners := map[uint32]bool{}
	for _, dir := range []string{long.Workspace, short.Workspace, next.Workspace} {
		st, err := os.Stat(filepath.Join(dir, "mine"))
		if err != nil {
			t.Fatal(err)
		}
		owners[st.Sys().(*syscall.Stat_t).Uid] = true
	}
	if owners[0] || os.Geteuid() == 0 && len(owners) != 3 {
		t.Errorf("the programs ran as users %v of the host", owners)
	}
}

// No two programs that run have one user, and an id comes back when its program
// has ended.
func TestLandlock_UserIDs(t *testing.T) {
	n, ids := NewLandlocked(Config{}), map[int]bool{}
	for range rootIDs {
		id, err := n.user()
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	if os.Geteuid() != 0 {
		if !ids[0] || len(ids) != 1 {
			t.Errorf("an ordinary user gave %v", ids)
		}
		return
	}
	if id, err := n.user(); err == nil || len(ids) != rootIDs || ids[0] {
		t.Errorf("%d ids, then %d", len(ids), id)
	}
	n.release(nil, DefaultRootUID-7)
	if id, err := n.user(); err != nil || id != DefaultRootUID-7 {
		t.Errorf("then %d, %v", id, err)
	}
}

// Where programs are ended by their users, one is free only if no process has it, or
// the one that is kept free with it; and only root has users to give.
func TestLandlock_UsersInUse(t *testing.T) {
	n := NewLandlocked(Config{RootUID: ownUser + 600})
	if what, _ := n.lacks(); what != "" { // these tests run where signals can be kept inside
		t.Error(what)
	}
	n.abi, n.last = abiScoped-1, 0
	if what, remedy := n.lacks(); what == "" || !strings.Contains(remedy, fmt.Sprintf("the users %d to %d", ownUser+600-511, ownUser+600)) {
		t.Error(what, remedy)
	}
	var e *Error
	if id, err := n.user(); os.Geteuid() != 0 {
		if !errors.As(err, &e) || e.Code != CodeUnavailable {
			t.Errorf("an ordinary user gets %d, %v", id, err)
		}
		return
	}
	n.last = 0
	program(t, n.cfg.RootUID-1, "read line")
	program(t, n.cfg.RootUID-2-rootIDs, "read line")
	delete(n.ids, n.cfg.RootUID-1)
	if id, err := n.user(); err != nil || id != n.cfg.RootUID-3 {
		t.Errorf("of %d downwards the free one is %d, %v", n.cfg.RootUID, id, err)
	}
}

func TestLandlock_ClosedWayToTheWorkspace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the program is the user who closed it")
		return
	}
	closed := filepath.Join(place(t), "closed")
	inside := filepath.Join(closed, "w")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.Mkdir(inside, 0o755)); err != nil {
		t.Fatal(err)
	}
	spec := script(t, "true")
	spec.Workspace = inside
	_, err := newLandlocked(t).Start(t.Context(), spec)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeUnavailable || !strings.Contains(e.Remedy, "chmod o+x "+closed) {
		t.Errorf("error = %v", err)
	}
}

func TestX8_ResourcesWithoutNamespaces(t *testing.T) {
	t.Parallel()
	n := NewLandlocked(Config{Init: passable(t), Cgroup: filepath.Join(t.TempDir(), "none")})
	for _, c := range resources(t) {
		t.Run(c.name, func(t *testing.T) { c.isHeld(t, n) })
	}
	big := resource{"bytes in tmp", script(t, `head -c 5000000 /dev/zero > "$TMPDIR/big"; sleep 1000`), Limits{TmpBytes: 1 << 20}, LimitTmpBytes}
	t.Run(big.name, func(t *testing.T) { big.isHeld(t, n) })
}

// Nothing of a start remains on the host.
func TestLandlock_LeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", place(t))
	if err := os.Chmod(os.Getenv("TMPDIR"), 0o777); err != nil {
		t.Fatal(err)
	}
	n := newLandlocked(t)
	succeed(t, n, script(t, `mkdir -p "$HOME/a/b"; chmod 0 "$HOME/a" 2>/dev/null; echo x > "$TMPDIR/x"
cd "$HOME"; d=$(printf %0200d 0); for i in $(seq 30); do mkdir $d && cd -P $d; done; (umask 477; mkdir shut); echo x > shut/x`))
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), scratchPrefix+"*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if os.Geteuid() == 0 { // who may look into every directory
		asOrdinaryUser(t, "^TestLandlock_LeavesNothing$", "TestLandlock_LeavesNothing")
	}
}

func TestLandlock_SystemCalls(t *testing.T) {
	const (
		ok    = unix.SECCOMP_RET_ALLOW
		over  = unix.SECCOMP_RET_USER_NOTIF
		perm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		inval = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
		notty = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)
		nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		noaf  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
		notup = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	)
	for _, c := range []struct {
		name       string
		nr         uintptr
		args       []uint64
		own, other uint32 // as writ's user, as another
	}{
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, noaf, noaf},
		{"pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, ok, ok},
		{"pair of packets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, ok, ok},
		{"pair of datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, noaf, noaf},
		{"raw pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, noaf, noaf},
		{"another pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, noaf, noaf},
		{"connect", unix.SYS_CONNECT, nil, nosys, nosys},
		{"shared memory", unix.SYS_SHMGET, nil, nosys, nosys},
		{"semaphores", unix.SYS_SEMGET, nil, nosys, nosys},
		{"message queue", unix.SYS_MQ_OPEN, nil, nosys, nosys},
		{"file in memory", unix.SYS_MEMFD_CREATE, nil, ok, ok},
		{"restartable sequences", unix.SYS_RSEQ, nil, ok, ok},
		{"nested rules", unix.SYS_LANDLOCK_RESTRICT_SELF, nil, ok, ok},
		{"nested filter", unix.SYS_SECCOMP, nil, ok, ok},
		{"clone3", unix.SYS_CLONE3, nil, nosys, nosys},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, nosys, nosys},
		{"userfaultfd", unix.SYS_USERFAULTFD, nil, nosys, nosys},
		{"bpf", unix.SYS_BPF, nil, nosys, nosys},
		{"keys", unix.SYS_KEYCTL, nil, nosys, nosys},
		{"mode by path", unix.SYS_FCHMODAT, nil, over, ok},
		{"mode by path, newer", unix.SYS_FCHMODAT2, nil, over, ok},
		{"mode by descriptor", unix.SYS_FCHMOD, nil, over, ok},
		{"times", unix.SYS_UTIMENSAT, nil, over, over},
		{"owner by descriptor", unix.SYS_FCHOWN, nil, perm, perm},
		{"attribute by descriptor", unix.SYS_FSETXATTR, nil, notup, notup},
		{"attribute, newer", unix.SYS_SETXATTRAT, nil, nosys, nosys},
		{"flags of a file", unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS}, notty, notty},
		{"lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE}, inval, inval},
		{"signals to others", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN}, inval, inval},
		{"core scheduling", unix.SYS_PRCTL, []uint64{unix.PR_SCHED_CORE}, inval, inval},
		{"own memory shown", unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 1}, ok, ok},
		{"own memory hidden", unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 0}, perm, perm},
		{"own limit", unix.SYS_PRLIMIT64, []uint64{0}, ok, ok},
		{"limit of another", unix.SYS_PRLIMIT64, []uint64{7}, perm, perm},
		{"own priority", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0}, ok, ok},
		{"priority of another", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 7}, perm, perm},
		{"priority of the user", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0}, perm, perm},
		{"disk priority of the user", unix.SYS_IOPRIO_SET, []uint64{3, 0}, perm, perm},
		{"own affinity", unix.SYS_SCHED_SETAFFINITY, []uint64{0}, ok, ok},
		{"ptrace", unix.SYS_PTRACE, nil, nosys, nosys},
		{"a number to come", 1 << 20, nil, nosys, nosys},
	} {
		for same, want := range map[bool]uint32{true: c.own, false: c.other} {
			if got := verdictOf(t, filter{confined: true, sameUser: same}, auditArch, c.nr, c.args...); got != want {
				t.Errorf("%s, same user %v: %#x, want %#x", c.name, same, got, want)
			}
		}
	}
}

// The program's stage doesn't run without the reaper that would end it.
func TestLandlock_NeedsItsReaper(t *testing.T) {
	status, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := &arguments{extra: []*os.File{nil, w}}
	workspace := place(t)
	if err := a.config(initConfig{Argv: []string{"/bin/touch", "ran"}, Confined: true, Dir: workspace}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec -a "$0" "$1" init & wait`, initPath, passable(t))
	cmd.Path, cmd.Args[0] = "/bin/bash", "bash"
	cmd.ExtraFiles = a.extra
	out, _ := cmd.CombinedOutput()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(status)
	if err != nil || !strings.Contains(string(said), `"stage":"isolation"`) {
		t.Errorf("the stage said %q, %v; output:\n%s", said, err, out)
	}
	if _, err := os.Stat(filepath.Join(workspace, "ran")); err == nil {
		t.Error("the program ran")
	}
}

func TestLandlock_MayWrite(t *testing.T) {
	a := &answerer{writable: []string{"/w", "/t/tmp"}}
	for path, want := range map[string]bool{"/w": true, "/w/a/b": true, "/wide": false, "/t": false, "/t/tmp/x": true, "/t/tmpx": false, "/": false, "": false} {
		if got := a.mayWrite(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// Java looks at neither TMPDIR nor HOME.
func TestLandlock_JavaKnowsItsPlaces(t *testing.T) {
	const text = `test "$JAVA_TOOL_OPTIONS" = "-Djava.io.tmpdir=$TMPDIR -Duser.home=$HOME" && echo its places; echo "$JAVA_TOOL_OPTIONS" | grep own || true`
	if out := succeed(t, newLandlocked(t), script(t, text)); out != "its places\n" {
		t.Errorf("output:\n%s", out)
	}
	spec := script(t, text)
	spec.Env = append(spec.Env, "JAVA_TOOL_OPTIONS=-Dtheir=own")
	if out := succeed(t, newLandlocked(t), spec); out != "-Dtheir=own\n" {
		t.Errorf("with options of the configuration:\n%s", out)
	}
}

// TestX1_WorkspaceOutOfReach: a directory that the program's user can't pass through is
// named before anything is claimed.
func TestX1_WorkspaceOutOfReach(t *testing.T) {
	root, err := os.MkdirTemp("/tmp", "writ-reaches-*") //nolint:usetesting // a test's own place may be closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	work := filepath.Join(root, "state", "workspaces")
	if err := errors.Join(os.MkdirAll(work, 0o755), os.Chmod(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := reaches(work); err != nil {
		t.Errorf("it is passable: %v", err)
	}
	closed := filepath.Join(root, "state")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if err := reaches(work); !errors.As(err, &e) || e.Code != CodeUnavailable || e.Remedy == "" || !strings.Contains(e.Remedy, "chmod o+x "+closed+",") {
		t.Errorf("%s is closed: %v", closed, err)
	}
	if err := NewLandlocked(Config{}).Reaches(work); (err != nil) != (os.Geteuid() == 0) {
		t.Errorf("for user %d: %v", os.Geteuid(), err)
	}
}
