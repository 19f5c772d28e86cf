package transport

import (
	"container/list"
	"net/http"
	"strings"
	"sync"
	"time"
)

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
