package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/writbot/writ/kernel"
)

// net/http closes the connection of a sender whose head comes too slowly
// without a word. What follows gives it the word: 408.

// watchedListener gives such connections.
type watchedListener struct{ net.Listener }

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c}, nil
}

// watchedConn knows whether the head of a request was begun and not finished in
// time. Reads of a handler are the handler's matter.
type watchedConn struct {
	net.Conn
	busy     atomic.Bool // from a head's end to the end of its answer
	begun    atomic.Bool // some of a head has come
	timedOut atomic.Bool // its last read
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.busy.Load() {
		c.timedOut.Store(errors.Is(err, os.ErrDeadlineExceeded))
		if n > 0 {
			c.begun.Store(true)
		}
	}
	return n, err
}

// connState is called by the connection's own goroutine.
func connState(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*watchedConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		c.busy.Store(true)
	case http.StateIdle:
		c.begun.Store(false)
		c.timedOut.Store(false)
		c.busy.Store(false)
	}
}

// Close says why, if a head came too slowly.
func (c *watchedConn) Close() error {
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
