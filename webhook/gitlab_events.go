package webhook

import (
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel"
)

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

func newGitLabPayload(doc value) gitlabPayload {
	top := doc.members("object_kind", "project", "project_id", "user", "user_id", "ref", "object_attributes", "issue", "merge_request", "changes")
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

// branchTask is the task whose branch a merge request is from. It leaves out what comes
// from a fork: its branches may have any name.
func branchTask(merge map[string]value) (int64, kernel.Code) {
	from, to := merge["source_project_id"].id(), merge["target_project_id"].id()
	if from == 0 || from != to {
		return 0, kernel.CodeEventUnused
	}
	return taskOfRef("refs/heads/" + merge["source_branch"].word()), kernel.CodeEventUnused
}

// acts are what may approve: labels that were set, a comment that was made.
func (p gitlabPayload) acts() []act {
	switch {
	case p.kind == "issue":
		return p.labeled()
	case p.kind == "note" && p.action == "create" && !p.object["system"].isTrue():
		issue := p.parts["issue"].members("title", "description")
		a := act{kind: EvidenceComment, actor: p.user, text: gitlabText(issue), at: p.object["created_at"]}
		if id := p.object["id"].id(); id != 0 {
			a.ref = strconv.FormatInt(id, 10)
		}
		return []act{a}
	}
	return nil
}

// maxLabels bounds the labels of one event that are taken for evidence.
const maxLabels = 100

// labeled is an act for each label that the event set: those that the issue has
// now and hadn't before. An issue that is made with labels says no more than
// which they are.
func (p gitlabPayload) labeled() []act {
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
	var set []act
	for _, name := range now {
		if !had[name] {
			set = append(set, act{kind: EvidenceLabel, ref: name, actor: p.user, text: gitlabText(p.object), at: p.object["updated_at"]})
		}
	}
	return set
}

// labels are the names of a list of labels.
func labels(list value) (names []string) {
	list.items(func(label value) {
		if len(names) <= maxLabels {
			names = append(names, label.member("title").word())
		}
	})
	return names
}

// mayBeRewritten reports whether a line holds an image with a whole address: so
// GitLab writes, into a payload, one whose address is relative to the project.
func mayBeRewritten(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		_, image, found := strings.Cut(line, "![")
		if found && (strings.Contains(image, "](http://") || strings.Contains(image, "](https://")) {
			return true
		}
	}
	return false
}

// gitlabText is the text of an issue, without the body where it holds an image:
// nobody can tell then whether GitLab changed its address.
func gitlabText(issue map[string]value) issueText {
	t := textOf(issue["title"], issue["description"])
	if mayBeRewritten(t.body.word()) {
		t.body = nil
	}
	return t
}
