package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
)

const (
	// tokenBytes is the randomness of a token: enough that its hash needs no salt.
	tokenBytes = 32
	// tokenPrefix lets a scanner for secrets know one.
	tokenPrefix = "writ_local_"
)

// nameForm is what logins, owners and repositories may be called: safe in a URL
// and on a command line.
var nameForm = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,38}$`)

func checkName(what, name string) error {
	if !nameForm().MatchString(name) || strings.HasSuffix(strings.ToLower(name), ".git") || strings.HasSuffix(name, ".") {
		return refuse(forge.Invalid, "%s %q: use up to 39 letters, digits, dots, dashes and underlines, not .git at the end", what, name)
	}
	return nil
}

// CreateUser makes an account. Logins differ by more than case.
func (s *Store) CreateUser(ctx context.Context, login string, kind forge.Kind) (u forge.User, err error) {
	err = s.update(ctx, "create the user "+login, func(x *session) error {
		if err := checkName("the login", login); err != nil {
			return err
		}
		if kind != forge.Person && kind != forge.Bot {
			return refuse(forge.Invalid, "%q is no kind of account: person or bot", kind)
		}
		u = forge.User{Login: login, Kind: kind}
		err := x.one(to(&u.ID), `INSERT INTO users (login, kind, at) VALUES (?, ?, ?)
			ON CONFLICT DO NOTHING RETURNING id`, login, string(kind), x.now)
		if errors.Is(err, sql.ErrNoRows) {
			return refuse(forge.Conflict, "the login %s is taken", login)
		}
		return err
	})
	return u, err
}

// UserByLogin finds an account; NotFound for none.
func (s *Store) UserByLogin(ctx context.Context, login string) (u forge.User, err error) {
	err = s.view(ctx, "find the user "+login, func(x *session) error {
		err := x.one(to(&u.ID, &u.Login, &u.Kind), `SELECT id, login, kind FROM users WHERE login = ?`, login)
		return noRows(err, "the user %s", login)
	})
	return u, err
}

// noRows turns the lack of a row into NotFound.
func noRows(err error, format string, args ...any) error {
	if errors.Is(err, sql.ErrNoRows) {
		return refuse(forge.NotFound, format+" is not there", args...)
	}
	return err
}

// user reads an account that a row refers to.
func (x *session) user(id int64) (u forge.User, err error) {
	err = x.one(to(&u.ID, &u.Login, &u.Kind), `SELECT id, login, kind FROM users WHERE id = ?`, id)
	return u, noRows(err, "the user %d", id)
}

// NewToken makes a credential of an account: a bearer token, the password of
// git over HTTP, and what the page's login asks for. Only its hash is kept.
func (s *Store) NewToken(ctx context.Context, user int64) (string, error) {
	token := tokenPrefix + randomHex()
	err := s.update(ctx, "make a token", func(x *session) error {
		if _, err := x.user(user); err != nil {
			return err
		}
		return x.do(`INSERT INTO tokens (hash, user, at) VALUES (?, ?, ?)`, tokenHash(token), user, x.now)
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// RevokeTokens ends all credentials of an account, and its logins to the page.
func (s *Store) RevokeTokens(ctx context.Context, user int64) error {
	s.sessions.end(user)
	return s.update(ctx, "revoke tokens", func(x *session) error {
		return x.do(`DELETE FROM tokens WHERE user = ?`, user)
	})
}

func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func randomHex() string {
	var raw [tokenBytes]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return hex.EncodeToString(raw[:])
}

// Authenticate says whose token it is; Unauthorized if nobody's.
func (s *Store) Authenticate(ctx context.Context, token string) (u forge.User, err error) {
	err = s.view(ctx, "log in", func(x *session) error {
		err := x.one(to(&u.ID, &u.Login, &u.Kind), `SELECT u.id, u.login, u.kind FROM tokens t JOIN users u ON u.id = t.user
			WHERE t.hash = ?`, tokenHash(token))
		if errors.Is(err, sql.ErrNoRows) {
			return refuse(forge.Unauthorized, "the token is nobody's")
		}
		return err
	})
	return u, err
}

// Requester says who sends a request, by a bearer token or as the password of
// basic authentication, whatever its user name. ok is false without credentials.
func (s *Store) Requester(r *http.Request) (u forge.User, ok bool, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, token, ok = r.BasicAuth()
	}
	if !ok {
		return forge.User{}, false, nil
	}
	u, err = s.Authenticate(r.Context(), token)
	return u, true, err
}

// Grant sets what an account may do in a repository. On a public one everybody
// may read.
func (s *Store) Grant(ctx context.Context, repo, user int64, p forge.Permission) error {
	return s.update(ctx, "grant a permission", func(x *session) error {
		if _, err := x.repo(repo); err != nil {
			return err
		}
		if _, err := x.user(user); err != nil {
			return err
		}
		return x.do(`INSERT INTO grants (repo, user, permission) VALUES (?, ?, ?)
			ON CONFLICT (repo, user) DO UPDATE SET permission = excluded.permission`, repo, user, int(p))
	})
}

// permission is what an account may do in a repository now; 0 is anybody who
// didn't say who he is.
func (x *session) permission(r repoRow, user int64) (p forge.Permission, err error) {
	err = x.one(to(&p), `SELECT permission FROM grants WHERE repo = ? AND user = ?`, r.ID, user)
	if !errors.Is(err, sql.ErrNoRows) {
		return p, err
	}
	if r.Private {
		return forge.None, nil
	}
	if user == 0 {
		return forge.Read, nil
	}
	if _, err := x.user(user); err != nil {
		return forge.None, ignoreMissing(err)
	}
	return forge.Read, nil
}

func ignoreMissing(err error) error {
	if forge.IsReason(err, forge.NotFound) {
		return nil
	}
	return err
}
