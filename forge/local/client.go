package local

import (
	"context"
	"fmt"

	"github.com/writbot/writ/forge"
)

// Limits on what people send, in bytes. A body is larger than any writ would
// take as an instruction, so that the refusal is writ's.
const (
	maxTitle   = 1024
	maxBody    = 1 << 20
	maxComment = 256 << 10
	maxLabel   = 100
)

// Client acts as one account: a forge.Client, and what people do beyond it.
// Each call asks anew what the account may do.
type Client struct {
	s    *Store
	user forge.User
}

var _ forge.Client = (*Client)(nil)

// As returns a client that acts as an account; the zero User may read what is
// public.
func (s *Store) As(user forge.User) *Client { return &Client{s: s, user: user} }

// purpose is what a call wants of a repository.
type purpose struct {
	need   forge.Permission
	writes bool
	what   string
}

func reads(what string) purpose { return purpose{forge.Read, false, what} }

func writes(need forge.Permission, what string) purpose { return purpose{need, true, what} }

// in does one call in one repository, in one transaction. The repository is
// found by its id alone; a name that has gone to another is another.
func (c *Client) in(ctx context.Context, r forge.Repo, p purpose, act func(*session, scope) error) error {
	db := c.s.view
	if p.writes {
		db = c.s.update
	}
	return db(ctx, p.what, func(x *session) error {
		row, err := x.repo(r.ID)
		if err != nil {
			return err
		}
		may, err := x.permission(row, c.user.ID)
		switch {
		case err != nil:
			return err
		case p.writes && c.user.ID == 0:
			return refuse(forge.Unauthorized, "nobody is logged in")
		case may < forge.Read:
			return refuse(forge.NotFound, "the repository %d is not there", r.ID)
		case may < p.need:
			return refuse(forge.Forbidden, "%s may %s in %s, and this needs %s", c.user.Login, may, row.Repo, p.need)
		case p.writes && row.Archived:
			return refuse(forge.Forbidden, "%s is archived", row.Repo)
		}
		return act(x, scope{row, may, c.user})
	})
}

// scope is a repository, who acts in it and what he may.
type scope struct {
	repoRow
	may forge.Permission
	by  forge.User
}

// may says no to those who may less, unless the thing is their own.
func (in scope) own(author int64, otherwise forge.Permission, what string) error {
	if author == in.by.ID || in.may >= otherwise {
		return nil
	}
	return refuse(forge.Forbidden, "%s may %s in %s: to %s needs %s", in.by.Login, in.may, in.Repo, what, otherwise)
}

// inItem does one call about one issue or change.
func (c *Client) inItem(ctx context.Context, r forge.Repo, number int64, p purpose, act func(*session, scope, itemRow) error) error {
	p.what = fmt.Sprintf("%s %s#%d", p.what, r, number)
	return c.in(ctx, r, p, func(x *session, in scope) error {
		it, err := x.item(in.repoRow, number)
		if err != nil {
			return err
		}
		return act(x, in, it)
	})
}

// Repository is forge.Repositories.
func (c *Client) Repository(ctx context.Context, id int64) (out forge.Repository, err error) {
	err = c.in(ctx, forge.Repo{ID: id}, reads("look at a repository"), func(_ *session, in scope) error {
		out = in.Repository
		return nil
	})
	return out, err
}

// Repositories lists what the account may read.
func (c *Client) Repositories(ctx context.Context) ([]forge.Repository, error) {
	all, err := c.s.Repositories(ctx)
	if err != nil {
		return nil, err
	}
	var mine []forge.Repository
	for _, r := range all {
		switch _, err := c.Repository(ctx, r.ID); {
		case err == nil:
			mine = append(mine, r)
		case !forge.IsReason(err, forge.NotFound):
			return nil, err
		}
	}
	return mine, nil
}

// Self is forge.Identities.
func (c *Client) Self(ctx context.Context) (u forge.User, err error) {
	err = c.s.view(ctx, "look at oneself", func(x *session) error {
		u, err = x.user(c.user.ID)
		return err
	})
	return u, err
}

// Permission is forge.Identities.
func (c *Client) Permission(ctx context.Context, r forge.Repo, user int64) (p forge.Permission, err error) {
	err = c.in(ctx, r, reads("ask for a permission in "+r.String()), func(x *session, in scope) error {
		if user > 0 {
			p, err = x.permission(in.repoRow, user)
		}
		return err
	})
	return p, err
}
