package report

import (
	"bytes"
	"io"
	"strings"
)

// maxPending is how much of an unfinished line is held back, in bytes. A secret
// is shorter, so one that is cut by it is still found in what remains.
const maxPending = 64 << 10

// Writer passes a stream on without the secrets. A line is held back until it
// ends, so that a secret that comes in two writes is whole when it is looked
// for; so is what may be the beginning of a secret of several lines. Close
// writes what is left and does not close the destination.
type Writer struct {
	redactor *Redactor
	dst      io.Writer
	pending  []byte
}

// Writer returns a redacting writer in front of dst, for one goroutine.
func (r *Redactor) Writer(dst io.Writer) *Writer { return &Writer{redactor: r, dst: dst} }

// Write takes all of p; an error is the destination's.
func (w *Writer) Write(p []byte) (int, error) {
	w.pending = append(w.pending, p...)
	if n := w.ready(); n > 0 {
		if err := w.flush(n); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close writes what was held back.
func (w *Writer) Close() error {
	if len(w.pending) == 0 {
		return nil
	}
	return w.flush(len(w.pending))
}

func (w *Writer) flush(n int) error {
	_, err := io.WriteString(w.dst, w.redactor.String(string(w.pending[:n])))
	w.pending = append(w.pending[:0], w.pending[n:]...)
	return err
}

// ready is how many bytes can go: whole lines, less what may go on as a secret.
func (w *Writer) ready() int {
	n := bytes.LastIndexAny(w.pending, "\r\n") + 1
	if n > 0 {
		n = w.beforeOpenKey(n)
		n = w.beforePartial(n)
	}
	if n == 0 && len(w.pending) > maxPending {
		// A line, or a key, without an end. Half of it goes; the cut falls on
		// white space where there is some, which no token has.
		n = len(w.pending) / 2
		if i := bytes.LastIndexAny(w.pending[:n], " \t\n"); i >= 0 {
			n = i + 1
		}
		n = w.beforePartial(n)
	}
	return n
}

// beforeOpenKey moves n before a private key that has begun and not ended.
func (w *Writer) beforeOpenKey(n int) int {
	text := w.pending[:n]
	begin := bytes.LastIndex(text, []byte(keyBegin))
	if begin < 0 || len(w.pending)-begin > maxPending || bytes.Contains(text[begin:], []byte(keyEnd)) {
		return n
	}
	return begin
}

// beforePartial moves n so that no known secret lies across it.
func (w *Writer) beforePartial(n int) int {
	if w.redactor == nil {
		return n
	}
	for moved := true; moved; {
		moved = false
		for _, needle := range w.redactor.needles {
			for from := max(0, n-len(needle)+1); from < n; from++ {
				if rest := string(w.pending[from:min(len(w.pending), from+len(needle))]); strings.HasPrefix(needle, rest) {
					n, moved = from, true
					break
				}
			}
		}
	}
	return n
}
