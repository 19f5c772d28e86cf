package webhook

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Whoever sends slowly holds a connection, and with half a body a delivery's
// place. A server that waits for them until their time is over answers nobody
// meanwhile. So when one of the two is full, the one that has waited longest gives
// way to who comes: a sender whose deliveries never held a valid signature before
// one whose did, and never one that is being handed over.

// senders knows the addresses whose deliveries were verified, the latest ones.
type senders struct {
	proxies []netip.Prefix

	mu       sync.Mutex
	verified map[netip.Addr]uint64
	turn     uint64
}

// maxSenders bounds how many addresses are remembered: forges have tens.
const maxSenders = 1024

// add notes that a delivery from this address was verified.
func (s *senders) add(who netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verified == nil {
		s.verified = map[netip.Addr]uint64{}
	}
	s.turn++
	s.verified[who] = s.turn
	if len(s.verified) <= maxSenders {
		return
	}
	oldest := who
	for addr, turn := range s.verified {
		if turn < s.verified[oldest] {
			oldest = addr
		}
	}
	delete(s.verified, oldest)
}

func (s *senders) has(who netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verified[who] > 0
}

// proxy reports whether this is one of the operator's own proxies, which speak
// for others. It takes the address itself, and not its customer.
func (s *senders) proxy(who netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(who) })
}

// crowd keeps the connections of a listener below a number.
type crowd struct {
	net.Listener
	senders *senders
	most    int
	each    int // of one address that is no proxy; 0: as many as it likes
	grace   time.Duration
	gone    func() // counts a connection that gave way

	done chan struct{} // closed by Close
	once sync.Once
	left chan struct{} // a connection is gone, or its state is another

	mu   sync.Mutex
	in   map[*watchedConn]struct{}
	peak int
}

func newCrowd(l net.Listener, s *senders, limits Limits, gone func()) *crowd {
	c := &crowd{
		Listener: l, senders: s, most: limits.Connections, grace: limits.Grace, gone: gone,
		done: make(chan struct{}), left: make(chan struct{}, 1), in: map[*watchedConn]struct{}{},
	}
	if len(s.proxies) > 0 {
		c.each = limits.PerAddress
	}
	return c
}

// Accept gives the next connection as soon as there is room for it. One of an
// address that has as many as it may is closed at once.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := addressOf(conn.RemoteAddr().String())
		w := &watchedConn{Conn: conn, of: c, from: customer(peer), proxy: c.senders.proxy(peer)}
		w.known = c.senders.has(w.from)
		switch entered, err := c.enter(w); {
		case err != nil:
			_ = conn.Close()
			return nil, err
		case entered:
			return w, nil
		}
		_ = conn.Close()
		c.gone()
	}
}

// enter waits until there is room.
func (c *crowd) enter(w *watchedConn) (bool, error) {
	for {
		victim, wait, ok := c.room(w)
		if victim != nil {
			_ = victim.Conn.Close() // its goroutine finds out by itself
			c.gone()
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
		case <-c.left:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// room takes w in, or says who gives way to it, or how long to wait at most; w
// isn't let in at all (none of these) where its address has enough.
func (c *crowd) room(w *watchedConn) (victim *watchedConn, wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.each > 0 && !w.proxy && c.ofAddress(w.from) >= c.each {
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
		if victim == nil || other.before(victim) {
			victim = other
		}
	}
	if victim != nil {
		delete(c.in, victim)
	}
	return victim, wait, false
}

func (c *crowd) ofAddress(who netip.Addr) (n int) {
	for w := range c.in {
		if w.from == who && !w.proxy {
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
	case c.left <- struct{}{}:
	default:
	}
}

// Close ends the listener and whoever waits for room.
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

// customer is what an address is counted as: of IPv6 the network of one customer, since
// whoever has one address has all of these.
func customer(a netip.Addr) netip.Addr {
	a = plainAddress(a)
	if a.Is6() && !a.IsLoopback() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
