package gitlabtest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func aboutPeople() []route {
	return []route{
		{method: "GET", pattern: "/user", handle: getSelf},
		{method: "GET", pattern: "/users/{user}", handle: getUser},
		{method: "GET", pattern: "/personal_access_tokens/self", handle: getToken},
		{method: "GET", pattern: aProject, handle: getProject, params: params{"license": boolean, "statistics": boolean, "with_custom_attributes": boolean}},
		{method: "GET", pattern: aProject + "/members/all/{user}", handle: getMember},
		{method: "GET", pattern: aProject + "/labels", handle: listLabels, paged: true, params: params{"with_counts": boolean, "include_ancestor_groups": boolean, "search": text}},
		{method: "POST", pattern: aProject + "/labels", handle: createLabel, created: true, params: params{"name": text, "color": text, "description": text, "priority": integer}},
		{method: "GET", pattern: aProject + "/repository/branches/{branch}", handle: getBranch},
	}
}

func getBranch(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	name := c.r.PathValue("branch")
	oid := c.s.ref(p, "refs/heads/"+name)
	if oid == "" {
		return nil, says(http.StatusNotFound, "404 Branch Not Found")
	}
	return map[string]any{
		"name": name, "merged": false, "protected": name == p.DefaultBranch, "default": name == p.DefaultBranch,
		"developers_can_push": false, "developers_can_merge": false, "can_push": true, "web_url": c.s.URL + "/" + p.path() + "/-/tree/" + name,
		"commit": map[string]any{"id": oid, "short_id": oid[:8], "created_at": stamp(c.d.Last), "parent_ids": []string{}, "title": "commit", "message": "commit"},
	}, nil
}

// membership is the best of somebody's memberships in a project: its own, its
// groups', and those of groups that were invited. false for none.
func (c *call) membership(p *project, user int64) (member, bool) {
	var best member
	found := false
	take := func(m member, ok bool, most int) {
		if !ok {
			return
		}
		m.Level = min(m.Level, most)
		if !found || m.Level > best.Level {
			best, found = m, true
		}
	}
	m, ok := p.Members[user]
	take(m, ok, Owner)
	for _, g := range c.above(p.Namespace) {
		m, ok := g.Members[user]
		take(m, ok, Owner)
	}
	for _, sh := range p.Shares {
		for _, g := range c.above(sh.Group) {
			m, ok := g.Members[user]
			take(m, ok, sh.Max)
		}
	}
	return best, found
}

// above are the groups of a path, the innermost last.
func (c *call) above(path string) []*group {
	var out []*group
	parts := strings.Split(path, "/")
	for n := range parts {
		if g := c.d.Groups[strings.Join(parts[:n+1], "/")]; g != nil {
			out = append(out, g)
		}
	}
	return out
}

// level is what somebody may do now: without a membership 0.
func (c *call) level(p *project, user int64) int {
	m, ok := c.membership(p, user)
	if !ok || m.Awaiting || !m.Expires.IsZero() && !c.s.opts.Now().Before(m.Expires) {
		return 0
	}
	return m.Level
}

// project finds the one of the address, by number or by path, if it is visible.
func (c *call) project() (*project, error) {
	word := c.r.PathValue("id")
	id, err := strconv.ParseInt(word, 10, 64)
	var found *project
	for _, p := range c.d.Projects {
		if err == nil && p.ID == id || err != nil && strings.EqualFold(p.path(), word) {
			found = p
		}
	}
	if found == nil || found.Visibility == Private && c.level(found, c.user.ID) < Guest {
		return nil, says(http.StatusNotFound, "404 Project Not Found")
	}
	if found.Archived && c.r.Method != http.MethodGet {
		return nil, errForbidden
	}
	return found, nil
}

// allowed is the project, if the caller has a level in it.
func (c *call) allowed(level int) (*project, error) {
	p, err := c.project()
	if err == nil && c.level(p, c.user.ID) < level {
		err = errForbidden
	}
	return p, err
}

// item finds an issue or merge request that the caller may see.
func (c *call) item(kind string) (*project, *item, error) {
	p, err := c.project()
	if err != nil {
		return nil, nil, err
	}
	i := p.find(kind, c.path("iid"))
	if i == nil || !c.sees(p, i) {
		return nil, nil, errNotFound
	}
	return p, i, nil
}

func (c *call) sees(p *project, i *item) bool {
	return !i.Confidential || i.Author == c.user.ID || c.level(p, c.user.ID) >= Planner
}

// edits says who may change an item's text and state: its author, and from which
// level others.
func (c *call) edits(p *project, i *item) bool {
	least := Planner
	if i.Kind == aMerge {
		least = Developer
	}
	return i.Author == c.user.ID || c.level(p, c.user.ID) >= least
}

// labels says who may set an item's labels.
func (c *call) labels(p *project, i *item) bool {
	least := Planner
	if i.Kind == aMerge {
		least = Developer
	}
	return c.level(p, c.user.ID) >= least
}

// Shapes of people.

func (c *call) basic(id int64) any {
	u := c.d.Users[id]
	if u == nil {
		u = &User{ID: id, Username: "ghost", State: "active"}
	}
	return map[string]any{
		"id": u.ID, "username": u.Username, "name": strings.ToUpper(u.Username[:1]) + u.Username[1:], "state": u.State,
		"locked": false, "avatar_url": nil, "web_url": c.s.URL + "/" + u.Username,
	}
}

