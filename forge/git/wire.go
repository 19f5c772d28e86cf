package git

import (
	"bytes"
	"errors"
	"io"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

// errServer holds words that the server sent in an ERR line or on the error band.
type errServer struct{ words string }

func (e *errServer) Error() string { return "the server says: " + e.words }

// pktReader reads a server's pkt-lines.
type pktReader struct {
	r *pkt.Reader
}

func newPktReader(r io.Reader) *pktReader { return &pktReader{pkt.NewReader(r)} }

// next returns the payload, valid until the next call.
func (p *pktReader) next() (pkt.Kind, []byte, error) {
	kind, b, err := p.r.Next()
	if errors.Is(err, pkt.ErrMalformed) {
		err = fail(CodeProtocol, "the server does not speak git", "check the URL", nil)
	}
	if err == nil && bytes.HasPrefix(b, []byte("ERR ")) {
		err = &errServer{string(bytes.TrimSpace(b[4:]))}
	}
	return kind, b, err
}

// The bands of a multiplexed answer.
const (
	bandData     = 1
	bandProgress = 2
	bandError    = 3
)

// demux reads band 1 of a multiplexed stream. What the server says on the other
// bands goes to words.
type demux struct {
	pkt     *pktReader
	words   *words
	pending []byte
	err     error
}

func (d *demux) Read(b []byte) (int, error) {
	for len(d.pending) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		d.fill()
	}
	n := copy(b, d.pending)
	d.pending = d.pending[n:]
	return n, nil
}

func (d *demux) fill() {
	kind, p, err := d.pkt.next()
	switch {
	case err != nil:
		d.err = pkt.NoEOF(err)
	case kind != pkt.Data:
		d.err = io.EOF
	case len(p) == 0:
	case p[0] == bandData:
		d.pending = p[1:]
	case p[0] == bandProgress:
		_, _ = d.words.Write(p[1:]) // never fails
	default:
		_, _ = d.words.Write(p[1:]) // never fails
		d.err = &errServer{string(bytes.TrimSpace(p[1:]))}
	}
}

// words keeps the first maxWords bytes written to it.
type words struct{ b []byte }

func (w *words) Write(p []byte) (int, error) {
	w.b = append(w.b, p[:min(len(p), maxWords-len(w.b))]...)
	return len(p), nil
}

// limitReader fails when more than n bytes are read, where io.LimitReader would
// make a cut answer look like a whole one.
type limitReader struct {
	r    io.Reader
	n    int64
	what string

	budget *Budget
}

func (l *limitReader) Read(b []byte) (int, error) {
	if l.n <= 0 {
		return 0, fail(CodeTooLarge, l.what+" is larger than the limit", "raise the limit if this is right", nil)
	}
	if int64(len(b)) > l.n {
		b = b[:l.n]
	}
	n, err := l.r.Read(b)
	l.n -= int64(n)
	if over := l.budget.receive(int64(n)); over != nil {
		return 0, over
	}
	return n, err
}
