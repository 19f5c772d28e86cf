package githubtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

// Method is how a pull request is merged, in GitHub's words.
type Method string

// The methods.
const (
	ByMerge  Method = "merge"
	BySquash Method = "squash"
	ByRebase Method = "rebase"
)

// Merge merges a pull request as the maintainer, with the commits and messages that
// GitHub makes unless it is told otherwise, and returns the last of them.
func (p *Place) Merge(t testing.TB, c forge.Change, by Method) string {
	t.Helper()
	base := "refs/heads/" + c.Base
	old := gittest.RefOID(p.GitDir, base)
	var oid string
	var err error
	switch by {
	case ByMerge:
		oid, err = gittest.MergeCommit(p.GitDir, old, c.HeadOID, fmt.Sprintf("Merge pull request #%d from %s/%s\n\n%s\n", c.Number, p.Repo.Owner, c.Head, c.Title))
	case BySquash:
		oid, err = gittest.Squash(p.GitDir, old, c.HeadOID, p.squashed(t, old, c))
	case ByRebase:
		oid, err = gittest.Rebase(p.GitDir, old, c.HeadOID)
	}
	must(t, err)
	gittest.Git(t, p.GitDir, "update-ref", base, oid, old)
	must(t, p.tell(t.Context(), p.Maintainer.Login, base, old, oid))
	must(t, p.admin(t.Context(), "merged", map[string]any{"repo": p.Repo.ID, "number": c.Number, "sha": oid, "login": p.Maintainer.Login}, nil))
	return oid
}

// squashed is the message of a squash: of the only commit, or all that there are
// below the title; with the number behind the first line.
func (p *Place) squashed(t testing.TB, base string, c forge.Change) string {
	t.Helper()
	commits, err := gittest.Ahead(p.GitDir, base, c.HeadOID)
	must(t, err)
	message := func(oid string) string {
		return strings.TrimSpace(gittest.Git(t, p.GitDir, "log", "-1", "--format=%B", oid))
	}
	if len(commits) == 1 {
		title, body, _ := strings.Cut(message(commits[0]), "\n")
		return fmt.Sprintf("%s (#%d)\n%s\n", title, c.Number, body)
	}
	text := fmt.Sprintf("%s (#%d)\n", c.Title, c.Number)
	for _, oid := range commits {
		text += "\n* " + message(oid) + "\n"
	}
	return text
}

// Revert does what the button of a merged pull request does, as the maintainer: it
// opens another one that reverts the commit; and merges it in the same way.
func (p *Place) Revert(t testing.TB, c forge.Change, by Method) string {
	t.Helper()
	title := fmt.Sprintf("Revert %q", c.Title)
	message := fmt.Sprintf("%s\n\nThis reverts commit %s.\n", title, c.MergedOID)
	if by == BySquash {
		// The repository may have the description of the pull request taken instead.
		message = fmt.Sprintf("%s\n\nReverts %s#%d\n", title, p.Repo, c.Number)
	}
	tip := gittest.RefOID(p.GitDir, "refs/heads/"+c.Base)
	oid, err := gittest.Revert(p.GitDir, tip, c.MergedOID+"^", c.MergedOID, message)
	must(t, err)
	head := fmt.Sprintf("revert-%d-%s", c.Number, c.Head)
	gittest.Git(t, p.GitDir, "update-ref", "refs/heads/"+head, oid)
	must(t, p.tell(t.Context(), p.Maintainer.Login, "refs/heads/"+head, zeroOID, oid))
	made, err := p.As(t, p.Maintainer).OpenChange(t.Context(), p.Repo, forge.Change{
		Title: title, Body: fmt.Sprintf("Reverts %s#%d", p.Repo, c.Number), Head: head, Base: c.Base,
	})
	must(t, err)
	return p.Merge(t, made, by)
}

// CloseChange closes a pull request unmerged, as the maintainer.
func (p *Place) CloseChange(t testing.TB, number int64) {
	t.Helper()
	h := Human{p: p, by: p.Maintainer}
	must(t, h.call(t.Context(), http.MethodPatch, fmt.Sprintf("/repos/%s/pulls/%d", p.Repo, number), map[string]any{"state": "closed"}, nil))
}

// DeleteBranch deletes one, as the maintainer: GitHub closes what is open from it.
func (p *Place) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	ref := "refs/heads/" + name
	old := gittest.RefOID(p.GitDir, ref)
	gittest.Git(t, p.GitDir, "update-ref", "-d", ref, old)
	must(t, p.tell(t.Context(), p.Maintainer.Login, ref, old, zeroOID))
}

// RenameDefaultBranch renames it; what is open goes to the new one.
func (p *Place) RenameDefaultBranch(t testing.TB, to string) {
	t.Helper()
	from := strings.TrimPrefix(gittest.Git(t, p.GitDir, "symbolic-ref", "HEAD"), "refs/heads/")
	gittest.Git(t, p.GitDir, "branch", "-m", from, to)
	gittest.Git(t, p.GitDir, "symbolic-ref", "HEAD", "refs/heads/"+to)
	must(t, p.admin(t.Context(), "branch", map[string]any{"repo": p.Repo.ID, "from": from, "to": to}, nil))
}

// Rename gives the repository another name. GitHub redirects the old one until
// another repository takes it, for git, too.
func (p *Place) Rename(t testing.TB, name string) {
	t.Helper()
	p.move(t, p.Repo.Owner, name)
}

// Transfer gives the repository to another account, on which the App is installed
// for it, by another name if that is wanted.
func (p *Place) Transfer(t testing.TB, owner, name string) {
	t.Helper()
	p.Installation = p.next.Add(2)
	p.move(t, owner, name)
}

func (p *Place) move(t testing.TB, owner, name string) {
	t.Helper()
	must(t, p.admin(context.WithoutCancel(t.Context()), "move", map[string]any{
		"repo": p.Repo.ID, "owner": owner, "name": name, "installation": p.Installation, "app": p.App.ID,
	}, nil))
	p.Repo.Owner, p.Repo.Name = owner, name
	now := p.Repo
	p.now.Store(&now)
}
