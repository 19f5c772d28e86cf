package git

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// maxRedirects is how many redirects within one server the first request follows.
const maxRedirects = 3

// userAgent begins as git's does, because some servers look.
const userAgent = "git/2 writ"

// infoRefs is the path of the advertisement.
const infoRefs = "/info/refs"

// httpTransport speaks the smart HTTP protocol.
type httpTransport struct {
	client *http.Client
	auth   Auth
	clean  redactor

	mu   sync.Mutex
	base *url.URL // moves when the server redirects within itself
}

func newHTTPTransport(loc location, ep Endpoint, opts Options, clean redactor) (*httpTransport, error) {
	base := &url.URL{Scheme: loc.scheme, Host: loc.host, Path: loc.path}
	secret := ep.Auth.Token != "" || ep.Auth.Password != "" || ep.Auth.AskPassword != nil
	if secret && loc.scheme == "http" && !ep.Auth.AllowPlaintext && !loopback(base.Hostname()) {
		return nil, fail(CodeAuthInvalid, "credentials are not sent over plain HTTP", "use an https URL", nil)
	}
	// Redirects are followed by hand, or not at all: the library's own way sends
	// headers to wherever the server points.
	client := &http.Client{
		Transport:     httpRoundTripper(opts.HTTPClient, opts.RootCAs),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &httpTransport{client: client, auth: ep.Auth, clean: clean, base: base}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func httpRoundTripper(c *http.Client, roots *x509.CertPool) http.RoundTripper {
	if c != nil && c.Transport != nil {
		return c.Transport
	}
	t := http.DefaultTransport.(*http.Transport).Clone() // it is one, unless somebody replaced it
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	return t
}

func (t *httpTransport) stateless() bool { return true }

func (t *httpTransport) close() error {
	t.client.CloseIdleConnections()
	return nil
}

func (t *httpTransport) dial(_ context.Context, service string) (conn, error) {
	return &httpConn{t: t, service: service}, nil
}

func (t *httpTransport) url(suffix string) *url.URL {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := *t.base
	u.Path = strings.TrimSuffix(u.Path, "/") + suffix
	return &u
}

type httpConn struct {
	t       *httpTransport
	service string
	body    io.ReadCloser
}

func (c *httpConn) words() string { return "" }

// maxDrain is how many bytes of an answer are read away so that the connection
// can be used again; reading more would cost more than a new connection.
const maxDrain = 64 << 10

func (c *httpConn) finish(bool) {
	if c.body != nil {
		_, _ = io.CopyN(io.Discard, c.body, maxDrain)
		_ = c.body.Close() // read to its end, or of no more use
		c.body = nil
	}
}

func (c *httpConn) advert(ctx context.Context) (io.Reader, error) {
	u := c.t.url(infoRefs)
	u.RawQuery = "service=" + c.service
	for range maxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, unsent(badURL("can't be requested"))
		}
		if err := c.headers(req, c.service == uploadPack); err != nil {
			return nil, err
		}
		res, err := c.t.client.Do(req)
		if err != nil {
			return nil, unsent(unreachable("the server can't be reached", err))
		}
		if res.StatusCode == http.StatusOK {
			return c.answer(res, "advertisement")
		}
		next, err := c.redirect(res, u)
		if err != nil {
			return nil, unsent(err)
		}
		u = next
	}
	return nil, unsent(fail(CodeRedirectRefused, "the server redirects in circles", "check the URL", nil))
}

