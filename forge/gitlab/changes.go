package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
)

// mergeAnswer is the library's type without its own way of reading, which ends
// the process at an answer whose labels are of two kinds.
type mergeAnswer gitlab.MergeRequest

// mergePath is a merge request's address; 0: of all.
func mergePath(r forge.Repo, iid int) string {
	path := fmt.Sprintf("projects/%d/merge_requests", r.ID)
	if iid > 0 {
		path += "/" + strconv.Itoa(iid)
	}
	return path
}

// FindChange is forge.Changes. Somebody may open a merge request from a branch
// of that name in a fork: those don't count.
func (h *Host) FindChange(ctx context.Context, r forge.Repo, head, base string) (forge.Change, error) {
	w := reading("find the merge request from %s in %s", head, r)
	var found *mergeAnswer
	err := pages(w, func(o gitlab.ListOptions) (some []*mergeAnswer, res *gitlab.Response, err error) {
		res, err = h.ask(ctx, w, http.MethodGet, mergePath(r, 0), &gitlab.ListProjectMergeRequestsOptions{
			ListOptions: o, SourceBranch: &head, State: ptr(stateAll), Scope: ptr(stateAll), OrderBy: ptr(byCreation), Sort: ptr(descending),
		}, &some)
		return some, res, err
	}, func(m *mergeAnswer) error {
		if m.SourceBranch != head || m.SourceProjectID != int(r.ID) || found != nil && m.TargetBranch != base {
			return nil
		}
		if found = m; base == "" || m.TargetBranch == base {
			return errFound // the newest come first
		}
		return nil
	})
	switch {
	case found != nil:
		return h.change(ctx, found)
	case err != nil:
		return forge.Change{}, err
	}
	return forge.Change{}, w.refuse(forge.NotFound, "there is none")
}

// errFound ends a listing.
var errFound = errors.New("found")

// changeStates are GitLab's words; a merge request is locked while it is merged.
var changeStates = map[string]forge.ChangeState{
	stateOpened: forge.ChangeOpen, "locked": forge.ChangeOpen, stateClosed: forge.ChangeClosed, "merged": forge.ChangeMerged,
}

func (h *Host) change(ctx context.Context, m *mergeAnswer) (forge.Change, error) {
	if err := reading("read a merge request").other(m.IID > 0 && int64(m.IID) < changeBase && changeStates[m.State] != ""); err != nil {
		return forge.Change{}, err
	}
	out := forge.Change{
		Number: ChangeNumber(int64(m.IID)), Title: shown(m.Title), Body: m.Description, Head: m.SourceBranch, Base: m.TargetBranch,
		HeadOID: m.SHA, State: changeStates[m.State], Draft: m.Draft, URL: m.WebURL,
	}
	if out.State == forge.ChangeMerged {
		out.MergedOID = merged(m)
	}
	var err error
	if m.Author != nil {
		out.Author, err = h.user(ctx, m.Author.ID, m.Author.Username)
	}
	if err != nil {
		return out, err
	}
	if told := loud(m.Description); told != m.Description {
		self, err := h.Self(ctx)
		if err != nil {
			return out, err
		}
		if self.ID == out.Author.ID {
			out.Body = told
		}
	}
	return out, nil
}

// merged is the commit on the base: of the merge, else of the squash, else the
// branch's own, which a fast-forward leaves as it is.
func merged(m *mergeAnswer) string {
	switch {
	case m.MergeCommitSHA != "":
		return m.MergeCommitSHA
	case m.SquashCommitSHA != "":
		return m.SquashCommitSHA
	}
	return m.SHA
}

// On GitLab a merge request is a draft by its title alone.
const (
	draftPrefix = "Draft: "
	readyPrefix = "Ready: "
)

var draftTitle = lazyregexp.New(`(?i)^\s*(\[draft\]|\(draft\)|draft:|draft - |\[wip\]|wip:)`)

// titled is the title to send: one that is no draft's must not read like one.
func titled(title string, draft bool) string {
	switch {
	case draft:
		return draftPrefix + title
	case draftTitle().MatchString(title):
		return readyPrefix + title
	}
	return title
}

