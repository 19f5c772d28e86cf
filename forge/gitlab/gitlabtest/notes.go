package gitlabtest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func threadType(kind string) string {
	if kind == aMerge {
		return "MergeRequest"
	}
	return "Issue"
}

func (c *call) note(p *project, i *item, n *note) any {
	return map[string]any{
		"id": n.ID, "type": nil, "body": n.Body, "attachment": nil, "author": c.basic(n.Author), "created_at": stamp(n.Created),
		"updated_at": stamp(n.Updated), "system": n.System, "noteable_id": i.ID, "noteable_type": threadType(i.Kind),
		"project_id": p.ID, "resolvable": false, "confidential": n.Internal, "internal": n.Internal, "imported": false,
		"noteable_iid": i.IID, "commands_changes": map[string]any{},
	}
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

func listIssueAwards(c *call) (any, error) {
	_, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	return page(c, i.Awards, showAward(c, i.ID, "Issue")), nil
}

// createIssueAward leaves the issue as it is: only notes have bump_updated_at.
func createIssueAward(c *call) (any, error) {
	_, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	a, err := c.award(&i.Awards)
	if err != nil {
		return nil, err
	}
	return showAward(c, i.ID, "Issue")(a), nil
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
