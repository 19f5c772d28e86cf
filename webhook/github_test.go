package webhook_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

func githubPush(ref string) object {
	return object{"ref": ref, "before": "a", "after": "b", "repository": object{"id": repoID}, "sender": object{"id": 2}}
}

func githubPull(action, branch string, repo any) object {
	return object{
		"action": action, "number": 5, "repository": object{"id": repoID}, "sender": object{"id": 2},
		"pull_request": object{"number": 5, "head": object{"ref": branch, "repo": repo}},
	}
}

func githubInstallation(action string, more ...any) object {
	return with(object{"action": action, "installation": object{"id": 77}, "sender": object{"id": 2}}, more...)
}

// TestGitHub_WhomItConcerns: the task, the evidence and the reason of each event.
func TestGitHub_WhomItConcerns(t *testing.T) {
	ours := object{"id": repoID}
	suite := func(action, branch string) object {
		return object{"action": action, "repository": ours, "sender": object{"id": 2}, "check_suite": object{"head_branch": branch}}
	}
	run := with(suite("rerequested", ""), "check_suite", absent, "check_run", object{"check_suite": object{"head_branch": "writ/change/7"}})
	for _, c := range []struct {
		name, event string
		body        object
		task        int64
		evidence    string
		ignored     kernel.Code
	}{
		{"labeled", "issues", githubIssue("labeled"), 3, "label writ", ""},
		{"unlabeled", "issues", githubIssue("unlabeled"), 3, "", ""},
		{"opened", "issues", githubIssue("opened"), 3, "", ""},
		{"edited", "issues", githubIssue("edited"), 3, "", ""},
		{"closed", "issues", githubIssue("closed"), 3, "", ""},
		{"transferred", "issues", githubIssue("transferred"), 3, "", ""},
		{"deleted", "issues", githubIssue("deleted"), 3, "", ""},
		{"pinned", "issues", githubIssue("pinned"), 0, "", kernel.CodeEventUnused},
		{"a label on a pull request", "issues", with(githubIssue("labeled"), "issue.pull_request", object{"url": "u"}), 0, "", kernel.CodeTargetIneligible},
		{"comment", "issue_comment", githubComment("created"), 3, "comment 4", ""},
		{"comment edited", "issue_comment", githubComment("edited"), 3, "", ""},
		{"comment deleted", "issue_comment", githubComment("deleted"), 3, "", ""},
		{"comment on a pull request", "issue_comment", with(githubComment("created"), "issue.pull_request", object{}), 0, "", kernel.CodeTargetIneligible},
		{"comment on a change", "issue_comment", with(githubComment("created"), "issue.pull_request", object{}, "issue.body", "<!-- writ:task:host/1:7 run=r1 -->\nIt is done."), 7, "", ""},
		{"comment on a change that quotes one", "issue_comment", with(githubComment("created"), "issue.pull_request", object{}, "issue.body", "It copies\n<!-- writ:task:host/1:7 run=r1 -->"), 0, "", kernel.CodeTargetIneligible},
		{"comment on a change of no task", "issue_comment", with(githubComment("created"), "issue.pull_request", object{}, "issue.body", "<!-- writ:task:host/1:9999999999999999999 run=r1 -->"), 0, "", kernel.CodeTargetIneligible},
		{"comment on a change that the records know", "issue_comment", with(githubComment("created"), "issue.pull_request", object{}, "issue.number", 41, "issue.body", "It is done."), 9, "", ""},
		{"comment on such a change with a forged marker", "issue_comment", with(githubComment("created"), "issue.pull_request", object{}, "issue.number", 41, "issue.body", "<!-- writ:task:host/1:7 run=r1 -->\nIt is done."), 9, "", ""},
		{"comment on an issue of that number", "issue_comment", with(githubComment("created"), "issue.number", 41), 41, "comment 4", ""},
		{"the marker in an issue", "issue_comment", with(githubComment("edited"), "issue.body", "<!-- writ:task:host/1:7 run=r1 -->"), 3, "", ""},
		{"review", "pull_request_review", with(githubPull("submitted", "writ/change/7", ours), "review", object{"id": 5}), 7, "", ""},
		{"review of somebody's", "pull_request_review", with(githubPull("submitted", "fix", ours), "review", object{"id": 5}), 0, "", kernel.CodeEventUnused},
		{"comment on a line", "pull_request_review_comment", with(githubPull("created", "writ/change/7", ours), "comment", object{"id": 5}), 7, "", ""},
		{"comment on a line of a fork", "pull_request_review_comment", with(githubPull("created", "writ/change/7", object{"id": 99}), "comment", object{"id": 5}), 0, "", kernel.CodeEventUnused},
		{"push to a change", "push", githubPush("refs/heads/writ/change/7"), 7, "", ""},
		{"push to a state ref", "push", githubPush("refs/heads/writ/task/8"), 8, "", ""},
		{"push to the base", "push", githubPush("refs/heads/main"), 0, "", kernel.CodeEventUnused},
		{"a tag of that name", "push", githubPush("refs/tags/writ/change/7"), 0, "", kernel.CodeEventUnused},
		{"merged", "pull_request", githubPull("closed", "writ/change/7", ours), 7, "", ""},
		{"a reviewer's push", "pull_request", with(githubPull("synchronize", "writ/change/7", ours), "before", "a", "after", "b"), 7, "", ""},
		{"from a fork", "pull_request", githubPull("opened", "writ/change/7", object{"id": 99}), 0, "", kernel.CodeEventUnused},
		{"from a fork that is gone", "pull_request", githubPull("opened", "writ/change/7", nil), 0, "", kernel.CodeEventUnused},
		{"assigned", "pull_request", githubPull("assigned", "writ/change/7", ours), 0, "", kernel.CodeEventUnused},
		{"suite again", "check_suite", suite("rerequested", "writ/change/7"), 7, "", ""},
		{"suite done", "check_suite", suite("completed", "writ/change/7"), 0, "", kernel.CodeEventUnused},
		{"run again", "check_run", run, 7, "", ""},
		{"a label of the repository", "label", githubIssue("deleted"), 0, "", kernel.CodeEventUnused},
		{"a ping", "ping", object{"zen": "z", "hook_id": 1}, 0, "", kernel.CodeEventUnused},
		{"no event at all", "", githubIssue("labeled"), 0, "", kernel.CodeEventUnused},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := githubHook(t, recorded).Parse(heads(webhook.HeaderGitHubEvent, c.event), jsonOf(t, c.body))
			if err != nil {
				t.Fatal(err)
			}
			wantConcerned(t, e, c.task, c.evidence, c.ignored)
		})
	}
}

