package local

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// browser is a client with cookies that follows no redirects.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
	csrf string
}

func (w *world) browse(t *testing.T, srv *httptest.Server, as *Client) *browser {
	t.Helper()
	jar := must[*cookiejar.Jar](t)(cookiejar.New(nil))
	b := &browser{t: t, base: srv.URL, http: &http.Client{
		Jar: jar, Transport: srv.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if as != nil {
		if got := b.post("/-/login", url.Values{"token": {w.token(t, as)}}).status; got != http.StatusSeeOther {
			t.Fatalf("login: %d", got)
		}
		b.csrf = regexp.MustCompile(`name="csrf" value="([0-9a-f]{64})"`).FindStringSubmatch(b.get("/").text)[1]
	}
	return b
}

// answer is what a page answers, read to its end.
type answer struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
	text    string
}

func (b *browser) do(r *http.Request) answer {
	b.t.Helper()
	a, err := b.http.Do(r)
	ok(b.t, err)
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	ok(b.t, err)
	return answer{a.StatusCode, a.Header, a.Cookies(), string(body)}
}

func (b *browser) get(path string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+path, nil)
	ok(b.t, err)
	return b.do(r)
}

func (b *browser) post(path string, form url.Values) answer {
	b.t.Helper()
	return b.do(b.request(path, form))
}

func (b *browser) request(path string, form url.Values) *http.Request {
	b.t.Helper()
	r := must[*http.Request](b.t)(http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+path, strings.NewReader(form.Encode())))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// form is what a button of a page sends.
func (b *browser) form(pairs ...string) url.Values {
	f := url.Values{"csrf": {b.csrf}}
	for n := 0; n < len(pairs); n += 2 {
		f.Set(pairs[n], pairs[n+1])
	}
	return f
}

// TestPage_ActsAsWhoLoggedIn: file, approve, comment, edit, close; all in the
// name of who logged in, and no more than he may.
func TestPage_ActsAsWhoLoggedIn(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	ana, rita := w.browse(t, srv, w.owner), w.browse(t, srv, w.reader)
	filed := rita.post("/acme/shop/issues", rita.form("title", "Add fails", "body", "It subtracts.\r\nAlways."))
	if got := filed.header.Get("Location"); filed.status != http.StatusSeeOther || got != "/acme/shop/issues/1" {
		t.Fatalf("filed: %d to %q", filed.status, got)
	}
	const page = "/acme/shop/issues/1"
	act := func(b *browser, want int, pairs ...string) {
		t.Helper()
		if got := b.post(page, b.form(pairs...)).status; got != want {
			t.Errorf("%q: %d, want %d", pairs, got, want)
		}
	}
	act(rita, http.StatusForbidden, "act", "label", "label", "writ")
	act(ana, http.StatusSeeOther, "act", "label", "label", "writ")
	const warning = "edited after it was approved"
	if strings.Contains(ana.get(page).text, warning) {
		t.Error("the page warns of an edit that was not made")
	}
	act(rita, http.StatusSeeOther, "act", "comment", "body", "Thank you")
	act(rita, http.StatusSeeOther, "act", "edit", "title", "Add fails", "body", "It subtracts.\r\nSometimes.")
	if !strings.Contains(ana.get(page).text, warning) {
		t.Error("the page doesn't warn of an edit after the approval")
	}
	act(ana, http.StatusSeeOther, "act", "close")
	act(ana, http.StatusSeeOther, "act", "reopen")
	act(ana, http.StatusSeeOther, "act", "unlabel", "label", "writ")
	act(ana, http.StatusUnprocessableEntity, "act", "explode")
	act(ana, http.StatusUnprocessableEntity, "act", "comment", "body", " ")

	i := must[forge.Issue](t)(w.bot.Issue(t.Context(), w.repo, 1))
	if i.Author.ID != w.reader.user.ID || i.Body != "It subtracts.\nSometimes." {
		t.Errorf("issue %+v", i)
	}
	events := must[[]forge.Event](t)(w.bot.History(t.Context(), w.repo, 1))
	if len(events) != 5 || events[0].Actor.ID != w.owner.user.ID || events[1].Actor.ID != w.reader.user.ID {
		t.Errorf("history %+v", events)
	}
	text := ana.get(page).text
	for _, part := range []string{"Add fails", "Sometimes.", "Thank you", "added the label", "reopened this", `<div class="deleted">`, events[4].Digest} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

// TestPage_Forms: a form that this forge did not give to this login does nothing.
func TestPage_Forms(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	i := w.file(t, "Untouched", "")
	ana, rita := w.browse(t, srv, w.owner), w.browse(t, srv, w.reader)
	nobody := w.browse(t, srv, nil)
	const page = "/acme/shop/issues/1"
	label := func(csrf string) url.Values {
		return url.Values{"csrf": {csrf}, "act": {"label"}, "label": {"writ"}}
	}
	for what, got := range map[string]answer{
		"no token":           ana.post(page, url.Values{"act": {"label"}, "label": {"writ"}}),
		"an empty token":     ana.post(page, label("")),
		"another's token":    ana.post(page, label(rita.csrf)),
		"a token in the URL": ana.post(page+"?csrf="+ana.csrf, url.Values{"act": {"label"}, "label": {"writ"}}),
		"no login":           nobody.post(page, label(ana.csrf)),
		"no login, no token": nobody.post(page, label("")),
	} {
		if got.status != http.StatusForbidden && got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, got.status)
		}
	}
	foreign := ana.request(page, label(ana.csrf))
	foreign.Header.Set("Origin", "http://evil.example")
	if got := ana.do(foreign).status; got != http.StatusForbidden {
		t.Errorf("from another site: %d", got)
	}
	huge := ana.form("act", "comment", "body", "short", "more", strings.Repeat("x", maxForm))
	if got := ana.post(page, huge).status; got != http.StatusUnprocessableEntity {
		t.Errorf("a huge form: %d", got)
	}
	if got := must[forge.Issue](t)(w.bot.Issue(t.Context(), w.repo, i.Number)); len(got.Labels) > 0 {
		t.Errorf("labels %q", got.Labels)
	}
	kept := ana.request(page, label(ana.csrf))
	for _, c := range ana.http.Jar.Cookies(kept.URL) {
		kept.AddCookie(c)
	}
	ana.post("/-/logout", ana.form())
	if got := ana.do(kept).status; got != http.StatusUnauthorized {
		t.Errorf("after logging out: %d", got)
	}
}

