package transport

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/writbot/writ/forge"
)

// The defaults of a Config.
const (
	// DefaultTimeout is of one request, its answer's body included.
	DefaultTimeout = 30 * time.Second
	// DefaultMaxResponse is in bytes, after decompression: a page of a hundred
	// issues with the largest bodies that forges take, twice.
	DefaultMaxResponse = 32 << 20
	// DefaultCache is in bytes.
	DefaultCache = 32 << 20
)

// NoProxy as Config.Proxy is a direct connection whatever the environment says.
const NoProxy = "none"

// Config are the settings of a Transport. Hosts are required.
type Config struct {
	// Hosts are the hosts, with their ports if they aren't the scheme's own, that
	// may be spoken to. Nothing is sent anywhere else.
	Hosts       []string
	CAFile      string // PEM; added to the system's authorities
	Proxy       string // a URL; "": the environment's HTTPS_PROXY and NO_PROXY; NoProxy
	UserAgent   string // put on every request
	Timeout     time.Duration
	MaxResponse int64 // bytes
	Cache       int   // bytes; negative: no conditional requests
	Limits      Limits
	Now         func() time.Time // nil: time.Now
	Logger      *slog.Logger     // nil: nothing is logged
	// Base makes the requests in place of a network connection of our own; CAFile
	// and Proxy are then not used. For tests.
	Base http.RoundTripper
	// Wrap goes around what makes the requests. For tests.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Transport is the round tripper. It is safe for concurrent use.
type Transport struct {
	cfg    Config
	base   http.RoundTripper
	limits *limiter
	cache  *cache
	log    *slog.Logger
}

// New makes a Transport. A certificate file or proxy that can't be used is an error.
func New(c Config) (*Transport, error) {
	if len(c.Hosts) == 0 {
		return nil, errors.New("transport: no host may be spoken to")
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxResponse <= 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.Cache == 0 {
		c.Cache = DefaultCache
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Transport{cfg: c, base: c.Base, limits: newLimiter(c.Limits, c.Now), cache: newCache(c.Cache), log: c.Logger}
	if t.base == nil {
		base, err := network(c)
		if err != nil {
			return nil, err
		}
		t.base = base
	}
	if c.Wrap != nil {
		t.base = c.Wrap(t.base)
	}
	return t, nil
}

// Client is an http.Client over the Transport. Redirects are errors.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// CloseIdleConnections closes the connections that nobody uses.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip makes a request once. The answer is a 2xx, with its whole body read;
// anything else is a *forge.Error, and its cause a *StatusError if the forge
// answered at all.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := callOf(req)
	clean := newCleaner(req, t.cfg.Proxy)
	res, applied, err := t.roundTrip(req, call, clean)
	if err == nil {
		return res, nil
	}
	var e *forge.Error
	if !errors.As(err, &e) {
		e = &forge.Error{Reason: forge.Unavailable, Err: clean.error(err)}
	}
	out := *e
	out.Op, out.Applied = call.Op, applied && call.writes()
	return nil, &out
}

// roundTrip also says whether the forge may have acted on what was sent.
func (t *Transport) roundTrip(req *http.Request, call Call, clean cleaner) (res *http.Response, applied bool, err error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }() // it was read, or isn't wanted
	}
	if !slices.Contains(t.cfg.Hosts, req.URL.Host) || req.URL.User != nil {
		return nil, false, &forge.Error{Reason: forge.Invalid, Err: fmt.Errorf("%q is not the configured forge; nothing was sent", clean.text(req.URL.Host))}
	}
	ctx := req.Context()
	release, err := t.limits.enter(ctx, call)
	if err != nil {
		return nil, false, err
	}
	defer release()
	began := t.cfg.Now()
	res, body, sent, err := t.once(ctx, req, call)
	if err != nil {
		t.log.DebugContext(ctx, "forge request failed", "method", req.Method, "path", req.URL.Path, "account", call.Account, "took", t.cfg.Now().Sub(began), "error", clean.error(err))
		return nil, sent, err
	}
	t.log.DebugContext(ctx, "forge request", "method", req.Method, "path", req.URL.Path, "account", call.Account, "took", t.cfg.Now().Sub(began), "status", res.StatusCode)
	pause := t.limits.observe(call, res, body)
	switch {
	case res.StatusCode >= http.StatusOK && res.StatusCode < http.StatusMultipleChoices:
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return res, false, nil
	case pause > 0:
		return nil, false, &forge.Error{Reason: forge.Limited, RetryAfter: pause, Err: statusError(res, body, clean)}
	default:
		return nil, res.StatusCode >= http.StatusInternalServerError,
			&forge.Error{Reason: reasonOf(res.StatusCode), RetryAfter: retryAfter(res, t.cfg.Now()), Err: statusError(res, body, clean)}
	}
}

