package gitlabtest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge/git/smarthttp"
)

// version is what a hook tells changes of.
type version struct{ title, about, state, labels, sha, flags string }

func (i *item) version() version {
	flags := ""
	if i.Locked {
		flags += "locked "
	}
	if i.Confidential {
		flags += "confidential"
	}
	return version{i.Title, i.Description, i.State, strings.Join(i.Labels, ","), i.SHA, flags}
}

// action is what the payload calls a change.
func (i *item) action(before version) string {
	switch i.State {
	case before.state:
		return "update"
	case "closed":
		return "close"
	case "merged":
		return "merge"
	}
	return "reopen"
}

// hookTime is how payloads of notes write times.
func hookTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (c *call) hookUser() any {
	u := c.user
	return map[string]any{"id": u.ID, "name": u.Username, "username": u.Username, "avatar_url": "https://example.com/a.png", "email": "[REDACTED]"}
}

func (s *Server) hookProject(p *project) map[string]any {
	page := s.URL + "/" + p.path()
	level := map[string]int{Private: 0, Internal: 10, Public: 20}[p.Visibility]
	return map[string]any{
		"id": p.ID, "name": p.Name, "description": p.Description, "web_url": page, "avatar_url": nil, "git_ssh_url": "git@example.com:" + p.path() + ".git",
		"git_http_url": page + ".git", "namespace": p.Namespace, "visibility_level": level, "path_with_namespace": p.path(),
		"default_branch": p.DefaultBranch, "ci_config_path": nil, "homepage": page, "url": page + ".git", "ssh_url": "git@example.com:" + p.path() + ".git", "http_url": page + ".git",
	}
}

func (s *Server) hookRepository(p *project) any {
	page := s.URL + "/" + p.path()
	return map[string]any{"name": p.Name, "url": page + ".git", "description": p.Description, "homepage": page}
}

func (c *call) hookLabels(p *project, names []string) []any {
	out := []any{}
	for _, name := range names {
		if l := c.label(p, name); l != nil {
			kind := "ProjectLabel"
			var projectID any = p.ID
			if l.Group != "" {
				kind, projectID = "GroupLabel", nil
			}
			out = append(out, map[string]any{
				"id": l.ID, "title": l.Name, "color": l.Color, "project_id": projectID, "created_at": stamp(l.Created), "updated_at": stamp(l.Created),
				"template": false, "description": l.Description, "type": kind, "group_id": nil,
			})
		}
	}
	return out
}

func (c *call) hookItem(p *project, i *item) map[string]any {
	edited, by := any(nil), any(nil)
	if i.EditedBy != 0 {
		edited, by = hookTime(i.Edited), i.EditedBy
	}
	return map[string]any{
		"id": i.ID, "iid": i.IID, "title": i.Title, "description": i.Description, "state": i.State, "state_id": 1, "author_id": i.Author,
		"assignee_ids": []int64{}, "assignee_id": nil, "created_at": stamp(i.Created), "updated_at": stamp(i.Updated), "updated_by_id": nil,
		"last_edited_at": edited, "last_edited_by_id": by, "milestone_id": nil, "url": c.url(p, i), "labels": c.hookLabels(p, i.Labels),
		"time_estimate": 0, "total_time_spent": 0, "time_change": 0, "human_total_time_spent": nil, "human_time_estimate": nil, "human_time_change": nil,
	}
}

func (c *call) hookIssue(p *project, i *item) map[string]any {
	out := c.hookItem(p, i)
	out["project_id"], out["relative_position"], out["confidential"], out["discussion_locked"] = p.ID, 0, i.Confidential, i.Locked
	out["due_date"], out["moved_to_id"], out["duplicated_to_id"], out["weight"], out["severity"], out["type"] = nil, nil, nil, nil, "unknown", "Issue"
	return out
}

func (c *call) hookMerge(p *project, i *item) map[string]any {
	out := c.hookItem(p, i)
	for name, value := range map[string]any{
		"target_branch": i.Target, "source_branch": i.Source, "source_project_id": i.SourceProject, "target_project_id": p.ID, "merge_status": "unchecked",
		"detailed_merge_status": "mergeable", "work_in_progress": draftTitle.MatchString(i.Title), "draft": draftTitle.MatchString(i.Title), "blocking_discussions_resolved": true, "first_contribution": false,
		"reviewer_ids": []int64{}, "merge_commit_sha": orNull(i.MergeSHA), "source": c.s.hookProject(p), "target": c.s.hookProject(p),
		"last_commit": map[string]any{"id": i.SHA, "message": "commit", "title": "commit", "timestamp": stamp(i.Updated), "url": c.s.URL + "/" + p.path() + "/-/commit/" + i.SHA, "author": map[string]any{"name": "a", "email": "a@example.com"}},
	} {
		out[name] = value
	}
	return out
}

