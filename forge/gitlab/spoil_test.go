package gitlab

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/internal/transport"
)

// TestJ1_GitLab: a lie at any position of any answer of GitLab's is refused or does
// nothing.
func TestJ1_GitLab(t *testing.T) {
	w := newWorld(t)
	ctx, r := t.Context(), w.repo
	i := w.file(t)
	ok(t, w.bot.AddLabel(ctx, r, i.Number, "bug"))
	ok(t, w.owner.EditIssue(ctx, r, i.Number, "Two", "other text"))
	ok(t, w.bot.SetState(ctx, r, i.Number, forge.Closed))
	ok(t, w.bot.SetState(ctx, r, i.Number, forge.Open))
	must[forge.Comment](t)(w.owner.AddComment(ctx, r, i.Number, "a comment"))
	w.change(t, "work", "x", "")
	n := forgetest.Spoil(t, forgetest.Spoiled{
		Repo: r, Number: i.Number, Person: w.owner.user.ID, Head: "work",
		Client: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) forge.Client {
			t.Helper()
			h := must[*Host](t)(New(ctx, Config{URL: w.URL, Token: w.bot.token, Proxy: transport.NoProxy, Limits: unpaced, Wrap: wrap}))
			return h.Client(r)
		},
	})
	if n < 2000 {
		t.Errorf("only %d lies were told", n)
	}
}

// TestJ4_GitLab: pages that repeat themselves, and such as are huge, end a list soon.
func TestJ4_GitLab(t *testing.T) {
	w := newWorld(t)
	ctx, r := t.Context(), w.repo
	i := w.file(t)
	next := func(n int) http.Header { return http.Header{"X-Next-Page": {fmt.Sprint(n)}} }
	said := `"created_at":"2026-05-04T09:00:00Z","updated_at":"2026-05-04T09:00:00Z"`
	before := len(w.Requests())
	w.Lie("GET", "/issues", -1, gitlabtest.Fault{Status: http.StatusOK, Body: `[{"id":7,"iid":7,"state":"opened",` + said + `}]`, Header: next(2)})
	err := w.bot.ListIssues(ctx, r, time.Time{}, func(forge.Issue) error { return nil })
	if n := len(w.Requests()) - before; !forge.IsReason(err, forge.Invalid) || n > 8 {
		t.Errorf("the same issue again and again: %v after %d requests", err, n)
	}
	w.Honest()
	body := `[{"id":7,` + said + `,"body":"` + strings.Repeat("x", 30<<20) + `"}]`
	for n := range 5 {
		w.Lie("GET", "/notes", 1, gitlabtest.Fault{Status: http.StatusOK, Body: body, Header: next(n + 2)})
	}
	if err := second(w.bot.Comments(ctx, r, i.Number)); !forge.IsReason(err, forge.Invalid) {
		t.Errorf("150 MiB of comments: %v", err)
	}
}
