package gitlab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestW12_UpdatedWhileListing: issues that are updated while they are listed move to
// the end, and none of the others is left out.
func TestW12_UpdatedWhileListing(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(time.Second) })
	const many = 230
	for range many {
		w.file(t)
	}
	listed, calls := map[int64]int{}, 0
	ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error {
		listed[i.Number]++
		if calls++; calls%10 == 0 && calls < many { // this very one, which leaves its page
			return w.owner.EditIssue(t.Context(), w.repo, i.Number, "Moved", "while it was listed")
		}
		return nil
	}))
	if len(listed) != many {
		t.Errorf("%d of %d issues were listed", len(listed), many)
	}
}

// TestW12_ListsOfBothKinds: issues and merge requests come by their updates, more than a
// page of each, and what is said of a merge request updates it. Two lists cost a request
// each where nothing is new.
func TestW12_ListsOfBothKinds(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(time.Second) })
	const each = 105
	for n := range each {
		w.file(t)
		w.change(t, fmt.Sprintf("writ/change/%d", n), "Fix it", "It is done.")
	}
	must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, ChangeNumber(3), "/writ fix"))
	var listed []forge.Issue
	list := func(since time.Time) {
		t.Helper()
		listed = nil
		ok(t, w.bot.ListIssues(t.Context(), w.repo, since, func(i forge.Issue) error { listed = append(listed, i); return nil }))
	}
	list(time.Time{})
	if len(listed) != 2*each || !slices.IsSortedFunc(listed, func(a, b forge.Issue) int { return a.UpdatedAt.Compare(b.UpdatedAt) }) {
		t.Errorf("%d were listed, want %d, by their updates", len(listed), 2*each)
	}
	if last := listed[len(listed)-1]; last.Number != ChangeNumber(3) || !last.IsChange || last.Body != "It is done." || last.State != forge.Open {
		t.Errorf("the last is %+v", last)
	}
	before := len(w.Requests())
	if list(listed[len(listed)-1].UpdatedAt); len(listed) != 1 || len(w.Requests()) != before+2 {
		t.Errorf("%d are new, for %d requests", len(listed), len(w.Requests())-before)
	}
}

// TestW12_UpdatedBetweenLists: an issue is updated after the last page of issues was read,
// and a merge request before its own page is. The issue is listed before the merge request,
// so that whoever goes on from the last entry that was handed on doesn't miss it.
func TestW12_UpdatedBetweenLists(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(time.Second) })
	first := w.file(t)
	for n := range 105 {
		w.change(t, fmt.Sprintf("writ/change/%d", n), "Fix it", "It is done.")
	}
	var listed []int64
	ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error {
		if listed = append(listed, i.Number); len(listed) == 1 { // a page of each list is read, and more of the merge requests follow
			for _, n := range []int64{first.Number, ChangeNumber(2)} {
				must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, n, "/writ fix"))
			}
		}
		return nil
	}))
	if end := listed[max(0, len(listed)-2):]; !slices.Equal(end, []int64{first.Number, ChangeNumber(2)}) {
		t.Errorf("the last of %d are %v", len(listed), end)
	}
}

// TestJ6_DateAheadOpensNoGap: an issue that is dated in years to come says nothing of how far
// the issues were read: one that is updated after that, and before a merge request, is listed
// before the merge request all the same. It costs no request where nothing is new.
func TestJ6_DateAheadOpensNoGap(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(time.Second) })
	first, ahead := w.file(t), w.file(t)
	w.DateIssue(w.repo.ID, ahead.Number, time.Now().AddDate(50, 0, 0))
	for n := range 105 {
		w.change(t, fmt.Sprintf("writ/change/%d", n), "Fix it", "It is done.")
	}
	var listed []forge.Issue
	ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error {
		if listed = append(listed, i); len(listed) == 1 {
			for _, n := range []int64{first.Number, ChangeNumber(2)} {
				must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, n, "/writ fix"))
			}
		}
		return nil
	}))
	var end []int64
	for _, i := range listed[max(0, len(listed)-3):] {
		end = append(end, i.Number)
	}
	if !slices.Equal(end, []int64{first.Number, ChangeNumber(2), ahead.Number}) {
		t.Errorf("the last of %d are %v", len(listed), end)
	}
	before, since := len(w.Requests()), listed[len(listed)-2].UpdatedAt
	listed = nil
	ok(t, w.bot.ListIssues(t.Context(), w.repo, since, func(i forge.Issue) error { listed = append(listed, i); return nil }))
	if len(listed) != 2 || len(w.Requests()) != before+2 {
		t.Errorf("%d are new, for %d requests", len(listed), len(w.Requests())-before)
	}
}

