package github

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Made is an App that GitHub has made from a manifest.
type Made struct {
	ID         int64
	Slug       string
	Page       string // its public page; where it is installed is below
	Key        []byte // its private key, PEM
	HookSecret string // "" where its webhook isn't in use
}

// codeForm is what GitHub's code is made of. The library puts it into a path as
// it is.
var codeForm = lazyregexp.New(`^[A-Za-z0-9_-]{1,256}$`)

// NewAppURL is where a manifest is posted: to the settings of the person who is
// signed in there, or of an organisation. Of the Config only URL and
// AllowPlaintext are looked at.
func NewAppURL(c Config, org string) (*url.URL, error) {
	at, err := c.addresses()
	if err != nil {
		return nil, err
	}
	if org != "" {
		return at.web.JoinPath("organizations", org, "settings", "apps", "new"), nil //nolint:misspell // GitHub's word
	}
	return at.web.JoinPath("settings", "apps", "new"), nil
}

// Convert trades the code that GitHub gives once for a manifest for the App and
// its credentials. A code counts once, and for an hour: [forge.NotFound] after.
// An [forge.Error] with Applied leaves open whether it has been used. Of the
// Config neither App nor Token is looked at.
func Convert(ctx context.Context, c Config, code string) (Made, error) {
	const op = "make the App"
	if !codeForm().MatchString(code) {
		return Made{}, invalid(op, "the code is none of GitHub's")
	}
	h, err := nobody(c)
	if err != nil {
		return Made{}, err
	}
	defer h.Close()
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Lane: transport.Create, Live: true})
	found, _, err := h.api(h.net).Apps.CompleteAppManifest(ctx, code)
	if err != nil {
		return Made{}, fail(op, transport.Create, err)
	}
	m := Made{
		ID: found.GetID(), Slug: found.GetSlug(), Page: found.GetHTMLURL(),
		Key: []byte(found.GetPEM()), HookSecret: found.GetWebhookSecret(),
	}
	if err := m.check(); err != nil {
		return Made{}, &forge.Error{Reason: forge.Unavailable, Op: op, Applied: true, Err: err}
	}
	if u, err := url.Parse(m.Page); err != nil || u.Scheme != h.at.web.Scheme || u.Host != h.at.web.Host {
		m.Page = h.at.appPage(m.Slug) // GitHub calls itself otherwise than the operator does
	}
	return m, nil
}

// nobody is a Host without credentials.
func nobody(c Config) (*Host, error) {
	at, err := c.addresses()
	if err != nil {
		return nil, err
	}
	if c.UserAgent == "" {
		c.UserAgent = DefaultUserAgent
	}
	net, err := transport.New(transport.Config{
		Hosts: []string{at.rest.Host}, CAFile: c.CAFile, Proxy: c.Proxy, UserAgent: c.UserAgent,
		Timeout: c.Timeout, Now: c.Now, Logger: c.Logger, Wrap: c.Wrap,
	})
	return &Host{cfg: c, at: at, net: net}, err
}

// IsOrg asks, without credentials, whether an account is an organisation's. An
// Enterprise Server that shows nothing to strangers gives an error. Of the Config
// neither App nor Token is looked at.
func IsOrg(ctx context.Context, c Config, login string) (bool, error) {
	op := "ask what " + login + " is"
	h, err := nobody(c)
	if err != nil {
		return false, err
	}
	defer h.Close()
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Lane: transport.Read, Live: true})
	found, _, err := h.api(h.net).Users.Get(ctx, url.PathEscape(login))
	if err != nil {
		return false, fail(op, transport.Read, err)
	}
	return found.GetType() == "Organization", nil //nolint:misspell // GitHub's word
}

// check wants everything that can't be asked for a second time.
func (m Made) check() error {
	if m.ID <= 0 || m.Slug == "" {
		return errors.New("the answer has no App in it")
	}
	_, err := (App{ID: m.ID, Key: m.Key}).key()
	return err
}

// appPage is an App's public page as its GitHub is reached from here.
func (a addresses) appPage(slug string) string {
	root := "apps"
	if strings.HasSuffix(a.rest.Path, "/api/v3/") { // an Enterprise Server
		root = "github-apps"
	}
	return a.web.JoinPath(root, slug).String()
}

// About is the App as GitHub knows it, without its credentials.
func (h *Host) About(ctx context.Context) (Made, error) {
	const op = "ask which App this is"
	if h.key == nil {
		return Made{}, &forge.Error{Reason: forge.Unauthorized, Op: op}
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Live: true})
	found, _, err := h.api(h.asApp()).Apps.Get(ctx, "")
	if err != nil {
		return Made{}, fail(op, transport.Read, err)
	}
	if found.GetID() != h.cfg.App.ID {
		return Made{}, &forge.Error{Reason: forge.Unauthorized, Op: op, Err: fmt.Errorf("the key is of the App %d", found.GetID())}
	}
	return Made{ID: found.GetID(), Slug: found.GetSlug(), Page: found.GetHTMLURL()}, nil
}
