package setup_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/webhook"
)

// lab is a GitLab with a project, and a set-up for it.
type lab struct {
	*testing.T
	*gitlabtest.Server
	project  int64
	g        setup.GitLab
	said     strings.Builder
	listener *httptest.Server
	answer   atomic.Int64 // of the listener, to a delivery
	hook     atomic.Pointer[webhook.GitLabHook]
}

// newLab has a token with that level in acme/tools/shop. A writ listens at the
// public address, as far as a delivery is concerned.
func newLab(t *testing.T, o gitlabtest.Options, level int) *lab {
	t.Helper()
	l := &lab{T: t, Server: gitlabtest.New(t, o)}
	l.project = l.AddProject("acme/tools", "shop")
	_, token := l.ProjectToken(l.project, level)
	l.answer.Store(http.StatusAccepted)
	l.listener = httptest.NewServer(http.HandlerFunc(l.receive))
	t.Cleanup(l.listener.Close)
	l.g = setup.GitLab{
		At: gitlab.Config{URL: l.URL, Token: token, Proxy: "none", Limits: gitlab.Limits{WriteInterval: -1}}, Projects: []string{"acme/tools/shop"}, PublicURL: l.listener.URL,
		Dir: filepath.Join(t.TempDir(), "etc"), Builder: []string{"gofmt", "-w", "."}, Now: time.Now(),
	}
	l.g.Say = func(format string, args ...any) { fmt.Fprintf(&l.said, format, args...) }
	return l
}

// receive is a writ, as far as it takes deliveries.
func (l *lab) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h := l.hook.Load()
	switch {
	case err != nil || r.URL.Path != "/hooks/gitlab":
		w.WriteHeader(http.StatusNotFound)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case h != nil && h.Verify(r.Header, body) != nil:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		w.WriteHeader(int(l.answer.Load()))
	}
}

// run is one call of the set-up; it says what it said.
func (l *lab) run() string {
	l.Helper()
	said, err := l.try()
	if err != nil {
		l.Fatalf("%v\n%s", err, said)
	}
	return said
}

func (l *lab) try() (string, error) {
	l.said.Reset()
	g := l.g // a call knows nothing of the one before
	err := g.Run(l.Context())
	said := l.said.String()
	if strings.Contains(said, g.At.Token) || g.Maintainer != "" && strings.Contains(said, g.Maintainer) {
		l.Errorf("it says a token: %s", said)
	}
	return said, err
}

// refused is a call that fails and says what to do.
func (l *lab) refused(says string) {
	l.Helper()
	said, err := l.try()
	var e *setup.Error
	if !errors.As(err, &e) || !strings.Contains(e.Text, says) || e.Remedy == "" {
		l.Errorf("%v, wanted %q with a remedy\n%s", err, says, said)
	}
}

// files are what lies in the directory, by name.
func (l *lab) files() map[string]string {
	l.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(l.g.Dir)
	l.must(err)
	for _, e := range entries {
		info, err := e.Info()
		l.must(err)
		if info.Mode().Perm() != 0o600 {
			l.Errorf("%s has the mode %v", e.Name(), info.Mode().Perm())
		}
		data, err := os.ReadFile(filepath.Join(l.g.Dir, e.Name()))
		l.must(err)
		out[e.Name()] = string(data)
	}
	return out
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// hooks are those of the project, as an owner sees them.
func (l *lab) hooks() []gitlab.Hook {
	l.Helper()
	admin := l.AddUser("admin" + fmt.Sprint(len(l.Requests())))
	l.SetMember(l.project, admin.ID, gitlabtest.Owner)
	h, err := gitlab.New(l.Context(), gitlab.Config{URL: l.URL, Token: l.Token(admin.ID), Proxy: "none", CAFile: l.g.At.CAFile})
	l.must(err)
	defer h.Close()
	out, err := h.Hooks(l.Context(), forge.Repo{ID: l.project})
	l.must(err)
	return out
}

// writes are the requests that change something, after the first n.
func (l *lab) writes(after int) (out []string) {
	for _, r := range l.Requests()[after:] {
		if r.Method != http.MethodGet {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// configured reads what was written as `writ serve` does.
func (l *lab) configured() config.Config {
	l.Helper()
	c, err := config.Load(filepath.Join(l.g.Dir, setup.ConfigFile))
	l.must(err)
	env, err := setup.ReadEnv(filepath.Join(l.g.Dir, setup.EnvFile))
	l.must(err)
	f := c.Forges.GitLab
	for _, name := range slices.Concat([]string{f.Token}, f.HookSecrets, f.HookKeys) {
		if c.Server.Intake == config.IntakePoll && name != f.Token {
			continue
		}
		if _, err := config.Secret(func(n string) string { return env[n] }, name); err != nil {
			l.Errorf("%s: %v", name, err)
		}
	}
	return c
}

// serves has the listener take what the kept secrets sign, and nothing else.
func (l *lab) serves() {
	l.Helper()
	c := webhook.GitLabConfig{Self: 1, World: func(int64) (string, bool) { return "w", true }}
	for name, value := range l.files() {
		switch filepath.Ext(name) {
		case ".key":
			c.Keys = append(c.Keys, strings.TrimSpace(value))
		case ".secret":
			c.Tokens = append(c.Tokens, strings.TrimSpace(value))
		}
	}
	h, err := webhook.NewGitLabHook(c)
	l.must(err)
	l.hook.Store(h)
}
