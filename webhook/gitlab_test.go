package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

func gitlabPush(ref string) object {
	return object{"object_kind": "push", "ref": ref, "before": "a", "after": "b", "user_id": 2, "project_id": repoID, "project": object{"id": repoID}}
}

func gitlabMerge(action, branch string, from int) object {
	return object{
		"object_kind": "merge_request", "user": object{"id": 2}, "project": object{"id": repoID},
		"object_attributes": object{"iid": 5, "action": action, "source_branch": branch, "source_project_id": from, "target_project_id": repoID},
	}
}

// TestGitLab_WhomItConcerns: the task, the evidence and the reason of each event.
func TestGitLab_WhomItConcerns(t *testing.T) {
	const issues, notes, pushes, merges = "Issue Hook", "Note Hook", "Push Hook", "Merge Request Hook"
	label := func(titles ...string) []object {
		list := []object{}
		for _, title := range titles {
			list = append(list, object{"title": title})
		}
		return list
	}
	onMerge := func(branch string, from int) object {
		return with(gitlabNoteHook("create"), "object_attributes.noteable_type", "MergeRequest", "issue", absent,
			"merge_request", object{"iid": 5, "source_branch": branch, "source_project_id": from, "target_project_id": repoID})
	}
	for _, c := range []struct {
		name, event string
		body        object
		task        int64
		evidence    string
		ignored     kernel.Code
	}{
		{"labeled", issues, gitlabIssueHook("update"), 3, "label writ", ""},
		{"confidential", "Confidential Issue Hook", gitlabIssueHook("update"), 3, "label writ", ""},
		{"closed and labeled at once", issues, gitlabIssueHook("close"), 3, "label writ", ""},
		{"edited", issues, with(gitlabIssueHook("update"), "changes", object{"title": object{}}), 3, "", ""},
		{"a label taken off", issues, with(gitlabIssueHook("update"), "changes.labels", object{"previous": label("writ"), "current": label()}), 3, "", ""},
		{"two labels", issues, with(gitlabIssueHook("update"), "changes.labels", object{"previous": nil, "current": label("a", "b")}), 3, "label a, label b", ""},
		{"made with a label", issues, with(gitlabIssueHook("open"), "changes", absent, "object_attributes.labels", label("writ")), 3, "label writ", ""},
		{"made without", issues, with(gitlabIssueHook("open"), "changes", absent), 3, "", ""},
		{"closed with the label on", issues, with(gitlabIssueHook("close"), "changes", absent, "object_attributes.labels", label("writ")), 3, "", ""},
		{"without an action", issues, with(gitlabIssueHook(""), "object_attributes.action", absent), 0, "", kernel.CodeEventUnused},
		{"a task or epic", issues, with(gitlabIssueHook("update"), "object_kind", "work_item"), 0, "", kernel.CodeEventUnused},
		{"note", notes, gitlabNoteHook("create"), 3, "comment 4", ""},
		{"confidential note", "Confidential Note Hook", gitlabNoteHook("create"), 3, "comment 4", ""},
		{"note edited", notes, gitlabNoteHook("update"), 3, "", ""},
		{"a note of an old GitLab", notes, with(gitlabNoteHook(""), "object_attributes.action", absent), 3, "", ""},
		{"a note by GitLab itself", notes, with(gitlabNoteHook("create"), "object_attributes.system", true), 3, "", ""},
		{"a note on a task's merge request", notes, onMerge("writ/change/7", repoID), 7, "", ""},
		{"a note on somebody's merge request", notes, onMerge("fix", repoID), 0, "", kernel.CodeEventUnused},
		{"a note on a fork's merge request", notes, onMerge("writ/change/7", 99), 0, "", kernel.CodeEventUnused},
		{"a note on a merge request that isn't shown", notes, with(gitlabNoteHook("create"), "object_attributes.noteable_type", "MergeRequest"), 0, "", kernel.CodeEventUnused},
		{"push to a change", pushes, gitlabPush("refs/heads/writ/change/7"), 7, "", ""},
		{"push to a state ref", pushes, with(gitlabPush("refs/heads/writ/task/8"), "project", absent), 8, "", ""},
		{"push to the base", pushes, gitlabPush("refs/heads/main"), 0, "", kernel.CodeEventUnused},
		{"merged", merges, gitlabMerge("merge", "writ/change/7", repoID), 7, "", ""},
		{"from a fork", merges, gitlabMerge("open", "writ/change/7", 99), 0, "", kernel.CodeEventUnused},
		{"a branch of somebody's", merges, gitlabMerge("open", "fix", repoID), 0, "", kernel.CodeEventUnused},
		{"approved", merges, gitlabMerge("approved", "writ/change/7", repoID), 0, "", kernel.CodeEventUnused},
		{"a pipeline", "Pipeline Hook", object{"object_kind": "pipeline"}, 0, "", kernel.CodeEventUnused},
		{"a system hook", "System Hook", gitlabPush("refs/heads/writ/change/7"), 0, "", kernel.CodeEventUnused},
		{"no event at all", "", gitlabIssueHook("update"), 0, "", kernel.CodeEventUnused},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := gitlabHook(t, nil).Parse(heads(webhook.HeaderGitLabEvent, c.event), jsonOf(t, c.body))
			if err != nil {
				t.Fatal(err)
			}
			wantConcerned(t, e, c.task, c.evidence, c.ignored)
		})
	}
}

