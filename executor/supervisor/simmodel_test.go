package supervisor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/kerneltest"
)

// simContract is the contract of simulated tasks.
const simContract = `version: 1
checks: [{name: test, run: ["true"]}]
budgets: {attempts: 3, interruptions: 10, retry_backoff: 30s, retry_backoff_max: 5m}
`

var simRules = kerneltest.Rules{Attempts: 3, Interruptions: 10}

// canary stands for a secret: it is in what a rejected builder wrote outside
// its scope, and nowhere else.
const canary = "CANARY-5f1c0b"

// sim is a repository, the time, and the runners that work on one task. It is
// single-threaded: nothing happens but in the calls of a test.
type sim struct {
	t       testing.TB
	choice  *kerneltest.Choice
	began   int64 // true time
	time    *kerneltest.Time
	server  *kerneltest.Server
	check   *kerneltest.Checker
	issue   *fixedIssue
	runners []*simRunner
	terms   string                       // the contract
	broken  kerneltest.Fault             // of every push
	rule    func(kerneltest.Object) bool // of the server, which takes no such object
	vague   bool                         // it says of that only that it was unable
	account bool                         // it says that the account may not push it
	blind   bool                         // nothing can be read either

	refreshed bool // somebody asks for refreshes
	trace     []string
	reader    *git.Repo  // turns the server's refs into git.Refs
	forged    *simForged // where the issue is, nil for a file
	refs      git.Refs
	version   int // of the server when refs were read
}

// newSim makes a simulation; skews are the runners' wall clocks against the
// truth, in milliseconds, one runner each.
func newSim(t testing.TB, seed int64, skews ...int64) *sim {
	return newSimUnder(t, seed, simContract, simRules, skews...)
}

func newSimUnder(t testing.TB, seed int64, terms string, rules kerneltest.Rules, skews ...int64) *sim {
	return startSim(simOf(t, seed, terms, rules), skews...)
}

// simOf makes a simulation without runners.
func simOf(t testing.TB, seed int64, terms string, rules kerneltest.Rules) *sim {
	s := &sim{
		t: t, terms: terms, choice: kerneltest.NewChoice(seed), time: kerneltest.NewTime(), server: kerneltest.NewServer(), version: -1,
		issue: &fixedIssue{Issue{Title: "Say hello", Body: issueBody, Actor: "alice", Evidence: "keyboard", Time: kerneltest.Start}},
	}
	s.check = kerneltest.NewChecker(s.server, "refs/writ/task/1", "refs/heads/writ/change/1", rules)
	s.check.Canary = []byte(canary)
	s.check.Trusts, s.check.Foreign = s.trusts, s.foreign
	s.server.Force("refs/heads/main", s.commit("", "base\n", map[string]string{"README": "hi\n"}))
	s.began = s.time.Now()
	var err error
	s.reader, err = git.Open(context.Background(), git.Endpoint{URL: "http://127.0.0.1/repo.git"},
		git.Options{HTTPClient: &http.Client{Transport: lsRefs{s.server}}})
	must(t, err)
	return s
}

// startSim adds the runners and starts them.
func startSim(s *sim, skews ...int64) *sim {
	for i, skew := range skews {
		s.runners = append(s.runners, &simRunner{s: s, name: string(rune('A' + i)), clock: kerneltest.NewClock(s.time, skew), obs: keptSightings{}})
	}
	for _, r := range s.runners {
		r.newDisk()
	}
	for _, r := range s.runners {
		r.start()
	}
	return s
}

// logf notes what happens, for who looks at a failure.
func (s *sim) logf(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%7.1fs ", float64(s.time.Now()-s.began)/1000)+fmt.Sprintf(format, args...))
}

// commit stores a commit that a person made.
func (s *sim) commit(parent, message string, files map[string]string) string {
	objs := git.NewObjects()
	var entries []git.Entry
	for path, text := range files {
		entries = append(entries, git.Entry{Path: path, Mode: git.ModeFile, OID: objs.Blob([]byte(text))})
	}
	sortEntries(entries)
	tree, err := objs.Tree(entries)
	must(s.t, err)
	who := git.Person{Name: "A U Thor", Email: "author@example.com", Seconds: s.time.Now() / 1000}
	spec := git.CommitSpec{Tree: tree, Author: who, Committer: who, Message: []byte(message)}
	if parent != "" {
		spec.Parents = []git.OID{git.OID(parent)}
	}
	oid, err := objs.Commit(spec, nil)
	must(s.t, err)
	list, err := kerneltest.ReadPack(objs.Pack().Data)
	must(s.t, err)
	s.server.Put(list...)
	return string(oid)
}