// once sends a request, or a conditional form of it, and reads the answer whole.
// sent says that the forge may have seen it.
func (t *Transport) once(ctx context.Context, req *http.Request, call Call) (res *http.Response, body []byte, sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	var connected atomic.Bool
	out := req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	if t.cfg.UserAgent != "" {
		out.Header.Set("User-Agent", t.cfg.UserAgent)
	}
	stored := t.cache.prepare(out, call)
	res, err = t.base.RoundTrip(out)
	if err != nil {
		return nil, nil, connected.Load() || t.cfg.Base != nil, err
	}
	body, err = readAll(res.Body, t.cfg.MaxResponse)
	if err != nil {
		return nil, nil, true, err
	}
	res.Request = req
	if res.StatusCode == http.StatusNotModified && stored != nil {
		res, body = stored.answer(res)
		return res, body, true, nil
	}
	t.cache.keep(out, call, res, body)
	return res, body, true, nil
}

// readAll reads and closes an answer's body.
func readAll(r io.ReadCloser, limit int64) ([]byte, error) {
	defer func() { _ = r.Close() }() // whatever it says, what was read counts
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, &forge.Error{Reason: forge.Invalid, Err: fmt.Errorf("the answer is longer than %d bytes", limit)}
	}
	return body, nil
}

// reasonOf is the class of a status. A redirect is a thing that moved.
func reasonOf(status int) forge.Reason {
	switch status {
	case http.StatusUnauthorized:
		return forge.Unauthorized
	case http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return forge.Forbidden
	case http.StatusNotFound, http.StatusGone:
		return forge.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusMethodNotAllowed, http.StatusLocked:
		return forge.Conflict
	case http.StatusTooManyRequests:
		return forge.Limited
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return forge.Unavailable
	}
	switch {
	case status >= http.StatusInternalServerError:
		return forge.Unavailable
	case status >= 300 && status < 400:
		return forge.NotFound
	}
	return forge.Invalid
}

// Lane is what a request counts against.
type Lane int

// The lanes.
const (
	// ByMethod is Read for GET and HEAD and Create for the others.
	ByMethod Lane = iota
	// Read is a request that somebody waits for. A POST that only asks may be one.
	Read
	// Sweep is a read in bulk that can be late: it leaves the last part of the
	// forge's allowance to the other lanes.
	Sweep
	// Create is a write that makes something that people are notified of.
	Create
	// Edit is another write: it changes or takes away what is there. Its budget is
	// apart, so that a status is kept up to date however much was created.
	Edit
)

// Call says what a request is. The zero Call is allowed.
type Call struct {
	// Op is what is tried, for the error: "comment on o/n#3".
	Op string
	// Account is whose pace and pauses count, and part of what the cache is keyed
	// by: whoever asks under the same Account may see the same.
	Account string
	// Bucket is whose allowance counts where a forge has several for one account;
	// "": the account's.
	Bucket string
	Lane   Lane
	// Live keeps a read out of the cache and makes it unconditional: permissions.
	Live bool
}

type callKey struct{}

