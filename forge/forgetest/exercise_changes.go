package forgetest

import (
	"testing"

	"github.com/writbot/writ/forge"
)

// change opens one from a fresh branch.
func (p *Place) change(t *testing.T, branch string) forge.Change {
	t.Helper()
	oid := p.Branch(t, branch)
	about := must[forge.Repository](t)(p.Bot.Repository(t.Context(), p.Repo.ID))
	c := must[forge.Change](t)(p.Bot.OpenChange(t.Context(), p.Repo, forge.Change{
		Title: "Fix " + branch, Body: "It was *broken*.", Head: branch, Base: about.DefaultBranch,
	}))
	if c.HeadOID != oid {
		t.Errorf("the change's head is %s, the branch's %s", c.HeadOID, oid)
	}
	return c
}

func (p *Place) find(t *testing.T, head string) forge.Change {
	t.Helper()
	return must[forge.Change](t)(p.Bot.FindChange(t.Context(), p.Repo, head, ""))
}

// exerciseChange: opened, found by its branch, edited, talked about.
func exerciseChange(t *testing.T, p *Place) {
	ctx, r := t.Context(), p.Repo
	issue := p.file(t, "Before the change")
	opened := p.change(t, "writ/change/1")
	got := p.find(t, "writ/change/1")
	if got != opened {
		t.Errorf("found %+v, opened %+v", got, opened)
	}
	if got.Number == 0 || got.State != forge.ChangeOpen || got.Title != "Fix writ/change/1" || got.Body != "It was *broken*." ||
		got.MergedOID != "" || got.Draft || got.URL == "" || got.Author.ID != self(t, p.Bot).ID {
		t.Errorf("change %+v", got)
	}
	ok(t, p.Bot.EditChange(ctx, r, got.Number, "Another title", "another text"))
	if got := p.find(t, "writ/change/1"); got.Title != "Another title" || got.Body != "another text" || got.State != forge.ChangeOpen {
		t.Errorf("after the edit: %+v", got)
	}
	_, err := p.Bot.AddComment(ctx, r, got.Number, "on the change")
	ok(t, err)
	wantBodies(t, p.comments(t, got.Number), "on the change")
	wantBodies(t, p.comments(t, issue.Number))
	wantReason(t, "edit an issue as a change", p.Bot.EditChange(ctx, r, issue.Number, "x", "y"), forge.NotFound)
	wantReason(t, "find by another branch", second(p.Bot.FindChange(ctx, r, "writ/change/2", "")), forge.NotFound)
	wantReason(t, "find by the beginning of its name", second(p.Bot.FindChange(ctx, r, "writ/change/", "")), forge.NotFound)
}

func second[T any](_ T, err error) error { return err }

// exerciseChangeTwice: one branch has one open change, and needs to be there.
func exerciseChangeTwice(t *testing.T, p *Place) {
	opened := p.change(t, "writ/change/2")
	again := forge.Change{Title: "Again", Head: opened.Head, Base: opened.Base}
	wantReason(t, "open again", second(p.Bot.OpenChange(t.Context(), p.Repo, again)), forge.Conflict, forge.Invalid)
	if got := p.find(t, opened.Head); got != opened {
		t.Errorf("the second changed the first: %+v, was %+v", got, opened)
	}
	missing := forge.Change{Title: "From nowhere", Head: "no-such-branch", Base: opened.Base}
	wantReason(t, "open from a branch that isn't there", second(p.Bot.OpenChange(t.Context(), p.Repo, missing)), forge.Invalid, forge.NotFound)
	missing = forge.Change{Title: "Onto nothing", Head: opened.Head, Base: "no-such-branch"}
	wantReason(t, "open onto a branch that isn't there", second(p.Bot.OpenChange(t.Context(), p.Repo, missing)), forge.Invalid, forge.NotFound, forge.Conflict)
}

// exerciseMerged: a merged change says so, and a newer one hides it.
func exerciseMerged(t *testing.T, p *Place) {
	opened := p.change(t, "writ/change/3")
	p.Merge(t, opened.Number)
	merged := p.find(t, opened.Head)
	if merged.State != forge.ChangeMerged || merged.MergedOID == "" || merged.HeadOID != opened.HeadOID {
		t.Errorf("after the merge: %+v", merged)
	}
	newer := p.change(t, "writ/change/3")
	if got := p.find(t, "writ/change/3"); got.Number != newer.Number || got.State != forge.ChangeOpen {
		t.Errorf("found %+v, want the newer one, %+v", got, newer)
	}
}

// exerciseChecks: a check is found again by its name.
func exerciseChecks(t *testing.T, p *Place) {
	c := p.change(t, "writ/change/4")
	for _, state := range []forge.CheckState{forge.CheckRunning, forge.CheckFailed, forge.CheckPassed} {
		check := forge.Check{Name: "writ", Summary: "It is " + string(state), Detail: "**In detail**", State: state}
		ok(t, p.Bot.SetCheck(t.Context(), p.Repo, c.HeadOID, check))
		got := p.Checks(t, c.HeadOID)
		if len(got) != 1 || got[0].Name != "writ" || got[0].State != state || got[0].Summary != check.Summary {
			t.Errorf("checks %+v, want one, %+v", got, check)
		}
	}
}
