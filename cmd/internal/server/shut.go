package server

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/kernel"
)

const (
	// shutWithin is how often repositories that are closed for one reason make a line.
	shutWithin = time.Minute
	// shutNamed is how many of them a line names; /readyz has all.
	shutNamed = 5
)

// shutLines bounds the lines about repositories that don't open: two hundred that a
// token doesn't reach are one line, and then one a minute.
type shutLines struct {
	log   *slog.Logger
	after func(time.Duration, func()) // calls later

	mu   sync.Mutex
	held map[kernel.Code][]string // by reason: names that no line has told yet
}

func newShutLines(log *slog.Logger) *shutLines {
	return &shutLines{log: log, held: map[kernel.Code][]string{}, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// tell tells of a repository at once, or with others within a minute.
func (s *shutLines) tell(name string, code kernel.Code, now func()) {
	s.mu.Lock()
	held, wait := s.held[code]
	if wait {
		if !slices.Contains(held, name) {
			s.held[code] = append(held, name)
		}
		s.mu.Unlock()
		return
	}
	s.held[code] = []string{}
	s.mu.Unlock()
	now()
	s.after(shutWithin, func() { s.sum(code) })
}

// sum tells of those that were held back.
func (s *shutLines) sum(code kernel.Code) {
	s.mu.Lock()
	names := s.held[code]
	if delete(s.held, code); len(names) > 0 {
		s.held[code] = []string{} // for another minute
	}
	s.mu.Unlock()
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	shown := strings.Join(names[:min(len(names), shutNamed)], " ")
	if more := len(names) - shutNamed; more > 0 {
		shown += " …"
	}
	s.log.Warn("more repositories were closed for the same reason: /readyz names each that still is", "count", len(names), "code", string(code), "repositories", shown, "remedy", code.Info().Remedy)
	s.after(shutWithin, func() { s.sum(code) })
}
