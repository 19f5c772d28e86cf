// Package pkt reads and writes pkt-lines, the frames of git's protocol
// (gitprotocol-common).
package pkt

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Kind is what a pkt-line is.
type Kind int

// The kinds. Delim and End came with protocol version 2.
const (
	Data  Kind = iota
	Flush      // 0000
	Delim      // 0001
	End        // 0002
)

// Max is the longest pkt-line in bytes, its length included.
const Max = 65520

// ErrMalformed says that what was read is no pkt-line.
var ErrMalformed = errors.New("malformed pkt-line")

// Reader reads pkt-lines, and not a byte more than they have.
type Reader struct {
	r   io.Reader
	buf []byte
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next returns the payload, valid until the next call. io.EOF says that r ended
// between two lines, io.ErrUnexpectedEOF that it ended within one.
func (p *Reader) Next() (Kind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, nil, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil || n == 3 || n > Max {
		return 0, nil, ErrMalformed
	}
	if n < 4 {
		return Kind(n + 1), nil, nil
	}
	if cap(p.buf) < int(n)-4 {
		p.buf = make([]byte, Max)
	}
	b := p.buf[:n-4]
	if _, err := io.ReadFull(p.r, b); err != nil {
		return 0, nil, NoEOF(err)
	}
	return Data, b, nil
}

// NoEOF turns an end in the middle of something into an error of its own.
func NoEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Append appends a line.
func Append(b []byte, format string, args ...any) []byte {
	s := fmt.Sprintf(format, args...)
	return append(fmt.Appendf(b, "%04x", len(s)+4), s...)
}
