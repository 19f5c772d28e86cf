package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Self is forge.Identities: the App's bot, or the owner of the token. It is
// asked once.
func (c *client) Self(ctx context.Context) (forge.User, error) {
	h := c.h
	const op = "ask who writ is"
	if err := ctx.Err(); err != nil {
		return forge.User{}, &forge.Error{Reason: forge.Unavailable, Op: op, Err: err}
	}
	h.mu.Lock()
	known := h.self
	h.mu.Unlock()
	if known.ID != 0 {
		return known, nil
	}
	u, err := h.askSelf(ctx, op, c.home)
	if err != nil {
		return forge.User{}, fail(op, transport.Read, err)
	}
	self, err := user(u)
	if err == nil && self.ID == 0 {
		err = odd("it names no account")
	}
	if err != nil {
		return forge.User{}, fail(op, transport.Read, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.self = self
	return self, nil
}

func (h *Host) askSelf(ctx context.Context, op string, home forge.Repo) (*api.User, error) {
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Live: true})
	if h.key == nil {
		u, _, err := h.api(bearer{h.net, h.cfg.Token}).Users.Get(ctx, "")
		return u, err
	}
	app, _, err := h.api(h.asApp()).Apps.Get(ctx, "")
	if err != nil {
		return nil, err
	}
	// The App itself may not ask for accounts; its installation may.
	p, err := h.place(ctx, op, home)
	if err != nil {
		return nil, err
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: p.account()})
	u, _, err := h.api(h.roundTripper(p, toRead)).Users.Get(ctx, url.PathEscape(app.GetSlug()+botSuffix))
	return u, err
}

// level is what GitHub says of an account in a repository. go-github v60 leaves
// the role out.
type level struct {
	Permission string    `json:"permission"`
	RoleName   string    `json:"role_name"`
	User       *api.User `json:"user"`
}

// roles are GitHub's names for the contract's words. A role of an organisation's
// own making is what it is based on.
var roles = map[string]forge.Permission{
	"none": forge.None, "read": forge.Read, "pull": forge.Read, "triage": forge.Triage, "write": forge.Write, "push": forge.Write,
	"maintain": forge.Maintain, "admin": forge.Admin,
}

func (l level) permission() (forge.Permission, error) {
	if p, known := roles[l.RoleName]; known {
		return p, nil
	}
	if p, known := roles[l.Permission]; known {
		return p, nil
	}
	return forge.None, fmt.Errorf("GitHub names a permission %q that writ doesn't know", l.Permission)
}

// Permission is forge.Identities. An account is asked for by its id: the login
// that belongs to it now is what GitHub can be asked about, and the answer is
// only taken for that id.
func (c *client) Permission(ctx context.Context, r forge.Repo, account int64) (p forge.Permission, err error) {
	a := act{op: fmt.Sprintf("ask what account %d may do in %s", account, r), scope: toRead, live: true}
	if self, err := c.Self(ctx); err != nil {
		return forge.None, err
	} else if self.ID == account && c.h.key != nil {
		return c.h.ownPermission(ctx, a.op, r)
	}
	err = c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		who, _, err := at.Users.GetByID(ctx, account)
		if status(err) == http.StatusNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if who.GetID() != account || who.GetLogin() == "" {
			return odd("it is not about account %d", account)
		}
		p, err = at.level(ctx, who)
		return err
	})
	return p, err
}

func (at spot) level(ctx context.Context, who *api.User) (forge.Permission, error) {
	path := fmt.Sprintf("repos/%s/%s/collaborators/%s/permission", at.owner, at.name, url.PathEscape(who.GetLogin()))
	req, err := at.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return forge.None, err
	}
	var l level
	if _, err := at.Do(ctx, req, &l); err != nil {
		if status(err) != http.StatusNotFound {
			return forge.None, err
		}
		// No such account any more, or no such repository.
		_, _, err := at.Repositories.Get(ctx, at.owner, at.name)
		return forge.None, err
	}
	if l.User.GetID() != who.GetID() {
		return forge.None, nil // the login has gone to another account
	}
	return l.permission()
}

// ownPermission is what the App's installation may do: GitHub doesn't count apps
// among collaborators.
func (h *Host) ownPermission(ctx context.Context, op string, r forge.Repo) (p forge.Permission, err error) {
	err = h.do(ctx, r, act{op: op, scope: toRead, live: true}, func(ctx context.Context, at spot) error {
		app, _, err := h.api(h.asApp()).Apps.FindRepositoryInstallation(ctx, at.owner, at.name)
		if err != nil {
			return err
		}
		p = forge.Read
		if app.GetPermissions().GetContents() == "write" && app.SuspendedAt == nil {
			p = forge.Write
		}
		return nil
	})
	return p, err
}
