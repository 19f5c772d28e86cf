package gitlabtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a server with one project and an owner.
type place struct {
	*Server
	id    int64
	owner User
	token string
}

func newPlace(t *testing.T, opts Options) *place {
	t.Helper()
	p := &place{Server: New(t, opts)}
	p.id = p.AddProject("acme", "shop")
	p.owner = p.AddUser("ana")
	p.SetMember(p.id, p.owner.ID, Owner)
	p.token = p.Token(p.owner.ID)
	return p
}

// ask makes a request of the API and decodes the answer.
func (p *place) ask(t *testing.T, method, path string, body any) (status int, answer any, header http.Header) {
	t.Helper()
	var b []byte
	if body != nil {
		var err error
		b, err = json.Marshal(body)
		ok(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL+"/api/v4/projects/"+itoa(p.id)+path, bytes.NewReader(b))
	ok(t, err)
	req.Header.Set("Private-Token", p.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.HTTP.Client().Do(req)
	ok(t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	ok(t, err)
	if len(raw) > 0 {
		ok(t, json.Unmarshal(raw, &answer))
	}
	return res.StatusCode, answer, res.Header
}

func (p *place) file(t *testing.T) {
	t.Helper()
	if status, _, _ := p.ask(t, "POST", "/issues", map[string]any{"title": "Add fails", "description": "It fails."}); status != http.StatusCreated {
		t.Fatal(status)
	}
}

// TestStrict_LikeGitLab: what GitLab doesn't publish is refused, and complained of.
func TestStrict_LikeGitLab(t *testing.T) {
	p := newPlace(t, Options{})
	p.file(t)
	for path, body := range map[string]map[string]any{
		"/issues":         {"title": "x", "body": "GitHub's word"},
		"/issues/1":       {"state_event": true},
		"/issues/1/notes": {"body": 7},
		"/merge_requests": {"title": "x", "head": "y"},
		"/labels":         {"name": "x", "color": "#fff", "priority": "high"},
		"/hooks":          {"url": "http://x.example", "issues_events": "perhaps"},
	} {
		method := "POST"
		if path == "/issues/1" {
			method = "PUT"
		}
		if status, _, _ := p.ask(t, method, path, body); status != http.StatusBadRequest {
			t.Errorf("%s with %v: %d", path, body, status)
		}
	}
	for _, path := range []string{"/issues?since=2026-01-01", "/issues?page=first", "/issues?updated_after=yesterday", "/issues?sort=up"} {
		if status, _, _ := p.ask(t, "GET", path, nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, _ := p.ask(t, "GET", "/pulls", nil); status != http.StatusNotFound {
		t.Errorf("an address that isn't one: %d", status)
	}
	if got := p.Complaints(); len(got) != 10 {
		t.Errorf("%d complaints: %q", len(got), got)
	}
}

// TestPaging: the headers lead through all pages, and each entry comes once.
func TestPaging(t *testing.T) {
	p := newPlace(t, Options{})
	const many = 45
	for range many {
		p.file(t)
	}
	seen := map[float64]bool{}
	at := "1"
	for at != "" {
		_, answer, header := p.ask(t, "GET", "/issues?per_page=20&page="+at, nil)
		for _, one := range answer.([]any) {
			seen[one.(map[string]any)["iid"].(float64)] = true
		}
		if header.Get("X-Total") != "45" || header.Get("X-Total-Pages") != "3" || header.Get("X-Page") != at || !strings.Contains(header.Get("Link"), `rel="last"`) {
			t.Errorf("page %s has %v", at, header)
		}
		at = header.Get("X-Next-Page")
	}
	if len(seen) != many {
		t.Errorf("%d of %d", len(seen), many)
	}
}

// TestQuickActions: executed and taken out, but not in what GitLab takes for
// code, a quote or HTML.
func TestQuickActions(t *testing.T) {
	for _, c := range []struct{ in, left, acts string }{
		{"hello\n/close\nworld", "hello\nworld", "close"},
		{"/label ~a ~\"b c\"", "", "label ~a ~\"b c\""},
		{"a\r\n/clo\rse  \r\n", "a", "close"},
		{"```\n/close\n```\nx", "```\n/close\n```\nx", ""},
		{"```\n/close\n````\n", "```\n````", "close"},
		{"~~~\n/close\n~~~", "~~~\n~~~", "close"},
		{"<details>\n/close\n</details>", "<details>\n/close\n</details>", ""},
		{">>>\n/close\n>>>", ">>>\n/close\n>>>", ""},
		{"/unknown\n /close\n/closed\n/close/now\n", "/unknown\n /close\n/closed\n/close/now", ""},
		{"/CLOSE\n/Reopen now", "", "close, reopen now"},
	} {
		left, acts := quickActions(c.in)
		var names []string
		for _, a := range acts {
			names = append(names, strings.TrimSpace(a.name+" "+a.arg))
		}
		if got := strings.Join(names, ", "); left != c.left || got != c.acts {
			t.Errorf("%q leaves %q and does %q, want %q and %q", c.in, left, got, c.left, c.acts)
		}
	}
}

// TestSign_Vector is the example of the Standard Webhooks specification.
func TestSign_Vector(t *testing.T) {
	got := Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

// inbox takes webhooks.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []Delivery
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{status: http.StatusOK}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		in.got = append(in.got, Delivery{ID: r.Header.Get("Idempotency-Key"), Event: r.Header.Get("X-Gitlab-Event"), Header: r.Header, Body: body})
		w.WriteHeader(in.status)
	}))
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) all() []Delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

// hook adds one to the place that asks for everything.
func (p *place) hook(t *testing.T, to, secret, signing string) {
	t.Helper()
	body := map[string]any{"url": to, "issues_events": true, "note_events": true, "merge_requests_events": true, "confidential_issues_events": true}
	for name, value := range map[string]string{"token": secret, "signing_token": signing} {
		if value != "" {
			body[name] = value
		}
	}
	if status, answer, _ := p.ask(t, "POST", "/hooks", body); status != http.StatusCreated {
		t.Fatal(status, answer)
	}
}

// everything lets each event happen once.
func (p *place) everything(t *testing.T) {
	t.Helper()
	p.file(t)
	p.ask(t, "PUT", "/issues/1", map[string]any{"add_labels": "writ"})
	p.ask(t, "POST", "/issues/1/notes", map[string]any{"body": "hello"})
	p.Branch(p.id, p.owner.ID, "work", map[string]string{"new": "x"})
	p.ask(t, "POST", "/merge_requests", map[string]any{"title": "Fix", "source_branch": "work", "target_branch": "main"})
	p.ask(t, "POST", "/merge_requests/1/notes", map[string]any{"body": "hello"})
	p.ask(t, "PUT", "/merge_requests/1/merge", map[string]any{})
	p.Settle()
}

// TestHooks_Forms: the secret, the signature, both or neither.
func TestHooks_Forms(t *testing.T) {
	for _, c := range []struct{ secret, signing string }{{"", ""}, {"s3cret", ""}, {"", SigningToken("k")}, {"s3cret", SigningToken("k")}} {
		p, in := newPlace(t, Options{}), newInbox(t)
		p.hook(t, in.URL, c.secret, c.signing)
		p.everything(t)
		var events []string
		ids := map[string]bool{}
		for _, d := range in.all() {
			events, ids[d.ID] = append(events, d.Event), true
			if d.Header.Get("X-Gitlab-Token") != c.secret {
				t.Errorf("the secret is %q", d.Header.Get("X-Gitlab-Token"))
			}
			id, at, signature := d.Header.Get("webhook-id"), d.Header.Get("webhook-timestamp"), d.Header.Get("webhook-signature")
			if signed := signature != ""; signed != (c.signing != "") || signed && (id != d.ID || signature != Sign(c.signing, id, at, d.Body)) {
				t.Errorf("signed %q for %q at %q", signature, id, at)
			}
		}
		want := []string{"Issue Hook", "Issue Hook", "Note Hook", "Push Hook", "Merge Request Hook", "Note Hook", "Push Hook", "Merge Request Hook"}
		if !slices.Equal(events, want) || len(ids) != len(events) {
			t.Errorf("told %q with %d ids", events, len(ids))
		}
	}
}

// TestHooks_Network: deliveries are lost, doubled and sent again later.
func TestHooks_Network(t *testing.T) {
	in := newInbox(t)
	var kept []Delivery
	n := 0
	p := newPlace(t, Options{Network: func(d Delivery) []Delivery {
		switch n++; n {
		case 1:
			kept = append(kept, d)
			return nil
		case 2:
			return []Delivery{d, d}
		}
		return []Delivery{d}
	}})
	p.hook(t, in.URL, "s3cret", "")
	p.file(t)
	p.file(t)
	p.file(t)
	p.Settle()
	if status := p.Send(t.Context(), kept[0]); status != "200" {
		t.Error(status)
	}
	got := in.all()
	if len(got) != 4 || got[0].ID != got[1].ID || got[3].ID != kept[0].ID || !bytes.Equal(got[3].Body, kept[0].Body) {
		t.Errorf("%d arrived", len(got))
	}
}

// TestHooks_LeftAlone: a hook that fails four times in a row isn't told of what
// comes next, until the pause is over.
func TestHooks_LeftAlone(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	p, in := newPlace(t, Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}), newInbox(t)
	in.status = http.StatusBadRequest
	p.hook(t, in.URL, "s3cret", "")
	for range 6 {
		p.file(t)
		p.Settle()
	}
	if got := len(in.all()); got != 4 {
		t.Errorf("%d arrived, want 4", got)
	}
	_, answer, _ := p.ask(t, "GET", "/hooks", nil)
	if state := answer.([]any)[0].(map[string]any)["alert_status"]; state != "temporarily_disabled" {
		t.Error(state)
	}
	mu.Lock()
	now = now.Add(2 * hookPause)
	mu.Unlock()
	p.file(t)
	p.Settle()
	if got := len(in.all()); got != 5 {
		t.Errorf("%d arrived, want 5", got)
	}
}
