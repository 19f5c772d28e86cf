package schedulertest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/writbot/writ/executor/scheduler"
)

// Memory is a schedule and its notes in memory. It is as durable as the value:
// [Memory.Restart] is what the death of its process leaves.
type Memory struct {
	mu   sync.Mutex
	rows map[scheduler.Key]*row
	wake chan struct{}
	// Fault, if set, is asked before each operation, by its method's name; its
	// error is the answer, and nothing is stored.
	Fault func(op string, k scheduler.Key) error
}

type row struct {
	due        int64 // 0: none; while it is taken, that of the marks since
	taken      int64 // the due time it was taken with, 0 while nobody has it
	generation int64 // counts the takes
	note       scheduler.Note
}

// NewMemory makes an empty one.
func NewMemory() *Memory {
	return &Memory{rows: map[scheduler.Key]*row{}, wake: make(chan struct{}, 1)}
}

// Restart makes free what was taken, as the next process finds it.
func (m *Memory) Restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		r.due, r.taken = sooner(r.due, r.taken), 0
	}
}

// At is the task's due time, 0 for none, and whether it is taken.
func (m *Memory) At(k scheduler.Key) (due int64, taken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.row(k)
	return r.due, r.taken != 0
}

// sooner is the earlier of two due times, where 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (m *Memory) begin(ctx context.Context, op string, k scheduler.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	fault := m.Fault
	m.mu.Unlock()
	if fault != nil {
		return fault(op, k)
	}
	return nil
}

// SetFault changes Fault while the schedule is in use.
func (m *Memory) SetFault(f func(op string, k scheduler.Key) error) {
	m.mu.Lock()
	m.Fault = f
	m.mu.Unlock()
}

func (m *Memory) row(k scheduler.Key) *row {
	r := m.rows[k]
	if r == nil {
		r = &row{}
		m.rows[k] = r
	}
	return r
}

// Due implements scheduler.Schedule.
func (m *Memory) Due(ctx context.Context, now int64, limit int) ([]scheduler.Key, error) {
	if err := m.begin(ctx, "Due", scheduler.Key{}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := map[string][]scheduler.Key{}
	for k, r := range m.rows {
		if r.taken == 0 && r.due != 0 && r.due <= now {
			lines[k.World] = append(lines[k.World], k)
		}
	}
	var worlds []string
	for name, line := range lines {
		worlds = append(worlds, name)
		slices.SortFunc(line, m.earlier)
	}
	slices.SortFunc(worlds, func(a, b string) int { return m.earlier(lines[a][0], lines[b][0]) })
	var out []scheduler.Key
	for i := 0; len(out) < limit; i++ {
		before := len(out)
		for _, name := range worlds {
			if i < len(lines[name]) && len(out) < limit {
				out = append(out, lines[name][i])
			}
		}
		if len(out) == before {
			break
		}
	}
	return out, nil
}

// earlier orders by due time, then by key.
func (m *Memory) earlier(a, b scheduler.Key) int {
	if d := m.rows[a].due - m.rows[b].due; d != 0 {
		return int(min(max(d, -1), 1))
	}
	if c := strings.Compare(a.World, b.World); c != 0 {
		return c
	}
	return int(min(max(a.Task-b.Task, -1), 1))
}

// Next implements scheduler.Schedule.
func (m *Memory) Next(ctx context.Context) (at int64, ok bool, err error) {
	if err := m.begin(ctx, "Next", scheduler.Key{}); err != nil {
		return 0, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.taken == 0 && r.due != 0 && (!ok || r.due < at) {
			at, ok = r.due, true
		}
	}
	return at, ok, nil
}

// Take implements scheduler.Schedule.
func (m *Memory) Take(ctx context.Context, k scheduler.Key) (scheduler.Ticket, bool, error) {
	if err := m.begin(ctx, "Take", k); err != nil {
		return scheduler.Ticket{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.row(k)
	if r.taken != 0 || r.due == 0 {
		return scheduler.Ticket{}, false, nil
	}
	r.taken, r.due = r.due, 0
	r.generation++
	return scheduler.Ticket{Key: k, Generation: r.generation, Due: r.taken}, true, nil
}

// Done implements scheduler.Schedule.
func (m *Memory) Done(ctx context.Context, t scheduler.Ticket, next int64) error {
	if err := m.begin(ctx, "Done", t.Key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.row(t.Key)
	if r.taken == 0 || r.generation != t.Generation {
		return nil
	}
	r.due, r.taken = sooner(r.due, next), 0
	m.token()
	return nil
}

// Mark implements scheduler.Schedule.
func (m *Memory) Mark(ctx context.Context, k scheduler.Key, at int64) error {
	if err := m.begin(ctx, "Mark", k); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.row(k)
	r.due = sooner(r.due, at)
	m.token()
	return nil
}

// Hasten implements scheduler.Schedule.
func (m *Memory) Hasten(ctx context.Context, now, until int64) error {
	if err := m.begin(ctx, "Hasten", scheduler.Key{}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.taken == 0 && r.due > now && r.due <= until {
			r.due = max(r.due-(until-now), 1)
		}
	}
	m.token()
	return nil
}

func (m *Memory) token() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Wake implements scheduler.Schedule.
func (m *Memory) Wake() <-chan struct{} { return m.wake }

// Load implements scheduler.Notes.
func (m *Memory) Load(ctx context.Context, k scheduler.Key) (scheduler.Note, error) {
	if err := m.begin(ctx, "Load", k); err != nil {
		return scheduler.Note{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.row(k).note
	n.Acts = slices.Clone(n.Acts)
	return n, nil
}

// Add implements scheduler.Notes.
func (m *Memory) Add(ctx context.Context, k scheduler.Key, a scheduler.Act) error {
	if err := m.begin(ctx, "Add", k); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.row(k)
	if !slices.ContainsFunc(r.note.Acts, func(b scheduler.Act) bool { return a.ID == b.ID }) {
		r.note.Acts = append(r.note.Acts, a)
	}
	return nil
}

// Settle implements scheduler.Notes.
func (m *Memory) Settle(ctx context.Context, k scheduler.Key, failures int, carried []string) error {
	if err := m.begin(ctx, "Settle", k); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.row(k)
	r.note.Failures = failures
	r.note.Acts = slices.DeleteFunc(r.note.Acts, func(a scheduler.Act) bool { return slices.Contains(carried, a.ID) })
	return nil
}
