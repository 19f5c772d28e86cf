package world_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// corrupt asserts that a record was refused as corruption, named by its number.
func corrupt(t *testing.T, err error, seq int64, f world.Fault) {
	t.Helper()
	var e *world.Error
	if !errors.As(err, &e) || !errors.Is(err, f) || e.Code != kernel.CodeLedgerCorrupt || e.Seq != seq {
		t.Errorf("error %v, want %v at record %d", err, f, seq)
	}
}

// drafts takes records apart, genesis excepted.
func drafts(records []kernel.Record) []kernel.Draft {
	out := make([]kernel.Draft, 0, len(records))
	for _, r := range records[1:] {
		out = append(out, kernel.Draft{Kind: r.Kind, Task: r.Task, Run: r.Run, Body: r.Body})
	}
	return out
}

// sealed makes a ledger of drafts after a genesis, with a good chain.
func sealed(t *testing.T, genesis kernel.Record, list []kernel.Draft) []kernel.Record {
	t.Helper()
	hash, err := genesis.Hash()
	if err != nil {
		t.Fatal(err)
	}
	c := kernel.Chain{World: genesis.World, Instance: genesis.Instance, Head: kernel.Head{Hash: hash}, Time: genesis.Time}
	records, _, err := c.Seal(start+1_000_000, list)
	if err != nil {
		t.Fatal(err)
	}
	return append([]kernel.Record{genesis}, kernel.Records(records)...)
}

// R6: a record of another world or instance is refused, even if it is made to
// fit the chain; so is a genesis that isn't this world's.
func TestR6_SplicedRecord(t *testing.T) {
	a := journey(t, 7)
	c := config()
	c.WorldID = "forge.example/owner/other"
	b := open(t, c)
	c = config()
	c.Instance = "SHA256:instance-two"
	d := open(t, c)
	for name, other := range map[string]*book{"world": b, "instance": d} {
		t.Run(name, func(t *testing.T) {
			r := other.k.Begin(other.now)
			if _, err := r.SettleRound(1); err != nil {
				t.Fatal(err)
			}
			other.store(r)
			spliced := other.records[1]
			chain := a.k.Chain()
			spliced.Seq, spliced.Prev, spliced.Time = chain.Head.Seq+1, chain.Head.Hash, chain.Time
			before := a.k.StateHash()
			corrupt(t, a.k.Apply(spliced), spliced.Seq, world.ErrForeign)
			if a.k.StateHash() != before || a.k.Chain() != chain {
				t.Error("the refused record changed the kernel")
			}
		})
	}
	k, err := world.New(config())
	if err != nil {
		t.Fatal(err)
	}
	corrupt(t, k.Apply(b.records[0]), 0, world.ErrForeign)
	c = config()
	c.GovernanceHash = digest("c")
	corrupt(t, k.Apply(open(t, c).records[0]), 0, world.ErrForeign)
}

