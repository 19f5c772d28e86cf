package smarthttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge/git/internal/pkt"
	"github.com/writbot/writ/forge/git/internal/process"
)

// afterwards bounds what is done behind a push: reading refs, telling of it.
const afterwards = time.Minute

// receive carries out a push. Its time does not end with the client, but with
// the client's request: see the package's comment.
func (h *Handler) receive(r *http.Request, a *answer, q request) error {
	whole := context.WithoutCancel(r.Context())
	ctx, cancel := context.WithDeadline(whole, a.until)
	defer cancel()
	defer r.Body.Close()
	b, err := openBody(a.w, r, q.service, h.opts.MaxRequest, a.until)
	if err != nil {
		return err
	}
	p := push{handler: h, request: q}
	if p.commands, err = readCommands(b); err != nil {
		return err
	}
	body, err := p.body(b)
	if err != nil {
		return err
	}
	if err := p.look(ctx); err != nil {
		return err
	}
	a.kind = "application/x-git-" + receivePack + "-result"
	err = h.run(ctx, q, body, func(stdout io.Reader, f *feed) error {
		p.started = true
		p.said = passReport(a, f, stdout, p.sideband)
		return nil
	})
	if !p.started {
		return err
	}
	after, cancel := context.WithTimeout(whole, afterwards)
	defer cancel()
	moved, lookErr := p.moved(after)
	if len(moved) > 0 && h.opts.PostReceive != nil {
		h.opts.PostReceive(after, q.repo, q.user, moved)
	}
	if err != nil && len(moved) > 0 { // a status of 4xx would say that it was not
		err = errors.New("a push was carried out, but not to its end: " + err.Error())
	}
	return errors.Join(err, lookErr)
}

// push is one push.
type push struct {
	handler *Handler
	request
	commands
	before  map[string]string // where the refs were, if it had to be looked up
	started bool              // git was, so refs may have moved
	said    report
}

// body is what git reads. git does not wait for the end of a push that has no
// pack, so that is waited for here: what breaks off changes nothing.
func (p *push) body(rest io.Reader) (io.Reader, error) {
	if !p.packFollows() {
		b, err := io.ReadAll(io.LimitReader(rest, maxLeftover+1))
		if err != nil {
			return nil, err
		}
		if len(b) > maxLeftover {
			return nil, badRequest("too much follows its commands")
		}
		rest = bytes.NewReader(b)
	}
	return io.MultiReader(bytes.NewReader(p.raw), rest), nil
}

// look reads where the refs are if git's report will not tell all.
func (p *push) look(ctx context.Context) (err error) {
	if p.deletes() || !p.commands.report {
		p.before, err = p.handler.refs(ctx, p.request, p.list)
	}
	return err
}

// moved says which refs this push has moved. git's report tells: it compares
// and moves under a lock, so what it took went from old to new. If there is none,
// because the client did not want it or git was ended, the refs tell.
func (p *push) moved(ctx context.Context) ([]RefUpdate, error) {
	told := p.commands.report && p.said.whole
	var after map[string]string
	if !told {
		var err error
		if after, err = p.handler.refs(ctx, p.request, p.list); err != nil {
			return nil, err
		}
	}
	var out []RefUpdate
	for _, u := range p.list {
		was, looked := p.was(u.Ref)
		switch {
		case u.Old == u.New:
			continue
		case told && !p.said.moved[u.Ref], !told && orZero(after[u.Ref]) != u.New:
			continue
		case looked && was == u.New && (!told || u.New == zeroOID):
			continue // it was there before; git takes it that what is gone be deleted
		case u.New == zeroOID && looked:
			u.Old = was // git deletes a broken ref whatever was expected
		}
		out = append(out, u)
	}
	return out, nil
}

// was says where a ref was, if that was looked up.
func (p *push) was(ref string) (string, bool) { return orZero(p.before[ref]), p.before != nil }

func orZero(oid string) string {
	if oid == "" {
		return zeroOID
	}
	return oid
}

// passReport passes git's output on to the client and reads the report in it. A
// client that has left does not hold it up. What git says of a push that broke
// off is kept back: a status says it better.
func passReport(a *answer, f *feed, stdout io.Reader, sideband bool) report {
	r, w := io.Pipe()
	got := make(chan report, 1)
	go func() { got <- readReport(r, sideband) }()
	left := false
	_ = pass(writerFunc(func(b []byte) (int, error) {
		if !left && (a.begun || f.fault() == nil) {
			_, err := a.Write(b)
			left = err != nil
		}
		return w.Write(b)
	}), nil, stdout) // an error is an end
	_ = w.Close() // never fails
	return <-got
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// refsPerProcess keeps a command line below its limit.
const refsPerProcess = 500

// refs reads where the refs of these commands are.
func (h *Handler) refs(ctx context.Context, q request, list []RefUpdate) (map[string]string, error) {
	out := map[string]string{}
	for chunk := range slices.Chunk(list, refsPerProcess) {
		args := []string{"--git-dir=" + q.dir, "for-each-ref", "--format=%(objectname) %(refname)", "--end-of-options"}
		n := len(args)
		for _, u := range chunk {
			// Others are no refs, and git refuses them.
			if strings.HasPrefix(u.Ref, "refs/") && !strings.ContainsAny(u.Ref, "*?[\\ \n") {
				args = append(args, u.Ref)
			}
		}
		if len(args) == n { // without names it would list all
			continue
		}
		p, err := process.Start(ctx, process.Command{Git: h.opts.GitBinary, Args: args, Env: h.opts.Env})
		if err != nil {
			return nil, fmt.Errorf("git can't be started: %w", err)
		}
		text, err := io.ReadAll(p.Stdout)
		if err = errors.Join(p.Wait(), err); err != nil {
			return nil, fmt.Errorf("refs can't be read: %w: %s", err, printable(p.Words()))
		}
		for line := range strings.Lines(string(text)) {
			oid, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			out[ref] = oid
		}
	}
	return out, nil
}

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
