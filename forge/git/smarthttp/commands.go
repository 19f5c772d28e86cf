package smarthttp

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

const (
	// maxCommands is in bytes: tens of thousands of refs in one push.
	maxCommands = 8 << 20
	// maxReport is in bytes: what git says of as many refs, with reasons.
	maxReport = 2 * maxCommands
)

const (
	oidLen  = 40
	zeroOID = "0000000000000000000000000000000000000000"
)

func badRequest(why string) error { return &statusError{400, "the push can't be read: " + why} }

// commands are what a push asks for.
type commands struct {
	list     []RefUpdate
	raw      []byte // as they were sent, the flush included
	report   bool   // the client wants to be told, so git tells us
	sideband bool
}

// readCommands reads a push up to its pack, and no further.
func readCommands(r io.Reader) (commands, error) {
	var c commands
	var raw bytes.Buffer
	p := pkt.NewReader(io.TeeReader(io.LimitReader(r, maxCommands), &raw))
	for {
		kind, line, err := p.Next()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			if raw.Len() >= maxCommands {
				return c, badRequest("it has too many commands")
			}
			return c, badRequest("it is cut short")
		case errors.Is(err, pkt.ErrMalformed):
			return c, badRequest("it is none")
		case err != nil:
			return c, err
		case kind == pkt.Flush:
			c.raw = raw.Bytes()
			return c, nil
		case kind != pkt.Data:
			return c, badRequest("it is none")
		}
		if err := c.line(string(line)); err != nil {
			return c, err
		}
	}
}

// line takes "<old> <new> <ref>". What the client can do follows the first one
// behind a NUL; git looks for it behind each, and so is it done here.
func (c *commands) line(line string) error {
	if strings.HasPrefix(line, "shallow ") {
		return nil
	}
	line, caps, _ := strings.Cut(line, "\x00")
	for _, name := range strings.Fields(caps) {
		c.report = c.report || name == "report-status" || name == "report-status-v2"
		c.sideband = c.sideband || name == "side-band-64k"
	}
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
	if len(f) != 3 || !isOID(f[0]) || !isOID(f[1]) || f[2] == "" {
		return badRequest("a command is malformed, or signed, which is not supported")
	}
	c.list = append(c.list, RefUpdate{Ref: f[2], Old: f[0], New: f[1]})
	return nil
}

func isOID(s string) bool { return len(s) == oidLen && strings.Trim(s, "0123456789abcdef") == "" }

// packFollows says whether git reads more than the commands.
func (c commands) packFollows() bool {
	for _, u := range c.list {
		if u.New != zeroOID {
			return true
		}
	}
	return false
}

// deletes says whether any ref is to go.
func (c commands) deletes() bool {
	for _, u := range c.list {
		if u.New == zeroOID {
			return true
		}
	}
	return false
}

// report is what git said of a push.
type report struct {
	whole bool            // up to its end
	moved map[string]bool // refs it took the commands for
}

// readReport reads git's report as it passes by on its way to the client. It
// reads everything, so that whoever writes is never held up.
func readReport(r io.Reader, sideband bool) report {
	defer func() { _, _ = io.Copy(io.Discard, r) }() // a pipe in memory
	if !sideband {
		return parseReport(r)
	}
	var inner bytes.Buffer
	p := pkt.NewReader(r)
	for inner.Len() <= maxReport {
		kind, line, err := p.Next()
		if err != nil || kind != pkt.Data {
			break
		}
		if len(line) > 0 && line[0] == 1 { // the band of data; the others are words
			inner.Write(line[1:])
		}
	}
	return parseReport(&inner)
}

func parseReport(r io.Reader) report {
	out := report{moved: map[string]bool{}}
	p := pkt.NewReader(io.LimitReader(r, maxReport))
	for {
		kind, line, err := p.Next()
		if err != nil || kind != pkt.Data {
			out.whole = err == nil && kind == pkt.Flush
			return out
		}
		if ref, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "ok "); ok {
			out.moved[ref] = true
		}
	}
}
