package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/shelf"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// issueBody is a task that a builder which writes out.txt fulfils.
const issueBody = "Please do it.\n\n```writ\nallowed_files: [out.txt]\nexpected_outcome: \"out.txt says hello\"\n```\n"

// fixtureTime is when tests begin, Unix milliseconds.
const fixtureTime = 1_800_000_000_000

// testClock is set by the test; both domains move together.
type testClock struct {
	mu  sync.Mutex
	now lease.Clock
}

func newClock() *testClock {
	return &testClock{now: lease.Clock{WallMs: fixtureTime, BootMs: 5_000_000, BootID: "boot"}}
}

func (c *testClock) Now() lease.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.WallMs += ms
	c.now.BootMs += ms
}

type keptSightings map[string]lease.Sighting

func (k keptSightings) Load(ref string) (lease.Sighting, bool) { o, ok := k[ref]; return o, ok }
func (k keptSightings) Save(o lease.Sighting) error            { k[o.Ref] = o; return nil }

// forgetful keeps nothing of the acts that were seen.
type forgetful struct{}

func (forgetful) Load() ([]byte, error) { return nil, nil }
func (forgetful) Save([]byte) error     { return nil }

// fileSightings keeps them in a state directory.
type fileSightings struct{ path string }

func (f fileSightings) Load(ref string) (lease.Sighting, bool) {
	var o lease.Sighting
	data, err := os.ReadFile(f.path)
	return o, err == nil && json.Unmarshal(data, &o) == nil && o.Ref == ref
}

func (f fileSightings) Save(o lease.Sighting) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path, data, 0o600)
}

type fixedIssue struct{ issue Issue }

func (f *fixedIssue) Issue(context.Context, Terms) (Issue, error) { return f.issue, nil }

func sayHello() *fixedIssue {
	return &fixedIssue{Issue{Title: "Say hello", Body: issueBody, Actor: "local:0:root", Evidence: "keyboard", Time: fixtureTime}}
}

// evidenceLedger is a real ledger with its evidence.
type evidenceLedger struct {
	*ledger.Ledger
	seen *witness
}

func (l evidenceLedger) Evidence(ctx context.Context, task, from int64) (replay.Evidence, error) {
	return replay.Collect(ctx, l.Ledger, task, from)
}

// place is one installation: a state directory and what it works with.
type place struct {
	url   string // of the repository
	dir   string // state directory
	terms string // the contract; "" for the repository's own
	cfg   Config
	clock Clock
	obs   Sightings
	exec  executor.Executor
	issue Issues
	fault func(Point)
	say   func(string)
	tail  func(int64, string)
	newID func() string   // nil for fresh ones
	forge *Forge          // where the issue is, without issue
	wrap  func(Repo) Repo // between supervisor and client; nil for nothing
	acts  bool            // what was said of the world's keys is read
}

// opened is a process's hold of a place, with the real ledger and client.
type opened struct {
	db    *store.DB
	store *ledger.Store
	led   *ledger.Ledger
	repo  *git.Repo
	sup   *Supervisor
	task  *Task
	key   ssh.PublicKey
	seen  *witness
}

func (o *opened) close() {
	if o.store != nil {
		_ = o.store.Close() // nothing is lost by it
	}
	if o.db != nil {
		_ = o.db.Close() // nor by this
	}
	if o.repo != nil {
		_ = o.repo.Close()
	}
}

// open starts an installation's process over its state directory.
func (p place) open(ctx context.Context) (o *opened, err error) {
	o = &opened{seen: &witness{}}
	key, _, err := instancekey.LoadOrCreate(p.dir)
	if err != nil {
		return o, err
	}
	o.key = key.SSHSigner().PublicKey()
	if o.db, err = store.Open(ctx, filepath.Join(p.dir, "writ.db"), store.Options{}); err != nil {
		return o, err
	}
	o.store = ledger.New(o.db, key, ledger.Options{})
	if o.led, err = o.store.World(ctx, p.cfg.World); err != nil {
		return o, err
	}
	genesis := kernel.Genesis{Contract: canon.Sum(nil), Kernel: kernel.Version(), Builders: []string{"default"}, MaxPaths: 1000, MaxDepth: 64}
	if err = o.led.Start(ctx, genesis, p.clock.Now().WallMs); err != nil {
		return o, err
	}
	h, err := Replay(o.led.Records(ctx, 0, 0))
	if err != nil {
		return o, err
	}
	if o.repo, err = git.Open(ctx, git.Endpoint{URL: p.url}, git.Options{}); err != nil {
		return o, err
	}
	deps := Deps{
		Repo: o.repo, Ledger: evidenceLedger{o.led, o.seen}, Executor: p.exec, Clock: p.clock, Sightings: p.obs,
		NewRunID: func() string { return uuid.Must(uuid.NewRandomFromReader(rand.Reader)).String() },
		Signer:   git.NewSigner(key.SSHSigner()), Log: slog.New(slog.DiscardHandler), Fault: p.fault, Progress: p.say, Tail: p.tail,
	}
	deps.Forge, deps.Shelf, deps.Pushes = p.forge, shelf.Of(o.db, p.cfg.World), pushed.Of(o.db, p.cfg.World)
	if p.acts {
		if deps.Acts, err = worldref.Open(o.repo, p.cfg.World, worldref.Ref(DefaultRefPrefix), forgetful{}); err != nil {
			return o, err
		}
	}
	if p.newID != nil {
		deps.NewRunID = p.newID
	}
	if p.wrap != nil {
		deps.Repo = p.wrap(deps.Repo)
	}
	if p.terms != "" {
		p.cfg.Contract = &ContractFile{Name: "contract.yaml", Read: func() ([]byte, error) { return []byte(p.terms), nil }}
	}
	o.sup = New(p.cfg, deps, h)
	o.sup.seen = o.seen.look
	o.task, err = o.sup.Open(ctx, 1, p.issue)
	return o, err
}

