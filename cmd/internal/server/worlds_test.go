package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/gitlab"
)

// listedAt are the worlds of a forge that serves these repositories.
func listedAt(names ...string) (*worlds, []*listing) {
	f := &wire.Forge{
		Name: "local", Repositories: names, Identity: "local-a",
		Display: func(r forge.Repo) string { return "local/" + r.String() },
	}
	ws := newWorlds()
	all, err := list([]*wire.Forge{f})
	if err != nil {
		panic(err)
	}
	ws.list = all
	return ws, all
}

// TestI12_RecordsStayWithTheirRepository: records go by the forge and the number,
// so that a renamed repository stays the world that it was, for whoever comes to
// know it before or after; and another one that took its name isn't opened in its
// place.
func TestI12_RecordsStayWithTheirRepository(t *testing.T) {
	const seven, six = "local-a#7", "local-a#6"
	for name, c := range map[string]struct {
		bound map[string]binding
		opens bool
	}{
		"new":                      {nil, true},
		"as before":                {map[string]binding{seven: {7, "o/n"}}, true},
		"renamed":                  {map[string]binding{seven: {7, "o/old"}}, true},
		"another one by this name": {map[string]binding{six: {6, "o/n"}}, false},
		"in other letters":         {map[string]binding{six: {6, "O/N"}}, false},
		"a number at another host": {map[string]binding{"github.com#7": {7, "o/n"}}, true},
		"renamed, while another still had this name": {map[string]binding{seven: {7, "o/old"}, six: {6, "o/n"}}, false},
		"renamed, and the other one too":             {map[string]binding{seven: {7, "o/old"}, six: {6, "o/m"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ws, all := listedAt("o/n")
			ws.bound = c.bound
			err := ws.mayOpen(all[0], seven, forge.Repo{ID: 7, Owner: "o", Name: "n"})
			if (err == nil) != c.opens {
				t.Error(err)
			}
			if err != nil && !strings.Contains(problem.Explain(err).Remedy, "writ world rebind 'local-a#6' 'local-a#7'") {
				t.Errorf("the way on isn't told: %s", problem.Explain(err).Remedy)
			}
		})
	}
}

// TestI12_IdentityOfAHostedRepository: the identity is host and number, whatever
// the repository is called; a repository without a number has none.
func TestI12_IdentityOfAHostedRepository(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com": "github.com#7", "https://GitHub.com:443/": "github.com#7", "https://git.example:8443/gitlab/": "git.example:8443/gitlab#7",
		"http://127.0.0.1:3000": "127.0.0.1:3000#7",
	} {
		f := &wire.Forge{}
		f.Numbered(address)
		for _, called := range []string{"o/n", "p/m"} {
			owner, name, _ := strings.Cut(called, "/")
			if got, err := f.World(t.Context(), forge.Repo{ID: 7, Owner: owner, Name: name}); err != nil || got != want {
				t.Errorf("%s at %s is %q, %v", called, address, got, err)
			}
		}
		if got, err := f.World(t.Context(), forge.Repo{Owner: "o", Name: "n"}); err == nil {
			t.Errorf("without a number it is %q", got)
		}
	}
}

// TestServe_WorldsByNameOrIdentity: a person names a world by either.
func TestServe_WorldsByNameOrIdentity(t *testing.T) {
	ws, all := listedAt("o/n", "o/m")
	all[0].world = "local-a#7"
	for name, want := range map[string]string{
		"local/o/n": "local-a#7", "LOCAL/o/n": "local-a#7", "local-a#7": "local-a#7", "local/o/m": "local/o/m", "": "", "other": "other",
	} {
		if got := ws.meant(name); got != want {
			t.Errorf("%q is %q", name, got)
		}
	}
	p, err := named{scheduler.PauseFile(write(t, "local/o/n\n")), ws}.Paused(t.Context())
	if err != nil || !p.Has("local-a#7") || p.Has("local/o/m") {
		t.Errorf("%+v, %v", p, err)
	}
}

// write makes a file.
func write(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/f"
	must(t, installation.ReplaceFile(path, []byte(text)))
	return path
}

