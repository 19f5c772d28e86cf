package webhook

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// The headers of GitLab. The last three are those of a signed hook.
const (
	HeaderGitLabEvent       = "X-Gitlab-Event"
	HeaderGitLabToken       = "X-Gitlab-Token"
	HeaderGitLabInstance    = "X-Gitlab-Instance"
	HeaderIdempotencyKey    = "Idempotency-Key"
	HeaderGitLabWebhookUUID = "X-Gitlab-Webhook-UUID"
	HeaderGitLabEventUUID   = "X-Gitlab-Event-UUID"
	HeaderWebhookID         = "Webhook-Id"
	HeaderWebhookTimestamp  = "Webhook-Timestamp"
	HeaderWebhookSignature  = "Webhook-Signature"
)

// gitlabIDs are where the id of a delivery is looked for, in this order.
//
//   - Idempotency-Key (GitLab 17.4): a new one for each event, the same when a
//     delivery is sent again. Of a signed hook webhook-id is equal to it.
//   - X-Gitlab-Webhook-UUID (16.2): a new one for each sending, so a delivery
//     that is sent again counts as another one.
//   - X-Gitlab-Event-UUID (14.8): shared by all events of one request to GitLab,
//     so a second one counts as a duplicate: its tasks are due, its evidence
//     isn't kept, and the approval is shown in another way.
var gitlabIDs = []string{HeaderIdempotencyKey, HeaderGitLabWebhookUUID, HeaderGitLabEventUUID}

// GitLabConfig is what a [GitLabHook] needs: Keys, Tokens or Bound, one of them.
type GitLabConfig struct {
	// Keys are signing tokens as GitLab shows them: whsec_ and base64 of 24 to 64
	// bytes. Each is enough while one is being replaced. With them no delivery is
	// taken for its secret token.
	Keys []string
	// Tokens are secret tokens, sent as they are. Each is enough. With them a
	// delivery that is signed is refused: its signature can't be checked.
	Tokens []string
	// Bound are keys and tokens that speak for some projects only. A person who may manage
	// one project sees the secret of its hook, and could sign a delivery about any other.
	Bound []GitLabBound
	// Self is the account that writ acts as, by its number: the bot user of a
	// project or group access token, or the owner of a personal one. 0 for none.
	Self int64
	// Personal says that Self is a person; see [GitHubConfig].
	Personal bool
	// World looks up a project, by GitLab's number of it, among those that the
	// operator allowed.
	World func(project int64) (world string, allowed bool)
	// Instance is the URL of the GitLab that these projects are of. A delivery that
	// says it comes from another host is refused: numbers of projects and people are
	// one GitLab's. "" takes every host, and so does a delivery that names none, as
	// those of GitLab before 15.5.
	Instance string
	Now      func() time.Time // for the age of a signature; nil: time.Now
}

// GitLabBound is a Key or a Token, as in [GitLabConfig], and the projects that it may
// speak for, by GitLab's numbers.
type GitLabBound struct {
	Key, Token string
	Covers     func(project int64) bool
}

// GitLabHook is /hooks/gitlab, for the hook of a project or group. It uses
//
//   - Issue Hook, Confidential Issue Hook: each action. A label that was set is
//     evidence, also one that an issue was made with
//   - Note Hook, Confidential Note Hook, on issues: create (evidence), update
//   - Push Hook: of a task's branches. A push to any other branch makes nothing due
//     by itself, see [Event.Pushed]
//   - Merge Request Hook, from a task's branch: open, update, close, reopen, merge
//
// and ignores everything else with 2xx, since GitLab disables a hook that fails
// four times. GitLab tells a hook neither of lost access, nor of a project that
// was renamed or moved, nor of a check that should run again: the sweep finds the
// former, and /writ retry asks for the latter.
type GitLabHook struct {
	target
	signed   *standardSignature // nil: by token alone
	token    *secretToken       // set beside signed where some of bound have keys, and others tokens
	bound    []gitlabBound
	instance string // the host
}

// gitlabBound is one of [GitLabConfig.Bound], ready to check.
type gitlabBound struct {
	signed *standardSignature
	token  *secretToken
	covers func(project int64) bool
}