// TestJ6_ManyDatesAhead: pages of entries that are dated ahead, which are listed each time
// that the list is read behind its end, are no list without one.
func TestJ6_ManyDatesAhead(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(time.Second) })
	w.file(t)
	const ahead, changes = 450, 105 // of a hundred a page
	for range ahead {
		w.DateIssue(w.repo.ID, w.file(t).Number, time.Now().Add(10*time.Hour))
	}
	for n := range changes {
		w.change(t, fmt.Sprintf("writ/change/%d", n), "Fix it", "It is done.")
	}
	listed := map[int64]bool{}
	ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error { listed[i.Number] = true; return nil }))
	if len(listed) != 1+ahead+changes {
		t.Errorf("%d are listed", len(listed))
	}
}

// TestW12_MergeRequestsSwitchedOff: a project without merge requests has its issues listed.
// Any other refusal is an error, for updates would be missed.
func TestW12_MergeRequestsSwitchedOff(t *testing.T) {
	w := newWorld(t)
	w.file(t)
	listed := 0
	list := func() error {
		listed = 0
		return w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(forge.Issue) error { listed++; return nil })
	}
	refused := &forge.Error{Reason: forge.Forbidden}
	if off, err := w.bot.host.mergesOff(t.Context(), reading("list"), w.repo, refused); off || err != nil {
		t.Errorf("refused by a project that has them: %v, %v", off, err)
	}
	w.NoMerges(w.repo.ID)
	if err := list(); err != nil || listed != 1 {
		t.Errorf("%d are listed, %v", listed, err)
	}
	refused.Reason = forge.Unavailable
	if off, err := w.bot.host.mergesOff(t.Context(), reading("list"), w.repo, refused); off || err != nil {
		t.Errorf("without an answer: %v, %v", off, err)
	}
}

// TestW12_NoneTwice: all within one second, over three pages.
func TestW12_NoneTwice(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = steady(time.Microsecond) })
	const many = 230
	for range many {
		w.file(t)
	}
	var listed []int64
	ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error {
		listed = append(listed, i.Number)
		return nil
	}))
	unique := slices.Clone(listed)
	slices.Sort(unique)
	if len(listed) != many || len(slices.Compact(unique)) != many {
		t.Errorf("%d listed, %d different, of %d", len(listed), len(slices.Compact(unique)), many)
	}
}

// TestW12_ShortPages: a page that is shorter than asked for isn't the last one.
func TestW12_ShortPages(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	w.InternalNotes(w.repo.ID, i.Number, w.owner.user.ID, 120)
	must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, "the last one"))
	all := must[[]forge.Comment](t)(w.reader.Comments(t.Context(), w.repo, i.Number))
	if len(all) != 1 || all[0].Body != "the last one" {
		t.Errorf("a guest is shown %d comments", len(all))
	}
}

// TestI12_InternalNotes: what only members see is no comment for writ, whose
// records everybody sees.
func TestI12_InternalNotes(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	w.InternalNotes(w.repo.ID, i.Number, w.owner.user.ID, 3)
	if got := w.comments(t, i.Number); len(got) > 0 {
		t.Errorf("comments %+v", got)
	}
}

// TestLabels_Comma: GitLab would take it for two labels, one of which approves.
func TestLabels_Comma(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	for _, name := range []string{"harmless,writ", "", " writ", "writ "} {
		for what, err := range map[string]error{
			"add":    w.bot.AddLabel(t.Context(), w.repo, i.Number, name),
			"remove": w.bot.RemoveLabel(t.Context(), w.repo, i.Number, name),
			"make":   w.bot.EnsureLabels(t.Context(), w.repo, []forge.Label{{Name: name, Color: "ededed"}}),
		} {
			if !forge.IsReason(err, forge.Invalid) {
				t.Errorf("%s %q: %v, want invalid", what, name, err)
			}
		}
	}
	if got := w.issue(t, i.Number).Labels; len(got) > 0 {
		t.Errorf("labels %q", got)
	}
}

