package gitlab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Comments is forge.Comments.
func (h *Host) Comments(ctx context.Context, r forge.Repo, number int64) ([]forge.Comment, error) {
	w := reading("list comments of %s#%d", r, number)
	_, out, err := h.readThread(ctx, w, r, threadOf(number))
	if err != nil {
		return nil, err
	}
	return out, h.edits(ctx, w.op, out, commands)
}

// commands are the texts that begin with a slash.
func commands(c forge.Comment) bool { return strings.HasPrefix(c.Body, "/") }

// readThread reads what people wrote in a thread for everybody who may read it: the notes,
// and each as a comment. Those that GitLab itself wrote are left out, and internal ones:
// they are for fewer people than what writ records.
func (h *Host) readThread(ctx context.Context, w how, r forge.Repo, at thread) (notes []*gitlab.Note, said []forge.Comment, err error) {
	all, err := h.listNotes(ctx, w, r, at)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range all {
		if n.System || n.Internal || n.Confidential {
			continue
		}
		c, err := h.comment(ctx, r, at, n)
		if err != nil {
			return nil, nil, err
		}
		notes, said = append(notes, n), append(said, c)
	}
	return notes, said, nil
}

// listNotes reads a thread, oldest first.
func (h *Host) listNotes(ctx context.Context, w how, r forge.Repo, at thread) ([]*gitlab.Note, error) {
	return collect(w, func(o gitlab.ListOptions) ([]*gitlab.Note, *gitlab.Response, error) {
		if at.merge {
			return h.api.Notes.ListMergeRequestNotes(int(r.ID), at.iid, &gitlab.ListMergeRequestNotesOptions{
				ListOptions: o, OrderBy: ptr(byCreation), Sort: ptr(ascending),
			}, w.in(ctx))
		}
		return h.api.Notes.ListIssueNotes(int(r.ID), at.iid, &gitlab.ListIssueNotesOptions{
			ListOptions: o, OrderBy: ptr(byCreation), Sort: ptr(ascending),
		}, w.in(ctx))
	})
}

// comment is a note in our words; our own text is as it was before [quiet].
func (h *Host) comment(ctx context.Context, r forge.Repo, at thread, n *gitlab.Note) (forge.Comment, error) {
	if n.ID <= 0 || n.CreatedAt == nil || n.UpdatedAt == nil {
		return forge.Comment{}, reading("read the comments of %s", r).odd("a comment without id or time")
	}
	h.remember(int64(n.ID), at)
	out := forge.Comment{ID: int64(n.ID), Body: n.Body, CreatedAt: *n.CreatedAt, UpdatedAt: *n.UpdatedAt, URL: h.threadURL(r, at) + fmt.Sprintf("#note_%d", n.ID)}
	var err error
	if out.Author, err = h.user(ctx, n.Author.ID, n.Author.Username); err != nil {
		return out, err
	}
	if told := loud(n.Body); told != n.Body {
		self, err := h.Self(ctx)
		if err != nil {
			return out, err
		}
		if self.ID == out.Author.ID {
			out.Body = told
		}
	}
	return out, nil
}

func (h *Host) threadURL(r forge.Repo, at thread) string {
	r = h.named(r)
	kind := "issues"
	if at.merge {
		kind = "merge_requests"
	}
	u := *h.base
	u.Path += fmt.Sprintf("%s/%s/-/%s/%d", r.Owner, r.Name, kind, at.iid)
	return u.String()
}

// AddComment is forge.Comments.
func (h *Host) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (forge.Comment, error) {
	at, w := threadOf(number), creating("comment on %s#%d", r, number)
	body = quiet(body)
	var n *gitlab.Note
	var err error
	if at.merge {
		n, _, err = h.api.Notes.CreateMergeRequestNote(int(r.ID), at.iid, &gitlab.CreateMergeRequestNoteOptions{Body: &body}, w.in(ctx))
	} else {
		n, _, err = h.api.Notes.CreateIssueNote(int(r.ID), at.iid, &gitlab.CreateIssueNoteOptions{Body: &body}, w.in(ctx))
	}
	if err != nil {
		return forge.Comment{}, w.err(err)
	}
	if n.ID == 0 {
		return forge.Comment{}, w.refuse(forge.Invalid, "GitLab took the text for commands")
	}
	return h.comment(ctx, r, at, n)
}

// EditComment is forge.Comments.
func (h *Host) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	w := editing("edit comment %d in %s", id, r)
	at, err := h.thread(ctx, w, r, id)
	if err != nil {
		return err
	}
	body = quiet(body)
	if at.merge {
		_, _, err = h.api.Notes.UpdateMergeRequestNote(int(r.ID), at.iid, int(id), &gitlab.UpdateMergeRequestNoteOptions{Body: &body}, w.in(ctx))
	} else {
		_, _, err = h.api.Notes.UpdateIssueNote(int(r.ID), at.iid, int(id), &gitlab.UpdateIssueNoteOptions{Body: &body}, w.in(ctx))
	}
	return w.err(err)
}

