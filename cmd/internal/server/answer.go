package server

import (
	"sync"
	"time"
)

// How long an answer of git or of a forge is given again to who asks /readyz,
// unless a sweep asks them meanwhile. Anybody may ask, and often: it must not use
// up what a forge allows.
const (
	wellFor    = 5 * time.Minute
	failingFor = 30 * time.Second
)

// cachedAnswer is what somebody was last answered. Any goroutine may use it.
type cachedAnswer struct {
	mu  sync.Mutex
	at  time.Time // zero: nobody asked yet
	err error
}

// ask gives the last answer again, or asks for another one.
func (l *cachedAnswer) ask(now time.Time, ask func() error) error {
	l.mu.Lock()
	at, err := l.at, l.err
	l.mu.Unlock()
	holds := wellFor
	if err != nil {
		holds = failingFor
	}
	if !at.IsZero() && now.Sub(at) < holds {
		return err
	}
	err = ask()
	l.mu.Lock()
	l.at, l.err = now, err
	l.mu.Unlock()
	return err
}

// forget has it asked anew.
func (l *cachedAnswer) forget() {
	l.mu.Lock()
	l.at = time.Time{}
	l.mu.Unlock()
}
