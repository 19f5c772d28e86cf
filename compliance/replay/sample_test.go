package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// sample is what Verify gets, to be spoilt by tests.
type sample struct {
	t     testing.TB
	stage *stage
	from  int64
	key   *instancekey.Key
	pack  Pack
	head  HeadInfo
}

// completed plays a task to its end and reads it back.
func completed(t testing.TB) sample {
	t.Helper()
	s := newStage(t, testWorld, 1)
	return s.sample(s.play(1, true, nil).from)
}

// sample reads HEAD as VerifyTask does.
func (s *stage) sample(from int64) sample {
	s.t.Helper()
	refs, err := s.repo.Refs(context.Background(), stateRef)
	s.must(err)
	r := reader{ctx: context.Background(), repo: s.repo, head: HeadInfo{Task: testTask, Ref: stateRef}}
	s.must(r.read(refs.OID(stateRef)))
	return sample{s.t, s, from, s.key, r.pack, r.head}
}

// clone lets a test spoil its own.
func (x sample) clone() sample {
	x.pack = maps.Clone(x.pack)
	x.head.Leases = append([]git.Commit{}, x.head.Leases...)
	x.head.Blobs = maps.Clone(x.head.Blobs)
	return x
}

func (x sample) verify() Report { return Verify(x.pack, x.head, Options{}) }

// sign makes HEAD a commit of the pack as it is now, by the sample's key, as an
// instance that lies would.
func (x *sample) sign() { x.signMessage(string(x.head.Commit.Message)) }

func (x *sample) signMessage(message string) {
	x.t.Helper()
	tree, err := treeOf(x.pack)
	if err != nil {
		x.t.Fatal(err)
	}
	x.head.Commit = x.raw(tree, x.head.Commit.Parents, message, git.NewSigner(x.key.SSHSigner()))
}

// raw makes a commit object in memory.
func (x *sample) raw(tree git.OID, parents []git.OID, message string, signer git.Signer) git.Commit {
	x.t.Helper()
	head := fmt.Sprintf("tree %s\n", tree)
	for _, p := range parents {
		head += fmt.Sprintf("parent %s\n", p)
	}
	for _, who := range []string{"author", "committer"} {
		head += fmt.Sprintf("%s writ <writ@example.test> %d +0000\n", who, startMs/1000+600)
	}
	body := "\n" + message
	if signer != nil {
		sig, err := signer.Sign([]byte(head + body))
		if err != nil {
			x.t.Fatal(err)
		}
		head += "gpgsig " + strings.ReplaceAll(strings.TrimRight(string(sig), "\n"), "\n", "\n ") + "\n"
	}
	c, err := git.ParseCommit([]byte(head + body))
	if err != nil {
		x.t.Fatal(err)
	}
	return c
}

// lines are the records' bytes, newline included.
func (x sample) lines() [][]byte {
	var out [][]byte
	for l := range bytes.Lines(x.pack[FileRecords]) {
		out = append(out, l)
	}
	return out
}

// seqs are the sequences of the records.
func (x sample) seqs() []int64 {
	var out []int64
	for _, l := range x.lines() {
		r, err := ledger.DecodeRecord(bytes.TrimSuffix(l, []byte("\n")))
		if err != nil {
			x.t.Fatal(err)
		}
		out = append(out, r.Seq)
	}
	return out
}

// forge lets the instance itself lie: its whole ledger is written anew with
// edited records, proved, and HEAD signed over it.
func (x *sample) forge(edit func([]kernel.Record) []kernel.Record) {
	x.t.Helper()
	ctx := context.Background()
	var records []kernel.Record
	for r, err := range x.stage.ledger.Records(ctx, 0, 0) {
		if err != nil {
			x.t.Fatal(err)
		}
		if r.Seq > x.seqs()[len(x.seqs())-1] {
			break // what came after the evidence
		}
		records = append(records, r)
	}
	forged := newLedger(x.t, x.stage.name, x.key)
	var all []kernel.SealedRecord
	chain := forged.Chain()
	for _, r := range edit(records) {
		sealed, next, err := chain.Seal(r.Time, []kernel.Draft{{Kind: r.Kind, Task: r.Task, Run: r.Run, Body: r.Body}})
		if err != nil {
			x.t.Fatal(err)
		}
		chain, all = next, append(all, sealed...)
	}
	if err := forged.Append(ctx, forged.Chain().Head, all); err != nil {
		x.t.Fatal(err)
	}
	ev, err := Collect(ctx, forged, testTask, x.from)
	if err != nil {
		x.t.Fatal(err)
	}
	x.pack[FileRecords], x.pack[FileProofs], x.pack[FileCheckpoint] = ev.Records, ev.Proofs, ev.Checkpoint
	old := "ledger-head: " + trailerOf(x.head.Commit, kernel.TrailerLedgerHead)
	x.signMessage(strings.Replace(string(x.head.Commit.Message), old, "ledger-head: "+string(forged.Chain().Head.Hash), 1))
}

func trailerOf(c git.Commit, key string) string {
	ev, _ := eventOf(c)
	return trailer(ev, key)
}

// change edits the body of the n-th record of a kind (from 0).
func change(kind kernel.Kind, n int, edit func(body map[string]any)) func([]kernel.Record) []kernel.Record {
	return func(list []kernel.Record) []kernel.Record {
		at := nth(list, kind, n)
		var body map[string]any
		d := json.NewDecoder(bytes.NewReader(list[at].Body))
		d.UseNumber()
		if err := d.Decode(&body); err != nil {
			panic(err)
		}
		edit(body)
		list[at].Body = compact(body)
		return list
	}
}

// compact is canonical JSON of values that encoding/json read; its keys are
// sorted already.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// nth is the place of the n-th record of a kind among the task's.
func nth(list []kernel.Record, kind kernel.Kind, n int) int {
	for i, r := range list {
		if r.Kind == kind && (r.Task == testTask || kind == kernel.KindReceipt) {
			if n--; n < 0 {
				return i
			}
		}
	}
	panic("no such record: " + string(kind))
}