// trusts reports whether an installation's process lists the key that signed a
// commit.
func (s *sim) trusts(instance, id string) bool {
	o, _ := s.server.Object(id)
	commit, err := git.ParseCommit(o.Data)
	if err != nil {
		return false
	}
	for _, r := range s.runners {
		if r.instance() == instance && r.proc != nil && r.proc.sup != nil {
			trust, _ := r.proc.sup.trust(commit, "", r.proc.sup.standing(nil))
			return trust.Trusted()
		}
	}
	return true // a late push, or that of a dead process
}

func (s *sim) head() kerneltest.Head { h, _ := s.server.At(s.check.StateRef); return h }

// simRunner is one installation: a machine's clocks, a disk with ledger and
// observations, a key, and at most one process.
type simRunner struct {
	s      *sim
	name   string
	clock  *kerneltest.Clock
	obs    keptSightings
	disks  int        // how many it had
	snap   *memLedger // a copy of its disk, as it was some time ago
	ledger *memLedger
	shelf  *memShelf
	kept   *memPushes
	signer git.Signer
	others []ssh.PublicKey // keys listed beside its own

	proc    *simProc
	asleep  bool
	inside  bool             // a request of it is under way
	push    kerneltest.Fault // of the next push
	noReads int              // reads that fail
	pushes  int              // pushes that it sent
	// beforePush is called once, between the reading and the push of it.
	beforePush func()
	dieAt      Point  // fault point at which the process dies
	dieIn      int    // or after so many more points
	build      string // what the next builder does; see simJob
	fixedID    string // every run id, if set
	last       Status
	lastError  error
	untold     bool              // the issue may not show everything
	client     *forgetest.Faults // its way to the forge, which may lie
	liar       *forgetest.Liar   // the same under a real adapter
	looked     int               // the server's version after its last request
}

// simProc is one process of a runner. What it does after its death has no
// effect.
type simProc struct {
	r    *simRunner
	dead bool
	sup  *Supervisor
	task *Task
	jobs []*simJob
}

var errDead = errors.New("sim: this process is dead")

// instance names the runner's ledger.
func (r *simRunner) instance() string { return r.name + strconv.Itoa(r.disks) }

// newDisk gives the runner an empty disk: ledger, key and observations are new.
func (r *simRunner) newDisk() {
	r.disks++
	r.snap = nil
	seed := make([]byte, ed25519.SeedSize)
	r.s.choice.Bytes(seed)
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	must(r.s.t, err)
	r.signer = git.NewSigner(key)
	for _, o := range r.s.runners {
		if o != r && o.signer != nil { // everybody lists everybody
			o.others, r.others = append(o.others, r.signer.PublicKey()), append(r.others, o.signer.PublicKey())
		}
	}
	r.obs, r.shelf, r.kept = keptSightings{}, &memShelf{}, &memPushes{}
	r.ledger = &memLedger{r: r, chain: kernel.Chain{World: "forge.example/owner/repo", Instance: git.Fingerprint(r.signer.PublicKey()), Head: kernel.NoHead()}}
	_, err = r.ledger.Write(context.Background(), r.clock.Now().WallMs, kernel.Draft{Kind: kernel.KindGenesis, Body: kernel.Genesis{
		Kind: string(kernel.KindGenesis), World: r.ledger.chain.World, InstanceKey: string(ssh.MarshalAuthorizedKey(key.PublicKey())),
		Contract: canon.Sum([]byte(r.s.terms)), Kernel: kernel.Version(), Builders: []string{"default"}, Seed: 1, MaxPaths: 100, MaxDepth: 16,
	}})
	must(r.s.t, err)
}

// newID is a fresh run id, or the one that the test wants.
func (r *simRunner) newID() string {
	if r.fixedID != "" {
		return r.fixedID
	}
	return r.s.choice.UUID()
}

