package forgetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/writbot/writ/forge"
)

func (p *Place) reviews(t *testing.T, change int64) []forge.ReviewComment {
	t.Helper()
	return must[[]forge.ReviewComment](t)(p.Bot.ReviewComments(t.Context(), p.Repo, change))
}

// exerciseReviews: what people said of a change and of places in it, each once, with who
// said it and where; an edit shows.
func exerciseReviews(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	c := p.change(t, "writ/change/5")
	if got := p.reviews(t, c.Number); len(got) > 0 {
		t.Errorf("a fresh change has %+v", got)
	}
	at := []forge.ReviewPlace{
		{Path: "work.txt", Start: 1, End: 1, Commit: c.HeadOID},
		{Path: "work.txt", Start: 1, End: 3, Commit: c.HeadOID},
		{Path: "work.txt", Start: 2, End: 2, Old: true, Commit: c.HeadOID},
		{Path: "work.txt", Commit: c.HeadOID},
	}
	must[forge.Comment](t)(p.Owner.AddComment(ctx, r, c.Number, "of the whole"))
	for n, place := range at {
		ok(t, p.Owner.ReviewAt(ctx, r, c.Number, place, fmt.Sprintf("of place %d, *raw*\n", n)))
	}
	owner, seen := self(t, p.Owner), map[string]bool{}
	for _, got := range p.reviews(t, c.Number) {
		seen[got.Body] = true
		if got.ID == 0 || got.Author.ID != owner.ID || got.CreatedAt.IsZero() || !got.UpdatedAt.Equal(got.CreatedAt) || got.URL == "" || got.Resolved {
			t.Errorf("comment %+v", got)
		}
		if got.Body == "of the whole" {
			if got.Kind != forge.ReviewTalk || got.Place != nil {
				t.Errorf("of the whole change: %+v", got)
			}
			continue
		}
		var n int
		if _, err := fmt.Sscanf(got.Body, "of place %d", &n); err != nil || got.Kind != forge.ReviewLine || got.Place == nil || *got.Place != at[n] {
			t.Errorf("%q is %q at %+v, want %+v", got.Body, got.Kind, got.Place, at[min(n, len(at)-1)])
		}
	}
	if len(seen) != 1+len(at) {
		t.Errorf("comments %v", seen)
	}
	all := p.reviews(t, c.Number)
	if !slices.IsSortedFunc(all, func(a, b forge.ReviewComment) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
		t.Errorf("out of order: %+v", all)
	}
	line := all[slices.IndexFunc(all, func(c forge.ReviewComment) bool { return c.Place != nil })]
	ok(t, p.Owner.EditReview(ctx, r, c.Number, line.ID, "another text"))
	for _, got := range p.reviews(t, c.Number) {
		if got.ID == line.ID && got.Kind == line.Kind && (got.Body != "another text" || got.UpdatedAt.Before(line.CreatedAt) || !got.CreatedAt.Equal(line.CreatedAt)) {
			t.Errorf("after the edit %+v", got)
		}
	}
	issue := p.file(t, "No change")
	wantReason(t, "read an issue's", second(p.Bot.ReviewComments(ctx, r, issue.Number)), forge.NotFound)
}

// exerciseManyReviews: more than a page, none lost, none twice.
func exerciseManyReviews(t *testing.T, p *Place) {
	const many = 102
	c := p.change(t, "writ/change/6")
	seen := map[string]int{}
	for n := range many {
		ok(t, p.Owner.ReviewAt(t.Context(), p.Repo, c.Number, forge.ReviewPlace{Path: "work.txt", Start: 1, End: 1, Commit: c.HeadOID}, fmt.Sprint("line ", n)))
	}
	for _, got := range p.reviews(t, c.Number) {
		seen[got.Body]++
	}
	for n := range many {
		if seen[fmt.Sprint("line ", n)] != 1 {
			t.Fatalf("comment %d was read %d times, of %d", n, seen[fmt.Sprint("line ", n)], len(seen))
		}
	}
}
