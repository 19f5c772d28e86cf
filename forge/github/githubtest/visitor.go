package githubtest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Visitor is a person at GitHub's pages, signed in, without a browser.
type Visitor struct {
	// HTTP keeps cookies, and follows no redirect.
	HTTP *http.Client
	base string
}

// Visit signs somebody in.
func (p *Place) Visit(t testing.TB, by Person) *Visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	v := &Visitor{base: p.GitURL, HTTP: &http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	v.post(t, "/login", url.Values{"login": {by.Login}})
	return v
}

// post submits a form, and returns where the answer leads and what it says.
func (v *Visitor) post(t testing.TB, path string, form url.Values) (to, page string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.base+path, strings.NewReader(form.Encode()))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := v.HTTP.Do(req)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return res.Header.Get("Location"), string(text)
}

var draftField = regexp.MustCompile(`name="draft" value="([0-9a-f]+)"`)

// MakeApp posts a manifest to a path of GitHub's, gives the App its name, and
// returns where GitHub sends the browser back to.
func (v *Visitor) MakeApp(t testing.TB, path, manifest, name string) *url.URL {
	t.Helper()
	_, page := v.post(t, path, url.Values{"manifest": {manifest}})
	draft := draftField.FindStringSubmatch(page)
	if draft == nil {
		t.Fatalf("the manifest was refused: %s", page)
	}
	leads, page := v.post(t, "/settings/apps/manifest", url.Values{"draft": {draft[1]}, "name": {name}})
	to, err := url.Parse(leads)
	if err != nil || leads == "" {
		t.Fatalf("GitHub made no App: %s", page)
	}
	return to
}

// Install installs an App on repositories.
func (v *Visitor) Install(t testing.TB, slug string, repositories ...string) {
	t.Helper()
	if _, page := v.post(t, "/github-apps/"+slug+"/installations/new", url.Values{"repository": repositories}); !strings.Contains(page, `id="installed"`) {
		t.Fatalf("it was not installed: %s", page)
	}
}
