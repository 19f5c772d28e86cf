package webhook_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/webhook"
)

// FuzzW5_GitHubParse: whatever bytes are signed, the answer is an event that
// holds together, or a refusal for the JSON alone.
func FuzzW5_GitHubParse(f *testing.F) {
	for _, event := range []string{"issues", "issue_comment", "push", "pull_request", "installation", "repository", "", "Issues\n"} {
		f.Add(event, jsonOf(f, githubIssue("labeled")))
	}
	f.Add("issue_comment", jsonOf(f, githubComment("created")))
	f.Add("push", jsonOf(f, githubPush("refs/heads/writ/change/7")))
	f.Add("pull_request", jsonOf(f, githubPull("closed", "writ/change/7", object{"id": repoID})))
	f.Add("installation_repositories", []byte(`{"action":"added","installation":{"id":1},"repositories_added":[{"id":1}],"repositories_removed":[]}`))
	f.Add("issues", []byte(`{"action":"labeled","repository":{"id":1},"issue":{"number":-3,"title":"\u00e9","body":"\\\"\\\\"},"label":{"name":"\u0000"}}`))
	brokenJSON(f)
	hook := githubHook(f, nil)
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		e, err := hook.Parse(http.Header{http.CanonicalHeaderKey(webhook.HeaderGitHubEvent): {event}}, body)
		holdsTogether(t, event, body, e, err)
	})
}

// FuzzW5_GitLabParse: as GitHub's.
func FuzzW5_GitLabParse(f *testing.F) {
	for _, event := range []string{"Issue Hook", "Note Hook", "Push Hook", "Merge Request Hook", "", "issue hook"} {
		f.Add(event, jsonOf(f, gitlabIssueHook("update")))
	}
	f.Add("Note Hook", jsonOf(f, gitlabNoteHook("create")))
	f.Add("Push Hook", jsonOf(f, gitlabPush("refs/heads/writ/change/7")))
	f.Add("Merge Request Hook", jsonOf(f, gitlabMerge("merge", "writ/change/7", repoID)))
	f.Add("Issue Hook", []byte(`{"object_kind":"issue","project":{"id":1},"object_attributes":{"iid":1,"action":"open","title":"","labels":[{"title":"a"},{},[],null]}}`))
	brokenJSON(f)
	hook := gitlabHook(f, nil)
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		e, err := hook.Parse(http.Header{http.CanonicalHeaderKey(webhook.HeaderGitLabEvent): {event}}, body)
		holdsTogether(t, event, body, e, err)
	})
}

func brokenJSON(f *testing.F) {
	for _, body := range []string{`{"action":"a","action":"b"}`, strings.Repeat("[", 1000), "", " ", `{"a":"\ud800"}`, `{"a":1}{}`} {
		f.Add("", []byte(body))
	}
}

func holdsTogether(t *testing.T, event string, body []byte, e webhook.Event, err error) {
	t.Helper()
	var refused *webhook.Error
	_, broken := forge.Members(body, forge.MaxPayloadDepth)
	switch {
	case (err != nil) != (broken != nil):
		t.Fatalf("the shape of a body is no reason to refuse it, its JSON is: %v", err)
	case err != nil:
		if !errors.As(err, &refused) || !strings.HasPrefix(string(refused.Code), "webhook.body.") {
			t.Fatal(err)
		}
		return
	case (e.Ignored == "") != (len(e.Keys) == 1 || e.Access != nil):
		t.Fatalf("due and ignored, or neither: %+v", e)
	case e.Ignored != "" && (!e.Ignored.Known() || len(e.Keys)+len(e.Evidence) != 0 || e.Access != nil):
		t.Fatalf("ignored for no known reason, or not quite: %+v", e)
	case e.Kind != "" && e.Kind != event:
		t.Fatalf("%+v", e)
	}
	for _, k := range e.Keys {
		if k.World != world || k.Task <= 0 {
			t.Fatalf("%+v", e)
		}
	}
	for _, v := range e.Evidence {
		if v.Key != e.Keys[0] || !v.Digest.Valid() || v.Actor <= 0 || v.Ref == "" || strings.ContainsRune(v.Ref, 0) || v.At.UnixMilli() <= 0 {
			t.Fatalf("%+v", v)
		}
	}
	if e.Access != nil && slices.ContainsFunc(e.Access.Worlds, func(w string) bool { return w != world }) {
		t.Fatalf("%+v", e.Access)
	}
}