// bench is one installation against a real repository, in this process.
type bench struct {
	*opened
	t     *testing.T
	bare  string // the repository
	place place
	clock *testClock
	exec  *fakeExecutor
	issue *fixedIssue
	lines []string // of progress
}

// newRepo makes a bare repository with one commit on main.
func newRepo(t *testing.T) string {
	repo := gittest.NewBare(t)
	gittest.Commit(t, repo, "refs/heads/main", "", map[string]string{"README": "hi\n"})
	return repo
}

func testConfig(runner string) Config {
	return Config{
		World: "local/test/repo", Lease: lease.DefaultPolicy(), LeaseSeconds: 120, MarginSeconds: 15,
		Name: "writ", Email: "writ@localhost", RunnerID: "host/" + runner,
	}
}

func newBench(t *testing.T, bare string, change func(*bench)) *bench {
	t.Helper()
	b := &bench{t: t, bare: bare, clock: newClock(), issue: sayHello(),
		exec: &fakeExecutor{build: writes(map[string]string{"out.txt": "hello\n"})}}
	dir := t.TempDir()
	b.place = place{
		url: bare, dir: dir, cfg: testConfig(filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)), clock: b.clock, obs: keptSightings{},
		exec: b.exec, issue: b.issue, say: func(s string) { b.lines = append(b.lines, s) },
	}
	if change != nil {
		change(b)
	}
	b.open()
	return b
}

// open starts the installation's process anew over its state directory.
func (b *bench) open() {
	b.t.Helper()
	if b.opened != nil {
		b.close()
	}
	o, err := b.place.open(context.Background())
	must(b.t, err)
	b.opened = o
	b.t.Cleanup(o.close)
}

// trusts lists another installation's key.
func (b *bench) trusts(other *bench) {
	b.place.cfg.Trusted = append(b.place.cfg.Trusted, other.key)
	b.open()
}

// ask sends one request and fails the test on an error.
func (b *bench) ask(req kernel.Request) Status {
	b.t.Helper()
	st, err := b.task.Tick(context.Background(), req, "local:0:root")
	must(b.t, err)
	return st
}

func (b *bench) tick() Status {
	b.t.Helper()
	return b.ask(kernel.RequestTick)
}

// until ticks until the task stands as wanted; builds end, time passes where
// something is due.
func (b *bench) until(want kernel.Standing) Status {
	b.t.Helper()
	return b.tickTo(func(st Status) bool { return st.Decision.Standing == want }, string(want))
}

// reach ticks until an action was done, or tried; builds go on until they stand
// in its way.
func (b *bench) reach(want kernel.Action) Status {
	b.t.Helper()
	return b.tickTo(func(st Status) bool { return st.Decision.Action == want }, string(want))
}

func (b *bench) tickTo(done func(Status) bool, what string) Status {
	b.t.Helper()
	var seen []string
	for range 60 {
		st := b.tick()
		seen = append(seen, fmt.Sprintf("%s/%s %v", st.Decision.Standing, st.Decision.Action, st.Decision.Codes))
		if done(st) {
			return st
		}
		switch st.Decision.Standing {
		case kernel.StandRunning:
			b.exec.finish()
		case kernel.StandDue:
			b.clock.advance(st.Decision.Wake - b.clock.Now().WallMs)
		}
	}
	b.t.Fatalf("never %s: %v", what, seen)
	return Status{}
}

func (b *bench) ref(name string) string { return gittest.RefOID(b.bare, name) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
