package local

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// systemLogin is the account in whose name is told what nobody is known for: a
// push whose process died before it was told of.
const systemLogin = "embedded-forge"

// public tells the refs that hooks hear of.
func public(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/")
}

// pushed tells of one ref, once: a second telling of the same move changes nothing.
func (x *session) pushed(in scope, m RefUpdate) error {
	if !public(m.Ref) {
		return nil
	}
	old, err := x.told(in.ID, m.Ref)
	if err != nil || old == m.New || old.IsZero() && m.New.IsZero() {
		return err
	}
	if m.New.IsZero() {
		err = x.do(`DELETE FROM refs WHERE repo = ? AND name = ?`, in.ID, m.Ref)
	} else {
		err = x.do(`INSERT INTO refs (repo, name, oid) VALUES (?, ?, ?)
			ON CONFLICT (repo, name) DO UPDATE SET oid = excluded.oid`, in.ID, m.Ref, string(m.New))
	}
	if err != nil {
		return err
	}
	m.Old = old // what was told before; pushes may be told out of their order
	if err := x.tellPush(in, m); err != nil {
		return err
	}
	branch, isBranch := strings.CutPrefix(m.Ref, "refs/heads/")
	if !isBranch || m.New.IsZero() {
		return nil
	}
	return x.moveChange(in, branch, m.New)
}

func (x *session) tellPush(in scope, m RefUpdate) error {
	return x.tell(in, forge.Payload{Event: forge.PayloadPush, Ref: m.Ref, Before: string(m.Old), After: string(m.New)})
}

// moveChange notes that the head of an open change has moved.
func (x *session) moveChange(in scope, branch string, head git.OID) error {
	c, err := x.changeFrom(in.repoRow, branch, "", true)
	if err != nil {
		return ignoreMissing(err)
	}
	if err := x.do(`UPDATE changes SET oid = ? WHERE item = ?`, string(head), c.item.ID); err != nil {
		return err
	}
	if err := x.touch(c.item.ID); err != nil {
		return err
	}
	return x.tellItem(in, c.item, "pushed", "")
}

// catchUp tells of pushes that were done but not told when the process died.
func (s *Store) catchUp(ctx context.Context) error {
	all, err := s.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := s.catchUpRepo(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) catchUpRepo(ctx context.Context, r forge.Repository) error {
	return s.update(ctx, "look for pushes in "+r.String(), func(x *session) error {
		repo, err := s.git(r.ID)
		if err != nil {
			return err
		}
		refs, err := repo.Refs(ctx, "refs/heads/", "refs/tags/")
		if err != nil {
			return err
		}
		names := refs.Names()
		err = x.each(func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			names = append(names, name)
			return err
		}, `SELECT name FROM refs WHERE repo = ?`, r.ID)
		if err != nil {
			return err
		}
		return x.tellMoved(r.ID, refs, names)
	})
}

func (x *session) tellMoved(repo int64, refs git.Refs, names []string) error {
	row, err := x.repo(repo)
	if err != nil {
		return err
	}
	var by forge.User
	for _, name := range names {
		switch old, err := x.told(repo, name); {
		case err != nil:
			return err
		case old == refs.OID(name):
			continue
		}
		if by.ID == 0 {
			if by, err = x.system(); err != nil {
				return err
			}
		}
		if err := x.pushed(scope{row, forge.Write, by}, RefUpdate{Ref: name, New: refs.OID(name)}); err != nil {
			return err
		}
	}
	return nil
}

// system is the forge's own account, made when it is first needed.
func (x *session) system() (u forge.User, err error) {
	const find = `SELECT id, login, kind FROM users WHERE login = ?`
	err = x.one(to(&u.ID, &u.Login, &u.Kind), find, systemLogin)
	if !errors.Is(err, sql.ErrNoRows) {
		return u, err
	}
	err = x.do(`INSERT INTO users (login, kind, at) VALUES (?, ?, ?)`, systemLogin, string(forge.Bot), x.now)
	if err != nil {
		return u, err
	}
	return u, x.one(to(&u.ID, &u.Login, &u.Kind), find, systemLogin)
}
