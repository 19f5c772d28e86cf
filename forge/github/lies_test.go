package github_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// wire is between the adapter and GitHub: it counts, and lies.
type wire struct {
	next http.RoundTripper

	mu   sync.Mutex
	lie  func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error)
	seen []*http.Request
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	w.next = next
	return w
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.seen = append(w.seen, req)
	lie := w.lie
	w.mu.Unlock()
	do := func() (*http.Response, error) { return w.next.RoundTrip(req) }
	if lie == nil {
		return do()
	}
	return lie(req, do)
}

// set makes the wire lie from now on, and forgets what it has seen.
func (w *wire) set(lie func(*http.Request, func() (*http.Response, error)) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lie, w.seen = lie, nil
}

// sent are the requests that it has seen, of those that match.
func (w *wire) sent(match func(*http.Request) bool) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.seen {
		if match(r) {
			n++
		}
	}
	return n
}

// writes are requests that change something: neither questions nor tokens.
func writes(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/access_tokens") && !strings.HasSuffix(r.URL.Path, "/graphql")
}

func answered(status int, body string, headers ...string) (*http.Response, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// applied drops the answer to a write that was done.
func applied(do func() (*http.Response, error), then func() (*http.Response, error)) (*http.Response, error) {
	res, err := do()
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	return then()
}

// TestF5_LyingServer: whichever write is done although GitHub seems to fail, it
// is sent once, and the error says that it may have been done.
func TestF5_LyingServer(t *testing.T) {
	e := githubtest.Start(t)
	lies := map[string]func(*http.Request, func() (*http.Response, error)) (*http.Response, error){
		"502 after it was done": func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
			if !writes(req) {
				return do()
			}
			return applied(do, func() (*http.Response, error) { return answered(502, "") })
		},
		"500 before it is done": func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
			if !writes(req) {
				return do()
			}
			return answered(500, "")
		},
		"the answer is lost": func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
			if !writes(req) {
				return do()
			}
			return applied(do, func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
		},
		"the answer is another page": func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
			if !writes(req) {
				return do()
			}
			return applied(do, func() (*http.Response, error) { return answered(200, "<html>We'll be right back") })
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			p := e.Place(t, githubtest.Options{})
			w := &wire{}
			c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
			ctx, r := t.Context(), p.Repo
			owner := p.As(t, p.Owner)
			i := must[forge.Issue](t)(owner.FileIssue(ctx, r, "One", "text"))
			said := must[forge.Comment](t)(c.AddComment(ctx, r, i.Number, "before"))
			oid := p.Commit(t, "work", "main", map[string]string{"a": "b"})
			ok(t, c.AddLabel(ctx, r, i.Number, "there"))
			for what, act := range map[string]func() error{
				"comment":        func() error { _, err := c.AddComment(ctx, r, i.Number, "once"); return err },
				"edit a comment": func() error { return c.EditComment(ctx, r, said.ID, "after") },
				"react":          func() error { return c.React(ctx, r, said.ID, forge.ReactionSeen) },
				"react to it":    func() error { return c.ReactToIssue(ctx, r, i.Number, forge.ReactionSeen) },
				"label":          func() error { return c.AddLabel(ctx, r, i.Number, "writ") },
				"close":          func() error { return c.SetState(ctx, r, i.Number, forge.Closed) },
				"check":          func() error { return c.SetCheck(ctx, r, oid, forge.Check{Name: "writ", State: forge.CheckPassed}) },
				"change": func() error {
					_, err := c.OpenChange(ctx, r, forge.Change{Title: "x", Head: "work", Base: "main"})
					return err
				},
			} {
				w.set(lie)
				err := act()
				if name == "the answer is another page" && (what == "label" || err == nil) {
					continue // nothing of that answer is used
				}
				var f *forge.Error
				if !errors.As(err, &f) || f.Reason != forge.Unavailable || !f.Applied {
					t.Errorf("%s: %v", what, err)
				}
				if n := w.sent(writes); n != 1 {
					t.Errorf("%s: sent %d times", what, n)
				}
			}
		})
	}
}

// TestF4_LimitsReachTheCaller: every form of a limit is Limited with a time, and
// until then nothing of that account is sent. A lack of permission is not one.
func TestF4_LimitsReachTheCaller(t *testing.T) {
	e := githubtest.Start(t)
	const secondary = `{"message":"You have exceeded a secondary rate limit. Please wait."}`
	for name, c := range map[string]struct {
		status  int
		body    string
		headers []string
		want    forge.Reason
		atLeast time.Duration
	}{
		"429 with Retry-After":   {429, "{}", []string{"Retry-After", "77"}, forge.Limited, 77 * time.Second},
		"403 with Retry-After":   {403, "{}", []string{"Retry-After", "77"}, forge.Limited, 77 * time.Second},
		"403 with nothing left":  {403, "{}", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1800000300", "Date", "Fri, 15 Jan 2027 08:00:00 GMT"}, forge.Limited, 5 * time.Minute},
		"403 that only says so":  {403, secondary, nil, forge.Limited, time.Minute},
		"429 without a word":     {429, "", nil, forge.Limited, time.Minute},
		"403 for lack of rights": {403, `{"message":"Resource not accessible by integration"}`, nil, forge.Forbidden, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := e.Place(t, githubtest.Options{})
			w := &wire{}
			client := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
			i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
			ok(t, client.AddLabel(t.Context(), p.Repo, i.Number, "there"))
			w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
				if writes(req) {
					return answered(c.status, c.body, c.headers...)
				}
				return do()
			})
			_, err := client.AddComment(t.Context(), p.Repo, i.Number, "once")
			var f *forge.Error
			if !errors.As(err, &f) || f.Reason != c.want || f.Applied || f.RetryAfter < c.atLeast {
				t.Fatalf("%v, for %s", err, f.RetryAfter)
			}
			w.set(nil)
			_, err = client.Issue(t.Context(), p.Repo, i.Number)
			if forge.IsReason(err, forge.Limited) != (c.want == forge.Limited) {
				t.Errorf("after it: %v", err)
			}
			if every := func(*http.Request) bool { return true }; c.want == forge.Limited && w.sent(every) > 0 {
				t.Error("something was sent all the same")
			}
		})
	}
}

