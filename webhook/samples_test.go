package webhook_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

var update = flag.Bool("update", false, "rewrite the goldens of what was understood of the forges' samples")

// githubSamples is how many payloads the pinned version of
// @octokit/webhooks-examples has.
const githubSamples = 329

type githubSample struct {
	name string // issues[3]
	kind string
	body []byte
}

// loadGitHubSamples reads what npm has installed. Without it the test fails:
// passing without having looked would be worse.
func loadGitHubSamples(t *testing.T) (all []githubSample) {
	t.Helper()
	file := filepath.Join(githubtest.Tools(t), "node_modules", "@octokit", "webhooks-examples", "api.github.com", "index.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("GitHub's sample payloads are missing; make setup installs them: %v", err)
	}
	var events []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(data, &events); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for i, body := range e.Examples {
			all = append(all, githubSample{fmt.Sprintf("%s[%d]", e.Name, i), e.Name, body})
		}
	}
	if len(all) != githubSamples {
		t.Fatalf("%d samples, want the %d of the pinned version", len(all), githubSamples)
	}
	return all
}

// everybody allows each repository, by a world that tells its number.
func everybody(id int64) (string, bool) { return fmt.Sprintf("repository/%d", id), id > 0 }

// understood is a delivery in one line: numbers, digests and codes, and no text
// of the payload.
func understood(name string, got reply, e webhook.Event) string {
	line := []string{name, e.Action, fmt.Sprint(got.status), got.Outcome, string(e.Ignored)}
	for _, k := range e.Keys {
		line = append(line, fmt.Sprintf("%s#%d", k.World, k.Task))
	}
	for _, v := range e.Evidence {
		line = append(line, fmt.Sprintf("%s by %d at %s of %s", v.Kind, v.Actor, v.At.Format(time.RFC3339), v.Digest))
	}
	if a := e.Access; a != nil {
		line = append(line, fmt.Sprintf("access %d %s", a.Installation, strings.Join(a.Worlds, " ")))
	}
	return strings.TrimRight(strings.Join(line, " | "), " |") + "\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (rewrite with -update):\n%s", file, diff)
	}
}

// tell delivers a body, and is what the inbox was told of it. Whatever it is,
// the answer is 2xx.
func (r *receiver) tell(name, hook string, body []byte, head http.Header) (reply, webhook.Event) {
	r.t.Helper()
	before := len(r.inbox.deliveries())
	got := r.deliver(hook, body, head)
	all := r.inbox.deliveries()
	if got.status != http.StatusOK && got.status != http.StatusAccepted || len(all) != before+1 {
		r.t.Fatalf("%s: %d %s", name, got.status, got.text)
	}
	return got, all[before].Event
}

// ofTask makes the branch that a sample is about that of a task.
func ofTask(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, body); err != nil {
		t.Fatal(err)
	}
	return branchName.ReplaceAll(b.Bytes(), []byte(`"$1":"${2}writ/change/7"`))
}

// branchName is the branch of a push, pull request, check or merge request in
// the samples.
var branchName = regexp.MustCompile(`"(ref|head_branch|source_branch)":"(refs/heads/|)[^"/]*"`)

// TestGitHub_Samples: the 329 payloads that GitHub's own tools are tested with,
// signed, through the real server. Those that are used are understood, and as
// another reader reads them; the others are ignored.
func TestGitHub_Samples(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Hooks = []webhook.Hook{githubHook(t, func(g *webhook.GitHubConfig) { g.World = everybody })}
	})
	var out strings.Builder
	for _, s := range loadGitHubSamples(t) {
		got, e := r.tell(s.name, "github", s.body, githubHead(s.kind, s.body))
		out.WriteString(understood(s.name, got, e))
		if e.Ignored == kernel.CodeEventMismatch {
			t.Errorf("%s is taken for another event: %s", s.name, got.text)
		}
		asAnotherReads(t, s, e)
		switch s.kind {
		case "push", "pull_request", "check_run", "check_suite":
			moved := ofTask(t, s.body)
			got, e := r.tell(s.name, "github", moved, githubHead(s.kind, moved))
			out.WriteString(understood(s.name+" of a task", got, e))
		}
	}
	golden(t, "github-samples.txt", out.String())
}