// TestJ7_GitLabElsewhere: the right token from another GitLab is refused, by whatever
// name it goes there; one that names no host is taken.
func TestJ7_GitLabElsewhere(t *testing.T) {
	h, err := webhook.NewGitLabHook(webhook.GitLabConfig{Tokens: []string{secret}, World: allowed, Instance: "https://GitLab.example.org/git"})
	if err != nil {
		t.Fatal(err)
	}
	for instance, taken := range map[string]bool{
		"https://gitlab.example.org": true, "http://gitlab.example.org:8080/git": true, "": true,
		"https://gitlab.com": false, "https://gitlab.example.org.evil.example": false, "gitlab.example.org": false, "https://x@evil.example/gitlab.example.org": false, "%": false,
	} {
		head := heads(webhook.HeaderGitLabToken, secret)
		if instance != "" {
			head.Set(webhook.HeaderGitLabInstance, instance)
		}
		if err := h.Verify(head, nil); taken {
			if err != nil {
				t.Errorf("%s: %v", instance, err)
			}
		} else {
			wantCode(t, err, kernel.CodeSigMismatch)
		}
	}
	twice := heads(webhook.HeaderGitLabToken, secret)
	twice[http.CanonicalHeaderKey(webhook.HeaderGitLabInstance)] = []string{"https://gitlab.example.org", "https://evil.example"}
	wantCode(t, h.Verify(twice, nil), kernel.CodeSigMismatch)
}

