package worldtest

import (
	"net/http"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git/gittest"
)

// Label approves an issue by the default contract.
const Label = "writ"

// HookSecret signs the webhooks of every world.
const HookSecret = "a-secret-of-the-tests"

// World is a repository whose default branch is main, with a maintainer, a reader,
// who may only read, and the account that writ acts as, which may write.
type World struct {
	Forge      string // github, gitlab or local
	Repo       forge.Repo
	Maintainer forgetest.Human
	Reader     forgetest.Human
	Bot        int64  // the account that writ acts as
	GitDir     string // the bare repository
	// Config is the forge's entry in writ's configuration, below "forges:"; Env are
	// the variables it needs, and Secrets what must stand nowhere.
	Config  string
	Env     []string
	Secrets []string
	// Client is the bot's, of the real adapter, unpaced.
	Client func(t testing.TB, o Wiring) forge.Client
	// EditHistory says that the forge keeps former texts of an issue.
	EditHistory bool
	// Checks reads the checks of a commit.
	Checks func(t testing.TB, oid string) []forge.Check
	// Reactions are those to an issue itself, of whatever account, by the forge's names.
	Reactions func(t testing.TB, number int64) []string
	// CommentReactions are those to a comment on an issue.
	CommentReactions func(t testing.TB, number, comment int64) []string
	// Pages are where the forge's pages are, and a token with which the maintainer logs in
	// there; nil where the forge is a double, which has none.
	Pages func(t testing.TB) (url, token string)
	// Trouble has the forge refuse the bot, or ends that; nil where it can't.
	Trouble func(t testing.TB, refused bool)
	// Expire ends the bot's token before its time, where another can be had; nil
	// elsewhere.
	Expire func(t testing.TB)

	// People are what a maintainer does to a change and to the repository.
	People

	told   func(t testing.TB, ref, old, oid string)
	toldBy func(t testing.TB, ref, old, oid string) // of the maintainer's push; nil: told
}

// Method is how a change is merged.
type Method string

// The methods.
const (
	ByMerge  Method = "merge commit"
	BySquash Method = "squash"
	ByRebase Method = "rebase"
)

// People are what a maintainer does on the forge's pages, and what git and webhooks
// see of it.
type People interface {
	// Methods are those that the forge has.
	Methods() []Method
	// Prepare does what must be done to a change's branch before it can be merged so:
	// where that pushes the branch anew, it returns the commit; "" elsewhere.
	Prepare(t testing.TB, c forge.Change, by Method) string
	// Merge merges a change that was prepared.
	Merge(t testing.TB, c forge.Change, by Method)
	// Revert takes a merged change back on its base, with the words of the forge's
	// button or, where it has none, of git. c is as it is found after the merge.
	Revert(t testing.TB, c forge.Change, by Method)
	// CloseChange closes a change unmerged.
	CloseChange(t testing.TB, c forge.Change)
	DeleteBranch(t testing.TB, name string)
	RenameDefaultBranch(t testing.TB, to string)
	// Move gives the repository another owner, name or both, and the world its new
	// place: Repo, GitDir, Maintainer, Reader and Config.
	Move(t testing.TB, owner, name string)
}

// Wiring is how a client is made.
type Wiring struct {
	Wrap func(http.RoundTripper) http.RoundTripper // between adapter and network
	Now  func() time.Time                          // nil: time.Now
}

const noCommit = "0000000000000000000000000000000000000000"

// Commit puts files on the default branch in place of all that is there, as a push.
func (w *World) Commit(t testing.TB, files map[string]string) {
	t.Helper()
	base := gittest.Git(t, w.GitDir, "symbolic-ref", "HEAD")
	old := gittest.RefOID(w.GitDir, base)
	oid := gittest.Commit(t, w.GitDir, base, old, files)
	w.told(t, base, old, oid)
}

// SetBranch moves a branch to a commit that the repository has, as a push of the
// bot's.
func (w *World) SetBranch(t testing.TB, name, oid string) {
	t.Helper()
	w.setBranch(t, name, oid, w.told)
}

// PushBranch is SetBranch as a push of the maintainer's.
func (w *World) PushBranch(t testing.TB, name, oid string) {
	t.Helper()
	told := w.toldBy
	if told == nil {
		told = w.told
	}
	w.setBranch(t, name, oid, told)
}

func (w *World) setBranch(t testing.TB, name, oid string, told func(t testing.TB, ref, old, oid string)) {
	t.Helper()
	ref := "refs/heads/" + name
	old := gittest.RefOID(w.GitDir, ref)
	if old == oid {
		return
	}
	gittest.Git(t, w.GitDir, "update-ref", ref, oid)
	if old == "" {
		old = noCommit
	}
	told(t, ref, old, oid)
}