// TestPage_OffersWhatCounts: a label of writ's state says nothing when a person adds it, and
// isn't offered; any other one is, also one that approves under a name like writ's own.
func TestPage_OffersWhatCounts(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	w.file(t, "Say hello", "")
	var labels []forge.Label
	for _, name := range append(kernel.StateLabels(), "writ:approved", "bug") {
		labels = append(labels, forge.Label{Name: name, Color: "0e8a16"})
	}
	ok(t, w.bot.EnsureLabels(t.Context(), w.repo, labels))
	text := w.browse(t, srv, w.owner).get("/acme/shop/issues/1").text
	for _, l := range labels {
		want := l.Name == "writ:approved" || l.Name == "bug"
		if got := strings.Contains(text, `name="label" value="`+l.Name+`"`); got != want {
			t.Errorf("%s is offered: %t", l.Name, got)
		}
	}
}

// TestPage_Login: a wrong token is nobody's, and the cookie is for this site and
// the browser alone.
func TestPage_Login(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	b := w.browse(t, srv, nil)
	if got := b.post("/-/login", url.Values{"token": {"writ_local_guess"}}); got.status != http.StatusUnauthorized || got.header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d, %q", got.status, got.header.Get("Set-Cookie"))
	}
	in := b.post("/-/login", url.Values{"token": {w.token(t, w.owner)}})
	cookies := in.cookies
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/" {
		t.Errorf("cookies %+v", cookies)
	}
	foreign := b.request("/-/login", url.Values{"token": {w.token(t, w.reader)}})
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := b.do(foreign).status; got != http.StatusForbidden {
		t.Errorf("a login from another site: %d", got)
	}
	ok(t, w.RevokeTokens(t.Context(), w.owner.user.ID))
	if strings.Contains(b.get("/").text, "Log out") {
		t.Error("a login outlived its account's tokens")
	}
}

// hostile is text that tries to become part of the page.
const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)> "'><b onmouseover=alert(3)>` +
	"\n\n[link](javascript:alert(4)) ![image](http://evil.example/pixel.png) <iframe src=//evil.example></iframe>\n\n" +
	"<style>body{display:none}</style>\n\n```html\n</code></pre><script>alert(5)</script>\n```\n"

