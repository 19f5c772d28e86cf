package webhook

import (
	"slices"
	"strconv"

	"github.com/writbot/writ/kernel"
)

// actions are those of an event that are used; nil for an event without any.
type actions []string

func (a actions) has(action string) bool {
	return a == nil && action == "" || slices.Contains(a, action)
}

// githubEvent is an event that is used.
type githubEvent struct {
	// parts are the members that a body of this event has; of the others in
	// githubParts it has none.
	parts        []string
	actions      actions
	installation bool // it is of an installation, and of no single repository
	// task finds the task, 0 and why there is none. Nil: the event is of a whole
	// repository.
	task func(githubPayload) (int64, kernel.Code)
}

// githubParts tell bodies of different events apart.
var githubParts = []string{
	"issue", "comment", "pull_request", "review", "thread", "check_run", "check_suite", "ref", "before", "after",
	"repositories_added", "repositories_removed",
}

// githubOptional are parts that an event may have and doesn't need:
// pull_request has the commits of a synchronize.
var githubOptional = []string{"before", "after"}

var githubEvents = map[string]githubEvent{
	"issues": {
		parts: []string{"issue"}, task: githubPayload.issueTask,
		actions: actions{"opened", "edited", "deleted", "transferred", "closed", "reopened", "labeled", "unlabeled", "locked", "unlocked"},
	},
	"issue_comment": {
		parts: []string{"issue", "comment"}, task: githubPayload.commentTask,
		actions: actions{"created", "edited", "deleted"},
	},
	"push": {parts: []string{"ref", "before", "after"}, task: githubPayload.pushTask},
	"pull_request": {
		parts: []string{"pull_request"}, task: githubPayload.changeTask,
		actions: actions{"opened", "edited", "closed", "reopened", "synchronize"},
	},
	"pull_request_review": {
		parts: []string{"pull_request", "review"}, task: githubPayload.changeTask,
		actions: actions{"submitted", "edited", "dismissed"},
	},
	"pull_request_review_comment": {
		parts: []string{"pull_request", "comment"}, task: githubPayload.changeTask,
		actions: actions{"created", "edited", "deleted"},
	},
	"check_run":   {parts: []string{"check_run"}, task: githubPayload.checkRunTask, actions: actions{"rerequested"}},
	"check_suite": {parts: []string{"check_suite"}, task: githubPayload.checkSuiteTask, actions: actions{"rerequested"}},
	"repository": {
		actions: actions{"deleted", "archived", "unarchived", "edited", "renamed", "transferred", "publicized", "privatized"},
	},
	"installation": {
		installation: true,
		actions:      actions{"created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"},
	},
	"installation_repositories": {
		parts: []string{"repositories_added", "repositories_removed"}, installation: true,
		actions: actions{"added", "removed"},
	},
}

// githubPayload is what is read of a body.
type githubPayload struct {
	action       string
	repository   value
	sender       int64
	installation int64
	account      string // of the installation: a name
	label        value
	parts        map[string]value
}

func newGitHubPayload(doc value) githubPayload {
	top := doc.members(append([]string{"action", "repository", "sender", "installation", "label"}, githubParts...)...)
	installation := top["installation"].members("id", "account")
	return githubPayload{
		action: top["action"].word(), repository: top["repository"], sender: top["sender"].member("id").id(),
		installation: installation["id"].id(), account: installation["account"].member("login").word(), label: top["label"], parts: top,
	}
}

// of reports whether the body is one of the event.
func (p githubPayload) of(e githubEvent) bool {
	for _, name := range githubParts {
		needed, there := slices.Contains(e.parts, name), p.parts[name].there()
		if needed && !there || there && !needed && !slices.Contains(githubOptional, name) {
			return false
		}
	}
	if e.installation {
		return p.installation != 0 && !p.repository.there()
	}
	return p.repository.member("id").id() != 0 && (e.actions == nil) == (p.action == "")
}

// issueTask is the issue's number. A pull request has a number of the same row
// and is no task.
func (p githubPayload) issueTask() (int64, kernel.Code) {
	issue := p.parts["issue"].members("number", "pull_request")
	if issue["pull_request"].there() {
		return 0, kernel.CodeTargetIneligible
	}
	return issue["number"].id(), kernel.CodeEventMismatch
}

// commentTask is issueTask, and of a change the task that it says it delivers: GitHub
// doesn't tell of which branch it is. What the records say goes before, see [GitHubHook.read].
func (p githubPayload) commentTask() (int64, kernel.Code) {
	issue := p.parts["issue"].members("pull_request", "body")
	if !issue["pull_request"].there() {
		return p.issueTask()
	}
	return TaskOfChange(textOf(nil, issue["body"]).body.word()), kernel.CodeTargetIneligible
}

// changeNumber is that of the change whose conversation an event is of; 0 for an issue's.
func (p githubPayload) changeNumber() int64 {
	issue := p.parts["issue"].members("number", "pull_request")
	if !issue["pull_request"].there() {
		return 0
	}
	return issue["number"].id()
}

func (p githubPayload) pushTask() (int64, kernel.Code) {
	return taskOfRef(p.parts["ref"].word()), kernel.CodeEventUnused
}

// changeTask leaves out what comes from a fork: its branches may have any name.
func (p githubPayload) changeTask() (int64, kernel.Code) {
	head := p.parts["pull_request"].member("head").members("ref", "repo")
	if head["repo"].member("id").id() != p.repository.member("id").id() {
		return 0, kernel.CodeEventUnused
	}
	return taskOfRef("refs/heads/" + head["ref"].word()), kernel.CodeEventUnused
}

func (p githubPayload) checkRunTask() (int64, kernel.Code) {
	return suiteTask(p.parts["check_run"].member("check_suite"))
}

func (p githubPayload) checkSuiteTask() (int64, kernel.Code) {
	return suiteTask(p.parts["check_suite"])
}

// suiteTask is the task whose branch was checked; it is null for a fork's.
func suiteTask(suite value) (int64, kernel.Code) {
	return taskOfRef("refs/heads/" + suite.member("head_branch").word()), kernel.CodeEventUnused
}

// act is what may approve: a label that was set, a comment that was made.
func (p githubPayload) act(kind string) (act, bool) {
	issue := p.parts["issue"].members("title", "body", "updated_at")
	a := act{actor: p.sender, text: textOf(issue["title"], issue["body"])}
	switch {
	case kind == "issues" && p.action == "labeled":
		a.kind, a.ref, a.at = EvidenceLabel, p.label.member("name").word(), issue["updated_at"]
	case kind == "issue_comment" && p.action == "created" && !p.parts["issue"].member("pull_request").there():
		comment := p.parts["comment"].members("id", "created_at")
		a.kind, a.at = EvidenceComment, comment["created_at"]
		if id := comment["id"].id(); id != 0 {
			a.ref = strconv.FormatInt(id, 10)
		}
	default:
		return act{}, false
	}
	return a, true
}