// changes is the difference from one version to the next.
func (c *call) changes(p *project, i *item, before version) map[string]any {
	out := map[string]any{}
	now := i.version()
	differ := func(name string, was, is any, changed bool) {
		if changed {
			out[name] = map[string]any{"previous": was, "current": is}
		}
	}
	differ("title", before.title, now.title, before.title != now.title)
	differ("description", before.about, now.about, before.about != now.about)
	differ("state_id", 1, 2, before.state != now.state)
	differ("labels", c.hookLabels(p, splitWords(before.labels)), c.hookLabels(p, i.Labels), before.labels != now.labels)
	differ("discussion_locked", !i.Locked, i.Locked, strings.Contains(before.flags, "locked") != i.Locked)
	differ("confidential", !i.Confidential, i.Confidential, strings.Contains(before.flags, "confidential") != i.Confidential)
	if len(out) > 0 {
		differ("updated_at", hookTime(i.Created), hookTime(i.Updated), true)
	}
	return out
}

func splitWords(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(w string) bool { return w == "" })
}

// tellItem tells hooks what happened to an issue or merge request.
func (s *Server) tellItem(c *call, p *project, i *item, action string, before version) {
	kind, trigger, flag, event := "issue", "issue_hooks", "issues_events", "Issue Hook"
	about := c.hookIssue(p, i)
	switch {
	case i.Kind == aMerge:
		kind, trigger, flag, event, about = "merge_request", "merge_request_hooks", "merge_requests_events", "Merge Request Hook", c.hookMerge(p, i)
	case i.Confidential:
		trigger, flag, event = "confidential_issue_hooks", "confidential_issues_events", "Confidential Issue Hook"
	}
	about["action"] = action
	if i.Kind == aMerge && before.sha != i.SHA && before.sha != "" {
		about["oldrev"] = before.sha
	}
	eventType := kind
	if i.Confidential {
		eventType = "confidential_issue"
	}
	s.tell(p, trigger, flag, event, map[string]any{
		"object_kind": kind, "event_type": eventType, "user": c.hookUser(), "project": s.hookProject(p), "object_attributes": about,
		"labels": c.hookLabels(p, i.Labels), "changes": c.changes(p, i, before), "repository": s.hookRepository(p),
	})
}

func (s *Server) tellNote(c *call, p *project, i *item, n *note, action string) {
	trigger, flag, event, eventType := "note_hooks", "note_events", "Note Hook", "note"
	if i.Confidential || n.Internal {
		trigger, flag, event, eventType = "confidential_note_hooks", "confidential_note_events", "Confidential Note Hook", "confidential_note"
	}
	body := map[string]any{
		"object_kind": "note", "event_type": eventType, "user": c.hookUser(), "project_id": p.ID, "project": s.hookProject(p), "repository": s.hookRepository(p),
		"object_attributes": map[string]any{
			"id": n.ID, "note": n.Body, "description": n.Body, "noteable_type": threadType(i.Kind), "author_id": n.Author, "created_at": hookTime(n.Created),
			"updated_at": hookTime(n.Updated), "project_id": p.ID, "attachment": nil, "line_code": nil, "commit_id": "", "noteable_id": i.ID,
			"system": false, "st_diff": nil, "action": action, "url": c.url(p, i) + "#note_" + itoa(n.ID), "internal": n.Internal,
		},
	}
	if i.Kind == aMerge {
		body["merge_request"] = c.hookMerge(p, i)
	} else {
		body["issue"] = c.hookIssue(p, i)
	}
	s.tell(p, trigger, flag, event, body)
}

// tellPush tells of branches and tags; of other refs GitLab says nothing.
func (s *Server) tellPush(p *project, user int64, u smarthttp.RefUpdate) {
	trigger, flag, event := "push_hooks", "push_events", "Push Hook"
	switch {
	case strings.HasPrefix(u.Ref, "refs/tags/"):
		trigger, flag, event = "tag_push_hooks", "tag_push_events", "Tag Push Hook"
	case !strings.HasPrefix(u.Ref, "refs/heads/"):
		return
	}
	var body map[string]any
	s.must(json.Unmarshal(s.pushPayload(p, user, u.Ref, u.Old, u.New), &body))
	s.tell(p, trigger, flag, event, body)
}

func (s *Server) pushPayload(p *project, user int64, ref, before, after string) []byte {
	kind := "push"
	if strings.HasPrefix(ref, "refs/tags/") {
		kind = "tag_push"
	}
	var checkout any = after
	if after == noCommit {
		checkout = nil
	}
	username := s.data.Users[user].Username
	b, err := json.Marshal(map[string]any{
		"object_kind": kind, "event_name": kind, "before": before, "after": after, "ref": ref, "ref_protected": false, "checkout_sha": checkout,
		"message": nil, "user_id": user, "user_name": username, "user_username": username, "user_email": "", "user_avatar": "https://example.com/a.png",
		"project_id": p.ID, "project": s.hookProject(p), "commits": []any{}, "total_commits_count": 0, "push_options": map[string]any{}, "repository": s.hookRepository(p),
	})
	s.must(err)
	return b
}
