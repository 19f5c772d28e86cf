package webhook

import (
	"net/netip"
	"sync"
	"time"

	"github.com/writbot/writ/kernel"
)

// budget bounds what the receiver has in hand: deliveries, and the bytes of
// their bodies. Nobody waits for it, so that two large bodies can't wait for each
// other: what doesn't fit takes the place of a body that is on its way for longer
// than the grace (or of one whose sender was never verified, if its own was), and
// is else refused at once with webhook.busy.
type budget struct {
	deliveries int
	bytes      int64
	each       int // deliveries of one address; 0: as many as it likes
	grace      time.Duration
	gone       func() // counts a delivery that gave way

	mu    sync.Mutex
	used  usage
	peak  usage
	slots map[*slot]struct{}
}

type usage struct {
	deliveries int
	bytes      int64
}

// slot is one delivery in hand. Its fields are guarded by the budget.
type slot struct {
	of       *budget
	from     netip.Addr
	proxy    bool // the address is a proxy of the operator's, and counts as many
	known    bool // deliveries from this address were verified before
	since    time.Time
	cut      func() // ends the reading of its body
	kept     bool   // its signature holds: it gives way to nobody
	bytes    int64
	released bool
}

// admit takes a delivery in hand. Cut is called if it has to give way.
func (b *budget) admit(s *slot) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.of, s.since = b, time.Now()
	if b.each > 0 && !s.proxy && b.ofAddress(s.from) >= b.each {
		return refuse(kernel.CodeWebhookBusy, "Its address has as many in hand as one address may.")
	}
	if b.used.deliveries >= b.deliveries && !b.displace(s, 0) {
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

func (b *budget) ofAddress(who netip.Addr) (n int) {
	for s := range b.slots {
		if s.from == who && !s.proxy {
			n++
		}
	}
	return n
}

// displace has the body that is on its way longest, of those that hold at least so
// many bytes, give way to s.
func (b *budget) displace(s *slot, bytes int64) bool {
	var victim *slot
	for other := range b.slots {
		if other == s || other.kept || other.bytes < bytes || other.known && !s.known ||
			time.Since(other.since) < b.grace && (other.known || !s.known) {
			continue
		}
		if victim == nil || victim.known && !other.known || victim.known == other.known && other.since.Before(victim.since) {
			victim = other
		}
	}
	if victim == nil {
		return false
	}
	b.free(victim)
	if victim.cut != nil {
		victim.cut()
	}
	if b.gone != nil {
		b.gone()
	}
	return true
}

// gaveWay is what a delivery is told that had to.
func gaveWay() error {
	return refuse(kernel.CodeWebhookBusy, "It was on its way when its place was needed for another.")
}

// hold counts n bytes more (fewer, if negative) for this delivery.
func (s *slot) hold(n int64) error {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.released {
		return gaveWay()
	}
	for n > b.bytes-b.used.bytes {
		if !b.displace(s, 1) {
			return refuse(kernel.CodeWebhookBusy, "Its body doesn't fit beside the others.")
		}
	}
	b.used.bytes += n
	b.peak.bytes = max(b.peak.bytes, b.used.bytes)
	s.bytes += n
	return nil
}

// keep is called once the signature holds. It is too late where the delivery had to
// give way meanwhile.
func (s *slot) keep() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.released {
		return gaveWay()
	}
	s.kept = true
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

func (b *budget) now() usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
