package webhook

import (
	"time"

	"github.com/writbot/writ/kernel"
)

// Limits bound what senders can make the receiver do. A field that is zero has
// its default.
type Limits struct {
	Body        int64         // bytes of one body
	Memory      int64         // bytes of all bodies in hand; at least twice Body
	InHand      int           // deliveries at once
	Connections int           // connections of a listener at once
	PerAddress  int           // connections, and deliveries in hand, of one address; with Proxies only
	Grace       time.Duration // how long whoever sends is left alone when the two are full
	Header      int           // bytes of a request's head
	HeaderTime  time.Duration // for a request's head
	RequestTime time.Duration // for a whole request, its head included
	IdleTime    time.Duration // between the requests of a connection
	Store       time.Duration // for the hand-over to the inbox
	Probe       time.Duration // for each check of /readyz
	Shutdown    time.Duration // for the requests in hand when Run's context ends
}

// DefaultLimits say why each is what it is.
func DefaultLimits() Limits {
	return Limits{
		Body:        25 << 20,               // the largest that GitHub sends
		Memory:      128 << 20,              // two of the largest while they grow, thousands of the usual ones
		InHand:      256,                    // four times the connections that are measured
		Connections: 1024,                   // the usual limit of open files
		PerAddress:  64,                     // forges send tens at once
		Grace:       50 * time.Millisecond,  // a head, and most bodies, are one packet
		Header:      32 << 10,               // proxies add some
		HeaderTime:  5 * time.Second,        // a head is one packet
		RequestTime: 10 * time.Second,       // forges give up after ten
		IdleTime:    30 * time.Second,       //
		Store:       900 * time.Millisecond, // an answer within the second
		Probe:       time.Second,            // the usual time-out of who asks
		Shutdown:    10 * time.Second,       // as long as a request may take
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	orInt64 := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	orInt := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	orTime := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	orInt64(&l.Body, d.Body)
	orInt64(&l.Memory, max(d.Memory, 2*l.Body))
	orInt(&l.InHand, d.InHand)
	orInt(&l.Connections, d.Connections)
	orInt(&l.PerAddress, d.PerAddress)
	orTime(&l.Grace, d.Grace)
	orInt(&l.Header, d.Header)
	orTime(&l.HeaderTime, d.HeaderTime)
	orTime(&l.RequestTime, d.RequestTime)
	orTime(&l.IdleTime, d.IdleTime)
	orTime(&l.Store, d.Store)
	orTime(&l.Probe, d.Probe)
	orTime(&l.Shutdown, d.Shutdown)
	return l
}

// check refuses limits under which the largest body could never be taken: while
// a body grows it is in memory twice.
func (l Limits) check() error {
	if l.Memory/2 < l.Body {
		return refuse(kernel.CodeConfigInvalid, "The memory for bodies in hand must be at least twice the largest body.")
	}
	return nil
}
