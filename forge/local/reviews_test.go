package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
)

// TestI17_ReviewPlaces: only what can be a place of a file in the repository is one, and of
// a commit that is there.
func TestI17_ReviewPlaces(t *testing.T) {
	w := newWorld(t)
	oid := w.branch(t, "work", "main", map[string]string{"a.txt": "1\n2\n"})
	c := w.open(t, "work")
	good := forge.ReviewPlace{Path: "a.txt", Start: 1, End: 2, Commit: oid}
	for name, spoil := range map[string]func(*forge.ReviewPlace){
		"above the repository": func(p *forge.ReviewPlace) { p.Path = "../a.txt" },
		"absolute":             func(p *forge.ReviewPlace) { p.Path = "/a.txt" },
		"a detour":             func(p *forge.ReviewPlace) { p.Path = "x/../a.txt" },
		"no path":              func(p *forge.ReviewPlace) { p.Path = "" },
		"a control character":  func(p *forge.ReviewPlace) { p.Path = "a\n.txt" },
		"no UTF-8":             func(p *forge.ReviewPlace) { p.Path = "a\xff" },
		"too long":             func(p *forge.ReviewPlace) { p.Path = strings.Repeat("a", maxReviewPath+1) },
		"a line below one":     func(p *forge.ReviewPlace) { p.Start = -1 },
		"backwards":            func(p *forge.ReviewPlace) { p.End = 0 },
		"beyond every file":    func(p *forge.ReviewPlace) { p.End = maxReviewLine + 1 },
		"another's commit":     func(p *forge.ReviewPlace) { p.Commit = strings.Repeat("a", 40) },
	} {
		bad := good
		spoil(&bad)
		wantReason(t, name, w.reader.ReviewAt(t.Context(), w.repo, c.Number, bad, "x"), forge.Invalid)
	}
	ok(t, w.reader.ReviewAt(t.Context(), w.repo, c.Number, good, "settled"))
	said := must[[]forge.ReviewComment](t)(w.bot.ReviewComments(t.Context(), w.repo, c.Number))
	wantReason(t, "resolve another's", w.triage.ResolveReview(t.Context(), w.repo, said[0].ID), forge.Forbidden)
	ok(t, w.owner.ResolveReview(t.Context(), w.repo, said[0].ID))
	ok(t, w.reader.ReviewAt(t.Context(), w.repo, c.Number, good, "open"))
	said = must[[]forge.ReviewComment](t)(w.bot.ReviewComments(t.Context(), w.repo, c.Number))
	if len(said) != 2 || !said[0].Resolved || said[1].Resolved || !said[0].UpdatedAt.Equal(said[0].CreatedAt) {
		t.Errorf("%+v", said)
	}
	ok(t, w.owner.DeleteComment(t.Context(), w.repo, said[0].ID))
	if left := must[[]forge.ReviewComment](t)(w.bot.ReviewComments(t.Context(), w.repo, c.Number)); len(left) != 1 || left[0].Place == nil {
		t.Errorf("after the deletion: %+v", left)
	}
}

// TestPage_Review: the form of a change's page comments on lines, and the page says where.
func TestPage_Review(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(must[http.Handler](t)(w.Handler()))
	t.Cleanup(srv.Close)
	oid := w.branch(t, "work", "main", map[string]string{"a.txt": "1\n2\n"})
	c := w.open(t, "work")
	b := w.browse(t, srv, w.reader)
	path := fmt.Sprintf("/acme/shop/changes/%d", c.Number)
	send := func(more ...string) int {
		form := url.Values{"csrf": {b.csrf}, "act": {"review"}, "path": {"a.txt"}, "commit": {oid}, "body": {"Say *why*."}}
		for n := 0; n < len(more); n += 2 {
			form.Set(more[n], more[n+1])
		}
		return b.post(path, form).status
	}
	for want, list := range map[int][][]string{
		http.StatusSeeOther:            {{"start", "2"}, {"end", "2"}, {"start", "1", "end", "2", "old", "yes"}, {}},
		http.StatusUnprocessableEntity: {{"start", "two"}, {"start", "2", "end", "1"}, {"path", "../a"}, {"commit", ""}},
	} {
		for _, more := range list {
			if got := send(more...); got != want {
				t.Errorf("%v: %d, want %d", more, got, want)
			}
		}
	}
	page := b.get(path).text
	for _, want := range []string{"a.txt, line 2 at " + oid[:shortOID], "a.txt, lines 1 to 2, as it was before at", "<em>why</em>", `name="commit" value="` + oid + `"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := len(must[[]forge.ReviewComment](t)(w.bot.ReviewComments(t.Context(), w.repo, c.Number))); n != 4 {
		t.Errorf("%d comments", n)
	}
}
