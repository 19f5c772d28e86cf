package builder

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// tailBytes bounds the part of a stream that travels with the evidence;
	// hash and length are of all of it.
	tailBytes = 16 << 10
	// keepBytes bounds what is kept of a stream while it runs. Half of it is the
	// tail, twice what travels.
	keepBytes = 4 * tailBytes
	// maxSecretBytes is left out where a capture was cut: the cut may have gone
	// through a secret, whose second half no redactor knows.
	maxSecretBytes = 4 << 10
	// longLine is when a line of the live tail may have been cut by the capture,
	// which counts bytes that are not shown, too. Its last part, as long as the
	// longest secret of one line, is then left out for the same reason.
	longLine = sandbox.MaxLineBytes / 2
	// maxDetailBytes bounds the sentence of a violation.
	maxDetailBytes = 2 << 10
)

// stream is a capture that notes when something was written.
type stream struct {
	sandbox.Capture
	begin time.Time
	last  *atomic.Int64
	spoke func()
}

func (s *stream) Write(p []byte) (int, error) {
	s.spoke()
	s.last.Store(int64(time.Since(s.begin)))
	return s.Capture.Write(p)
}

// newWatch captures for a process that is about to start. Lines of both streams
// go to onLine, redacted and one at a time.
func (l *Local) newWatch(onLine func(string)) *watch {
	w := &watch{begin: time.Now(), said: make(chan struct{})}
	spoke := sync.OnceFunc(func() { close(w.said) })
	var live func(string)
	if onLine != nil {
		var turn sync.Mutex
		live = func(line string) {
			line = l.liveLine(line)
			turn.Lock()
			defer turn.Unlock()
			onLine(line)
		}
	}
	capture := func() *stream {
		return &stream{Capture: sandbox.Capture{Cap: keepBytes, OnLine: live}, begin: w.begin, last: &w.last, spoke: spoke}
	}
	w.stdout, w.stderr = capture(), capture()
	return w
}

// evidence is a stream as it is kept: hash and length of all, a redacted tail.
func (l *Local) evidence(s *stream) kernel.Stream {
	return kernel.Stream{Digest: canon.Digest(s.Digest()), Bytes: s.Total(), Tail: l.tailOf(&s.Capture)}
}

func (l *Local) tailOf(c *sandbox.Capture) string {
	text := l.cfg.Redact(c.TailText(keepBytes))
	if c.Dropped() == 0 {
		return tail(text, tailBytes)
	}
	text = text[min(maxSecretBytes, len(text)):]
	return tail(cutMark+strings.ToValidUTF8(text, ""), tailBytes)
}

// liveLine is a line as it is shown.
func (l *Local) liveLine(line string) string {
	shown := l.cfg.Redact(line)
	if len(line) < longLine {
		return shown
	}
	return strings.ToValidUTF8(shown[:max(len(shown)-longLine, 0)], "") + "…"
}

// cutMark stands where the beginning of a text is missing.
const cutMark = "…\n"

// tail cuts a text to its last n bytes, at a line's start where there is one.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		s = s[i+1:]
	}
	return cutMark + strings.ToValidUTF8(s, "")
}

// clean makes a text of a builder fit to be kept: valid, without characters
// that steer a terminal, redacted, within a bound.
func (l *Local) clean(text string, limit int) string {
	c := sandbox.Capture{Cap: 4 * int64(limit)}
	_, _ = c.Write([]byte(text)) // never fails
	return tail(l.cfg.Redact(c.TailText(4*limit)), limit)
}

// cleanAll is clean for names. It never returns nil: a record has no nulls here.
func (l *Local) cleanAll(list []string, limit int) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = l.clean(s, limit)
	}
	return out
}

// plain makes violations fit to be kept, each once, and puts them in the
// kernel's order.
func (l *Local) plain(list []kernel.Violation) []kernel.Violation {
	out := make([]kernel.Violation, len(list))
	for i, v := range list {
		out[i] = kernel.Violation{Code: v.Code, Subject: l.clean(v.Subject, maxDetailBytes), Detail: l.clean(v.Detail, maxDetailBytes)}
	}
	return slices.Compact(kernel.SortViolations(out))
}