// R1: what is deleted, inserted, swapped or doubled doesn't follow.
func TestR1_Chain(t *testing.T) {
	good := journey(t, 7).records
	for name, change := range map[string]func([]kernel.Record) []kernel.Record{
		"deleted":    func(l []kernel.Record) []kernel.Record { return slices.Delete(l, 5, 6) },
		"swapped":    func(l []kernel.Record) []kernel.Record { l[5], l[6] = l[6], l[5]; return l },
		"doubled":    func(l []kernel.Record) []kernel.Record { return slices.Insert(l, 5, l[4]) },
		"renumbered": func(l []kernel.Record) []kernel.Record { l[5].Seq++; return l },
		"retimed":    func(l []kernel.Record) []kernel.Record { l[slices.IndexFunc(l, isReceipt)].Time++; return l },
		"version":    func(l []kernel.Record) []kernel.Record { l[5].V = 2; return l },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := world.Open(change(slices.Clone(good)))
			var e *world.Error
			if !errors.As(err, &e) || e.Code != kernel.CodeLedgerCorrupt || !errors.Is(err, world.ErrChain) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := world.Open(good[1:]); !errors.Is(err, world.ErrOrder) {
		t.Errorf("a ledger without genesis: %v", err)
	}
	if _, err := world.Open(nil); !errors.Is(err, world.ErrOrder) {
		t.Errorf("no ledger: %v", err)
	}
}

func isReceipt(r kernel.Record) bool { return r.Kind == kernel.KindReceipt }

// R9: only recorded time counts, and it never goes back; run ids are any text.
func TestR9_TimeAndRunIDs(t *testing.T) {
	b := journey(t, 7)
	chain := b.k.Chain()
	chain.Time = start
	back, _, err := chain.Seal(start, []kernel.Draft{b.job(1, "x").act(kernel.ActStop, 0)})
	if err != nil {
		t.Fatal(err)
	}
	corrupt(t, b.k.Apply(back[0].Record()), back[0].Record().Seq, world.ErrChain)

	r := b.k.Begin(start - 1_000_000) // the wall clock went back
	if r.Now() != b.k.Chain().Time {
		t.Errorf("the round is at %d, the ledger at %d", r.Now(), b.k.Chain().Time)
	}
	receipt, err := r.SettleRound(7)
	if err != nil || receipt.Timestamp != b.k.Chain().Time {
		t.Errorf("receipt %+v, %v", receipt, err)
	}

	early := receipt
	early.Timestamp = start - 1
	late := receipt
	late.Timestamp = b.k.Chain().Time + 1
	for _, forged := range []world.RoundReceipt{early, late} {
		records, _, err := b.k.Chain().Seal(b.k.Chain().Time, []kernel.Draft{{Kind: kernel.KindReceipt, Body: forged}})
		if err != nil {
			t.Fatal(err)
		}
		corrupt(t, b.k.Apply(records[0].Record()), records[0].Record().Seq, world.ErrReceipt)
	}

	odd := open(t, config())
	odd.job(1, "ein Lauf, 0xDEADBEEF").to(atPushed)
	if _, err := world.Open(odd.records); err != nil {
		t.Error(err)
	}
}

// WK21, ledger.corrupt: a receipt that says anything else than the fold.
func TestForgedReceipt(t *testing.T) {
	b := journey(t, 7)
	good := b.records
	at := len(good) - 1
	for good[at].Kind != kernel.KindReceipt || !slices.Contains([]kernel.Kind{kernel.KindDecision}, good[at-1].Kind) {
		at-- // a round that judged
	}
	origin, hash := worldID, digest("f")
	for name, change := range map[string]func(*world.RoundReceipt){
		"version":    func(r *world.RoundReceipt) { r.V++ },
		"world":      func(r *world.RoundReceipt) { r.WorldID = "elsewhere" },
		"instance":   func(r *world.RoundReceipt) { r.Instance = "SHA256:instance-two" },
		"round":      func(r *world.RoundReceipt) { r.RoundID++ },
		"seed":       func(r *world.RoundReceipt) { r.Seed++ },
		"before":     func(r *world.RoundReceipt) { r.SnapshotHashBefore = hash },
		"after":      func(r *world.RoundReceipt) { r.SnapshotHashAfter = hash },
		"accepted":   func(r *world.RoundReceipt) { r.AcceptedActionIDs = append(r.AcceptedActionIDs, "default:r9") },
		"moved":      func(r *world.RoundReceipt) { r.AcceptedActionIDs, r.RejectedActionIDs = r.RejectedActionIDs, nil },
		"forgotten":  func(r *world.RoundReceipt) { r.RejectedActionIDs = nil },
		"mechanisms": func(r *world.RoundReceipt) { r.ActivatedMechanismIDs = []string{"p1"} },
		"judges":     func(r *world.RoundReceipt) { r.JudgeResults = []world.JudgeResult{{ProposalID: "p1"}} },
		"metrics":    func(r *world.RoundReceipt) { r.RoundMetrics[world.MetricTasks]++ },
		"origin":     func(r *world.RoundReceipt) { r.OriginWorldID, r.OriginReceiptHash = &origin, &hash },
	} {
		t.Run(name, func(t *testing.T) {
			var forged world.RoundReceipt
			if err := canon.UnmarshalCanonical(good[at].Body, &forged); err != nil {
				t.Fatal(err)
			}
			change(&forged)
			list := drafts(good[:at+1])
			list[at-1].Body = forged
			_, err := world.Open(sealed(t, good[0], list))
			corrupt(t, err, int64(at), world.ErrReceipt)
		})
	}
}

// KC9: without its decisions a ledger accepts nothing.
func TestKC9_NoDecisionNothingAccepted(t *testing.T) {
	good := journey(t, 7).records
	list := slices.DeleteFunc(drafts(good), func(d kernel.Draft) bool { return d.Kind == kernel.KindDecision })
	k, err := world.New(config())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sealed(t, good[0], list) {
		if err = k.Apply(r); err != nil {
			break
		}
	}
	wants(t, err, world.ErrNoDecision)
	for _, task := range snapshot(t, k).Tasks {
		if task.AcceptedRun != "" || len(task.Answers) > 0 {
			t.Errorf("accepted: %+v", task)
		}
	}
}

// E6, P6: every record that matters is missed: leave one out, seal the rest
// well, and the fold or a receipt says so.
func TestEveryRecordMatters(t *testing.T) {
	good := journey(t, 7).records
	list := drafts(good)
	for i, d := range list {
		if i == len(list)-1 {
			break // a shorter ledger is a good one: the checkpoint outside shows it (R2)
		}
		rest := slices.Delete(slices.Clone(list), i, i+1)
		if _, err := world.Open(sealed(t, good[0], rest)); err == nil {
			t.Errorf("record %d (%s) is not missed", i+1, d.Kind)
		}
	}
}

// K1, K2: the ledger may end inside a round, after the intent; the next round
// goes on with it.
func TestK2_LedgerEndsInsideARound(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	r := b.k.Begin(b.now)
	if err := r.Observe(append(j.claims(), j.draft(kernel.KindAudit, audit(1)))...); err != nil {
		t.Fatal(err)
	}
	b.store(r) // and then the process dies
	again, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "recovered", snapshot(t, b.k), snapshot(t, again))
	if len(again.OpenIntents(1)) != 1 {
		t.Fatal("the intent is forgotten")
	}
	b.k = again
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeUnknown))
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	if task := b.task(1); task.State != kernel.TaskClaimed || task.Run.ID != "r1" {
		t.Errorf("task %+v", task)
	}
	whole, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "whole", snapshot(t, b.k), snapshot(t, whole))
}

