package replay

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

const (
	testWorld = "example.test/team/alpha"
	testTask  = 3
	startMs   = 1_800_000_000_000
)

const testContract = `version: 1
checks:
  - {name: test, run: [go, test, ./...], repeat: 2}
paths: {guarded: [calc/ci.yml]}
`

var baseFiles = map[string]string{
	".writ/contract.yaml": testContract,
	"calc/add.go":         "package calc\n",
	"calc/old.go":         "package calc // old\n",
	"run.sh":              "#!/bin/sh\n",
}

// testKey is the same key for the same number.
func testKey(t testing.TB, n byte) *instancekey.Key {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	key, err := instancekey.New(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// stage is an instance at work on one repository: a real one, with a real
// ledger, world and machine, and the supervisor's order of records.
type stage struct {
	t       testing.TB
	dir     string
	base    git.OID
	repo    *git.Repo
	key     *instancekey.Key
	signer  git.Signer
	ledger  *ledger.Ledger
	world   *world.Kernel
	machine *machine.Machine
	now     int64
	req     *request
	name    string // of the world
	seq     int64  // of the last state commit
}

// stamp is that of the next state commit.
func (s *stage) stamp() []lease.Trailer {
	s.seq++
	return kernel.Stamp{Seq: s.seq, World: s.name, Ref: stateRef, Task: testTask, Issue: kernel.IssueName(2031, 1_700_000_000)}.Trailers()
}

// request is one request in flight.
type request struct {
	facts    kernel.Facts
	run      string
	staged   []kernel.Draft
	prepare  func() // composes what follows, once allowed
	late     []kernel.Draft
	intent   *kernel.Intent
	do       func() kernel.OutcomeStatus
	decision kernel.Decision
	outcome  *kernel.Outcome
	recorded bool
}

func newStage(t testing.TB, name string, key byte) *stage {
	t.Helper()
	s := &stage{t: t, dir: gittest.NewBare(t), key: testKey(t, key), now: startMs, name: name}
	s.signer = git.NewSigner(s.key.SSHSigner())
	s.base = git.OID(gittest.Commit(t, s.dir, "refs/heads/main", "", baseFiles))
	var err error
	s.repo, err = git.Open(t.Context(), git.Endpoint{URL: s.dir}, git.Options{})
	s.must(err)
	t.Cleanup(func() { s.must(s.repo.Close()) })
	s.ledger = newLedger(t, name, s.key)
	s.must(s.ledger.Start(t.Context(), kernel.Genesis{
		Contract: canon.Sum([]byte(testContract)), Kernel: kernel.Version(), Builders: []string{"default"},
		MaxPaths: 100, MaxDepth: 16,
	}, s.now))
	for r, err := range s.ledger.Records(t.Context(), 0, 1) {
		s.must(err)
		s.world, err = world.OpenGenesis(r)
		s.must(err)
	}
	s.machine, err = machine.New(machine.Config{Kernel: fmt.Sprintf("%s#%d", name, testTask), Now: s.now})
	s.must(err)
	_, err = s.machine.Booted(nil)
	s.must(err)
	return s
}

func newLedger(t testing.TB, name string, key *instancekey.Key) *ledger.Ledger {
	t.Helper()
	store, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), ledger.FileName), key, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	l, err := store.World(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// submit runs one request and returns its decision.
func (s *stage) submit(r *request) kernel.Decision {
	s.t.Helper()
	s.now += 1000
	s.req = r
	r.facts.Kind, r.facts.World, r.facts.Task = string(kernel.KindObservation), s.name, testTask
	r.facts.Now, r.facts.View, r.facts.Request, r.facts.Actor = s.now, s.world.TaskView(testTask), kernel.RequestTick, "alice"
	params, err := canon.Marshal(r.facts)
	s.must(err)
	req := machine.Request{ID: fmt.Sprint("request-", s.now), Actor: "alice", Intent: "tick", Params: params, Now: s.now}
	next, err := s.machine.Submit(req)
	if err == nil && next.Entries == nil {
		next, err = s.machine.Validated(req, nil)
	}
	if err == nil && next.Entries == nil {
		next, err = s.machine.Decided(req, s.decide())
	}
	for err == nil && next.Receipt == nil {
		if next.Call != nil {
			s.execute()
			next, err = s.machine.Executed(machine.Result{Summary: "done"}, nil)
			continue
		}
		s.append(next.Entries)
		next, err = s.machine.Recorded(nil)
	}
	s.must(err)
	if next.Receipt.Decision != machine.Allow {
		s.t.Fatalf("request denied: %v", next.Receipt.Faults)
	}
	s.req = nil
	return r.decision
}

func (s *stage) decide() machine.Verdict {
	r := s.req
	d, err := kernel.Decide(r.facts)
	s.must(err)
	r.decision = d
	v := machine.Verdict{Decision: machine.Decision(r.decision.Verdict), Summary: string(r.decision.Action)}
	for _, x := range r.decision.Violations {
		if v.Decision != machine.Allow {
			v.Faults = append(v.Faults, machine.Fault{Code: string(x.Code), Subject: x.Subject, Detail: x.Detail})
		}
	}
	if v.Decision == machine.Allow && r.prepare != nil {
		r.prepare()
	}
	if r.intent != nil {
		v.Tool = &machine.ToolCall{Name: string(r.intent.Effect), Key: r.intent.Key}
	}
	return v
}

func (s *stage) execute() {
	i := s.req.intent
	s.req.outcome = &kernel.Outcome{Kind: string(kernel.KindOutcome), Key: i.Key, Effect: i.Effect, Status: s.req.do()}
}

// append is one append, in the order of the supervisor.
func (s *stage) append(entries []machine.Entry) {
	r := s.req
	var drafts []kernel.Draft
	if r != nil && !r.recorded {
		drafts = append(drafts, r.staged...)
		drafts = append(drafts, s.draft(kernel.KindObservation, r.run, r.facts), s.draft(kernel.KindDecision, r.run, r.decision))
		drafts = append(drafts, r.late...)
		if r.intent != nil {
			drafts = append(drafts, s.draft(kernel.KindIntent, r.run, *r.intent))
		}
		r.recorded = true
	} else if r != nil && r.outcome != nil {
		drafts = append(drafts, s.draft(kernel.KindOutcome, r.run, *r.outcome))
	}
	for _, e := range entries {
		drafts = append(drafts, s.draft(kernel.KindAudit, "", e))
	}
	s.write(drafts)
}

func (s *stage) draft(kind kernel.Kind, run string, body any) kernel.Draft {
	return kernel.Draft{Kind: kind, Task: testTask, Run: run, Body: body}
}

// write settles the drafts in a round of the world and stores them.
func (s *stage) write(drafts []kernel.Draft) {
	s.t.Helper()
	touched := false
	for _, d := range drafts {
		touched = touched || d.Kind != kernel.KindAudit && d.Kind != kernel.KindReport
	}
	var round *world.Round
	if touched {
		round = s.world.Begin(s.now)
		s.must(round.Observe(drafts...))
		if acts := round.Actions(); len(acts) > 0 {
			_, err := round.AcceptActions(acts)
			s.must(err)
		}
		receipt, err := round.SettleRound(s.world.Config().Genesis().Seed)
		s.must(err)
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindReceipt, Body: receipt})
	}
	records, err := s.ledger.Write(context.Background(), s.now, drafts...)
	s.must(err)
	if round != nil {
		s.must(s.world.Commit(round, records))
		return
	}
	for _, r := range kernel.Records(records) {
		s.must(s.world.Apply(r))
	}
}

