package gitlab

import (
	"strconv"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestI12_ChangeFromAFork: anybody may open a merge request from a branch of our name in
// his fork; it isn't ours, however new it is.
func TestI12_ChangeFromAFork(t *testing.T) {
	w := newWorld(t)
	stranger := w.AddUser("mallory")
	w.ForkMerge(w.repo.ID, stranger.ID, "writ/change/1")
	if err := second(w.bot.FindChange(t.Context(), w.repo, "writ/change/1", "")); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("with nothing but a fork's: %v", err)
	}
	ours := w.change(t, "writ/change/1", "Fix it", "")
	for range 130 {
		w.ForkMerge(w.repo.ID, stranger.ID, "writ/change/1")
	}
	if got := must[forge.Change](t)(w.bot.FindChange(t.Context(), w.repo, "writ/change/1", "")); got != ours {
		t.Errorf("found %+v, ours is %+v", got, ours)
	}
}

// TestNumbers: an issue and a merge request of the same number are two.
func TestNumbers(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	c := w.change(t, "writ/change/1", "Fix it", "")
	if i.Number != 1 || c.Number != ChangeNumber(1) {
		t.Fatalf("numbers %d and %d", i.Number, c.Number)
	}
	must[forge.Comment](t)(w.bot.AddComment(t.Context(), w.repo, c.Number, "on the change"))
	if on, beside := w.comments(t, c.Number), w.comments(t, i.Number); len(on) != 1 || len(beside) != 0 || !strings.Contains(on[0].URL, "/-/merge_requests/1#note_") {
		t.Errorf("comments %+v and %+v", on, beside)
	}
}

// TestDrafts: on GitLab the title decides. A draft stays one when its text is
// edited, what a person made of it too, and no title makes one by accident.
func TestDrafts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	find := func(head string) forge.Change { return must[forge.Change](t)(w.bot.FindChange(ctx, w.repo, head, "")) }
	w.Branch(w.repo.ID, w.bot.user.ID, "writ/change/1", map[string]string{"1": "x"})
	draft := must[forge.Change](t)(w.bot.OpenChange(ctx, w.repo, forge.Change{Title: "Fix it", Head: "writ/change/1", Base: "main", Draft: true}))
	if !draft.Draft || draft.Title != "Fix it" {
		t.Errorf("opened as a draft: %+v", draft)
	}
	ok(t, w.bot.EditChange(ctx, w.repo, draft.Number, "Fix it well", "text"))
	if got := find("writ/change/1"); !got.Draft || got.Title != "Fix it well" {
		t.Errorf("the edited draft is %+v", got)
	}
	w.SetTitle(w.repo.ID, 1, "Fix it well") // a person marks it as ready
	ok(t, w.bot.EditChange(ctx, w.repo, draft.Number, "Fix it well", "another text"))
	if got := find("writ/change/1"); got.Draft {
		t.Errorf("a ready one became a draft again: %+v", got)
	}
	for n, title := range []string{"Draft: nothing", "[draft] nothing", "(DRAFT) nothing", "  draft:nothing"} {
		head := "writ/change/" + string(rune('a'+n))
		got := w.change(t, head, title, "")
		if got.Draft || strings.TrimSpace(got.Title) != strings.TrimSpace(title) {
			t.Errorf("%q was opened as %+v", title, got)
		}
	}
}

// TestFind_OntoTheBase: a change that is for another branch delivers only where none
// is for the base.
func TestFind_OntoTheBase(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Branch(w.repo.ID, w.bot.user.ID, "work", map[string]string{"1": "x"})
	w.Branch(w.repo.ID, w.bot.user.ID, "playground", map[string]string{"2": "x"})
	numbers := map[string]int64{}
	for _, base := range []string{"main", "playground"} {
		numbers[base] = must[forge.Change](t)(w.bot.OpenChange(ctx, w.repo, forge.Change{Title: "Fix it", Head: "work", Base: base})).Number
	}
	for base, want := range map[string]string{"main": "main", "playground": "playground", "gone": "playground", "": "playground"} {
		if got := must[forge.Change](t)(w.bot.FindChange(ctx, w.repo, "work", base)); got.Number != numbers[want] {
			t.Errorf("for %q it is that onto %s, want %s", base, got.Base, want)
		}
	}
}