// TestJ7_GitLabBound: what one project's secret verifies tells of no other project, whose
// body ever it is. A project with a key takes no token, and no two bindings are alike.
func TestJ7_GitLabBound(t *testing.T) {
	const other = "another-secret-of-the-tests-32-chars"
	of := func(want int64) func(int64) bool { return func(project int64) bool { return project == want } }
	bodyOf := func(project int) []byte {
		return jsonOf(t, with(gitlabPush("refs/heads/writ/change/7"), "project_id", project, "project", object{"id": project}))
	}
	bound := func(first, second webhook.GitLabBound) *webhook.GitLabHook {
		first.Covers, second.Covers = of(repoID), of(repoID+1)
		return gitlabHook(t, func(c *webhook.GitLabConfig) {
			c.Tokens, c.Bound = nil, []webhook.GitLabBound{first, second}
			c.World = func(project int64) (string, bool) {
				return fmt.Sprint(project), project == repoID || project == repoID+1
			}
		})
	}
	tell := func(h *webhook.GitLabHook, head http.Header, project int) error {
		t.Helper()
		head.Set(webhook.HeaderGitLabEvent, "Push Hook")
		body := bodyOf(project)
		if err := h.Verify(head, body); err != nil {
			return err
		}
		e, err := h.Parse(head, body)
		if err != nil && (len(e.Keys) > 0 || len(e.Evidence) > 0) {
			t.Errorf("what was refused tells of %v", e.Keys)
		}
		return err
	}
	tokens := bound(webhook.GitLabBound{Token: secret}, webhook.GitLabBound{Token: other})
	for token, project := range map[string]int{secret: repoID, other: repoID + 1} {
		if err := tell(tokens, heads(webhook.HeaderGitLabToken, token), project); err != nil {
			t.Error(err)
		}
		wantCode(t, tell(tokens, heads(webhook.HeaderGitLabToken, token), 2*repoID+1-project), kernel.CodeSigProject)
	}
	wantCode(t, tell(tokens, heads(webhook.HeaderGitLabToken, "no secret"), repoID), kernel.CodeSigMismatch)
	if err := tell(tokens, heads(webhook.HeaderGitLabToken, secret), 99); err != nil {
		t.Errorf("what isn't governed is ignored, not refused: %v", err)
	}
	mixed := bound(webhook.GitLabBound{Key: signingKey}, webhook.GitLabBound{Token: other})
	if err := tell(mixed, signedHead("Push Hook", noon, bodyOf(repoID)), repoID); err != nil {
		t.Error(err)
	}
	if err := tell(mixed, heads(webhook.HeaderGitLabToken, other), repoID+1); err != nil {
		t.Error(err)
	}
	wantCode(t, tell(mixed, signedHead("Push Hook", noon, bodyOf(repoID+1)), repoID+1), kernel.CodeSigProject)
	wantCode(t, tell(mixed, heads(webhook.HeaderGitLabToken, other), repoID), kernel.CodeSigProject)
	_, err := webhook.NewGitLabHook(webhook.GitLabConfig{World: allowed, Bound: []webhook.GitLabBound{{Token: secret, Covers: of(1)}, {Token: secret, Covers: of(2)}}})
	wantCode(t, err, kernel.CodeConfigInvalid)
	_, err = webhook.NewGitLabHook(webhook.GitLabConfig{World: allowed, Tokens: []string{secret}, Bound: []webhook.GitLabBound{{Token: other, Covers: of(1)}}})
	wantCode(t, err, kernel.CodeConfigInvalid)
}

// TestI3_GitLabEvidence: what the payload doesn't show as it stands in the issue
// is no evidence, and the task is due all the same.
func TestI3_GitLabEvidence(t *testing.T) {
	described := func(v any) object { return with(gitlabIssueHook("update"), "object_attributes.description", v) }
	var many []object
	for i := range 101 {
		many = append(many, object{"title": fmt.Sprint("l", i)})
	}
	for name, c := range map[string]struct {
		body object
		text string // of the issue; "none" if there is no evidence
	}{
		"a null description is an empty one": {described(nil), ""},
		"a description that is left out":     {described(absent), "none"},
		"a description larger than any":      {described(strings.Repeat("x", 4<<20)), "none"},
		"a title that is left out":           {with(gitlabIssueHook("update"), "object_attributes.title", absent), "none"},
		"an event of nobody":                 {with(gitlabIssueHook("update"), "user", nil), "none"},
		"without a time":                     {with(gitlabIssueHook("update"), "object_attributes.updated_at", nil), "none"},
		// GitLab makes addresses of images whole, in payloads only.
		"an image":                      {described("a\n![x](https://gitlab.example/o/n/uploads/1/x.png)\nb"), "none"},
		"an image that stays as it was": {described("![x](//host/x.png)"), "![x](//host/x.png)"},
		"a link":                        {described("[x](https://host/)"), "[x](https://host/)"},
		"a mark, and a link below":      {described("Add it![\n[x](https://host/)"), "Add it![\n[x](https://host/)"},
		"more labels than anybody sets": {with(gitlabIssueHook("update"), "changes.labels.current", many), "none"},
		"a comment to an issue whose text is left out": {with(gitlabNoteHook("create"), "issue.description", absent), "none"},
		"a comment to an image":                        {with(gitlabNoteHook("create"), "issue.description", "![](https://host/x.png)"), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			event := "Issue Hook"
			if c.body["object_kind"] == "note" {
				event = "Note Hook"
			}
			e, err := gitlabHook(t, nil).Parse(heads(webhook.HeaderGitLabEvent, event), jsonOf(t, c.body))
			if err != nil || len(e.Keys) != 1 || e.Ignored != "" {
				t.Fatalf("%+v, %v", e, err)
			}
			if none := len(e.Evidence) == 0; none || c.text == "none" {
				if none != (c.text == "none") {
					t.Errorf("%+v", e)
				}
				return
			}
			if want, err := kernel.ApprovalDigest("Add fails", c.text); err != nil || e.Evidence[0].Digest != want {
				t.Errorf("digest %s, want %s", e.Evidence[0].Digest, want)
			}
		})
	}
}

