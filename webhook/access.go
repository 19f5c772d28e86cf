package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/labstack/echo/v4"

	"github.com/writbot/writ/kernel"
)

// note is what is known of a request, for its line in the log and its count.
// It never holds a body, a secret, or text that somebody sent and nobody
// checked.
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

// panicked is a panic as an error.
type panicked struct {
	text  string
	stack string
	abort bool // http.ErrAbortHandler, net/http's own way of breaking off an answer
}

func (p *panicked) Error() string { return "panic: " + p.text }

// sheltered runs f, whose panic becomes an error. The value of a panic may hold
// anything, a piece of a body too, so only the runtime's own are kept as they
// are.
func sheltered(f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		p := &panicked{text: fmt.Sprintf("a value of type %T", v), stack: string(debug.Stack())}
		if e, ok := v.(error); ok {
			var ofRuntime runtime.Error
			if errors.As(e, &ofRuntime) {
				p.text = ofRuntime.Error()
			}
			p.abort = errors.Is(e, http.ErrAbortHandler)
		}
		err = p
	}()
	return f()
}
