package webhook

import (
	"sync"

	"github.com/writbot/writ/kernel"
)

// budget bounds what the receiver has in hand: deliveries, and the bytes of
// their bodies. Nobody waits for it: what doesn't fit is refused at once with
// webhook.busy, so that two large bodies can't wait for each other.
type budget struct {
	deliveries int
	bytes      int64

	mu   sync.Mutex
	used usage
	peak usage
}

type usage struct {
	deliveries int
	bytes      int64
}

// slot is one delivery in hand. It isn't safe for use by two goroutines at once;
// it may be given from one to another.
type slot struct {
	of       *budget
	bytes    int64
	released bool
}

// admit takes a delivery in hand.
func (b *budget) admit() (*slot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used.deliveries >= b.deliveries {
		return nil, refuse(kernel.CodeWebhookBusy, "")
	}
	b.used.deliveries++
	b.peak.deliveries = max(b.peak.deliveries, b.used.deliveries)
	return &slot{of: b}, nil
}

// hold counts n bytes more (fewer, if negative) for this delivery.
func (s *slot) hold(n int64) error {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.bytes-b.used.bytes {
		return refuse(kernel.CodeWebhookBusy, "Its body doesn't fit beside the others.")
	}
	b.used.bytes += n
	b.peak.bytes = max(b.peak.bytes, b.used.bytes)
	s.bytes += n
	return nil
}

// release gives everything back. Only the first call counts.
func (s *slot) release() {
	if s.released {
		return
	}
	s.released = true
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.deliveries--
	b.used.bytes -= s.bytes
}

func (b *budget) now() usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
