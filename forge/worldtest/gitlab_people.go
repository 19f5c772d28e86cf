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

// Prepare rebases by the button of a project that only moves its targets forward.
func (l *labPeople) Prepare(t testing.TB, c forge.Change, by Method) string {
	t.Helper()
	if by != ByRebase {
		return ""
	}
	must(t, l.lab.Rebase(l.w.Repo.ID, l.by.user, iid(c)))
	return gittest.RefOID(l.w.GitDir, "refs/heads/"+c.Head)
}

// Merge merges by the project's method.
func (l *labPeople) Merge(t testing.TB, c forge.Change, by Method) {
	t.Helper()
	method := gitlabtest.FastForward
	if by == ByMerge {
		method = gitlabtest.MergeCommits
	}
	l.lab.SetMergeMethod(l.w.Repo.ID, method)
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
