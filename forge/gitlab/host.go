package gitlab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/internal/transport"
)

// The defaults of a Config.
const (
	DefaultURL = "https://gitlab.com"
	// DefaultUserAgent is how requests name themselves.
	DefaultUserAgent = "writ"
)

// Config are the settings of a Host. Token is required.
type Config struct {
	// URL is where GitLab's pages are, also below a path; "": DefaultURL. It holds
	// no credential.
	URL string
	// Token is a project or group access token with the scope api and the role
	// Developer; a personal one works and is warned of.
	Token string

	CAFile         string // PEM; added to the system's authorities
	Proxy          string // a URL; "": the environment's; "none"
	UserAgent      string // "": DefaultUserAgent
	AllowPlaintext bool   // http to another machine
	Timeout        time.Duration
	Limits         Limits
	Now            func() time.Time // nil: time.Now
	Logger         *slog.Logger     // nil: nothing is logged

	// Wrap goes between the adapter and the network. For tests.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Limits are what is asked of GitLab at most. A zero is the default, which keeps
// below the 60 notes a minute that GitLab allows.
type Limits struct {
	WriteInterval time.Duration // from one write to the next; negative: none
	MaxWait       time.Duration // of a write for its turn
	Creates       int           // writes an hour that people are told of; negative: no end
	Edits         int           // other writes an hour; negative: no end
	Reserve       int           // percent of GitLab's allowance that the sweep leaves
}

// Host is one GitLab, as one account. It is safe for concurrent use.
type Host struct {
	cfg  Config
	base *url.URL       // its path ends with a slash
	api  *gitlab.Client //nolint:staticcheck // the library that was chosen, no longer kept up
	web  *http.Client
	tr   *transport.Transport
	log  *slog.Logger

	mu    sync.Mutex
	self  forge.User
	kinds map[int64]forge.Kind
	notes map[int64]thread
	// edited is when texts were last edited, by what listings showed of them.
	edited map[noteVersion]time.Time
	names  map[int64]forge.Repo // as they were last seen
}

// How many accounts' kinds, and comments' places, are remembered. Neither ever
// changes; when there are more, all are forgotten.
const maxKnown = 10_000

// New prepares access. It asks GitLab nothing, so that writ starts while GitLab
// is down. Errors: a URL, certificate file or proxy that can't be used.
func New(_ context.Context, c Config) (*Host, error) {
	if c.URL == "" {
		c.URL = DefaultURL
	}
	if c.UserAgent == "" {
		c.UserAgent = DefaultUserAgent
	}
	base, err := transport.BaseURL(c.URL, c.AllowPlaintext)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(c.Token) != c.Token || c.Token == "" {
		return nil, errors.New("GitLab's token is missing, or has white space around it")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	tr, err := transport.New(transport.Config{
		Hosts: []string{base.Host}, CAFile: c.CAFile, Proxy: c.Proxy, UserAgent: c.UserAgent, Timeout: c.Timeout,
		Now: c.Now, Logger: c.Logger, Wrap: c.Wrap,
		Limits: transport.Limits{
			Interval: c.Limits.WriteInterval, MaxWait: c.Limits.MaxWait, Creates: c.Limits.Creates,
			Edits: c.Limits.Edits, Reserve: c.Limits.Reserve,
		},
	})
	if err != nil {
		return nil, err
	}
	h := &Host{cfg: c, base: base, web: tr.Client(), tr: tr, log: c.Logger, kinds: map[int64]forge.Kind{}, notes: map[int64]thread{}, edited: map[noteVersion]time.Time{}, names: map[int64]forge.Repo{}}
	h.api, err = gitlab.NewClient(c.Token, //nolint:staticcheck // see api
		gitlab.WithBaseURL(base.String()), gitlab.WithHTTPClient(h.web), gitlab.WithoutRetries(),
		gitlab.WithCustomRetryMax(0), gitlab.WithCustomRetry(never), gitlab.WithCustomLimiter(unlimited{}))
	if err != nil {
		return nil, fmt.Errorf("GitLab's client: %w", err)
	}
	return h, nil
}

// API is the address of the REST API that is asked, with a slash at its end.
func (h *Host) API() string { return h.base.JoinPath("api/v4/").String() }

// Close releases idle connections.
func (h *Host) Close() { h.tr.CloseIdleConnections() }

// never is the library's word on another try: who calls decides about that. The
// error stays what the transport said, whatever became of the context.
func never(_ context.Context, _ *http.Response, err error) (bool, error) { return false, err }

// unlimited is the library's pace: the transport has ours.
type unlimited struct{}

func (unlimited) Wait(context.Context) error { return nil }

// Find finds a repository by its name; owner may hold subgroups: a/b.
func (h *Host) Find(ctx context.Context, owner, name string) (forge.Repository, error) {
	return h.repository(ctx, "find "+owner+"/"+name, owner+"/"+name)
}

// Client is a client for work in a repository. The token decides where else it
// reaches.
func (h *Host) Client(forge.Repo) forge.Client { return &client{h} }

// EditHistory says that History lists every edit of title and body: it doesn't
// surely, since GitLab hides the notes of accounts that were banned.
func (h *Host) EditHistory() bool { return false }

// Warnings are what an operator should know of how writ is set up here. Whose
// token it is is known once [Host.Self] was asked.
func (h *Host) Warnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.self.Kind != forge.Person {
		return nil
	}
	return []string{"GitLab's token is a person's: writ reaches all that its owner reaches, and what writ does looks like the owner's act. " +
		"A project access token is bound to its project."}
}

// named is a repository under the name it was last seen with.
func (h *Host) named(r forge.Repo) forge.Repo {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now, known := h.names[r.ID]; known {
		return now
	}
	return r
}

// GitURL is where git finds a repository, under the name it was last seen with.
func (h *Host) GitURL(r forge.Repo) string {
	r = h.named(r)
	u := *h.base
	u.Path += r.Owner + "/" + r.Name + ".git"
	return u.String()
}

// GitAuth are the credentials for [Host.GitURL]. GitLab takes any name beside a
// token.
func (h *Host) GitAuth(forge.Repo) git.Auth {
	return git.Auth{
		Username: "oauth2", AllowPlaintext: h.cfg.AllowPlaintext,
		AskPassword: func(context.Context) (string, error) { return h.cfg.Token, nil },
	}
}

// client is one account's access.
type client struct{ *Host }

var _ forge.Client = (*client)(nil)
