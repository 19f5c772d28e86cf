package webhook

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/kernel"
)

// The headers of GitHub, beside [HeaderSignature].
const (
	HeaderGitHubEvent    = "X-GitHub-Event"
	HeaderGitHubDelivery = "X-GitHub-Delivery"
)

// GitHubConfig is what a [GitHubHook] needs.
type GitHubConfig struct {
	// Secrets sign deliveries. Each of them is enough, so that a secret can be
	// replaced: give the old and the new one until GitHub has the new one.
	Secrets []string
	// Self is the account that writ acts as, by its number: an App's bot user, or
	// the owner of a personal token. 0 for none. Its acts are no news.
	Self int64
	// Personal says that Self is a person whose token writ was given. That
	// person's labels and commands must count, so nothing is left out by Self.
	Personal bool
	// World looks up a repository, by GitHub's number of it, among those that the
	// operator allowed.
	World func(repository int64) (world string, allowed bool)
	// Installation says whether deliveries of an App's installation count, by its
	// number; 0 stands for a delivery that names none. Nil: all do.
	Installation func(id int64) bool
	// Installed looks up the worlds that an event of an installation concerns, by
	// the installation's number and the name of its account; 0 asks for the account's
	// worlds that aren't known by a number yet. Anybody may install a public App: none
	// makes nothing due. The name is a hint alone; it decides what
	// is asked of GitHub, and nothing else. Nil: all of them.
	Installed func(installation int64, account string) (worlds []string)
	// Change looks up the task that a change delivers, by the change's number, in the
	// records of a world; 0 where they don't know it. Nil: they know none.
	Change func(world string, number int64) (task int64)
}

// GitHubHook is /hooks/github, for an App and for the hook of one repository or
// organisation alike. It uses
//
//   - issues: opened, edited, deleted, transferred, closed, reopened, labeled
//     (evidence), unlabeled, locked, unlocked
//   - issue_comment, on issues: created (evidence), edited, deleted; on changes of which
//     the records or their description say which task they deliver, the same without
//     evidence
//   - push: of a task's branches. A push to any other branch makes nothing due by
//     itself, see [Event.Pushed]
//   - pull_request, from a task's branch: opened, edited, closed, reopened,
//     synchronize
//   - pull_request_review and pull_request_review_comment, from a task's branch:
//     submitted, edited, dismissed; created, edited, deleted
//   - check_run and check_suite, on a task's branch: rerequested
//   - installation, installation_repositories, repository: an [Access]
//
// and ignores everything else with 2xx. A label that is taken out of a whole
// repository makes nothing due.
type GitHubHook struct {
	target
	signature    *bodySignature
	installation func(int64) bool
	installed    func(int64, string) []string
	change       func(string, int64) int64
}

// NewGitHubHook fails with
//
//   - config.secret.empty where there is no secret, or an empty one
//   - config.invalid where there is no World
func NewGitHubHook(c GitHubConfig) (*GitHubHook, error) {
	h := &GitHubHook{target: target{c.World, c.Self, c.Personal}, installation: c.Installation, installed: c.Installed, change: c.Change}
	if err := h.check(); err != nil {
		return nil, err
	}
	var err error
	h.signature, err = newBodySignature(c.Secrets)
	return h, err
}

// Name is github.
func (h *GitHubHook) Name() string { return "github" }

// Delivery is the id of [HeaderGitHubDelivery]. GitHub's is a GUID and stays the
// same when a delivery is sent again. Emulators send a number or the time, which
// two deliveries may share: to what is no GUID the beginning of the signature is
// added, so that only the same bytes are the same delivery. It may be any word of
// up to 100 letters, digits, dots, colons, dashes and underscores.
func (h *GitHubHook) Delivery(head http.Header) string {
	id := one(head, HeaderGitHubDelivery)
	sum, signed := strings.CutPrefix(one(head, HeaderSignature), algorithm+"=")
	if isGUID(id) || id == "" || !signed {
		return idOf(id)
	}
	return idOf(id + "." + sum[:min(len(sum), sumDigits)])
}

// sumDigits are enough of a signature to tell bodies apart.
const sumDigits = 16

// Verify checks the signature: HMAC-SHA256 over the raw body, nothing less.
func (h *GitHubHook) Verify(head http.Header, body []byte) error {
	return h.signature.Verify(head, body)
}

// githubKind is the form of an event's name.
var githubKind = lazyregexp.New(`^[a-z][a-z0-9_]{0,63}$`)

// Parse reads one event. The event's header isn't signed: a body that hasn't
// the parts of that event, or has those of another one, is
// webhook.event.mismatch, recorded and left alone. Its only errors are those of
// JSON. Repositories are known by their number; no name and no URL is read.
func (h *GitHubHook) Parse(head http.Header, body []byte) (Event, error) {
	top, err := document(body, githubMembers...)
	if err != nil {
		return Event{}, err
	}
	e := Event{Signature: one(head, HeaderSignature)}
	if kind := one(head, HeaderGitHubEvent); githubKind().MatchString(kind) {
		e.Kind = kind
	}
	p := newGitHubPayload(top)
	if actionForm().MatchString(p.action) {
		e.Action = p.action
	}
	if e.Ignored = h.read(&e, p); e.Ignored != "" {
		e.Keys, e.Evidence, e.Access = nil, nil, nil
	}
	return e, nil
}