// redirect returns where an unsuccessful answer points to, if it may be
// followed: the same scheme, host and port, and the same kind of path. Anything
// else would take the credentials, or the push, elsewhere (case G3).
func (c *httpConn) redirect(res *http.Response, from *url.URL) (*url.URL, error) {
	if res.StatusCode < 300 || res.StatusCode > 399 || res.StatusCode == http.StatusNotModified {
		return nil, c.statusError(res)
	}
	_ = res.Body.Close() // nothing in it is wanted
	to, err := from.Parse(res.Header.Get("Location"))
	if err != nil {
		return nil, redirectRefused("somewhere that is no URL")
	}
	path, ok := strings.CutSuffix(to.Path, infoRefs)
	if to.Scheme != from.Scheme || to.Host != from.Host || to.User != nil || !ok || to.RawQuery != from.RawQuery {
		return nil, redirectRefused(to.Scheme + "://" + c.t.clean.clean(to.Host))
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	base := *c.t.base
	base.Path = path
	c.t.base = &base
	return to, nil
}

func redirectRefused(to string) *Error {
	return fail(CodeRedirectRefused, "the server redirects to "+to+"; nothing was sent there",
		"if the repository has moved, set its new URL", nil)
}

func (c *httpConn) send(ctx context.Context, request []byte, v2 bool) (io.Reader, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	u := c.t.url("/" + c.service)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), progressing(ctx, bytes.NewReader(request)))
	if err != nil {
		return nil, unsent(badURL("can't be requested"))
	}
	// There is no GetBody, so net/http never repeats the request by itself.
	req.ContentLength = int64(len(request))
	req.Header.Set("Content-Type", "application/x-"+c.service+"-request")
	req.Header.Set("Accept", "application/x-"+c.service+"-result")
	if err := c.headers(req, v2); err != nil {
		return nil, err
	}
	res, err := c.t.client.Do(req)
	if err != nil {
		wrapped := unreachable("the server did not answer", err)
		if !connected.Load() {
			return nil, unsent(wrapped)
		}
		return nil, wrapped
	}
	if res.StatusCode != http.StatusOK {
		if res.StatusCode >= 300 && res.StatusCode < 400 {
			return nil, c.redirectedPost(res)
		}
		return nil, c.statusError(res)
	}
	return c.answer(res, "result")
}

// redirectedPost refuses: a request with a body is never sent anywhere else.
func (c *httpConn) redirectedPost(res *http.Response) error {
	_ = res.Body.Close() // nothing in it is wanted
	to, err := res.Location()
	if err != nil {
		return redirectRefused("somewhere that is no URL")
	}
	return redirectRefused(to.Scheme + "://" + c.t.clean.clean(to.Host))
}

func (c *httpConn) headers(req *http.Request, v2 bool) error {
	req.Header.Set("User-Agent", userAgent)
	if v2 {
		req.Header.Set("Git-Protocol", "version=2")
	}
	switch a := c.t.auth; {
	case a.Token != "":
		req.Header.Set("Authorization", "Bearer "+a.Token)
	case a.AskPassword != nil:
		password, err := a.AskPassword(req.Context())
		if err != nil {
			return unsent(unreachable("the forge gives no credential for it", err))
		}
		c.t.clean.learn(a.Username, password)
		req.SetBasicAuth(a.Username, password)
	case a.Username != "" || a.Password != "":
		req.SetBasicAuth(a.Username, a.Password)
	}
	return nil
}

// answer checks the content type: a login page is no answer, whatever it holds.
func (c *httpConn) answer(res *http.Response, kind string) (io.Reader, error) {
	c.finish(false) // of the exchange before
	c.body = res.Body
	want := "application/x-" + c.service + "-" + kind
	if got := res.Header.Get("Content-Type"); got != want {
		return nil, fail(CodeProtocol, "the server's answer is no git "+kind, "check that the URL is a repository's clone URL", nil)
	}
	return progressing(res.Request.Context(), res.Body), nil
}

// httpError is an answer with a status other than 200. It says whether the
// server can have acted.
type httpError struct {
	err    *Error
	status int
	text   string // the server's own words, cleaned; "" for none
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

// statusError reads the server's words and closes the body.
func (c *httpConn) statusError(res *http.Response) error {
	defer res.Body.Close()
	text := ""
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxWords)) // what came is enough
		text = strings.TrimSpace(c.t.clean.clean(string(b)))
	}
	say := "the server answers " + res.Status
	if text != "" {
		say += ": " + text
	}
	var e *Error
	switch res.StatusCode {
	case http.StatusUnauthorized:
		e = fail(CodeUnauthorized, say, "check the credentials and their expiry", nil)
	case http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		e = c.forbidden(res.StatusCode, say, text)
	case http.StatusNotFound, http.StatusGone:
		e = fail(CodeNotFound, say, "check the URL, and that the credentials may see the repository", nil)
	default:
		e = unreachable(say, nil)
	}
	return &httpError{e, res.StatusCode, text}
}

// forbidden tells a server that won't from one that can't. A maintenance window
// is answered with 403, too.
func (c *httpConn) forbidden(status int, say, text string) *Error {
	switch g := statusGuess(&httpError{status: status, text: text}, false); {
	case g.status != Refused:
		return fail(CodeUnable, say, "it is tried again until the server can; look at its state, and at what stands before it", nil)
	case c.service == uploadPack:
		return fail(CodeUnauthorized, say, "ask the server's administrator for the permission", nil)
	}
	return fail(CodePushRefused, say, "ask the server's administrator for the permission or the limit", nil)
}