// start begins a process over the runner's disk.
func (r *simRunner) start() {
	r.s.check.Reopened(r.instance(), r.ledger.chain.Head)
	p := &simProc{r: r}
	r.proc, r.asleep, r.looked = p, false, -1
	h, err := replayed(r.ledger.all())
	must(r.s.t, err)
	repo := &simRepo{p}
	p.sup = New(Config{
		World: r.ledger.chain.World, RunnerID: r.name + "/state", Lease: leasePolicy(), LeaseSeconds: 120, MarginSeconds: 15,
		Name: "writ", Email: "writ@localhost", Trusted: r.others,
		Contract: &ContractFile{Name: "contract.yaml", Read: func() ([]byte, error) { return []byte(r.s.terms), nil }},
	}, Deps{
		Repo: repo, Ledger: r.ledger, Shelf: r.shelf, Pushes: r.kept, Executor: &simExecutor{p}, Clock: r.clock, Sightings: r.obs,
		NewRunID: r.newID, Signer: r.signer, Log: slog.New(slog.DiscardHandler), Fault: p.fault, Forge: p.forge(),
	}, h)
	r.ledger.seen = witness{}
	p.sup.seen = r.ledger.seen.look
	r.s.logf("%s starts", r.name)
	_ = p.run(func() error {
		var err error
		p.task, err = p.sup.Open(context.Background(), 1, r.s.issues())
		return err
	})
}

// fault dies where the test wants it.
func (p *simProc) fault(at Point) {
	r := p.r
	if r.dieIn > 0 {
		if r.dieIn--; r.dieIn == 0 {
			r.dieAt = at
		}
	}
	if r.dieAt == at && !p.dead {
		r.s.logf("%s dies at %s", r.name, at)
		r.dieAt = ""
		p.die()
	}
	if p.dead {
		panic(errDead)
	}
}

// die ends the process and everything that it started.
func (p *simProc) die() {
	p.dead = true
	for _, j := range p.jobs {
		j.Kill()
	}
	p.r.proc = nil
}

// run does something in the process. It may die under it: by a fault point, or
// because its kernel halted, which ends a process.
func (p *simProc) run(f func() error) (err error) {
	defer func() {
		if e := recover(); e != nil {
			if e != any(errDead) {
				panic(e)
			}
			err = errDead
		}
		if !p.dead && (p.task == nil || p.task.machine.State().String() == "HALTED") {
			p.r.s.logf("%s ends: %v", p.r.name, err)
			p.die()
		}
	}()
	return f()
}

// crash kills the process from outside.
func (r *simRunner) crash() {
	if r.proc != nil {
		r.s.logf("%s is killed", r.name)
		r.proc.die()
	}
}

// up starts a process if there is none, and wakes it.
func (r *simRunner) up() {
	if r.proc == nil {
		r.start()
	}
	r.asleep = false
}

// ask sends one request to the runner's task, after its guard has looked.
func (r *simRunner) ask(req kernel.Request) (Status, error) {
	if r.proc == nil || r.proc.task == nil || r.asleep || r.inside {
		return Status{}, errDead
	}
	r.inside = true
	defer func() { r.inside = false }()
	p := r.proc
	p.task.worker.Guard(r.clock.Now())
	var st Status
	err := p.run(func() (err error) { st, err = p.task.Tick(context.Background(), req, "alice"); return err })
	if p.dead && err == nil {
		err = errDead
	}
	outcome := kernel.OutcomeStatus("")
	if st.Outcome != nil {
		outcome = st.Outcome.Status
	}
	r.s.logf("%s %s: %s %s %s %v %v", r.name, req, st.Decision.Standing, st.Decision.Action, outcome, st.Decision.Codes, err)
	r.last, r.lastError, r.looked = st, err, r.s.server.Version
	for _, w := range r.s.check.Wrong {
		r.s.fail("%s", w)
	}
	return st, err
}

func (r *simRunner) tick() Status {
	st, err := r.ask(kernel.RequestTick) // what went wrong is in the trace
	if r.s.forged != nil && err == nil && speaksAt(st) {
		r.tell(st)
	}
	return st
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	const most = 150 // lines; the end matters
	shown := s.trace[:1:1]
	shown = append(shown, s.trace[max(1, len(s.trace)-most):]...)
	s.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(shown, "\n"))
}

// advance lets time pass for everybody; guards look as often as they would.
func (s *sim) advance(ms int64) {
	const look = 5_000 // within the margin
	for ; ms > 0; ms -= look {
		s.time.Advance(min(ms, look))
		for _, r := range s.runners {
			if r.proc != nil && r.proc.task != nil && !r.asleep {
				r.proc.task.worker.Guard(r.clock.Now())
			}
		}
	}
}

// building are the builders that run.
func (r *simRunner) building() []*simJob {
	var out []*simJob
	if r.proc == nil {
		return nil
	}
	for _, j := range r.proc.jobs {
		if !closed(j.Done()) {
			out = append(out, j)
		}
	}
	return out
}
