package gitlab

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	gitlab "github.com/xanzy/go-gitlab"
	"go.uber.org/goleak"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gittest.InMemory(m)) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must is ok for a call with a result.
func must[T any](t *testing.T) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		ok(t, err)
		return out
	}
}

func second[T any](_ T, err error) error { return err }

// world is a GitLab with one project and its people.
type world struct {
	*gitlabtest.Server
	repo               forge.Repo
	owner, reader, bot *person
	log                *safeBuffer
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

// unpaced are limits for tests.
var unpaced = Limits{WriteInterval: -1, Creates: -1, Edits: -1}

// newWorld makes one; options may be changed.
func newWorld(t *testing.T, change ...func(*gitlabtest.Options)) *world {
	t.Helper()
	var o gitlabtest.Options
	for _, c := range change {
		c(&o)
	}
	w := &world{Server: gitlabtest.New(t, o), log: &safeBuffer{}}
	id := w.AddProject("acme/tools", "shop")
	w.repo = forge.Repo{ID: id, Owner: "acme/tools", Name: "shop"}
	ana, rita := w.AddUser("ana"), w.AddUser("rita")
	w.SetGroupMember("acme", ana.ID, gitlabtest.Owner)
	w.SetMember(id, rita.ID, gitlabtest.Guest)
	u, token := w.ProjectToken(id, gitlabtest.Developer)
	w.owner, w.reader = w.person(t, ana, w.Token(ana.ID)), w.person(t, rita, w.Token(rita.ID))
	w.bot = w.person(t, u, token)
	return w
}

// person is an account, with the acts that writ itself never does.
type person struct {
	forge.Client
	host  *Host
	token string
	user  gitlabtest.User
	repo  forge.Repo
}

func (w *world) person(t *testing.T, u gitlabtest.User, token string) *person {
	t.Helper()
	h := must[*Host](t)(New(t.Context(), Config{
		URL: w.URL, Token: token, Proxy: transport.NoProxy, Limits: unpaced, UserAgent: "writ",
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))
	t.Cleanup(h.Close)
	return &person{Client: h.Client(w.repo), host: h, token: token, user: u, repo: w.repo}
}

// FileIssue is forgetest.Human.
func (p *person) FileIssue(ctx context.Context, r forge.Repo, title, body string) (forge.Issue, error) {
	w := creating("file an issue in %s", r)
	i, _, err := p.host.api.Issues.CreateIssue(int(r.ID), &gitlab.CreateIssueOptions{Title: &title, Description: &body}, w.in(ctx))
	if err != nil {
		return forge.Issue{}, w.err(err)
	}
	return p.host.issue(ctx, (*issueAnswer)(i))
}

// EditIssue is forgetest.Human.
func (p *person) EditIssue(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	w := editing("edit %s#%d", r, number)
	return second(p.host.update(ctx, w, r, number, &gitlab.UpdateIssueOptions{Title: &title, Description: &body}))
}

// AddComment is forge.Comments, with nothing taken out of the text.
func (p *person) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (forge.Comment, error) {
	if p.user.Bot {
		return p.host.AddComment(ctx, r, number, body)
	}
	if number > changeBase {
		return p.host.AddComment(ctx, r, number, body)
	}
	w := creating("comment on %s#%d", r, number)
	n, _, err := p.host.api.Notes.CreateIssueNote(int(r.ID), int(number), &gitlab.CreateIssueNoteOptions{Body: &body}, w.in(ctx))
	if err != nil {
		return forge.Comment{}, w.err(err)
	}
	return p.host.comment(ctx, r, threadOf(number), n)
}

// ReviewAt is forgetest.Human.
func (p *person) ReviewAt(ctx context.Context, r forge.Repo, change int64, at forge.ReviewPlace, body string) error {
	w := creating("review %s#%d", r, change)
	path := mergePath(r, int(change-changeBase)) + "/discussions"
	return second(p.host.ask(ctx, w, http.MethodPost, path, map[string]any{"body": body, "position": gitlabtest.Position(at)}, new(any)))
}

// EditReview is forgetest.Human.
func (p *person) EditReview(ctx context.Context, r forge.Repo, change, id int64, body string) error {
	w := editing("edit note %d of %s#%d", id, r, change)
	path := fmt.Sprintf("%s/notes/%d", mergePath(r, int(change-changeBase)), id)
	return second(p.host.ask(ctx, w, http.MethodPut, path, map[string]string{"body": body}, new(any)))
}

func (w *world) file(t *testing.T) forge.Issue {
	t.Helper()
	return must[forge.Issue](t)(w.owner.FileIssue(t.Context(), w.repo, "Add fails", "It fails."))
}

func (w *world) issue(t *testing.T, number int64) forge.Issue {
	t.Helper()
	return must[forge.Issue](t)(w.bot.Issue(t.Context(), w.repo, number))
}

func (w *world) comments(t *testing.T, number int64) []forge.Comment {
	t.Helper()
	return must[[]forge.Comment](t)(w.bot.Comments(t.Context(), w.repo, number))
}

// change opens a merge request from a fresh branch.
func (w *world) change(t *testing.T, branch, title, body string) forge.Change {
	t.Helper()
	w.Branch(w.repo.ID, w.bot.user.ID, branch, map[string]string{branch[len(branch)-1:]: "x"})
	return must[forge.Change](t)(w.bot.OpenChange(t.Context(), w.repo, forge.Change{Title: title, Body: body, Head: branch, Base: "main"}))
}

// steady is a clock that moves a whole step with each look at it.
func steady(step time.Duration) func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(step)
		return now
	}
}