// elsewhere writes a record of another task, so that the pack has a gap.
func (s *stage) elsewhere() {
	s.t.Helper()
	s.write([]kernel.Draft{{Kind: kernel.KindReport, Task: testTask + 1, Body: map[string]any{"kind": "report"}}})
}

func (s *stage) person(seconds int64) git.Person {
	return git.Person{Name: "writ", Email: "writ@example.test", Seconds: seconds, TZ: "+0000", OK: true}
}

// commit adds a signed state commit.
func (s *stage) commit(o *git.Objects, tree, parent git.OID, message []byte) git.OID {
	s.t.Helper()
	spec := git.CommitSpec{Tree: tree, Author: s.person(s.now / 1000), Committer: s.person(s.now / 1000), Message: message}
	if !parent.IsZero() {
		spec.Parents = []git.OID{parent}
	}
	oid, err := o.Commit(spec, s.signer)
	s.must(err)
	return oid
}

func (s *stage) push(o *git.Objects, cmds ...git.Command) kernel.OutcomeStatus {
	s.t.Helper()
	if out := s.repo.CompareAndSwap(context.Background(), cmds, o.Pack()); out.Status != git.Won {
		s.t.Fatalf("push: %s %s %v", out.Status, out.Reason, out.Err)
	}
	return kernel.OutcomeDone
}
