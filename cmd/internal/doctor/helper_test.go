package doctor

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gittest.InMemory(m)) }

// fakeHost is a forge of one repository, which answers as a test says.
type fakeHost struct {
	about   forge.Repository
	url     string
	find    error
	self    forge.User
	may     forge.Permission
	refuses error // what issues and labels are answered with
	labels  []string
}

func (h *fakeHost) Find(context.Context, string, string) (forge.Repository, error) {
	return h.about, h.find
}
func (h *fakeHost) Client(forge.Repo) forge.Client { return &fakeClient{fakeHost: h} }
func (h *fakeHost) GitURL(forge.Repo) string       { return h.url }
func (h *fakeHost) GitAuth(forge.Repo) git.Auth    { return git.Auth{} }

type fakeClient struct {
	forge.Client // nil: nothing else is asked
	*fakeHost
}

func (c *fakeClient) Self(context.Context) (forge.User, error) { return c.self, nil }

func (c *fakeClient) Permission(context.Context, forge.Repo, int64) (forge.Permission, error) {
	return c.may, nil
}

func (c *fakeClient) ListIssues(context.Context, forge.Repo, time.Time, func(forge.Issue) error) error {
	return c.refuses
}

func (c *fakeClient) Labels(context.Context, forge.Repo) (out []forge.Label, err error) {
	for _, name := range c.labels {
		out = append(out, forge.Label{Name: name})
	}
	return out, nil
}

// ward is a repository in good health, behind a real git server.
type ward struct {
	dir  string
	url  string
	host *fakeHost

	mu    sync.Mutex
	fault gittest.Fault
}

// serve serves the repository as git itself does, so that the repository's own
// rules hold.
func (w *ward) serve(t *testing.T) {
	t.Helper()
	gittest.Git(t, w.dir, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path:       filepath.Join(gittest.Git(t, w.dir, "--exec-path"), "git-http-backend"),
		Env:        append(gittest.Env(), "GIT_PROJECT_ROOT="+filepath.Dir(w.dir), "GIT_HTTP_EXPORT_ALL=1"),
		InheritEnv: []string{}, Logger: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Stderr: io.Discard,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		var h http.Handler = backend
		if w.fault != nil {
			h = w.fault(backend)
		}
		w.mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	w.url = srv.URL + "/" + filepath.Base(w.dir)
}

// set makes every further request go through a fault.
func (w *ward) set(f gittest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

const goodContract = "version: 1\nchecks: [{name: test, run: [\"true\"]}]\n"

func newWard(t *testing.T, config ...string) *ward {
	t.Helper()
	w := &ward{dir: t.TempDir() + "/shop.git"}
	gittest.Git(t, "/", "init", "--quiet", "--bare", "--initial-branch=main", w.dir)
	for _, pair := range append([]string{"uploadpack.allowFilter=true"}, config...) {
		key, value, _ := strings.Cut(pair, "=")
		gittest.Git(t, w.dir, "config", key, value)
	}
	gittest.Commit(t, w.dir, "refs/heads/main", "", map[string]string{contractPath: goodContract})
	w.serve(t)
	w.host = &fakeHost{
		about: forge.Repository{Repo: forge.Repo{ID: 1, Owner: "acme", Name: "shop"}, DefaultBranch: "main"},
		url:   w.url, self: forge.User{ID: 7, Login: "writ", Kind: forge.Bot}, may: forge.Write, labels: []string{"writ"},
	}
	return w
}

func (w *ward) target(change ...func(*Target)) Target {
	t := Target{Forge: "local", Host: w.host, Name: "acme/shop", Time: patience}
	for _, f := range change {
		f(&t)
	}
	return t
}

// find is the one check of a name.
func find(t *testing.T, all []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(all, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %s in %v", name, all)
	}
	return all[i]
}

// wants holds a check to a status, words of its detail and of its remedy.
func wants(t *testing.T, all []Check, name string, status Status, detail, remedy string) {
	t.Helper()
	c := find(t, all, name)
	if c.Status != status || !strings.Contains(c.Detail, detail) || !strings.Contains(c.Remedy, remedy) {
		t.Errorf("%s is %s: %s (%s)\nwant %s with %q and the remedy %q", name, c.Status, c.Detail, c.Remedy, status, detail, remedy)
	}
	if (c.Status == Failed || c.Status == Warning) && c.Remedy == "" {
		t.Errorf("%s is %s and says nothing of what to do", name, c.Status)
	}
}

// probes are the refs that probes left.
func (w *ward) probes(t *testing.T) string {
	t.Helper()
	return gittest.Git(t, w.dir, "for-each-ref", "--format=%(refname)", "refs/writ/", "refs/heads/writ/")
}

// patience bounds what would otherwise hang; nothing waits for it.
const patience = 2 * time.Minute

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
