package github_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
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

// codeOf makes an App from a manifest and returns the code.
func codeOf(t *testing.T, v *githubtest.Visitor, m map[string]any, name string) string {
	t.Helper()
	text := must[[]byte](t)(json.Marshal(m))
	to := v.MakeApp(t, "/settings/apps/new?state=s", string(text), name)
	if to.Query().Get("state") != "s" || to.Query().Get("code") == "" {
		t.Fatalf("GitHub leads to %s", to)
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
	v := p.Visit(t, p.Owner)
	c := github.Config{URL: p.GitURL, Proxy: "none"}
	held(t)(&c)
	m := simpleManifest()
	m["hook_attributes"] = map[string]any{"url": "https://writ.example.org/hooks/github", "active": true}
	m["default_events"] = github.Events()
	code := codeOf(t, v, m, "Writ of the tests")
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
	old := codeOf(t, v, simpleManifest(), "Writ without a webhook")
	p.AgeCodes(t)
	if _, err := github.Convert(t.Context(), c, old); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("after an hour: %v", err)
	}
	quiet := must[github.Made](t)(github.Convert(t.Context(), c, codeOf(t, v, simpleManifest(), "Writ that polls")))
	if quiet.HookSecret != "" {
		t.Error("there is a secret without a webhook")
	}
	if _, err := github.Convert(t.Context(), c, "../../user"); !forge.IsReason(err, forge.Invalid) {
		t.Errorf("a code that leads elsewhere: %v", err)
	}
}

// renamed is a GitHub that calls itself by another name than it is reached by.
type renamed struct {
	next     http.RoundTripper
	from, to string
}

func (r renamed) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	body = bytes.ReplaceAll(body, []byte(r.from), []byte(r.to))
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Del("Content-Length")
	return res, err
}

// TestConvert_AnotherName: credentials that come once are not thrown away over
// the address of a page.
func TestConvert_AnotherName(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{Enterprise: true})
	c := github.Config{URL: p.GitURL, Proxy: "none", Wrap: func(next http.RoundTripper) http.RoundTripper {
		return renamed{next, p.GitURL + "/github-apps/", "https://github.corp.example/github-apps/"}
	}}
	code := codeOf(t, p.Visit(t, p.Owner), simpleManifest(), "Writ behind an alias")
	made := must[github.Made](t)(github.Convert(t.Context(), c, code))
	if len(made.Key) == 0 || made.Page != p.GitURL+"/github-apps/writ-behind-an-alias" {
		t.Errorf("made %d at %s with a key of %d bytes", made.ID, made.Page, len(made.Key))
	}
}

// TestIsOrg: whose an App has to be is asked without credentials.
func TestIsOrg(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{Enterprise: true})
	p.Org(t, "acme")
	c := github.Config{URL: p.GitURL, Proxy: "none"}
	held(t)(&c)
	for login, want := range map[string]bool{"acme": true, p.Owner.Login: false} {
		if org, err := github.IsOrg(t.Context(), c, login); err != nil || org != want {
			t.Errorf("%s: %v, %v", login, org, err)
		}
	}
	if _, err := github.IsOrg(t.Context(), c, "nobody-here"); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("nobody: %v", err)
	}
}
