package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Credential is what the gateway sets on requests to one host, and the inside doesn't
// know.
type Credential struct {
	Header string
	Value  string
	// API is what may be said to the host, and heard from it; nil for anything.
	API *API
}

// String hides the value, wherever a rule is printed.
func (Credential) String() string { return "[credential]" }

// GoString is String.
func (c Credential) GoString() string { return c.String() }

// check refuses what no header can carry, and what isn't a client's to set.
func (c Credential) check() error {
	switch name := http.CanonicalHeaderKey(c.Header); {
	case !httpguts.ValidHeaderFieldName(c.Header) || slices.Contains(hopByHop, name) || slices.Contains(once, strings.ToLower(name)):
		return fmt.Errorf("%q is no header for a credential: name one such as Authorization", clean(c.Header))
	case c.Value == "" || !httpguts.ValidHeaderFieldValue(c.Value) || strings.TrimSpace(c.Value) != c.Value:
		return fmt.Errorf("the credential can't be the value of a header: it must be one line that isn't empty")
	}
	return nil
}

// secretWords are parts of the names of fields, and ends of the names in a query, by
// which clients say who they are; secretNames are whole names in a query. They are
// compared without hyphens, underscores and dots, which some servers take for one
// another.
var (
	secretWords = []string{"auth", "apikey", "token", "secret", "cookie", "credential", "password", "passwd", "session", "signature", "jwt", "saml", "artapi"}
	secretNames = []string{"key", "sig", "pat", "pass", "authorization"}
)

var squeeze = strings.NewReplacer("-", "", "_", "", ".", "", "[", "", "]", "")

func squeezed(name string) string { return squeeze.Replace(strings.ToLower(name)) }

func isSecretField(name string) bool {
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(squeezed(name), w) })
}

func isSecretValue(name string) bool {
	name = squeezed(name)
	return slices.Contains(secretNames, name) || slices.ContainsFunc(secretWords, func(w string) bool { return strings.HasSuffix(name, w) })
}

// disguise takes from a request by what its client says who it is, and sets who the
// gateway is.
func (c Credential) disguise(r *http.Request) error {
	for name := range r.Header {
		if isSecretField(name) || squeezed(name) == squeezed(c.Header) {
			delete(r.Header, name)
		}
	}
	var kept []string
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || strings.ContainsRune(part, ';') {
			return denied(CodeRequest, "a query that two readers may read differently")
		}
		if !isSecretValue(name) {
			kept = append(kept, part)
		}
	}
	r.URL.RawQuery = strings.Join(kept, "&")
	r.Header.Set(c.Header, c.Value)
	return nil
}

// secure speaks TLS over a connection, to the host and nobody else. Nothing of a request
// is sent before the other side has shown that it is it.
func (x *exchange) secure(ctx context.Context, host string, out net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	conn := tls.Client(out, &tls.Config{ServerName: host, RootCAs: x.server.c.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, &fault{Failed, CodeUpstream, "the outside didn't show by TLS that it is the host", err}
	}
	return conn, nil
}

// reverse hands one request on over TLS, with the credential.
func (x *exchange) reverse(ctx context.Context, req *http.Request, d Decision, out *metered) (*http.Response, error) {
	r := outgoing(ctx, req, d.Host, d.Port)
	if r.URL.Scheme, r.URL.Host = "https", d.Host; d.Port != DefaultPort {
		r.URL.Host = net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
	}
	r.Host = r.URL.Host
	if err := d.credential.disguise(r); err != nil {
		return nil, err
	}
	conn, err := x.secure(ctx, d.Host, out)
	if err != nil {
		return nil, err
	}
	x.charged = true
	answer, err := roundTrip(ctx, r, conn)
	if err != nil {
		return nil, err
	}
	x.charged = answer.StatusCode/100 == 2
	if err := d.credential.uncover(answer, r.URL.Host); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	if api := d.credential.API; api != nil {
		x.record.Status = answer.StatusCode
		if coding := coded(answer.Header); coding != "" {
			_ = answer.Body.Close()
			return nil, &fault{Failed, CodeEncoded, "the provider compressed its answer (" + clipped(coding) + "), though it was asked not to, so that nobody could meter it", nil}
		}
		x.record.Failure = api.hear(answer, x.server.bodyTime)
		if x.meter != nil {
			x.meter.listen(answer)
		}
		x.giveBack()
	}
	return answer, nil
}

// listen has the meter read an answer's body.
func (m *meter) listen(answer *http.Response) {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	m.stream = kind == "text/event-stream"
	answer.Body = &meteredBody{answer.Body, m}
}

// coded is the first coding of a body that changes it, of all lines of its head; empty for
// none.
func coded(h http.Header) string {
	for _, coding := range h.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return coding
		}
	}
	return ""
}

// uncover makes an answer fit for the inside: nothing in its head says who asked, and what
// leads to the same host over TLS leads there through the gateway.
func (c Credential) uncover(answer *http.Response, host string) error {
	for _, name := range []string{"Set-Cookie", "Set-Cookie2", "Alt-Svc", "Strict-Transport-Security"} {
		answer.Header.Del(name)
	}
	answer.Trailer = nil // it comes too late to be looked at
	for _, values := range answer.Header {
		if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, bare(c.Value)) }) {
			return denied(CodeEcho, "the outside answers with the credential")
		}
	}
	if u, err := url.Parse(answer.Header.Get("Location")); err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, host) && u.User == nil {
		u.Scheme = "http"
		answer.Header.Set("Location", u.String())
	}
	return nil
}

// bare is a credential without the word for its kind before it.
func bare(value string) string { return value[strings.LastIndexByte(value, ' ')+1:] }
