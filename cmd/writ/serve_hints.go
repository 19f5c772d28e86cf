package main

import (
	"context"
	"slices"
	"sync"

	"github.com/writbot/writ/webhook"
)

// hints name worlds that are to be swept now, because a forge told that what
// writ may do there has changed. They are not made durable: whoever starts
// sweeps anyway.
type hints struct {
	*sync.Mutex
	worlds map[string]bool
	signal chan struct{}
}

func newHints() hints {
	return hints{&sync.Mutex{}, map[string]bool{}, make(chan struct{}, 1)}
}

func (h hints) add(worlds []string) {
	h.Lock()
	for _, w := range worlds {
		h.worlds[w] = true
	}
	h.Unlock()
	select {
	case h.signal <- struct{}{}:
	default: // one is on its way
	}
}

// take returns them and forgets them.
func (h hints) take() (worlds []string) {
	h.Lock()
	defer h.Unlock()
	for w := range h.worlds {
		worlds = append(worlds, w)
	}
	clear(h.worlds)
	slices.Sort(worlds)
	return worlds
}

// told is an inbox whose deliveries about what writ may do, and about pushes to the
// base, have worlds looked at.
type told struct {
	webhook.Inbox
	s *server
}

// Accept implements webhook.Inbox.
func (t told) Accept(ctx context.Context, d webhook.Delivery) (duplicate bool, err error) {
	duplicate, err = t.Inbox.Accept(ctx, d)
	if w := d.Event.Pushed; err == nil && w != "" {
		t.s.bases.add([]string{w})
	}
	if a := d.Event.Access; err == nil && a != nil {
		t.s.hints.add(a.Worlds)
	}
	return duplicate, err
}
