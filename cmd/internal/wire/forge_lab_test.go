package wire

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// TestW9_GitLabsDeliveriesPassTheHook: what the fake sends is what writ's own hook takes,
// signed and with a secret token, and understands; and what another key has
// signed, or another token is with, is not.
func TestW9_GitLabsDeliveriesPassTheHook(t *testing.T) {
	key, other := gitlabtest.SigningToken("key"), gitlabtest.SigningToken("other")
	world := func(int64) (string, bool) { return "gitlab.example.org/acme/shop", true }
	for name, row := range map[string]struct {
		set          gitlab.HookSpec
		right, wrong webhook.GitLabConfig
	}{
		"signed": {gitlab.HookSpec{Signing: key}, webhook.GitLabConfig{Keys: []string{other, key}}, webhook.GitLabConfig{Keys: []string{other}}},
		"token":  {gitlab.HookSpec{Secret: "a-secret"}, webhook.GitLabConfig{Tokens: []string{"a-secret"}}, webhook.GitLabConfig{Tokens: []string{"another"}}},
	} {
		t.Run(name, func(t *testing.T) {
			row.right.World, row.wrong.World = world, world
			right, err := webhook.NewGitLabHook(row.right)
			if err != nil {
				t.Fatal(err)
			}
			wrong, err := webhook.NewGitLabHook(row.wrong)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			tasks := map[string]int{}
			to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				body, err := io.ReadAll(r.Body)
				if err = errors.Join(err, right.Verify(r.Header, body)); err != nil {
					t.Error(err)
					return
				}
				var refused *webhook.Error
				if err := wrong.Verify(r.Header, body); !errors.As(err, &refused) || refused.Code != kernel.CodeSigMismatch {
					t.Errorf("another secret: %v", err)
				}
				e, err := right.Parse(r.Header, body)
				if err != nil {
					t.Errorf("%s: %v\n%s", r.Header.Get("X-Gitlab-Event"), err, body)
				}
				tasks[r.Header.Get("X-Gitlab-Event")] += len(e.Keys)
			}))
			defer to.Close()
			p := gitlabtest.New(t, gitlabtest.Options{})
			id, who := p.AddProject("acme", "shop"), p.AddUser("max").ID
			p.SetMember(id, who, gitlabtest.Maintainer)
			h, err := gitlab.New(t.Context(), gitlab.Config{URL: p.URL, Token: p.Token(who), Proxy: "none"})
			must(t, err)
			defer h.Close()
			row.set.URL = to.URL
			_, err = h.EnsureHook(t.Context(), p.Repo(id), row.set)
			must(t, err)
			n := p.FileIssue(id, who, "Say hello", "Please.")
			p.Comment(id, who, n, "/writ run")
			p.Edit(id, who, n, "Say hello", "Please do.")
			p.Settle()
			mu.Lock()
			defer mu.Unlock()
			if tasks["Issue Hook"] < 2 || tasks["Note Hook"] != 1 {
				t.Errorf("it understood %v", tasks)
			}
		})
	}
}
