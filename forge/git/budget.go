package git

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
)

// The defaults of budgets.
const (
	// PoolDisk is in bytes: two packs at their limit.
	PoolDisk = 2 * DefaultMaxPack
	// PoolMemory is in bytes: twice what the largest fetch holds, which is the trees of
	// one commit, an object and the bases of deltas.
	PoolMemory = 1 << 30
)

// overBudget is no fault of what the repository holds: the same may be read later.
func overBudget(msg, remedy string) error { return fail(CodeBudget, msg, remedy, nil) }

// Budget is what fetches may come to together, however many they are. Each is bounded
// by Limits alone, and a server that lies could spend them again and again.
type Budget struct{ received, inflated atomic.Int64 }

// NewBudget is one of so many bytes received, and made of the packs among them.
func NewBudget(received, inflated int64) *Budget {
	b := &Budget{}
	b.received.Store(received)
	b.inflated.Store(inflated)
	return b
}

// LookBudget is for one look at a task: what a single fetch may come to.
func LookBudget() *Budget { return NewBudget(DefaultMaxPack, DefaultMaxUnpacked) }

type budgetKey struct{}

// On returns a context whose fetches are paid out of the budget, and out of no other.
func (b *Budget) On(ctx context.Context) context.Context {
	return context.WithValue(ctx, budgetKey{}, b)
}

// Unbudgeted returns a context whose fetches are bounded each by itself.
func Unbudgeted(ctx context.Context) context.Context { return (*Budget)(nil).On(ctx) }

// BudgetOf is the budget of a context's fetches; nil where each is bounded by itself.
func BudgetOf(ctx context.Context) *Budget {
	b, _ := ctx.Value(budgetKey{}).(*Budget)
	return b
}

func (b *Budget) receive(n int64) error {
	if b == nil || b.received.Add(-n) >= 0 {
		return nil
	}
	return overBudget("the server sent more than all that is fetched here together may come to", "see what the server sends; it is tried again later")
}

func (b *Budget) inflate(n int64) error {
	if b == nil || b.inflated.Add(-n) >= 0 {
		return nil
	}
	return overBudget("the server's packs hold more, inflated, than all that is fetched here together may come to", "see what the server sends; it is tried again later")
}

// Pool bounds what the repositories of a process hold at one time of what servers are
// sending: bytes in temporary files, and in memory. One repository has at most half.
type Pool struct{ disk, memory share }

// NewPool is one of so many bytes.
func NewPool(disk, memory int64) *Pool {
	p := &Pool{}
	p.disk.left, p.memory.left = disk, memory
	p.disk.all, p.memory.all = disk, memory
	return p
}

// half is the share of one repository.
func (p *Pool) half() *Pool {
	h := NewPool(p.disk.all/2, p.memory.all/2)
	h.disk.of, h.memory.of = &p.disk, &p.memory
	return h
}

// share is a number of bytes, which may be part of another.
type share struct {
	mu        sync.Mutex
	left, all int64
	of        *share
}

// take takes n bytes or none; a negative n gives them back.
func (s *share) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.left || s.of != nil && !s.of.take(n) {
		return false
	}
	s.left -= n
	return true
}

// hold is what one fetch has of a share.
type hold struct {
	of   *share
	what string
	n    int64
}

// set makes it n bytes; 0 gives all back.
func (h *hold) set(n int64) error {
	if h.of == nil || h.of.take(n-h.n) {
		h.n = n
		return nil
	}
	return overBudget("what servers are sending takes more "+h.what+" than there is for it, "+strconv.FormatInt(h.of.all, 10)+" bytes for one repository",
		"it is tried again; see which server sends so much, or have fewer repositories looked at together")
}

// close gives all back.
func (h *hold) close() { _ = h.set(0) } // giving back never fails