// shown is the title without what titled put in front of it.
func shown(title string) string {
	if rest, ok := strings.CutPrefix(title, draftPrefix); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(title, readyPrefix); ok && draftTitle().MatchString(rest) {
		return rest
	}
	return title
}

// OpenChange is forge.Changes. GitLab takes branches that aren't there, so they
// are looked up before.
func (h *Host) OpenChange(ctx context.Context, r forge.Repo, c forge.Change) (forge.Change, error) {
	w := creating("open a merge request from %s to %s in %s", c.Head, c.Base, r)
	if strings.TrimSpace(c.Title) == "" {
		return forge.Change{}, w.refuse(forge.Invalid, "it has no title")
	}
	for _, branch := range []string{c.Head, c.Base} {
		look := reading("%s", w.op).live()
		if _, _, err := h.api.Branches.GetBranch(int(r.ID), branch, look.in(ctx)); err != nil {
			return forge.Change{}, look.err(err)
		}
	}
	m := new(mergeAnswer)
	_, err := h.ask(ctx, w, http.MethodPost, mergePath(r, 0), &gitlab.CreateMergeRequestOptions{
		Title: ptr(titled(c.Title, c.Draft)), Description: ptr(quiet(c.Body)), SourceBranch: &c.Head, TargetBranch: &c.Base,
	}, m)
	if err != nil {
		return forge.Change{}, err
	}
	return h.change(ctx, m)
}

// EditChange is forge.Changes. It stays a draft, or ready, whatever a person has
// made it.
func (h *Host) EditChange(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	at, w := threadOf(number), editing("edit the merge request %d in %s", number, r)
	if err := ctx.Err(); err != nil {
		return reading("%s", w.op).err(err)
	}
	if !at.merge {
		return w.refuse(forge.NotFound, "it is an issue")
	}
	look := reading("%s", w.op)
	now := new(mergeAnswer)
	_, err := h.ask(ctx, look, http.MethodGet, mergePath(r, at.iid), nil, now)
	if err == nil {
		err = look.other(now.IID == at.iid)
	}
	if err != nil {
		return err
	}
	_, err = h.ask(ctx, w, http.MethodPut, mergePath(r, at.iid), &gitlab.UpdateMergeRequestOptions{
		Title: ptr(titled(title, now.Draft)), Description: ptr(quiet(body)),
	}, new(mergeAnswer))
	return err
}

// maxStatus is how many characters a status's words may have.
const maxStatus = 255

// states are GitLab's words for the states of a check.
var states = map[forge.CheckState]gitlab.BuildStateValue{
	forge.CheckRunning: gitlab.Running, forge.CheckPassed: gitlab.Success, forge.CheckFailed: gitlab.Failed,
}

// SetCheck is forge.Changes: a commit status. It has no place for the detail,
// which is in the report on the issue.
func (h *Host) SetCheck(ctx context.Context, r forge.Repo, oid string, c forge.Check) error {
	w := editing("set the status %s of %s in %s", c.Name, oid, r)
	state, known := states[c.State]
	if !known || c.Name == "" {
		return w.refuse(forge.Invalid, "a check has a name and a state")
	}
	about := []rune(strings.Join(strings.Fields(c.Summary), " "))
	if len(about) > maxStatus {
		about = append(about[:maxStatus-1], '…')
	}
	_, _, err := h.api.Commits.SetCommitStatus(int(r.ID), oid, &gitlab.SetCommitStatusOptions{
		State: state, Name: &c.Name, Description: ptr(string(about)),
	}, w.in(ctx))
	if answered(err, http.StatusBadRequest, "cannot transition status") {
		return h.settled(ctx, w, r, oid, c.Name, string(state), err)
	}
	return w.err(err)
}

// settled forgives a refusal to go from a state to the same one.
func (h *Host) settled(ctx context.Context, w how, r forge.Repo, oid, name, state string, refusal error) error {
	look := reading("%s", w.op).live()
	all, _, err := h.api.Commits.GetCommitStatuses(int(r.ID), oid, &gitlab.GetCommitStatusesOptions{Name: &name}, look.in(ctx))
	if err != nil {
		return look.err(err)
	}
	for _, st := range all {
		if st != nil && st.Name == name && st.Status == state {
			return nil
		}
	}
	return w.err(refusal)
}