// TestW12_ClosedWorldIsKnownByItsNumber: as long as a forge doesn't answer, the
// webhooks of a repository that was open before are taken for its world.
func TestW12_ClosedWorldIsKnownByItsNumber(t *testing.T) {
	ws, all := listedAt("o/new", "o/m")
	ws.bound = map[string]binding{"local-a#77": {7, "o/new"}, "local-b#66": {6, "o/m"}}
	for _, l := range all {
		ws.likely(l)
	}
	for id, want := range map[int64]string{7: "local-a#77", 6: "", 8: "", 0: ""} {
		if got, listed := ws.lookup("local")(id); got != want || listed != (want != "") {
			t.Errorf("%d is %q", id, got)
		}
	}
	p, err := ws.Paused(t.Context())
	if err != nil || !p.Has("local-a#77") || !p.Has("local/o/m") {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestI13_InstalledWorlds: an installation concerns the worlds that belong to it,
// and those of its account; a stranger's concerns none.
func TestI13_InstalledWorlds(t *testing.T) {
	ws, all := listedAt("acme/shop", "acme/tools", "other/n")
	all[0].installation, all[0].served = 77, &served{}
	for _, c := range []struct {
		installation int64
		account      string
		want         []string
	}{
		{77, "acme", []string{"local/acme/shop", "local/acme/tools"}}, {78, "Acme", []string{"local/acme/shop", "local/acme/tools"}},
		{0, "acme", []string{"local/acme/tools"}},
		{77, "", []string{"local/acme/shop"}}, {78, "mallory", nil}, {0, "", nil},
	} {
		if got := ws.installed("local")(c.installation, c.account); !slices.Equal(got, c.want) {
			t.Errorf("%d of %q: %v", c.installation, c.account, got)
		}
	}
	if got := ws.installed("github")(77, "acme"); got != nil {
		t.Errorf("at another forge: %v", got)
	}
}

// TestF6_HintsArePaced: however many hints come, a world is looked at once in a
// while, and the last of them is never lost.
func TestF6_HintsArePaced(t *testing.T) {
	p, now := newPacer(), time.Unix(1_800_000_000, 0)
	looked := 0
	for range 1000 {
		due, _ := p.admit([]string{"w"}, now)
		looked += len(due)
		now = now.Add(time.Millisecond)
	}
	due, next := p.admit(nil, now)
	if looked != 1 || len(due) != 0 || next.Sub(now) > hintPace || !next.After(now) {
		t.Fatalf("looked %d times, then at %v, next %v", looked, due, next)
	}
	if due, _ = p.admit([]string{"v"}, now); !slices.Equal(due, []string{"v"}) {
		t.Errorf("another world has to wait: %v", due)
	}
	if due, _ = p.admit(nil, next); !slices.Equal(due, []string{"w"}) {
		t.Errorf("the late one is lost: %v", due)
	}
	if due, next = p.admit(nil, next.Add(hintPace)); len(due) != 0 || !next.IsZero() {
		t.Errorf("nothing was hinted at: %v %v", due, next)
	}
}

// TestServe_TriesGrowApart: a closed world is tried again after a growing delay,
// and at once after a hint; its reason is news only when it changes.
func TestServe_TriesGrowApart(t *testing.T) {
	ws, all := listedAt("o/n")
	now := time.Unix(1_800_000_000, 0)
	var waits []time.Duration
	for i := range 10 {
		due, _ := ws.due(now)
		if len(due) != 1 {
			t.Fatalf("at try %d %d are due", i, len(due))
		}
		if again, _ := ws.due(now); len(again) != 0 {
			t.Fatal("it is tried twice at once")
		}
		news, wait := ws.shut(all[0], problem.Coded("", "gone"), now)
		if news != (i == 0) {
			t.Errorf("try %d: news %v", i, news)
		}
		waits = append(waits, wait)
		if early, next := ws.due(now.Add(wait - 1)); len(early) != 0 || !next.Equal(now.Add(wait)) {
			t.Errorf("%d are due early, next at %v", len(early), next)
		}
		now = now.Add(wait)
	}
	if !slices.IsSorted(waits) || waits[0] != firstTry || waits[9] != mostTry {
		t.Errorf("waits %v", waits)
	}
	due, _ := ws.due(now)
	if news, _ := ws.shut(due[0], problem.Coded("", "another reason"), now); !news {
		t.Error("another reason is no news")
	}
	ws.tryNow([]string{"local/o/n"})
	if due, _ := ws.due(now); len(due) != 1 {
		t.Error("a hint changes nothing")
	}
}

// TestServe_SameWorldTwice: two repositories that would be one world refuse the
// start.
func TestServe_SameWorldTwice(t *testing.T) {
	one := &wire.Forge{Name: "github", Repositories: []string{"o/n"}, Display: func(r forge.Repo) string { return "git.example/" + r.String() }}
	two := &wire.Forge{Name: "gitlab", Repositories: []string{"O/n"}, Display: one.Display}
	if _, err := list([]*wire.Forge{one, two}); err == nil || !strings.Contains(err.Error(), "github o/n and gitlab O/n") {
		t.Errorf("%v", err)
	}
}

// TestF6_WhatIsMissingIsNamed: what an installation lacks is told, and where its
// owner gives it; so is a token that ends within two weeks.
func TestF6_WhatIsMissingIsNamed(t *testing.T) {
	at := forge.Repo{ID: 1, Owner: "acme", Name: "shop"}
	held := github.Installation{ID: 77, Permissions: github.Needed()}
	if p := wire.Lacking(held, at, "https://git.example"); p != nil {
		t.Errorf("nothing is missing: %v", p)
	}
	held.Permissions["checks"] = "read"
	delete(held.Permissions, "contents")
	p := wire.Lacking(held, at, "https://git.example")
	if p == nil || !strings.Contains(p.Text, "lacks checks: write, contents: write") || !strings.Contains(p.Remedy, "https://git.example/settings/installations/77") ||
		!strings.Contains(p.Remedy, "https://git.example/organizations/acme/settings/installations/77") {
		t.Errorf("%+v", p)
	}
	held.Suspended = true
	if p := wire.Lacking(held, at, "https://git.example"); p == nil || !strings.Contains(p.Text, "suspended") {
		t.Errorf("%+v", p)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for days, warned := range map[int]bool{13: true, -1: true, 30: false} {
		p := wire.Ending(gitlab.Token{Name: "writ", Expires: now.AddDate(0, 0, days)}, now)
		if (p != nil) != warned {
			t.Errorf("%d days before its end: %v", days, p)
		}
	}
	if p := wire.Ending(gitlab.Token{Name: "writ"}, now); p != nil {
		t.Errorf("a token without an end: %v", p)
	}
}