// DeleteComment is forge.Comments.
func (h *Host) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	w := editing("delete comment %d in %s", id, r)
	at, err := h.thread(ctx, w, r, id)
	if err != nil {
		return err
	}
	if at.merge {
		_, err = h.api.Notes.DeleteMergeRequestNote(int(r.ID), at.iid, int(id), w.in(ctx))
	} else {
		_, err = h.api.Notes.DeleteIssueNote(int(r.ID), at.iid, int(id), w.in(ctx))
	}
	return w.err(err)
}

// emoji are GitLab's names of the reactions.
var emoji = map[forge.Reaction]string{
	forge.ReactionSeen: "eyes", forge.ReactionDone: "rocket", forge.ReactionRefused: "thumbsdown", forge.ReactionConfused: "confused",
}

// React is forge.Comments. GitLab answers a second time with a 404 that says so.
func (h *Host) React(ctx context.Context, r forge.Repo, comment int64, with forge.Reaction) error {
	w := editing("react to comment %d in %s", comment, r)
	o, err := award(w, with)
	if err != nil {
		return err
	}
	at, err := h.thread(ctx, w, r, comment)
	if err != nil {
		return err
	}
	if at.merge {
		_, _, err = h.api.AwardEmoji.CreateMergeRequestAwardEmojiOnNote(int(r.ID), at.iid, int(comment), o, w.in(ctx))
	} else {
		_, _, err = h.api.AwardEmoji.CreateIssuesAwardEmojiOnNote(int(r.ID), at.iid, int(comment), o, w.in(ctx))
	}
	return w.taken(err)
}

// ReactToIssue is forge.Comments.
func (h *Host) ReactToIssue(ctx context.Context, r forge.Repo, number int64, with forge.Reaction) error {
	w := editing("react to %s#%d", r, number)
	o, err := award(w, with)
	if err != nil {
		return err
	}
	_, _, err = h.api.AwardEmoji.CreateIssueAwardEmoji(int(r.ID), int(number), o, w.in(ctx))
	return w.taken(err)
}

func award(w how, with forge.Reaction) (*gitlab.CreateAwardEmojiOptions, error) {
	name, known := emoji[with]
	if !known {
		return nil, w.refuse(forge.Invalid, "there is no reaction %q", with)
	}
	return &gitlab.CreateAwardEmojiOptions{Name: name}, nil
}

// taken is the answer to a reaction: one that is there already is no error.
func (w how) taken(err error) error {
	if answered(err, http.StatusNotFound, "already been taken") {
		return nil
	}
	return w.err(err)
}

// remember keeps where a comment is.
func (h *Host) remember(id int64, at thread) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.notes) >= maxKnown {
		clear(h.notes)
	}
	h.notes[id] = at
}

// threadPath is the end of a note's address, of the issue or merge request it is on.
var threadPath = lazyregexp.New(`/-/(issues|work_items|merge_requests)/([0-9]+)#note_[0-9]+$`)

const noteQuery = `query($id: NoteID!) { note(id: $id) { id url project { id } } }`

// thread finds where a comment is. GitLab's REST API asks for it in every
// request about a comment; GraphQL knows it by the comment's id.
func (h *Host) thread(ctx context.Context, w how, r forge.Repo, id int64) (thread, error) {
	if err := ctx.Err(); err != nil {
		return thread{}, reading("%s", w.op).err(err)
	}
	h.mu.Lock()
	at, known := h.notes[id]
	h.mu.Unlock()
	if known {
		return at, nil
	}
	var said struct {
		Data struct {
			Note *struct {
				URL     string              `json:"url"`
				Project struct{ ID string } `json:"project"`
			} `json:"note"`
		} `json:"data"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if err := h.graph(ctx, w.op, noteQuery, map[string]any{"id": fmt.Sprintf("gid://gitlab/Note/%d", id)}, &said); err != nil {
		return at, err
	}
	gone := reading("%s", w.op)
	n := said.Data.Note
	switch {
	case len(said.Errors) > 0:
		return at, gone.refuse(forge.Invalid, "GraphQL: %s", said.Errors[0].Message)
	case n == nil, n.Project.ID != fmt.Sprintf("gid://gitlab/Project/%d", r.ID):
		return at, gone.refuse(forge.NotFound, "there is no such comment")
	}
	m := threadPath().FindStringSubmatch(n.URL)
	if m == nil {
		return at, gone.refuse(forge.NotFound, "the comment is on no issue and no merge request")
	}
	iid, err := strconv.Atoi(m[2])
	if err != nil {
		return at, gone.err(err)
	}
	at = thread{m[1] == "merge_requests", iid}
	h.remember(id, at)
	return at, nil
}

// graph asks one GraphQL query.
func (h *Host) graph(ctx context.Context, op, query string, variables map[string]any, into any) error {
	w := reading("%s", op)
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return w.err(err)
	}
	req, err := http.NewRequestWithContext(transport.With(ctx, w.call), http.MethodPost, h.base.String()+"api/graphql", bytes.NewReader(body))
	if err != nil {
		return w.err(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Private-Token", h.cfg.Token)
	res, err := h.web.Do(req)
	if err != nil {
		return w.err(err)
	}
	defer func() { _ = res.Body.Close() }() // it is in memory
	return w.err(json.NewDecoder(res.Body).Decode(into))
}
