package webhook

import (
	"net/netip"
	"sync"
	"time"

	"github.com/writbot/writ/kernel"
)

// budget bounds what the receiver has in flight: deliveries, and the bytes of their
// bodies. No delivery waits for it, so that two large bodies can't wait for each other:
// where it is full, another delivery is evicted, as crowd.go says, or the new one is
// refused at once with webhook.busy.
type budget struct {
	deliveries int
	bytes      int64
	perClient  int // deliveries of one client network; 0: no bound
	grace      time.Duration
	evicted    func() // counts an eviction

	mu    sync.Mutex
	used  usage
	peak  usage // the most that there ever was; tests hold it against the bounds
	slots map[*slot]struct{}
}

type usage struct {
	deliveries int
	bytes      int64
}

// slot is one delivery in flight. Its fields are guarded by the budget.
type slot struct {
	of       *budget
	client   netip.Addr // the network that it comes from
	proxy    bool       // its client is one of the operator's proxies, and counts as many
	known    bool       // deliveries of this client were verified before
	since    time.Time
	onEvict  func() // ends the reading of its body
	verified bool   // its signature holds: it is never evicted
	bytes    int64
	released bool // it is evicted, or over
}

// admit takes a delivery up, or says why there is no room for it.
func (b *budget) admit(s *slot) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.of, s.since = b, time.Now()
	if b.perClient > 0 && !s.proxy && b.ofClient(s.client) >= b.perClient {
		return refuse(kernel.CodeWebhookBusy, "Its address has as many in flight as one address may.")
	}
	if b.used.deliveries >= b.deliveries && !b.evictFor(s, 0) {
		return refuse(kernel.CodeWebhookBusy, "")
	}
	if b.slots == nil {
		b.slots = map[*slot]struct{}{}
	}
	b.slots[s] = struct{}{}
	b.used.deliveries++
	b.peak.deliveries = max(b.peak.deliveries, b.used.deliveries)
	return nil
}

func (b *budget) ofClient(client netip.Addr) (n int) {
	for s := range b.slots {
		if s.client == client && !s.proxy {
			n++
		}
	}
	return n
}

// evictFor evicts the first, in the order of crowd.go, of the deliveries that hold at
// least so many bytes. It reports whether there was one.
func (b *budget) evictFor(s *slot, bytes int64) bool {
	var first *slot
	for other := range b.slots {
		if other == s || other.verified || other.bytes < bytes || other.known && !s.known ||
			time.Since(other.since) < b.grace && (other.known || !s.known) {
			continue
		}
		if first == nil || first.known && !other.known || first.known == other.known && other.since.Before(first.since) {
			first = other
		}
	}
	if first == nil {
		return false
	}
	b.free(first)
	if first.onEvict != nil {
		first.onEvict()
	}
	if b.evicted != nil {
		b.evicted()
	}
	return true
}

// evictedError is what the sender of an evicted delivery is told.
func evictedError() error {
	return refuse(kernel.CodeWebhookBusy, "It was on its way when its place was needed for another.")
}

// hold counts n bytes more (fewer, if negative) for this delivery.
func (s *slot) hold(n int64) error {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.released {
		return evictedError()
	}
	for n > b.bytes-b.used.bytes {
		if !b.evictFor(s, 1) {
			return refuse(kernel.CodeWebhookBusy, "Its body doesn't fit beside the others.")
		}
	}
	b.used.bytes += n
	b.peak.bytes = max(b.peak.bytes, b.used.bytes)
	s.bytes += n
	return nil
}

// release gives everything back. Only the first call counts.
func (s *slot) release() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.free(s)
}

func (b *budget) free(s *slot) {
	if s.released {
		return
	}
	s.released = true
	delete(b.slots, s)
	b.used.deliveries--
	b.used.bytes -= s.bytes
}

func (b *budget) usage() usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
