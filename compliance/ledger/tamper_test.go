package ledger

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const tamperRecords = 9 // a tree that isn't full, with parents of several levels

// tampered is a ledger in a fake storage that mutate has changed.
func tampered(t *testing.T, from *memory, mutate func(rows []row, w *worldRow) []row) Report {
	t.Helper()
	m := newMemory()
	rows := make([]row, 0, tamperRecords+1)
	for _, r := range from.rowsOf[worldA] {
		r.nodes, r.raw = bytes.Clone(r.nodes), bytes.Clone(r.raw)
		rows = append(rows, r)
	}
	w := from.world[worldA]
	w.checkpoint = bytes.Clone(w.checkpoint)
	m.rowsOf[worldA] = mutate(rows, &w)
	m.world[worldA] = w
	l := &Ledger{store: newStore(m, nil, testKey(t, 1), Options{}), world: worldA}
	return mustVerify(t, l, VerifyOptions{})
}

func tamperBase(t *testing.T) *memory {
	t.Helper()
	m := newMemory()
	l := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
	fill(t, l, tamperRecords-2)
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill(t, l, tamperRecords)
	if r := mustVerify(t, l, VerifyOptions{}); !r.OK || r.Records != tamperRecords || r.CheckpointSize != tamperRecords-2 {
		t.Fatalf("the untouched ledger: %+v", r)
	}
	return m
}

func wantBad(t *testing.T, r Report, seq int64, what string) {
	t.Helper()
	if r.OK || r.Code != kernel.CodeLedgerCorrupt || r.FirstBad == nil || *r.FirstBad != seq || r.Reason == "" {
		bad := "none"
		if r.FirstBad != nil {
			bad = fmt.Sprint(*r.FirstBad)
		}
		t.Errorf("%s: ok=%v code=%s first bad=%s (%s), want record %d", what, r.OK, r.Code, bad, r.Reason, seq)
	}
}

func TestR1_EveryByteOfEveryStoredRecord(t *testing.T) {
	base := tamperBase(t)
	for k := range base.rowsOf[worldA] {
		for _, column := range []string{"raw", "nodes"} {
			size := len(base.rowsOf[worldA][k].raw)
			if column == "nodes" {
				size = len(base.rowsOf[worldA][k].nodes)
			}
			for i := range size {
				bit := i % 8 // each byte by another bit
				r := tampered(t, base, func(rows []row, _ *worldRow) []row {
					b := rows[k].raw
					if column == "nodes" {
						b = rows[k].nodes
					}
					b[i] ^= 1 << bit
					return rows
				})
				wantBad(t, r, int64(k), fmt.Sprintf("byte %d of %s of record %d", i, column, k))
			}
		}
	}
}

func TestR1_EveryOtherColumn(t *testing.T) {
	base := tamperBase(t)
	const last = tamperRecords - 1
	for bit := range 63 {
		for k := range tamperRecords {
			r := tampered(t, base, func(rows []row, _ *worldRow) []row { rows[k].task ^= 1 << bit; return rows })
			wantBad(t, r, int64(k), fmt.Sprintf("bit %d of task of record %d", bit, k))
			r = tampered(t, base, func(rows []row, _ *worldRow) []row { rows[k].seq ^= 1 << bit; return rows })
			if r.OK || r.FirstBad == nil || *r.FirstBad > int64(k) {
				t.Errorf("bit %d of seq of record %d: %+v", bit, k, r)
			}
		}
		r := tampered(t, base, func(rows []row, w *worldRow) []row { w.head.Seq ^= 1 << bit; return rows })
		if r.OK || r.FirstBad == nil {
			t.Errorf("bit %d of the head's seq: %+v", bit, r)
		}
		r = tampered(t, base, func(rows []row, w *worldRow) []row { w.time ^= 1 << bit; return rows })
		wantBad(t, r, last, fmt.Sprintf("bit %d of the head's time", bit))
		r = tampered(t, base, func(rows []row, w *worldRow) []row { w.size ^= 1 << bit; return rows })
		if r.OK {
			t.Errorf("bit %d of the checkpoint's size is not noticed", bit)
		}
	}
	for i := range base.world[worldA].head.Hash {
		r := tampered(t, base, func(rows []row, w *worldRow) []row {
			h := []byte(w.head.Hash)
			h[i] ^= 1
			w.head.Hash = canon.Digest(h)
			return rows
		})
		wantBad(t, r, last, "the head's hash")
	}
	for i := range base.world[worldA].checkpoint {
		for bit := range 8 {
			if r := tampered(t, base, func(rows []row, w *worldRow) []row { w.checkpoint[i] ^= 1 << bit; return rows }); r.OK {
				t.Errorf("bit %d of byte %d of the checkpoint is not noticed", bit, i)
			}
		}
	}
	if r := tampered(t, base, func(rows []row, w *worldRow) []row { w.instance += "x"; return rows }); r.OK {
		t.Error("the stored instance is not compared")
	}
	if r := tampered(t, base, func(rows []row, w *worldRow) []row { w.checkpoint, w.size = nil, 3; return rows }); r.OK {
		t.Error("a removed checkpoint with a size is not noticed")
	}
}