// With returns a context whose requests are that call.
func With(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf is what a context says.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// callOf completes what the context of a request says.
func callOf(req *http.Request) Call {
	c := CallOf(req.Context())
	if c.Op == "" {
		c.Op = req.Method + " " + req.URL.Path
	}
	if c.Bucket == "" {
		c.Bucket = c.Account
	}
	if c.Lane == ByMethod {
		c.Lane = Create
		if reads(req.Method) {
			c.Lane = Read
		}
	}
	return c
}

func (c Call) writes() bool { return c.Lane == Create || c.Lane == Edit }

// weight is what it counts of an account's points.
func (c Call) weight() int {
	if c.writes() {
		return writePoints
	}
	return 1
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// Bounds on the parts of a request; Config.Timeout bounds the whole.
const (
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	idleTimeout = 90 * time.Second
	// maxIdle is how many connections to one forge are kept, no fewer than are
	// used at once.
	maxIdle = DefaultConcurrent
	// maxHeader is in bytes; the forges of the field send less than ten thousand.
	maxHeader = 256 << 10
)

// BaseURL reads the address of an API: https, or http on loopback, or anywhere
// if plaintext is allowed. A credential, query or fragment in it is an error.
// The path ends with a slash.
func BaseURL(raw string, plaintext bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil: // its text repeats the URL, which may hold a credential
		return nil, errors.New("the forge's URL can't be read: write it as https://host/path")
	case u.User != nil:
		return nil, errors.New("the forge's URL holds a credential: take it out, credentials are given apart")
	case u.Host == "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the forge's URL %q isn't one: write it as https://host/path", raw)
	case u.Scheme == "https":
	case u.Scheme == "http" && (plaintext || loopback(u.Hostname())):
	default:
		return nil, fmt.Errorf("the forge's URL %q isn't https: a credential would be readable on its way", raw)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// RootCAs are the system's authorities and those of a PEM file; nil, which means
// the system's, for no file.
func RootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the certificate authority: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the certificate authority: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// network is the part below everything else.
func network(c Config) (http.RoundTripper, error) {
	roots, err := RootCAs(c.CAFile)
	if err != nil {
		return nil, err
	}
	proxy := http.ProxyFromEnvironment
	switch c.Proxy {
	case "":
	case NoProxy:
		proxy = nil
	default:
		u, err := url.Parse(c.Proxy)
		if err != nil || u.Host == "" {
			return nil, errors.New("the proxy's URL can't be read: write it as http://host:port")
		}
		proxy = http.ProxyURL(u)
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdle,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}, nil
}

// Limits on what is kept of a refusal, in bytes: Body is for programs, the words
// for people.
const (
	maxKeptBody = 64 << 10
	maxWords    = 300
)

// StatusError is an answer other than 2xx.
type StatusError struct {
	Status int
	// Words are what the forge says, on one line, without credentials.
	Words string
	// Body is the beginning of the answer, without credentials.
	Body []byte
}

func (e *StatusError) Error() string {
	if e.Words == "" {
		return fmt.Sprintf("the forge answers %d", e.Status)
	}
	return fmt.Sprintf("the forge answers %d: %s", e.Status, e.Words)
}

func statusError(res *http.Response, body []byte, clean cleaner) *StatusError {
	kept := clean.secrets(string(body[:min(len(body), maxKeptBody)]))
	return &StatusError{Status: res.StatusCode, Words: words(kept, res, clean), Body: []byte(kept)}
}

// words finds the sentence in an answer: forges put it in one of three members.
func words(body string, res *http.Response, clean cleaner) string {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return "it has moved; the redirect was not followed"
	}
	var said struct {
		Message          any `json:"message"`
		Error            any `json:"error"`
		ErrorDescription any `json:"error_description"`
	}
	if json.Unmarshal([]byte(body), &said) != nil {
		return ""
	}
	for _, s := range []any{said.ErrorDescription, said.Message, said.Error} {
		switch s := s.(type) {
		case nil:
		case string:
			return clean.text(s)
		default:
			if b, err := json.Marshal(s); err == nil {
				return clean.text(string(b))
			}
		}
	}
	return ""
}

// cleaner takes credentials out of foreign text.
type cleaner struct{ known []string }

const redacted = "[redacted]"

// minSecret is in bytes: shorter ones would take ordinary words out.
const minSecret = 6

// newCleaner knows the credentials of one request, and the proxy's.
func newCleaner(req *http.Request, proxy string) cleaner {
	var c cleaner
	add := func(s string) {
		if len(s) >= minSecret {
			c.known = append(c.known, s)
		}
	}
	for _, name := range []string{"Authorization", "Private-Token", "Job-Token", "Proxy-Authorization"} {
		for _, v := range req.Header.Values(name) {
			_, value, found := strings.Cut(v, " ")
			if !found {
				value = v
			}
			add(value)
			if pair, err := base64.StdEncoding.DecodeString(value); err == nil {
				_, password, _ := strings.Cut(string(pair), ":")
				add(password)
			}
		}
	}
	if u, err := url.Parse(proxy); err == nil && u.User != nil {
		password, _ := u.User.Password()
		add(password)
		add(url.QueryEscape(password))
	}
	return c
}

func (c cleaner) secrets(s string) string {
	for _, k := range c.known {
		s = strings.ReplaceAll(s, k, redacted)
	}
	return s
}

// text is one short line.
func (c cleaner) text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, c.secrets(strings.ToValidUTF8(s, "\uFFFD")))
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return strings.TrimSpace(s)
}