// dangerous is what must not come out of it.
var dangerous = regexp.MustCompile(`(?i)<script>|<iframe|<style|<b on|<img|href="javascript|\son(error|mouseover)=["']?alert\(\d\)>`)

// TestF1_PageEscapes: nothing that anybody wrote becomes markup of the page.
func TestF1_PageEscapes(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	ctx := t.Context()
	title := strings.SplitN(hostile, "\n", 2)[0]
	i := must[forge.Issue](t)(w.owner.FileIssue(ctx, w.repo, title, hostile))
	ok(t, w.owner.AddLabel(ctx, w.repo, i.Number, "<script>alert(9)</script>"))
	ok(t, w.owner.EditIssue(ctx, w.repo, i.Number, title, hostile+"more"))
	must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, i.Number, hostile))
	oid := w.branch(t, "work", "main", map[string]string{"<script>alert(7)<-script>": hostile})
	c := must[forge.Change](t)(w.bot.OpenChange(ctx, w.repo, forge.Change{Title: title, Body: hostile, Head: "work"}))
	ok(t, w.bot.SetCheck(ctx, w.repo, oid, forge.Check{Name: "<script>x", Summary: hostile, Detail: hostile, State: forge.CheckFailed}))
	must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, c.Number, hostile))
	b := w.browse(t, srv, w.owner)
	for _, path := range []string{"/acme/shop", "/acme/shop/issues/1", "/acme/shop/changes", "/acme/shop/changes/2", "/acme/shop/<script>", "/acme/shop/issues/<script>"} {
		page := b.get(path).text
		if got := dangerous.FindString(page); got != "" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if !strings.Contains(b.get("/acme/shop/changes/2").text, "&lt;script&gt;alert(1)") {
		t.Error("the text isn't there at all")
	}
}

// TestF1_PageShowsHidden: what turns the direction of a title is seen.
func TestF1_PageShowsHidden(t *testing.T) {
	if got := shown("a\u202eb\x1b[1mc\u200b 🙂 ü"); got != `a\u{202e}b\u{1b}[1mc\u{200b} 🙂 ü` {
		t.Errorf("%q", got)
	}
	w := newWorld(t)
	must[forge.Issue](t)(w.owner.FileIssue(t.Context(), w.repo, "Fix \u202eevil", "text"))
	b := w.browse(t, w.serve(t), nil)
	for _, path := range []string{"/acme/shop/issues", "/acme/shop/issues/1"} {
		if page := b.get(path).text; strings.Contains(page, "\u202e") || !strings.Contains(page, `\u{202e}`) {
			t.Errorf("%s turns the direction", path)
		}
	}
}

// TestPage_RefreshTakesNoTyping: without scripts, a page that has a form to type
// into is never loaded again by itself.
func TestPage_RefreshTakesNoTyping(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	must[forge.Issue](t)(w.owner.FileIssue(t.Context(), w.repo, "title", "text"))
	refreshes := func(b *browser, path string) bool {
		return strings.Contains(b.get(path).text, `http-equiv="refresh"`)
	}
	stranger, owner := w.browse(t, srv, nil), w.browse(t, srv, w.owner)
	if !refreshes(stranger, "/acme/shop/issues/1") {
		t.Error("who only looks sees nothing new")
	}
	if refreshes(stranger, "/-/login") || refreshes(owner, "/acme/shop/issues/1") || refreshes(owner, "/acme/shop/issues/new") {
		t.Error("what is being typed is lost after five seconds")
	}
}

// TestPage_Headers: the policy lets nothing in but the page's own two files.
func TestPage_Headers(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	b := w.browse(t, srv, nil)
	for path, want := range map[string]int{"/": 200, "/-/login": 200, "/acme/shop": 200, "/acme/shop/issues/9": 404, "/-/style.css": 200, "/-/live.js": 200, "/nowhere": 404, "/acme/shop/issues/new": 401} {
		got := b.get(path)
		h := got.header
		csp := h.Get("Content-Security-Policy")
		if got.status != want || !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") ||
			!strings.Contains(csp, "form-action 'self'; base-uri 'none'; frame-ancestors 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", path, got.status, h)
		}
	}
	ok(t, w.SetPrivate(t.Context(), w.repo.ID, true))
	if got := b.get("/acme/shop"); got.status != 404 || strings.Contains(got.text, "Issues") {
		t.Errorf("a private repository: %d", got.status)
	}
	if strings.Contains(b.get("/").text, "shop") {
		t.Error("a private repository is in the list")
	}
}
