package github_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestNewAppURL: where a manifest is posted to, of each kind of GitHub.
func TestNewAppURL(t *testing.T) {
	for _, c := range []struct{ url, org, want string }{
		{"", "", "https://github.com/settings/apps/new"},
		{"https://github.com", "acme", "https://github.com/organizations/acme/settings/apps/new"},
		{"https://acme.ghe.com", "acme", "https://acme.ghe.com/organizations/acme/settings/apps/new"},
		{"https://ghe.example.org", "", "https://ghe.example.org/settings/apps/new"},
	} {
		got, err := github.NewAppURL(github.Config{URL: c.url}, c.org)
		if err != nil || got.String() != c.want {
			t.Errorf("%s %s: %v, %v", c.url, c.org, got, err)
		}
	}
	if _, err := github.NewAppURL(github.Config{URL: "http://ghe.example.org"}, ""); err == nil {
		t.Error("credentials would go over plain http")
	}
}

// visitor is a person at GitHub's pages, without a browser.
type visitor struct {
	t    *testing.T
	http *http.Client
	base string
}

// signIn signs the owner of a place in.
func signIn(t *testing.T, p *githubtest.Place) *visitor {
	t.Helper()
	jar := must[*cookiejar.Jar](t)(cookiejar.New(nil))
	v := &visitor{t: t, base: p.GitURL, http: &http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	v.post("/login", url.Values{"login": {p.Owner.Login}})
	return v
}

// post submits a form, and returns where the answer leads and what it says.
func (v *visitor) post(path string, form url.Values) (to, page string) {
	v.t.Helper()
	res, err := v.http.PostForm(v.base+path, form)
	ok(v.t, err)
	defer res.Body.Close()
	return res.Header.Get("Location"), string(must[[]byte](v.t)(io.ReadAll(res.Body)))
}

var draftField = regexp.MustCompile(`name="draft" value="([0-9a-f]+)"`)

// make makes an App from a manifest and returns the code.
func (v *visitor) make(m map[string]any, name string) string {
	v.t.Helper()
	text := must[[]byte](v.t)(json.Marshal(m))
	_, page := v.post("/settings/apps/new?state=s", url.Values{"manifest": {string(text)}})
	draft := draftField.FindStringSubmatch(page)
	if draft == nil {
		v.t.Fatalf("the manifest was refused: %s", page)
	}
	leads, page := v.post("/settings/apps/manifest", url.Values{"draft": {draft[1]}, "name": {name}})
	to := must[*url.URL](v.t)(url.Parse(leads))
	if to.Query().Get("state") != "s" || to.Query().Get("code") == "" {
		v.t.Fatalf("GitHub leads to %s: %s", to, page)
	}
	return to.Query().Get("code")
}

func simpleManifest() map[string]any {
	return map[string]any{"url": "https://writ.example.org", "redirect_url": "http://127.0.0.1:1/made", "default_permissions": github.Needed()}
}

// TestConvert: the code is traded once for the App and its credentials, which
// then count; a second time, or later, it is not found.
func TestConvert(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{Enterprise: true})
	v := signIn(t, p)
	c := github.Config{URL: p.GitURL, Proxy: "none"}
	held(t)(&c)
	m := simpleManifest()
	m["hook_attributes"] = map[string]any{"url": "https://writ.example.org/hooks/github", "active": true}
	m["default_events"] = github.Events()
	code := v.make(m, "Writ of the tests")
	made := must[github.Made](t)(github.Convert(t.Context(), c, code))
	if made.Slug != "writ-of-the-tests" || made.HookSecret == "" || made.Page != p.GitURL+"/github-apps/writ-of-the-tests" {
		t.Errorf("made %d %s at %s, secret of %d", made.ID, made.Slug, made.Page, len(made.HookSecret))
	}
	if _, err := github.Convert(t.Context(), c, code); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("a second time: %v", err)
	}
	own := c
	own.App = github.App{ID: made.ID, Key: made.Key}
	about := must[github.Made](t)(host(t, own).About(t.Context()))
	if about.Slug != made.Slug || about.Page != made.Page || about.Key != nil {
		t.Errorf("about %+v", about)
	}
	old := v.make(simpleManifest(), "Writ without a webhook")
	p.AgeCodes(t)
	if _, err := github.Convert(t.Context(), c, old); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("after an hour: %v", err)
	}
	quiet := must[github.Made](t)(github.Convert(t.Context(), c, v.make(simpleManifest(), "Writ that polls")))
	if quiet.HookSecret != "" {
		t.Error("there is a secret without a webhook")
	}
	if _, err := github.Convert(t.Context(), c, "../../user"); !forge.IsReason(err, forge.Invalid) {
		t.Errorf("a code that leads elsewhere: %v", err)
	}
}
