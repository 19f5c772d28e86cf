package gitlabtest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

func aboutIssues() []route {
	at := aProject + "/issues"
	return []route{
		{method: "GET", pattern: at, handle: listIssues, paged: true, params: params{
			"state": text, "labels": list, "order_by": text, "sort": text, "updated_after": timestamp, "updated_before": timestamp,
			"created_after": timestamp, "created_before": timestamp, "scope": text, "confidential": boolean, "issue_type": text,
			"author_id": integer, "search": text, "with_labels_details": boolean, "iids[]": integer,
		}},
		{method: "POST", pattern: at, handle: createIssue, created: true, params: params{
			"title": text, "description": text, "labels": list, "confidential": boolean, "issue_type": text, "created_at": timestamp,
		}},
		{method: "GET", pattern: at + "/{iid}", handle: getIssue},
		{method: "PUT", pattern: at + "/{iid}", handle: updateIssue, params: params{
			"title": text, "description": text, "labels": list, "add_labels": list, "remove_labels": list, "state_event": text,
			"discussion_locked": boolean, "confidential": boolean,
		}},
		{method: "GET", pattern: at + "/{iid}/award_emoji", handle: listIssueAwards, paged: true},
		{method: "POST", pattern: at + "/{iid}/award_emoji", handle: createIssueAward, created: true, params: params{"name": text}},
		{method: "GET", pattern: at + "/{iid}/resource_label_events", handle: listLabelEvents, paged: true},
		{method: "GET", pattern: at + "/{iid}/resource_state_events", handle: listStateEvents, paged: true},
	}
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

func listIssueAwards(c *call) (any, error) {
	_, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	return page(c, i.Awards, showAward(c, i.ID, "Issue")), nil
}

// newItem adds an issue or merge request. The lock is held.
func (s *Server) newItem(p *project, kind string, author int64, title string) *item {
	p.LastIID[kind]++
	now := s.tick()
	i := &item{
		Kind: kind, ID: s.data.id(), IID: p.LastIID[kind], Title: title,
		State: "opened", Author: author, Created: now, Updated: now,
	}
	p.Items = append(p.Items, i)
	return i
}

func (c *call) url(p *project, i *item) string {
	return c.s.URL + "/" + p.path() + "/-/" + i.Kind + "s/" + itoa(i.IID)
}

// common is what issues and merge requests show alike.
func (c *call) common(p *project, i *item) map[string]any {
	labels := i.Labels
	if labels == nil {
		labels = []string{}
	}
	var closed any
	if i.ClosedBy != 0 && i.State == "closed" {
		closed = c.basic(i.ClosedBy)
	}
	return map[string]any{
		"id": i.ID, "iid": i.IID, "project_id": p.ID, "title": i.Title, "description": i.Description, "state": i.State,
		"created_at": stamp(i.Created), "updated_at": stamp(i.Updated), "closed_at": stamp(i.Closed), "closed_by": closed,
		"labels": labels, "milestone": nil, "assignees": []any{}, "author": c.basic(i.Author), "assignee": nil,
		"user_notes_count": len(i.Notes), "upvotes": 0, "downvotes": 0, "discussion_locked": i.Locked, "web_url": c.url(p, i),
		"references":             map[string]any{"short": i.reference(), "relative": i.reference(), "full": p.path() + i.reference()},
		"task_completion_status": map[string]any{"count": 0, "completed_count": 0},
		"time_stats":             map[string]any{"time_estimate": 0, "total_time_spent": 0, "human_time_estimate": nil, "human_total_time_spent": nil},
	}
}

func (i *item) reference() string {
	if i.Kind == aMerge {
		return "!" + itoa(i.IID)
	}
	return "#" + itoa(i.IID)
}

func (c *call) issue(p *project, i *item) any {
	out := c.common(p, i)
	out["confidential"], out["due_date"], out["issue_type"], out["type"] = i.Confidential, nil, i.issueType(), strings.ToUpper(i.issueType())
	out["merge_requests_count"], out["has_tasks"], out["blocking_issues_count"] = 0, false, 0
	out["moved_to_id"] = nil
	if i.MovedTo != 0 {
		out["moved_to_id"] = i.MovedTo
	}
	return out
}

func (i *item) issueType() string {
	if i.Type == "" {
		return "issue"
	}
	return i.Type
}

func getIssue(c *call) (any, error) {
	p, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	return c.issue(p, i), nil
}

func listIssues(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	if p.NoIssues {
		return nil, errForbidden
	}
	after, _ := c.params["updated_after"].(time.Time)
	before, has := c.params["updated_before"].(time.Time)
	var out []*item
	for _, i := range p.Items {
		wanted := i.Kind == anIssue && c.sees(p, i) && !i.Updated.Before(after) && (!has || !i.Updated.After(before))
		for _, l := range c.words("labels") {
			wanted = wanted && slices.Contains(i.Labels, l)
		}
		if kind, ok := c.word("issue_type"); ok {
			wanted = wanted && kind == i.issueType()
		}
		if conf, ok := c.params["confidential"].(bool); ok {
			wanted = wanted && i.Confidential == conf
		}
		if wanted && c.inState(i) {
			out = append(out, i)
		}
	}
	if err := c.sort(out); err != nil {
		return nil, err
	}
	return page(c, out, func(i *item) any { return c.issue(p, i) }), nil
}

// inState is the filter by state: opened, closed, merged, all or none.
func (c *call) inState(i *item) bool {
	s, ok := c.word("state")
	return !ok || s == "all" || s == i.State
}

func (c *call) sort(all []*item) error {
	by, _ := c.word("order_by")
	way, _ := c.word("sort")
	if !slices.Contains([]string{"", "created_at", "updated_at"}, by) {
		return errs("order_by does not have a valid value")
	}
	if !slices.Contains([]string{"", "asc", "desc"}, way) {
		return errs("sort does not have a valid value")
	}
	slices.SortStableFunc(all, func(a, b *item) int {
		n := a.Created.Compare(b.Created)
		if by == "updated_at" {
			n = a.Updated.Compare(b.Updated)
		}
		n = cmp.Or(n, cmp.Compare(a.ID, b.ID))
		if way != "asc" {
			n = -n
		}
		return n
	})
	return nil
}

func createIssue(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	title, _ := c.word("title")
	if strings.TrimSpace(title) == "" {
		return nil, errs("title is missing")
	}
	about, _ := c.word("description")
	i := c.s.newItem(p, anIssue, c.user.ID, strings.TrimSpace(title))
	i.Confidential = c.flag("confidential")
	i.Type, _ = c.word("issue_type")
	before := i.version()
	if c.labels(p, i) {
		c.setLabels(p, i, c.words("labels"), nil)
	}
	left, acts := quickActions(about)
	i.Description = left
	c.execute(p, i, acts)
	c.s.tellItem(c, p, i, "open", before)
	return c.issue(p, i), nil
}

func updateIssue(c *call) (any, error) {
	p, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	if !c.edits(p, i) {
		return nil, errForbidden
	}
	if err := c.update(p, i); err != nil {
		return nil, err
	}
	return c.issue(p, i), nil
}

// update changes what both kinds have. What somebody may not set is left as it
// is, without a word, as GitLab does.
func (c *call) update(p *project, i *item) error {
	if len(c.params) == 0 {
		return errs("at least one parameter must be provided")
	}
	event, _ := c.word("state_event")
	if !slices.Contains([]string{"", "close", "reopen"}, event) {
		return errs("state_event does not have a valid value")
	}
	before := i.version()
	if title, ok := c.word("title"); ok {
		if strings.TrimSpace(title) == "" {
			return errs("title is empty")
		}
		c.setTitle(i, strings.TrimSpace(title))
	}
	if about, ok := c.word("description"); ok {
		left, acts := quickActions(about)
		c.setDescription(i, left)
		c.execute(p, i, acts)
	}
	if c.labels(p, i) {
		if _, ok := c.params["labels"]; ok {
			c.setLabels(p, i, c.words("labels"), slices.Clone(i.Labels))
		}
		c.setLabels(p, i, c.words("add_labels"), c.words("remove_labels"))
		if locked, ok := c.params["discussion_locked"].(bool); ok && i.Locked != locked {
			i.Locked, i.Updated = locked, c.s.tick()
		}
		if conf, ok := c.params["confidential"].(bool); ok && i.Confidential != conf {
			i.Confidential, i.Updated = conf, c.s.tick()
		}
	}
	if event != "" {
		c.setState(p, i, event)
	}
	if i.version() != before {
		c.s.tellItem(c, p, i, i.action(before), before)
	}
	return nil
}

func (c *call) setTitle(i *item, title string) {
	if i.Title == title {
		return
	}
	old := i.Title
	i.Title, i.Updated = title, c.s.tick()
	c.systemNote(i, "changed title from **{-"+old+"-}** to **{+"+title+"+}**")
}

func (c *call) setDescription(i *item, about string) {
	if i.Description == about {
		return
	}
	i.Description, i.Updated = about, c.s.tick()
	i.Edited, i.EditedBy = i.Updated, c.user.ID
	c.systemNote(i, "changed the description")
}

func (c *call) systemNote(i *item, body string) {
	i.Notes = append(i.Notes, &note{ID: c.d.id(), Body: body, Author: c.user.ID, System: true, Created: i.Updated, Updated: i.Updated})
}

// setLabels adds and removes, makes labels that the project lacks if the caller
// may, and writes an event for each that changes anything.
func (c *call) setLabels(p *project, i *item, add, remove []string) {
	for _, name := range remove {
		l := c.label(p, name)
		if at := slices.Index(i.Labels, name); at >= 0 && l != nil && !slices.Contains(add, name) {
			i.Labels = slices.Delete(slices.Clone(i.Labels), at, at+1)
			c.labelEvent(i, l, "remove")
		}
	}
	for _, name := range add {
		name = strings.TrimSpace(name)
		l := c.label(p, name)
		if l == nil && c.level(p, c.user.ID) >= Planner {
			l = &label{ID: c.d.id(), Name: name, Color: "#6699cc", Created: c.s.tick()}
			p.Labels = append(p.Labels, l)
		}
		if l != nil && !slices.Contains(i.Labels, name) {
			i.Labels = append(slices.Clone(i.Labels), name)
			slices.Sort(i.Labels)
			c.labelEvent(i, l, "add")
		}
	}
}

func (c *call) labelEvent(i *item, l *label, action string) {
	i.Updated = c.s.tick()
	i.LabelEvents = append(i.LabelEvents, &labelEvent{ID: c.d.id(), User: c.user.ID, At: i.Updated, Action: action, Label: *l})
}

// setState closes or reopens; what is so already stays without an event.
func (c *call) setState(_ *project, i *item, event string) {
	to := map[string]string{"close": "closed", "reopen": "opened"}[event]
	if i.State == to || i.State == "merged" {
		return
	}
	i.State, i.Updated = to, c.s.tick()
	said := to
	if event == "reopen" {
		said, i.Closed, i.ClosedBy = "reopened", time.Time{}, 0
	} else {
		i.Closed, i.ClosedBy = i.Updated, c.user.ID
	}
	i.StateEvents = append(i.StateEvents, &stateEvent{ID: c.d.id(), User: c.user.ID, At: i.Updated, State: said})
}

func listLabelEvents(c *call) (any, error) {
	_, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	return page(c, i.LabelEvents, func(e *labelEvent) any {
		return map[string]any{
			"id": e.ID, "user": c.basic(e.User), "created_at": stamp(e.At), "resource_type": "Issue", "resource_id": i.ID, "action": e.Action,
			"label": map[string]any{"id": e.Label.ID, "name": e.Label.Name, "color": e.Label.Color, "description": e.Label.Description},
		}
	}), nil
}

func listStateEvents(c *call) (any, error) {
	_, i, err := c.item(anIssue)
	if err != nil {
		return nil, err
	}
	return page(c, i.StateEvents, func(e *stateEvent) any {
		return map[string]any{
			"id": e.ID, "user": c.basic(e.User), "created_at": stamp(e.At), "resource_type": "Issue", "resource_id": i.ID,
			"source_commit": nil, "source_merge_request_id": nil, "state": e.State,
		}
	}), nil
}
