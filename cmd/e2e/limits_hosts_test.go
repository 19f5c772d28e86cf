package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
)

// errand is a request on its way out of a bubble.
type errand struct {
	req  *http.Request
	res  *http.Response
	err  error
	sent chan bool // made outside, as done is
	done chan bool
}

// outside is the network as seen from a bubble: the bubble's time stands still
// while a request is under way, since its channels are not the bubble's.
type outside chan *errand

// goOutside starts as many ways out as there are. It is called outside the bubble.
func goOutside(t *testing.T, ways int) outside {
	free := make(outside, ways)
	client := &http.Transport{}
	t.Cleanup(client.CloseIdleConnections)
	for range ways {
		e := &errand{sent: make(chan bool), done: make(chan bool)}
		t.Cleanup(func() { close(e.sent) })
		free <- e
		go func() {
			for range e.sent {
				e.res, e.err = client.RoundTrip(e.req) //nolint:bodyclose // it is closed below
				if e.err == nil {
					var body []byte
					body, e.err = io.ReadAll(e.res.Body)
					_ = e.res.Body.Close() // it was read
					e.res.Body = io.NopCloser(bytes.NewReader(body))
				}
				e.done <- true
			}
		}()
	}
	return free
}

func (o outside) RoundTrip(req *http.Request) (*http.Response, error) {
	e := <-o
	e.req = req.Clone(context.WithoutCancel(context.Background()))
	e.sent <- true
	<-e.done
	res, err := e.res, e.err
	o <- e
	return lasting(res), err
}

