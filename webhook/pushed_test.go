package webhook_test

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// TestF7_PushToTheBase: a push to a branch that is no task's makes nothing due, and
// tells of the world where work may have been reverted; one of a repository that
// isn't governed tells nothing, nor does one to a task's branch, or of a tag.
func TestF7_PushToTheBase(t *testing.T) {
	push := func(ref string, repository int64) []webhook.Event {
		t.Helper()
		local := labeled()
		local = forge.Payload{Event: forge.PayloadPush, Ref: ref, Before: strings.Repeat("a", 40), After: strings.Repeat("b", 40), AtMS: local.AtMS, Repository: local.Repository, Sender: local.Sender}
		local.Repository.ID = repository
		var out []webhook.Event
		for _, parse := range []func() (webhook.Event, error){
			func() (webhook.Event, error) {
				return githubHook(t, nil).Parse(heads(webhook.HeaderGitHubEvent, "push"), jsonOf(t, with(githubPush(ref), "repository", object{"id": repository})))
			},
			func() (webhook.Event, error) {
				body := with(gitlabPush(ref), "project_id", repository, "project", object{"id": repository})
				return gitlabHook(t, nil).Parse(heads(webhook.HeaderGitLabEvent, "Push Hook"), jsonOf(t, body))
			},
			func() (webhook.Event, error) { return localHook(t).Parse(headOf("push"), encode(t, local)) },
		} {
			e, err := parse()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		return out
	}
	for name, c := range map[string]struct {
		ref        string
		repository int64
		world      string
		ignored    kernel.Code
	}{
		"the base":              {"refs/heads/main", repoID, world, kernel.CodeEventUnused},
		"a task's branch":       {"refs/heads/writ/change/7", repoID, "", ""},
		"a tag":                 {"refs/tags/v1", repoID, "", kernel.CodeEventUnused},
		"another's base branch": {"refs/heads/main", repoID + 1, "", kernel.CodeTargetNotAllowed},
	} {
		for _, e := range push(c.ref, c.repository) {
			if e.Pushed != c.world || e.Ignored != c.ignored || e.Ignored != "" && len(e.Keys) != 0 {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}