// TestLabels_OfTheGroup: what the group above offers isn't made again.
func TestLabels_OfTheGroup(t *testing.T) {
	w := newWorld(t)
	w.AddGroupLabel("acme", "writ")
	ok(t, w.bot.EnsureLabels(t.Context(), w.repo, []forge.Label{{Name: "writ", Color: "1d76db"}, {Name: "writ:claimed", Color: "1d76db"}}))
	made := 0
	for _, r := range w.Requests() {
		if r.Method == "POST" && strings.HasSuffix(r.Path, "/labels") {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d labels were made, want the one that was lacking", made)
	}
}

// TestIgnored: GitLab leaves out without a word what an account may not change;
// that is a refusal.
func TestIgnored(t *testing.T) {
	w := newWorld(t)
	mine := must[forge.Issue](t)(w.reader.FileIssue(t.Context(), w.repo, "By a guest", ""))
	if err := w.reader.AddLabel(t.Context(), w.repo, mine.Number, "writ"); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("an author's label that isn't set: %v", err)
	}
	ok(t, w.owner.AddLabel(t.Context(), w.repo, mine.Number, "writ"))
	if err := w.reader.RemoveLabel(t.Context(), w.repo, mine.Number, "writ"); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("a label that stays: %v", err)
	}
	w.Lie("PUT", "/issues/", 1, gitlabtest.Fault{Status: 200, Body: `{"id": 9, "iid": 1, "state": "opened"}`})
	if err := w.bot.SetState(t.Context(), w.repo, mine.Number, forge.Closed); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("an issue that stays open: %v", err)
	}
}

// TestI12_Confidential: what writ records of a task is as public as the repository,
// so that a confidential issue is there only where the repository is private.
func TestI12_Confidential(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	w.SetConfidential(w.repo.ID, i.Number)
	list := func() (out []int64) {
		ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error {
			out = append(out, i.Number)
			return nil
		}))
		return out
	}
	for _, visibility := range []string{gitlabtest.Public, gitlabtest.Internal} {
		w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: visibility})
		if err := second(w.bot.Issue(t.Context(), w.repo, i.Number)); !forge.IsReason(err, forge.NotFound) || !strings.Contains(err.Error(), "confidential") {
			t.Errorf("in a %s project: %v", visibility, err)
		}
		if got := list(); len(got) > 0 {
			t.Errorf("in a %s project it is listed: %v", visibility, got)
		}
	}
	w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: gitlabtest.Private})
	if got := w.issue(t, i.Number); got.Title != i.Title || len(list()) != 1 {
		t.Errorf("in a private project it is %+v, listed %v", got, list())
	}
}

// TestI12_Locked is told.
func TestI12_Locked(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, "Enough.\n/lock"))
	if !w.issue(t, i.Number).Locked {
		t.Error("the issue isn't locked")
	}
}

// TestHistory_Sources: entries of three kinds, each with ids of its own, come in
// the order of what happened, with the same ids in every reading.
func TestHistory_Sources(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.file(t)
	ok(t, w.owner.AddLabel(ctx, w.repo, i.Number, "writ"))
	ok(t, w.owner.EditIssue(ctx, w.repo, i.Number, "Another title", i.Body))
	ok(t, w.bot.SetState(ctx, w.repo, i.Number, forge.Closed))
	ok(t, w.owner.EditIssue(ctx, w.repo, i.Number, "Another title", "another text"))
	ok(t, w.owner.SetState(ctx, w.repo, i.Number, forge.Open))
	must[forge.Comment](t)(w.reader.AddComment(ctx, w.repo, i.Number, "changed the description")) // says somebody
	w.MovedAway(w.repo.ID, i.Number, w.owner.user.ID)
	want := []forge.EventKind{forge.EventLabeled, forge.EventEdited, forge.EventClosed, forge.EventEdited, forge.EventReopened, forge.EventTransferred}
	got := must[[]forge.Event](t)(w.bot.History(ctx, w.repo, i.Number))
	var kinds []forge.EventKind
	for _, e := range got {
		kinds = append(kinds, e.Kind)
		if e.Digest != "" {
			t.Errorf("%s has the digest %q, and GitLab shows no former text", e.Kind, e.Digest)
		}
		if e.ID <= 0 || e.ID >= 1<<53 {
			t.Errorf("the id %d doesn't fit into JSON", e.ID)
		}
	}
	if !slices.Equal(kinds, want) {
		t.Fatalf("history %q, want %q", kinds, want)
	}
	if !slices.IsSortedFunc(got, func(a, b forge.Event) int { return cmp.Compare(a.ID, b.ID) }) {
		t.Errorf("ids don't grow: %+v", got)
	}
	again := must[[]forge.Event](t)(w.person(t, w.bot.user, w.bot.token).History(ctx, w.repo, i.Number))
	if !slices.Equal(got, again) {
		t.Errorf("read again: %+v, was %+v", again, got)
	}
	if comments := w.comments(t, i.Number); len(comments) != 1 {
		t.Errorf("GitLab's own notes are taken for comments: %+v", comments)
	}
}