// error is err with a clean text.
func (c cleaner) error(err error) error {
	return &cleanError{c.text(err.Error()), err}
}

type cleanError struct {
	text  string
	cause error
}

func (e *cleanError) Error() string { return e.text }

// Is lets a cause be recognised and never be printed.
func (e *cleanError) Is(target error) bool { return errors.Is(e.cause, target) }

// maxEntry is the largest answer that is kept, in bytes: a page of comments. One
// answer never takes the place of all others.
const maxEntry = 2 << 20

// entryCost is what an entry takes beside its body, about, in bytes.
const entryCost = 2 << 10

// settled is how long before its answer something must have changed last for a
// date, which counts seconds, to tell one version from another.
const settled = 2 * time.Second

// cache keeps answers that the forge can be asked about: it is only ever read
// after the forge has said that nothing changed. The least recently used answers
// make room.
type cache struct {
	mu    sync.Mutex
	room  int // bytes left
	byKey map[cacheKey]*list.Element
	used  *list.List // of *cached, latest first
}

// cacheKey is who asked for what. Two accounts never share an answer.
type cacheKey struct{ account, url, accept string }

type cached struct {
	key            cacheKey
	etag, modified string
	header         http.Header
	body           []byte
}

func newCache(bytes int) *cache {
	return &cache{room: max(bytes, 0), byKey: map[cacheKey]*list.Element{}, used: list.New()}
}

func keyOf(req *http.Request, call Call) cacheKey {
	return cacheKey{call.Account, req.URL.String(), req.Header.Get("Accept")}
}

func cacheable(req *http.Request, call Call) bool {
	return req.Method == http.MethodGet && !call.Live
}

// prepare makes a request conditional, if an answer to it is there, and returns
// that answer. A caller's own condition stays his.
func (c *cache) prepare(req *http.Request, call Call) *cached {
	if !cacheable(req, call) || req.Header.Get("If-None-Match") != "" || req.Header.Get("If-Modified-Since") != "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[keyOf(req, call)]
	if at == nil {
		return nil
	}
	c.used.MoveToFront(at)
	e := at.Value.(*cached)
	if e.etag != "" {
		req.Header.Set("If-None-Match", e.etag)
	} else {
		req.Header.Set("If-Modified-Since", e.modified)
	}
	return e
}

// answer is what was kept, under the headers of the 304.
func (e *cached) answer(res *http.Response) (*http.Response, []byte) {
	out := *res
	out.Status, out.StatusCode = "200 OK", http.StatusOK
	out.Header = e.header.Clone()
	for name, values := range res.Header {
		out.Header[name] = values
	}
	out.Header.Del("Content-Length")
	out.ContentLength = int64(len(e.body))
	return &out, e.body
}

// keep stores an answer that can be asked about, and forgets what it replaces.
func (c *cache) keep(req *http.Request, call Call, res *http.Response, body []byte) {
	if !cacheable(req, call) {
		return
	}
	key := keyOf(req, call)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[key]; at != nil {
		c.drop(at)
	}
	e := &cached{key: key, etag: res.Header.Get("Etag"), modified: settledDate(res.Header), header: lasting(res.Header), body: body}
	if res.StatusCode != http.StatusOK || e.etag == "" && e.modified == "" || len(body) > maxEntry {
		return
	}
	c.byKey[key] = c.used.PushFront(e)
	c.room -= e.cost()
	for c.room < 0 && c.used.Len() > 0 {
		c.drop(c.used.Back())
	}
}

// drop forgets an entry. The lock is held.
func (c *cache) drop(at *list.Element) {
	e := c.used.Remove(at).(*cached)
	delete(c.byKey, e.key)
	c.room += e.cost()
}

func (e *cached) cost() int { return len(e.body) + len(e.key.url) + entryCost }

// settledDate is Last-Modified, if it can be told from a later one.
func settledDate(h http.Header) string {
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return ""
	}
	answered, err := http.ParseTime(h.Get("Date"))
	if err != nil || answered.Sub(modified) < settled {
		return ""
	}
	return h.Get("Last-Modified")
}

// lasting leaves out what was true of one answer only.
func lasting(h http.Header) http.Header {
	out := h.Clone()
	for name := range out {
		if name == "Date" || name == "Retry-After" || strings.Contains(name, "Ratelimit-") {
			delete(out, name)
		}
	}
	return out
}
