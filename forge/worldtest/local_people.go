package worldtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// localPeople are those of a place of the embedded forge.
type localPeople struct {
	w *World
	p *localtest.Place
}

// Methods are one: the forge moves the base forward, or makes a merge commit.
func (l *localPeople) Methods() []Method { return []Method{ByMerge} }

func (*localPeople) Prepare(testing.TB, forge.Change, Method) string { return "" }

func (l *localPeople) Merge(t testing.TB, c forge.Change, _ Method) {
	t.Helper()
	_, err := l.p.Maintainer.MergeChange(t.Context(), l.w.Repo, c.Number)
	must(t, err)
}

// Revert is git's own, pushed.
func (l *localPeople) Revert(t testing.TB, c forge.Change, _ Method) {
	t.Helper()
	ref := "refs/heads/" + c.Base
	tip := gittest.RefOID(l.w.GitDir, ref)
	oid, err := gittest.Revert(l.w.GitDir, tip, c.MergedOID+"^", c.MergedOID, fmt.Sprintf("Revert %q\n\nThis reverts commit %s.\n", c.Title, c.MergedOID))
	must(t, err)
	l.w.told(t, ref, tip, oid)
}

func (l *localPeople) CloseChange(t testing.TB, c forge.Change) {
	t.Helper()
	must(t, l.p.Maintainer.CloseChange(t.Context(), l.w.Repo, c.Number))
}

func (l *localPeople) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	ref := "refs/heads/" + name
	l.w.told(t, ref, gittest.RefOID(l.w.GitDir, ref), noCommit)
}

func (l *localPeople) RenameDefaultBranch(t testing.TB, to string) {
	t.Helper()
	from := strings.TrimPrefix(gittest.Git(t, l.w.GitDir, "symbolic-ref", "HEAD"), "refs/heads/")
	gittest.Git(t, l.w.GitDir, "branch", "-m", from, to)
	gittest.Git(t, l.w.GitDir, "symbolic-ref", "HEAD", "refs/heads/"+to)
}

func (l *localPeople) Move(t testing.TB, owner, name string) {
	t.Helper()
	from := l.w.Repo.String()
	must(t, l.p.Store.RenameRepo(t.Context(), l.w.Repo.ID, owner, name))
	l.w.Repo.Owner, l.w.Repo.Name = owner, name
	l.w.Config = strings.Replace(l.w.Config, from, l.w.Repo.String(), 1)
}