// TestF4_UnchangedCostsNothing: what was read before is asked for conditionally,
// permissions never.
func TestF4_UnchangedCostsNothing(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	owner := p.As(t, p.Owner)
	i := must[forge.Issue](t)(owner.FileIssue(t.Context(), p.Repo, "One", "text"))
	conditional := func(r *http.Request) bool { return r.Header.Get("If-None-Match") != "" }
	for n := range 3 {
		w.set(nil)
		if got := must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number)); got.Title != "One" {
			t.Errorf("the issue is %+v", got)
		}
		if got := w.sent(conditional); n > 0 && got != 1 {
			t.Errorf("reading %d: %d conditional requests", n, got)
		}
	}
	ok(t, owner.EditIssue(t.Context(), p.Repo, i.Number, "Two", "text"))
	if got := must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number)); got.Title != "Two" {
		t.Errorf("after an edit the issue is %+v", got)
	}
	for _, may := range []forge.Permission{forge.Write, forge.Read, forge.Maintain} {
		p.Grant(t, p.Reader.ID, may)
		w.set(nil)
		if got := must[forge.Permission](t)(c.Permission(t.Context(), p.Repo, p.Reader.ID)); got != may {
			t.Errorf("permission %s, want %s", got, may)
		}
		if n := w.sent(conditional); n > 0 {
			t.Errorf("%d permission requests were conditional", n)
		}
	}
}

// TestI3_EditsThatCantBeRead: edits that GitHub doesn't show are an error, or an
// event without a text, never the word that there were none.
func TestI3_EditsThatCantBeRead(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	owner := p.As(t, p.Owner)
	i := must[forge.Issue](t)(owner.FileIssue(t.Context(), p.Repo, "One", "text"))
	ok(t, owner.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
	data := func(id, edits, last string) string {
		return `{"data":{"repository":{"databaseId":` + id + `,"issue":{"title":"One","body":"text","lastEditedAt":` + last + `,"includesCreatedEdit":false,"userContentEdits":` + edits + `}}}`
	}
	id, none := idText(p.Repo.ID), `{"pageInfo":{"hasPreviousPage":false},"nodes":[]}`
	answer := ""
	w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/graphql") {
			return answered(200, answer)
		}
		return do()
	})
	for name, c2 := range map[string]struct {
		answer string
		want   forge.Reason
	}{
		"null":               {data(id, "null", "null") + "}", forge.NotFound},
		"null and an error":  {data(id, "null", "null") + `,"errors":[{"type":"FORBIDDEN","message":"no"}]}`, forge.Forbidden},
		"an error beside it": {data(id, none, "null") + `,"errors":[{"type":"INTERNAL","message":"no"}]}`, forge.Unavailable},
		"limited":            {`{"errors":[{"type":"RATE_LIMITED","message":"no"}]}`, forge.Limited},
		"another repository": {data("987654", none, "null") + "}", forge.NotFound},
		"a page":             {"<html>", forge.Unavailable},
	} {
		answer = c2.answer
		_, err := c.History(t.Context(), p.Repo, i.Number)
		wantReason(t, name, err, c2.want)
	}
	answer = data(id, none, `"2030-01-02T03:04:05Z"`) + "}"
	events := must[[]forge.Event](t)(c.History(t.Context(), p.Repo, i.Number))
	if len(events) != 2 || events[1].Kind != forge.EventEdited || events[0].Digest != "" || events[1].Digest != "" {
		t.Errorf("edited, and not shown how: %+v", events)
	}
	answer = data(id, none, "null") + "}"
	if events := must[[]forge.Event](t)(c.History(t.Context(), p.Repo, i.Number)); len(events) != 1 || events[0].Digest == "" {
		t.Errorf("never edited: %+v", events)
	}
}

// TestF4_OneAsksForAll: when a repository's name is to be looked up again, one of
// those who act does it.
func TestF4_OneAsksForAll(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	cl := newClock()
	w := &wire{}
	c := host(t, p.Config(), func(c *github.Config) { c.Now, c.Wrap = cl.Now, w.wrap }).Client(p.Repo)
	i := must[forge.Issue](t)(p.As(t, p.Owner).FileIssue(t.Context(), p.Repo, "One", "text"))
	must[forge.Issue](t)(c.Issue(t.Context(), p.Repo, i.Number))
	cl.pass(2 * time.Minute)
	w.set(nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.Issue(t.Context(), p.Repo, i.Number); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.sent(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/installation/repositories") }); n != 1 {
		t.Errorf("asked for the repository %d times", n)
	}
}
