package server

import (
	"context"
	"slices"
	"sync"

	"github.com/writbot/writ/cmd/internal/wire"
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

// forgeHints are those of each forge, by its name.
type forgeHints map[string]hints

func newForgeHints() forgeHints {
	all := forgeHints{}
	for _, forge := range wire.ForgeNames() {
		all[forge] = hints{&sync.Mutex{}, map[string]bool{}, make(chan struct{}, 1)}
	}
	return all
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

// keep is add for one whose turn hasn't come: it tells nobody.
func (h hints) keep(world string) {
	h.Lock()
	h.worlds[world] = true
	h.Unlock()
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

// following is an inbox that calls then with each delivery that it stored.
type following struct {
	webhook.Inbox
	then func(webhook.Delivery)
}

// Accept implements webhook.Inbox.
func (f following) Accept(ctx context.Context, d webhook.Delivery) (duplicate bool, err error) {
	if duplicate, err = f.Inbox.Accept(ctx, d); err == nil {
		f.then(d)
	}
	return duplicate, err
}
