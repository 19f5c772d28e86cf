package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/writbot/writ/kernel"
)

// net/http closes a connection without an answer when the head of a request comes too
// slowly. What follows answers 408.

// watchedConn knows whether the head of a request was begun and not finished in
// time. Reads of a handler are the handler's matter.
type watchedConn struct {
	net.Conn
	of       *crowd
	client   netip.Addr  // the network that it comes from
	proxy    bool        // its client is one of the operator's proxies, and counts as many
	known    bool        // deliveries of this client were verified when it came
	inside   atomic.Bool // from a head's end to the end of its answer
	begun    atomic.Bool // some of a head has come
	timedOut atomic.Bool // its last read

	// These are guarded by the crowd.
	since    time.Time // when it began what it does now
	busy     bool      // as inside
	verified bool      // a delivery on it was verified
}

// evictedBefore reports whether this one is evicted before another.
func (c *watchedConn) evictedBefore(other *watchedConn) bool {
	if a, b := c.rank(), other.rank(); a != b {
		return a < b
	}
	return c.since.Before(other.since)
}

// rank is lower the sooner a connection is evicted.
func (c *watchedConn) rank() (n int) {
	switch {
	case c.verified:
		n = 4
	case c.known:
		n = 2
	}
	if c.busy {
		n++
	}
	return n
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.inside.Load() {
		c.timedOut.Store(errors.Is(err, os.ErrDeadlineExceeded))
		if n > 0 {
			c.begun.Store(true)
		}
	}
	return n, err
}

// Close says why, if a head came too slowly.
func (c *watchedConn) Close() error {
	c.of.change(func() { delete(c.of.in, c) })
	if c.begun.Load() && c.timedOut.Load() {
		c.tooSlow()
	}
	return c.Conn.Close()
}

// tooSlow writes the answer by hand. It is small enough for any buffer, and the
// connection has its deadline for writing.
func (c *watchedConn) tooSlow() {
	body, err := json.Marshal(explain(kernel.CodeHeaderTimeout, ""))
	if err != nil {
		return
	}
	head := "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
	fmt.Fprintf(c.Conn, head, len(body), body)
}

type connKey struct{}

// sender is where a request comes from.
type sender struct {
	conn   *watchedConn // nil in tests of parts
	client netip.Addr   // the network behind the operator's proxies
	proxy  bool         // it is one of these, which named no client
}

func (s *Server) sender(r *http.Request) sender {
	conn, _ := r.Context().Value(connKey{}).(*watchedConn)
	from := addressOf(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for len(hops) > 0 && s.senders.proxy(from) {
		last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1]))
		if err != nil {
			break
		}
		from, hops = plainAddress(last), hops[:len(hops)-1]
	}
	return sender{conn, clientNetwork(from), s.senders.proxy(from)}
}

// verified notes that a delivery's signature holds.
func (s *Server) verified(from sender) {
	s.senders.add(from.client)
	if from.conn != nil {
		s.senders.add(from.conn.client)
		from.conn.of.change(func() { from.conn.verified = true })
	}
}

// abortRead ends the reading of a body, whose delivery is then answered.
func (c *watchedConn) abortRead() {
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// lingerTime is as long as net/http waits before it closes a connection on which more
// is sent: a reset could overtake the answer.
const lingerTime = 500 * time.Millisecond

// linger bounds how long the rest of an unwanted body is read.
func (c *watchedConn) linger() {
	_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
}
