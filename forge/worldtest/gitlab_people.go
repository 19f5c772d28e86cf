package worldtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// labPeople are those of a project of the fake.
type labPeople struct {
	w   *World
	lab *gitlabtest.Server
	by  *labHuman
	api string // the project's
}

func iid(c forge.Change) int64 { return c.Number - gitlab.ChangeNumber(0) }

func (l *labPeople) Methods() []Method { return []Method{ByMerge, BySquash, ByRebase} }

// Merge merges by the project's method: what is to be rebased is, by the button that
// pushes the branch anew, and then the target is moved forward.
func (l *labPeople) Merge(t testing.TB, c forge.Change, by Method) {
	t.Helper()
	method := gitlabtest.FastForward
	if by == ByMerge {
		method = gitlabtest.MergeCommits
	}
	l.lab.SetMergeMethod(l.w.Repo.ID, method)
	if by == ByRebase {
		must(t, l.lab.Rebase(l.w.Repo.ID, l.by.user, iid(c)))
	}
	l.by.call(t, http.MethodPut, fmt.Sprintf("%s/merge_requests/%d/merge", l.api, iid(c)), map[string]any{"squash": by == BySquash}, nil)
}

func (l *labPeople) Revert(t testing.TB, c forge.Change, _ Method) {
	t.Helper()
	_, err := l.lab.Revert(l.w.Repo.ID, l.by.user, iid(c))
	must(t, err)
}

func (l *labPeople) CloseChange(t testing.TB, c forge.Change) {
	t.Helper()
	l.by.call(t, http.MethodPut, fmt.Sprintf("%s/merge_requests/%d", l.api, iid(c)), map[string]any{"state_event": "close"}, nil)
}

func (l *labPeople) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	ref := "refs/heads/" + name
	old := gittest.RefOID(l.w.GitDir, ref)
	gittest.Git(t, l.w.GitDir, "update-ref", "-d", ref, old)
	l.lab.Moved(l.w.Repo.ID, l.by.user, ref, old, noCommit)
}

func (l *labPeople) RenameDefaultBranch(t testing.TB, to string) {
	t.Helper()
	l.lab.RenameDefaultBranch(l.w.Repo.ID, l.by.user, to)
}

func (l *labPeople) Move(t testing.TB, owner, name string) {
	t.Helper()
	from := l.w.Repo.String()
	if owner != l.w.Repo.Owner {
		l.lab.AddGroup(owner)
	}
	l.lab.ChangeProject(l.w.Repo.ID, gitlabtest.ProjectChange{Namespace: owner, Name: name})
	l.w.Repo, l.w.GitDir = l.lab.Repo(l.w.Repo.ID), l.lab.GitDir(l.w.Repo.ID)
	l.w.Config = strings.Replace(l.w.Config, from, l.w.Repo.String(), 1)
}