// lasting gives a token the bubble's hour.
func lasting(res *http.Response) *http.Response {
	if res == nil || !strings.HasSuffix(res.Request.URL.Path, "/access_tokens") {
		return res
	}
	var token map[string]any
	body, err := io.ReadAll(res.Body)
	if err == nil && json.Unmarshal(body, &token) == nil {
		token["expires_at"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		body, _ = json.Marshal(token) // it was JSON
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return res
}

// crowd is many approved issues on a forge.
type crowd struct {
	numbers []int64
	front   *front
	client  forge.Client // a reader's, unpaced
	repo    forge.Repo
}

const askedTitle = "Say hello"

// evidence is what signed payloads said of each issue.
type evidence struct{ row approval.Row }

func (e evidence) Approvals(context.Context, int64, int64) ([]approval.Row, error) {
	return []approval.Row{e.row}, nil
}

// crowds make many approved issues: first outside the bubble, then inside. The
// emulator takes its time, and GitHub's limits hold on GitLab, too, so that fewer
// will do there.
var crowds = map[string]struct {
	most int
	make func(t *testing.T, n int) func(t *testing.T, b *bubble) *crowd
}{
	"github": {30, crowdOnGitHub},
	"gitlab": {manyTasks, crowdOnGitLab},
}

// GitHub's published limits for an installation. Creations are what the rules
// say generates content: what notifies people.
func gitHubRules() []*rule {
	writes := func(method, _ string) int {
		if method == http.MethodGet {
			return 0
		}
		return 1
	}
	return []*rule{
		{name: "80 writes a minute", most: 80, in: time.Minute, weighs: func(method, path string) int {
			if strings.HasSuffix(path, "/access_tokens") || strings.HasSuffix(path, "/graphql") {
				return 0
			}
			return writes(method, path)
		}},
		{name: "500 creations an hour", most: 500, in: time.Hour, weighs: func(method, path string) int {
			if method == http.MethodPost && slices.Contains([]string{"comments", "pulls", "issues", "notes", "merge_requests"}, path[strings.LastIndexByte(path, '/')+1:]) {
				return 1
			}
			return 0
		}},
		{name: "900 points a minute", most: 900, in: time.Minute, weighs: func(method, path string) int {
			if strings.HasSuffix(path, "/graphql") { // it has 2000 of its own
				return 0
			}
			return 1 + 4*writes(method, path)
		}},
	}
}

func crowdOnGitHub(t *testing.T, n int) func(*testing.T, *bubble) *crowd {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	reader, maintainer := p.As(t, p.Reader), p.As(t, p.Maintainer)
	c := &crowd{repo: p.Repo}
	for range n {
		i, err := reader.FileIssue(t.Context(), p.Repo, askedTitle, localtest.Asks("default"))
		if err == nil {
			err = maintainer.AddLabel(t.Context(), p.Repo, i.Number, localtest.Label)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.numbers = append(c.numbers, i.Number)
	}
	ways, began := goOutside(t, 12), time.Now()
	config := p.Config()
	config.Limits = github.Limits{}
	tell := p // its calls go over the network, from outside
	told := make(chan [3]string)
	ack := make(chan bool)
	t.Cleanup(func() { close(told) })
	ended := make(chan struct{}) // also by a failure, for which nobody need wait
	go func() {
		defer close(ended)
		for m := range told {
			tell.Moved(t, p.Slug+"[bot]", m[0], m[1], m[2])
			ack <- true
		}
	}()
	return func(t *testing.T, b *bubble) *crowd {
		<-time.After(time.Until(began)) // the emulator's clock is the real one
		c.front = &front{next: ways, rules: gitHubRules(), status: http.StatusForbidden, quota: allowance{prefix: "X-RateLimit-", most: 5000, in: time.Hour}}
		open := func(c github.Config, next http.RoundTripper) forge.Client {
			c.Wrap = func(http.RoundTripper) http.RoundTripper { return next }
			h, err := github.New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			b.password = h.GitAuth(p.Repo).AskPassword
			return h.Client(p.Repo)
		}
		c.client = open(p.TokenConfig(p.Reader), ways)
		b.gitDir, b.forge = p.GitDir, &supervisor.Forge{Client: open(config, c.front), Repo: p.Repo, EditHistory: true}
		b.tell = func(ref, old, oid string) {
			if old == "" {
				old = strings.Repeat("0", len(oid))
			}
			select {
			case told <- [3]string{ref, old, oid}:
			case <-ended:
				return
			}
			select {
			case <-ack:
			case <-ended:
			}
		}
		return c
	}
}

// gitLabRules are those of gitlab.com, and GitHub's.
func gitLabRules() []*rule {
	return append(gitHubRules(), []*rule{
		{name: "60 notes a minute", most: 60, in: time.Minute, weighs: func(method, path string) int {
			if method == http.MethodPost && strings.HasSuffix(path, "/notes") {
				return 1
			}
			return 0
		}},
		{name: "2000 requests a minute", most: 2000, in: time.Minute, weighs: func(string, string) int { return 1 }},
	}...)
}

func crowdOnGitLab(_ *testing.T, n int) func(*testing.T, *bubble) *crowd {
	return func(t *testing.T, b *bubble) *crowd {
		lab := gitlabtest.New(t, gitlabtest.Options{Unserved: true})
		id := lab.AddProject("acme", "shop")
		maja, rita := lab.AddUser("maja"), lab.AddUser("rita")
		lab.SetMember(id, maja.ID, gitlabtest.Maintainer)
		lab.SetMember(id, rita.ID, gitlabtest.Guest)
		bot, token := lab.ProjectToken(id, gitlabtest.Developer)
		c := &crowd{repo: lab.Repo(id)}
		at := time.Now()
		for range n {
			i := lab.FileIssue(id, rita.ID, askedTitle, localtest.Asks("default"))
			lab.Label(id, maja.ID, i, localtest.Label)
			c.numbers = append(c.numbers, i)
		}
		shown := lab.Issue(id, c.numbers[0])
		digest, err := kernel.ApprovalDigest(shown.Title, shown.Description)
		if err != nil {
			t.Fatal(err)
		}
		c.front = &front{next: inProcess{lab.Handler()}, rules: gitLabRules(), status: http.StatusTooManyRequests, quota: allowance{prefix: "RateLimit-", most: 2000, in: time.Minute}}
		open := func(token string, next http.RoundTripper, l gitlab.Limits) forge.Client {
			h, err := gitlab.New(t.Context(), gitlab.Config{
				URL: lab.URL, Token: token, Limits: l, Wrap: func(http.RoundTripper) http.RoundTripper { return next },
			})
			if err != nil {
				t.Fatal(err)
			}
			return h.Client(c.repo)
		}
		c.client = open(lab.Token(rita.ID), inProcess{lab.Handler()}, gitlab.Limits{WriteInterval: -1})
		row := approval.Row{Kind: approval.ByLabel, Actor: maja.ID, Label: localtest.Label, Digest: digest, At: at.UnixMilli()}
		b.forge = &supervisor.Forge{Client: open(token, c.front, gitlab.Limits{}), Repo: c.repo, Evidence: evidence{row}}
		b.gitDir, b.tell = lab.GitDir(id), func(ref, old, oid string) {
			if old == "" {
				old = strings.Repeat("0", len(oid))
			}
			lab.Moved(id, bot.ID, ref, old, oid)
		}
		return c
	}
}
