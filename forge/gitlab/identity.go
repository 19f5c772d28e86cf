package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// Self is forge.Identities. It never changes for one token, and is asked once.
func (h *Host) Self(ctx context.Context) (forge.User, error) {
	if err := ctx.Err(); err != nil {
		return forge.User{}, reading("read our own account").err(err)
	}
	h.mu.Lock()
	known := h.self
	h.mu.Unlock()
	if known.ID != 0 {
		return known, nil
	}
	w := reading("read our own account").live()
	u, _, err := h.api.Users.CurrentUser(w.in(ctx))
	if err == nil {
		err = w.other(u.ID > 0 && u.Username != "")
	}
	if err != nil {
		return forge.User{}, w.err(err)
	}
	self := forge.User{ID: int64(u.ID), Login: u.Username, Kind: kindOf(u)}
	h.mu.Lock()
	first := h.self.ID == 0
	h.self = self
	h.mu.Unlock()
	for _, warning := range h.Warnings() {
		if first {
			h.log.WarnContext(ctx, warning, "account", self.Login)
		}
	}
	return self, nil
}

func kindOf(u *gitlab.User) forge.Kind {
	if u.Bot {
		return forge.Bot
	}
	return forge.Person
}

// user completes an account that GitLab names: only its own page says whether it
// is a bot.
func (h *Host) user(ctx context.Context, id int, login string) (forge.User, error) {
	out := forge.User{ID: int64(id), Login: login, Kind: forge.Person}
	if id < 0 {
		return out, reading("read an account").odd("an account with the id %d", id)
	}
	if id == 0 { // a deleted account's act
		return out, nil
	}
	h.mu.Lock()
	kind, known := h.kinds[out.ID]
	h.mu.Unlock()
	if known {
		out.Kind = kind
		return out, nil
	}
	w := reading("read the account %s", login)
	u, _, err := h.api.Users.GetUser(id, gitlab.GetUsersOptions{}, w.in(ctx))
	if err == nil {
		err = w.other(u.ID == id)
	}
	switch err := w.err(err); {
	case err == nil:
		out.Kind = kindOf(u)
	case forge.IsReason(err, forge.NotFound):
		return out, nil // gone, or hidden: it has no permission either
	default:
		return out, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kinds) >= maxKnown {
		clear(h.kinds)
	}
	h.kinds[out.ID] = out.Kind
	return out, nil
}

// member is a membership, with what the library's type lacks.
type member struct {
	ID              int64           `json:"id"`
	State           string          `json:"state"`
	MembershipState string          `json:"membership_state"`
	AccessLevel     int             `json:"access_level"`
	ExpiresAt       *gitlab.ISOTime `json:"expires_at"`
}

// active is the state of accounts and memberships that count.
const active = "active"

// Permission is forge.Identities.
func (h *Host) Permission(ctx context.Context, r forge.Repo, user int64) (forge.Permission, error) {
	w := reading("read the permission of account %d in %s", user, r).live()
	var m member
	_, err := h.ask(ctx, w, http.MethodGet, fmt.Sprintf("projects/%d/members/all/%d", r.ID, user), nil, &m)
	switch {
	case forge.IsReason(err, forge.NotFound):
		return h.strangers(ctx, r, user)
	case err != nil:
		return forge.None, err
	case m.ID != user:
		return forge.None, w.other(false)
	case m.State != active, m.MembershipState != "" && m.MembershipState != active:
		return forge.None, nil
	case m.ExpiresAt != nil && !h.cfg.Now().Before(time.Time(*m.ExpiresAt)):
		return forge.None, nil
	}
	return permissionOf(m.AccessLevel), nil
}

// GitLab's access levels, where one word of the contract begins.
const (
	guest      = 10
	planner    = 15
	developer  = 30
	maintainer = 40
	owner      = 50
)

func permissionOf(level int) forge.Permission {
	switch {
	case level >= owner:
		return forge.Admin
	case level >= maintainer:
		return forge.Maintain
	case level >= developer:
		return forge.Write
	case level >= planner:
		return forge.Triage
	case level >= guest:
		return forge.Read
	}
	return forge.None // Minimal Access
}

// strangers is what an account without a membership may do: read what everybody
// with an account may, as long as it is there and active.
func (h *Host) strangers(ctx context.Context, r forge.Repo, user int64) (forge.Permission, error) {
	w := reading("read the permission of account %d in %s", user, r).live()
	p, _, err := h.api.Projects.GetProject(int(r.ID), nil, w.in(ctx))
	if err != nil {
		return forge.None, w.err(err)
	}
	if p.Visibility == gitlab.PrivateVisibility {
		return forge.None, nil
	}
	u, _, err := h.api.Users.GetUser(int(user), gitlab.GetUsersOptions{}, w.in(ctx))
	if err == nil {
		err = w.other(u.ID == int(user))
	}
	switch err := w.err(err); {
	case forge.IsReason(err, forge.NotFound):
		return forge.None, nil
	case err != nil:
		return forge.None, err
	case u.State != active:
		return forge.None, nil
	}
	return forge.Read, nil
}

// Token is what GitLab says of the token itself.
type Token struct {
	Name    string
	Scopes  []string
	Expires time.Time // the day on which it ends; the zero time: never
}

// Token reads what the token may, for whoever checks an installation.
func (h *Host) Token(ctx context.Context) (Token, error) {
	w := reading("read our own token").live()
	t, _, err := h.api.PersonalAccessTokens.GetSinglePersonalAccessToken(w.in(ctx))
	if err != nil {
		return Token{}, w.err(err)
	}
	out := Token{Name: t.Name, Scopes: t.Scopes}
	if t.ExpiresAt != nil {
		out.Expires = time.Time(*t.ExpiresAt)
	}
	return out, nil
}
