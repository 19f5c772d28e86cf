package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// pktKind is what a pkt-line is.
type pktKind int

const (
	pktData  pktKind = iota
	pktFlush         // 0000
	pktDelim         // 0001, protocol version 2
	pktEnd           // 0002, protocol version 2
)

// maxPkt is the longest pkt-line in bytes, its length included (gitprotocol-common).
const maxPkt = 65520

// errServer holds words that the server sent in an ERR line or on the error band.
type errServer struct{ words string }

func (e *errServer) Error() string { return "the server says: " + e.words }

// pktReader reads pkt-lines. Protocol version 2 has delimiters that go-git's
// scanner takes for errors, hence our own.
type pktReader struct {
	r   io.Reader
	buf []byte
}

// next returns the payload, valid until the next call.
func (p *pktReader) next() (pktKind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, nil, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil || n == 3 || n > maxPkt {
		return 0, nil, fail(CodeProtocol, "the server does not speak git", "check the URL", nil)
	}
	if n < 4 {
		return pktKind(n + 1), nil, nil
	}
	if cap(p.buf) < int(n)-4 {
		p.buf = make([]byte, maxPkt)
	}
	b := p.buf[:n-4]
	if _, err := io.ReadFull(p.r, b); err != nil {
		return 0, nil, noEOF(err)
	}
	if bytes.HasPrefix(b, []byte("ERR ")) {
		return 0, nil, &errServer{string(bytes.TrimSpace(b[4:]))}
	}
	return pktData, b, nil
}

// noEOF turns an end in the middle of something into an error of its own.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func appendPkt(b []byte, format string, args ...any) []byte {
	s := fmt.Sprintf(format, args...)
	return append(fmt.Appendf(b, "%04x", len(s)+4), s...)
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
		d.err = noEOF(err)
	case kind != pktData:
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
}

func (l *limitReader) Read(b []byte) (int, error) {
	if l.n <= 0 {
		return 0, tooLarge(l.what, 0)
	}
	if int64(len(b)) > l.n {
		b = b[:l.n]
	}
	n, err := l.r.Read(b)
	l.n -= int64(n)
	return n, err
}
