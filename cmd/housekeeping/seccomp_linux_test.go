package housekeeping

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/executor/sandbox"
)

// profile is the shipped seccomp profile, as container engines read it.
type profile struct {
	Default string         `json:"defaultAction"`
	Errno   uint32         `json:"defaultErrnoRet"`
	Arch    []profileArch  `json:"archMap"`
	Calls   []profileCalls `json:"syscalls"`
}

type profileArch struct {
	Architecture string   `json:"architecture"`
	Sub          []string `json:"subArchitectures"`
}

type profileCalls struct {
	Comment string       `json:"comment"`
	Names   []string     `json:"names"`
	Action  string       `json:"action"`
	Errno   uint32       `json:"errnoRet"`
	Args    []profileArg `json:"args"`
}

type profileArg struct {
	Index    uint32 `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

const profileFile = "charts/writ/files/seccomp.json"

func readProfile(t *testing.T) profile {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(read(t, profileFile)))
	d.DisallowUnknownFields()
	var p profile
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%s: %v", profileFile, err)
	}
	return p
}

// closed is the profile without what bubblewrap needs, its last entry: what a
// container is usually allowed.
func (p profile) closed() profile {
	p.Calls = p.Calls[:len(p.Calls)-1]
	return p
}

// program is the profile as the kernel takes it. Later entries win over earlier
// ones where both speak of a call, which here always means: allow more.
func (p profile) program(t *testing.T, numbers map[string]uint32) []unix.SockFilter {
	t.Helper()
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch(t), SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
	for _, c := range slices.Backward(p.Calls) {
		for _, name := range c.Names {
			if nr, ok := numbers[name]; ok {
				prog = append(prog, c.on(t, nr)...)
			}
		}
	}
	prog = append(prog, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | p.Errno})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		t.Fatal(err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter
}

// on answers one call, if its argument is the one that the entry names.
func (c profileCalls) on(t *testing.T, nr uint32) []bpf.Instruction {
	t.Helper()
	answer := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	if c.Action == "SCMP_ACT_ERRNO" {
		answer.Val = unix.SECCOMP_RET_ERRNO | c.Errno
	}
	load := bpf.LoadAbsolute{Off: 0, Size: 4}
	if len(c.Args) == 0 {
		return []bpf.Instruction{load, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, answer}
	}
	arg := c.Args[0]
	mask, want := ^uint32(0), uint32(arg.Value)
	if arg.Op == "SCMP_CMP_MASKED_EQ" {
		mask, want = uint32(arg.Value), uint32(arg.ValueTwo)
	}
	if len(c.Args) != 1 || arg.Value > 1<<32-1 {
		t.Fatalf("%v: this test knows entries with one argument of 32 bits", c.Names)
	}
	return []bpf.Instruction{
		load, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 4},
		bpf.LoadAbsolute{Off: 16 + 8*arg.Index, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: want, SkipTrue: 1}, answer,
	}
}

func auditArch(t *testing.T) uint32 {
	t.Helper()
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	}
	t.Fatalf("the profile is for amd64 and arm64, this is %s", runtime.GOARCH)
	return 0
}

// callNumbers are this architecture's numbers of system calls, read from the
// source that the go command has of golang.org/x/sys.
func callNumbers(t *testing.T) map[string]uint32 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys")
	cmd.Dir = root(t)
	dir, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(?m)^\tSYS_(\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(source), -1) {
		var nr uint32
		if _, err := fmt.Sscan(m[2], &nr); err != nil {
			t.Fatal(err)
		}
		numbers[strings.ToLower(m[1])] = nr
	}
	return numbers
}

// underProfile is the first argument of the test binary when it is the process
// that gets a filter and then tries a level of the sandbox.
const underProfile = "writ-under-profile"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == underProfile {
		if err := tryLevel(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tryLevel takes the filter from standard input, for all threads, and probes.
func tryLevel(level string) error {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var filter []unix.SockFilter
	if err := json.Unmarshal(data, &filter); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); no != 0 {
		return fmt.Errorf("filter: %w", no)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if level == "landlock" {
		return sandbox.NewLandlocked(sandbox.Config{}).Probe(ctx)
	}
	return sandbox.NewBubblewrap(sandbox.Config{}).Probe(ctx)
}

// imageUser is the user of the image, as which the levels are tried.
const imageUser = 10001

// under runs the test binary under a filter and tells what it said.
func under(t *testing.T, filter []unix.SockFilter, level string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(filter)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), publicCopy(t, self), underProfile, level)
	cmd.Stdin, cmd.Dir = strings.NewReader(string(input)), "/"
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// publicCopy is the program where another user can run it.
func publicCopy(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "writ-profile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "program")
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, copied} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// TestX4_BubblewrapWorksUnderTheProfile holds what docs/containers.md says
// of the profile: the image's user can make the sandbox under it, and not
// without its last entry. Then the level landlock is what works.
func TestX4_BubblewrapWorksUnderTheProfile(t *testing.T) {
	p, numbers := readProfile(t), callNumbers(t)
	whole, closed := p.program(t, numbers), p.closed().program(t, numbers)
	if said, err := under(t, whole, "bubblewrap"); err != nil {
		t.Errorf("bubblewrap under the profile: %v: %s", err, said)
	}
	if said, err := under(t, closed, "bubblewrap"); err == nil || !strings.Contains(said, "sandbox.unavailable") {
		t.Errorf("bubblewrap without the last entry: %v: %q, want sandbox.unavailable", err, said)
	}
	if said, err := under(t, closed, "landlock"); err != nil {
		t.Errorf("landlock without the last entry: %v: %s", err, said)
	}
}

// TestX3_ProfileKeepsTheRestClosed: what leads out of a container, and
// bubblewrap has no use for, stays refused.
func TestX3_ProfileKeepsTheRestClosed(t *testing.T) {
	p := readProfile(t)
	if p.Default != "SCMP_ACT_ERRNO" || p.Errno != uint32(unix.EPERM) {
		t.Errorf("what isn't named is answered %s %d, want an error, EPERM", p.Default, p.Errno)
	}
	numbers := callNumbers(t)
	for _, c := range p.Calls {
		for _, name := range c.Names {
			if _, ok := numbers[name]; !ok && runtime.GOARCH == "amd64" && !slices.Contains(arm64Only, name) {
				t.Errorf("the profile names %s, which no system call is called", name)
			}
			if slices.Contains(neverAllowed, name) && c.Action == "SCMP_ACT_ALLOW" {
				t.Errorf("the profile allows %s", name)
			}
		}
	}
}

// arm64Only are calls that amd64 hasn't.
var arm64Only = []string{"sync_file_range2"}

var neverAllowed = []string{
	"acct", "add_key", "bpf", "clock_settime", "clone3", "delete_module", "fanotify_init", "finit_module", "fsopen",
	"init_module", "io_uring_enter", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load",
	"keyctl", "mount_setattr", "move_mount", "name_to_handle_at", "open_by_handle_at", "open_tree", "perf_event_open",
	"pidfd_getfd", "process_vm_readv", "process_vm_writev", "ptrace", "reboot", "request_key", "setdomainname",
	"settimeofday", "swapon", "syslog", "userfaultfd",
}