// TestOpen_Missing: GitLab takes branches that aren't there; writ doesn't offer any.
func TestOpen_Missing(t *testing.T) {
	w := newWorld(t)
	w.Branch(w.repo.ID, w.bot.user.ID, "work", map[string]string{"1": "x"})
	for _, c := range []forge.Change{{Title: "x", Head: "nowhere", Base: "main"}, {Title: "x", Head: "work", Base: "nowhere"}} {
		if err := second(w.bot.OpenChange(t.Context(), w.repo, c)); !forge.IsReason(err, forge.NotFound) {
			t.Errorf("from %s to %s: %v", c.Head, c.Base, err)
		}
	}
	for _, r := range w.Requests() {
		if r.Method == "POST" {
			t.Errorf("asked for all the same: %+v", r)
		}
	}
}

// TestMerged_Kinds: the commit on the base, by whichever way it came there.
func TestMerged_Kinds(t *testing.T) {
	for said, want := range map[string]string{
		`"merge_commit_sha": "m", "squash_commit_sha": "s", "sha": "h"`:   "m",
		`"merge_commit_sha": null, "squash_commit_sha": "s", "sha": "h"`:  "s",
		`"merge_commit_sha": null, "squash_commit_sha": null, "sha": "h"`: "h",
	} {
		w := newWorld(t)
		w.Lie("GET", "/merge_requests", 1, gitlabtest.Fault{Status: 200, Body: `[{"iid": 1, "state": "merged", "source_branch": "b", "source_project_id": ` + strconv.FormatInt(w.repo.ID, 10) + `, ` + said + `}]`})
		if got := must[forge.Change](t)(w.bot.FindChange(t.Context(), w.repo, "b", "")); got.MergedOID != want || got.State != forge.ChangeMerged {
			t.Errorf("%s: %+v", said, got)
		}
	}
}

// TestCheck_Again: a status that is so already isn't an error, another refusal is.
func TestCheck_Again(t *testing.T) {
	w := newWorld(t)
	c := w.change(t, "writ/change/1", "Fix it", "")
	check := forge.Check{Name: "writ", Summary: strings.Repeat("long ", 100) + "\nend", State: forge.CheckRunning}
	for range 3 {
		ok(t, w.bot.SetCheck(t.Context(), w.repo, c.HeadOID, check))
	}
	got := w.checks(t, c.HeadOID)
	if len(got) != 1 || got[0].State != forge.CheckRunning || len([]rune(got[0].Summary)) > maxStatus || strings.Contains(got[0].Summary, "\n") {
		t.Errorf("checks %+v", got)
	}
	w.Lie("POST", "/statuses/", 1, gitlabtest.Fault{Status: 400, Body: `{"message":"Cannot transition status via :run from :success"}`})
	w.Lie("GET", "/statuses", 1, gitlabtest.Fault{Status: 200, Body: `[{"name": "writ", "status": "success"}]`})
	if err := w.bot.SetCheck(t.Context(), w.repo, c.HeadOID, check); !forge.IsReason(err, forge.Invalid) {
		t.Errorf("a status that can't be set: %v", err)
	}
}

// TestF5_CommentAfterRestart: a comment is found by its id alone, by an instance
// that has never listed it; one of another project isn't there.
func TestF5_CommentAfterRestart(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.file(t)
	on := must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, i.Number, "on the issue"))
	change := w.change(t, "writ/change/1", "Fix it", "")
	beside := must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, change.Number, "on the change"))
	fresh := w.person(t, w.bot.user, w.bot.token)
	for _, c := range []forge.Comment{on, beside} {
		ok(t, fresh.EditComment(ctx, w.repo, c.ID, "edited"))
	}
	fresh = w.person(t, w.bot.user, w.bot.token)
	for _, c := range []forge.Comment{on, beside} {
		ok(t, fresh.React(ctx, w.repo, c.ID, forge.ReactionSeen))
		ok(t, fresh.DeleteComment(ctx, w.repo, c.ID))
	}
	if len(w.comments(t, i.Number))+len(w.comments(t, change.Number)) > 0 {
		t.Error("the comments are still there")
	}
	other := w.repo
	other.ID = w.AddProject("acme", "other")
	w.SetMember(other.ID, w.bot.user.ID, gitlabtest.Maintainer)
	third := must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, i.Number, "stays"))
	fresh = w.person(t, w.bot.user, w.bot.token)
	if err := fresh.EditComment(ctx, other, third.ID, "edited"); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("through another project: %v", err)
	}
	if got := w.comments(t, i.Number); len(got) != 1 || got[0].Body != "stays" {
		t.Errorf("comments %+v", got)
	}
}