// recorded has the records know one change.
func recorded(c *webhook.GitHubConfig) {
	c.Change = func(of string, number int64) int64 {
		if of == world && number == 41 {
			return 9
		}
		return 0
	}
}

// wantConcerned checks that an event concerns one task, or none for a reason.
func wantConcerned(t *testing.T, e webhook.Event, task int64, evidence string, ignored kernel.Code) {
	t.Helper()
	var keys []webhook.Key
	if task != 0 {
		keys = []webhook.Key{{World: world, Task: task}}
	}
	var seen []string
	for _, v := range e.Evidence {
		seen = append(seen, v.Kind+" "+v.Ref)
		if v.Key != keys[0] || v.Actor != 2 || v.At.Unix() != 1_800_000_000 {
			t.Errorf("%+v", v)
		}
		if want, err := kernel.ApprovalDigest("Add fails", "canary-body-of-the-issue"); err != nil || v.Digest != want {
			t.Errorf("digest %s, want %s", v.Digest, want)
		}
	}
	if !cmp.Equal(e.Keys, keys) || strings.Join(seen, ", ") != evidence || e.Ignored != ignored {
		t.Errorf("%+v", e)
	}
}

// TestGitHub_Access: what happens to an installation or a repository is told by
// the worlds that it names.
func TestGitHub_Access(t *testing.T) {
	repositories := func(ids ...int) []object {
		list := []object{}
		for _, id := range ids {
			list = append(list, object{"id": id, "full_name": "o/n"})
		}
		return list
	}
	for _, c := range []struct {
		name, event string
		body        object
		want        *webhook.Access
		ignored     kernel.Code
	}{
		{"suspended", "installation", githubInstallation("suspend"), &webhook.Access{Installation: 77}, ""},
		{"taken away", "installation", githubInstallation("deleted", "repositories", repositories(repoID)), &webhook.Access{Installation: 77}, ""},
		{"of another kind", "installation", githubInstallation("renamed"), nil, kernel.CodeEventUnused},
		{"removed", "installation_repositories",
			githubInstallation("removed", "repositories_added", repositories(), "repositories_removed", repositories(99, repoID, repoID)),
			&webhook.Access{Installation: 77, Worlds: []string{world}}, ""},
		{"somebody else's", "installation_repositories",
			githubInstallation("added", "repositories_added", repositories(99), "repositories_removed", repositories()), nil, kernel.CodeTargetNotAllowed},
		{"archived", "repository", object{"action": "archived", "repository": object{"id": repoID}}, &webhook.Access{Worlds: []string{world}}, ""},
		{"made", "repository", object{"action": "created", "repository": object{"id": repoID}}, nil, kernel.CodeEventUnused},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := githubHook(t, nil).Parse(heads(webhook.HeaderGitHubEvent, c.event), jsonOf(t, c.body))
			if err != nil || e.Ignored != c.ignored || len(e.Keys) != 0 {
				t.Errorf("%+v, %v", e, err)
			}
			if diff := cmp.Diff(c.want, e.Access); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestI3_GitHubEvidence: what the payload doesn't show is no evidence, and the
// task is due all the same.
func TestI3_GitHubEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		body object
		text string // of the issue; "none" if there is no evidence
	}{
		"a null body is an empty one":       {with(githubIssue("labeled"), "issue.body", nil), ""},
		"a body that is left out":           {with(githubIssue("labeled"), "issue.body", absent), "none"},
		"a body that is no text":            {with(githubIssue("labeled"), "issue.body", 1), "none"},
		"a title that is left out":          {with(githubIssue("labeled"), "issue.title", absent), "none"},
		"a null title":                      {with(githubIssue("labeled"), "issue.title", nil), "none"},
		"an event of nobody":                {with(githubIssue("labeled"), "sender", nil), "none"},
		"without a time":                    {with(githubIssue("labeled"), "issue.updated_at", "then"), "none"},
		"a label without a name":            {with(githubIssue("labeled"), "label.name", ""), "none"},
		"a label that can't be stored":      {with(githubIssue("labeled"), "label.name", "a\x00b"), "none"},
		"a body larger than any":            {with(githubIssue("labeled"), "issue.body", strings.Repeat("x", 4<<20)), "none"},
		"a title larger than any":           {with(githubIssue("labeled"), "issue.title", strings.Repeat("x", 4<<20)), "none"},
		"a label longer than any":           {with(githubIssue("labeled"), "label.name", strings.Repeat("x", 5000)), "none"},
		"escapes are read as what they are": {with(githubIssue("labeled"), "issue.body", "\r\n<>&\u2028\U0001f600\"\\"), "\r\n<>&\u2028\U0001f600\"\\"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := githubHook(t, nil).Parse(heads(webhook.HeaderGitHubEvent, "issues"), jsonOf(t, c.body))
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

// TestW7_GitHubOtherEvent: the event's header isn't signed. A captured body
// under another one is recorded and left alone.
func TestW7_GitHubOtherEvent(t *testing.T) {
	bodies := map[string]object{
		"issues":        githubIssue("opened"),
		"issue_comment": githubComment("edited"),
		"push":          githubPush("refs/heads/writ/change/7"),
		"pull_request":  with(githubPull("synchronize", "writ/change/7", object{"id": repoID}), "before", "a", "after", "b"),
		"check_run":     {"action": "rerequested", "repository": object{"id": repoID}, "check_run": object{"check_suite": object{"head_branch": "writ/change/7"}}},
		"check_suite":   {"action": "rerequested", "repository": object{"id": repoID}, "check_suite": object{"head_branch": "writ/change/7"}},
		"installation":  githubInstallation("suspend"),
		"installation_repositories": githubInstallation("added", "repositories_added", []object{{"id": repoID}},
			"repositories_removed", []object{}),
		"repository": {"action": "edited", "repository": object{"id": repoID}, "sender": object{"id": 2}},
	}
	hook := githubHook(t, nil)
	for sent, body := range bodies {
		with(body, "installation", object{"id": 77}) // every delivery of an App has it
		for claimed := range bodies {
			e, err := hook.Parse(heads(webhook.HeaderGitHubEvent, claimed), jsonOf(t, body))
			want := kernel.CodeEventMismatch
			if sent == claimed {
				want = ""
			}
			if err != nil || e.Ignored != want || want != "" && (len(e.Keys)+len(e.Evidence) > 0 || e.Access != nil) {
				t.Errorf("%s as %s: %+v, %v", sent, claimed, e, err)
			}
		}
	}
	for name, body := range map[string]object{
		"no issue": with(githubIssue("labeled"), "issue", nil), "no number": with(githubIssue("labeled"), "issue.number", absent),
		"a number that is a fraction": with(githubIssue("labeled"), "issue.number", 3.5), "no repository": with(githubIssue("labeled"), "repository", absent),
		"an issue that is a list": with(githubIssue("labeled"), "issue", []int{1}), "no action": with(githubIssue("labeled"), "action", absent),
		"another case": with(githubIssue("labeled"), "issue", absent, "Issue", object{"number": 3}),
	} {
		e, err := hook.Parse(heads(webhook.HeaderGitHubEvent, "issues"), jsonOf(t, body))
		if err != nil || e.Ignored != kernel.CodeEventMismatch || len(e.Keys) != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// TestI13_GitHubByNumber: repository and installation count by their numbers,
// whatever names and addresses stand beside them.
func TestI13_GitHubByNumber(t *testing.T) {
	stranger := with(githubIssue("labeled"), "repository", object{"id": repoID + 1, "full_name": "o/n", "clone_url": "https://github.com/o/n.git"})
	ours := with(githubIssue("labeled"), "installation", object{"id": 77})
	one := func(c *webhook.GitHubConfig) { c.Installation = func(id int64) bool { return id == 77 } }
	for _, c := range []struct {
		name    string
		body    object
		change  func(*webhook.GitHubConfig)
		ignored kernel.Code
	}{
		{"another repository by the name", stranger, nil, kernel.CodeTargetNotAllowed},
		{"our installation", ours, one, ""},
		{"another installation", with(githubIssue("labeled"), "installation", object{"id": 78}), one, kernel.CodeTargetNotAllowed},
		{"no installation", githubIssue("labeled"), one, kernel.CodeTargetNotAllowed},
		{"another App's installation goes", with(githubInstallation("deleted"), "installation.id", 78), one, kernel.CodeTargetNotAllowed},
	} {
		event := "issues"
		if c.body["issue"] == nil {
			event = "installation"
		}
		e, err := githubHook(t, c.change).Parse(heads(webhook.HeaderGitHubEvent, event), jsonOf(t, c.body))
		if err != nil || e.Ignored != c.ignored || (c.ignored == "") != (len(e.Keys) == 1) || e.Access != nil {
			t.Errorf("%s: %+v, %v", c.name, e, err)
		}
	}
}

// TestI6_GitHubOwnActs: a bot's own acts are no news. With a personal token they
// can't be told from its owner's, whose label must count.
func TestI6_GitHubOwnActs(t *testing.T) {
	for name, c := range map[string]struct {
		self     int64
		personal bool
		ignored  kernel.Code
	}{
		"the bot itself":     {2, false, kernel.CodeRecursion},
		"somebody else":      {3, false, ""},
		"with a person's":    {2, true, ""},
		"without an account": {0, false, ""},
	} {
		hook := githubHook(t, func(g *webhook.GitHubConfig) { g.Self, g.Personal = c.self, c.personal })
		e, err := hook.Parse(heads(webhook.HeaderGitHubEvent, "issues"), jsonOf(t, githubIssue("labeled")))
		if err != nil || e.Ignored != c.ignored || (c.ignored == "") != (len(e.Keys) == 1 && len(e.Evidence) == 1) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// TestW2_GitHubSignature: through the real server, each way in which GitHub's
// signature can fail.
func TestW2_GitHubSignature(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{githubHook(t, nil)} })
	body := jsonOf(t, githubIssue("labeled"))
	good := sign(secret, body)
	for name, c := range map[string]struct {
		spoil func(http.Header)
		code  kernel.Code
	}{
		"missing (W1)":                {func(h http.Header) { h.Del(webhook.HeaderSignature) }, kernel.CodeSigMissing},
		"the old header alone":        {func(h http.Header) { h.Del(webhook.HeaderSignature); h.Set("X-Hub-Signature", "sha1=00") }, kernel.CodeSigAlgo},
		"SHA-1 in the new header":     {func(h http.Header) { h.Set(webhook.HeaderSignature, "sha1="+strings.Repeat("0", 40)) }, kernel.CodeSigAlgo},
		"the right sum, another name": {func(h http.Header) { h.Set(webhook.HeaderSignature, "sha512="+good[7:]) }, kernel.CodeSigAlgo},
		"two of them (W4)":            {func(h http.Header) { h.Add(webhook.HeaderSignature, good) }, kernel.CodeSigMalformed},
		"of another secret":           {func(h http.Header) { h.Set(webhook.HeaderSignature, sign("other", body)) }, kernel.CodeSigMismatch},
		"of an empty secret":          {func(h http.Header) { h.Set(webhook.HeaderSignature, sign("", body)) }, kernel.CodeSigMismatch},
		"of other bytes (W4)":         {func(h http.Header) { h.Set(webhook.HeaderSignature, sign(secret, append(slices.Clone(body), ' '))) }, kernel.CodeSigMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			h := githubHead("issues", body)
			c.spoil(h)
			r.wantRefused(r.deliver("github", body, h), http.StatusUnauthorized, c.code)
		})
	}
	r.t = t
	both := githubHead("issues", body)
	both.Set("X-Hub-Signature", "sha1=00") // GitHub sends it as well; it counts for nothing
	if got := r.deliver("github", body, both); got.status != http.StatusAccepted {
		t.Errorf("%d %s", got.status, got.text)
	}
	all := r.inbox.deliveries()
	if len(all) != 1 || len(all[0].Event.Evidence) != 1 || all[0].Event.Signature != good || string(all[0].Body) != string(body) {
		t.Errorf("%+v", all)
	}
}

// TestW3_ForgesWithoutSecret: neither hook is made without a secret.
func TestW3_ForgesWithoutSecret(t *testing.T) {
	for name, secrets := range map[string][]string{"none": nil, "empty": {""}, "blank": {" \n"}, "one of two": {secret, ""}} {
		t.Run(name, func(t *testing.T) {
			_, err := webhook.NewGitHubHook(webhook.GitHubConfig{Secrets: secrets, World: allowed})
			wantCode(t, err, kernel.CodeSecretEmpty)
			_, err = webhook.NewGitLabHook(webhook.GitLabConfig{Tokens: secrets, World: allowed})
			wantCode(t, err, kernel.CodeSecretEmpty)
			_, err = webhook.NewGitLabHook(webhook.GitLabConfig{Keys: append([]string{}, secrets...), World: allowed})
			if len(secrets) != 2 { // the first of two is no key
				wantCode(t, err, kernel.CodeSecretEmpty)
			}
		})
	}
	_, err := webhook.NewGitHubHook(webhook.GitHubConfig{Secrets: []string{secret}})
	wantCode(t, err, kernel.CodeConfigInvalid)
	_, err = webhook.NewGitLabHook(webhook.GitLabConfig{Tokens: []string{secret}})
	wantCode(t, err, kernel.CodeConfigInvalid)
}

// TestW6_GitHubDelivery: a GUID is one id however it is written, an emulator's
// number is one too, and what is none is refused.
func TestW6_GitHubDelivery(t *testing.T) {
	hook := githubHook(t, nil)
	guid := uuid.NewString()
	for given, want := range map[string]string{
		guid: guid, strings.ToUpper(guid): guid, "42": "42", "delivery_7": "delivery_7",
		"": "", "a b": "", "-x": "", strings.Repeat("x", 129): "", "{" + guid + "}": "",
	} {
		if got := hook.Delivery(heads(webhook.HeaderGitHubDelivery, given)); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
	if got := hook.Delivery(http.Header{"X-Github-Delivery": {"1", "2"}}); got != "" {
		t.Errorf("two ids: %q", got)
	}
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{hook} })
	body := jsonOf(t, githubIssue("labeled"))
	for i, outcome := range []string{"accepted", "duplicate"} {
		head := githubHead("issues", body)
		head.Set(webhook.HeaderGitHubDelivery, guid)
		if got := r.deliver("github", body, head); got.status != http.StatusAccepted || got.Outcome != outcome || got.Delivery != guid {
			t.Errorf("delivery %d: %d %s", i, got.status, got.text)
		}
	}
	if all := r.inbox.deliveries(); len(all) != 2 || len(all[1].Event.Keys) != 1 {
		t.Error("a duplicate must make its task due as well")
	}
	other := jsonOf(t, githubIssue("edited"))
	for i, c := range []struct {
		body    []byte
		outcome string
	}{{body, "accepted"}, {other, "accepted"}, {body, "duplicate"}, {other, "duplicate"}} {
		event := githubHead("issues", c.body)
		event.Set(webhook.HeaderGitHubDelivery, "1800000000000") // an emulator's: the time
		if got := r.deliver("github", c.body, event); got.status != http.StatusAccepted || got.Outcome != c.outcome {
			t.Errorf("delivery %d of the same millisecond: %d %s", i, got.status, got.text)
		}
	}
}

// TestW5_ForgesRefuseBrokenJSON: depth and keys that stand twice, also where no
// hook looks.
func TestW5_ForgesRefuseBrokenJSON(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{githubHook(t, nil), gitlabHook(t, nil)} })
	for body, code := range map[string]kernel.Code{
		`{"action":"labeled","action":"opened"}`:                          kernel.CodeBodyDuplicate,
		`{"x":[{"a":1,"\u0061":2}]}`:                                      kernel.CodeBodyDuplicate,
		strings.Repeat("[", 100_000):                                      kernel.CodeBodyDepth,
		strings.Repeat("[", 65) + strings.Repeat("]", 65):                 kernel.CodeBodyDepth,
		`{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`: kernel.CodeBodyDepth,
		`{"action":`:       kernel.CodeBodyMalformed,
		`{"a":"\ud800"}`:   kernel.CodeBodyMalformed,
		"{\"a\":\"\xff\"}": kernel.CodeBodyMalformed,
		``:                 kernel.CodeBodyMalformed,
	} {
		r.wantRefused(r.deliver("github", []byte(body), githubHead("issues", []byte(body))), http.StatusBadRequest, code)
		r.wantRefused(r.deliver("gitlab", []byte(body), gitlabHead("Issue Hook")), http.StatusBadRequest, code)
	}
	for _, odd := range []string{`[]`, `null`, `1`, `"x"`, `{}`, " \n{} ", strings.Repeat("[", 64) + strings.Repeat("]", 64)} {
		got := r.deliver("github", []byte(odd), githubHead("issues", []byte(odd)))
		if got.status != http.StatusOK || got.Code != string(kernel.CodeEventMismatch) {
			t.Errorf("%s: %d %s", odd, got.status, got.text)
		}
	}
}
