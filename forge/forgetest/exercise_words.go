package forgetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
)

// exerciseLabels: one by one, and idempotent.
func exerciseLabels(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "With labels")
	labels := []forge.Label{{Name: "writ", Color: "1d76db", Description: "approved"}, {Name: "writ: blocked", Color: "b60205"}}
	for range 2 {
		ok(t, p.Bot.EnsureLabels(ctx, r, labels))
	}
	ok(t, p.Bot.EnsureLabels(ctx, r, nil))
	for range 2 {
		ok(t, p.Bot.AddLabel(ctx, r, i.Number, "writ: blocked"))
	}
	if got := p.issue(t, i.Number).Labels; !slices.Equal(got, []string{"writ: blocked"}) {
		t.Errorf("labels %q after adding one twice", got)
	}
	for range 2 {
		ok(t, p.Bot.RemoveLabel(ctx, r, i.Number, "writ: blocked"))
	}
	ok(t, p.Bot.RemoveLabel(ctx, r, i.Number, "never offered by this repository"))
	if got := p.issue(t, i.Number).Labels; len(got) > 0 {
		t.Errorf("labels %q after taking it off", got)
	}
	want := []forge.EventKind{forge.EventLabeled, forge.EventUnlabeled}
	if got := kinds(p.history(t, i.Number)); !slices.Equal(got, want) {
		t.Errorf("history %q, want %q: doing it again is no event", got, want)
	}
}

// exerciseOthersLabels: whatever we set and take off, other people's labels stay.
func exerciseOthersLabels(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	others := "urgent, really"
	if p.NoCommas {
		others = "urgent & really"
	}
	i := p.file(t, "Labelled by others")
	ok(t, p.Bot.EnsureLabels(ctx, r, []forge.Label{{Name: "bug", Color: "d73a4a"}, {Name: "writ", Color: "1d76db"}}))
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, "bug"))
	ok(t, p.Bot.AddLabel(ctx, r, i.Number, "writ"))
	ok(t, p.Owner.AddLabel(ctx, r, i.Number, others))
	ok(t, p.Bot.RemoveLabel(ctx, r, i.Number, "writ"))
	got := p.issue(t, i.Number).Labels
	slices.Sort(got)
	if !slices.Equal(got, []string{"bug", others}) {
		t.Errorf("labels %q, want those of the owner", got)
	}
}

// exerciseComments: added, listed in order, edited, deleted.
func exerciseComments(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "Talked about")
	if got := p.comments(t, i.Number); len(got) > 0 {
		t.Errorf("a new issue has comments: %+v", got)
	}
	bot := self(t, p.Bot)
	first := must[forge.Comment](t)(p.Bot.AddComment(ctx, r, i.Number, "first"))
	_, err := p.Reader.AddComment(ctx, r, i.Number, "second, by another")
	ok(t, err)
	third := must[forge.Comment](t)(p.Bot.AddComment(ctx, r, i.Number, "third"))
	if first.ID == 0 || first.ID == third.ID || first.Author.ID != bot.ID || first.Body != "first" || first.URL == "" || first.CreatedAt.IsZero() {
		t.Errorf("added %+v and %+v", first, third)
	}
	ok(t, p.Bot.EditComment(ctx, r, first.ID, "first, edited"))
	wantBodies(t, p.comments(t, i.Number), "first, edited", "second, by another", "third")
	if got := p.comments(t, i.Number)[0]; got.ID != first.ID || got.UpdatedAt.Before(first.UpdatedAt) || got.Author.ID != bot.ID {
		t.Errorf("edited: %+v, was %+v", got, first)
	}
	ok(t, p.Bot.DeleteComment(ctx, r, first.ID))
	wantBodies(t, p.comments(t, i.Number), "second, by another", "third")
	wantReason(t, "delete again", p.Bot.DeleteComment(ctx, r, first.ID), forge.NotFound)
	wantReason(t, "edit a deleted one", p.Bot.EditComment(ctx, r, first.ID, "x"), forge.NotFound)
	wantReason(t, "react to a deleted one", p.Bot.React(ctx, r, first.ID, forge.ReactionSeen), forge.NotFound)
}

func wantBodies(t *testing.T, got []forge.Comment, want ...string) {
	t.Helper()
	var bodies []string
	for _, c := range got {
		bodies = append(bodies, c.Body)
	}
	if !slices.Equal(bodies, want) {
		t.Errorf("comments %q, want %q", bodies, want)
	}
}

