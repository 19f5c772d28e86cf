package worldtest

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// GitHub is a world on the emulator, with an App whose webhooks go to hook; ""
// for nowhere.
func GitHub(t testing.TB, e *githubtest.Emulator, hook string) *World {
	t.Helper()
	o := githubtest.Options{HookURL: hook}
	if hook != "" {
		o.HookSecret = HookSecret
	}
	p := e.Place(t, o)
	key := writeSecret(t, string(p.App.Key))
	w := &World{
		Forge: "github", Repo: p.Repo, Maintainer: p.As(t, p.Maintainer), Reader: p.As(t, p.Reader), GitDir: p.GitDir, EditHistory: true,
		Config: fmt.Sprintf("github: {url: '%s', api: '%s', app_id: %d, repositories: [%s], proxy: none}", p.GitURL, p.URL, p.App.ID, p.Repo),
		Env:    []string{"WRIT_GITHUB_PRIVATE_KEY_FILE=" + key, "WRIT_GITHUB_HOOK_SECRET=" + HookSecret},
		// A line of a key is enough to be kept out.
		Secrets: append(keyLines(p.App.Key), HookSecret),
		Client: func(t testing.TB, o Wiring) forge.Client {
			t.Helper()
			c := p.Config()
			c.Wrap, c.Now = o.Wrap, o.Now
			h, err := github.New(t.Context(), c)
			must(t, err)
			t.Cleanup(h.Close)
			return h.Client(p.Repo)
		},
		Checks: func(t testing.TB, oid string) []forge.Check { t.Helper(); return p.Checks(t, oid) },
		Reactions: func(t testing.TB, number int64) []string {
			t.Helper()
			return p.IssueReactions(t, number)
		},
		CommentReactions: func(t testing.TB, _, comment int64) []string { t.Helper(); return p.CommentReactions(t, comment) },
		Trouble:          func(t testing.TB, refused bool) { t.Helper(); p.Suspend(t, refused) },
		Expire:           func(t testing.TB) { t.Helper(); p.ExpireTokens(t) },
		told:             func(t testing.TB, ref, old, oid string) { t.Helper(); p.Moved(t, p.Slug+"[bot]", ref, old, oid) },
		toldBy:           func(t testing.TB, ref, old, oid string) { t.Helper(); p.Moved(t, p.Maintainer.Login, ref, old, oid) },
	}
	w.People = &hubPeople{w, p}
	self, err := w.Client(t, Wiring{}).Self(t.Context())
	must(t, err)
	w.Bot = self.ID
	must(t, w.Maintainer.EnsureLabels(t.Context(), w.Repo, []forge.Label{{Name: Label, Color: "0e8a16"}}))
	return w
}

func writeSecret(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// keyLines are the lines of a private key that say something.
func keyLines(key []byte) (lines []string) {
	block, _ := pem.Decode(key)
	for line := range strings.SplitSeq(strings.TrimSpace(string(pem.EncodeToMemory(block))), "\n") {
		if !strings.HasPrefix(line, "-----") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Emulated starts one emulator for many worlds, none of them told of anything.
func Emulated(t testing.TB) func(t testing.TB) *World {
	t.Helper()
	e := githubtest.Start(t)
	return func(t testing.TB) *World { t.Helper(); return GitHub(t, e, "") }
}
