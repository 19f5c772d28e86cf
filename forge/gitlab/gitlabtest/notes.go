package gitlabtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge"
)

func aboutNotes(kind string) []route {
	at := aProject + "/" + kind + "s/{iid}/notes"
	with := func(f func(*call, string) (any, error)) func(*call) (any, error) {
		return func(c *call) (any, error) { return f(c, kind) }
	}
	return []route{
		{method: "GET", pattern: at, handle: with(listNotes), paged: true, params: params{"sort": text, "order_by": text, "activity_filter": text}},
		{method: "POST", pattern: at, handle: with(createNote), created: true, params: params{"body": text, "confidential": boolean, "internal": boolean, "created_at": timestamp}},
		{method: "GET", pattern: at + "/{note}", handle: with(getNote)},
		{method: "PUT", pattern: at + "/{note}", handle: with(updateNote), params: params{"body": text}},
		{method: "DELETE", pattern: at + "/{note}", handle: with(deleteNote), empty: true},
		{method: "GET", pattern: at + "/{note}/award_emoji", handle: with(listAwards), paged: true},
		{method: "POST", pattern: at + "/{note}/award_emoji", handle: with(createAward), created: true, params: params{"name": text}},
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func threadType(kind string) string {
	if kind == aMerge {
		return "MergeRequest"
	}
	return "Issue"
}

func (c *call) note(p *project, i *item, n *note) any {
	out := map[string]any{
		"id": n.ID, "type": nil, "body": n.Body, "attachment": nil, "author": c.basic(n.Author), "created_at": stamp(n.Created),
		"updated_at": stamp(n.Updated), "system": n.System, "noteable_id": i.ID, "noteable_type": threadType(i.Kind),
		"project_id": p.ID, "resolvable": false, "confidential": n.Internal, "internal": n.Internal, "imported": false,
		"noteable_iid": i.IID, "commands_changes": map[string]any{},
	}
	if n.Position != nil {
		out["type"], out["position"], out["resolvable"], out["resolved"] = "DiffNote", json.RawMessage(n.Position), true, n.Resolved
	}
	return out
}

// Position is a place as GitLab's API is told of it.
func Position(at forge.ReviewPlace) map[string]any {
	out := map[string]any{
		"position_type": "text", "base_sha": at.Commit, "start_sha": at.Commit, "head_sha": at.Commit, "old_path": at.Path, "new_path": at.Path,
	}
	line := "new_line"
	if at.Old {
		line = "old_line"
	}
	if out[line] = at.End; at.End == 0 {
		out["position_type"] = "file"
		delete(out, line)
	}
	if at.Start != at.End {
		out["line_range"] = map[string]any{"start": map[string]any{line: at.Start}, "end": map[string]any{line: at.End}}
	}
	return out
}

// Review writes a note at a place of a merge request, and returns its id; without a place
// it is one of the conversation.
func (s *Server) Review(projectID, user, iid int64, at *forge.ReviewPlace, body string) (id int64) {
	var position []byte
	if at != nil {
		var err error
		position, err = json.Marshal(Position(*at))
		s.must(err)
	}
	s.as(user, func(c *call) {
		p := s.data.Projects[projectID]
		i, now := p.find(aMerge, iid), s.tick()
		n := &note{ID: s.data.id(), Body: body, Author: user, Created: now, Updated: now, Position: position}
		i.Notes, i.Updated, id = append(i.Notes, n), now, n.ID
		s.tellNote(c, p, i, n, "create")
	})
	return id
}

// EditReview changes the text of a note on a merge request.
func (s *Server) EditReview(projectID, user, iid, noteID int64, body string) {
	s.as(user, func(c *call) {
		p := s.data.Projects[projectID]
		i := p.find(aMerge, iid)
		n := i.Notes[slices.IndexFunc(i.Notes, func(n *note) bool { return n.ID == noteID })]
		n.Body, n.Updated = body, s.tick()
		n.Edited, n.EditedBy = n.Updated, user
		s.tellNote(c, p, i, n, "update")
	})
}

// Resolve says that what a note on a merge request asks for is settled. It counts as an
// activity of the note.
func (s *Server) Resolve(projectID, user, iid, noteID int64) {
	s.as(user, func(*call) {
		i := s.data.Projects[projectID].find(aMerge, iid)
		n := i.Notes[slices.IndexFunc(i.Notes, func(n *note) bool { return n.ID == noteID })]
		n.Resolved, n.Updated = true, s.tick()
	})
}

func listNotes(c *call, kind string) (any, error) {
	p, i, err := c.item(kind)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(i.Notes)
	if f, _ := c.word("activity_filter"); f == "only_comments" {
		all = slices.DeleteFunc(all, func(n *note) bool { return n.System })
	}
	if by, _ := c.word("order_by"); by == "updated_at" {
		slices.SortStableFunc(all, func(a, b *note) int { return a.Updated.Compare(b.Updated) })
	}
	if way, _ := c.word("sort"); way != "asc" {
		slices.Reverse(all)
	}
	out := page(c, all, func(n *note) any {
		if n.Internal && c.level(p, c.user.ID) < Planner {
			return nil
		}
		return c.note(p, i, n)
	})
	// What may not be seen makes a page shorter, and is counted all the same.
	return slices.DeleteFunc(out.([]any), func(v any) bool { return v == nil }), nil
}

func (c *call) findNote(kind string) (*project, *item, *note, error) {
	p, i, err := c.item(kind)
	if err != nil {
		return nil, nil, nil, err
	}
	id := c.path("note")
	at := slices.IndexFunc(i.Notes, func(n *note) bool { return n.ID == id })
	if at < 0 || i.Notes[at].Internal && c.level(p, c.user.ID) < Planner {
		return nil, nil, nil, says(http.StatusNotFound, "404 Note Not Found")
	}
	return p, i, i.Notes[at], nil
}

func getNote(c *call, kind string) (any, error) {
	p, i, n, err := c.findNote(kind)
	if err != nil {
		return nil, err
	}
	return c.note(p, i, n), nil
}

// longestNote is in characters.
const longestNote = 1_000_000

func createNote(c *call, kind string) (any, error) {
	p, i, err := c.item(kind)
	if err != nil {
		return nil, err
	}
	body, ok := c.word("body")
	switch {
	case !ok:
		return nil, errs("body is missing")
	case i.Locked && c.level(p, c.user.ID) < Guest:
		return nil, errForbidden
	case len(body) > longestNote:
		return nil, &failure{http.StatusBadRequest, map[string]any{"message": "400 Bad request - Note is too long"}}
	}
	before := i.version()
	left, acts := quickActions(body)
	c.execute(p, i, acts)
	if i.version() != before {
		c.s.tellItem(c, p, i, i.action(before), before)
	}
	if strings.TrimSpace(left) == "" {
		if len(acts) > 0 {
			c.status = http.StatusAccepted
			return map[string]any{"commands_changes": map[string]any{}, "summary": []string{"Applied quick actions."}}, nil
		}
		return nil, &failure{http.StatusBadRequest, map[string]any{"message": "400 Bad request - Note can't be blank"}}
	}
	now := c.s.tick()
	n := &note{ID: c.d.id(), Body: left, Author: c.user.ID, Internal: c.flag("internal"), Created: now, Updated: now}
	i.Notes = append(i.Notes, n)
	i.Updated = now
	c.s.tellNote(c, p, i, n, "create")
	return c.note(p, i, n), nil
}

func updateNote(c *call, kind string) (any, error) {
	p, i, n, err := c.findNote(kind)
	if err != nil {
		return nil, err
	}
	body, _ := c.word("body")
	switch {
	case n.System || n.Author != c.user.ID && c.level(p, c.user.ID) < Maintainer:
		return nil, errForbidden
	case strings.TrimSpace(body) == "":
		return nil, errs("body is empty")
	}
	left, acts := quickActions(body)
	c.execute(p, i, acts)
	if n.Body == left {
		return c.note(p, i, n), nil
	}
	n.Body, n.Updated = left, c.s.tick()
	n.Edited, n.EditedBy = n.Updated, c.user.ID
	i.Updated = n.Updated
	if left == "" { // nothing but commands
		i.Notes = slices.DeleteFunc(i.Notes, func(o *note) bool { return o == n })
	}
	c.s.tellNote(c, p, i, n, "update")
	return c.note(p, i, n), nil
}

func deleteNote(c *call, kind string) (any, error) {
	p, i, n, err := c.findNote(kind)
	if err != nil {
		return nil, err
	}
	if n.System || n.Author != c.user.ID && c.level(p, c.user.ID) < Maintainer {
		return nil, errForbidden
	}
	i.Notes = slices.DeleteFunc(slices.Clone(i.Notes), func(o *note) bool { return o == n })
	return nil, nil
}

func showAward(c *call, id int64, kind string) func(*award) any {
	return func(a *award) any {
		return map[string]any{
			"id": a.ID, "name": a.Name, "user": c.basic(a.User), "created_at": stamp(a.At), "updated_at": stamp(a.At),
			"awardable_id": id, "awardable_type": kind, "url": nil,
		}
	}
}

func listAwards(c *call, kind string) (any, error) {
	_, _, n, err := c.findNote(kind)
	if err != nil {
		return nil, err
	}
	return page(c, n.Awards, showAward(c, n.ID, "Note")), nil
}

// emoji are some that GitLab has; it refuses others.
var emoji = []string{"eyes", "rocket", "thumbsup", "thumbsdown", "confused", "tada", "heart", "white_check_mark"}

func createAward(c *call, kind string) (any, error) {
	_, _, n, err := c.findNote(kind)
	if err != nil {
		return nil, err
	}
	a, err := c.award(&n.Awards)
	if err != nil {
		return nil, err
	}
	n.Updated = a.At // GitLab's bump_updated_at, which the issue doesn't see
	return showAward(c, n.ID, "Note")(a), nil
}

func (c *call) award(list *[]*award) (*award, error) {
	name, _ := c.word("name")
	if !slices.Contains(emoji, name) {
		return nil, says(http.StatusNotFound, "404 Award Emoji Name is not a valid emoji name Not Found")
	}
	if slices.ContainsFunc(*list, func(a *award) bool { return a.Name == name && a.User == c.user.ID }) {
		return nil, says(http.StatusNotFound, "404 Award Emoji Name has already been taken Not Found")
	}
	a := &award{ID: c.d.id(), Name: name, User: c.user.ID, At: c.s.tick()}
	*list = append(*list, a)
	return a, nil
}

// IssueAwards are the names of the emoji on an issue, by account.
func (s *Server) IssueAwards(projectID, iid, user int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, i := range s.data.Projects[projectID].Items {
		for _, a := range i.Awards {
			if i.IID == iid && i.Kind == anIssue && a.User == user {
				out = append(out, a.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Awards are the names of the emoji on a note, by account.
func (s *Server) Awards(projectID, noteID, user int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, i := range s.data.Projects[projectID].Items {
		for _, n := range i.Notes {
			for _, a := range n.Awards {
				if n.ID == noteID && a.User == user {
					out = append(out, a.Name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
