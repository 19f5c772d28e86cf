package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// serve reads a request, decides, connects and hands on.
func (x *exchange) serve(ctx context.Context) error {
	if err := x.client.SetReadDeadline(time.Now().Add(x.server.headTime)); err != nil {
		return err
	}
	req, field, err := readRequest(x.in)
	if err != nil {
		return err
	}
	if err := x.client.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	ask, err := x.asked(req)
	if err != nil {
		return err
	}
	d := x.server.c.Decider.Decide(ask)
	x.record.Rule = d.Rule
	if d.Host != "" {
		x.record.Host = d.Host
	}
	if d.Code != "" {
		return denied(d.Code, "the rules don't allow it")
	}
	if err := sameHost(field, d.Host, ask.Port); err != nil {
		return err
	}
	if d.credential != nil {
		x.record.Mode, x.record.Port = Reverse, d.Port
		defer x.giveBack()
		defer x.measured()
		if req, err = x.allowedOf(ctx, req, d.credential); err != nil {
			return err
		}
	}
	if x.server.c.Judged != nil {
		return x.judged(req)
	}
	out, err := x.reach(ctx, d, d.Port)
	if err != nil {
		return err
	}
	defer out.Close()
	defer func() { x.record.Up, x.record.Down = out.up.Load(), out.down.Load() }()
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer stop()
	if x.record.Mode == Connect {
		return x.connect(ctx, d.Host, out)
	}
	return x.plain(ctx, req, d, out)
}

// measured notes what the meter has read.
func (x *exchange) measured() {
	if m := x.meter; m != nil && x.charged {
		x.record.Usage, x.record.Failure = m.used(), m.failure
	}
	x.settle()
}

// settle ends what was reserved.
func (x *exchange) settle() {
	if x.reserved {
		x.server.c.Purse.Settle(x.meter.reserved, x.record.Usage)
	}
}

// judged ends a request that would go out now.
func (x *exchange) judged(req *http.Request) error {
	if x.meter != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return err
		}
		x.server.c.Judged(body)
	}
	return denied(CodeProvider, "nothing goes out in a trial")
}

// asked reads from a request what it wants, and notes it.
func (x *exchange) asked(req *http.Request) (a Ask, err error) {
	authority, byDefault := req.RequestURI, uint16(0)
	x.record.Mode = Connect
	if req.Method != http.MethodConnect {
		x.record.Mode, x.record.Method = Plain, clean(req.Method)
		a.Method, authority, byDefault = req.Method, req.URL.Host, plainPort
		if u := req.URL; u.Scheme != "http" || u.Opaque != "" || u.User != nil || strings.ContainsRune(req.RequestURI, '#') {
			x.record.Host = clean(authority)
			return a, denied(CodeRequest, "no plain URL of http with a host and nothing else before its path")
		}
	}
	a.Host, a.Port, err = splitAuthority(authority, byDefault)
	x.record.Host, x.record.Port = clean(a.Host), a.Port
	if a.Host == "" {
		x.record.Host = clean(authority)
	}
	if err != nil {
		return a, err
	}
	return a, checkUse(req)
}

// checkUse refuses what makes more of a connection than one request.
func checkUse(req *http.Request) error {
	for _, option := range req.Header.Values("Connection") {
		if strings.Contains(strings.ToLower(option), "upgrade") {
			return denied(CodeUpgrade, "another protocol is asked for")
		}
	}
	switch expect := req.Header.Get("Expect"); {
	case req.Header.Get("Upgrade") != "":
		return denied(CodeUpgrade, "another protocol is asked for")
	case req.Method == http.MethodConnect && (req.ContentLength != 0 || len(req.TransferEncoding) > 0):
		return denied(CodeRequest, "a tunnel has no body")
	case expect != "" && !strings.EqualFold(expect, "100-continue"):
		return denied(CodeRequest, "something unknown is expected")
	}
	return nil
}

// sameHost holds the Host field, which the outside might go by, against the target.
func sameHost(field, host string, port uint16) error {
	if field == "" {
		return nil
	}
	named, at, err := splitAuthority(field, port)
	if err == nil {
		named, err = normalise(named)
	}
	if err != nil || named != host || at != port {
		return denied(CodeMismatch, "Host names "+clean(field))
	}
	return nil
}

