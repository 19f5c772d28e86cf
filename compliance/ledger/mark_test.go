package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/kernel"
)

// gated lets the verification behind begin when the gate is open.
type gated struct {
	storage
	gate   chan struct{}
	behind context.Context //nolint:containedctx // by which that verification is known
}

func (g *gated) view(ctx context.Context, f func(snapshot) error) error {
	if ctx == g.behind {
		select {
		case <-g.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.storage.view(ctx, f)
}

const markRecords = 13

// marked is a ledger of so many records, its mark, the checkpoint of that moment, and
// more records after.
func marked(t *testing.T, size int) (m *memory, mark Mark, kept []byte) {
	t.Helper()
	m = newMemory()
	l := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
	fill(t, l, size)
	kept, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if mark, err = l.Mark(); err != nil {
		t.Fatal(err)
	}
	fill(t, l, markRecords)
	return m, mark, kept
}

// reopened goes on from a mark; what comes before it is read once the gate is closed.
func reopened(t *testing.T, m *memory, mark Mark, kept []byte) (l *Ledger, gate chan struct{}, ended chan error, err error) {
	t.Helper()
	gate, ended = make(chan struct{}), make(chan error, 1)
	g := &gated{storage: m, gate: gate}
	s := newStore(g, nil, testKey(t, 1), Options{})
	g.behind = s.living
	t.Cleanup(func() { _ = s.Close() })
	l, err = s.WorldFrom(t.Context(), mark, kept, func(err error) { ended <- err })
	return l, gate, ended, err
}

// TestMark_GoesOn: from every size a ledger is gone on with at once: records are appended
// and proven, checkpoints signed and compared, and nothing of before the mark is handed
// out until it is verified.
func TestMark_GoesOn(t *testing.T) {
	for size := 1; size <= markRecords; size++ {
		m, mark, kept := marked(t, size)
		l, gate, ended, err := reopened(t, m, mark, kept)
		if err != nil {
			t.Fatal(size, err)
		}
		if err := l.Check(t.Context(), kept); err != nil {
			t.Errorf("from %d, the checkpoint of before: %v", size, err)
		}
		more, err := l.Write(t.Context(), 9000, audit(1))
		if err != nil {
			t.Fatal(size, err)
		}
		note, err := l.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(size, err)
		}
		cp, err := l.openOwn(note)
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.ProveRecord(t.Context(), more[0].Record().Seq, cp.Size)
		if err != nil {
			t.Fatal(size, err)
		}
		raw := more[0].Bytes()
		path, err := p.path()
		if err != nil || tlog.CheckRecord(path, cp.Size, cp.Root, p.Seq, leafOf(sha256.Sum256(raw))) != nil {
			t.Errorf("from %d, a new record isn't proven: %v", size, err)
		}
		if _, err := l.Mark(); err == nil {
			t.Errorf("from %d it is marked again before it is verified", size)
		}
		wantNothing(t, l)
		close(gate)
		if err := <-ended; err != nil {
			t.Fatal(size, err)
		}
		if lines := linesOf(t, l); len(lines) != markRecords+1 {
			t.Errorf("from %d there are %d records", size, len(lines))
		}
		if _, err := l.ProveRecord(t.Context(), 0, cp.Size); err != nil {
			t.Error(err)
		}
		if r := mustVerify(t, l, VerifyOptions{Checkpoint: note}); !r.OK || r.Root != cp.Root.String() {
			t.Errorf("from %d: %+v", size, r)
		}
		if again, err := l.Mark(); err != nil || again.Size() != markRecords+1 {
			t.Errorf("from %d: %+v, %v", size, again, err)
		}
	}
}

// wantNothing asks for old records with a patience that is over.
func wantNothing(t *testing.T, l *Ledger) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for r, err := range l.Records(ctx, 0, 0) {
		if err == nil {
			t.Errorf("record %d is handed out before it is verified", r.Seq)
		}
	}
	if _, err := l.ProveRecord(ctx, 0, 2); err == nil && l.past.size > 1 {
		t.Error("a record is proven by what isn't verified")
	}
}

