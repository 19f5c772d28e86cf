package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
)

// errDisk is what the fake's faults give.
var errDisk = errors.New("input/output error")

// fault says how a write of the fake fails.
type fault int

const (
	noFault      fault = iota
	failsBefore        // nothing is stored
	failsAfter         // all is stored, and yet an error is given
	busyFault          // another process holds the storage
	faultsNumber = busyFault
)

// memory is a storage that fails on command and checks what it is told: a fake
// that would store a gap would prove nothing.
type memory struct {
	mu     sync.Mutex
	rowsOf map[string][]row
	world  map[string]worldRow
	aside  []row

	writes int // commits and keeps so far
	fault  func(write int) fault
}

func newMemory() *memory {
	return &memory{rowsOf: map[string][]row{}, world: map[string]worldRow{}, fault: func(int) fault { return noFault }}
}

// do runs a write with the fault that is due.
func (m *memory) do(write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.fault(m.writes)
	m.writes++
	switch f {
	case failsBefore:
		return errDisk
	case busyFault:
		return errors.Join(errBusy, errDisk)
	}
	if err := write(); err != nil {
		return err
	}
	if f == failsAfter {
		return errDisk
	}
	return nil
}

func (m *memory) commit(_ context.Context, c change) error {
	return m.do(func() error {
		w, ok := m.world[c.world]
		if !ok {
			w = worldRow{id: int64(len(m.world) + 1), instance: c.instance}
			w.head.Seq = -1
		}
		if w.head != c.expected {
			return errFork
		}
		for i, r := range c.rows {
			if r.seq != c.expected.Seq+1+int64(i) {
				panic("a gap was to be stored")
			}
		}
		m.rowsOf[c.world] = append(m.rowsOf[c.world], c.rows...)
		w.head, w.time = c.head, c.time
		m.world[c.world] = w
		return nil
	})
}

func (m *memory) keep(_ context.Context, world string, size int64, signed []byte) error {
	return m.do(func() error {
		w := m.world[world]
		w.size, w.checkpoint = size, signed
		m.world[world] = w
		return nil
	})
}

func (m *memory) setAside(_ context.Context, a aside) error {
	return m.do(func() error {
		stays := func(r row) bool { return r.seq >= 0 && r.seq <= a.head.Seq }
		var kept []row
		for _, r := range m.rowsOf[a.world] {
			if stays(r) {
				kept = append(kept, r)
			} else {
				m.aside = append(m.aside, r)
			}
		}
		w := m.world[a.world]
		w.head, w.time = a.head, a.time
		m.rowsOf[a.world], m.world[a.world] = kept, w
		return nil
	})
}

func (m *memory) close(_ context.Context, c closing) error {
	return m.do(func() error {
		at := func(r row) bool { return r.seq >= c.first && r.seq < c.end() }
		lines, _, err := c.lines(nil)
		if err != nil {
			panic(err)
		}
		hashes := subtree(lines)
		rows, gone := m.rowsOf[c.world], int64(0)
		kept := slices.Clone(rows)
		for i, r := range kept {
			if at(r) {
				gone++
				kept[i] = row{seq: r.seq, raw: lines[r.seq-c.first], nodes: hashes[r.seq-c.first], in: &closedRows{c.segment, c.tasks}}
			}
		}
		if gone != segmentRecords {
			return errFork
		}
		w := m.world[c.world]
		w.closed = max(w.closed, c.end())
		m.rowsOf[c.world], m.world[c.world] = kept, w
		return nil
	})
}

func (m *memory) archivedIn(string) storage { return m }

// view works on a copy, so that a test may change what is stored.
func (m *memory) view(_ context.Context, f func(snapshot) error) error {
	m.mu.Lock()
	c := &memory{rowsOf: maps.Clone(m.rowsOf), world: maps.Clone(m.world)}
	m.mu.Unlock()
	return f(memoryView{c})
}

type memoryView struct{ m *memory }

func (v memoryView) worlds(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(v.m.world)), nil
}

func (v memoryView) world(_ context.Context, name string) (worldRow, bool, error) {
	w, ok := v.m.world[name]
	return w, ok, nil
}

func (v memoryView) rows(_ context.Context, q rowQuery, f func(row) error) error {
	for name, w := range v.m.world {
		if w.id != q.world {
			continue
		}
		rows := slices.SortedFunc(slices.Values(v.m.rowsOf[name]), func(a, b row) int { return int(a.seq - b.seq) })
		n := int64(0)
		for _, r := range rows {
			if r.seq < q.from || q.task != 0 && r.task != q.task {
				continue
			}
			if n++; q.limit > 0 && n > q.limit {
				return nil
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v memoryView) node(ctx context.Context, world, seq int64, level int) (h tlog.Hash, err error) {
	var nodes []byte
	err = v.rows(ctx, rowQuery{world: world, from: seq, limit: 1}, func(r row) error {
		if nodes = r.nodes; r.in != nil && seq+1 == r.in.end() {
			nodes = r.in.nodes
		}
		return nil
	})
	if err != nil {
		return h, err
	}
	return nodeOf(nodes, level, seq)
}

// Nothing of a memory is archived: that is tried on disk.

func (m *memory) archive(context.Context, string, archive) error { return errDisk }

func (v memoryView) segment(context.Context, worldRow, int64) (s segment, err error) {
	return s, errDisk
}

func (v memoryView) missing(context.Context, worldRow) *absent { return nil }

func (v memoryView) completed(context.Context, worldRow, int64) ([]byte, error) {
	return nil, errDisk
}
