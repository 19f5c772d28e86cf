package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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
	return []resource{
		{"fork bomb", act(t, "act-bomb"), Limits{Processes: 64}, LimitProcesses},
		{"private memory", act(t, "act-memory", "512"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"shared memory", act(t, "act-shared", "48"), Limits{MemoryBytes: 48 * mib}, LimitMemory},
		{"hidden memory", act(t, "act-hidden", "64"), Limits{MemoryBytes: 512 * mib}, LimitMemory},
		{"memory without a first thread", act(t, "act-leader", "512"), Limits{MemoryBytes: 128 * mib}, LimitMemory},
		{"memory in parts", script(t, "for i in 1 2 3 4; do \"$0\" act-memory 64 & done; wait"), Limits{MemoryBytes: 200 * mib}, LimitMemory},
		{"processor time", act(t, "act-spin"), Limits{CPU: time.Second}, LimitCPU},
		{"processor time in parts", script(t, "for i in 1 2; do \"$0\" act-spin & done; wait"), Limits{CPU: time.Second}, LimitCPU},
		{"file size", script(t, "head -c 3000000 /dev/zero > big"), Limits{FileSizeBytes: mib}, LimitFileSize},
		{"files in tmp", act(t, "act-tmpfiles"), Limits{TmpFiles: 5000}, LimitTmpFiles},
		{"disk", script(t, "while :; do sleep 1000; done"), Limits{DiskReserveBytes: 1 << 60}, LimitDisk},
	}
}

func TestX8_Resources(t *testing.T) {
	for _, c := range resources(t) {
		t.Run(c.name, func(t *testing.T) { c.isHeld(t, withoutCgroup(t)) })
	}
}

// isHeld sees that only the one tree ends, and by its limit.
func (c resource) isHeld(t *testing.T, s Sandbox) {
	neighbour := start(t, s, script(t, "echo up; read line; exit 0"))
	c.spec.Limits = c.limits
	r := start(t, s, c.spec)
	e := r.finish(t)
	if e.Cause != CauseResource || e.Limit != c.want {
		t.Errorf("exit = %+v; output:\n%s", e, r.out.TailText(2000))
	}
	neighbour.finish(t)
	if out := succeed(t, s, script(t, "echo fine")); out != "fine\n" {
		t.Errorf("afterwards: %s", out)
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

// Memory that no process is seen to use is refused where nothing counts it.
func TestX8_HiddenMemory(t *testing.T) {
	b := withoutCgroup(t)
	spec := act(t, "act-shared", "1")
	spec.Limits.MemoryBytes = 1 << 30
	r := start(t, b, spec)
	r.await(t, "the memory", r.line("touched"))
	if strings.Contains(r.out.Text(), "memfd: allowed") {
		t.Error("memfd_create is allowed")
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
// ends before the first.
func TestX8_DiskAtTheEnd(t *testing.T) {
	spec := script(t, "exit 0")
	spec.Limits.DiskReserveBytes = 1 << 60
	e := start(t, newSandbox(t), spec).finish(t)
	if e.Cause != CauseResource || e.Limit != LimitDisk || !e.DiskLow {
		t.Errorf("exit = %+v", e)
	}
}
