package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const gigabyte = 1 << 30

func TestX7_GigabyteOfOutput(t *testing.T) {
	spec := act(t, "act-flood", strconv.Itoa(gigabyte))
	lines := 0
	c := &Capture{Cap: 64 << 10, OnLine: func(string) { lines++ }}
	spec.Stdout = c
	p, err := newSandbox(t).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e.Cause != CauseExited || e.Code != 0 {
		t.Fatalf("exit = %+v", e)
	}
	want := sha256.New()
	block := floodBlock()
	for range gigabyte / len(block) {
		want.Write(block)
	}
	if got := c.Digest(); got != "sha256:"+hex.EncodeToString(want.Sum(nil)) || c.Total() != gigabyte {
		t.Errorf("%d bytes, digest %s", c.Total(), got)
	}
	head, tail := c.Parts()
	if len(head)+len(tail) != 64<<10 || c.Dropped() != gigabyte-64<<10 {
		t.Errorf("kept %d and %d, dropped %d", len(head), len(tail), c.Dropped())
	}
	if lines == 0 {
		t.Error("there was no live tail")
	}
}

func TestX7_TooMuchOutput(t *testing.T) {
	spec := act(t, "act-flood", strconv.Itoa(gigabyte))
	spec.Limits.OutputBytes = 1 << 20
	r := start(t, newSandbox(t), spec)
	if e := r.finish(t); e.Cause != CauseResource || e.Limit != LimitOutput {
		t.Errorf("exit = %+v", e)
	}
	if r.out.Total() < 1<<20 || r.out.Total() > gigabyte/4 {
		t.Errorf("%d bytes came through", r.out.Total())
	}
}

// withoutCgroup is a sandbox on a host that delegates no control group: the
// limits are then held by what writ itself does.
func withoutCgroup(t *testing.T) *Bubblewrap {
	t.Helper()
	newSandbox(t)
	return NewBubblewrap(Config{Cgroup: filepath.Join(t.TempDir(), "none")})
}

// resource is a way to use too much, by its limit.
type resource struct {
	name   string
	spec   Spec
	limits Limits
	want   Limit
}

