package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// fillFast is fill in few commits.
func fillFast(t testing.TB, l *Ledger, n int) {
	t.Helper()
	if err := l.Start(t.Context(), genesis(), 1000); err != nil {
		t.Fatal(err)
	}
	for {
		first := int(l.Chain().Head.Seq) + 1
		if first >= n {
			return
		}
		var drafts []kernel.Draft
		for i := first; i < min(n, first+500); i++ {
			drafts = append(drafts, audit(i))
		}
		if _, err := l.Write(t.Context(), int64(1000+first), drafts...); err != nil {
			t.Fatal(err)
		}
	}
}

// closeAll signs the ledger and waits until what may be closed is.
func closeAll(t testing.TB, l *Ledger) []byte {
	t.Helper()
	note, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.closing.Lock()
	defer l.closing.Unlock()
	if err := l.closeSegments(t.Context()); err != nil {
		t.Fatal(err)
	}
	return note
}

// closedCount is how many segments the store has of its first world, and rows.
func closedCount(t testing.TB, s *Store) (segments, rows int64) {
	t.Helper()
	return numberIn(t, s, `SELECT count(*) FROM segments`), numberIn(t, s, `SELECT count(*) FROM records`)
}

const segmentSample = 4*segmentRecords + 77 // three closed segments

// segmented is a ledger on disk of which three segments are closed, and the last
// checkpoint.
func segmented(t testing.TB) (s *Store, l *Ledger, path string, note []byte) {
	t.Helper()
	s, l, path = sample(t, 1)
	fillFast(t, l, segmentSample)
	note = closeAll(t, l)
	return s, l, path, note
}

// all is what a ledger gives of its records, whichever way it is asked.
type all struct {
	Lines    []string
	Tasks    [][]int64
	Pieces   []int
	Proofs   []Proof
	Root     tlog.Hash
	Verified Report
}

