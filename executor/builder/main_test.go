package builder

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// The test binary itself is found inside, as /run/writ/init: a hostile script
// can go on as one of the programs below.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "act-network":
			actNetwork(os.Args[2:])
			os.Exit(0)
		case "act-fetch":
			actFetch(os.Args[2:])
			os.Exit(0)
		case "act-ask":
			actAsk(os.Args[2], os.Args[3:])
			os.Exit(0)
		case "act-acp":
			actACP(os.Args[2])
			os.Exit(0)
		case "act-say":
			actSay(os.Args[2:])
			os.Exit(0)
		case "act-descriptors":
			actDescriptors()
		}
	}
	os.Exit(gittest.InMemory(m).Run())
}

// actNetwork tries to reach a TCP address and an abstract socket of the host,
// and the world, and prints what it reached.
func actNetwork(args []string) {
	for i, network := range []string{"tcp", "unix"} {
		if c, err := net.DialTimeout(network, args[i], time.Second); err == nil {
			fmt.Println("reached", network)
			_ = c.Close()
		}
	}
	for _, network := range []string{"udp4", "udp6", "tcp6"} {
		if c, err := net.DialTimeout(network, map[string]string{"udp4": "192.0.2.1:53", "udp6": "[2001:db8::1]:53", "tcp6": "[::1]:80"}[network], time.Second); err == nil {
			if _, err := c.Write([]byte("x")); err == nil {
				fmt.Println("reached", network)
			}
		}
	}
	if _, err := net.LookupHost("example.com"); err == nil {
		fmt.Println("reached a name server")
	}
	fmt.Println("tried everything")
}

// actDescriptors opens files until it may not.
func actDescriptors() {
	var open []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			fmt.Println(err, "after", len(open))
			os.Exit(1)
		}
		open = append(open, f)
	}
}

// waitLimit bounds waits for what normally takes milliseconds. Reaching it is a
// failure, so its size costs nothing.
const waitLimit = 2 * time.Minute

// bed is an executor with a base, on the real sandbox.
type bed struct {
	t       *testing.T
	local   *Local
	cfg     Config
	base    executor.Base
	outside string // files that nobody may touch
	work    string
	log     *bytes.Buffer
	lines   lines
}

// lines collects the live tail.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, s)
}

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "\n")
}

// shared is the sandbox of most tests, and whether this host can have one: the
// usual one, or the one for hosts without namespaces; see confined_test.go.
var shared = sync.OnceValues(func() (sandbox.Sandbox, error) {
	var s sandbox.Sandbox = sandbox.NewBubblewrap(sandbox.Config{})
	if confined() {
		s = sandbox.NewLandlocked(sandbox.Config{})
	}
	return s, s.Probe(context.Background())
})

// newBed makes one; change may alter its configuration.
func newBed(t *testing.T, change ...func(*Config)) *bed {
	t.Helper()
	box, err := shared()
	if err != nil {
		t.Fatalf("these tests need a working sandbox: %v", err)
	}
	b := &bed{t: t, base: baseOf(calc), outside: filepath.Join(t.TempDir(), "outside"), log: &bytes.Buffer{}}
	b.work = filepath.Join(t.TempDir(), "work")
	b.putOutside()
	b.cfg = Config{
		Layers: Layers{Dir: filepath.Join(t.TempDir(), "layers")}, Sandbox: box, Builders: map[string]Builder{}, WorkDir: b.work,
		Now: func() int64 { return time.Now().UnixMilli() },
		Log: slog.New(slog.NewTextHandler(b.log, nil)),
	}
	for _, f := range change {
		f(&b.cfg)
	}
	b.local = New(b.cfg)
	b.local.probed = b.cfg.Sandbox == box // it was probed above
	t.Cleanup(b.finish)
	return b
}

// finish checks what holds after every test: the outside is as it was, and no
// workspace is left.
func (b *bed) finish() {
	b.local.Close()
	b.untouched()
	left, err := os.ReadDir(b.work)
	if err != nil && !os.IsNotExist(err) {
		b.t.Error(err)
	}
	for _, e := range left {
		b.t.Errorf("%s is left of a run", e.Name())
	}
}

// canary is a secret of the host. It is made at run time, since the test binary
// itself is visible inside.
var canary = "canary-" + strconv.FormatInt(time.Now().UnixNano(), 36)

var outsideFiles = map[string]string{
	"canary":      canary,
	"result.json": goodResult(`["calc/add.go"]`),
}

func (b *bed) putOutside() {
	b.t.Helper()
	if err := os.MkdirAll(b.outside, 0o755); err != nil {
		b.t.Fatal(err)
	}
	for name, text := range outsideFiles {
		if err := os.WriteFile(filepath.Join(b.outside, name), []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bed) untouched() {
	b.t.Helper()
	list, err := os.ReadDir(b.outside)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(b.outside, e.Name()))
		if want, known := outsideFiles[e.Name()]; !known || err != nil || string(data) != want {
			b.t.Errorf("outside, %s was touched: %q, %v", e.Name(), data, err)
		}
	}
	if len(list) != len(outsideFiles) {
		b.t.Errorf("outside are %d files, not %d", len(list), len(outsideFiles))
	}
}

