package worldtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// Local is a world on the embedded forge, whose webhooks go to hook.
func Local(t testing.TB, hook string) *World {
	t.Helper()
	p := localtest.New(t, hook)
	w := &World{
		Forge: "local", Repo: p.Repo, Maintainer: p.Maintainer, Reader: p.Reporter, Bot: p.Bot.ID, GitDir: p.Store.GitDir(p.Repo.ID), EditHistory: true,
		Config:  fmt.Sprintf("local: {dir: %s, url: '%s', repositories: [%s]}", p.Dir, p.URL, p.Repo),
		Env:     []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret},
		Secrets: []string{p.Token, localtest.Secret},
		Client:  func(testing.TB, Wiring) forge.Client { return p.Store.As(p.Bot) },
		Checks: func(t testing.TB, oid string) []forge.Check {
			t.Helper()
			all, err := p.Maintainer.Checks(t.Context(), p.Repo, oid)
			must(t, err)
			return all
		},
		Reactions: func(t testing.TB, number int64) []string { t.Helper(); return localReactions(t, p, number, 0) },
		CommentReactions: func(t testing.TB, number, comment int64) []string {
			t.Helper()
			return localReactions(t, p, number, comment)
		},
		Pages: func(t testing.TB) (string, string) { t.Helper(); return p.URL, maintainerToken(t, p) },
		told:  func(t testing.TB, ref, old, oid string) { t.Helper(); push(t, p, ref, old, oid) },
	}
	w.People = &localPeople{w, p}
	return w
}

// localReactions are those to a comment on an issue, 0 for the issue itself.
func localReactions(t testing.TB, p *localtest.Place, number, comment int64) (out []string) {
	t.Helper()
	all, err := p.Maintainer.Reactions(t.Context(), p.Repo, number)
	must(t, err)
	for _, r := range all[comment] {
		out = append(out, string(r))
	}
	return out
}

// push has a ref that was moved in the repository moved by a push of the
// maintainer's instead: only of that the forge tells.
func push(t testing.TB, p *localtest.Place, ref, old, oid string) {
	t.Helper()
	dir := p.Store.GitDir(p.Repo.ID)
	what := oid + ":" + ref
	switch {
	case oid == noCommit:
		what = ":" + ref
		gittest.Git(t, dir, "update-ref", ref, old)
	case old == noCommit || old == "":
		gittest.Git(t, dir, "update-ref", "-d", ref)
	default:
		gittest.Git(t, dir, "update-ref", ref, old)
	}
	token := maintainerToken(t, p)
	now, err := p.Maintainer.Repository(t.Context(), p.Repo.ID)
	must(t, err)
	at := strings.Replace(p.URL, "://", "://maintainer:"+token+"@", 1) + "/" + now.String() + ".git"
	gittest.Git(t, dir, "push", "--quiet", "--force", at, what)
}

func maintainerToken(t testing.TB, p *localtest.Place) string {
	t.Helper()
	self, err := p.Maintainer.Self(t.Context())
	must(t, err)
	token, err := p.Store.NewToken(t.Context(), self.ID)
	must(t, err)
	return token
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