func resources(t *testing.T) []resource {
	const mib = 1 << 20
	var slowly []string
	if os.Getenv(elsewhereVar) != "" { // root's run has shown that a bomb that leaves no time is held
		slowly = []string{"slowly"}
	}
	return []resource{
		{"fork bomb", act(t, "act-bomb", slowly...), Limits{Processes: 64}, LimitProcesses},
		{"private memory", act(t, "act-memory", "512"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"shared memory", act(t, "act-shared", "48"), Limits{MemoryBytes: 48 * mib}, LimitMemory},
		{"hidden memory", act(t, "act-hidden", "64"), Limits{MemoryBytes: 512 * mib}, LimitMemory},
		{"file in memory", act(t, "act-memfd", "512", "open"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"file in memory, mapped", act(t, "act-memfd", "512", "mapped"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"page tables", act(t, "act-tables", "128"), Limits{MemoryBytes: 96 * mib}, LimitMemory},
		{"memory without a first thread", act(t, "act-leader", "512"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"file in memory without a first thread", act(t, "act-leader", "512", "open"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"mappings", script(t, "for i in 1 2 3 4 5 6 7 8; do \"$0\" act-mappings 60000 & done; wait"), Limits{MemoryBytes: 96 * mib}, LimitMemory},
		{"memory of what hides it", act(t, "act-undumpable", "512"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"memory of what can't be read", script(t, `cp "$0" x; chmod 111 x; exec ./x act-memory 512`), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"memory in parts", script(t, "for i in 1 2 3 4; do \"$0\" act-memory 64 & done; wait"), Limits{MemoryBytes: 200 * mib}, LimitMemory},
		{"processor time", act(t, "act-spin"), Limits{CPU: time.Second}, LimitCPU},
		{"processor time in parts", script(t, "for i in 1 2; do \"$0\" act-spin & done; wait"), Limits{CPU: time.Second}, LimitCPU},
		{"file size", script(t, "head -c 3000000 /dev/zero > big"), Limits{FileSizeBytes: mib}, LimitFileSize},
		{"files in tmp", act(t, "act-tmpfiles"), Limits{TmpFiles: 5000}, LimitTmpFiles},
		{"disk", script(t, "for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4; do head -c 33554432 /dev/zero > big$i$j; sleep 0.2; done; done; echo went on"), Limits{DiskReserveBytes: mib}, LimitDisk},
	}
}

// diskAlone keeps other tests that fill the disk from running until this one ends, also those
// of the processes that run as ordinary users. The lock is on a directory that each of them may
// open.
func diskAlone(t *testing.T) {
	t.Helper()
	dir, err := os.Open("/tmp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// freeBytes is what is free where workspaces are.
func freeBytes(t *testing.T) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

func TestX8_Resources(t *testing.T) {
	t.Parallel()
	for _, c := range resources(t) {
		t.Run(c.name, func(t *testing.T) { c.isHeld(t, withoutCgroup(t)) })
	}
}

// isHeld sees that only the one tree ends, and by its limit.
func (c resource) isHeld(t *testing.T, s Sandbox) {
	if c.want == LimitDisk {
		diskAlone(t)
	}
	neighbour := start(t, s, script(t, "echo up; read line; exit 0"))
	c.spec.Limits = c.limits
	var r *running
	var e Exit
	for range 20 {
		if c.want == LimitDisk { // others write and remove files there, too
			c.spec.Limits.DiskReserveBytes = freeBytes(t) - 64<<20
		}
		r = start(t, s, c.spec)
		if e = r.finish(t); c.want != LimitDisk || e.Cause != CauseExited {
			break
		}
	}
	if e.Cause != CauseResource || e.Limit != c.want || strings.Contains(r.out.Text(), "went on") {
		t.Errorf("exit = %+v; output:\n%s", e, r.out.TailText(2000))
	}
	neighbour.finish(t)
	if out := succeed(t, s, script(t, "echo fine")); out != "fine\n" {
		t.Errorf("afterwards: %s", out)
	}
}

// TestX8_FirstToGo: where memory runs out, the kernel ends a program before writ.
func TestX8_FirstToGo(t *testing.T) {
	for level, s := range map[string]Sandbox{"bubblewrap": newSandbox(t), "landlock": newLandlocked(t)} {
		if out := succeed(t, s, script(t, "cat /proc/self/oom_score_adj; exec sh -c 'cat /proc/self/oom_score_adj'")); out != "1000\n1000\n" {
			t.Errorf("%s: %s", level, out)
		}
	}
}

// A file in memory that is mapped as well counts once.
func TestX8_FilesInMemoryCountOnce(t *testing.T) {
	spec := act(t, "act-memfd", "128", "both")
	spec.Limits.MemoryBytes = 240 << 20
	in := newGate()
	spec.Stdin = in
	r := start(t, withoutCgroup(t), spec)
	r.await(t, "the file", r.line("filled"))
	time.AfterFunc(2*meterSlowest, in.open)
	if e := r.finish(t); e.Cause != CauseExited || e.PeakMemoryBytes < 128<<20 {
		t.Errorf("exit = %+v", e)
	}
}

// What of the kernel's memory is counted nowhere isn't to be had.
func TestX8_NoMemoryOfTheKernel(t *testing.T) {
	for _, s := range []Sandbox{withoutCgroup(t), NewLandlocked(Config{Init: passable(t), Cgroup: filepath.Join(t.TempDir(), "none")})} {
		t.Run(s.Name(), func(t *testing.T) {
			want := "semaphores: function not implemented\nmessages: function not implemented\nqueue: function not implemented\n"
			if got := succeed(t, s, act(t, "act-kernel-memory")); got != want {
				t.Errorf("output:\n%s", got)
			}
		})
	}
}

// Where a limit only makes calls fail, the exit tells as a hint that it did.
func TestX8_FullTmp(t *testing.T) {
	spec := script(t, "head -c 5000000 /dev/zero > /tmp/big 2>/dev/null; r=$?; wc -c < /tmp/big; echo full; read line; exit $r")
	spec.Limits.TmpBytes = 1 << 20
	in := newGate()
	spec.Stdin = in
	r := start(t, newSandbox(t), spec)
	r.await(t, "the full tmpfs", r.line("full"))
	time.AfterFunc(2*meterEvery, in.open)
	if e := r.finish(t); e.Cause != CauseExited || e.Code == 0 || !slices.Contains(e.Hints, LimitTmpBytes) {
		t.Errorf("exit = %+v", e)
	}
	if !strings.HasPrefix(r.out.Text(), "1048576\n") {
		t.Errorf("output: %s", r.out.Text())
	}
}

// gate is an input that has one line once it is opened.
type gate struct{ c chan struct{} }

func newGate() *gate  { return &gate{c: make(chan struct{})} }
func (g *gate) open() { close(g.c) }
func (g *gate) Read(p []byte) (int, error) {
	<-g.c
	return copy(p, "\n"), nil
}

func TestX8_Descriptors(t *testing.T) {
	spec := act(t, "act-fds")
	spec.Limits.OpenFiles = 100
	out := succeed(t, newSandbox(t), spec)
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.Fields(out)[2], ":"))
	if n < 50 || n > 100 {
		t.Errorf("output: %s", out)
	}
}

// What a process maps and no longer is seen to use is bounded or refused.
func TestX8_HiddenMappings(t *testing.T) {
	want := `shared: cannot allocate memory
huge: cannot allocate memory
small: <nil>
private: <nil>
zero for writing: permission denied
zero: <nil>
zero shared: permission denied
zero private: <nil>
`
	if got := succeed(t, withoutCgroup(t), act(t, "act-zero")); got != want {
		t.Errorf("output:\n%swant\n%s", got, want)
	}
}

// The programs that builds run need none of it.
func TestX8_ProgramsStillWork(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"go", `mkdir m && cd m && printf 'module m\ngo 1.24\n' > go.mod
printf 'package m\n' > a.go
GOTOOLCHAIN=local go list -e . | grep -q m`},
		{"node", `node -e 'console.log(new SharedArrayBuffer(64<<20).byteLength > 0)' | grep -q true`},
		{"python3", `python3 -c '
import mmap, multiprocessing as m
p = mmap.mmap(-1, 1 << 20); v = m.Value("i", 0)
def f():
    with v.get_lock(): v.value += 1
c = m.get_context("fork")
l = [c.Process(target=f) for _ in range(4)]
[x.start() for x in l]; [x.join() for x in l]
assert v.value == 4'`},
		{"java", `printf 'class A { public static void main(String[] a) { System.out.println("up"); } }' > A.java && java A.java | grep -q up`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, withoutCgroup(t), script(t, "command -v "+c.name+" >/dev/null || exit 77\n"+c.text))
			switch e := r.finish(t); {
			case e.Code == 77:
				t.Logf("%s is not on this host", c.name)
			case e.Cause != CauseExited || e.Code != 0:
				t.Errorf("exit = %+v; output:\n%s", e, r.out.TailText(4000))
			}
		})
	}
}

// Blocks are written, not allocated by the gigabyte.
func TestX8_NoAllocation(t *testing.T) {
	if out := succeed(t, newSandbox(t), act(t, "act-allocate")); out != "fallocate: operation not supported\n" {
		t.Errorf("output: %s", out)
	}
}

// What came between the meter's last look and the end is seen, too: this program
// ends before the first. Whatever else runs on the machine may write more than it
// meanwhile, and then it is none of its fault.
func TestX8_DiskAtTheEnd(t *testing.T) {
	diskAlone(t)
	var e Exit
	for range 20 {
		spec := script(t, "head -c 1048576 /dev/zero > big")
		spec.Limits.DiskReserveBytes = freeBytes(t) - 1<<19
		if e = start(t, newSandbox(t), spec).finish(t); e.Cause == CauseResource {
			break
		}
	}
	if e.Cause != CauseResource || e.Limit != LimitDisk || !e.DiskLow {
		t.Errorf("exit = %+v", e)
	}
}

// TestX8_OthersFillTheDisk: who didn't write what lacks goes on to its own end, until
// so little is left that nobody may; and that isn't its fault either.
func TestX8_OthersFillTheDisk(t *testing.T) {
	diskAlone(t)
	const mib = 1 << 20
	others := filepath.Join(t.TempDir(), "others")
	isHarmless := func(e Exit) {
		t.Helper()
		if e.Cause != CauseExited || e.Code != 3 || !e.DiskLow {
			t.Errorf("exit = %+v", e)
		}
	}
	spec := script(t, "echo x > small; exit 3")
	spec.Limits.DiskReserveBytes = freeBytes(t) + 1<<30
	isHarmless(start(t, newSandbox(t), spec).finish(t))

	// Another process writes while this one runs. Who removes something meanwhile makes it
	// another case, and it's tried again.
	var e Exit
	for range 5 {
		spec = script(t, "echo x > small; read line; exit 3")
		in := newGate()
		spec.Stdin, spec.Limits.DiskReserveBytes = in, freeBytes(t)-64*mib
		r := start(t, newSandbox(t), spec)
		writeMiB(t, others, 128)
		in.open()
		if e = r.finish(t); e.Cause == CauseExited && e.DiskLow {
			break
		}
		if err := os.Remove(others); err != nil {
			t.Fatal(err)
		}
	}
	isHarmless(e)

	// A file whose mode is changed, or that gets another name, was not written.
	spec = script(t, "chmod 600 big; for i in 1 2 3; do ln big $i; done; exit 3")
	writeMiB(t, filepath.Join(spec.Workspace, "big"), 128)
	spec.Limits.DiskReserveBytes = freeBytes(t) + 64*mib
	isHarmless(start(t, newSandbox(t), spec).finish(t))

	spec = script(t, "while :; do sleep 1000; done")
	spec.Limits.DiskReserveBytes = 1 << 60
	if e := start(t, newSandbox(t), spec).finish(t); e.Cause != CauseKilled || e.Limit != LimitDisk || !e.DiskLow {
		t.Errorf("exit = %+v", e)
	}
	if !DiskLow(spec.Workspace, 1<<60) || DiskLow(spec.Workspace, 1) || DiskLow(spec.Workspace, 0) {
		t.Error("what is free is misread")
	}
}

// writeMiB writes a file of so many MiB to the disk.
func writeMiB(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for range n {
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
}

// What is said of a host before anything runs is what an end says afterwards.
func TestX8_MemoryIsWatchedOrHeld(t *testing.T) {
	if e := start(t, newSandbox(t), script(t, "true")).finish(t); e.Watched == HoldsMemory(Config{}) {
		t.Errorf("HoldsMemory is %v, exit = %+v", HoldsMemory(Config{}), e)
	}
	if e := start(t, withoutCgroup(t), script(t, "true")).finish(t); !e.Watched || HoldsMemory(Config{Cgroup: t.TempDir()}) {
		t.Errorf("without a group: exit = %+v", e)
	}
}
