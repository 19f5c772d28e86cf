package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	api "github.com/google/go-github/v60/github"
	apps "github.com/google/go-github/v88/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// placeAge is how long a repository's name is believed. Asking again costs
// GitHub's allowance nothing while nothing has changed.
const placeAge = time.Minute

// place is a repository, and the tokens for it.
type place struct {
	about        forge.Repository
	installation int64 // 0 with a personal token
	seen         time.Time
}

// tokenKey is what a token is for.
type tokenKey struct {
	repository, installation int64
	scope                    scope
}

// source gives tokens for one repository and scope.
type source struct {
	*ghinstallation.Transport
	made time.Time
}

// tokenAge is how long a source is used: a token lasts an hour, and what begins
// with it must have time to end.
const tokenAge = 50 * time.Minute

// scope is what a token is for.
type scope string

// The scopes, each no wider than its acts need.
const (
	toRead  scope = "read"
	toTalk  scope = "talk" // issues and changes: comments, labels, states, opening and editing changes
	toCheck scope = "check"
	forGit  scope = "git"
	// forWorkflows is forGit where pushes may change workflows, see [Host.Workflows].
	forWorkflows scope = "git and workflows"
)

func permissions(s scope) *apps.InstallationPermissions {
	const read, write = "read", "write"
	p := &apps.InstallationPermissions{Metadata: apps.Ptr(read)}
	switch s {
	case toRead:
		p.Issues, p.PullRequests = apps.Ptr(read), apps.Ptr(read)
	case toTalk:
		p.Issues, p.PullRequests = apps.Ptr(write), apps.Ptr(write)
	case toCheck:
		p.Checks = apps.Ptr(write)
	case forGit:
		p.Contents = apps.Ptr(write)
	case forWorkflows:
		p.Contents, p.Workflows = apps.Ptr(write), apps.Ptr(write)
	}
	return p
}

// account is whose limits count: GitHub counts for each installation.
func (p *place) account() string { return fmt.Sprintf("installation %d", p.installation) }

// appAccount is the App itself.
const appAccount = "app"

// place finds a repository by its id, and by its name only to learn which
// installation it belongs to. Of many who ask at once, one asks GitHub.
func (h *Host) place(ctx context.Context, op string, r forge.Repo) (*place, error) {
	now := h.now()
	h.mu.Lock()
	p := h.places[r.ID]
	fresh := p != nil && now.Sub(p.seen) < placeAge
	if p != nil && !fresh {
		p.seen = now
	}
	h.mu.Unlock()
	if fresh {
		return p, nil
	}
	found, err := h.placeNow(ctx, op, r)
	if err != nil && p != nil {
		h.mu.Lock()
		p.seen = time.Time{}
		h.mu.Unlock()
	}
	return found, err
}

// placeNow asks GitHub, whatever is remembered.
func (h *Host) placeNow(ctx context.Context, op string, r forge.Repo) (*place, error) {
	h.mu.Lock()
	p := h.places[r.ID]
	h.mu.Unlock()
	var installation int64
	if p != nil {
		installation = p.installation
	} else if h.key != nil {
		var err error
		if installation, err = h.installationOf(ctx, op, r.Owner, r.Name); err != nil {
			return nil, err
		}
	}
	found, err := h.byID(ctx, op, r.ID, installation)
	if h.outdated(err) {
		h.forget(r.ID)
		found, err = h.byID(ctx, op, r.ID, installation)
	}
	if p != nil && h.key != nil && (forge.IsReason(err, forge.Unauthorized) || forge.IsReason(err, forge.NotFound)) {
		// The App may have been installed anew.
		again, gone := h.installationOf(ctx, op, p.about.Owner, p.about.Name)
		if gone == nil && again != installation {
			installation = again
			found, err = h.byID(ctx, op, r.ID, installation)
		}
	}
	if err != nil {
		return nil, err
	}
	return h.remember(found, installation), nil
}

func (h *Host) remember(about forge.Repository, installation int64) *place {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &place{about: about, installation: installation, seen: h.now()}
	h.places[about.ID] = p
	return p
}

// forget makes the next act look the repository up, and make new tokens.
func (h *Host) forget(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.places[id]; p != nil {
		h.places[id] = &place{about: p.about, installation: p.installation}
	}
	maps.DeleteFunc(h.tokens, func(k tokenKey, _ source) bool { return k.repository == id })
}

// installationOf asks which installation a repository belongs to.
func (h *Host) installationOf(ctx context.Context, op, owner, name string) (int64, error) {
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Live: true})
	found, _, err := h.api(h.asApp()).Apps.FindRepositoryInstallation(ctx, owner, name)
	if err != nil {
		return 0, fail(op, transport.Read, err)
	}
	if found.GetID() <= 0 {
		return 0, fail(op, transport.Read, odd("an installation without an id"))
	}
	if want := h.cfg.App.Installation; want != 0 && found.GetID() != want {
		return 0, &forge.Error{Reason: forge.Forbidden, Op: op, Err: fmt.Errorf("the repository belongs to installation %d, and %d is configured", found.GetID(), want)}
	}
	return found.GetID(), nil
}

