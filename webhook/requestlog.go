package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/writbot/writ/kernel"
)

// note is what is known of a request, for its line in the log and its count.
// It never holds a body, a secret, or text that was sent and not checked.
type note struct {
	hook     string
	delivery string // of the form deliveryID
	event    Event
	bytes    int // of the body
	outcome  string
	code     kernel.Code
	cause    error // what the code was made of
	failed   error // the answer could not be written
}

const noteKey = "writ.note"

func noteOf(c echo.Context) *note {
	n, ok := c.Get(noteKey).(*note)
	if !ok {
		n = &note{}
		c.Set(noteKey, n)
	}
	return n
}

// watch writes one line for each delivery that is taken, a bounded number for other
// requests, and counts deliveries. It is the outermost middleware, so that it sees what
// the sender sees.
func (s *Server) watch(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := s.now()
		n := noteOf(c)
		if err := next(c); err != nil {
			s.answerError(err, c)
		}
		status := c.Response().Status
		if n.outcome == "" && n.code != "" {
			n.outcome = outcomeRefused
			if status >= http.StatusInternalServerError {
				n.outcome = outcomeFailed
			}
		}
		took := s.now().Sub(began)
		if n.hook != "" {
			s.metrics.delivery(n, took)
		}
		level := slog.LevelInfo
		switch {
		case status >= http.StatusInternalServerError:
			level = slog.LevelWarn
		case n.code == kernel.CodeRecursion: // the forge tells writ of what writ did
			level = slog.LevelDebug
		}
		ctx := c.Request().Context()
		if !s.log.Enabled(ctx, level) {
			return nil
		}
		if taken := n.outcome == outcomeAccepted || n.outcome == outcomeDuplicate; !taken &&
			!s.sparse.admits(cause{c.Path(), n.hook, n.outcome, string(n.code), status}, level) {
			return nil
		}
		attrs := make([]slog.Attr, 0, 16)
		attrs = append(attrs, slog.String("method", method(c.Request())), slog.String("path", c.Path()),
			slog.Int("status", status), slog.Int64("duration_us", took.Microseconds()), slog.String("remote", c.Request().RemoteAddr))
		s.log.LogAttrs(ctx, level, "request", n.appendTo(attrs)...)
		return nil
	}
}

func (n *note) appendTo(attrs []slog.Attr) []slog.Attr {
	if n.hook != "" {
		attrs = append(attrs, slog.String("hook", n.hook), slog.String("delivery", n.delivery), slog.Int("bytes", n.bytes),
			slog.String("outcome", n.outcome), slog.String("event", n.event.Kind), slog.String("action", n.event.Action))
	}
	if len(n.event.Keys) > 0 {
		attrs = append(attrs, slog.String("world", n.event.Keys[0].World), slog.Int64("task", n.event.Keys[0].Task))
	}
	if more := len(n.event.Keys) - 1; more > 0 {
		attrs = append(attrs, slog.Int("more_tasks", more))
	}
	if n.code != "" {
		attrs = append(attrs, slog.String("code", string(n.code)))
	}
	if n.cause != nil {
		attrs = append(attrs, slog.String("error", n.cause.Error()))
	}
	var p *panicked
	if errors.As(n.cause, &p) {
		attrs = append(attrs, slog.String("stack", p.stack))
	}
	if n.failed != nil {
		attrs = append(attrs, slog.String("answer", n.failed.Error()))
	}
	return attrs
}

const (
	// linesPerCause is how many requests of one cause have a line of their own in a
	// stretch; of the others their number is logged when the stretch ends. A sender that
	// is turned away may send as often as it likes, and a disk that is full of log ends
	// the server.
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

// admits counts a request, and reports whether it gets a line of its own. Stretches
// that are over are ended first.
func (s *sparse) admits(c cause, level slog.Level) bool {
	now := s.now()
	s.endStretches(func(st *stretch) bool { return now.Sub(st.began) >= stretchTime })
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

// endStretches ends those of which that is true, and logs how many requests of each had no
// line.
func (s *sparse) endStretches(ends func(*stretch) bool) {
	type ended struct {
		cause
		stretch
	}
	var all []ended
	s.mu.Lock()
	for c, st := range s.causes {
		if ends(st) {
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
