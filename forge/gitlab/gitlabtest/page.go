package gitlabtest

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The sizes of pages.
const (
	usualPage = 20
	mostPage  = 100
)

// page cuts a page out of a list, and sets the headers about it.
func page[T any](c *call, all []T, show func(T) any) any {
	at, per := max(int(c.number("page")), 1), int(c.number("per_page"))
	if per <= 0 {
		per = usualPage
	}
	per = min(per, mostPage)
	from := min((at-1)*per, len(all))
	to := min(from+per, len(all))
	pages := max((len(all)+per-1)/per, 1)
	next, prev := "", ""
	if at < pages {
		next = strconv.Itoa(at + 1)
	}
	if at > 1 {
		prev = strconv.Itoa(at - 1)
	}
	for name, value := range map[string]string{
		"X-Page": strconv.Itoa(at), "X-Per-Page": strconv.Itoa(per), "X-Next-Page": next, "X-Prev-Page": prev,
		"X-Total": strconv.Itoa(len(all)), "X-Total-Pages": strconv.Itoa(pages),
	} {
		c.header.Set(name, value)
	}
	var links []string
	for _, l := range [][2]string{{prev, "prev"}, {next, "next"}, {"1", "first"}, {strconv.Itoa(pages), "last"}} {
		if l[0] != "" {
			links = append(links, fmt.Sprintf(`<%s>; rel="%s"`, c.link(l[0], per), l[1]))
		}
	}
	c.header.Set("Link", strings.Join(links, ", "))
	out := make([]any, 0, to-from)
	for _, one := range all[from:to] {
		out = append(out, show(one))
	}
	return out
}

func (c *call) link(at string, per int) string {
	q := c.r.URL.Query()
	q.Set("page", at)
	q.Set("per_page", strconv.Itoa(per))
	u := url.URL{Path: c.r.URL.Path, RawPath: c.r.URL.RawPath, RawQuery: q.Encode()}
	return c.s.URL + u.String()
}

// Refuse is a lie that nothing was done for.
func Refuse(status int, headers ...string) Fault {
	return Fault{Status: status, Header: pairs(headers)}
}

// Broken is done, and answered with a failure.
func Broken(status int, headers ...string) Fault {
	return Fault{Status: status, Header: pairs(headers), Applied: true}
}

// Lost is done, and the connection ends without an answer.
func Lost() Fault { return Fault{Applied: true} }

// Fault is a false answer.
type Fault struct {
	Status  int // 0: none, the connection ends
	Header  http.Header
	Body    string // "": what GitLab says with that status
	Applied bool   // it was done all the same
}

func pairs(headers []string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return h
}

type lie struct {
	Fault
	method, path string
	left         int
}

// Lie answers the next times requests of a method whose path holds part with a
// fault. An empty method or part matches all. times below 0 is for ever.
func (s *Server) Lie(method, part string, times int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lies = append(s.lies, &lie{f, method, part, times})
}

// Honest ends all lies and lags.
func (s *Server) Honest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lies, s.replica, s.lag = nil, nil, 0
}

// Lag answers the next reads from a copy of the state as it is now: a replica
// that hasn't heard of what comes after.
func (s *Server) Lag(reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica, s.lag = s.data.clone(), reads
}

func (d *data) clone() *data {
	var b bytes.Buffer
	var out data
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		panic(err)
	}
	if err := gob.NewDecoder(&b).Decode(&out); err != nil {
		panic(err)
	}
	return &out
}

func (l *lie) answer(h http.Header) (int, http.Header, []byte) {
	for name, values := range l.Header {
		h[name] = values
	}
	body := l.Body
	if body == "" {
		body = fmt.Sprintf(`{"message":"%d %s"}`, l.Status, http.StatusText(l.Status))
	}
	return l.Status, h, []byte(body)
}
