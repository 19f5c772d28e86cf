package forgetest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lie is what happens to a request on its way to a forge and back.
type Lie string

// The lies.
const (
	// Broken is a 502 in place of the request.
	Broken Lie = "502, not applied"
	// BrokenAfter is a 502 after the forge has done what was asked.
	BrokenAfter Lie = "502, applied"
	// Lost is a connection that ends after the forge has done what was asked.
	Lost Lie = "answer lost, applied"
	// Down is a connection that can't be made.
	Down Lie = "connection refused"
	// LimitedFor is a 429 that says for how long.
	LimitedFor Lie = "429 with Retry-After"
	// LimitedUntil is a 403 whose headers say when the allowance is filled again.
	LimitedUntil Lie = "403 with a reset"
	// LimitedSilently is a 403 of a secondary limit that says nothing more.
	LimitedSilently Lie = "403 without headers"
	// LimitedBare is a 429 that says nothing at all.
	LimitedBare Lie = "429 without headers"
	// Stale answers what is read from a copy of how everything was when the lie
	// was ordered, as a replica that lags does. What the copy lacks comes from the
	// forge.
	Stale Lie = "stale replica"
)

// Lies lists them.
func Lies() []Lie {
	return []Lie{Broken, BrokenAfter, Lost, Down, LimitedFor, LimitedUntil, LimitedSilently, LimitedBare, Stale}
}

// limitSeconds is what LimitedFor and LimitedUntil say.
const limitSeconds = 90

// Liar is the way to a forge that lies, for the real adapters: it goes around
// their network. Without orders it changes nothing. It is safe for concurrent use.
type Liar struct {
	now func() time.Time

	mu     sync.Mutex
	orders []*order
	seen   map[string]reply // the last answer to each thing that was read
	told   func(Lie, *http.Request)
}

type order struct {
	lie   Lie
	match func(*http.Request) bool
	left  int
	old   map[string]reply // of Stale
}

// reply is an answer that is kept.
type reply struct {
	header http.Header
	body   []byte
}

// NewLiar makes one. now is the forge's clock. told, if not nil, is called with
// each lie that is told.
func NewLiar(now func() time.Time, told func(Lie, *http.Request)) *Liar {
	return &Liar{now: now, seen: map[string]reply{}, told: told}
}

// Order has the next times requests that match meet a lie; match nil is all. Of
// several orders the oldest that still applies counts. Stale meets reads only.
func (l *Liar) Order(lie Lie, times int, match func(*http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &order{lie: lie, match: match, left: times}
	if lie == Stale {
		o.match, o.old = onlyReads(match), maps.Clone(l.seen)
	}
	l.orders = append(l.orders, o)
}

// Stop ends all lies.
func (l *Liar) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = nil
}

// Wrap goes around what makes an adapter's requests.
func (l *Liar) Wrap(next http.RoundTripper) http.RoundTripper { return &lying{l, next} }

// WritesTo matches requests that change the forge; a POST that only asks doesn't.
func WritesTo(r *http.Request) bool { return !readsFrom(r) && !isToken(r) }

func readsFrom(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasSuffix(r.URL.Path, "/graphql")
}

// isToken is the making of a credential.
func isToken(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/access_tokens") }

func onlyReads(match func(*http.Request) bool) func(*http.Request) bool {
	return func(r *http.Request) bool { return readsFrom(r) && (match == nil || match(r)) }
}

// due is the lie that a request meets, "" for none.
func (l *Liar) due(r *http.Request, key string) (Lie, reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range l.orders {
		if o.match != nil && !o.match(r) {
			continue
		}
		old, known := o.old[key]
		if o.lie == Stale && !known {
			continue
		}
		if o.left--; o.left <= 0 {
			l.orders = append(l.orders[:i:i], l.orders[i+1:]...)
		}
		return o.lie, old
	}
	return "", reply{}
}

type lying struct {
	l    *Liar
	next http.RoundTripper
}

// CloseIdleConnections closes those of what is around.
func (y *lying) CloseIdleConnections() {
	if c, ok := y.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (y *lying) RoundTrip(r *http.Request) (*http.Response, error) {
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	lie, old := y.l.due(r, key)
	if lie != "" && y.l.told != nil {
		y.l.told(lie, r)
	}
	switch lie {
	case "":
		return y.honest(r, key)
	case Stale:
		return old.answer(r), nil
	case BrokenAfter, Lost:
		res, err := y.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, res.Body) // nobody hears of it
		_ = res.Body.Close()
	}
	switch lie {
	case Lost:
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, io.ErrUnexpectedEOF)
	case Down:
		return nil, fmt.Errorf("%s %s: connection refused", r.Method, r.URL.Path)
	}
	return y.l.refuse(lie, r), nil
}

// honest passes a request on, and keeps what was read.
func (y *lying) honest(r *http.Request, key string) (*http.Response, error) {
	res, err := y.next.RoundTrip(r)
	if err != nil || !readsFrom(r) || res.StatusCode != http.StatusOK {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it was read, or err says why not
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	y.l.mu.Lock()
	defer y.l.mu.Unlock()
	y.l.seen[key] = reply{res.Header.Clone(), body}
	return res, nil
}

// keyOf is what is asked, and in which form.
func keyOf(r *http.Request) (string, error) {
	key := r.URL.String() + "\n" + r.Header.Get("Accept")
	if r.Method != http.MethodPost || !readsFrom(r) || r.Body == nil {
		return key, nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return key + "\n" + string(body), err
}

// answer is what was kept, or that it is what the asker has.
func (p reply) answer(r *http.Request) *http.Response {
	res := respond(r, http.StatusOK, p.header.Clone(), p.body)
	if tag := p.header.Get("Etag"); tag != "" && r.Header.Get("If-None-Match") == tag {
		res.StatusCode, res.Body = http.StatusNotModified, http.NoBody
	}
	return res
}

// refuse is an answer other than success.
func (l *Liar) refuse(lie Lie, r *http.Request) *http.Response {
	now := l.now()
	header := http.Header{"Content-Type": {"application/json"}, "Date": {now.UTC().Format(http.TimeFormat)}}
	status, words := http.StatusBadGateway, "Bad Gateway"
	switch lie {
	case LimitedFor:
		header.Set("Retry-After", strconv.Itoa(limitSeconds))
		status, words = http.StatusTooManyRequests, "Retry later"
	case LimitedUntil:
		header.Set("X-Ratelimit-Limit", "5000")
		header.Set("X-Ratelimit-Remaining", "0")
		header.Set("X-Ratelimit-Reset", strconv.FormatInt(now.Unix()+limitSeconds, 10))
		status, words = http.StatusForbidden, "API rate limit exceeded"
	case LimitedSilently:
		status, words = http.StatusForbidden, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
	case LimitedBare:
		status, words = http.StatusTooManyRequests, ""
	}
	return respond(r, status, header, fmt.Appendf(nil, `{"message":%q}`, words))
}

func respond(r *http.Request, status int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
