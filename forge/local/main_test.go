package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gittest.InMemory(m)) }

// world is a forge with one repository and its people.
type world struct {
	*Store
	repo forge.Repo
	log  *safeBuffer

	owner, bot, triage, reader *Client
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var _ io.Writer = (*safeBuffer)(nil)

// newWorld makes one; options may be changed.
func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{log: &safeBuffer{}}
	o := Options{
		Dir: t.TempDir(), URL: "http://127.0.0.1:3000",
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(t.Context(), o)
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
	w.Store = s
	w.owner, w.bot = w.person(t, "ana", forge.Person), w.person(t, "writ-bot", forge.Bot)
	w.triage, w.reader = w.person(t, "tom", forge.Person), w.person(t, "rita", forge.Person)
	made := must[forge.Repository](t)(s.CreateRepo(t.Context(), RepoSpec{
		Owner: "acme", Name: "shop", Author: w.owner.user,
		Files: map[string][]byte{"README.md": []byte("# Shop\n"), "calc/add.go": []byte("package calc\n\nfunc Add(a, b int) int { return a - b }\n")},
	}))
	w.repo = made.Repo
	for c, p := range map[*Client]forge.Permission{w.owner: forge.Admin, w.bot: forge.Write, w.triage: forge.Triage} {
		ok(t, s.Grant(t.Context(), w.repo.ID, c.user.ID, p))
	}
	return w
}

func (w *world) person(t *testing.T, login string, kind forge.Kind) *Client {
	t.Helper()
	return w.As(must[forge.User](t)(w.CreateUser(t.Context(), login, kind)))
}

// branch makes a commit with these files on a branch, on top of from, as a push
// of the bot.
func (w *world) branch(t *testing.T, name, from string, files map[string]string) string {
	t.Helper()
	dir := w.GitDir(w.repo.ID)
	ref := "refs/heads/" + name
	old := git.OID(gittest.RefOID(dir, ref))
	if old == "" {
		old = git.ZeroOID
	}
	oid := gittest.Commit(t, dir, ref, gittest.RefOID(dir, "refs/heads/"+from), files)
	ok(t, w.Received(t.Context(), w.repo.ID, w.bot.user, []RefUpdate{{ref, old, git.OID(oid)}}))
	return oid
}

func (w *world) file(t *testing.T, title, body string) forge.Issue {
	t.Helper()
	return must[forge.Issue](t)(w.owner.FileIssue(t.Context(), w.repo, title, body))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		ok(t, err)
		return out
	}
}

func wantReason(t *testing.T, what string, err error, want forge.Reason) {
	t.Helper()
	if !forge.IsReason(err, want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func second[T any](_ T, err error) error { return err }

// patience bounds what would otherwise hang; nothing waits for it.
const patience = time.Minute

// until waits for a condition that some event makes true, asking after each.
func until(t *testing.T, changed <-chan struct{}, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("it did not come true in time"))
	defer cancel()
	for !cond() {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}
