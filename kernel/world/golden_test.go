package world_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// receipts are the bodies of a ledger's receipts.
func receipts(records []kernel.Record) [][]byte {
	var out [][]byte
	for _, r := range records {
		if r.Kind == kernel.KindReceipt {
			out = append(out, r.Body)
		}
	}
	return out
}

// WK5, WK20, WK21, WK33: same seed and inputs, same receipts and state, byte
// for byte, on every machine.
func TestWK33_Golden(t *testing.T) {
	b := journey(t, 7)
	lines := bytes.Join(receipts(b.records), []byte("\n"))
	golden(t, "receipts.golden", append(lines, '\n'))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, marshal(t, snapshot(t, b.k)), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "snapshot.golden", append(pretty.Bytes(), '\n'))
}

// WK33: another seed gives another state; the number of processors nothing.
func TestWK33_SeedAndProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	one := journey(t, 7)
	runtime.GOMAXPROCS(4)
	same(t, "ledger on four processors", one.records, journey(t, 7).records)
	if one.k.StateHash() == journey(t, 8).k.StateHash() {
		t.Error("another seed gives the same state")
	}
}

// WK27, T44: the state hash by the seed's formula, with nothing of ours.
func TestWK27_StateHashByHand(t *testing.T) {
	s := snapshot(t, journey(t, 7).k)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(marshal(t, s), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "state_hash")
	var preimage bytes.Buffer
	e := json.NewEncoder(&preimage)
	e.SetEscapeHTML(false)
	var anything any
	all, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(all))
	d.UseNumber()
	if err := d.Decode(&anything); err != nil {
		t.Fatal(err)
	}
	if err := e.Encode(anything); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bytes.TrimSuffix(preimage.Bytes(), []byte("\n")))
	if want := canon.Digest("sha256:" + hex.EncodeToString(sum[:])); s.StateHash != want {
		t.Errorf("state_hash %s, by hand %s", s.StateHash, want)
	}
	if got, err := s.Hash(); err != nil || got != s.StateHash {
		t.Errorf("Hash gives %s, %v", got, err)
	}
	var r world.RoundReceipt
	if err := canon.UnmarshalCanonical(marshal(t, s), &r); err == nil {
		t.Error("a snapshot was read as a receipt")
	}
}

// WK21: the hash after a round is the hash before the next.
func TestWK21_ReceiptsChain(t *testing.T) {
	b := journey(t, 7)
	before := canon.Digest("")
	for n, body := range receipts(b.records) {
		var r world.RoundReceipt
		if err := canon.UnmarshalCanonical(body, &r); err != nil {
			t.Fatal(err)
		}
		if n > 0 && r.SnapshotHashBefore != before || r.RoundID != int64(n+1) || r.Instance != instance {
			t.Fatalf("receipt %d doesn't follow: %+v", n, r)
		}
		before = r.SnapshotHashAfter
	}
	if before != b.k.StateHash() {
		t.Error("the last receipt isn't of the state")
	}
}

// WK35, T47: the facade and the direct fold of the same records agree, by
// fields and by hash, after every round.
func TestWK35_FacadeEqualsFold(t *testing.T) {
	b := open(t, config())
	direct, err := world.OpenGenesis(b.records[0])
	if err != nil {
		t.Fatal(err)
	}
	folded := 1
	check := func() {
		t.Helper()
		for ; folded < len(b.records); folded++ {
			if err := direct.Apply(b.records[folded]); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "snapshot", snapshot(t, b.k), snapshot(t, direct))
		if b.k.StateHash() != direct.StateHash() || b.k.Chain() != direct.Chain() {
			t.Fatalf("hash or chain differ after record %d", folded)
		}
	}
	for task := int64(1); task <= 3; task++ {
		j := b.job(task, "r"+text(task))
		for _, s := range []struct {
			action kernel.Action
			drafts func() []kernel.Draft
		}{
			{kernel.ActionClaim, j.claims}, {kernel.ActionDispatch, j.dispatches}, {kernel.ActionChecks, j.built},
		} {
			b.round(s.drafts()...)
			check()
			b.round(j.outcome(s.action, kernel.OutcomeDone))
			check()
		}
		b.round(j.judged(kernel.TaskCompleted)...)
		check()
	}
	again, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "whole ledger", snapshot(t, b.k), snapshot(t, again))
	want, err := b.k.Receipt()
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Receipt()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "receipt", want, got)
}

// WK26, WK31: the order in which inputs come in maps or lists of names never
// reaches a hash.
func TestWK26_PermutedInputs(t *testing.T) {
	want := journey(t, 7).records
	for range 20 {
		c := config()
		slices.Reverse(c.Members)
		b := open(t, c)
		same(t, "genesis", want[0], b.records[0])
	}
	first := open(t, config())
	f := first.job(1, "r1").facts("", "")
	var loose map[string]any
	if err := canon.Unmarshal(marshal(t, f), &loose, canon.Limits{}); err != nil {
		t.Fatal(err)
	}
	asStruct := first.round(first.job(1, "r1").draft(kernel.KindObservation, f))
	for range 200 {
		b := open(t, config())
		shuffled := map[string]any{}
		for k, v := range loose { // the language shuffles this
			shuffled[k] = v
		}
		same(t, "receipt", asStruct, b.round(b.job(1, "r1").draft(kernel.KindObservation, shuffled)))
	}
}

// WK30: produce, consume, environment; any other order is another outcome.
func TestWK30_OrderOfTheStages(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atJudged)
	b.round(j.results(kernel.TaskCompleted)...)
	edited := j.facts("completed", "")
	edited.Approved = digest("e")
	b.round(j.outcome(kernel.ActionResult, kernel.OutcomeDone), j.draft(kernel.KindObservation, edited))
	task := b.task(1)
	if task.State != kernel.TaskCompleted || task.Approval != digest("e") {
		t.Fatalf("task %+v", task)
	}
	if task.AcceptedRun != "" {
		t.Error("the result of the old approval was accepted for the new one")
	}
	if task.Plan != "" || len(snapshot(t, b.k).Land.Reserved) > 0 {
		t.Error("a completed task keeps what it was worked on with")
	}
}
