package forgetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
)

// Spoiled is what [Spoil] needs of a place.
type Spoiled struct {
	Repo   forge.Repo
	Number int64    // of an issue with labels, comments and a history
	Person int64    // an account
	Head   string   // of a change
	Only   []string // the names of what is asked; nil: everything
	// Client makes a client that knows nothing yet, whose network goes through wrap.
	Client func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) forge.Client
}

// callTime is how long one call may take with an answer that lies.
const callTime = 10 * time.Second

// Spoil asks each thing again and again, each time with a lie at another position
// of another answer on the way: a null, nothing at all, another type, an id that
// nothing has or that is something else's. What comes back is an error of forge's,
// or something that can be so; never a panic, and never late. What every question asks
// first, such as who the account is, is spoilt on the way of one of them. It returns how
// many lies were told.
func Spoil(t *testing.T, s Spoiled) (lies int) {
	t.Helper()
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.calls(nil))) {
		if s.Only != nil && !slices.Contains(s.Only, name) {
			continue
		}
		p := &spoiler{}
		if err := s.call(t, p, name); err != nil {
			t.Errorf("%s, told the truth: %v", name, err)
			continue
		}
		for n, body := range p.answers {
			if seen[p.keys[n]] {
				continue
			}
			seen[p.keys[n]] = true
			for _, lie := range spoils(body) {
				lies++
				p.at, p.body, p.asked = n, lie.body, 0
				var e *forge.Error
				if err := s.call(t, p, name); err != nil && (!errors.As(err, &e) || e.Reason == "") {
					t.Errorf("%s, answer %d with %s: %v", name, n, lie.what, err)
				}
			}
		}
	}
	return lies
}

// call makes one call of a client that knows nothing.
func (s Spoiled) call(t *testing.T, p *spoiler, name string) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%s, answer %d is %.300s: panic: %v", name, p.at, p.body, v)
		}
		if ctx.Err() != nil {
			t.Errorf("%s, answer %d is %.300s: no end", name, p.at, p.body)
		}
	}()
	return s.calls(s.Client(t, p.wrap))[name](ctx)
}

// calls are what is asked. Each errs as the client does, or with a word of its own
// about what can't be.
func (s Spoiled) calls(c forge.Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Repository": func(ctx context.Context) error {
			got, err := c.Repository(ctx, s.Repo.ID)
			return judged(err, got.ID == s.Repo.ID && got.Owner != "" && got.Name != "", got)
		},
		"Self": func(ctx context.Context) error {
			got, err := c.Self(ctx)
			return judged(err, got.ID > 0 && got.Login != "", got)
		},
		"Permission": func(ctx context.Context) error {
			_, err := c.Permission(ctx, s.Repo, s.Person)
			return err
		},
		"Issue": func(ctx context.Context) error {
			got, err := c.Issue(ctx, s.Repo, s.Number)
			return judged(err, got.Number == s.Number && possible(got), got)
		},
		"ListIssues": func(ctx context.Context) error {
			return c.ListIssues(ctx, s.Repo, noTime, func(i forge.Issue) error { return judged(nil, possible(i), i) })
		},
		"Comments": func(ctx context.Context) error {
			all, err := c.Comments(ctx, s.Repo, s.Number)
			for _, one := range all {
				err = judged(err, one.ID > 0 && one.Author.ID >= 0 && !one.CreatedAt.IsZero() && !one.UpdatedAt.IsZero(), one)
			}
			return err
		},
		"History": func(ctx context.Context) error {
			all, err := c.History(ctx, s.Repo, s.Number)
			for _, one := range all {
				err = judged(err, one.ID > 0 && one.Kind != "" && one.Actor.ID >= 0 && !one.At.IsZero(), one)
			}
			return err
		},
		"FindChange": func(ctx context.Context) error {
			got, err := c.FindChange(ctx, s.Repo, s.Head, "")
			return judged(err, got.Number > 0 && got.Head == s.Head && got.State != "" && got.Author.ID >= 0, got)
		},
		"ReviewComments": func(ctx context.Context) error {
			found, err := c.FindChange(ctx, s.Repo, s.Head, "")
			if err != nil {
				return err
			}
			all, err := c.ReviewComments(ctx, s.Repo, found.Number)
			for _, one := range all {
				err = judged(err, one.ID > 0 && one.Author.ID >= 0 && !one.CreatedAt.IsZero() && one.Kind != "", one)
			}
			return err
		},
		"AddLabel": func(ctx context.Context) error { return c.AddLabel(ctx, s.Repo, s.Number, "writ") },
		"SetState": func(ctx context.Context) error { return c.SetState(ctx, s.Repo, s.Number, forge.Open) },
		"EnsureLabels": func(ctx context.Context) error {
			return c.EnsureLabels(ctx, s.Repo, []forge.Label{{Name: "writ", Color: "ededed"}})
		},
		"AddComment": func(ctx context.Context) error {
			got, err := c.AddComment(ctx, s.Repo, s.Number, "said")
			return judged(err, got.ID > 0 && got.Author.ID >= 0, got)
		},
	}
}

