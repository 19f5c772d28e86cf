package server

import (
	"context"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/wire"
)

// eachForge runs a part of the server for each forge by itself, until all have ended: a
// forge that is slow, or a fault, delays no other's.
func (s *server) eachForge(ctx context.Context, name string, part func(ctx context.Context, forge string)) error {
	var all sync.WaitGroup
	for _, forge := range wire.ForgeNames() {
		all.Go(func() {
			_ = s.endure(ctx, name+" of "+forge, func(ctx context.Context) error { part(ctx, forge); return nil }) // no other error
		})
	}
	all.Wait()
	return nil
}

// turnWithin is how long a world may keep the others of its forge from their turn. One
// whose git server hangs goes on beside them: each exchange is bounded by itself, so only
// a few do so at once.
const turnWithin = 10 * time.Second

// turns are taken by the worlds of a forge, one after another. Who gives them is one
// goroutine.
type turns struct {
	s     *server
	hints hints    // told after each turn
	under sync.Map // worlds whose turn hasn't ended
	all   sync.WaitGroup
}

func (s *server) newTurns(h hints) *turns { return &turns{s: s, hints: h} }

// take gives a world its turn and waits for it, not longer than turnWithin. False: its
// last one hasn't ended.
func (t *turns) take(w *served, f func()) bool {
	if _, busy := t.under.LoadOrStore(w.World, true); busy {
		return false
	}
	ended := make(chan struct{})
	t.all.Go(func() {
		defer close(ended)
		defer t.hints.add(nil) // who kept a hint for this world takes it up now
		defer t.under.Delete(w.World)
		t.s.ofWorld(w, f)
	})
	timer := time.NewTimer(t.s.turn)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	return true
}

// wait waits until every turn has ended.
func (t *turns) wait() { t.all.Wait() }