// exerciseBytes: what was sent can be found again, hidden marker included.
func exerciseBytes(t *testing.T, p *Place) {
	i := p.file(t, "With a marker")
	for _, body := range []string{
		"<!-- writ:report run=0198-ab -->\n**Completed.** `a < b && c`",
		"| a | b |\n|---|---|\n| 1 | <2> |\n",
		"日本 🙂 \u00a0 é — &amp; \\ \" '",
		strings.Repeat("long ", 6000),
	} {
		c := must[forge.Comment](t)(p.Bot.AddComment(t.Context(), p.Repo, i.Number, body))
		all := p.comments(t, i.Number)
		if got := all[len(all)-1]; got.ID != c.ID || strings.TrimSpace(got.Body) != strings.TrimSpace(body) {
			t.Errorf("comment came back as %.80q, want %.80q", got.Body, body)
		}
	}
}

// exerciseMany: more than a page, none lost, none twice.
func exerciseMany(t *testing.T, p *Place) {
	const many = 105
	i := p.file(t, "Much talked about")
	want := make([]string, many)
	for n := range want {
		want[n] = fmt.Sprint("comment ", n)
		_, err := p.Bot.AddComment(t.Context(), p.Repo, i.Number, want[n])
		ok(t, err)
	}
	wantBodies(t, p.comments(t, i.Number), want...)
}

func exerciseReactions(t *testing.T, p *Place) {
	i := p.file(t, "Answered without words")
	c := must[forge.Comment](t)(p.Reader.AddComment(t.Context(), p.Repo, i.Number, "/writ retry"))
	for _, with := range []forge.Reaction{forge.ReactionSeen, forge.ReactionSeen, forge.ReactionDone, forge.ReactionRefused, forge.ReactionConfused} {
		ok(t, p.Bot.React(t.Context(), p.Repo, c.ID, with))
		ok(t, p.Bot.ReactToIssue(t.Context(), p.Repo, i.Number, with))
	}
	wantReason(t, "react to no issue", p.Bot.ReactToIssue(t.Context(), p.Repo, 1_000_000, forge.ReactionSeen), forge.NotFound)
	wantBodies(t, p.comments(t, i.Number), "/writ retry")
}

// exercisePermissions: asked by numeric id, told as of now.
func exercisePermissions(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	reader := self(t, p.Reader).ID
	ask := func(user int64) forge.Permission {
		t.Helper()
		return must[forge.Permission](t)(p.Bot.Permission(ctx, r, user))
	}
	if got := ask(self(t, p.Owner).ID); got != forge.Admin {
		t.Errorf("the owner has %s", got)
	}
	if got := ask(self(t, p.Bot).ID); got != forge.Write {
		t.Errorf("the bot has %s", got)
	}
	for _, want := range []forge.Permission{forge.Triage, forge.Write, forge.Maintain, forge.Admin, forge.Read, forge.Write, forge.Read} {
		p.Grant(t, reader, want)
		if got := ask(reader); got != want {
			t.Errorf("after granting %s: %s", want, got)
		}
	}
	if got := ask(unknown); got != forge.None {
		t.Errorf("an account that isn't there has %s, want none", got)
	}
}

// exerciseRefusals: who may only read is Forbidden to act, and nothing changes.
func exerciseRefusals(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	i := p.file(t, "Not for everybody")
	c := must[forge.Comment](t)(p.Bot.AddComment(ctx, r, i.Number, "the bot's own"))
	ok(t, p.Bot.EnsureLabels(ctx, r, []forge.Label{{Name: "writ", Color: "1d76db"}}))
	for what, err := range map[string]error{
		"label":        p.Reader.AddLabel(ctx, r, i.Number, "writ"),
		"close":        p.Reader.SetState(ctx, r, i.Number, forge.Closed),
		"edit":         p.Reader.EditIssue(ctx, r, i.Number, "Mine", "now"),
		"edit comment": p.Reader.EditComment(ctx, r, c.ID, "forged"),
	} {
		wantReason(t, what, err, forge.Forbidden)
	}
	got := p.issue(t, i.Number)
	if got.Title != i.Title || got.State != forge.Open || len(got.Labels) > 0 {
		t.Errorf("the issue was changed: %+v", got)
	}
	wantBodies(t, p.comments(t, i.Number), "the bot's own")
}
