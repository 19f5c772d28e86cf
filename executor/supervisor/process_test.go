package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// TestMain makes the test binary a runner's process where a test starts it as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(runnerEnv); text != "" {
		os.Exit(runnerMain(text))
	}
	collectLess()
	os.Exit(sealedFacts(inMemory(m.Run)))
}

// collectLess spends memory instead of time, below some 2 GB: every collection would also visit
// all that the memory profile has sampled, which nobody reads here.
func collectLess() {
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(2 << 30)
	runtime.MemProfileRate = 0
}

// disk is where temporary directories are that a sandbox sees: it hides /dev/shm.
var disk = os.TempDir()

// inMemory has the tests' repositories and stores in memory, which takes half the time.
func inMemory(run func() int) int {
	dir, err := os.MkdirTemp("/dev/shm", "writ-supervisor-")
	if err != nil {
		return run()
	}
	defer os.RemoveAll(dir)      // what is in it is the tests' own, who remove it
	_ = os.Setenv("TMPDIR", dir) // no name of MkdirTemp's holds a NUL
	return run()
}

// runnerEnv holds the setup of a runner's process.
const runnerEnv = "WRIT_TEST_RUNNER"

// setup is what a runner's process is told.
type setup struct {
	URL, Dir, Name, Terms string
	Clock                 string   // file with the milliseconds that have passed
	Builds                string   // file that gets a line for each started builder
	Trusted               []string // authorized_keys lines
	Build                 string   // "good" or "bad"; held until told to finish
	Sandboxed             []string // argv of a real builder in a sandbox instead
	Time                  int64    // budget of each kind, in milliseconds; 0 for none
	Takes                 int64    // how long a builder takes by its result, in milliseconds
}

// reply answers one command, in a line of JSON.
type reply struct {
	Ready    bool
	Frozen   bool
	Standing kernel.Standing
	Action   kernel.Action
	State    kernel.TaskState
	Outcome  kernel.OutcomeStatus
	Codes    []kernel.Code
	Wake     int64
	Building int
	Key      string
	Error    string
}

// fileClock is a clock that its file moves.
type fileClock struct{ path string }

func (c fileClock) Now() lease.Clock {
	passed := int64(0)
	if data, err := os.ReadFile(c.path); err == nil {
		passed, _ = strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // the test wrote it
	}
	return lease.Clock{WallMs: fixtureTime + passed, BootMs: 5_000_000 + passed, BootID: "boot"}
}

// child is a runner's process from inside.
type child struct {
	*opened
	setup  setup
	exec   *fakeExecutor
	out    *json.Encoder
	die    Point       // here it kills itself
	freeze Point       // here it stops itself
	lines  chan string // what a real builder prints
}

// runnerMain is a runner's process: it does what its standard input says, one
// command a line, and answers each.
func runnerMain(text string) int {
	c := &child{out: json.NewEncoder(os.Stdout), lines: make(chan string, 100)}
	if err := json.Unmarshal([]byte(text), &c.setup); err != nil {
		return 2
	}
	if err := c.start(); err != nil {
		_ = c.out.Encode(reply{Error: err.Error()}) // the test reads it
		return 1
	}
	defer c.close()
	_ = c.out.Encode(reply{Ready: true, Key: string(ssh.MarshalAuthorizedKey(c.key))}) // as above
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := c.out.Encode(c.obey(lines.Text())); err != nil {
			return 1
		}
	}
	return 0
}

func (c *child) start() error {
	s := c.setup
	cfg := testConfig(s.Name)
	for _, line := range s.Trusted {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return err
		}
		cfg.Trusted = append(cfg.Trusted, key)
	}
	build := writes(map[string]string{"out.txt": "hello\n"})
	if s.Build == "bad" {
		build = failing
	}
	cfg.Budgets = Budgets{Task: kernel.Spend{Time: s.Time}, World: kernel.Spend{Time: s.Time}, Day: kernel.Spend{Time: s.Time}}
	c.exec = &fakeExecutor{build: takes(build, s.Takes), hold: true, started: func(j executor.BuildJob) { appendLine(s.Builds, j.Run) }}
	var run executor.Executor = c.exec
	if len(s.Sandboxed) > 0 {
		run = builder.New(builder.Config{
			Sandbox: sandbox.NewBubblewrap(sandbox.Config{}), Builders: map[string]builder.Builder{"default": {Argv: s.Sandboxed}},
			WorkDir: filepath.Join(s.Dir, "workspaces"), Now: func() int64 { return fixtureTime },
		})
	}
	var err error
	c.opened, err = place{
		url: s.URL, dir: s.Dir, terms: s.Terms, cfg: cfg, clock: fileClock{s.Clock},
		obs: fileSightings{filepath.Join(s.Dir, "observations.json")}, exec: run, issue: sayHello(), fault: c.fault,
		tail: func(_ int64, line string) { c.lines <- line },
	}.open(context.Background())
	return err
}