func (c *call) maybe(id int64) any {
	if id == 0 {
		return nil
	}
	return c.basic(id)
}

func (c *call) full(u *User) map[string]any {
	out := c.basic(u.ID).(map[string]any)
	out["bot"], out["created_at"], out["bio"], out["public_email"] = u.Bot, stamp(c.d.Last), "", ""
	return out
}

func getSelf(c *call) (any, error) {
	out := c.full(c.user)
	out["email"], out["two_factor_enabled"], out["external"] = c.user.Username+"@example.com", false, false
	return out, nil
}

func getUser(c *call) (any, error) {
	u := c.d.Users[c.path("user")]
	if u == nil {
		return nil, says(http.StatusNotFound, "404 User Not Found")
	}
	return c.full(u), nil
}

func getToken(c *call) (any, error) {
	t := c.token
	return map[string]any{
		"id": t.ID, "name": t.Name, "revoked": t.Revoked, "created_at": stamp(c.d.Last), "description": nil,
		"scopes": t.Scopes, "user_id": t.User, "last_used_at": nil, "active": !t.Revoked, "expires_at": day(t.Expires),
	}, nil
}

func getMember(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	id := c.path("user")
	m, ok := c.membership(p, id)
	if !ok || c.d.Users[id] == nil {
		return nil, errNotFound
	}
	out := c.basic(id).(map[string]any)
	out["access_level"], out["created_at"], out["expires_at"], out["membership_state"] = m.Level, stamp(p.Created), day(m.Expires), "active"
	if m.Awaiting {
		out["membership_state"] = "awaiting"
	}
	return out, nil
}

func getProject(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	page := c.s.URL + "/" + p.path()
	out := map[string]any{
		"id": p.ID, "description": p.Description, "name": p.Name, "name_with_namespace": p.Namespace + " / " + p.Name,
		"path": p.Name, "path_with_namespace": p.path(), "created_at": stamp(p.Created), "default_branch": p.DefaultBranch,
		"tag_list": []string{}, "topics": []string{}, "ssh_url_to_repo": "git@example.com:" + p.path() + ".git",
		"http_url_to_repo": page + ".git", "web_url": page, "archived": p.Archived, "visibility": p.Visibility,
		"namespace":      map[string]any{"id": c.d.Groups[p.Namespace].ID, "name": p.Namespace, "path": p.Namespace[strings.LastIndex(p.Namespace, "/")+1:], "kind": "group", "full_path": p.Namespace},
		"issues_enabled": true, "merge_requests_enabled": !p.NoMerges, "merge_requests_access_level": map[bool]string{true: "disabled", false: "enabled"}[p.NoMerges], "empty_repo": false, "merge_method": cmp.Or(p.MergeMethod, MergeCommits), "squash_option": "default_off",
	}
	if p.ForkedFrom != 0 {
		out["forked_from_project"] = map[string]any{"id": p.ForkedFrom}
	}
	return out, nil
}

// stamp is a time as GitLab writes it: to the millisecond. nil for none.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func day(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.DateOnly)
}

func listLabels(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(p.Labels)
	if _, given := c.params["include_ancestor_groups"]; !given || c.flag("include_ancestor_groups") {
		for _, g := range c.above(p.Namespace) {
			all = append(all, g.Labels...)
		}
	}
	if part, ok := c.word("search"); ok {
		all = slices.DeleteFunc(all, func(l *label) bool { return !strings.Contains(strings.ToLower(l.Name), strings.ToLower(part)) })
	}
	return page(c, all, showLabel), nil
}

func showLabel(l *label) any {
	return map[string]any{
		"id": l.ID, "name": l.Name, "color": l.Color, "text_color": "#FFFFFF", "description": l.Description,
		"description_html": "", "subscribed": false, "priority": nil, "is_project_label": l.Group == "",
	}
}

func createLabel(c *call) (any, error) {
	p, err := c.allowed(Planner)
	if err != nil {
		return nil, err
	}
	name, _ := c.word("name")
	color, _ := c.word("color")
	switch {
	case name == "":
		return nil, errs("name is missing")
	case color == "":
		return nil, errs("color is missing")
	case strings.Contains(name, ","), strings.TrimSpace(name) != name:
		return nil, &failure{http.StatusBadRequest, map[string]any{"message": map[string]any{"title": []string{"is invalid"}}}}
	case c.label(p, name) != nil:
		return nil, says(http.StatusConflict, "Label already exists")
	case !strings.HasPrefix(color, "#"):
		return nil, &failure{http.StatusBadRequest, map[string]any{"message": map[string]any{"color": []string{"must be a valid color code"}}}}
	}
	about, _ := c.word("description")
	l := &label{ID: c.d.id(), Name: name, Color: color, Description: about, Created: c.s.tick()}
	p.Labels = append(p.Labels, l)
	return showLabel(l), nil
}

// label finds one of a project or its groups.
func (c *call) label(p *project, name string) *label {
	all := slices.Clone(p.Labels)
	for _, g := range c.above(p.Namespace) {
		all = append(all, g.Labels...)
	}
	if at := slices.IndexFunc(all, func(l *label) bool { return l.Name == name }); at >= 0 {
		return all[at]
	}
	return nil
}