func possible(i forge.Issue) bool {
	return i.Number > 0 && i.ID > 0 && (i.State == forge.Open || i.State == forge.Closed) && i.Author.ID >= 0 &&
		!i.CreatedAt.IsZero() && !i.UpdatedAt.IsZero() && !slices.Contains(i.Labels, "")
}

// judged is an error where a call succeeded with what can't be.
func judged(err error, can bool, got any) error {
	if err != nil || can {
		return err
	}
	return fmt.Errorf("it was believed: %+v", got)
}

// spoiler is between an adapter and its forge. It keeps every answer, gives the
// same again, and another in the place of one.
type spoiler struct {
	keys    []string
	headers []http.Header
	status  []int
	answers [][]byte

	at    int    // the answer that is spoilt
	body  []byte // nil: none
	asked int
	next  http.RoundTripper
}

func (p *spoiler) wrap(next http.RoundTripper) http.RoundTripper {
	if p.next == nil {
		p.next = next
	}
	return p
}

// CloseIdleConnections closes those of the way to the forge.
func (p *spoiler) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (p *spoiler) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	key := r.Method + " " + r.URL.String() + "\n" + string(sent)
	n := slices.Index(p.keys, key)
	switch {
	case n >= 0:
	case p.body != nil: // what the truth didn't lead to
		return respond(r, http.StatusNotFound, http.Header{"Content-Type": {"application/json"}}, []byte(`{"message":"Not Found"}`)), nil
	default:
		if err := p.learn(r, key); err != nil {
			return nil, err
		}
		n = len(p.keys) - 1
	}
	body := p.answers[n]
	if p.body != nil && n == p.at {
		body = p.body
	}
	return respond(r, p.status[n], p.headers[n].Clone(), body), nil
}

// learn asks the forge. What it says of its allowance, and by what an answer could
// be kept, is left out.
func (p *spoiler) learn(r *http.Request, key string) error {
	res, err := p.next.RoundTrip(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it was read, or err says why not
	if err != nil {
		return err
	}
	header := res.Header.Clone()
	header.Del("Etag")
	header.Del("Content-Length")
	p.keys, p.headers, p.status, p.answers = append(p.keys, key), append(p.headers, header), append(p.status, res.StatusCode), append(p.answers, body)
	return nil
}

// spoilt is an answer with a lie in it.
type spoilt struct {
	what string
	body []byte
}

// spoils are all lies about an answer, and what isn't JSON at all.
func spoils(body []byte) (list []spoilt) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return nil // it has no content
	}
	root := map[string]any{"": tree}
	tell := func(what string, value any) {
		b, err := json.Marshal(value)
		if err == nil {
			list = append(list, spoilt{what, b})
		}
	}
	eachPosition(root, "", func(path string) {
		b, err := json.Marshal(root[""])
		if err == nil {
			list = append(list, spoilt{path, b})
		}
	})
	for _, whole := range []any{nil, "x", 7, true, []any{}, []any{nil}, map[string]any{}, []any{map[string]any{}}} {
		tell(fmt.Sprintf("%v in all", whole), whole)
	}
	return append(list, spoilt{"half of it", body[:len(body)/2]}, spoilt{"nothing", []byte(" ")})
}

// eachPosition changes a tree at each of its positions in each way, and puts it
// back.
func eachPosition(node any, path string, tell func(string)) {
	switch n := node.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(n)) {
			was, at := n[k], path+"/"+k
			eachPosition(was, at, tell)
			lies := others(was)
			if isUnread(k) {
				lies = []any{json.Number("7")} // by its type the whole answer can't be read
			}
			for _, lie := range lies {
				n[k] = lie
				tell(fmt.Sprintf("%v at %s", lie, at))
			}
			if k != "" && !isUnread(k) {
				delete(n, k)
				tell("nothing at " + at)
			}
			n[k] = was
		}
	case []any:
		for i, was := range n {
			at := fmt.Sprintf("%s/%d", path, i)
			eachPosition(was, at, tell)
			for _, lie := range others(was) {
				n[i] = lie
				tell(fmt.Sprintf("%v at %s", lie, at))
			}
			n[i] = was
		}
	}
}

// isUnread reports whether a key is one of the many links to the rest of the API that answers
// of GitHub have, of which no adapter goes by any.
func isUnread(key string) bool {
	return strings.HasSuffix(key, "_url") && key != "html_url" && key != "web_url"
}

// others are what isn't there: null, each other type, and another of the same.
func others(was any) []any {
	all := []any{nil, "", "x", json.Number("7"), json.Number("-1"), true, []any{}, []any{nil}, map[string]any{}}
	if number, is := was.(json.Number); is {
		all = append(all, json.Number("0"), "-"+number, json.Number("1.5"), json.Number(fmt.Sprint(int64(math.MaxInt64))), json.Number("1e99"))
	}
	return all
}
