package setup

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/github"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gittest.InMemory(m)) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const testHost = "127.0.0.1:4711"

// desk is a page over a GitHub that a test writes.
type desk struct {
	*page
	t       *testing.T
	g       *GitHub
	convert func(ctx context.Context, code string) (github.Made, error)
	made    chan kept
	mu      sync.Mutex
	codes   []string // that were traded
	said    strings.Builder
	cookie  *http.Cookie
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, made: make(chan kept, 1)}
	d.g = &GitHub{
		Repositories: []string{"acme/shop"}, PublicURL: "https://writ.example.org", Dir: filepath.Join(t.TempDir(), "writ-server"),
		Builder: []string{"sh", "-c", "echo hello > out.txt"},
		Say:     func(format string, args ...any) { d.said.WriteString(format) },
	}
	ok(t, d.g.Ready())
	p, err := d.g.page(testHost, d.made)
	ok(t, err)
	d.convert = func(context.Context, string) (github.Made, error) { return anApp(), nil }
	p.accept = d.g.acceptor(func(ctx context.Context, code string) (github.Made, error) {
		d.mu.Lock()
		d.codes = append(d.codes, code)
		d.mu.Unlock()
		return d.convert(ctx, code)
	}, d.made)
	d.page = p
	return d
}

func anApp() github.Made {
	return github.Made{ID: 77, Slug: "writ-acme", Page: "https://github.com/apps/writ-acme", Key: []byte("the-key\n"), HookSecret: "the-hook-secret"}
}

// ask makes a request as the browser that came by the link, if it did.
func (d *desk) ask(method, path string, change ...func(*http.Request)) (*http.Response, string) {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), method, "http://"+testHost+path, nil)
	if d.cookie != nil {
		r.AddCookie(d.cookie)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	res := w.Result()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ok(d.t, err)
	return res, string(body)
}

// want makes a request and looks at the status.
func (d *desk) want(status int, method, path string, change ...func(*http.Request)) string {
	d.t.Helper()
	res, body := d.ask(method, path, change...) //nolint:bodyclose // ask closes it
	if res.StatusCode != status {
		d.t.Errorf("%s %s: %s, want %d", method, path, res.Status, status)
	}
	return body
}

// enter opens the link and follows it.
func (d *desk) enter() {
	d.t.Helper()
	link, err := url.Parse(d.link())
	ok(d.t, err)
	res, _ := d.ask(http.MethodGet, link.RequestURI()) //nolint:bodyclose // ask closes it
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" || len(res.Cookies()) != 1 {
		d.t.Fatalf("the link answers %s %v", res.Status, res.Header)
	}
	d.cookie = res.Cookies()[0]
}

var stateOf = regexp.MustCompile(`action="[^"]*[?]state=([A-Z0-9]+)"`)

// begin loads the page and returns the state that would go to GitHub.
func (d *desk) begins() string {
	d.t.Helper()
	m := stateOf.FindStringSubmatch(d.want(http.StatusOK, http.MethodGet, "/"))
	if m == nil {
		d.t.Fatal("the page has no state")
	}
	return m[1]
}

func made(code, state string) string {
	return pathMade + "?" + url.Values{"code": {code}, "state": {state}}.Encode()
}

// TestSetup_Token: nobody gets anything but by the whole link, and the cookie is
// one that scripts and other sites' forms don't have.
func TestSetup_Token(t *testing.T) {
	d := newDesk(t)
	for _, path := range []string{"/", "/start", "/start?token=", "/start?token=" + string(d.token[1:]), "/start?token=" + string(d.page.cookie), made("c", string(d.state)), pathRetry} {
		body := d.want(http.StatusForbidden, http.MethodGet, path)
		if strings.Contains(body, "manifest") || strings.Contains(body, string(d.token)) {
			t.Errorf("%s shows what it must not: %s", path, body)
		}
	}
	d.enter()
	if !d.cookie.HttpOnly || d.cookie.SameSite != http.SameSiteLaxMode || d.cookie.Value == string(d.token) {
		t.Errorf("cookie %+v", d.cookie)
	}
	d.begins()
	d.cookie.Value = d.cookie.Value[1:] + "A"
	d.want(http.StatusForbidden, http.MethodGet, "/")
}

// TestSetup_Host: a name that leads here by somebody's DNS is not answered, even
// with the cookie.
func TestSetup_Host(t *testing.T) {
	d := newDesk(t)
	d.enter()
	for _, host := range []string{"evil.example:4711", "localhost:4711", "127.0.0.1", "127.0.0.1:4712", ""} {
		as := func(r *http.Request) { r.Host = host }
		d.want(http.StatusForbidden, http.MethodGet, "/", as)
		d.want(http.StatusForbidden, http.MethodGet, pathStart+"?token="+string(d.token), as)
	}
}

// TestSetup_State: a code counts only with the state that was given out, once.
func TestSetup_State(t *testing.T) {
	d := newDesk(t)
	d.enter()
	d.want(http.StatusBadRequest, http.MethodGet, made("early", ""))
	state := d.begins()
	for _, wrong := range []string{"", "x", state[1:], state + "A"} {
		d.want(http.StatusBadRequest, http.MethodGet, made("forged", wrong))
	}
	if len(d.codes) > 0 {
		t.Fatalf("codes that don't belong here were traded: %v", d.codes)
	}
	d.convert = func(context.Context, string) (github.Made, error) {
		return github.Made{}, &forge.Error{Reason: forge.NotFound}
	}
	if body := d.want(http.StatusBadGateway, http.MethodGet, made("old", state)); !strings.Contains(body, "counts once") {
		t.Errorf("an old code is told as %s", body)
	}
	d.want(http.StatusBadRequest, http.MethodGet, made("second", state))
	if len(d.codes) != 1 {
		t.Errorf("traded %v, want the one", d.codes)
	}
}

