package transport

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const oldDate = "Date: Sat, 01 Jan 2000 00:00:10 GMT"

// TestCache_UnchangedIsServed: the second request asks whether anything changed,
// and the kept answer is served when nothing has.
func TestCache_UnchangedIsServed(t *testing.T) {
	for name, c := range map[string]struct{ validator, condition string }{
		"ETag":          {`Etag: "v1"`, "If-None-Match"},
		"Last-Modified": {"Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT\n" + oldDate, "If-Modified-Since"},
	} {
		t.Run(name, func(t *testing.T) {
			f, tr := newFake(t, Limits{}, answer{status: 200, header: c.validator + "\nLink: <next>\nX-RateLimit-Remaining: 5", body: "one"}, answer{status: 304, header: "X-New: yes"}, answer{status: 200, body: "two"})
			for i, want := range []string{"one", "one", "two"} {
				got, err := ask(t.Context(), tr, http.MethodGet, "https://forge.example/x", Call{Account: "a"})
				ok(t, err)
				if got.body != want || got.status != 200 {
					t.Fatalf("answer %d is %d %q, want %q", i, got.status, got.body, want)
				}
				if i == 1 && (got.header.Get("Link") != "<next>" || got.header.Get("X-New") != "yes" || got.header.Get("X-RateLimit-Remaining") != "") {
					t.Errorf("served with the headers %v", got.header)
				}
			}
			_, value, _ := strings.Cut(strings.Split(c.validator, "\n")[0], ": ")
			if got := f.requests[0].Header.Get(c.condition) + "," + f.requests[1].Header.Get(c.condition); got != ","+value {
				t.Errorf("conditions %q", got)
			}
		})
	}
}

// TestCache_NotOfOthers: an answer is served to the account that got it, for what
// it asked for, and nothing that could have been another version is kept.
func TestCache_NotOfOthers(t *testing.T) {
	kept := answer{status: 200, header: `Etag: "v1"`, body: "secret"}
	for name, c := range map[string]struct {
		first  answer
		call   Call
		accept string
		method string
	}{
		"another account":  {kept, Call{Account: "b"}, "", http.MethodGet},
		"another form":     {kept, Call{Account: "a"}, "text/html", http.MethodGet},
		"a write":          {kept, Call{Account: "a"}, "", http.MethodPost},
		"must be live":     {kept, Call{Account: "a", Live: true}, "", http.MethodGet},
		"of the same time": {answer{status: 200, header: "Last-Modified: Sat, 01 Jan 2000 00:00:09 GMT\n" + oldDate}, Call{Account: "a"}, "", http.MethodGet},
		"without a date":   {answer{status: 200, header: "Last-Modified: Sat, 01 Jan 2000 00:00:09 GMT"}, Call{Account: "a"}, "", http.MethodGet},
		"too large":        {answer{status: 200, header: `Etag: "v1"`, body: strings.Repeat("x", maxEntry+1)}, Call{Account: "a"}, "", http.MethodGet},
		"no success":       {answer{status: 203, header: `Etag: "v1"`}, Call{Account: "a"}, "", http.MethodGet},
	} {
		t.Run(name, func(t *testing.T) {
			f, tr := newFake(t, Limits{Interval: -1}, c.first, answer{status: 200, body: "other"})
			_, err := get(t, tr, Call{Account: "a"})
			ok(t, err)
			_, err = ask(t.Context(), tr, c.method, "https://forge.example/x", c.call, "Accept", c.accept)
			ok(t, err)
			if h := f.requests[1].Header; h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != "" {
				t.Errorf("asked conditionally: %v", h)
			}
		})
	}
}

// TestCache_Bounded: what was used last stays, and the rest makes room.
func TestCache_Bounded(t *testing.T) {
	f := &fake{answers: []answer{{status: 200, header: `Etag: "v1"`, body: strings.Repeat("x", 8<<10)}}}
	tr, err := New(Config{Hosts: []string{"forge.example"}, Base: f, Cache: 45 << 10})
	ok(t, err)
	visit := func(n int) {
		_, err := ask(t.Context(), tr, http.MethodGet, fmt.Sprintf("https://forge.example/%d", n), Call{})
		ok(t, err)
	}
	for n := range 20 {
		visit(n)
		visit(0)
	}
	if n := len(tr.cache.byKey); n != 4 || tr.cache.used.Len() != n || tr.cache.room < 0 {
		t.Errorf("%d answers are kept, %d bytes are left", n, tr.cache.room)
	}
	if f.requests[len(f.requests)-1].Header.Get("If-None-Match") == "" {
		t.Error("what is used all the time was forgotten")
	}
	off, err := New(Config{Hosts: []string{"forge.example"}, Base: f, Cache: -1})
	ok(t, err)
	_, err = get(t, off, Call{})
	ok(t, err)
	if len(off.cache.byKey) > 0 {
		t.Error("an answer was kept although none may be")
	}
}