// TestMark_R1_TamperedBefore: whatever is changed before the mark is found behind, and
// ends the ledger.
func TestMark_R1_TamperedBefore(t *testing.T) {
	const size = 11
	for what, change := range map[string]func(rows []row) []row{
		"bytes": func(rows []row) []row {
			rows[4].raw = bytes.Replace(rows[4].raw, []byte("IDLE"), []byte("IDLF"), 1)
			return rows
		},
		"tree hashes": func(rows []row) []row { rows[5].nodes = bytes.Clone(rows[3].nodes); return rows },
		"the task":    func(rows []row) []row { rows[2].task += 7; return rows },
		"a row less":  func(rows []row) []row { return append(rows[:3:3], rows[4:]...) },
		"a row more": func(rows []row) []row {
			return append([]row{{seq: -3, raw: rows[1].raw, nodes: rows[1].nodes}}, rows...)
		},
		"another history": func(rows []row) []row { return append(forged(t, size-1), rows[size-1:]...) },
	} {
		m, mark, kept := marked(t, size)
		m.rowsOf[worldA] = change(m.rowsOf[worldA])
		l, gate, ended, err := reopened(t, m, mark, kept)
		if err != nil {
			t.Fatal(what, err)
		}
		close(gate)
		if err := <-ended; CodeOf(err) != kernel.CodeLedgerCorrupt {
			t.Errorf("%s: %v", what, err)
		}
		head := l.Chain().Head
		if _, err := l.Write(t.Context(), 9000, audit(1)); CodeOf(err) != kernel.CodeLedgerCorrupt || l.Chain().Head != head {
			t.Errorf("%s: a record was appended: %v", what, err)
		}
		if _, err := l.Checkpoint(t.Context()); CodeOf(err) != kernel.CodeLedgerCorrupt {
			t.Errorf("%s: a checkpoint was signed: %v", what, err)
		}
		for _, err := range l.RecordsOfTask(t.Context(), 1) {
			if CodeOf(err) != kernel.CodeLedgerCorrupt {
				t.Errorf("%s: a record is handed out: %v", what, err)
			}
		}
	}
}

// forged are rows of a ledger of the same key with other records.
func forged(t *testing.T, n int) []row {
	t.Helper()
	m := newMemory()
	l := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA)
	if err := l.Start(t.Context(), genesis(), 500); err != nil {
		t.Fatal(err)
	}
	fill(t, l, n)
	return m.rowsOf[worldA]
}

// TestMark_R1_ReplacedMeanwhile: records that were put in the place of all before the
// mark once it was gone on from, and verify by themselves, aren't those of the mark.
func TestMark_R1_ReplacedMeanwhile(t *testing.T) {
	m, mark, _ := marked(t, 11)
	kept, err := openWorld(t, newStore(m, nil, testKey(t, 1), Options{}), worldA).Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, gate, ended, err := reopened(t, m, mark, kept)
	if err != nil {
		t.Fatal(err)
	}
	other := forged(t, markRecords)
	m.mu.Lock()
	m.rowsOf[worldA] = other
	w := m.world[worldA]
	w.checkpoint = nil
	m.world[worldA] = w
	m.mu.Unlock()
	close(gate)
	if err := <-ended; CodeOf(err) != kernel.CodeLedgerCorrupt || l.past.fault() == nil {
		t.Error(err)
	}
}

