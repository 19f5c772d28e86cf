package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// readyAnswer is what /readyz says.
type readyAnswer struct {
	Ready, Degraded bool
	Checks          []struct {
		Name, Reason string
		OK           bool
	}
}

// readyz asks an address; zero where nobody answers.
func readyz(t *testing.T, address string) (got readyAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address+"/readyz", nil)
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return got
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, json.Unmarshal(data, &got))
	return got
}

// reason is why a check fails; "" if it doesn't, or isn't there.
func (r readyAnswer) reason(check string) string {
	for _, c := range r.Checks {
		if c.Name == check {
			return c.Reason
		}
	}
	return ""
}

// TestI13_OnlyWhatIsListedAndThere: a listed project that isn't there for the
// token, or a token that is none, leaves that world closed, with the reason in
// words and no secret; the server runs, and its receiver is ready.
func TestI13_OnlyWhatIsListedAndThere(t *testing.T) {
	lab := gitlabtest.New(t, gitlabtest.Options{})
	id := lab.AddProject("acme", "shop")
	_, token := lab.ProjectToken(id, gitlabtest.Developer)
	for _, c := range []struct{ token, repository, want string }{
		{token, "acme/none", "environment.repository.unavailable"}, {"glpat-not-a-token-of-anybody", "acme/shop", "forge.credential"},
	} {
		t.Run(c.want, func(t *testing.T) {
			dir, listen := t.TempDir(), localtest.FreeAddress(t)
			file := filepath.Join(dir, "writ.yaml")
			must(t, os.WriteFile(file, []byte("server: {state_dir: "+dir+"/state, listen: '"+listen+"'}\n"+
				"forges: {gitlab: {url: '"+lab.URL+"', proxy: none, repositories: ["+c.repository+"]}}\n"), 0o600))
			var out syncBuffer
			a := newApp(strings.NewReader(""), &out, &out, append(os.Environ(), "WRIT_GITLAB_TOKEN="+c.token, "WRIT_GITLAB_HOOK_SECRET="+localtest.Secret))
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			exit := make(chan int, 1)
			go func() { exit <- a.main(ctx, []string{"serve", "--config", file}) }()
			check := "forge:" + strings.Replace(lab.URL, "http://", "", 1) + "/" + c.repository
			check = strings.ReplaceAll(check, "127.0.0.1:", "127.0.0.1-")
			var got readyAnswer
			localtest.Until(t, patience, "it says why the world is closed", func() bool {
				got = readyz(t, listen)
				return got.Ready
			})
			cancel()
			if exit := <-exit; exit != exitDone {
				t.Errorf("serve ended with %d", exit)
			}
			if !got.Ready || !got.Degraded || !strings.Contains(got.reason(check), c.want) {
				t.Errorf("%+v", got)
			}
			if text := fmt.Sprint(got, out.String()); strings.Contains(text, c.token) {
				t.Error("the token is shown")
			}
		})
	}
}