// TestW7_GitLabOtherEvent: a body under another event's header is recorded and
// left alone, and so is one without the parts of its event.
func TestW7_GitLabOtherEvent(t *testing.T) {
	bodies := map[string]object{
		"Issue Hook": gitlabIssueHook("update"), "Note Hook": gitlabNoteHook("create"),
		"Push Hook": gitlabPush("refs/heads/writ/change/7"), "Merge Request Hook": gitlabMerge("open", "writ/change/7", repoID),
	}
	hook := gitlabHook(t, nil)
	for sent, body := range bodies {
		for claimed := range bodies {
			e, err := hook.Parse(heads(webhook.HeaderGitLabEvent, claimed), jsonOf(t, body))
			if err != nil || (e.Ignored == kernel.CodeEventMismatch) != (sent != claimed) || (len(e.Keys) == 1) != (sent == claimed) {
				t.Errorf("%s as %s: %+v, %v", sent, claimed, e, err)
			}
		}
	}
	for name, body := range map[string]object{
		"no attributes": with(gitlabIssueHook("update"), "object_attributes", nil), "no number": with(gitlabIssueHook("update"), "object_attributes.iid", "3"),
		"no project": with(gitlabIssueHook("update"), "project", absent), "two projects": with(gitlabIssueHook("update"), "project_id", repoID+1),
		"another case": with(gitlabIssueHook("update"), "object_kind", absent, "Object_Kind", "issue"),
	} {
		e, err := hook.Parse(heads(webhook.HeaderGitLabEvent, "Issue Hook"), jsonOf(t, body))
		if err != nil || e.Ignored != kernel.CodeEventMismatch || len(e.Keys)+len(e.Evidence) != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// TestI13_GitLabByNumber: the number decides, whatever the names say.
func TestI13_GitLabByNumber(t *testing.T) {
	body := with(gitlabIssueHook("update"), "project", object{"id": repoID + 1, "path_with_namespace": "o/n", "git_http_url": "https://127.0.0.1/o/n.git"})
	e, err := gitlabHook(t, nil).Parse(heads(webhook.HeaderGitLabEvent, "Issue Hook"), jsonOf(t, body))
	if err != nil || e.Ignored != kernel.CodeTargetNotAllowed || len(e.Keys)+len(e.Evidence) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestI6_GitLabOwnActs: as GitHub's.
func TestI6_GitLabOwnActs(t *testing.T) {
	for event, body := range map[string]object{
		"Issue Hook": gitlabIssueHook("update"), "Note Hook": gitlabNoteHook("create"), "Push Hook": gitlabPush("refs/heads/writ/change/7"),
	} {
		for name, c := range map[string]struct {
			self     int64
			personal bool
			ignored  kernel.Code
		}{
			"the bot itself": {2, false, kernel.CodeRecursion}, "somebody else": {3, false, ""}, "with a person's": {2, true, ""},
		} {
			hook := gitlabHook(t, func(g *webhook.GitLabConfig) { g.Self, g.Personal = c.self, c.personal })
			e, err := hook.Parse(heads(webhook.HeaderGitLabEvent, event), jsonOf(t, body))
			if err != nil || e.Ignored != c.ignored || (c.ignored == "") != (len(e.Keys) == 1) {
				t.Errorf("%s, %s: %+v, %v", event, name, e, err)
			}
		}
	}
}

// TestW6_GitLabDelivery: the id that stays the same when a delivery is sent
// again, where there is one.
func TestW6_GitLabDelivery(t *testing.T) {
	key, sending, event := uuid.NewString(), uuid.NewString(), uuid.NewString()
	all := heads(webhook.HeaderIdempotencyKey, key, webhook.HeaderGitLabWebhookUUID, sending, webhook.HeaderGitLabEventUUID, event, webhook.HeaderWebhookID, "msg_1")
	hook := gitlabHook(t, nil)
	for _, c := range []struct{ without, want string }{
		{webhook.HeaderWebhookID, key}, {webhook.HeaderIdempotencyKey, sending}, {webhook.HeaderGitLabWebhookUUID, event}, {webhook.HeaderGitLabEventUUID, ""},
	} {
		if all.Del(c.without); hook.Delivery(all) != c.want {
			t.Errorf("%q, want %q: %v", hook.Delivery(all), c.want, all)
		}
	}
	two := heads(webhook.HeaderGitLabEventUUID, event)
	two[webhook.HeaderIdempotencyKey] = []string{key, sending}
	if got := hook.Delivery(two); got != "" {
		t.Errorf("two ids: %q", got)
	}
	signed := heads(webhook.HeaderIdempotencyKey, key, webhook.HeaderWebhookID, "msg_1")
	if got := signedHook(t, signingKey).Delivery(signed); got != "msg_1" {
		t.Errorf("of a signed delivery %q counts, which isn't the signed one", got)
	}
	if got := signedHook(t, signingKey).Delivery(heads(webhook.HeaderIdempotencyKey, key)); got != "" {
		t.Errorf("an id that nobody signed: %q", got)
	}
}

// TestW8_GitLabToken: a token that is wrong, or off by one, is refused, and
// neither it nor the right one is seen anywhere.
func TestW8_GitLabToken(t *testing.T) {
	hook := gitlabHook(t, func(c *webhook.GitLabConfig) { c.Tokens = []string{"old-canary-token", secret} })
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{hook} })
	body := jsonOf(t, gitlabIssueHook("update"))
	try := func(tokens ...string) reply {
		h := gitlabHead("Issue Hook")
		h[webhook.HeaderGitLabToken] = tokens
		return r.deliver("gitlab", body, h)
	}
	for _, wrong := range []string{secret[:len(secret)-1] + "X", secret[1:], secret + "x", strings.ToUpper(secret), ""} {
		got := try(wrong)
		r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigMismatch)
		if wrong != "" && strings.Contains(got.text+r.log.String(), wrong) {
			t.Errorf("what was sent is shown: %s", got.text)
		}
	}
	r.wantRefused(try(), http.StatusUnauthorized, kernel.CodeSigMissing)
	r.wantRefused(try(secret, secret), http.StatusUnauthorized, kernel.CodeSigMalformed)
	for _, right := range []string{secret, "old-canary-token"} {
		if got := try(right); got.status != http.StatusAccepted {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	if shown := fmt.Sprintf("%+v%s", r.inbox.deliveries(), r.log); strings.Contains(shown, secret) || strings.Contains(shown, "canary-token") {
		t.Errorf("a token is stored or logged: %s", shown)
	}
	_, err := webhook.NewGitLabHook(webhook.GitLabConfig{Tokens: []string{secret}, Keys: []string{signingKey}, World: allowed})
	wantCode(t, err, kernel.CodeConfigInvalid)
}