// read fills in what an event concerns, or says why nothing.
func (h *GitHubHook) read(e *Event, p githubPayload) kernel.Code {
	use, known := githubEvents[e.Kind]
	switch {
	case !known:
		return kernel.CodeEventUnused
	case !p.of(use):
		return kernel.CodeEventMismatch
	case !use.actions.has(p.action):
		return kernel.CodeEventUnused
	case h.installation != nil && !h.installation(p.installation):
		return kernel.CodeTargetNotAllowed
	case use.installation:
		return h.access(e, p)
	}
	world, allowed := h.world(p.repository)
	switch {
	case !allowed:
		return kernel.CodeTargetNotAllowed
	case h.isOwn(p.sender):
		return kernel.CodeRecursion
	case use.task == nil:
		e.Access = &Access{Installation: p.installation, Worlds: []string{world}}
		return ""
	}
	task, why := use.task(p)
	if n := p.changeNumber(); e.Kind == "issue_comment" && n != 0 && h.change != nil { // the records are asked of changes alone
		task = cmp.Or(h.change(world, n), task)
	}
	if task == 0 {
		if e.Kind == "push" {
			e.Pushed = pushedTo(p.parts["ref"].word(), world)
		}
		return why
	}
	k := Key{World: world, Task: task}
	e.Keys = []Key{k}
	if a, ok := p.approval(e.Kind); ok {
		e.Evidence = a.evidence(k)
	}
	return ""
}

// access reads what happened to an installation.
func (h *GitHubHook) access(e *Event, p githubPayload) kernel.Code {
	e.Access = &Access{Installation: p.installation}
	switch {
	case p.parts["repositories_added"].there():
		e.Access.Worlds = h.listedWorlds(p)
	case h.installed == nil:
		return ""
	default:
		e.Access.Worlds = h.installed(p.installation, p.account)
	}
	if len(e.Access.Worlds) == 0 {
		return kernel.CodeTargetNotAllowed
	}
	return ""
}

// listedWorlds are the worlds whose repositories were added to an installation or taken
// from it, and those of its account that aren't known by a number yet.
func (h *GitHubHook) listedWorlds(p githubPayload) (worlds []string) {
	seen := map[string]bool{}
	add := func(world string) {
		if !seen[world] {
			seen[world] = true
			worlds = append(worlds, world)
		}
	}
	for _, list := range []string{"repositories_added", "repositories_removed"} {
		for repository := range p.parts[list].items() {
			if world, allowed := h.world(repository.member("id").id()); allowed {
				add(world)
			}
		}
	}
	if h.installed != nil {
		for _, world := range h.installed(0, p.account) {
			add(world)
		}
	}
	return worlds
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
	repository   int64
	sender       int64
	installation int64
	account      string           // of the installation: a name
	issue        map[string]value // its members
	parts        map[string]value
}

// githubMembers are the members of a body that are read.
var githubMembers = slices.Concat(githubParts, []string{"action", "repository", "sender", "installation", "label"})

func newGitHubPayload(top map[string]value) githubPayload {
	installation := top["installation"].members("id", "account")
	return githubPayload{
		action: top["action"].word(), repository: top["repository"].member("id").id(), sender: top["sender"].member("id").id(),
		installation: installation["id"].id(), account: installation["account"].member("login").word(),
		issue: top["issue"].members("number", "pull_request", "title", "body", "updated_at"), parts: top,
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
		return p.installation != 0 && !p.parts["repository"].there()
	}
	return p.repository != 0 && (e.actions == nil) == (p.action == "")
}

// issueTask is the issue's number. A pull request has a number of the same row
// and is no task.
func (p githubPayload) issueTask() (int64, kernel.Code) {
	if p.issue["pull_request"].there() {
		return 0, kernel.CodeTargetIneligible
	}
	return p.issue["number"].id(), kernel.CodeEventMismatch
}

// commentTask is issueTask, and of a change the task that it says it delivers: GitHub
// doesn't tell of which branch it is. What the records say goes before, see [GitHubHook.read].
func (p githubPayload) commentTask() (int64, kernel.Code) {
	if !p.issue["pull_request"].there() {
		return p.issueTask()
	}
	return marker.Task(bounded(p.issue["body"]).word()), kernel.CodeTargetIneligible
}

// changeNumber is that of the change whose conversation an event is of; 0 for an issue's.
func (p githubPayload) changeNumber() int64 {
	if !p.issue["pull_request"].there() {
		return 0
	}
	return p.issue["number"].id()
}

func (p githubPayload) pushTask() (int64, kernel.Code) {
	return taskOfRef(p.parts["ref"].word()), kernel.CodeEventUnused
}

// changeTask leaves out what comes from a fork: its branches may have any name.
func (p githubPayload) changeTask() (int64, kernel.Code) {
	head := p.parts["pull_request"].member("head").members("ref", "repo")
	if head["repo"].member("id").id() != p.repository {
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

// suiteTask is the task of the branch that was checked; the branch is null for a fork's.
func suiteTask(suite value) (int64, kernel.Code) {
	return taskOfRef("refs/heads/" + suite.member("head_branch").word()), kernel.CodeEventUnused
}

// approval is an event by which a person may approve: a label that was set, a comment that
// was made on an issue.
func (p githubPayload) approval(kind string) (approvingEvent, bool) {
	a := approvingEvent{actor: p.sender, text: textOf(p.issue["title"], p.issue["body"])}
	switch {
	case kind == "issues" && p.action == "labeled":
		a.kind, a.ref, a.at = EvidenceLabel, p.parts["label"].member("name").word(), timeOf(p.issue["updated_at"])
	case kind == "issue_comment" && p.action == "created" && !p.issue["pull_request"].there():
		comment := p.parts["comment"].members("id", "created_at")
		a.kind, a.at = EvidenceComment, timeOf(comment["created_at"])
		if id := comment["id"].id(); id != 0 {
			a.ref = strconv.FormatInt(id, 10)
		}
	default:
		return approvingEvent{}, false
	}
	return a, true
}
