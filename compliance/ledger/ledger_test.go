package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/kernel"
)

// golden compares with testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// The bytes of records and checkpoint are a format that others read.
func TestGolden(t *testing.T) {
	_, l, _ := sample(t, 5)
	lines := bytes.Join(linesOf(t, l), []byte("\n"))
	golden(t, "golden.jsonl", append(lines, '\n'))
	cp, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "golden.checkpoint", cp)
}

// The golden ledger is verified without any store.
func TestGoldenVerifies(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cp, err := os.ReadFile("testdata/golden.checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	r := VerifyLines(slices.Values(lines), Expect{World: worldA, Instance: testKey(t, 1).Fingerprint(), Checkpoint: cp})
	if !r.OK || r.Records != 5 || r.CheckpointSize != 5 {
		t.Errorf("%+v", r)
	}
	for _, raw := range lines {
		record, err := DecodeRecord(raw)
		if err != nil {
			t.Fatal(err)
		}
		again, err := EncodeRecord(record)
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("read and written again: %s (%v)", again, err)
		}
	}
}

func TestCheckpointShowsTruncation(t *testing.T) {
	_, l, _ := sample(t, 6)
	cp, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, l)
	for n := range lines {
		r := VerifyLines(slices.Values(lines[:n]), Expect{World: worldA, Checkpoint: cp})
		if r.OK || r.Code != kernel.CodeLedgerRollback || r.FirstBad == nil || *r.FirstBad != int64(n) {
			t.Errorf("the first %d records under a checkpoint of 6: %+v", n, r)
		}
		if r := VerifyLines(slices.Values(lines[:n]), Expect{World: worldA}); n > 0 && !r.OK {
			t.Errorf("a shorter chain is whole in itself: %+v", r)
		}
	}
	other := testKey(t, 2)
	forged, err := Checkpoint{World: worldA, Size: 6, Root: tlog.Hash{1}}.sign(other)
	if err != nil {
		t.Fatal(err)
	}
	if r := VerifyLines(slices.Values(lines), Expect{World: worldA, Checkpoint: forged}); r.OK || r.Code != kernel.CodeLedgerCorrupt {
		t.Errorf("a checkpoint by another key: %+v", r)
	}
	replaced, err := Checkpoint{World: worldA, Size: 3, Root: tlog.Hash{1}}.sign(testKey(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, l, VerifyOptions{Checkpoint: replaced}); r.OK || r.Code != kernel.CodeLedgerRollback {
		t.Errorf("a checkpoint of another past: %+v", r)
	}
}