// asAnotherReads holds what was understood of an issue's event against
// encoding/json's reading of it.
func asAnotherReads(t *testing.T, s githubSample, e webhook.Event) {
	t.Helper()
	var p struct {
		Issue struct {
			Number      int64
			Title, Body string
			PullRequest any `json:"pull_request"`
		}
		Repository, Sender struct{ ID int64 }
	}
	if err := json.Unmarshal(s.body, &p); err != nil || s.kind != "issues" && s.kind != "issue_comment" || e.Ignored != "" {
		return
	}
	want := webhook.Key{World: fmt.Sprintf("repository/%d", p.Repository.ID), Task: p.Issue.Number}
	if p.Issue.PullRequest != nil || !cmp.Equal(e.Keys, []webhook.Key{want}) {
		t.Errorf("%s: %+v, want %+v", s.name, e, want)
	}
	approves := e.Action == "labeled" || e.Action == "created"
	if approves != (len(e.Evidence) == 1) {
		t.Errorf("%s: %d pieces of evidence", s.name, len(e.Evidence))
	}
	for _, v := range e.Evidence {
		if digest, err := kernel.ApprovalDigest(p.Issue.Title, p.Issue.Body); err != nil || v.Digest != digest || v.Actor != p.Sender.ID {
			t.Errorf("%s: %+v", s.name, v)
		}
	}
}

// gitlabSamples are the events under which GitLab sends the payloads that
// go-gitlab is tested with.
var gitlabSamples = map[string]string{
	"build.json": "Job Hook", "deployment.json": "Deployment Hook", "feature_flag.json": "Feature Flag Hook",
	"group_merge_request.json": "Merge Request Hook", "issue.json": "Issue Hook", "job.json": "Job Hook", "member.json": "Member Hook",
	"merge_request.json": "Merge Request Hook", "note_commit.json": "Note Hook", "note_issue.json": "Note Hook",
	"note_merge_request.json": "Note Hook", "note_snippet.json": "Note Hook", "pipeline.json": "Pipeline Hook", "push.json": "Push Hook",
	"release.json": "Release Hook", "resource_access_token_group.json": "Resource Access Token Hook",
	"resource_access_token_project.json": "Resource Access Token Hook", "service_merge_request.json": "Service Hook",
	"subgroup.json": "Subgroup Hook", "tag_push.json": "Tag Push Hook", "wiki_page.json": "Wiki Page Hook",
}

// withoutNumber is a sample that was written by hand: it names its project, and
// gives no number of it, as GitLab does.
const withoutNumber = "group_merge_request.json"

// TestGitLab_Samples: the payloads that go-gitlab ships, as GitHub's: once with
// the secret token, once signed.
func TestGitLab_Samples(t *testing.T) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/xanzy/go-gitlab").Output()
	dir := filepath.Join(strings.TrimSpace(string(module)), "testdata", "webhooks")
	files, readErr := os.ReadDir(dir)
	if err != nil || readErr != nil || len(files) != len(gitlabSamples) {
		t.Fatalf("GitLab's samples: %d files, want %d: %v, %v", len(files), len(gitlabSamples), err, readErr)
	}
	byToken := start(t, func(c *webhook.Config) {
		c.Hooks = []webhook.Hook{gitlabHook(t, func(g *webhook.GitLabConfig) { g.World = everybody })}
	})
	byKey := start(t, func(c *webhook.Config) {
		c.Hooks = []webhook.Hook{gitlabHook(t, func(g *webhook.GitLabConfig) { g.World, g.Tokens, g.Keys = everybody, nil, []string{signingKey} })}
	})
	var out strings.Builder
	for _, f := range files {
		name, event := f.Name(), gitlabSamples[f.Name()]
		body, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || event == "" {
			t.Fatalf("%s: %v", name, err)
		}
		for about, body := range map[string][]byte{"": body, "of a task": ofTask(t, body)} {
			got, e := byToken.tell(name, "gitlab", body, gitlabHead(event))
			_, signed := byKey.tell(name, "gitlab", body, signedHead(event, noon, body))
			if signed.Signature = ""; !cmp.Equal(e, signed) {
				t.Errorf("%s: signed it is understood as %+v, else as %+v", name, signed, e)
			}
			if about == "" || strings.HasPrefix(event, "Push") || strings.HasPrefix(event, "Merge") {
				out.WriteString(understood(strings.TrimSpace(name+" "+about), got, e))
			}
			if (e.Ignored == kernel.CodeEventMismatch) != (name == withoutNumber) {
				t.Errorf("%s is taken for another event: %s", name, got.text)
			}
		}
	}
	lines := strings.SplitAfter(out.String(), "\n")
	slices.Sort(lines)
	golden(t, "gitlab-samples.txt", strings.Join(lines, ""))
}