// byID reads a repository by its id. A token of an installation is made for it
// alone, so that the list of what may be seen with it is this one repository.
func (h *Host) byID(ctx context.Context, op string, id, installation int64) (forge.Repository, error) {
	call := transport.With(ctx, transport.Call{Op: op, Account: (&place{installation: installation}).account()})
	if h.key == nil {
		found, _, err := h.api(bearer{h.net, h.cfg.Token}).Repositories.GetByID(call, id)
		if err != nil {
			return forge.Repository{}, fail(op, transport.Read, err)
		}
		return known(op, id, found)
	}
	rt := h.source(id, installation, toRead)
	found, _, err := h.api(rt).Apps.ListRepos(call, &api.ListOptions{PerPage: pageSize})
	if err != nil {
		return forge.Repository{}, fail(op, transport.Read, err)
	}
	if found == nil {
		return forge.Repository{}, fail(op, transport.Read, odd("it is null"))
	}
	return known(op, id, found.Repositories...)
}

func known(op string, id int64, found ...*api.Repository) (forge.Repository, error) {
	for _, r := range found {
		if r.GetID() == id {
			about, err := repository(r)
			return about, fail(op, transport.Read, err)
		}
	}
	return forge.Repository{}, &forge.Error{Reason: forge.NotFound, Op: op, Err: fmt.Errorf("the repository %d is not there", id)}
}

// source finds or makes the one of a repository and scope.
func (h *Host) source(id, installation int64, s scope) *ghinstallation.Transport {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := tokenKey{id, installation, s}
	if t, there := h.tokens[key]; there && h.now().Sub(t.made) < tokenAge {
		return t.Transport
	}
	t := h.installed(installation, &apps.InstallationTokenOptions{RepositoryIDs: []int64{id}, Permissions: permissions(s)})
	h.tokens[key] = source{t, h.now()}
	return t
}

// installed makes tokens. ghinstallation writes to the part that signs for the
// App at each use, so each source has its own.
func (h *Host) installed(installation int64, o *apps.InstallationTokenOptions) *ghinstallation.Transport {
	t := ghinstallation.NewFromAppsTransport(h.asApp(), installation)
	t.InstallationTokenOptions = o
	return t
}

func (h *Host) asApp() *ghinstallation.AppsTransport {
	t := ghinstallation.NewAppsTransportFromPrivateKey(minting{h.net}, h.cfg.App.ID, h.key)
	t.BaseURL = strings.TrimSuffix(h.at.rest.String(), "/")
	return t
}

// minting makes the request for a token a call of its own: it isn't the act that
// needs the token, and doesn't count against it.
type minting struct{ next http.RoundTripper }

// mintPath ends the path of the request for a token.
const mintPath = "/access_tokens"

func (m minting) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, mintPath) {
		return m.next.RoundTrip(req)
	}
	call := transport.Call{Op: "token of the App's installation", Account: appAccount, Lane: transport.Read, Live: true}
	res, err := m.next.RoundTrip(req.WithContext(transport.With(req.Context(), call)))
	if err != nil {
		return res, mintError(err)
	}
	return res, tokenIn(res)
}

// tokenIn makes sure that there is a token with an end in an answer: the library
// takes what it finds for one, and ends the process at a null.
func tokenIn(res *http.Response) error {
	body, err := io.ReadAll(res.Body) // it is in memory
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	var said struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Token == "" || said.Expires.IsZero() {
		return &forge.Error{Reason: forge.Unavailable, Err: odd("it holds no token")}
	}
	return nil
}

// mintError says what a refused token means: the installation is gone, or the
// repository or a permission was taken from it.
func mintError(err error) error {
	var e *forge.Error
	var s *transport.StatusError
	if !errors.As(err, &e) || !errors.As(err, &s) {
		return err
	}
	out := *e
	switch {
	case s.Status == http.StatusNotFound:
		out.Reason = forge.Unauthorized
	case s.Status == http.StatusUnprocessableEntity && strings.Contains(s.Words, "permission"):
		out.Reason = forge.Forbidden
	case s.Status == http.StatusUnprocessableEntity:
		out.Reason = forge.NotFound
	}
	return &out
}

// token is a token's text, for git.
func (h *Host) token(ctx context.Context, op string, p *place, s scope) (string, error) {
	if h.key == nil {
		return h.cfg.Token, nil
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: p.account()})
	return h.source(p.about.ID, p.installation, s).Token(ctx)
}

// roundTripper authenticates for one repository and scope.
func (h *Host) roundTripper(p *place, s scope) http.RoundTripper {
	if h.key == nil {
		return bearer{h.net, h.cfg.Token}
	}
	return h.source(p.about.ID, p.installation, s)
}

// bearer authenticates with a token that doesn't change.
type bearer struct {
	next  http.RoundTripper
	token string
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(out)
}