// calc is the base of most tests: path → content. A path with a star at its end
// is executable, one with an at sign a link, one with a plus a submodule.
var calc = map[string]string{
	"README.md":     "# calc\n",
	"calc/add.go":   "package calc\n\nfunc  Add(a, b int) int { return a+b }\n",
	"calc/sub.go":   "package calc\n",
	"calc/run.sh*":  "#!/bin/sh\nexit 0\n",
	"docs/guide.md": "guide\n",
	"docs/link@":    "guide.md",
	".gitignore":    "*.log\nbuild/\n",
	"vendor/lib+":   "",
	"check.sh*":     "#!/bin/sh\ngrep -q changed calc/add.go\n",
}

// baseOf makes a pinned tree of files in memory.
func baseOf(files map[string]string) executor.Base {
	b := executor.Base{Commit: strings.Repeat("c", 40)}
	blobs := map[string][]byte{}
	for path, text := range files {
		f := executor.File{Path: strings.TrimRight(path, "*@+"), Mode: scope.ModeFile, ID: scope.BlobID([]byte(text))}
		switch path[len(path)-1] {
		case '*':
			f.Mode = scope.ModeExec
		case '@':
			f.Mode = scope.ModeSymlink
		case '+':
			f.Mode, f.ID = scope.ModeGitlink, strings.Repeat("d", 40)
		}
		blobs[f.ID] = []byte(text)
		b.Files = append(b.Files, f)
	}
	slices.SortFunc(b.Files, func(x, y executor.File) int { return strings.Compare(x.Path, y.Path) })
	b.Blobs = func(_ context.Context, ids []string, f func(string, []byte) error) error {
		for _, id := range ids {
			data, ok := blobs[id]
			if !ok {
				return fmt.Errorf("no blob %s", id)
			}
			if err := f(id, data); err != nil {
				return err
			}
		}
		return nil
	}
	return b
}

// prelude is what the scripts of the tests have in common.
const prelude = `result() {
	printf '{"status":"success","changed_files":%s,"tests_passed":true,"logs":"all is well","timestamp":"2026-01-31T08:00:00Z"}' "$1" > "$WRIT_RESULT"
}
`

func goodResult(changed string) string {
	return `{"status":"success","changed_files":` + changed + `,"tests_passed":true,"logs":"from the outside","timestamp":"2026-01-31T08:00:00Z"}`
}

// budgets are generous; tests of a limit lower it.
func budgets() kernel.Budgets {
	long := waitLimit.Milliseconds()
	return kernel.Budgets{StartTimeoutMs: long, BuildTimeoutMs: long, IdleTimeoutMs: long, Files: 100, Bytes: 1 << 20}
}

// job is a build of a script, with calc/** allowed.
func (b *bed) job(builder Builder) executor.BuildJob {
	b.t.Helper()
	if builder.Env == nil {
		builder.Env = map[string]string{}
	}
	builder.Env["OUTSIDE"] = b.outside
	builder.Env["INIT"] = "/run/writ/init"      // this program; a place in a variable is right at each level
	builder.Env["GORACE"] = "atexit_sleep_ms=0" // or a test binary with the race detector ends a second late
	b.local.cfg.Builders["default"] = builder
	return executor.BuildJob{
		Task: 7, Run: "run-1", Builder: "default", Dispatch: []byte(`{"kind":"dispatch"}`), Instruction: "do it\n",
		Base: b.base, Budgets: budgets(), Scope: executor.ScopeRules{Allowed: []string{"calc/**"}}, OnLine: b.lines.add,
	}
}

func script(text string) Builder { return Builder{Argv: []string{"/bin/sh", "-c", prelude + text}} }

// build runs a job to its end.
func (b *bed) build(job executor.BuildJob) executor.BuildOutcome {
	b.t.Helper()
	r, err := b.local.Build(b.t.Context(), job)
	if err != nil {
		b.t.Fatalf("Build: %v", err)
	}
	b.await(r)
	return r.Outcome()
}

// sh builds with a script.
func (b *bed) sh(text string) executor.BuildOutcome {
	b.t.Helper()
	return b.build(b.job(script(text)))
}

type running interface {
	Done() <-chan struct{}
	Kill()
}

func (b *bed) await(r running) {
	b.t.Helper()
	select {
	case <-r.Done():
	case <-time.After(waitLimit):
		r.Kill()
		b.t.Fatalf("it did not end within %v", waitLimit)
	}
}

// check runs checks on what a build gave.
func (b *bed) check(o executor.BuildOutcome, list ...kernel.Check) executor.CheckOutcome {
	b.t.Helper()
	r, err := b.local.Check(b.t.Context(), b.checkJob(o, list...))
	if err != nil {
		b.t.Fatalf("Check: %v", err)
	}
	b.await(r)
	return r.Outcome()
}

func (b *bed) checkJob(o executor.BuildOutcome, list ...kernel.Check) executor.CheckJob {
	return executor.CheckJob{
		Task: 7, Run: "run-1", Base: b.base, Diff: o.Diff, Contents: o.Contents, Checks: list,
		TreeID: strings.Repeat("e", 40), OnLine: b.lines.add,
	}
}

func shCheck(name, text string) kernel.Check {
	return kernel.Check{Name: name, Argv: []string{"/bin/sh", "-c", text}, TimeoutMs: waitLimit.Milliseconds(), Repeat: 1}
}

// codes are all codes of an outcome, in the table's order.
func codes(o executor.BuildOutcome) string {
	return words(append(slices.Clone(o.Violations), o.Diff.Violations...))
}

func words(list []kernel.Violation) string {
	var out []string
	for _, c := range kernel.CodesOf(list) {
		out = append(out, string(c))
	}
	return strings.Join(out, " ")
}

func paths(d kernel.Diff) string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, string(c.Op)+" "+c.Path)
	}
	return strings.Join(out, ", ")
}
