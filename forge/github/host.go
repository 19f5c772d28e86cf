package github

import (
	"context"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	api "github.com/google/go-github/v60/github"

	apps "github.com/google/go-github/v88/github"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/internal/transport"
)

// Host is one GitHub, and who writ is on it. It is safe for concurrent use.
type Host struct {
	cfg Config
	at  addresses
	net *transport.Transport
	now func() time.Time
	log *slog.Logger
	key *rsa.PrivateKey // the App's; nil with a personal token

	mu     sync.Mutex
	places map[int64]*place // by repository id
	// workflows is by repository id, see [Host.Workflows]
	workflows map[int64]workflows
	tokens    map[tokenKey]source
	self      forge.User
}

// New makes a Host. It asks GitHub nothing yet.
func New(ctx context.Context, c Config) (*Host, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	at, err := c.addresses()
	if err != nil {
		return nil, err
	}
	if c.UserAgent == "" {
		c.UserAgent = DefaultUserAgent
	}
	h := &Host{cfg: c, at: at, now: c.Now, log: c.Logger, places: map[int64]*place{}, workflows: map[int64]workflows{}, tokens: map[tokenKey]source{}}
	if h.now == nil {
		h.now = time.Now
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.net, err = transport.New(transport.Config{
		Hosts: []string{at.rest.Host, at.graphql.Host}, CAFile: c.CAFile, Proxy: c.Proxy, UserAgent: c.UserAgent,
		Timeout: c.Timeout, Now: c.Now, Logger: c.Logger, Wrap: c.Wrap,
		Limits: transport.Limits{
			Interval: c.Limits.WriteInterval, MaxWait: c.Limits.MaxWait, Creates: c.Limits.Creates,
			Edits: c.Limits.Edits, Reserve: c.Limits.Reserve,
		},
	})
	if err != nil {
		return nil, err
	}
	if c.Token == "" {
		if h.key, err = c.App.key(); err != nil {
			return nil, err
		}
	}
	for _, w := range h.Warnings() {
		h.log.WarnContext(ctx, w, "url", at.web.String())
	}
	return h, nil
}

// API is the address of the REST API that is asked, with a slash at its end.
func (h *Host) API() string { return h.at.rest.String() }

// Close closes the connections that nobody uses.
func (h *Host) Close() { h.net.CloseIdleConnections() }

// Warnings are what an operator should know of how writ is set up here.
func (h *Host) Warnings() []string {
	if h.key != nil {
		return nil
	}
	return []string{"A personal token is used: writ acts as its owner, may do in every repository what the owner may, " +
		"and sets commit statuses in place of check runs. A GitHub App is bound to its repositories."}
}

// Find looks a configured name up. Its id is the identity from then on.
func (h *Host) Find(ctx context.Context, owner, name string) (forge.Repository, error) {
	op := fmt.Sprintf("find %s/%s", owner, name)
	p, err := h.placeByName(ctx, op, owner, name)
	if err != nil {
		return forge.Repository{}, err
	}
	return p.about, nil
}

// placeByName is for names that an operator wrote.
func (h *Host) placeByName(ctx context.Context, op, owner, name string) (*place, error) {
	var installation int64
	var rt http.RoundTripper = bearer{h.net, h.cfg.Token}
	if h.key != nil {
		var err error
		if installation, err = h.installationOf(ctx, op, owner, name); err != nil {
			return nil, err
		}
		rt = h.installed(installation, &apps.InstallationTokenOptions{Repositories: []string{name}, Permissions: permissions(toRead)})
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: (&place{installation: installation}).account()})
	found, _, err := h.api(rt).Repositories.Get(ctx, owner, name)
	if err != nil {
		return nil, fail(op, transport.Read, err)
	}
	about, err := repository(found)
	if err != nil {
		return nil, fail(op, transport.Read, err)
	}
	if !strings.EqualFold(about.String(), owner+"/"+name) {
		return nil, &forge.Error{Reason: forge.NotFound, Op: op, Err: fmt.Errorf("GitHub answers with %s", about.Repo)}
	}
	return h.remember(about, installation), nil
}

// Client acts in a repository. Its methods may be asked about another one, too.
func (h *Host) Client(r forge.Repo) forge.Client { return &client{h: h, home: r} }

// EditHistory says that History lists every edit of title and body.
func (h *Host) EditHistory() bool { return true }

// GitURL is where the repository is cloned from, under the name it was last seen
// with. It holds no credential.
func (h *Host) GitURL(r forge.Repo) string {
	h.mu.Lock()
	if p := h.places[r.ID]; p != nil {
		r = p.about.Repo
	}
	h.mu.Unlock()
	return h.at.web.JoinPath(r.Owner, r.Name+".git").String()
}

// gitUser is whose password a token is, in git's eyes.
const gitUser = "x-access-token"

// GitAuth gives git a token for this repository alone, with which contents may
// be written and, where that was asked for and given, workflows; a new one before the last has ended. With a
// personal token it is that one.
func (h *Host) GitAuth(r forge.Repo) git.Auth {
	return git.Auth{Username: gitUser, AllowPlaintext: h.cfg.AllowPlaintext, AskPassword: func(ctx context.Context) (string, error) {
		op := "git credential for " + r.String()
		p, err := h.place(ctx, op, r)
		if forge.Passing(err) { // a lease is renewed over git, whatever the API's limits
			p = h.placeSeen(r)
		}
		if p == nil {
			return "", err
		}
		token, err := h.token(ctx, op, p, h.gitScope(r.ID))
		return token, fail(op, transport.Read, err)
	}}
}

// gitScope is what git's token for a repository is for.
func (h *Host) gitScope(id int64) scope {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.workflows[id].may {
		return forWorkflows
	}
	return forGit
}

// placeSeen is a repository as it was last seen, nil if it never was. A token that
// is asked for its id counts for that repository alone, whatever its name.
func (h *Host) placeSeen(r forge.Repo) *place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.places[r.ID]
}

// api makes a client of GitHub's library.
func (h *Host) api(rt http.RoundTripper) *api.Client {
	c := api.NewClient(&http.Client{Transport: rt})
	c.BaseURL, c.UserAgent = h.at.rest, h.cfg.UserAgent
	return c
}
