package setup

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge"
)

// TestSetup_Manifest: the App is asked to hold what writ's acts need and nothing
// else, and no workflows.
func TestSetup_Manifest(t *testing.T) {
	text, err := newManifest("writ-acme", "https://writ.example.org/", "http://127.0.0.1:1/made", false).text()
	ok(t, err)
	want := `{"name":"writ-acme","url":"https://writ.example.org/","hook_attributes":{"url":"https://writ.example.org/hooks/github","active":true},` +
		`"redirect_url":"http://127.0.0.1:1/made","public":false,` +
		`"default_permissions":{"checks":"write","contents":"write","issues":"write","metadata":"read","pull_requests":"write"},` +
		`"default_events":["check_run","check_suite","issue_comment","issues","pull_request","pull_request_review","pull_request_review_comment","push","repository"]}`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	text, err = newManifest("writ-acme", "", "http://127.0.0.1:1/made", false).text()
	ok(t, err)
	var polls map[string]any
	ok(t, json.Unmarshal([]byte(text), &polls))
	if polls["hook_attributes"] != nil || polls["default_events"] != nil || polls["url"] == "" {
		t.Errorf("without a public address: %s", text)
	}
	if name := appName(strings.Repeat("long-", 20)); len(name) > maxName || strings.HasSuffix(name, "-") {
		t.Errorf("the name %q", name)
	}
}

// TestSetup_Listen: the page is for this machine alone.
func TestSetup_Listen(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "localhost:0", "example.org:80", "127.0.0.1"} {
		ln, err := listen(t.Context(), address)
		var e *Error
		if !errors.As(err, &e) || !e.Usage {
			t.Errorf("%s: %v", address, err)
		}
		if ln != nil {
			ok(t, ln.Close())
		}
	}
}

// TestSetup_Ready: what would be wrong later is said before an App is made.
func TestSetup_Ready(t *testing.T) {
	good := func() *GitHub { return newDesk(t).g }
	for name, spoil := range map[string]func(*GitHub){
		"no repository":    func(g *GitHub) { g.Repositories = nil },
		"its name":         func(g *GitHub) { g.Repositories = []string{"shop"} },
		"two owners":       func(g *GitHub) { g.Repositories = append(g.Repositories, "other/shop") },
		"another's":        func(g *GitHub) { g.Org = "other" },
		"plain http":       func(g *GitHub) { g.PublicURL = "http://writ.example.org" },
		"a password in it": func(g *GitHub) { g.PublicURL = "https://a:b@writ.example.org" },
		"GitHub's address": func(g *GitHub) { g.At.URL = "http://ghe.example.org" },
		"the builder":      func(g *GitHub) { g.Builder = []string{""} },
	} {
		g := good()
		spoil(g)
		var e *Error
		if err := g.Ready(); !errors.As(err, &e) || !e.Usage || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSetup_Refused: each way in which a code is refused has its own way on.
func TestSetup_Refused(t *testing.T) {
	for _, c := range []struct {
		err  error
		used bool
		says string
	}{
		{&forge.Error{Reason: forge.NotFound}, true, "--app-id"},
		{&forge.Error{Reason: forge.Invalid}, true, "Begin again"},
		{&forge.Error{Reason: forge.Unavailable, Applied: true}, false, "make a new key"},
		{&forge.Error{Reason: forge.Limited}, false, "Wait some minutes"},
		{&forge.Error{Reason: forge.Unavailable}, false, "--proxy"},
	} {
		if no := refusedCode(c.err); no.used != c.used || !strings.Contains(no.Remedy, c.says) {
			t.Errorf("%v: %+v", c.err, no)
		}
	}
}

// finder finds a repository from the nth time it is asked for.
type finder struct {
	from, asked int
	err         error
}

func (f *finder) Find(context.Context, string, string) (forge.Repository, error) {
	if f.asked++; f.err != nil && f.asked >= f.from {
		return forge.Repository{}, f.err
	}
	if f.asked < f.from {
		return forge.Repository{}, &forge.Error{Reason: forge.NotFound}
	}
	return forge.Repository{}, nil
}

// TestSetup_Waits: an installation is waited for with pauses that grow, to an
// end; a credential that doesn't count is none to wait for.
func TestSetup_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var told []string
		f := &finder{from: 4}
		missing, err := Await(t.Context(), f, []string{"acme/shop"}, time.Minute, func(name string) { told = append(told, name) })
		if err != nil || len(missing) > 0 || len(told) != 1 || time.Since(began) != 9500*time.Millisecond {
			t.Errorf("%v, %v, %v after %v", missing, err, told, time.Since(began))
		}
		began, f = time.Now(), &finder{from: 1000}
		missing, err = Await(t.Context(), f, []string{"acme/shop"}, 10*time.Minute, func(string) {})
		if err != nil || len(missing) != 1 || time.Since(began) != 10*time.Minute || f.asked > 50 {
			t.Errorf("%v, %v after %v and %d questions", missing, err, time.Since(began), f.asked)
		}
		f = &finder{from: 1000}
		if missing, err = Await(t.Context(), f, []string{"acme/shop"}, 0, nil); err != nil || len(missing) != 1 || f.asked != 1 {
			t.Errorf("without waiting: %v, %v, %d", missing, err, f.asked)
		}
		f = &finder{from: 2, err: &forge.Error{Reason: forge.Unauthorized}}
		var e *Error
		if _, err = Await(t.Context(), f, []string{"acme/shop"}, time.Hour, nil); !errors.As(err, &e) || f.asked != 2 {
			t.Errorf("a refused credential: %v after %d", err, f.asked)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = Await(ctx, &finder{from: 9}, []string{"acme/shop"}, time.Hour, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an end: %v", err)
		}
	})
}