// reach connects to where the name leads.
func (x *exchange) reach(ctx context.Context, d Decision, port uint16) (*metered, error) {
	if err := x.server.spent(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	addresses, err := resolve(ctx, x.server.c.Resolver, d)
	if err != nil {
		return nil, err
	}
	out, to, err := dial(ctx, addresses, port)
	if err != nil {
		return nil, err
	}
	x.record.Address = to.String()
	return &metered{Conn: out, server: x.server}, nil
}

// metered is a connection to the outside. It counts, and stops at the run's limits.
type metered struct {
	net.Conn
	server   *Server
	up, down atomic.Int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.down.Add(int64(n))
	m.server.down.Add(int64(n))
	if limit := m.server.spent(); limit != nil {
		return 0, limit
	}
	return n, err
}

func (m *metered) Write(p []byte) (int, error) {
	m.server.up.Add(int64(len(p)))
	if limit := m.server.spent(); limit != nil {
		return 0, limit
	}
	n, err := m.Conn.Write(p)
	m.up.Add(int64(n))
	return n, err
}

// spent is the limit of bytes that the run has gone beyond.
func (s *Server) spent() error {
	switch {
	case s.up.Load() > s.c.Limits.Up:
		return cut(CodeUp, "too many bytes to the outside")
	case s.down.Load() > s.c.Limits.Down:
		return cut(CodeDown, "too many bytes from the outside")
	}
	return nil
}

// connect passes TLS through.
func (x *exchange) connect(ctx context.Context, host string, out *metered) error {
	if _, err := io.WriteString(x.client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return err
	}
	x.tunnel = true
	if err := x.client.SetReadDeadline(time.Now().Add(x.server.helloTime)); err != nil {
		return err
	}
	hello, err := readHello(ctx, x.in, host)
	if err != nil {
		return err
	}
	if err := x.client.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	x.begun = true
	if _, err := out.Write(hello); err != nil {
		return err
	}
	return x.pass(out)
}

// pass copies both ways until both have ended. A fault of one ends the other.
func (x *exchange) pass(out *metered) error {
	faults := make(chan error, 2)
	way := func(to io.Writer, from io.Reader, end net.Conn) {
		_, err := io.Copy(to, from)
		if half, ok := end.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		faults <- err
		if err != nil {
			if asFault(err).verdict == Cut {
				x.abort()
			}
			_, _ = x.client.Close(), out.Close()
		}
	}
	go way(out, x.in, out.Conn)
	go way(x.client, out, x.client)
	// The first fault is the cause, the second what the closing brought.
	first, second := <-faults, <-faults
	if first != nil {
		return first
	}
	return second
}

// hopByHop are the fields that are between two neighbours, beside those that
// Connection names.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Authentication-Info", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect"}

func strip(h http.Header) {
	for _, names := range h.Values("Connection") {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// plain hands one request on, and its answer back.
func (x *exchange) plain(ctx context.Context, req *http.Request, d Decision, out *metered) error {
	if req.Header.Get("Expect") != "" {
		if _, err := io.WriteString(x.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return err
		}
	}
	var answer *http.Response
	var err error
	if d.credential != nil {
		answer, err = x.reverse(ctx, req, d, out)
	} else {
		answer, err = roundTrip(ctx, outgoing(ctx, req, d.Host, d.Port), out)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return denied(CodeUpgrade, "the outside answers with another protocol")
	}
	strip(answer.Header)
	answer.Close = true
	x.begun = true
	return answer.Write(x.client)
}

// outgoing is the request as the outside gets it: written anew from what was
// understood.
func outgoing(ctx context.Context, req *http.Request, host string, port uint16) *http.Request {
	r := req.Clone(ctx)
	r.URL.Host = host
	if port != plainPort {
		r.URL.Host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	r.Host, r.RequestURI, r.Close, r.Trailer = r.URL.Host, "", true, nil
	if r.Body != http.NoBody {
		r.Body = io.NopCloser(r.Body) // to close it reads it to its end, and it may have none
	}
	strip(r.Header)
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = []string{""} // none, instead of Go's own
	}
	return r
}

var errTwice = errors.New("a second connection")

// roundTrip sends one request over the connection that there is.
func roundTrip(ctx context.Context, req *http.Request, out net.Conn) (*http.Response, error) {
	var used atomic.Bool
	dial := func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errTwice
		}
		return out, nil
	}
	t := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
		DialContext: dial, DialTLSContext: dial,
	}
	return t.RoundTrip(req.WithContext(ctx))
}

// maxHello bounds the first message of a TLS client, in bytes. With keys of the
// newest kinds it has about two thousand.
const maxHello = 64 << 10

// Extensions that hide a server's name.
const (
	encryptedHello = 0xfe0d // ECH; a browser that only pretends to use it looks the same
	encryptedName  = 0xffce // its forerunner
)

// alert is what a TLS client reads as "access denied".
const alert = "\x15\x03\x03\x00\x02\x02\x31"

