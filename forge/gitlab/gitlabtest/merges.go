package gitlabtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

var draftTitle = regexp.MustCompile(`(?i)^\s*(\[draft\]|\(draft\)|draft:)`)

func aboutMerges() []route {
	at := aProject + "/merge_requests"
	return []route{
		{method: "GET", pattern: at, handle: listMerges, paged: true, params: params{
			"state": text, "order_by": text, "sort": text, "source_branch": text, "target_branch": text, "scope": text, "wip": text, "author_id": integer, "updated_after": timestamp,
		}},
		{method: "POST", pattern: at, handle: createMerge, created: true, params: params{
			"source_branch": text, "target_branch": text, "title": text, "description": text, "target_project_id": integer,
			"labels": list, "remove_source_branch": boolean, "squash": boolean, "allow_collaboration": boolean,
		}},
		{method: "GET", pattern: at + "/{iid}", handle: getMerge},
		{method: "PUT", pattern: at + "/{iid}", handle: updateMerge, params: params{
			"title": text, "description": text, "target_branch": text, "labels": list, "add_labels": list, "remove_labels": list,
			"state_event": text, "discussion_locked": boolean, "remove_source_branch": boolean, "squash": boolean,
		}},
		{method: "PUT", pattern: at + "/{iid}/merge", handle: acceptMerge, params: params{
			"merge_commit_message": text, "squash": boolean, "squash_commit_message": text, "should_remove_source_branch": boolean, "sha": text,
		}},
		{method: "POST", pattern: at + "/{iid}/discussions", handle: createDiscussion, created: true, params: params{"body": text, "position": object, "commit_id": text, "created_at": timestamp}},
		{method: "POST", pattern: aProject + "/statuses/{sha}", handle: setStatus, created: true, params: params{
			"state": text, "ref": text, "name": text, "context": text, "target_url": text, "description": text, "coverage": object, "pipeline_id": integer,
		}},
		{method: "GET", pattern: aProject + "/repository/commits/{sha}/statuses", handle: listStatuses, paged: true, params: params{
			"ref": text, "stage": text, "name": text, "all": boolean, "pipeline_id": integer, "order_by": text, "sort": text,
		}},
	}
}

// createDiscussion makes a note at a place of a merge request. GitLab looks at little of
// the place, and neither does this.
func createDiscussion(c *call) (any, error) {
	p, i, err := c.item(aMerge)
	if err != nil {
		return nil, err
	}
	body, ok := c.word("body")
	position, err := json.Marshal(c.params["position"])
	switch {
	case err != nil:
		return nil, err
	case !ok || strings.TrimSpace(body) == "":
		return nil, errs("body is missing")
	}
	now := c.s.tick()
	n := &note{ID: c.d.id(), Body: body, Author: c.user.ID, Created: now, Updated: now, Position: position}
	i.Notes, i.Updated = append(i.Notes, n), now
	c.s.tellNote(c, p, i, n, "create")
	return map[string]any{"id": itoa(n.ID), "individual_note": false, "notes": []any{c.note(p, i, n)}}, nil
}