func allOf(t *testing.T, l *Ledger) (a all) {
	t.Helper()
	for _, line := range linesOf(t, l) {
		a.Lines = append(a.Lines, string(line))
	}
	for task := range int64(3) {
		var seqs []int64
		for r, err := range l.RecordsOfTask(t.Context(), task) {
			if err != nil || r.Task != task {
				t.Fatalf("%v of task %d", err, r.Task)
			}
			seqs = append(seqs, r.Seq)
		}
		a.Tasks = append(a.Tasks, seqs)
	}
	for _, piece := range [][2]int64{{0, 3}, {500, 30}, {511, 2}, {512, 513}, {1000, 0}, {segmentSample - 1, 9}} {
		n := 0
		for r, err := range l.Records(t.Context(), piece[0], piece[1]) {
			if err != nil || r.Seq != piece[0]+int64(n) {
				t.Fatal(piece, r.Seq, err)
			}
			n++
		}
		a.Pieces = append(a.Pieces, n)
	}
	for _, seq := range []int64{0, 1, 255, 510, 511, 512, 1023, 1100, 1535, 1536, segmentSample - 1} {
		for _, size := range []int64{seq + 1, segmentSample} {
			p, err := l.ProveRecord(t.Context(), seq, size)
			if err != nil {
				t.Fatal(seq, size, err)
			}
			a.Proofs = append(a.Proofs, p)
		}
	}
	var err error
	if a.Root, err = l.Tree(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	a.Verified = mustVerify(t, l, VerifyOptions{Deep: true})
	return a
}

// TestSegments_SayTheSame: a ledger with closed segments gives the records, the proofs and
// the verification that it gave before, in the process that closed them and in the next,
// and goes on.
func TestSegments_SayTheSame(t *testing.T) {
	s, l, path := sample(t, 1)
	fillFast(t, l, segmentSample)
	before := allOf(t, l)
	note := closeAll(t, l)
	if segments, rows := closedCount(t, s); segments != 3 || rows != segmentSample-3*segmentRecords {
		t.Fatalf("%d segments, %d rows", segments, rows)
	}
	after := allOf(t, l)
	before.Verified.CheckpointSize = segmentSample
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("closed (-before +after):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, path, testKey(t, 1))
	next := openWorld(t, again, worldA)
	if diff := cmp.Diff(before, allOf(t, next)); diff != "" {
		t.Errorf("opened again (-before +after):\n%s", diff)
	}
	if err := next.Check(t.Context(), note); err != nil {
		t.Error(err)
	}
	fillFast(t, next, segmentSample+2*segmentRecords)
	closeAll(t, next)
	if segments, _ := closedCount(t, again); segments != 5 {
		t.Errorf("%d segments after more records", segments)
	}
	if r := mustVerify(t, next, VerifyOptions{Checkpoint: note, Deep: true}); !r.OK || r.Records != segmentSample+2*segmentRecords {
		t.Errorf("%+v", r)
	}
}

// TestSegments_KeptBytes: records of several segments that are read at once stay what they
// are, also where a later segment fits into the room of the one before.
func TestSegments_KeptBytes(t *testing.T) {
	_, l, _ := sample(t, 1)
	for i := 1; i < segmentSample; i++ {
		text := strings.Repeat("x", max(1, 400-i/3))
		d := kernel.Draft{Kind: kernel.KindAudit, Task: int64(1 + min(i%4, 1)), Body: map[string]any{"text": text}}
		if _, err := l.Write(t.Context(), 5000, d); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(t, l)
	n := 0
	for r, err := range l.RecordsOfTask(t.Context(), 1) {
		if n++; err != nil || r.Seq%4 != 0 {
			t.Fatal(r.Seq, err)
		}
	}
	if want := (segmentSample - 1) / 4; n != want {
		t.Errorf("%d records, want %d", n, want)
	}
}

// TestSegments_TakeLittleRoom: records that are closed take less than a fifth of their
// bytes.
func TestSegments_TakeLittleRoom(t *testing.T) {
	s, l, _, _ := segmented(t)
	stored := numberIn(t, s, `SELECT sum(length(data) + length(nodes)) FROM segments`)
	raw := 0
	for _, line := range linesOf(t, l)[:3*segmentRecords] {
		raw += len(line)
	}
	if stored*5 > int64(raw) {
		t.Errorf("%d bytes are stored of %d", stored, raw)
	}
}

// TestSegments_OnlyWhatIsSigned: nothing is closed that no stored checkpoint signs, and
// none of the newest records.
func TestSegments_OnlyWhatIsSigned(t *testing.T) {
	s, l, _ := sample(t, 1)
	fillFast(t, l, segmentRecords+10)
	closeAll(t, l)
	wantClosed := func(want int64) {
		t.Helper()
		if segments, _ := closedCount(t, s); segments != want {
			t.Errorf("%d segments, want %d", segments, want)
		}
	}
	wantClosed(0) // the newest
	fillFast(t, l, segmentSample)
	l.closing.Lock()
	err := l.closeSegments(t.Context())
	l.closing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	wantClosed(1) // no more is signed
	closeAll(t, l)
	wantClosed(3)
}

// TestSegments_WhatWasChangedStays: rows that aren't what was written are not closed, so
// that a verification still names the record.
func TestSegments_WhatWasChangedStays(t *testing.T) {
	for name, text := range map[string]string{
		"its bytes":  `UPDATE records SET raw = CAST(replace(CAST(raw AS TEXT), '"IDLE"', '"IDLF"') AS BLOB) WHERE seq = 700`,
		"its hashes": `UPDATE records SET nodes = zeroblob(length(nodes)) WHERE seq = 700`,
		"its task":   `UPDATE records SET task = 77 WHERE seq = 700`,
		"its place":  `DELETE FROM records WHERE seq = 700`,
	} {
		t.Run(name, func(t *testing.T) {
			s, l, _ := sample(t, 1)
			fillFast(t, l, segmentSample)
			tamper(t, s, text)
			if _, err := l.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.closing.Lock()
			err := l.closeSegments(t.Context())
			l.closing.Unlock()
			if err == nil {
				t.Error("it was closed")
			}
			if segments, _ := closedCount(t, s); segments != 1 {
				t.Errorf("%d segments", segments)
			}
			if r := mustVerify(t, l, VerifyOptions{}); r.OK || r.FirstBad == nil || *r.FirstBad != 700 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// replaceData stores other data for a segment.
func replaceData(t *testing.T, s *Store, first int64, change func(data []byte) []byte) {
	t.Helper()
	err := s.db.Write(t.Context(), func(tx store.Tx) error {
		var data []byte
		if _, err := tx.Row(`SELECT data FROM segments WHERE first = $1`, []any{first}, &data); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE segments SET data = $1 WHERE first = $2`, change(data), first)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// repacked changes a segment's records and makes a sound frame of them.
func repacked(t *testing.T, change func(lines [][]byte) [][]byte) func([]byte) []byte {
	return func(data []byte) []byte {
		lines, _, err := segment{data: data}.lines(nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pack(change(lines))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// TestR1_Segments: whatever is changed of a closed segment, a verification names the
// record, or the segment where no single record can be.
func TestR1_Segments(t *testing.T) {
	bomb, err := pack([][]byte{make([]byte, 8*maxSegmentBytes)})
	if err != nil {
		t.Fatal(err)
	}
	data := func(change func([]byte) []byte) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) { replaceData(t, s, 512, change) }
	}
	sql := func(text string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) { tamper(t, s, text) }
	}
	lines := func(change func([][]byte) [][]byte) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) { replaceData(t, s, 512, repacked(t, change)) }
	}
	changed := func(i int) func([][]byte) [][]byte {
		return func(lines [][]byte) [][]byte {
			lines[i] = bytes.Replace(lines[i], []byte(`"IDLE"`), []byte(`"IDLF"`), 1)
			return lines
		}
	}
	for _, c := range []struct {
		name  string
		do    func(*testing.T, *Store)
		first int64
		says  string
	}{
		{"a byte of its frame", data(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), 512, "can't be read"},
		{"a byte of its checksum", data(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), 512, "can't be read"},
		{"its end", data(func(b []byte) []byte { return b[:len(b)/2] }), 512, "can't be read"},
		{"all of its data", data(func([]byte) []byte { return nil }), 512, "512"},
		{"a frame without end", data(func([]byte) []byte { return bomb }), 512, "can't be read"},
		{"more than a frame may have", sql(`UPDATE segments SET data = zeroblob(33554433) WHERE first = 512`), 512, "512"},
		{"its first record", lines(changed(0)), 512, "changed"},
		{"a record", lines(changed(188)), 700, "changed"},
		{"its last record", lines(changed(511)), 1023, "changed"},
		{"a record less", lines(func(l [][]byte) [][]byte { return slices.Delete(l, 100, 101) }), 512, "doesn't hold 512 records"},
		{"a record more", lines(func(l [][]byte) [][]byte { return append(l, l[0]) }), 512, "doesn't hold 512 records"},
		{"two records' order", lines(func(l [][]byte) [][]byte { l[7], l[8] = l[8], l[7]; return l }), 519, "missing"},
		{"its hashes", sql(`UPDATE segments SET nodes = zeroblob(length(nodes)) WHERE first = 512`), 1023, "tree hashes"},
		{"a hash less", sql(`UPDATE segments SET nodes = substr(nodes, 1, length(nodes) - 32) WHERE first = 512`), 1023, "tree hashes"},
		{"the segment", sql(`DELETE FROM segments WHERE first = 512`), 512, "missing"},
		{"the last segment", sql(`DELETE FROM segments WHERE first = 1024`), 1024, "missing"},
		{"its place", sql(`UPDATE segments SET first = 513 WHERE first = 512`), 513, "out of place"},
		{"its place before all", sql(`UPDATE segments SET first = -512 WHERE first = 512`), -512, "out of place"},
		{"one of its tasks", sql(`DELETE FROM segment_tasks WHERE first = 512 AND task = 2`), 512, "other tasks"},
		{"another task", sql(`INSERT INTO segment_tasks SELECT world, 9, 512 FROM segments WHERE first = 512`), 512, "other tasks"},
		{"a row in its place", sql(`INSERT INTO records SELECT world, 600, task, nodes, raw FROM records WHERE seq = 2000`), 600, "out of place"},
		{"another segment's data", sql(`UPDATE segments SET data = (SELECT data FROM segments o WHERE o.first = 0) WHERE first = 512`), 512, "again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l, _, note := segmented(t)
			if r := mustVerify(t, l, VerifyOptions{Checkpoint: note}); !r.OK {
				t.Fatal(r)
			}
			c.do(t, s)
			r := mustVerify(t, l, VerifyOptions{Checkpoint: note})
			if r.OK || r.Code != kernel.CodeLedgerCorrupt || r.FirstBad == nil || *r.FirstBad != c.first || !strings.Contains(r.Reason, c.says) {
				bad := "none"
				if r.FirstBad != nil {
					bad = fmt.Sprint(*r.FirstBad)
				}
				t.Errorf("%s, first bad %s: %s; want %d, %q", r.Code, bad, r.Reason, c.first, c.says)
			}
			// Nothing that a checkpoint signs is taken out of a ledger, even where the store
			// has forgotten the checkpoint.
			tamper(t, s, `UPDATE worlds SET checkpoint_size = 0, checkpoint = x''`)
			if _, err := s.Quarantine(t.Context(), worldA, 1, nil); c.first >= 0 && c.first < 1024 && err == nil {
				t.Error("records of closed segments were set aside")
			}
		})
	}
}

// TestR1_SegmentsRead: who reads a segment that was changed gets ledger.corrupt with the
// segment, and no record of it.
func TestR1_SegmentsRead(t *testing.T) {
	s, l, _, _ := segmented(t)
	replaceData(t, s, 512, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	wantCorrupt := func(what string, err error) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Code != kernel.CodeLedgerCorrupt || e.Seq != 512 {
			t.Errorf("%s: %v", what, err)
		}
	}
	var failed error
	for r, err := range l.Records(t.Context(), 500, 0) {
		if failed = err; err == nil && r.Seq >= 512 {
			t.Fatal(r.Seq)
		}
	}
	wantCorrupt("all records", failed)
	for _, err := range l.RecordsOfTask(t.Context(), 1) {
		failed = err
	}
	wantCorrupt("those of a task", failed)
	_, err := l.ProveRecord(t.Context(), 700, segmentSample)
	wantCorrupt("a proof", err)
}

// TestR4_ClosingFails: however the closing of a segment fails, the ledger verifies after
// it, and a store that may have failed takes nothing more.
func TestR4_ClosingFails(t *testing.T) {
	for mode := failsBefore; mode <= faultsNumber; mode++ {
		t.Run(fmt.Sprintf("mode %d", mode), func(t *testing.T) {
			m := newMemory()
			s := newStore(m, nil, testKey(t, 1), Options{})
			l := openWorld(t, s, worldA)
			fillFast(t, l, segmentSample)
			if _, err := l.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.behind.Wait()
			fillFast(t, l, segmentSample+2*segmentRecords)
			note, err := l.Checkpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.behind.Wait()
			m.mu.Lock()
			for i, r := range m.rowsOf[worldA] { // the last two segments are rows again
				if r.seq >= 3*segmentRecords && r.in != nil {
					m.rowsOf[worldA][i] = reopenedRow(r)
				}
			}
			w := m.world[worldA]
			w.closed = 3 * segmentRecords
			m.world[worldA], l.closed = w, w.closed
			first := m.writes
			m.fault = func(n int) fault {
				if n == first+1 { // the second of the two closings
					return mode
				}
				return noFault
			}
			m.mu.Unlock()
			l.closing.Lock()
			err = l.closeSegments(t.Context())
			l.closing.Unlock()
			if failed := mode != busyFault; failed != (err != nil) {
				t.Errorf("closing: %v", err)
			}
			_, err = l.Write(t.Context(), 9999, audit(1))
			if failed := mode != busyFault; failed != (err != nil) {
				t.Errorf("an append after it: %v", err)
			}
			again := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
			r := mustVerify(t, again, VerifyOptions{Checkpoint: note})
			if !r.OK || r.Records < segmentSample+2*segmentRecords {
				t.Errorf("%+v", r)
			}
		})
	}
}

// reopenedRow is the row that a record of a segment was.
func reopenedRow(r row) row {
	task, err := taskOf(r.raw)
	if err != nil {
		panic(err)
	}
	nodes := r.nodes
	if r.seq+1 == r.in.end() {
		nodes = r.in.nodes
	}
	return row{seq: r.seq, task: task, nodes: nodes, raw: r.raw}
}

// TestSegments_TooLarge: records of more than what may be read at once stay as they are,
// and those after them are closed.
func TestSegments_TooLarge(t *testing.T) {
	s, l, _ := sample(t, 1)
	fillFast(t, l, segmentRecords)
	large := kernel.Draft{Kind: kernel.KindAudit, Task: 4, Body: map[string]any{"text": strings.Repeat("x", maxSegmentBytes/8-4096)}}
	for range 9 {
		if _, err := l.Write(t.Context(), 5000, large); err != nil {
			t.Fatal(err)
		}
	}
	fillFast(t, l, segmentSample)
	note := closeAll(t, l)
	if segments, rows := closedCount(t, s); segments != 2 || rows != segmentSample-2*segmentRecords {
		t.Errorf("%d segments, %d rows", segments, rows)
	}
	if n := len(linesOf(t, l)); n != segmentSample {
		t.Errorf("%d records are read", n)
	}
	if _, err := l.ProveRecord(t.Context(), 600, segmentSample); err != nil {
		t.Error(err)
	}
	if r := mustVerify(t, l, VerifyOptions{Checkpoint: note, Deep: true}); !r.OK {
		t.Errorf("%+v", r)
	}
}

// TestMark_InSegments: a ledger is gone on with from marks that stand within, before and
// after closed segments, and a fault before them is found behind.
func TestMark_InSegments(t *testing.T) {
	for _, size := range []int{1, 511, 512, 513, 1000, 1536, segmentSample} {
		for _, fault := range []bool{false, true} {
			m := newMemory()
			l := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
			fillFast(t, l, size)
			mark, err := l.Mark()
			if err != nil {
				t.Fatal(err)
			}
			fillFast(t, l, segmentSample)
			kept := closeAll(t, l)
			if fault {
				r := &m.rowsOf[worldA][size-1]
				r.raw = bytes.Replace(r.raw, []byte(`"v":1`), []byte(`"v":2`), 1)
			}
			next, gate, ended, err := reopened(t, m, mark, kept)
			if fault {
				if CodeOf(err) != kernel.CodeLedgerUnavailable {
					t.Errorf("from %d, its record was changed: %v", size, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(size, err)
			}
			close(gate)
			if err := <-ended; err != nil {
				t.Error(size, err)
			}
			if n := len(linesOf(t, next)); n != segmentSample {
				t.Errorf("from %d there are %d records", size, n)
			}
		}
	}
}

// TestMark_SegmentsBehind: a record of a closed segment that was changed before the mark
// is found behind, by its number, the last one, too.
func TestMark_SegmentsBehind(t *testing.T) {
	for seq, marked := range map[int64]int{0: 1024, 300: 1024, 511: 1024, 512: 1024, 1022: 1024, 1534: 1537, 1535: segmentSample} {
		s, l, path := sample(t, 1)
		fillFast(t, l, marked)
		mark, err := l.Mark()
		if err != nil {
			t.Fatal(err)
		}
		fillFast(t, l, segmentSample)
		note := closeAll(t, l)
		first := seq - seq%segmentRecords
		replaceData(t, s, first, repacked(t, func(lines [][]byte) [][]byte {
			old, other := `"IDLE"`, `"IDLF"`
			if seq == 0 {
				old, other = `"1.0.0"`, `"1.0.1"`
			}
			lines[seq-first] = bytes.Replace(lines[seq-first], []byte(old), []byte(other), 1)
			return lines
		}))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		next := openStore(t, path, testKey(t, 1))
		if _, err := next.WorldFrom(context.Background(), mark, note, func(err error) { ended <- err }); err != nil {
			t.Fatal(seq, err)
		}
		var e *Error
		if err := <-ended; !errors.As(err, &e) || e.Code != kernel.CodeLedgerCorrupt || e.Seq != seq {
			t.Errorf("record %d was changed: %v", seq, err)
		}
	}
}

// TestSegments_TaskOf: the task is the envelope's, whatever a body or a name says.
func TestSegments_TaskOf(t *testing.T) {
	chain := kernel.Chain{World: `w,"task":8,`, Instance: "i", Head: kernel.NoHead()}
	for _, body := range []any{
		map[string]any{}, map[string]any{"task": 7}, map[string]any{"a": 1, "task": 7, "z": map[string]any{"b": 0, "task": 9}},
		map[string]any{"text": `,"task":6,`},
	} {
		records, _, err := chain.Seal(1, []kernel.Draft{{Kind: kernel.KindAudit, Task: 5, Run: `r,"task":3,`, Body: body}})
		if err != nil {
			t.Fatal(err)
		}
		raw := records[0].Bytes()
		if task, err := taskOf(raw); task != 5 || err != nil {
			t.Errorf("%s: %d, %v", raw, task, err)
		}
	}
	for _, raw := range []string{"", "{}", `{"task":1}`, `,"task":x,`} {
		if _, err := taskOf([]byte(raw)); err == nil {
			t.Errorf("%q has a task", raw)
		}
	}
}

// TestSegments_Subtree: the hashes of a segment follow from its own records.
func TestSegments_Subtree(t *testing.T) {
	var whole tree
	for n := range 3 {
		var lines [][]byte
		for i := range segmentRecords {
			lines = append(lines, fmt.Appendf(nil, "%d/%d", n, i))
		}
		for i, nodes := range subtree(lines) {
			want := whole.add(leafOf(sha256.Sum256(lines[i])), nil)
			if !bytes.HasPrefix(want, nodes) || len(nodes) != min(len(want), (segmentLevel+1)*hashSize) {
				t.Fatalf("record %d of segment %d", i, n)
			}
		}
	}
}