func appendLine(path, line string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
}

// fault dies as kill -9 does, or freezes until somebody continues it.
func (c *child) fault(at Point) {
	switch at {
	case c.die:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case c.freeze:
		c.freeze = ""
		_ = c.out.Encode(reply{Frozen: true}) // the test waits for it
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

func (c *child) obey(line string) reply {
	ctx := context.Background()
	word, arg, _ := strings.Cut(line, " ")
	switch word {
	case "die":
		c.die = Point(arg)
	case "freeze":
		c.freeze = Point(arg)
	case "finish":
		c.exec.finish()
	case "await": // the builder's next line
		<-c.lines
	case "resume":
		if err := c.sup.Resume(ctx, 1, "alice", "go on"); err != nil {
			return reply{Error: err.Error()}
		}
	case "drive":
		c.exec.hold = false
		st, err := c.task.Drive(ctx, DriveOptions{Actor: "alice", Once: true})
		return c.answer(st, err)
	default: // tick, stop, shutdown
		c.task.worker.Guard(fileClock{c.setup.Clock}.Now())
		st, err := c.task.Tick(ctx, kernel.Request(word), "alice")
		return c.answer(st, err)
	}
	return reply{Ready: true}
}

func (c *child) answer(st Status, err error) reply {
	r := reply{Standing: st.Decision.Standing, Action: st.Decision.Action, State: st.Decision.State, Codes: st.Decision.Codes,
		Wake: st.Decision.Wake, Building: len(c.exec.running())}
	if st.Outcome != nil {
		r.Outcome = st.Outcome.Status
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// town is a repository, a clock and the runners that work there, each a process
// of its own.
type town struct {
	t     *testing.T
	bare  string
	url   string
	terms string
	clock string // file
	built string // file
	now   int64  // milliseconds since the start
	keys  map[string]string
	dirs  map[string]string
	// stopped are the runners that died while a person's stop was carried out. It outlives
	// them until a person moves on.
	stopped map[string]bool
}

// townTerms allow what the crash tests do to one task.
const townTerms = "version: 1\nchecks: [{name: test, run: [\"true\"]}]\n" +
	"budgets: {attempts: 3, interruptions: 10, retry_backoff: 1s, retry_backoff_max: 1s}\n"

func newTown(t *testing.T) *town {
	w := &town{t: t, bare: newRepo(t), terms: townTerms, keys: map[string]string{}, dirs: map[string]string{}, stopped: map[string]bool{}}
	dir := t.TempDir()
	w.url, w.clock, w.built = w.bare, filepath.Join(dir, "clock"), filepath.Join(dir, "builds")
	return w
}

// pass lets time pass for every process.
func (w *town) pass(ms int64) {
	w.t.Helper()
	w.now += ms
	must(w.t, os.WriteFile(w.clock+".new", []byte(strconv.FormatInt(w.now, 10)), 0o600))
	must(w.t, os.Rename(w.clock+".new", w.clock))
}

// builds are the runs that a builder was started for.
func (w *town) builds() []string {
	data, err := os.ReadFile(w.built)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// oneDispatchPerRun fails if a run had two.
func (w *town) oneDispatchPerRun() {
	w.t.Helper()
	list := w.builds()
	slices.Sort(list)
	if len(slices.Compact(slices.Clone(list))) != len(list) {
		w.t.Errorf("a run was dispatched twice: %v", list)
	}
}

// resident is a runner's process from outside.
type resident struct {
	w     *town
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	alive bool
	last  reply
}

// hang ends a process that doesn't answer, so that its test fails and ends.
const hang = 2 * time.Minute

// runner starts a process of the installation of this name.
func (w *town) runner(name string, change ...func(*setup)) *resident {
	w.t.Helper()
	if w.dirs[name] == "" {
		w.dirs[name] = w.t.TempDir()
	}
	s := setup{URL: w.url, Dir: w.dirs[name], Name: name, Terms: w.terms, Clock: w.clock, Builds: w.built}
	for other, key := range w.keys {
		if other != name {
			s.Trusted = append(s.Trusted, key)
		}
	}
	for _, f := range change {
		f(&s)
	}
	text, err := json.Marshal(s)
	must(w.t, err)
	self, err := os.Executable()
	must(w.t, err)
	r := &resident{w: w, name: name, cmd: exec.Command(self), alive: true}
	// A binary with the race detector would end a second late.
	r.cmd.Env = append(os.Environ(), runnerEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	r.cmd.Stderr = os.Stderr
	r.in, err = r.cmd.StdinPipe()
	must(w.t, err)
	out, err := r.cmd.StdoutPipe()
	must(w.t, err)
	r.out = bufio.NewScanner(out)
	must(w.t, r.cmd.Start())
	w.t.Cleanup(r.kill)
	if first := r.read(); !first.Ready {
		w.t.Fatalf("%s doesn't start: %+v", name, first)
	}
	w.keys[name] = r.last.Key
	return r
}

// kill is kill -9, and the wait for the end.
func (r *resident) kill() {
	if r.alive {
		r.alive = false
		_ = r.cmd.Process.Kill() // it may be dead already
		_ = r.cmd.Wait()
	}
}

// read reads the answer to a command. A process that died has none.
func (r *resident) read() reply {
	r.w.t.Helper()
	timer := time.AfterFunc(hang, func() { _ = r.cmd.Process.Kill() })
	defer timer.Stop()
	r.last = reply{}
	if !r.out.Scan() {
		r.alive = false
		_ = r.cmd.Wait() // the state says how it ended
		if ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			r.w.t.Fatalf("%s ended by itself: %v", r.name, r.cmd.ProcessState)
		}
		return r.last
	}
	must(r.w.t, json.Unmarshal(r.out.Bytes(), &r.last))
	return r.last
}

// send gives a command without waiting for its answer.
func (r *resident) send(command string) {
	r.w.t.Helper()
	if _, err := fmt.Fprintln(r.in, command); err != nil {
		r.w.t.Fatalf("%s doesn't listen: %v", r.name, err)
	}
}

// ask gives a command and reads its answer.
func (r *resident) ask(command string) reply {
	r.w.t.Helper()
	r.send(command)
	return r.read()
}

// tick is one request; an error that isn't expected fails the test.
func (r *resident) tick() reply {
	r.w.t.Helper()
	a := r.ask("tick")
	if r.alive && a.Error != "" {
		r.w.t.Fatalf("%s: %s", r.name, a.Error)
	}
	return a
}

// until ticks until done says so or the process dies; builders end when they
// stand in the way, time passes where something is due.
func (r *resident) until(what string, done func(reply) bool) reply {
	r.w.t.Helper()
	var seen []string
	for range 60 {
		a := r.tick()
		if !r.alive || done(a) {
			return a
		}
		seen = append(seen, fmt.Sprintf("%s/%s %v", a.Standing, a.Action, a.Codes))
		switch a.Standing {
		case kernel.StandWaiting:
			if slices.Contains(a.Codes, kernel.CodeStateRollback) {
				r.ask("resume") // the test itself set the ref back
			}
		case kernel.StandRunning:
			r.ask("finish")
		case kernel.StandDue, kernel.StandHeld:
			r.w.pass(max(a.Wake-fixtureTime-r.w.now, 1000))
		}
	}
	r.w.t.Fatalf("%s never comes to %s: %v", r.name, what, seen)
	return reply{}
}

func (r *resident) final() reply {
	r.w.t.Helper()
	return r.until("an end", func(a reply) bool { return a.Standing == kernel.StandFinal })
}

func (r *resident) reach(action kernel.Action) reply {
	r.w.t.Helper()
	return r.until(string(action), func(a reply) bool { return a.Action == action })
}