func (c *call) merge(p *project, i *item) any {
	out := c.common(p, i)
	draft := draftTitle.MatchString(i.Title)
	for name, value := range map[string]any{
		"target_branch": i.Target, "source_branch": i.Source, "source_project_id": i.SourceProject, "target_project_id": p.ID,
		"draft": draft, "work_in_progress": draft, "merged_by": c.maybe(i.MergedBy), "merge_user": c.maybe(i.MergedBy), "merged_at": stamp(i.MergedAt),
		"merge_when_pipeline_succeeds": false, "merge_status": "can_be_merged", "detailed_merge_status": "mergeable",
		"sha": orNull(i.SHA), "merge_commit_sha": orNull(i.MergeSHA), "squash_commit_sha": orNull(i.SquashSHA), "squash": i.SquashSHA != "",
		"should_remove_source_branch": nil, "force_remove_source_branch": false, "reviewers": []any{}, "has_conflicts": false,
		"reference": i.reference(), "blocking_discussions_resolved": true, "prepared_at": stamp(i.Created),
	} {
		out[name] = value
	}
	return out
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func getMerge(c *call) (any, error) {
	p, i, err := c.item(aMerge)
	if err != nil {
		return nil, err
	}
	return c.merge(p, i), nil
}

func listMerges(c *call) (any, error) {
	p, err := c.project()
	if err == nil && p.NoMerges {
		err = errForbidden
	}
	if err != nil {
		return nil, err
	}
	source, bySource := c.word("source_branch")
	target, byTarget := c.word("target_branch")
	after, _ := c.params["updated_after"].(time.Time)
	var out []*item
	for _, i := range p.Items {
		if i.Kind == aMerge && !i.Updated.Before(after) && (!bySource || i.Source == source) && (!byTarget || i.Target == target) && c.inState(i) {
			out = append(out, i)
		}
	}
	if err := c.sort(out); err != nil {
		return nil, err
	}
	return page(c, out, func(i *item) any { return c.merge(p, i) }), nil
}

// createMerge takes a source branch that isn't there, as GitLab does.
func createMerge(c *call) (any, error) {
	p, err := c.allowed(Developer)
	if err != nil {
		return nil, err
	}
	given := map[string]string{}
	for _, name := range []string{"source_branch", "target_branch", "title"} {
		v, ok := c.word(name)
		if !ok || v == "" {
			return nil, errs("%s is missing", name)
		}
		given[name] = v
	}
	if given["source_branch"] == given["target_branch"] {
		return nil, &failure{http.StatusUnprocessableEntity, map[string]any{"message": []string{"You can't use same project/branch for source and target"}}}
	}
	for _, i := range p.Items {
		if i.Kind == aMerge && i.State == "opened" && i.Source == given["source_branch"] && i.Target == given["target_branch"] && i.SourceProject == p.ID {
			return nil, &failure{http.StatusConflict, map[string]any{"message": []string{"Another open merge request already exists for this source branch: " + i.reference()}}}
		}
	}
	i := c.s.newItem(p, aMerge, c.user.ID, strings.TrimSpace(given["title"]))
	i.Source, i.Target, i.SourceProject = given["source_branch"], given["target_branch"], p.ID
	i.SHA = c.s.ref(p, "refs/heads/"+i.Source)
	before := i.version()
	about, _ := c.word("description")
	left, acts := quickActions(about)
	i.Description = left
	c.setLabels(p, i, c.words("labels"), nil)
	c.execute(p, i, acts)
	c.s.tellItem(c, p, i, "open", before)
	return c.merge(p, i), nil
}

func updateMerge(c *call) (any, error) {
	p, i, err := c.item(aMerge)
	if err != nil {
		return nil, err
	}
	if !c.edits(p, i) {
		return nil, errForbidden
	}
	if err := c.update(p, i); err != nil {
		return nil, err
	}
	return c.merge(p, i), nil
}

func acceptMerge(c *call) (any, error) {
	p, i, err := c.item(aMerge)
	if err != nil {
		return nil, err
	}
	sha, given := c.word("sha")
	switch {
	case c.level(p, c.user.ID) < Developer:
		return nil, says(http.StatusUnauthorized, "401 Unauthorized")
	case i.State != "opened" || draftTitle.MatchString(i.Title):
		return nil, says(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	case given && sha != i.SHA:
		return nil, says(http.StatusConflict, "SHA does not match HEAD of source branch: %s", i.SHA)
	}
	if err := c.accept(p, i, c.flag("squash")); err != nil {
		return nil, says(http.StatusUnprocessableEntity, "Branch cannot be merged: %v", err)
	}
	return c.merge(p, i), nil
}

// accept merges, and tells so.
func (c *call) accept(p *project, i *item, squash bool) error {
	if err := c.s.mergeInto(p, i, c.user.ID, squash); err != nil {
		return err
	}
	before := i.version()
	i.State, i.Updated = "merged", c.s.tick()
	i.MergedAt, i.MergedBy = i.Updated, c.user.ID
	i.StateEvents = append(i.StateEvents, &stateEvent{ID: c.d.id(), User: c.user.ID, At: i.Updated, State: "merged"})
	c.s.tellItem(c, p, i, "merge", before)
	return nil
}

// mergeInto merges a request's branch into its target as somebody, by the project's
// method: a fast-forward never makes a merge commit, and is refused where the branch,
// unless it is squashed, isn't above its target.
func (s *Server) mergeInto(p *project, i *item, user int64, squash bool) (err error) {
	dir, base := s.dir(p), s.ref(p, "refs/heads/"+i.Target)
	tip := i.SHA
	if squash {
		if i.SquashSHA, err = gittest.Squash(dir, base, tip, i.Title+"\n"); err != nil {
			return err
		}
		tip = i.SquashSHA
	}
	if p.MergeMethod == FastForward {
		if _, err := gittest.TryGit(dir, "", "merge-base", "--is-ancestor", base, tip); err != nil {
			return errors.New("fast-forward merge is not possible: rebase first")
		}
	} else {
		message := fmt.Sprintf("Merge branch '%s' into '%s'\n\n%s\n\nSee merge request %s%s\n", i.Source, i.Target, i.Title, p.path(), i.reference())
		if i.MergeSHA, err = gittest.MergeCommit(dir, base, tip, message); err != nil {
			return err
		}
		tip = i.MergeSHA
	}
	s.run(dir, "", "update-ref", "refs/heads/"+i.Target, tip, base)
	s.tellPush(p, user, smarthttp.RefUpdate{Ref: "refs/heads/" + i.Target, Old: base, New: tip})
	return nil
}

func showStatus(c *call) func(*status) any {
	return func(st *status) any {
		return map[string]any{
			"id": st.ID, "sha": st.SHA, "ref": st.Ref, "status": st.State, "name": st.Name, "target_url": orNull(st.TargetURL),
			"description": orNull(st.Description), "created_at": stamp(st.At), "started_at": nil, "finished_at": nil, "allow_failure": false,
			"coverage": nil, "pipeline_id": st.ID, "author": c.basic(st.Author),
		}
	}
}

// longestStatus is in characters.
const longestStatus = 255

// setStatus moves on a pending or running status of that name; one that is over
// is left, and a new one takes its place.
func setStatus(c *call) (any, error) {
	p, err := c.allowed(Developer)
	if err != nil {
		return nil, err
	}
	sha, ref := c.r.PathValue("sha"), ""
	if !c.s.hasCommit(p, sha) {
		return nil, says(http.StatusNotFound, "404 Commit Not Found")
	}
	if ref, _ = c.word("ref"); ref == "" {
		if ref = c.s.containing(p, sha); ref == "" {
			return nil, says(http.StatusNotFound, "404 References for commit Not Found")
		}
	}
	state, _ := c.word("state")
	name, ok := c.word("name")
	if !ok {
		if name, ok = c.word("context"); !ok {
			name = "default"
		}
	}
	about, _ := c.word("description")
	target, _ := c.word("target_url")
	switch {
	case !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, state):
		return nil, errs("state does not have a valid value")
	case len([]rune(about)) > longestStatus || len([]rune(name)) > longestStatus:
		return nil, &failure{http.StatusBadRequest, map[string]any{"message": map[string]any{"description": []string{"is too long (maximum is 255 characters)"}}}}
	}
	at := slices.IndexFunc(p.Statuses, func(o *status) bool {
		return o.SHA == sha && o.Ref == ref && o.Name == name && (o.State == "pending" || o.State == "running")
	})
	if at >= 0 && p.Statuses[at].State == state {
		return nil, says(http.StatusBadRequest, "Cannot transition status via :%s from :%s (Reason(s): Status cannot transition via \"%s\")", state, state, state)
	}
	if at < 0 {
		p.Statuses = append(p.Statuses, &status{ID: c.d.id(), SHA: sha, Ref: ref, Name: name, Author: c.user.ID})
		at = len(p.Statuses) - 1
	}
	st := p.Statuses[at]
	st.State, st.Description, st.TargetURL, st.At = state, about, target, c.s.tick()
	return showStatus(c)(st), nil
}

func (s *Server) hasCommit(p *project, oid string) bool {
	out, err := gittest.TryGit(s.dir(p), "", "cat-file", "-t", oid)
	return err == nil && strings.TrimSpace(out) == "commit"
}

// containing is the first branch that holds a commit.
func (s *Server) containing(p *project, oid string) string {
	out, err := gittest.TryGit(s.dir(p), "", "for-each-ref", "--count=1", "--format=%(refname:short)", "--contains", oid, "refs/heads")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// listStatuses shows the newest of each name, or all.
func listStatuses(c *call) (any, error) {
	p, err := c.project()
	if err != nil {
		return nil, err
	}
	sha := c.r.PathValue("sha")
	name, byName := c.word("name")
	ref, byRef := c.word("ref")
	var out []*status
	for _, st := range p.Statuses {
		if st.SHA != sha || byName && st.Name != name || byRef && st.Ref != ref {
			continue
		}
		if !c.flag("all") {
			out = slices.DeleteFunc(out, func(o *status) bool { return o.Name == st.Name && o.Ref == st.Ref })
		}
		out = append(out, st)
	}
	return page(c, out, showStatus(c)), nil
}
