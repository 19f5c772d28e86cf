package githubtest

import (
	"context"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

const zeroOID = "0000000000000000000000000000000000000000"

// Commit makes a commit of the files on a branch, as a push of the owner. from
// is the branch that it is built on; "" for none.
func (p *Place) Commit(t testing.TB, branch, from string, files map[string]string) string {
	t.Helper()
	ref := "refs/heads/" + branch
	old := gittest.RefOID(p.GitDir, ref)
	if old == "" {
		old = zeroOID
	}
	parent := ""
	if from != "" {
		parent = gittest.RefOID(p.GitDir, "refs/heads/"+from)
	}
	oid := gittest.Commit(t, p.GitDir, ref, parent, files)
	must(t, p.tell(t.Context(), p.Owner.Login, ref, old, oid))
	return oid
}

// words are GitHub's for the contract's.
func words(may forge.Permission) string {
	return map[forge.Permission]string{forge.Read: "pull", forge.Triage: "triage", forge.Write: "push", forge.Maintain: "maintain", forge.Admin: "admin"}[may]
}

// Grant sets what an account may do; Read in a public repository is everybody's.
func (p *Place) Grant(t testing.TB, user int64, may forge.Permission) {
	t.Helper()
	word := words(may)
	if word == "" {
		word = "none"
	}
	must(t, p.admin(t.Context(), "grant", map[string]any{"repo": p.Repo.ID, "user": user, "permission": word}, nil))
}

// Another makes a further repository of the owner, without the App.
func (p *Place) Another(t testing.TB, name string) forge.Repo {
	t.Helper()
	var made struct{ Repo int64 }
	must(t, p.admin(t.Context(), "another", map[string]any{"owner": p.Repo.Owner, "name": name}, &made))
	return forge.Repo{ID: made.Repo, Owner: p.Repo.Owner, Name: name}
}

// FileMany files issues by the owner, some time apart, the last one an hour ago.
// The repository must have none yet.
func (p *Place) FileMany(t testing.TB, count int, apart time.Duration) []int64 {
	t.Helper()
	var made struct{ Numbers []int64 }
	must(t, p.admin(t.Context(), "many", map[string]any{"repo": p.Repo.ID, "user": p.Owner.ID, "count": count, "apart": apart.Seconds()}, &made))
	return made.Numbers
}

// Touch updates an issue now.
func (p *Place) Touch(t testing.TB, number int64) {
	t.Helper()
	must(t, p.admin(t.Context(), "touch", map[string]any{"repo": p.Repo.ID, "number": number}, nil))
}

// Archive archives it.
func (p *Place) Archive(t testing.TB) {
	t.Helper()
	p.change(t, map[string]any{"archived": true})
}

func (p *Place) change(t testing.TB, set map[string]any) {
	t.Helper()
	must(t, p.admin(t.Context(), "change", map[string]any{"repo": p.Repo.ID, "set": set}, nil))
}

// Suspend suspends the App's installation, or ends that.
func (p *Place) Suspend(t testing.TB, suspended bool) {
	t.Helper()
	p.trouble(t, map[string]any{"suspended": suspended})
}

// Uninstall removes it, and its tokens.
func (p *Place) Uninstall(t testing.TB) {
	t.Helper()
	p.trouble(t, map[string]any{"removed": true})
}

// ExpireTokens ends every token of the installation now.
func (p *Place) ExpireTokens(t testing.TB) {
	t.Helper()
	p.trouble(t, map[string]any{"expire": true})
}

// Permit sets what the installation may do. Its tokens keep what they have.
func (p *Place) Permit(t testing.TB, permissions map[string]string) {
	t.Helper()
	p.trouble(t, map[string]any{"permissions": permissions})
}

func (p *Place) trouble(t testing.TB, what map[string]any) {
	t.Helper()
	what["installation"] = p.Installation
	must(t, p.admin(context.WithoutCancel(t.Context()), "installation", what, nil))
}

// Moved tells the emulator of a ref that was moved in the repository, as if login
// had pushed it; old is all zeros for a new one.
func (p *Place) Moved(t testing.TB, login, ref, old, oid string) {
	t.Helper()
	must(t, p.tell(t.Context(), login, ref, old, oid))
}
