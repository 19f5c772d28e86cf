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
	// Trouble has the forge refuse the bot, or ends that; nil where it can't.
	Trouble func(t testing.TB, refused bool)
	// Expire ends the bot's token before its time, where another can be had; nil
	// elsewhere.
	Expire func(t testing.TB)

	told   func(t testing.TB, ref, old, oid string)
	toldBy func(t testing.TB, ref, old, oid string) // of the maintainer's push; nil: told
}

// Wiring is how a client is made.
type Wiring struct {
	Wrap func(http.RoundTripper) http.RoundTripper // between adapter and network
	Now  func() time.Time                          // nil: time.Now
}

const noCommit = "0000000000000000000000000000000000000000"

// Commit puts files on main in place of all that is there, as a push.
func (w *World) Commit(t testing.TB, files map[string]string) {
	t.Helper()
	const main = "refs/heads/main"
	old := gittest.RefOID(w.GitDir, main)
	oid := gittest.Commit(t, w.GitDir, main, old, files)
	w.told(t, main, old, oid)
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
