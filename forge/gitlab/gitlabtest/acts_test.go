package gitlabtest

import (
	"slices"
	"strings"
	"testing"
)

// TestActs: what people do on the pages is seen there, and hooks are told.
func TestActs(t *testing.T) {
	p, in := newPlace(t, Options{}), newInbox(t)
	p.hook(t, in.URL, "s3cret", "")
	by := p.owner.ID
	n := p.FileIssue(p.id, by, "Add fails", "It fails.")
	p.Label(p.id, by, n, "writ")
	p.Label(p.id, by, n, "bug")
	p.Unlabel(p.id, by, n, "bug")
	p.Edit(p.id, by, n, "Add fails", "It fails badly.")
	c := p.Comment(p.id, by, n, "/close\nEnough.")
	p.SetIssueState(p.id, by, n, "reopen")
	got := p.Issue(p.id, n)
	if got.State != "opened" || got.Closings != 1 || !slices.Equal(got.Labels, []string{"writ"}) || got.Description != "It fails badly." ||
		len(got.Notes) != 1 || got.Notes[0].ID != c || got.Notes[0].Body != "Enough." {
		t.Errorf("the page shows %+v", got)
	}
	p.Branch(p.id, by, "work", map[string]string{"new": "x"})
	p.ask(t, "POST", "/merge_requests", map[string]any{"title": "Fix", "source_branch": "work", "target_branch": "main"})
	ok(t, p.Merge(p.id, by, 1, true))
	if err := p.Merge(p.id, by, 1, true); err == nil {
		t.Error("merged twice")
	}
	if all := p.Merges(p.id); len(all) != 1 || all[0].State != "merged" || all[0].MergeSHA != p.Ref(p.id, "refs/heads/main") {
		t.Errorf("merge requests %+v", all)
	}
	p.Settle()
	var events []string
	for _, d := range in.all() {
		events = append(events, strings.TrimSuffix(d.Event, " Hook"))
	}
	want := []string{
		"Issue", "Issue", "Issue", "Issue", "Issue", "Note", "Issue", "Issue", "Push", "Merge Request", "Push", "Merge Request",
	}
	if !slices.Equal(events, want) {
		t.Errorf("told %q, want %q", events, want)
	}
}
