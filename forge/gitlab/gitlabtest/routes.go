package gitlabtest

// The addresses of the API, with the parameters that GitLab publishes for them
// and a client may need.

func graphQL() route {
	return route{method: "POST", pattern: "/graphql", query: true, handle: askGraph, params: params{"query": text, "variables": object, "operationName": text}}
}

func routes() []route {
	all := [][]route{aboutPeople(), aboutIssues(), aboutMerges(), aboutNotes(anIssue), aboutNotes(aMerge), aboutHooks(), aboutProtection()}
	var out []route
	for _, some := range all {
		out = append(out, some...)
	}
	return out
}

const aProject = "/projects/{id}"

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

// hookParams are those of POST and PUT.
func hookParams() params {
	p := params{"url": text, "name": text, "description": text, "token": text, "signing_token": text, "enable_ssl_verification": boolean, "push_events_branch_filter": text, "branch_filter_strategy": text}
	for _, e := range hookEvents {
		p[e] = boolean
	}
	return p
}

func aboutHooks() []route {
	at := aProject + "/hooks"
	return []route{
		{method: "GET", pattern: at, handle: listHooks, paged: true},
		{method: "POST", pattern: at, handle: createHook, created: true, params: hookParams()},
		{method: "GET", pattern: at + "/{hook}", handle: getHook},
		{method: "PUT", pattern: at + "/{hook}", handle: updateHook, params: hookParams()},
		{method: "DELETE", pattern: at + "/{hook}", handle: deleteHook, empty: true},
		{method: "GET", pattern: at + "/{hook}/events", handle: listHookEvents, paged: true, params: params{"status": text}},
		{method: "POST", pattern: at + "/{hook}/events/{event}/resend", handle: resendHookEvent, created: true},
		{method: "POST", pattern: at + "/{hook}/test/{trigger}", handle: testHook, created: true},
	}
}
