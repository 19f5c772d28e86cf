package gitlabtest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

var draftTitle = regexp.MustCompile(`(?i)^\s*(\[draft\]|\(draft\)|draft:)`)

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
