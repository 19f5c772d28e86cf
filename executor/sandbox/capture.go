package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// DefaultCaptureBytes is what a Capture keeps when not told: enough to see
	// why a build failed, small enough to travel with the evidence.
	DefaultCaptureBytes = 256 << 10
	// MaxLineBytes bounds a line given to OnLine; the rest of it is dropped.
	MaxLineBytes = 4 << 10
	// liveLinesPerWrite bounds the calls of OnLine for one Write, so that a
	// flood of short lines costs a person's tail, not the supervisor.
	liveLinesPerWrite = 64
)

// Capture is a writer that keeps the head and the tail of a stream within a
// cap and counts and hashes all of it. A gigabyte costs the time of SHA-256 and
// no memory. It never fails. It may be used by several writers at once.
//
// The zero value is ready and keeps DefaultCaptureBytes.
type Capture struct {
	// Cap bounds the bytes kept, head and tail together, half each. Zero:
	// DefaultCaptureBytes. It must not change after the first Write.
	Cap int64
	// OnLine, if set, is called for lines as they come, without the line end
	// and made safe to print, for a live tail. It must not block and must not
	// call the Capture. In a flood some lines are left out; Text and the digest
	// don't depend on it.
	OnLine func(line string)

	mu    sync.Mutex
	sum   hash.Hash
	total int64
	head  []byte
	ring  []byte // the tail, once head is full
	next  int    // where the ring is written next
	line  []byte // the unfinished line for OnLine
}

// Write implements io.Writer. It returns len(p) and no error, always.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hash().Write(p)
	c.total += int64(len(p))
	c.keep(p)
	if c.OnLine != nil {
		c.lines(p)
	}
	return len(p), nil
}

func (c *Capture) hash() hash.Hash {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	return c.sum
}

// sizes gives the room for head and tail.
func (c *Capture) sizes() (head, tail int) {
	n := c.Cap
	if n <= 0 {
		n = DefaultCaptureBytes
	}
	return int(n - n/2), int(n / 2)
}

// keep stores p in the head while there is room and in the ring after that.
func (c *Capture) keep(p []byte) {
	head, tail := c.sizes()
	if room := head - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > tail {
		p = p[len(p)-tail:]
		c.next = 0
		c.ring = c.ring[:0]
	}
	for len(p) > 0 {
		if len(c.ring) < tail {
			n := min(tail-len(c.ring), len(p))
			c.ring = append(c.ring, p[:n]...)
			p = p[n:]
			continue
		}
		n := copy(c.ring[c.next:], p)
		c.next = (c.next + n) % tail
		p = p[n:]
	}
}

// lines feeds OnLine.
func (c *Capture) lines(p []byte) {
	for calls := 0; ; {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			c.line = appendMax(c.line, p)
			return
		}
		if calls < liveLinesPerWrite {
			c.OnLine(printable(appendMax(c.line, p[:i])))
			calls++
		}
		c.line, p = c.line[:0], p[i+1:]
	}
}

// Flush gives OnLine a last line that had no line end.
func (c *Capture) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.OnLine != nil && len(c.line) > 0 {
		c.OnLine(printable(c.line))
		c.line = c.line[:0]
	}
}

// Total is the length of the whole stream.
func (c *Capture) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Digest is the SHA-256 of the whole stream, as "sha256:<hex>".
func (c *Capture) Digest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "sha256:" + hex.EncodeToString(c.hash().Sum(nil))
}

// Dropped is the number of bytes between head and tail that were not kept.
func (c *Capture) Dropped() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total - int64(len(c.head)) - int64(len(c.ring))
}

// Parts returns copies of head and tail, raw. While nothing was dropped the
// stream is head followed by tail.
func (c *Capture) Parts() (head, tail []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail = append(append([]byte(nil), c.ring[c.next:]...), c.ring[:c.next]...)
	return append([]byte(nil), c.head...), tail
}

// Text is what was kept as valid UTF-8 that is safe to print, with a line that
// tells what is missing.
func (c *Capture) Text() string {
	head, tail := c.Parts()
	dropped := c.Dropped()
	if dropped == 0 {
		return printable(append(head, tail...))
	}
	return printable(head) + fmt.Sprintf("\n[... %d bytes left out ...]\n", dropped) + printable(tail)
}

// TailText is the last n bytes at most of what was kept, as Text.
func (c *Capture) TailText(n int) string {
	head, tail := c.Parts()
	if len(tail) < n && c.Dropped() == 0 {
		tail = append(head, tail...)
	}
	return printable(tail[max(0, len(tail)-n):])
}

// appendMax appends p to b up to MaxLineBytes.
func appendMax(b, p []byte) []byte {
	if room := MaxLineBytes - len(b); len(p) > room {
		p = p[:max(0, room)]
	}
	return append(b, p...)
}

// printable replaces invalid UTF-8 and drops control characters other than tab
// and line feed, so that a log can't steer a terminal. A carriage return that
// rewrites a progress line becomes a line end.
func printable(b []byte) string {
	var s strings.Builder
	s.Grow(len(b))
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case r == '\r' && i+1 < len(b) && b[i+1] == '\n':
		case r == '\r':
			s.WriteByte('\n')
		case r == '\t' || r == '\n' || r >= 0x20 && r != 0x7f && !steering(r):
			s.WriteRune(r)
		}
		i += n
	}
	return s.String()
}

// steering reports C1 controls and the characters that reorder text.
func steering(r rune) bool {
	switch {
	case r >= 0x80 && r < 0xa0, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