// TestSetup_Locks: once the App is there the page is closed for everybody, and
// no second code is traded.
func TestSetup_Locks(t *testing.T) {
	d := newDesk(t)
	d.enter()
	state := d.begins()
	body := d.want(http.StatusOK, http.MethodGet, made("c0de", state))
	if !strings.Contains(body, `href="https://github.com/apps/writ-acme/installations/new"`) || strings.Contains(body, "the-key") || strings.Contains(body, "the-hook-secret") {
		t.Errorf("the last page says %s", body)
	}
	select {
	case <-d.done:
	default:
		t.Error("the page isn't done")
	}
	for _, path := range []string{"/", pathStart + "?token=" + string(d.token), made("c0de", state), made("other", string(d.state)), "/none"} {
		d.want(http.StatusGone, http.MethodGet, path)
	}
	d.want(http.StatusGone, http.MethodPost, pathRetry, sameOrigin)
	if len(d.codes) != 1 || (<-d.made).ID != 77 {
		t.Errorf("traded %v", d.codes)
	}
}

func sameOrigin(r *http.Request) { r.Header.Set("Origin", "http://"+testHost) }

// TestSetup_CodeCountsOnce: what GitHub gave is kept in memory until it can be
// written, and never asked for again.
func TestSetup_CodeCountsOnce(t *testing.T) {
	d := newDesk(t)
	d.enter()
	state := d.begins()
	inTheWay := filepath.Join(d.g.Dir, githubHookFile)
	ok(t, os.WriteFile(inTheWay, []byte("of somebody else"), 0o600))
	if body := d.want(http.StatusBadGateway, http.MethodGet, made("c0de", state)); !strings.Contains(body, "left as it is") && !strings.Contains(body, "left as it was") {
		t.Errorf("says %s", body)
	}
	if lost := d.g.lost(); lost == nil || !strings.Contains(lost.Error(), githubMadeFile) {
		t.Errorf("who gives up now is told %v", lost)
	}
	d.want(http.StatusNotFound, http.MethodPost, pathRetry) // from another site
	ok(t, os.Remove(inTheWay))
	d.convert = func(context.Context, string) (github.Made, error) {
		return github.Made{}, errors.New("asked for a second time")
	}
	d.want(http.StatusOK, http.MethodPost, pathRetry, sameOrigin)
	if len(d.codes) != 1 {
		t.Errorf("traded %v", d.codes)
	}
	wantKept(t, d.g)
	if err := d.g.lost(); err != nil {
		t.Error(err)
	}
}

// TestSetup_KeyIsLost: an App whose key could be written nowhere isn't passed over
// in silence when somebody gives up.
func TestSetup_KeyIsLost(t *testing.T) {
	d := newDesk(t)
	d.enter()
	ok(t, os.Mkdir(d.g.path(githubMadeFile), 0o700))
	d.want(http.StatusBadGateway, http.MethodGet, made("c0de", d.begins()))
	ok(t, os.Remove(d.g.path(githubMadeFile)))
	var e *Error
	if err := d.g.lost(); !errors.As(err, &e) || !strings.Contains(e.Text, "writ-acme") || !strings.Contains(e.Remedy, "--app-id 77") || !strings.Contains(e.Remedy, anApp().Page) {
		t.Errorf("who gives up is told %v", err)
	}
}

// TestSetup_Unreachable: a try that failed on the way is repeated with the same
// code.
func TestSetup_Unreachable(t *testing.T) {
	d := newDesk(t)
	d.enter()
	d.convert = func(context.Context, string) (github.Made, error) {
		return github.Made{}, &forge.Error{Reason: forge.Unavailable, Err: errors.New("no route")}
	}
	if body := d.want(http.StatusBadGateway, http.MethodGet, made("c0de", d.begins())); !strings.Contains(body, "no route") {
		t.Errorf("says %s", body)
	}
	d.convert = func(context.Context, string) (github.Made, error) { return anApp(), nil }
	d.want(http.StatusOK, http.MethodPost, pathRetry, sameOrigin)
	if len(d.codes) != 2 || d.codes[1] != "c0de" {
		t.Errorf("traded %v", d.codes)
	}
}

// TestSetup_BrowserLeaves: a tab that is closed takes nothing away.
func TestSetup_BrowserLeaves(t *testing.T) {
	d := newDesk(t)
	d.enter()
	state := d.begins()
	d.convert = func(ctx context.Context, _ string) (github.Made, error) { return anApp(), ctx.Err() }
	d.want(http.StatusOK, http.MethodGet, made("c0de", state), func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		*r = *r.WithContext(ctx)
	})
	wantKept(t, d.g)
}

// TestSetup_Headers: nothing is kept, framed or loaded from elsewhere, and the
// one form leads to GitHub.
func TestSetup_Headers(t *testing.T) {
	d := newDesk(t)
	d.enter()
	res, body := d.ask(http.MethodGet, "/") //nolint:bodyclose // ask closes it
	policy := res.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self' https://github.com", "base-uri 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy %q lacks %q", policy, part)
		}
	}
	if res.Header.Get("Cache-Control") != "no-store" || strings.Contains(body, "<script") || regexp.MustCompile(`(src|href)="http`).MatchString(body) {
		t.Errorf("%v\n%s", res.Header, body)
	}
}
