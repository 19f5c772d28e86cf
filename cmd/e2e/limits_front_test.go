package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// rule is a published limit: so many of some requests, or so much of what they
// weigh, in any stretch of time.
type rule struct {
	name   string
	most   int
	in     time.Duration
	weighs func(method, path string) int
	spent  []spending
}

type spending struct {
	at     time.Time
	weight int
}

// takes counts a request, or says how long until there is room for it.
func (r *rule) takes(method, path string, now time.Time) time.Duration {
	weight := r.weighs(method, path)
	if weight == 0 {
		return 0
	}
	sum := weight
	r.spent = slices.DeleteFunc(r.spent, func(s spending) bool { return now.Sub(s.at) >= r.in })
	for _, s := range r.spent {
		sum += s.weight
	}
	if sum > r.most {
		return r.spent[0].at.Add(r.in).Sub(now)
	}
	r.spent = append(r.spent, spending{now, weight})
	return 0
}

// allowance is the limit that a forge tells of in its headers: so many requests,
// until it is filled again.
type allowance struct {
	prefix string // of the headers
	most   int
	in     time.Duration

	left  int
	reset time.Time
}

func (a *allowance) renew(now time.Time) {
	if !now.Before(a.reset) {
		a.left, a.reset = a.most, now.Add(a.in)
	}
}

// front holds a forge's published limits in front of it. It is a network that
// takes its time.
type front struct {
	next   http.RoundTripper
	rules  []*rule
	quota  allowance
	silent bool // it doesn't say for how long it refuses, which means a minute
	status int  // of its refusals

	mu       sync.Mutex
	now      int // under way
	most     int // at once
	requests []string
	refusals []string

	every     int           // one of so many is refused, by turns with and without a time; 0: none
	lot       *rand.Rand    // draws it: what looks at the same things again and again would meet a fixed turn in step
	wait      time.Duration // the time
	since     time.Time     // what is sent at the same moment as what is refused can't know
	alone     time.Time     // until then it wants to be left alone
	impatient []string      // that were sent all the same
	swept     int           // sweeps in the last of the allowance
}

// servedAtOnce is how many requests GitHub serves at one time.
const servedAtOnce = 100

func (f *front) RoundTrip(req *http.Request) (*http.Response, error) {
	if why, wait := f.enter(req); why != "" {
		return f.answer(req, why, wait), nil
	}
	defer func() { f.mu.Lock(); f.now--; f.mu.Unlock() }()
	if !strings.HasSuffix(req.URL.Path, "/access_tokens") { // others wait for it on a mutex, which is no waiting to the bubble
		<-time.After(80 * time.Millisecond)
	}
	res, err := f.next.RoundTrip(req)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if res.StatusCode == http.StatusNotModified && f.quota.prefix == "X-RateLimit-" {
			f.quota.left++ // GitHub counts what has changed only
		}
		f.say(res.Header)
	}
	return res, err
}

func (f *front) enter(req *http.Request) (why string, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, method, path := time.Now(), req.Method, req.URL.Path
	f.quota.renew(now)
	f.requests = append(f.requests, method+" "+path)
	own := !strings.HasSuffix(path, "/access_tokens") // which the App asks for
	if own && now.After(f.since) && now.Before(f.alone) {
		f.impatient = append(f.impatient, method+" "+path)
	}
	if method == http.MethodGet && strings.HasSuffix(path, "/issues") && f.quota.left*100 < f.quota.most*15 {
		f.swept++
	}
	f.silent = false
	if own && f.every > 0 && f.lot.IntN(f.every) == 0 {
		why, wait, f.silent = "as the test wants", f.wait, len(f.refusals)%2 == 1
		if f.silent && f.quota.left == 0 { // then the allowance's reset is all that is said
			wait = f.quota.reset.Sub(now)
		}
	}
	for _, r := range f.rules {
		if why == "" {
			if wait = r.takes(method, path, now); wait > 0 {
				why = r.name
			}
		}
	}
	switch {
	case why != "":
	case f.now >= servedAtOnce:
		why, wait = "at once", time.Minute
	case f.quota.left == 0:
		why, wait = "allowance", f.quota.reset.Sub(now)
	}
	if why != "" {
		f.since, f.alone = now, now.Add(wait)
		f.refusals = append(f.refusals, fmt.Sprintf("%s %s: %s, %s", method, path, why, wait))
		return why, wait
	}
	f.quota.left--
	f.now++
	f.most = max(f.most, f.now)
	return "", 0
}

// say writes the headers. The lock is held.
func (f *front) say(h http.Header) {
	for _, name := range []string{"X-RateLimit-", "RateLimit-"} {
		for _, of := range []string{"Limit", "Remaining", "Reset", "Observed", "Used", "Resource"} {
			h.Del(name + of)
		}
	}
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set(f.quota.prefix+"Limit", strconv.Itoa(f.quota.most))
	h.Set(f.quota.prefix+"Remaining", strconv.Itoa(f.quota.left))
	h.Set(f.quota.prefix+"Reset", strconv.FormatInt(f.quota.reset.Unix(), 10))
}

func (f *front) answer(req *http.Request, why string, wait time.Duration) *http.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &http.Response{StatusCode: f.status, Header: http.Header{}, Request: req}
	body := `{"message":"You have exceeded a secondary rate limit."}`
	f.say(res.Header)
	if why == "allowance" {
		body = `{"message":"API rate limit exceeded."}`
	} else if !f.silent {
		res.Header.Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	}
	res.Body = io.NopCloser(strings.NewReader(body))
	return res
}

// inProcess is a network to a handler of this process.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(req.Context())
	in.RequestURI = req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, in)
	return w.Result(), nil
}