// NewGitLabHook fails with
//
//   - config.secret.empty where there is neither key nor token, or an empty one
//   - config.invalid where there are keys and tokens, both unbound
//   - config.invalid where a key isn't of the form that [GitLabConfig] says
//   - config.invalid where Bound stands beside Keys or Tokens, or where one of it has no
//     projects, not exactly one of key and token, or the same as another one
//   - config.invalid where there is no World
func NewGitLabHook(c GitLabConfig) (*GitLabHook, error) {
	h := &GitLabHook{target: target{c.World, c.Self, c.Personal}}
	err := h.check()
	if u, bad := url.Parse(c.Instance); bad == nil {
		h.instance = strings.ToLower(u.Hostname())
	}
	switch {
	case err != nil:
	case len(c.Bound) > 0 && len(c.Keys)+len(c.Tokens) > 0:
		err = refuse(kernel.CodeConfigInvalid, "Bind each key or token to its projects, or none.")
	case len(c.Bound) > 0:
		err = h.bind(c)
	case len(c.Keys) > 0 && len(c.Tokens) > 0:
		err = refuse(kernel.CodeConfigInvalid, "Give signing keys or secret tokens. A hook with keys never takes a token.")
	case len(c.Keys) > 0:
		h.signed, err = newStandardSignature(c.Keys, c.Now)
	default:
		h.token, err = newSecretToken(HeaderGitLabToken, c.Tokens)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// bind makes the bound keys and tokens ready. Two that are the same would bind nothing.
func (h *GitLabHook) bind(c GitLabConfig) (err error) {
	var keys, tokens []string
	for _, one := range c.Bound {
		b := gitlabBound{covers: one.Covers}
		switch {
		case (one.Key == "") == (one.Token == "") || one.Covers == nil || slices.Contains(keys, one.Key) || slices.Contains(tokens, one.Token):
			return refuse(kernel.CodeConfigInvalid, "Each binding has a key or a token of its own, and projects.")
		case one.Key != "":
			keys = append(keys, one.Key)
			b.signed, err = newStandardSignature([]string{one.Key}, c.Now)
		default:
			tokens = append(tokens, one.Token)
			b.token, err = newSecretToken(HeaderGitLabToken, []string{one.Token})
		}
		if err != nil {
			return err
		}
		h.bound = append(h.bound, b)
	}
	if len(keys) > 0 {
		h.signed, err = newStandardSignature(keys, c.Now)
	}
	if len(tokens) > 0 && err == nil {
		h.token, err = newSecretToken(HeaderGitLabToken, tokens)
	}
	return err
}

// Name is gitlab.
func (h *GitLabHook) Name() string { return "gitlab" }

// Delivery is the signed webhook-id of a hook with keys, and of another one what
// gitlabIDs says.
func (h *GitLabHook) Delivery(head http.Header) string {
	if h.signs(head) {
		return idOf(one(head, HeaderWebhookID))
	}
	for _, name := range gitlabIDs {
		if len(head.Values(name)) > 0 {
			return idOf(one(head, name))
		}
	}
	return ""
}

// Verify checks the signature, or without keys the token. There is no way down
// from one to the other: with keys a token counts for nothing, and without them
// a signature that can't be checked is refused beside the right token. Where some
// projects have keys and others tokens, [GitLabHook.Parse] refuses a token that speaks
// for a project with a key.
func (h *GitLabHook) Verify(head http.Header, body []byte) error {
	if err := h.verify(head, body); err != nil {
		return err
	}
	if values := head.Values(HeaderGitLabInstance); h.instance != "" && len(values) > 0 {
		u, err := url.Parse(values[0])
		if err != nil || len(values) > 1 || !strings.EqualFold(u.Hostname(), h.instance) {
			return refuse(kernel.CodeSigMismatch, "It says that it comes from another host than forges.gitlab.url.")
		}
	}
	return nil
}

// signs reports whether a delivery is to be checked by its signature.
func (h *GitLabHook) signs(head http.Header) bool {
	return h.signed != nil && (h.token == nil || len(head.Values(HeaderWebhookSignature)) > 0)
}

func (h *GitLabHook) verify(head http.Header, body []byte) error {
	switch {
	case h.signs(head):
		return h.signed.Verify(head, body)
	case len(head.Values(HeaderWebhookSignature)) > 0:
		return refuse(kernel.CodeSigMismatch, "It is signed, and the server was given no signing key.")
	}
	return h.token.Verify(head)
}

// mayTell refuses a delivery about a governed project that isn't one of those that its key
// or token is bound to: what a body says of its project proves nothing.
func (h *GitLabHook) mayTell(head http.Header, body []byte, project int64) error {
	if _, governed := h.world(project); !governed || len(h.bound) == 0 {
		return nil
	}
	for _, b := range h.bound {
		if b.covers(project) && b.verified(head, body, h.signs(head)) {
			return nil
		}
	}
	return refuse(kernel.CodeSigProject, "")
}

func (b gitlabBound) verified(head http.Header, body []byte, signed bool) bool {
	if signed {
		return b.signed != nil && b.signed.Verify(head, body) == nil
	}
	return b.token != nil && b.token.Verify(head) == nil
}

// gitlabKind is the form of an event's name.
var gitlabKind = lazyregexp.New(`^[A-Z][A-Za-z]{0,31}( [A-Z][A-Za-z]{0,31}){0,5}$`)

// Parse reads one event; see [GitHubHook.Parse]. One about a project that its secret
// isn't bound to is webhook.sig.project.
func (h *GitLabHook) Parse(head http.Header, body []byte) (Event, error) {
	top, err := document(body, gitlabParts...)
	if err != nil {
		return Event{}, err
	}
	e := Event{}
	if h.signs(head) {
		e.Signature = h.signed.proof(head)
	}
	if kind := one(head, HeaderGitLabEvent); gitlabKind().MatchString(kind) {
		e.Kind = kind
	}
	p := newGitLabPayload(top)
	if err := h.mayTell(head, body, p.project); err != nil {
		return Event{}, err
	}
	if actionForm().MatchString(p.action) {
		e.Action = p.action
	}
	if e.Ignored = h.read(&e, p); e.Ignored != "" {
		e.Keys, e.Evidence = nil, nil
	}
	return e, nil
}

// read fills in what an event concerns, or says why nothing.
func (h *GitLabHook) read(e *Event, p gitlabPayload) kernel.Code {
	use, known := gitlabEvents[e.Kind]
	switch {
	case !known || use.also != "" && p.kind == use.also:
		return kernel.CodeEventUnused
	case p.kind != use.kind || p.project == 0 || !p.parts[use.part].there():
		return kernel.CodeEventMismatch
	case !use.actions.has(p.action):
		return kernel.CodeEventUnused
	}
	world, allowed := h.world(p.project)
	switch {
	case !allowed:
		return kernel.CodeTargetNotAllowed
	case h.isOwn(p.user):
		return kernel.CodeRecursion
	}
	task, why := use.task(p)
	if task == 0 {
		if use.kind == "push" {
			e.Pushed = pushedTo(p.parts["ref"].word(), world)
		}
		return why
	}
	k := Key{World: world, Task: task}
	e.Keys = []Key{k}
	for _, a := range p.approvals() {
		e.Evidence = append(e.Evidence, a.evidence(k)...)
	}
	return ""
}

// gitlabEvent is an event that is used.
type gitlabEvent struct {
	kind    string // what its body says that it is
	also    string // what else comes under the same header, and is left out
	part    string // the member that it is about
	actions actions
	task    func(gitlabPayload) (int64, kernel.Code)
}

var (
	// Tasks and epics are no issues.
	gitlabIssue = gitlabEvent{
		kind: "issue", also: "work_item", part: "object_attributes", task: gitlabPayload.issueTask,
		actions: actions{"open", "update", "close", "reopen"},
	}
	gitlabNote = gitlabEvent{
		kind: "note", part: "object_attributes", task: gitlabPayload.noteTask,
		actions: actions{"create", "update", ""}, // the oldest say none
	}

	gitlabEvents = map[string]gitlabEvent{
		"Issue Hook":              gitlabIssue,
		"Confidential Issue Hook": gitlabIssue,
		"Note Hook":               gitlabNote,
		"Confidential Note Hook":  gitlabNote,
		"Push Hook":               {kind: "push", part: "ref", task: gitlabPayload.pushTask},
		"Merge Request Hook": {
			kind: "merge_request", part: "object_attributes", task: gitlabPayload.changeTask,
			actions: actions{"open", "update", "close", "reopen", "merge"},
		},
	}
)

// gitlabPayload is what is read of a body.
type gitlabPayload struct {
	kind    string
	action  string
	project int64
	user    int64
	object  map[string]value // members of object_attributes
	parts   map[string]value
}

// gitlabParts are the members of a body that are read.
var gitlabParts = []string{"object_kind", "project", "project_id", "user", "user_id", "ref", "object_attributes", "issue", "merge_request", "changes"}

func newGitLabPayload(top map[string]value) gitlabPayload {
	p := gitlabPayload{
		kind: top["object_kind"].word(), project: top["project"].member("id").id(), user: top["user"].member("id").id(), parts: top,
		object: top["object_attributes"].members("action", "iid", "title", "description", "labels", "created_at", "updated_at",
			"id", "noteable_type", "system", "source_branch", "source_project_id", "target_project_id"),
	}
	p.action = p.object["action"].word()
	if p.kind == "push" {
		p.user = top["user_id"].id()
	}
	// Older ones name a note's project and a push's at the top alone. Two names
	// must be of one project.
	if named := top["project_id"]; named.there() {
		if p.project != 0 && p.project != named.id() {
			p.project = 0
		} else {
			p.project = named.id()
		}
	}
	return p
}

func (p gitlabPayload) issueTask() (int64, kernel.Code) {
	return p.object["iid"].id(), kernel.CodeEventMismatch
}

// noteTask leaves out notes on anything but an issue and a task's merge request.
func (p gitlabPayload) noteTask() (int64, kernel.Code) {
	switch p.object["noteable_type"].word() {
	case "Issue":
		return p.parts["issue"].member("iid").id(), kernel.CodeEventMismatch
	case "MergeRequest":
		return branchTask(p.parts["merge_request"].members("source_branch", "source_project_id", "target_project_id"))
	}
	return 0, kernel.CodeEventUnused
}

func (p gitlabPayload) pushTask() (int64, kernel.Code) {
	return taskOfRef(p.parts["ref"].word()), kernel.CodeEventUnused
}

func (p gitlabPayload) changeTask() (int64, kernel.Code) { return branchTask(p.object) }

// branchTask is the task that a merge request's source branch belongs to. It leaves out
// what comes from a fork: its branches may have any name.
func branchTask(merge map[string]value) (int64, kernel.Code) {
	from, to := merge["source_project_id"].id(), merge["target_project_id"].id()
	if from == 0 || from != to {
		return 0, kernel.CodeEventUnused
	}
	return taskOfRef("refs/heads/" + merge["source_branch"].word()), kernel.CodeEventUnused
}

// approvals are events by which a person may approve: labels that were set, a comment that
// was made on an issue.
func (p gitlabPayload) approvals() []approvingEvent {
	switch {
	case p.kind == "issue":
		return p.labeled()
	case p.kind == "note" && p.action == "create" && !p.object["system"].isTrue():
		issue := p.parts["issue"].members("title", "description")
		a := approvingEvent{kind: EvidenceComment, actor: p.user, text: gitlabText(issue), at: timeOf(p.object["created_at"])}
		if id := p.object["id"].id(); id != 0 {
			a.ref = strconv.FormatInt(id, 10)
		}
		return []approvingEvent{a}
	}
	return nil
}

// isTrue reports whether the value is true.
func (v value) isTrue() bool { return v.kind() == 't' }

// maxLabels bounds the labels of one event that are taken for evidence.
const maxLabels = 100

// labeled has one event for each label that was set: those that the issue has now and
// hadn't before. An issue that is made with labels says no more than which they are.
func (p gitlabPayload) labeled() []approvingEvent {
	change := p.parts["changes"].member("labels").members("previous", "current")
	before, now := labels(change["previous"]), labels(change["current"])
	if p.action == "open" && now == nil {
		now = labels(p.object["labels"])
	}
	if len(now) > maxLabels {
		return nil
	}
	had := make(map[string]bool, len(before))
	for _, name := range before {
		had[name] = true
	}
	var set []approvingEvent
	text, at := gitlabText(p.object), timeOf(p.object["updated_at"])
	for _, name := range now {
		if !had[name] {
			set = append(set, approvingEvent{kind: EvidenceLabel, ref: name, actor: p.user, text: text, at: at})
		}
	}
	return set
}

// labels are the names of a list of labels, and one more than [maxLabels] where there are
// more.
func labels(list value) (names []string) {
	for label := range list.items() {
		if len(names) > maxLabels {
			break
		}
		names = append(names, label.member("title").word())
	}
	return names
}

// mayBeRewritten reports whether a line holds an image with an absolute address. GitLab
// replaces relative image addresses in a payload with absolute ones, so a body with such
// an image may not be the approved one.
func mayBeRewritten(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		_, image, found := strings.Cut(line, "![")
		if found && (strings.Contains(image, "](http://") || strings.Contains(image, "](https://")) {
			return true
		}
	}
	return false
}

// gitlabText is the text of an issue. It isn't whole where GitLab may have changed the body.
func gitlabText(issue map[string]value) issueText {
	t := textOf(issue["title"], issue["description"])
	if mayBeRewritten(t.body) {
		t.whole = false
	}
	return t
}
