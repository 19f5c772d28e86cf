package transport

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Pauses. A forge that says nothing is left alone for a minute, then for twice
// as long each time; one that says something absurd is asked again after two
// hours at the latest, because a wrong clock must not stop an instance for ever.
const (
	minPause    = time.Second
	unsaidPause = time.Minute
	maxPause    = 2 * time.Hour
	maxDoubling = 7
	// maxSeconds tells a reset that counts seconds from one that is a time.
	maxSeconds = 366 * 24 * 60 * 60
)

// observe takes in what an answer says of limits, and returns for how long the
// forge wants to be left alone if it refused for one; 0 otherwise.
func (l *limiter) observe(c Call, res *http.Response, body []byte) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, b := l.of(c)
	now := l.now()
	spent := l.allowance(b, res.Header, now)
	if !refusedForLimit(res, body, spent) {
		if res.StatusCode < http.StatusBadRequest && (c.writes() || !a.wrote) {
			a.unsaid, a.wrote = 0, false
		}
		return 0
	}
	if said := retryAfter(res, now); said > 0 {
		a.pause = later(a.pause, now.Add(said))
		return said
	}
	if spent {
		return b.reset.Sub(now)
	}
	if now.Before(a.pause) { // several refusals of one moment are one
		return a.pause.Sub(now)
	}
	wait := min(unsaidPause<<min(a.unsaid, maxDoubling), maxPause)
	a.unsaid, a.wrote = a.unsaid+1, c.writes()
	a.pause = now.Add(wait)
	return wait
}

// allowance takes in the counters of an answer, and says whether nothing is left.
func (l *limiter) allowance(b *bucket, h http.Header, now time.Time) bool {
	left, limit := counter(h, "Remaining"), counter(h, "Limit")
	reset := counter(h, "Reset")
	if left < 0 || reset < 0 {
		return false
	}
	wait := time.Unix(reset, 0).Sub(serverTime(h, now))
	if reset <= maxSeconds {
		wait = time.Duration(reset) * time.Second
	}
	until := now.Add(clamp(wait))
	b.fill(left, until)
	if left == 0 {
		return true
	}
	if limit > 0 && left*100 < limit*int64(l.limits.Reserve) {
		b.low = until
	}
	return false
}

// sameFill is how far apart the times may be read that a forge says of one
// filling.
const sameFill = 5 * time.Second

// fill takes in how much is left until when. Answers may come in another order
// than they were given in, so that the least of a filling counts.
func (b *bucket) fill(left int64, until time.Time) {
	if d := until.Sub(b.reset); d.Abs() < sameFill {
		left = min(left, b.left)
	}
	b.left, b.reset = left, until
}

// serverTime is the forge's clock: its times are compared with its own.
func serverTime(h http.Header, now time.Time) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return now
}

// counter reads X-RateLimit-Name or RateLimit-Name; -1 for none.
func counter(h http.Header, name string) int64 {
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		if n, err := strconv.ParseInt(h.Get(prefix+name), 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}

// refusedForLimit tells a limit from a lack of permission: both may be a 403.
func refusedForLimit(res *http.Response, body []byte, spent bool) bool {
	switch res.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		said := strings.ToLower(string(body[:min(len(body), maxKeptBody)]))
		return spent || res.Header.Get("Retry-After") != "" ||
			strings.Contains(said, "rate limit") || strings.Contains(said, "abuse detection")
	}
	return false
}

// retryAfter reads the header, in seconds or as a date; 0 for none.
func retryAfter(res *http.Response, now time.Time) time.Duration {
	v := res.Header.Get("Retry-After")
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(v, 10, 32); err == nil && n >= 0 {
		return clamp(time.Duration(n) * time.Second)
	}
	if t, err := http.ParseTime(v); err == nil {
		return clamp(t.Sub(serverTime(res.Header, now)))
	}
	return 0
}

func clamp(d time.Duration) time.Duration { return min(max(d, minPause), maxPause) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