func TestR1_RowsDeletedInsertedSwappedDuplicated(t *testing.T) {
	base := tamperBase(t)
	for k := range tamperRecords {
		at := int64(k)
		r := tampered(t, base, func(rows []row, _ *worldRow) []row { return slices.Delete(rows, k, k+1) })
		wantBad(t, r, at, fmt.Sprintf("record %d deleted", k))
		r = tampered(t, base, func(rows []row, _ *worldRow) []row {
			again := rows[k]
			again.seq = tamperRecords
			return append(rows, again)
		})
		wantBad(t, r, tamperRecords, fmt.Sprintf("record %d once more at the end", k))
		for j := range k {
			r := tampered(t, base, func(rows []row, _ *worldRow) []row {
				rows[j], rows[k] = rows[k], rows[j]
				rows[j].seq, rows[k].seq = int64(j), int64(k)
				return rows
			})
			wantBad(t, r, int64(j), fmt.Sprintf("records %d and %d swapped", j, k))
		}
	}
	r := tampered(t, base, func(rows []row, _ *worldRow) []row {
		before := rows[1]
		before.seq = -5
		return append(rows, before)
	})
	wantBad(t, r, -5, "a row before the first")
}

// A writer of the file who knows the format and computes hashes again, but has
// no key, is found by the checkpoint.
func TestR1_RewrittenConsistently(t *testing.T) {
	m := newMemory()
	forger := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
	if err := forger.Start(t.Context(), genesis(), 1000); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < tamperRecords; i++ {
		if _, err := forger.Write(t.Context(), int64(1000+i), audit(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	base := tamperBase(t)
	w := m.world[worldA]
	w.size, w.checkpoint = base.world[worldA].size, base.world[worldA].checkpoint
	m.world[worldA] = w
	r := mustVerify(t, forger, VerifyOptions{})
	if r.OK || r.Code != kernel.CodeLedgerRollback {
		t.Errorf("a rewritten ledger under the old checkpoint: %+v", r)
	}
}

func TestR1_Lines(t *testing.T) {
	_, l, _ := sample(t, tamperRecords)
	lines, head := linesOf(t, l), l.Chain().Head
	verify := func(lines [][]byte) Report {
		return VerifyLines(slices.Values(lines), Expect{World: worldA, Instance: testKey(t, 1).Fingerprint(), Head: &head})
	}
	if r := verify(lines); !r.OK || r.Records != tamperRecords || r.Head != head {
		t.Fatalf("untouched lines: %+v", r)
	}
	for k, raw := range lines {
		for i := range raw {
			changed := slices.Clone(lines)
			changed[k] = bytes.Clone(raw)
			changed[k][i] ^= 1 << (i % 8)
			wantBad(t, verify(changed), int64(k), fmt.Sprintf("byte %d of line %d", i, k))
		}
		wantBad(t, verify(slices.Delete(slices.Clone(lines), k, k+1)), int64(k), fmt.Sprintf("line %d deleted", k))
		wantBad(t, verify(slices.Insert(slices.Clone(lines), k, raw)), int64(k), fmt.Sprintf("line %d twice", k))
		for j := range k {
			swapped := slices.Clone(lines)
			swapped[j], swapped[k] = swapped[k], swapped[j]
			wantBad(t, verify(swapped), int64(j), fmt.Sprintf("lines %d and %d swapped", j, k))
		}
	}
}

// A forged record that fits its place pushes the true one out of it.
func TestR1_InsertedLine(t *testing.T) {
	_, l, _ := sample(t, tamperRecords)
	lines := linesOf(t, l)
	for k := 1; k < tamperRecords; k++ {
		chain := kernel.Chain{World: worldA, Instance: testKey(t, 1).Fingerprint(), Head: headAt(t, lines, k-1), Time: 1000}
		forged, _, err := chain.Seal(1000, []kernel.Draft{audit(77)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := DecodeRecord(lines[k-1])
		if err != nil {
			t.Fatal(err)
		}
		f := forged[0].Record()
		f.Time = r.Time
		raw, err := EncodeRecord(f)
		if err != nil {
			t.Fatal(err)
		}
		wantBad(t, VerifyLines(slices.Values(slices.Insert(slices.Clone(lines), k, raw)), Expect{World: worldA}), int64(k), "a forged line")
	}
}

func headAt(t *testing.T, lines [][]byte, k int) kernel.Head {
	t.Helper()
	r, err := DecodeRecord(lines[k])
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return kernel.Head{Seq: int64(k), Hash: h}
}

// Whatever byte of the database file is changed, either verification says so or
// what is read is still what was written: a page's free space is nobody's
// testimony.
func TestR1_BytesOfTheFile(t *testing.T) {
	path, want := closedFile(t)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const step = 131 // a prime, so that all columns of the layout are hit in turn
	found := 0
	for i := 0; i < len(file); i += step {
		changed := bytes.Clone(file)
		changed[i] ^= 0x41
		copyPath := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(copyPath, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		ok, lines := verifyFile(t, copyPath)
		if !ok {
			found++
		} else if !slices.EqualFunc(lines, want, bytes.Equal) {
			t.Errorf("byte %d of the file changed what is read, and verification says nothing", i)
		}
	}
	if found == 0 {
		t.Error("no change was found at all")
	}
}

// closedFile is a store in one file, without a log beside it.
func closedFile(t *testing.T) (string, [][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	s, err := Open(t.Context(), path, testKey(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := openWorld(t, s, worldA)
	fill(t, l, tamperRecords)
	lines := linesOf(t, l)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, lines
}

// verifyFile opens, verifies and reads a store as writ verify and writ task
// show do; any error counts as found.
func verifyFile(t *testing.T, path string) (ok bool, lines [][]byte) {
	t.Helper()
	ctx := context.Background()
	s, err := OpenReadOnly(ctx, path, Options{})
	if err != nil {
		return false, nil
	}
	defer s.Close()
	l, err := s.World(ctx, worldA)
	if err != nil {
		return false, nil
	}
	r, err := l.Verify(ctx, VerifyOptions{Deep: true, Instance: testKey(t, 1).Fingerprint()})
	if err != nil || !r.OK || r.Records != tamperRecords {
		return false, nil
	}
	for raw, err := range l.Lines(ctx, 0, 0) {
		if err != nil {
			return false, nil
		}
		lines = append(lines, raw)
	}
	for task := range int64(3) {
		want := 0
		for _, raw := range lines {
			if r, err := DecodeRecord(raw); err == nil && task > 0 && r.Task == task {
				want++
			}
		}
		for _, err := range l.RecordsOfTask(ctx, task) {
			if want--; err != nil {
				return false, nil
			}
		}
		if want != 0 {
			t.Errorf("%s: the index of task %d lost %d records", path, task, want)
		}
	}
	return true, lines
}

// An entry that is gone from the index of tasks hides a record from whoever
// asks for the task, though the record is there.
func TestR1_IndexEntryLost(t *testing.T) {
	path, _ := closedFile(t)
	s, err := Open(t.Context(), path, testKey(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	root := numberIn(t, s, `SELECT rootpage FROM sqlite_schema WHERE name = 'records_task'`)
	pageSize := numberIn(t, s, `SELECT page_size FROM pragma_page_size`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const cellCount = 4 // low byte of the number of entries in a page's header
	file[(root-1)*pageSize+cellCount]--
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, _ := verifyFile(t, path); ok {
		t.Error("the lost entry is not noticed")
	}
}
