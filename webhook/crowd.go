package webhook

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A slow sender holds a connection, and with half a body a delivery's place. A server
// that waits for such senders until their time is over answers none of the others
// meanwhile. So where the connections, the deliveries or the memory for bodies are full,
// the place of one is given to the newcomer: it is evicted. A client is a network, see
// [clientNetwork], and a known one has sent a delivery before whose signature held.
//
// What is never evicted:
//
//  1. a delivery whose signature holds, and a busy connection on which one was verified
//  2. a known client's delivery for an unknown client's
//  3. what is there, or changed from idle to busy or back, for less than Limits.Grace; but
//     an unknown client's is evicted for a known client's at once
//
// Of the others the first is evicted, in this order:
//
//   - deliveries: an unknown client's before a known one's; then the one that is on its way
//     longest. Where memory is short, only those that hold some
//   - connections: an unknown client's, a known one's, one on which a delivery was
//     verified; of these an idle one before a busy one; then the one that is so longest
//
// If there is none, a delivery is refused, and a connection waits.

// senders knows the clients whose deliveries were verified, the latest ones.
type senders struct {
	proxies []netip.Prefix

	mu       sync.Mutex
	verified map[netip.Addr]uint64
	turn     uint64
}

// maxSenders bounds how many clients are remembered: forges have tens.
const maxSenders = 1024

// add notes that a delivery of this client was verified.
func (s *senders) add(client netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verified == nil {
		s.verified = map[netip.Addr]uint64{}
	}
	s.turn++
	s.verified[client] = s.turn
	if len(s.verified) <= maxSenders {
		return
	}
	oldest := client
	for addr, turn := range s.verified {
		if turn < s.verified[oldest] {
			oldest = addr
		}
	}
	delete(s.verified, oldest)
}

func (s *senders) has(client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verified[client] > 0
}

// proxy reports whether this is one of the operator's own proxies, which speak
// for others. It takes the address itself, and not its client network.
func (s *senders) proxy(address netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// crowd keeps the connections of a listener below a number.
type crowd struct {
	net.Listener
	senders   *senders
	most      int
	perClient int // of one client network that is no proxy; 0: no bound
	grace     time.Duration
	evicted   func() // counts a connection that was evicted, or closed as it came

	done    chan struct{} // closed by Close
	once    sync.Once
	changed chan struct{} // a connection is closed, or its state is another

	mu   sync.Mutex
	in   map[*watchedConn]struct{}
	peak int // the most that there ever were; tests hold it against most
}

func newCrowd(l net.Listener, s *senders, limits Limits, evicted func()) *crowd {
	c := &crowd{
		Listener: l, senders: s, most: limits.Connections, grace: limits.Grace, evicted: evicted,
		done: make(chan struct{}), changed: make(chan struct{}, 1), in: map[*watchedConn]struct{}{},
	}
	if len(s.proxies) > 0 {
		c.perClient = limits.PerAddress
	}
	return c
}

// Accept gives the next connection as soon as there is room for it. One of a client that
// has as many as it may is closed at once.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := addressOf(conn.RemoteAddr().String())
		w := &watchedConn{Conn: conn, of: c, client: clientNetwork(peer), proxy: c.senders.proxy(peer)}
		w.known = c.senders.has(w.client)
		switch entered, err := c.enter(w); {
		case err != nil:
			_ = conn.Close()
			return nil, err
		case entered:
			return w, nil
		}
		_ = conn.Close()
		c.evicted()
	}
}

// enter waits until there is room.
func (c *crowd) enter(w *watchedConn) (bool, error) {
	for {
		evicted, wait, ok := c.admitOrEvict(w)
		if evicted != nil {
			_ = evicted.Conn.Close() // its goroutine finds out by itself
			c.evicted()
			continue
		}
		if wait == 0 {
			return ok, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.done:
			timer.Stop()
			return false, net.ErrClosed
		case <-c.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// admitOrEvict takes w in, or another connection out for it, or says how long to wait at
// most. Where it does none of these, w isn't let in: its client has enough.
func (c *crowd) admitOrEvict(w *watchedConn) (evicted *watchedConn, wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.perClient > 0 && !w.proxy && c.ofClient(w.client) >= c.perClient {
		return nil, 0, false
	}
	now := time.Now()
	if len(c.in) < c.most {
		c.in[w], w.since = struct{}{}, now
		c.peak = max(c.peak, len(c.in))
		return nil, 0, true
	}
	wait = time.Second // state changes end it sooner
	for other := range c.in {
		if other.verified && other.busy {
			continue
		}
		if stays := c.grace - now.Sub(other.since); stays > 0 && (other.known || !w.known) {
			wait = min(wait, stays)
			continue
		}
		if evicted == nil || other.evictedBefore(evicted) {
			evicted = other
		}
	}
	if evicted != nil {
		delete(c.in, evicted)
	}
	return evicted, wait, false
}

func (c *crowd) ofClient(client netip.Addr) (n int) {
	for w := range c.in {
		if w.client == client && !w.proxy {
			n++
		}
	}
	return n
}

// change is called with what happens to a connection.
func (c *crowd) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Close ends the listener, and the waiting for room.
func (c *crowd) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Listener.Close()
}

// addressOf is the address of a host and port, the zero one for none.
func addressOf(hostport string) netip.Addr {
	ap, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return netip.Addr{}
	}
	return plainAddress(ap.Addr())
}

// plainAddress is an address as networks are compared with it.
func plainAddress(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// clientNetwork is what an address is counted as: of IPv6 the network that a provider
// gives to one customer, since who has one of its addresses has all of them.
func clientNetwork(a netip.Addr) netip.Addr {
	a = plainAddress(a)
	if a.Is6() && !a.IsLoopback() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