// readHello reads a tunnel's first message, and gives all bytes that were read for
// it if it names the host that was asked for, and no other.
func readHello(ctx context.Context, r *bufio.Reader, host string) ([]byte, error) {
	info, read, err := parseHello(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(info.Extensions, encryptedHello), slices.Contains(info.Extensions, encryptedName):
		return nil, denied(CodeEncrypted, "the name of the server is encrypted")
	case info.ServerName == "":
		return nil, denied(CodeNoName, "no server is named")
	}
	if name, err := normalise(info.ServerName); err != nil || name != host {
		return nil, denied(CodeMismatch, "TLS names "+clean(info.ServerName))
	}
	return read, nil
}

var errSeen = errors.New("seen")

// parseHello lets a TLS server that never answers read the message.
func parseHello(ctx context.Context, r *bufio.Reader) (info *tls.ClientHelloInfo, read []byte, err error) {
	rec := &recorder{r: io.LimitReader(r, maxHello)}
	server := tls.Server(rec, &tls.Config{
		MinVersion: tls.VersionTLS12, // for a linter: no version is ever agreed on
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			info = h
			return nil, errSeen
		},
	})
	err = server.HandshakeContext(ctx)
	if info == nil {
		return nil, nil, &fault{Denied, CodeNotTLS, "no TLS ClientHello", err}
	}
	return info, rec.read.Bytes(), nil
}

// recorder is a connection that keeps what is read and drops what is written.
type recorder struct {
	net.Conn // none: the server reads and writes, nothing else
	r        io.Reader
	read     bytes.Buffer
}

func (c *recorder) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read.Write(p[:n])
	return n, err
}

func (c *recorder) Write(p []byte) (int, error)      { return len(p), nil }
func (c *recorder) Close() error                     { return nil }
func (c *recorder) SetDeadline(time.Time) error      { return nil }
func (c *recorder) SetWriteDeadline(time.Time) error { return nil }

// maxHead bounds a request's line and header, in bytes: several times what clients send.
const maxHead = 32 << 10

// once are the fields that decide where a request goes and where it ends. A second
// one is read differently by different readers.
var once = []string{"host", "content-length", "transfer-encoding", "connection", "expect"}

// readRequest reads one request. It must have one meaning to every reader, so that
// much that HTTP allows or forgives is refused. Host is what the field of that name
// says: http.Request forgets it where there is a whole URL.
func readRequest(r *bufio.Reader) (req *http.Request, host string, err error) {
	head, host, err := readHead(r)
	if err != nil {
		return nil, "", err
	}
	// A tunnel has no body, and what follows its head must stay in r.
	body := io.Reader(r)
	if bytes.HasPrefix(head, []byte(http.MethodConnect+" ")) {
		body = http.NoBody
	}
	// ReadRequest reads no further than the head, which ends all that it looks for.
	req, err = http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), body)))
	if err != nil {
		return nil, "", &fault{Denied, CodeRequest, "no HTTP request", err}
	}
	return req, host, nil
}

// readHead reads up to the empty line, and refuses what http.ReadRequest would let
// pass: it looks at bytes and numbers by itself.
func readHead(r *bufio.Reader) (head []byte, host string, err error) {
	seen := map[string]string{}
	for {
		line, err := r.ReadSlice('\n')
		if len(head)+len(line) > maxHead {
			return nil, "", denied(CodeRequest, "the head is too long")
		}
		if err != nil {
			return nil, "", &fault{Denied, CodeRequest, "no whole head", err}
		}
		first := len(head) == 0
		head = append(head, line...)
		text, ok := strings.CutSuffix(string(line), "\r\n")
		switch {
		case !ok:
			return nil, "", denied(CodeRequest, "a line doesn't end with CR LF")
		case first:
			err = checkLine(text)
		case text == "":
			_, length := seen["content-length"]
			if _, coding := seen["transfer-encoding"]; coding && length {
				return nil, "", denied(CodeRequest, "Content-Length and Transfer-Encoding are both there")
			}
			return head, seen["host"], nil
		default:
			err = checkField(text, seen)
		}
		if err != nil {
			return nil, "", err
		}
	}
}

// checkLine wants three words and a version that is known. Old clients ask for
// tunnels in HTTP/1.0.
func checkLine(text string) error {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[2] != "HTTP/1.1" && (words[2] != "HTTP/1.0" || words[0] != http.MethodConnect) {
		return denied(CodeRequest, "no line of HTTP/1.1")
	}
	return nil
}

// checkField wants a name and a colon, and notes the fields that may come once.
func checkField(text string, seen map[string]string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		return denied(CodeRequest, "a line of the header is malformed")
	}
	name = strings.ToLower(name)
	if _, again := seen[name]; again && slices.Contains(once, name) {
		return denied(CodeRequest, name+" is there twice")
	}
	seen[name] = strings.Trim(value, " \t")
	return nil
}
