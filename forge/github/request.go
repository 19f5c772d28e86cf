package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// pageSize is the largest that GitHub gives.
const pageSize = 100

// maxPages ends a list that doesn't: ten thousand comments of one issue are more
// than anything here could use.
const maxPages = 100

// client is a forge.Client.
type client struct {
	h    *Host
	home forge.Repo
}

var _ forge.Client = (*client)(nil)

// act is one call: what it is, what it needs, and what it counts against.
type act struct {
	op    string
	scope scope
	lane  transport.Lane
	live  bool
}

// spot is where an act is done: GitHub's library with a token for it, and the
// repository's name of now.
type spot struct {
	*api.Client
	about forge.Repository
	owner string
	name  string
}

// do does an act in a repository. Where GitHub says that the repository has moved
// or that the token doesn't count any more, nothing was done: the repository is
// looked up by its id, with a new token, and the act tried once more.
func (h *Host) do(ctx context.Context, r forge.Repo, a act, f func(context.Context, spot) error) error {
	if err := ctx.Err(); err != nil {
		return &forge.Error{Reason: forge.Unavailable, Op: a.op, Err: err}
	}
	p, err := h.place(ctx, a.op, r)
	if err != nil {
		return err
	}
	err = h.doAt(ctx, p, a, f)
	if h.outdated(err) {
		h.forget(r.ID)
		if p, err = h.placeNow(ctx, a.op, r); err != nil {
			return err
		}
		err = h.doAt(ctx, p, a, f)
	}
	return fail(a.op, a.lane, err)
}

func (h *Host) doAt(ctx context.Context, p *place, a act, f func(context.Context, spot) error) error {
	ctx = transport.With(ctx, transport.Call{Op: a.op, Account: p.account(), Lane: a.lane, Live: a.live})
	return f(ctx, spot{h.api(h.roundTripper(p, a.scope)), p.about, p.about.Owner, p.about.Name})
}

// outdated says that what is remembered of a repository is: a redirect is the way
// to its new name, and a token may be revoked at any time.
func (h *Host) outdated(err error) bool {
	s := status(err)
	return s >= http.StatusMultipleChoices && s < http.StatusBadRequest || s == http.StatusUnauthorized && h.key != nil
}

func status(err error) int {
	var e *transport.StatusError
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// fail makes a forge.Error. What comes from elsewhere than the transport, such as
// an answer that can't be read or a context that ended while it was waited for,
// leaves open whether a write was done.
func fail(op string, lane transport.Lane, err error) error {
	if err == nil {
		return nil
	}
	var own caller
	if errors.As(err, &own) {
		return own.error
	}
	var e *forge.Error
	if errors.As(err, &e) {
		out := *e
		if out.Op == "" {
			out.Op = op
		}
		return &out
	}
	wrote := lane == transport.Create || lane == transport.Edit
	return &forge.Error{Reason: forge.Unavailable, Op: op, Applied: wrote, Err: err}
}

// caller marks an error of whoever is called back.
type caller struct{ error }

func invalid(op, format string, args ...any) error {
	return &forge.Error{Reason: forge.Invalid, Op: op, Err: fmt.Errorf(format, args...)}
}

// pages asks for page after page until there is none, or f has had enough.
func pages(f func(*api.ListOptions) (*api.Response, error)) error {
	o := &api.ListOptions{PerPage: pageSize, Page: 1}
	var read transport.List
	for range maxPages {
		res, err := f(o)
		if err == nil {
			err = read.Add(res.Response)
		}
		if err != nil {
			return err
		}
		if res.NextPage == 0 {
			return nil
		}
		if res.NextPage <= o.Page {
			return &forge.Error{Reason: forge.Invalid, Err: fmt.Errorf("page %d is said to follow page %d", res.NextPage, o.Page)}
		}
		o.Page = res.NextPage
	}
	return &forge.Error{Reason: forge.Invalid, Err: fmt.Errorf("the list is longer than %d entries", maxPages*pageSize)}
}

func onItem(what string, r forge.Repo, number int64) string {
	return fmt.Sprintf("%s %s#%d", what, r, number)
}

// itemNumber is a number as the library wants it.
func itemNumber(n int64) int { return int(n) }
