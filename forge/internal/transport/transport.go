package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

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
