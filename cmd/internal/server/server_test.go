package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestW12_TheSweepFindsWhatWasLost: an issue that was approved while nobody
// listened, and whose deliveries are gone, is done all the same, once.
func TestW12_TheSweepFindsWhatWasLost(t *testing.T) {
	p := newServerPlace(t)
	must(t, p.Store.ForgetHook(t.Context(), "http://"+p.Hook+"/hooks/local"))
	n := p.File("default")
	p.Approve(n)
	p.Serve()
	p.Until("the sweep finds the task", func() bool { return p.Head(n) == "completed" })
	p.Until("one dispatch", func() bool {
		return strings.Count(gittest.Git(t, p.Store.GitDir(p.Repo.ID), "log", "--format=%(trailers:key=aynig-state,valueonly)", fmt.Sprintf("refs/writ/task/%d", n)), "working") == 1
	})
}

// TestF3_ServeShowsNoSecret: token and hook secret are in nothing that a server
// writes.
func TestF3_ServeShowsNoSecret(t *testing.T) {
	p := newServerPlace(t)
	s := p.Serve()
	n := p.File("strays")
	p.Approve(n)
	p.Until("the task is refused", func() bool { return slices.Contains([]string{"retry_pending", "blocked"}, p.Head(n)) })
	s.End()
	secrets := []string{localtest.Secret, strings.TrimPrefix(p.Env[0], "WRIT_LOCAL_TOKEN=")}
	hold := func(where, text string) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in %s", where)
			}
		}
	}
	hold("the log", s.Log.String())
	must(t, filepath.WalkDir(p.State(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		hold(path, string(data))
		return err
	}))
}

// TestW12_Cursor: a cursor reads back, and a spoilt one means everything.
func TestW12_Cursor(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	c := swept{until: at, shown: map[int64]update{3: {at, at.Add(1)}, 4: {at: at}, 12: {at.AddDate(9, 0, 0), at.Add(time.Hour)}}}
	if got := parseSwept(c.String()); !got.until.Equal(at) || !maps.Equal(got.shown, c.shown) {
		t.Errorf("%v came back as %v", c, got)
	}
	if old := parseSwept("2026-01-02T03:04:05Z 3,12 5@2027-01-02T03:04:05Z"); !old.until.Equal(at.Truncate(time.Second)) || len(old.shown) != 0 {
		t.Errorf("an older version's comes back as %v", old)
	}
	for _, text := range []string{"", "yesterday 3", " 3"} {
		if !parseSwept(text).until.IsZero() {
			t.Errorf("%q is a time", text)
		}
	}
}