func TestProofs(t *testing.T) {
	const n = 13
	_, l, _ := sample(t, n)
	lines, key := linesOf(t, l), testKey(t, 1)
	for size := int64(1); size <= n; size++ {
		root, err := l.Tree(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		cp, err := Checkpoint{World: worldA, Size: size, Root: root}.sign(key)
		if err != nil {
			t.Fatal(err)
		}
		if r := mustVerify(t, l, VerifyOptions{Checkpoint: cp}); !r.OK || r.CheckpointSize != size {
			t.Fatalf("size %d: %+v", size, r)
		}
		for seq := range size {
			p, err := l.ProveRecord(t.Context(), seq, size)
			if err != nil {
				t.Fatal(err)
			}
			for k, raw := range lines {
				if err := VerifyInclusion(raw, p, cp, key.Public); (err == nil) != (int64(k) == seq) {
					t.Errorf("record %d with the proof of %d in %d: %v", k, seq, size, err)
				}
			}
		}
		for from := int64(1); from <= size; from++ {
			proof, err := l.ProveTree(t.Context(), from, size)
			if err != nil {
				t.Fatal(err)
			}
			old, err := l.Tree(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(proof, size, root, from, old); err != nil {
				t.Errorf("tree of %d in %d: %v", from, size, err)
			}
		}
	}
	if _, err := l.ProveRecord(t.Context(), 0, n+1); err == nil {
		t.Error("a proof in a tree that never was")
	}
	if _, err := l.ProveRecord(t.Context(), n, n); err == nil {
		t.Error("a proof of a record that never was")
	}
}

func TestRecords(t *testing.T) {
	_, l, _ := sample(t, page+20)
	count := func(from, limit int64) (n int64) {
		for r, err := range l.Records(t.Context(), from, limit) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Seq != from+n {
				t.Fatalf("record %d, want %d", r.Seq, from+n)
			}
			n++
		}
		return n
	}
	for _, c := range []struct{ from, limit, want int64 }{
		{0, 0, page + 20}, {5, 0, page + 15}, {5, 3, 3}, {0, page, page}, {0, page + 1, page + 1}, {page + 20, 0, 0}, {page + 19, 9, 1},
	} {
		if got := count(c.from, c.limit); got != c.want {
			t.Errorf("from %d limit %d: %d records, want %d", c.from, c.limit, got, c.want)
		}
	}
	n := 0
	for r, err := range l.RecordsOfTask(t.Context(), 2) {
		if err != nil || r.Task != 2 {
			t.Fatal(r, err)
		}
		n++
		// Appending while reading must not wait for the reader.
		if n == 1 {
			if _, err := l.Write(t.Context(), 0, audit(1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := (page + 20) / 3; n != want {
		t.Errorf("%d records of the task, want %d", n, want)
	}
}

func TestReadOnly(t *testing.T) {
	s, l, path := sample(t, 4)
	for _, closed := range []bool{false, true} {
		if closed {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		ro, err := OpenReadOnly(t.Context(), path, Options{})
		if err != nil {
			t.Fatalf("writer closed %v: %v", closed, err)
		}
		r := openWorld(t, ro, worldA)
		if r.Chain() != l.Chain() {
			t.Errorf("%+v, want %+v", r.Chain(), l.Chain())
		}
		if rep := mustVerify(t, r, VerifyOptions{Deep: true}); !rep.OK || rep.Records != 4 {
			t.Errorf("%+v", rep)
		}
		if _, err := r.Write(t.Context(), 1, audit(1)); CodeOf(err) != kernel.CodeLedgerUnavailable {
			t.Errorf("a reader wrote: %v", err)
		}
		if err := r.Start(t.Context(), genesis(), 1); CodeOf(err) != kernel.CodeLedgerUnavailable {
			t.Errorf("a reader started: %v", err)
		}
		worlds, err := ro.Worlds(t.Context())
		if err != nil || !slices.Equal(worlds, []string{worldA}) {
			t.Errorf("%v %v", worlds, err)
		}
		if err := ro.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer")
	s := openStore(t, newer, testKey(t, 1))
	tamper(t, s, "PRAGMA user_version = 99")
	foreign := filepath.Join(dir, "foreign")
	s = openStore(t, foreign, testKey(t, 1))
	tamper(t, s, "PRAGMA application_id = 5")
	for _, path := range []string{text, newer, foreign, filepath.Join(dir, "no", "directory")} {
		_, err := Open(t.Context(), path, testKey(t, 1), Options{})
		if CodeOf(err) != kernel.CodeEnvStore {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	if _, err := OpenReadOnly(t.Context(), filepath.Join(dir, "absent"), Options{}); CodeOf(err) != kernel.CodeEnvStore {
		t.Errorf("an absent store: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Error("reading made a file")
	}
}

func TestAnotherKeyIsRefused(t *testing.T) {
	_, _, path := sample(t, 2)
	s := openStore(t, path, testKey(t, 2))
	if _, err := s.World(t.Context(), worldA); CodeOf(err) != kernel.CodeLedgerOtherKey {
		t.Errorf("another key's ledger was opened: %v", err)
	}
}

func TestAppendRefusesWhatVerifyWould(t *testing.T) {
	_, l, _ := sample(t, 3)
	chain := l.Chain()
	sealed := func() []kernel.Record {
		records, _, err := chain.Seal(9000, []kernel.Draft{audit(1), audit(2)})
		if err != nil {
			t.Fatal(err)
		}
		return kernel.Records(records)
	}
	again := func(list []kernel.Record) (out []kernel.SealedRecord) {
		for _, r := range list {
			s, err := r.Sealed()
			if err != nil {
				return nil
			}
			out = append(out, s)
		}
		return out
	}
	for name, change := range map[string]func(r []kernel.Record){
		"version":      func(r []kernel.Record) { r[1].V = 2 },
		"kind":         func(r []kernel.Record) { r[1].Kind = "gossip" },
		"genesis":      func(r []kernel.Record) { r[0].Kind = kernel.KindGenesis },
		"world":        func(r []kernel.Record) { r[1].World = worldB },
		"instance":     func(r []kernel.Record) { r[1].Instance = "SHA256:x" },
		"seq":          func(r []kernel.Record) { r[1].Seq++ },
		"prev":         func(r []kernel.Record) { r[1].Prev = r[0].Prev },
		"time":         func(r []kernel.Record) { r[1].Time = 1 },
		"task":         func(r []kernel.Record) { r[1].Task = -1 },
		"run":          func(r []kernel.Record) { r[1].Run = "\xff" },
		"body":         func(r []kernel.Record) { r[1].Body = []byte(`{"a":1.5}`) },
		"changed body": func(r []kernel.Record) { r[0].Body = []byte(`{"a":1}`) },
	} {
		records := sealed()
		change(records)
		made := again(records)
		if made == nil {
			continue // it has no bytes that could be stored
		}
		if err := l.Append(t.Context(), chain.Head, made); CodeOf(err) != kernel.CodeLedgerCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.Append(t.Context(), kernel.Head{Seq: 1, Hash: chain.Head.Hash}, again(sealed())); CodeOf(err) != kernel.CodeLedgerFork {
		t.Errorf("another head: %v", err)
	}
	if l.Chain() != chain {
		t.Error("a refused append moved the chain")
	}
	if err := l.Append(t.Context(), chain.Head, again(sealed())); err != nil {
		t.Error(err)
	}
}

func TestWriteCheckpoint(t *testing.T) {
	_, l, path := sample(t, 2)
	cp, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := CheckpointFile(filepath.Dir(path), l.World())
	for range 2 {
		if err := WriteCheckpoint(file, cp); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, cp) {
			t.Fatalf("%q %v", got, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".checkpoint*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v %v", left, err)
	}
	if err := WriteCheckpoint(filepath.Join(path, "no"), cp); CodeOf(err) != kernel.CodeEnvState {
		t.Errorf("%v", err)
	}
}