// TestMark_OpenedWhole: a mark that doesn't fit is none, and the ledger is opened whole.
func TestMark_OpenedWhole(t *testing.T) {
	const size = 7
	m, mark, kept := marked(t, size)
	_, older, old := marked(t, size-2)
	_ = older
	cut := newMemory()
	cut.rowsOf[worldA], cut.world[worldA] = m.rowsOf[worldA][:size-1], m.world[worldA]
	for what, c := range map[string]struct {
		m    *memory
		kept []byte
		mark func(Mark) Mark
	}{
		"no checkpoint":       {m, nil, nil},
		"an older checkpoint": {m, old, nil},
		"a cut store":         {cut, kept, nil},
		"another head":        {m, kept, func(m Mark) Mark { m.Head.Seq--; return m }},
		"no edge":             {m, kept, func(m Mark) Mark { m.Edge = nil; return m }},
		"no key":              {m, kept, func(m Mark) Mark { m.Keys = nil; return m }},
	} {
		used := mark
		if c.mark != nil {
			used = c.mark(mark)
		}
		if _, _, _, err := reopened(t, c.m, used, c.kept); err == nil {
			t.Errorf("%s: it is gone on with", what)
		}
	}
	rows := m.rowsOf[worldA]
	last := rows[size-1].raw
	rows[size-1].raw = bytes.Replace(last, []byte("IDLE"), []byte("IDLF"), 1)
	if _, _, _, err := reopened(t, m, mark, kept); CodeOf(err) != kernel.CodeLedgerUnavailable {
		t.Errorf("another last record: %v", err)
	}
	rows[size-1].raw = last
	other := newStore(m, nil, testKey(t, 2), Options{})
	if _, err := other.WorldFrom(t.Context(), mark, kept, func(error) {}); err == nil {
		t.Error("another key goes on with it")
	}
	// What follows the mark is verified before anybody gets it.
	rows[size+1].raw = bytes.Replace(rows[size+1].raw, []byte("IDLE"), []byte("IDLF"), 1)
	if _, _, _, err := reopened(t, m, mark, kept); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Errorf("a changed record after the mark: %v", err)
	}
}

// TestMark_Signed: each byte of the document counts, and only the own key's.
func TestMark_Signed(t *testing.T) {
	_, mark, _ := marked(t, 7)
	folded := []byte(`{"kind":"x"}`)
	key := testKey(t, 1)
	doc, err := mark.Sign(key, folded)
	if err != nil {
		t.Fatal(err)
	}
	back, said, err := OpenMark(doc, key.Public)
	if err != nil || !bytes.Equal(said, folded) || back.Head != mark.Head || back.Genesis.World != worldA {
		t.Fatalf("%+v %s %v", back, said, err)
	}
	for i := range doc {
		changed := bytes.Clone(doc)
		changed[i] ^= 1
		if m, said, err := OpenMark(changed, key.Public); err == nil && (m.Head != mark.Head || !bytes.Equal(said, folded)) {
			t.Fatalf("with byte %d changed it is taken for another", i)
		}
		if i < bytes.LastIndex(doc, []byte("\n\n")) {
			if _, _, err := OpenMark(changed, key.Public); err == nil {
				t.Fatalf("byte %d may be changed", i)
			}
		}
	}
	if _, _, err := OpenMark(doc, testKey(t, 2).Public); err == nil {
		t.Error("it is another key's, too")
	}
	for _, cut := range []int{0, 1, len(doc) / 2, len(doc) - 1} {
		if _, _, err := OpenMark(doc[:cut], key.Public); err == nil {
			t.Errorf("its first %d bytes are taken", cut)
		}
	}
}

// TestMark_StoreCloses: a verification that goes on behind ends with its store, and
// nobody is told of a fault that it didn't find.
func TestMark_StoreCloses(t *testing.T) {
	m, mark, kept := marked(t, 7)
	l, _, ended, err := reopened(t, m, mark, kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.store.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Errorf("its end was told: %v", err)
	default:
	}
	if err := l.past.wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits got %v", err)
	}
}

// TestTree_AsTlog: leaves and parents are hashed as RFC 6962 and the library have it.
func TestTree_AsTlog(t *testing.T) {
	a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	left, right := leafOf(a), leafOf(b)
	if left != tlog.RecordHash(a[:]) || right != tlog.RecordHash(b[:]) {
		t.Error("a leaf has another hash")
	}
	if parentOf(&left, &right) != tlog.NodeHash(left, right) {
		t.Error("a parent has another hash")
	}
}
