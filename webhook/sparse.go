package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// linesPerCause is how many requests of one cause have a line of their own in a
	// stretch; of the others their number is said when it is over. Whoever is turned
	// away may send as often as he likes, and a disk that is full of log ends the
	// server.
	linesPerCause = 20
	stretchTime   = time.Minute
	// maxCauses are told apart; there are fewer, unless other rooms add pages without
	// end.
	maxCauses = 256
)

// cause is what requests have in common that are counted together. Nothing of it is a
// sender's own words.
type cause struct {
	path, hook, outcome, code string
	status                    int
}

// stretch counts the requests of a cause.
type stretch struct {
	began time.Time
	n     int64
	level slog.Level // of the last
}

// sparse bounds the lines of requests that bring nothing.
type sparse struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	causes map[cause]*stretch
}

// admits counts a request, and reports whether it gets a line of its own. The sums of
// stretches that are over are written first.
func (s *sparse) admits(c cause, level slog.Level) bool {
	now := s.now()
	s.sum(func(st *stretch) bool { return now.Sub(st.began) >= stretchTime })
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.causes[c]
	if st == nil {
		if len(s.causes) >= maxCauses {
			c = cause{code: "other"}
		}
		if st = s.causes[c]; st == nil {
			st = &stretch{began: now}
			s.causes[c] = st
		}
	}
	st.n, st.level = st.n+1, level
	return st.n <= linesPerCause
}

// sum ends stretches, and says how many requests of each had no line.
func (s *sparse) sum(over func(*stretch) bool) {
	type ended struct {
		cause
		stretch
	}
	var all []ended
	s.mu.Lock()
	for c, st := range s.causes {
		if over(st) {
			all = append(all, ended{c, *st})
			delete(s.causes, c)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b ended) int { return strings.Compare(a.path+a.code, b.path+b.code) })
	for _, e := range all {
		if more := e.n - linesPerCause; more > 0 {
			s.log.LogAttrs(context.Background(), e.level, "more such requests, each without a line", slog.Int64("requests", more), slog.Time("since", e.began),
				slog.String("path", e.path), slog.Int("status", e.status), slog.String("hook", e.hook), slog.String("outcome", e.outcome), slog.String("code", e.code))
		}
	}
}

// method is a request's, if it is one of the usual: a sender may make up others.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}
