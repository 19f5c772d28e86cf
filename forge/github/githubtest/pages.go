package githubtest

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// webHeader tells the emulator where its pages are served.
const webHeader = "X-Writ-Web"

// pages serves the pages of manifest.mjs, and the API where an Enterprise Server
// has it, at the same address as git.
func (p *Place) pages(t testing.TB, git http.Handler) http.Handler {
	t.Helper()
	to, err := url.Parse(p.URL)
	must(t, err)
	network := &http.Transport{}
	t.Cleanup(network.CloseIdleConnections)
	web := &httputil.ReverseProxy{Transport: network, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set(webHeader, "http://"+r.In.Host)
	}}
	api := &httputil.ReverseProxy{Transport: network, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del(webHeader)
	}}
	if p.Options.Held != nil {
		api.Transport = p.Options.Held.Wrap(t)(network)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); first {
		case "api":
			api.ServeHTTP(w, r)
		case "login", "settings", "organizations", "github-apps": //nolint:misspell // GitHub's words
			web.ServeHTTP(w, r)
		default:
			git.ServeHTTP(w, r)
		}
	})
}

// Route makes deliveries to a public address arrive at another, as a name server
// and a proxy would. Both are without a path.
func (e *Emulator) Route(t testing.TB, from, to string) {
	t.Helper()
	must(t, e.admin(t.Context(), "route", map[string]any{"from": from, "to": to}, nil))
}

// Hear sets the events that the place's own App is told of.
func (p *Place) Hear(t testing.TB, events []string) {
	t.Helper()
	must(t, p.admin(t.Context(), "hear", map[string]any{"app": p.App.ID, "events": events}, nil))
}

// Org makes an organisation.
func (e *Emulator) Org(t testing.TB, login string) {
	t.Helper()
	must(t, e.admin(t.Context(), "org", map[string]any{"login": login}, nil))
}

// AgeCodes makes every code of a new App older than GitHub lets it become.
func (e *Emulator) AgeCodes(t testing.TB) {
	t.Helper()
	const seconds = 2 * 60 * 60
	must(t, e.admin(t.Context(), "age", map[string]any{"seconds": seconds}, nil))
}

// AppsMade is how many Apps were made from manifests.
func (e *Emulator) AppsMade(t testing.TB) int {
	t.Helper()
	var made struct{ Apps int }
	must(t, e.admin(t.Context(), "made", map[string]any{}, &made))
	return made.Apps
}