// A request in two appends is one round, as in one.
func TestRoundInParts(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	r := b.k.Begin(b.now)
	if err := r.Observe(j.claims()...); err != nil {
		t.Fatal(err)
	}
	b.store(r)
	if err := r.Observe(j.outcome(kernel.ActionClaim, kernel.OutcomeDone)); err != nil {
		t.Fatal(err)
	}
	receipt := b.settle(r)
	if receipt.RoundID != 1 || receipt.RoundMetrics[world.MetricRecords] != 8 {
		t.Errorf("receipt %+v", receipt)
	}
	if _, err := world.Open(b.records); err != nil {
		t.Error(err)
	}
}

// Commit takes the round's own records, and only on the state it began with.
func TestCommit(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	begin := func() *world.Round {
		r := b.k.Begin(b.now)
		if err := r.Observe(j.claims()...); err != nil {
			t.Fatal(err)
		}
		if _, err := r.SettleRound(7); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, rival := begin(), begin()
	seal := func(list []kernel.Draft) []kernel.SealedRecord {
		records, _, err := b.k.Chain().Seal(b.now, list)
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	list := r.Drafts()
	other := slices.Clone(list)
	other[0].Run = "r9"
	for name, records := range map[string][]kernel.SealedRecord{
		"none":    nil,
		"fewer":   seal(list[:len(list)-1]),
		"more":    seal(append(slices.Clone(list), j.act(kernel.ActStop, 0))),
		"others":  seal(other),
		"swapped": seal(append([]kernel.Draft{list[1], list[0]}, list[2:]...)),
	} {
		before := b.k.Chain()
		if err := b.k.Commit(r, records); !errors.Is(err, world.ErrReceipt) || b.k.Chain() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	audit := kernel.Draft{Kind: kernel.KindAudit, Task: 1, Body: audit(1)}
	if err := b.k.Commit(r, seal(append([]kernel.Draft{audit}, list...))); err != nil {
		t.Fatal(err)
	}
	wants(t, b.k.Commit(rival, seal(rival.Drafts())), world.ErrOrder)
	if err := b.k.Apply(seal([]kernel.Draft{audit})[0].Record()); err != nil {
		t.Error(err)
	}
	late := b.k.Begin(b.now)
	if err := b.k.Apply(seal([]kernel.Draft{audit})[0].Record()); err != nil {
		t.Error(err)
	}
	if _, err := late.SettleRound(7); err != nil {
		t.Fatal(err)
	}
	if err := b.k.Commit(late, seal(late.Drafts())); err != nil {
		t.Errorf("an audit entry in between: %v", err)
	}
}

// WK14: any record is taken or refused with a typed error, which changes
// nothing; and a round of whatever was taken can be settled.
func FuzzWK14_Record(f *testing.F) {
	b := journey(f, 7)
	for _, r := range b.records {
		f.Add(string(r.Kind), r.Task, r.Run, []byte(r.Body))
	}
	chain := b.k.Chain()
	before := snapshot(f, b.k)
	f.Fuzz(func(t *testing.T, kind string, task int64, run string, body []byte) {
		r := b.k.Begin(chain.Time)
		err := r.Observe(kernel.Draft{Kind: kernel.Kind(kind), Task: task, Run: run, Body: json.RawMessage(body)})
		var e *world.Error
		if err == nil {
			if _, err := r.AcceptActions(r.Actions()); err != nil {
				t.Error(err)
			}
			if _, err := r.SettleRound(1); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.As(err, &e) || !e.Code.Known() {
			t.Errorf("untyped error %v", err)
		}
		err = b.k.Apply(kernel.Record{
			V: kernel.RecordVersion, Kind: kernel.Kind(kind), World: worldID, Instance: instance,
			Seq: chain.Head.Seq + 1, Prev: chain.Head.Hash, Time: chain.Time, Task: task, Run: run, Body: body,
		})
		if kind != string(kernel.KindReceipt) && (!errors.As(err, &e) || e.Code != kernel.CodeLedgerCorrupt) {
			t.Errorf("untyped error %v", err)
		}
		if err != nil {
			same(t, "state", before, snapshot(t, b.k))
		}
	})
}
