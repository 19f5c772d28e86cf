package gitlab

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestI3_ReactionIsNoEdit: GitLab's updated_at of a note moves with every reaction,
// writ's own too. Only an edit of the text makes a command an edited one, before and
// after reactions, and who asks again about what he knows asks nothing.
func TestI3_ReactionIsNoEdit(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	w := newWorld(t, func(o *gitlabtest.Options) { o.Now = func() time.Time { return now } })
	ctx := t.Context()
	i := w.file(t)
	said := must[forge.Comment](t)(w.owner.AddComment(ctx, w.repo, i.Number, "/writ run"))
	edited := must[forge.Comment](t)(w.owner.AddComment(ctx, w.repo, i.Number, "/writ stop"))
	at := func(id int64) forge.Comment {
		t.Helper()
		for _, c := range w.comments(t, i.Number) {
			if c.ID == id {
				return c
			}
		}
		t.Fatal("it is gone")
		return forge.Comment{}
	}
	now = now.Add(time.Minute)
	for _, by := range []*person{w.bot, w.reader} {
		ok(t, by.React(ctx, w.repo, said.ID, forge.ReactionDone))
		if c := at(said.ID); !c.UpdatedAt.Equal(c.CreatedAt) {
			t.Errorf("after a reaction it was edited at %v, made at %v", c.UpdatedAt, c.CreatedAt)
		}
	}
	edit := func(id int64, body string) {
		t.Helper()
		ok(t, second(w.owner.host.ask(ctx, editing("edit"), http.MethodPut, fmt.Sprintf("%s/notes/%d", issuePath(w.repo, i.Number), id), map[string]string{"body": body}, new(any))))
	}
	edit(edited.ID, "/writ stop it")
	when := at(edited.ID).UpdatedAt
	if when.Before(now) {
		t.Errorf("edited at %v, it says %v", now, when)
	}
	now = now.Add(time.Minute)
	ok(t, w.bot.React(ctx, w.repo, edited.ID, forge.ReactionDone))
	if c := at(edited.ID); c.UpdatedAt.Before(when) || c.UpdatedAt.After(when.Add(time.Second)) {
		t.Errorf("edited at %v, and after a reaction it says %v", when, c.UpdatedAt)
	}
	before := len(w.Requests())
	at(said.ID)
	if n := len(w.Requests()) - before; n != 1 {
		t.Errorf("%d requests for a list of known comments", n)
	}
	edit(said.ID, "/writ run now")
	if c := at(said.ID); c.UpdatedAt.Before(now) {
		t.Errorf("edited at %v, after reactions, it says %v", now, c.UpdatedAt)
	}
}

// TestI3_EditsInDoubt: where GitLab doesn't say whether a text was edited, it was; where
// it can't be asked, nothing is known of the comments.
func TestI3_EditsInDoubt(t *testing.T) {
	const graph = "/api/graphql"
	for name, c := range map[string]struct {
		fault  gitlabtest.Fault
		reason forge.Reason
	}{
		"no such field": {gitlabtest.Fault{Status: http.StatusOK, Body: `{"errors": [{"message": "Field 'lastEditedAt' doesn't exist on type 'Note'"}]}`}, ""},
		"no such note":  {gitlabtest.Fault{Status: http.StatusOK, Body: `{"data": {"nID": null}}`}, ""},
		"without times": {gitlabtest.Fault{Status: http.StatusOK, Body: `{"data": {"nID": {"lastEditedAt": null, "lastEditedBy": null, "updatedAt": null}}}`}, ""},
		"a replica that lags": {gitlabtest.Fault{Status: http.StatusOK,
			Body: `{"data": {"nID": {"lastEditedAt": "2020-01-01T00:00:00Z", "lastEditedBy": null, "updatedAt": "2020-01-01T00:00:00Z"}}}`}, ""},
		"down": {gitlabtest.Fault{Status: http.StatusBadGateway}, forge.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			i := w.file(t)
			said := must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, "/writ run"))
			ok(t, w.bot.React(t.Context(), w.repo, said.ID, forge.ReactionDone))
			c.fault.Body = strings.ReplaceAll(c.fault.Body, "nID", noteAlias(said.ID))
			w.Lie(http.MethodPost, graph, 1, c.fault)
			list, err := w.bot.Comments(t.Context(), w.repo, i.Number)
			if c.reason != "" {
				if !forge.IsReason(err, c.reason) {
					t.Errorf("it says %v", err)
				}
				return
			}
			if ok(t, err); len(list) != 1 || list[0].UpdatedAt.Equal(list[0].CreatedAt) {
				t.Errorf("in doubt it wasn't edited: %+v", list)
			}
		})
	}
}

// TestI3_ManyReactions: however many commands bear reactions, a query stays within what
// GitLab takes, and other texts are not asked about.
func TestI3_ManyReactions(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	for n := range 3 * editsAtOnce {
		c := must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, fmt.Sprintf("/writ retry %d", n)))
		ok(t, w.bot.React(t.Context(), w.repo, c.ID, forge.ReactionDone))
	}
	talk := must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, "thank you"))
	ok(t, w.bot.React(t.Context(), w.repo, talk.ID, forge.ReactionSeen))
	w.issue(t, i.Number) // from here on the author is known
	before := len(w.Requests())
	for _, c := range w.comments(t, i.Number) {
		if c.ID != talk.ID && !c.UpdatedAt.Equal(c.CreatedAt) {
			t.Errorf("%q was edited", c.Body)
		}
	}
	if n := len(w.Requests()) - before; n != 1+3 {
		t.Errorf("%d requests", n)
	}
}
