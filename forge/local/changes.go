package local

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// changeRow is a change with its item.
type changeRow struct {
	forge.Change
	item  itemRow
	start string // where the base was when it was merged or closed
}

const changeColumns = `head, base, draft, state, oid, start, merged`

// change reads what makes an item a change. The head of an open one is where
// its branch is now.
func (x *session) change(r repoRow, it itemRow) (c changeRow, err error) {
	c.item = it
	err = x.one(to(&c.Head, &c.Base, &c.Draft, &c.State, &c.HeadOID, &c.start, &c.MergedOID),
		`SELECT `+changeColumns+` FROM changes WHERE item = ?`, it.ID)
	if err != nil {
		return c, noRows(err, "%s#%d, as a change,", r.Repo, it.Number)
	}
	c.Number, c.Title, c.Body, c.Author, c.URL = it.Number, it.Title, it.Body, it.Author, it.URL
	if c.State != forge.ChangeOpen {
		return c, nil
	}
	oids, err := x.branches(r, c.Head)
	if err == nil && !oids[0].IsZero() {
		c.HeadOID = string(oids[0])
	}
	return c, err
}

// branches reads where branches are now, from git.
func (x *session) branches(r repoRow, names ...string) ([]git.OID, error) {
	repo, err := x.s.git(r.ID)
	if err != nil {
		return nil, err
	}
	full := make([]string, len(names))
	for n, name := range names {
		full[n] = "refs/heads/" + name
		if err := git.ValidateRef(full[n]); err != nil {
			return nil, refuse(forge.Invalid, "the branch %q: %w", name, err)
		}
	}
	refs, err := repo.Refs(x.ctx, full...)
	if err != nil {
		return nil, err
	}
	out := make([]git.OID, len(full))
	for n, name := range full {
		out[n] = refs.OID(name)
	}
	return out, nil
}

// FindChange is forge.Changes.
func (c *Client) FindChange(ctx context.Context, r forge.Repo, head, base string) (out forge.Change, err error) {
	what := fmt.Sprintf("find the change from %s in %s", head, r)
	err = c.in(ctx, r, reads(what), func(x *session, in scope) error {
		found, err := x.changeFrom(in.repoRow, head, base, false)
		out = found.Change
		return err
	})
	return out, err
}

// changeFrom finds the newest change from a branch, rather one onto base.
func (x *session) changeFrom(r repoRow, head, base string, open bool) (changeRow, error) {
	var number int64
	err := x.one(to(&number), `SELECT i.number FROM changes c JOIN items i ON i.id = c.item
		WHERE c.head = ? AND i.repo = ? AND (c.state = ? OR NOT ?) ORDER BY c.base = ? DESC, i.number DESC LIMIT 1`,
		head, r.ID, string(forge.ChangeOpen), open, base)
	if err != nil {
		return changeRow{}, noRows(err, "a change from %s", head)
	}
	it, err := x.item(r, number)
	if err != nil {
		return changeRow{}, err
	}
	return x.change(r, it)
}

// ListChanges lists a repository's changes, the oldest update first.
func (c *Client) ListChanges(ctx context.Context, r forge.Repo) (out []forge.Change, err error) {
	err = c.in(ctx, r, reads("list the changes of "+r.String()), func(x *session, in scope) error {
		updated, number := int64(0), int64(0)
		for {
			page, err := x.listItems(in.repoRow, false, updated, number)
			if err != nil {
				return err
			}
			for _, i := range page {
				change, err := x.change(in.repoRow, itemRow{Issue: i})
				if err != nil {
					return err
				}
				out = append(out, change.Change)
				updated, number = i.UpdatedAt.UnixMilli(), i.Number
			}
			if len(page) < pageSize {
				return nil
			}
		}
	})
	return out, err
}

// Change reads one by its number.
func (c *Client) Change(ctx context.Context, r forge.Repo, number int64) (out forge.Change, err error) {
	err = c.inItem(ctx, r, number, reads("look at the change"), func(x *session, in scope, it itemRow) error {
		change, err := x.change(in.repoRow, it)
		out = change.Change
		return err
	})
	return out, err
}

// OpenChange is forge.Changes. An empty base is the default branch.
func (c *Client) OpenChange(ctx context.Context, r forge.Repo, want forge.Change) (out forge.Change, err error) {
	what := fmt.Sprintf("open a change from %s in %s", want.Head, r)
	err = c.in(ctx, r, writes(forge.Write, what), func(x *session, in scope) error {
		want.Base = cmp.Or(want.Base, in.DefaultBranch)
		oids, err := x.branches(in.repoRow, want.Head, want.Base)
		switch {
		case err != nil:
			return err
		case oids[0].IsZero() || oids[1].IsZero():
			return refuse(forge.Invalid, "%s or %s is no branch", want.Head, want.Base)
		case oids[0] == oids[1]:
			return refuse(forge.Invalid, "%s has nothing that %s lacks", want.Head, want.Base)
		}
		switch there, err := x.changeFrom(in.repoRow, want.Head, "", true); {
		case err == nil:
			return refuse(forge.Conflict, "#%d is open from %s already", there.Number, want.Head)
		case !forge.IsReason(err, forge.NotFound):
			return err
		}
		it, err := x.addItem(in, true, want.Title, want.Body)
		if err != nil {
			return err
		}
		err = x.do(`INSERT INTO changes (item, head, base, draft, state, oid, start, merged) VALUES (?, ?, ?, ?, ?, ?, '', '')`,
			it.ID, want.Head, want.Base, want.Draft, string(forge.ChangeOpen), string(oids[0]))
		if err != nil {
			return err
		}
		change, err := x.change(in.repoRow, it)
		if err != nil {
			return err
		}
		out = change.Change
		return x.tellItem(in, it, "opened", "")
	})
	return out, err
}

// EditChange is forge.Changes.
func (c *Client) EditChange(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	return c.inItem(ctx, r, number, writes(forge.Write, "edit the change"), func(x *session, in scope, it itemRow) error {
		if _, err := x.change(in.repoRow, it); err != nil {
			return err
		}
		return x.editItem(in, it, title, body)
	})
}

// CloseChange closes a change unmerged.
func (c *Client) CloseChange(ctx context.Context, r forge.Repo, number int64) error {
	return c.inItem(ctx, r, number, writes(forge.Write, "close the change"), func(x *session, in scope, it itemRow) error {
		change, err := x.change(in.repoRow, it)
		if err != nil {
			return err
		}
		if change.State != forge.ChangeOpen {
			return refuse(forge.Conflict, "it is %s", change.State)
		}
		oids, err := x.branches(in.repoRow, change.Base)
		if err != nil {
			return err
		}
		change.State, change.start = forge.ChangeClosed, string(oids[0])
		return x.endChange(in, change, forge.EventClosed)
	})
}

// endChange writes down that a change was merged or closed.
func (x *session) endChange(in scope, c changeRow, kind forge.EventKind) error {
	err := errors.Join(
		x.do(`UPDATE changes SET state = ?, oid = ?, start = ?, merged = ? WHERE item = ?`,
			string(c.State), c.HeadOID, c.start, c.MergedOID, c.item.ID),
		x.do(`UPDATE items SET state = ? WHERE id = ?`, string(forge.Closed), c.item.ID))
	if err != nil {
		return err
	}
	return x.event(in, c.item, kind, "")
}

// SetCheck is forge.Changes.
func (c *Client) SetCheck(ctx context.Context, r forge.Repo, oid string, check forge.Check) error {
	what := fmt.Sprintf("set the check %s in %s", check.Name, r)
	return c.in(ctx, r, writes(forge.Write, what), func(x *session, in scope) error {
		switch {
		case check.Name == "" || len(check.Name) > maxLabel || len(check.Summary) > maxComment || len(check.Detail) > maxComment:
			return refuse(forge.Invalid, "a check has a name, and texts of at most %d bytes", maxComment)
		case check.State != forge.CheckRunning && check.State != forge.CheckPassed && check.State != forge.CheckFailed:
			return refuse(forge.Invalid, "%q is no state of a check", check.State)
		}
		repo, err := x.s.git(in.ID)
		if err != nil {
			return err
		}
		if _, err := repo.Commit(x.ctx, git.OID(oid)); err != nil {
			return refuse(forge.NotFound, "the commit %q is not there: %w", oid, err)
		}
		return x.do(`INSERT INTO checks (repo, oid, name, state, summary, detail, at) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (repo, oid, name) DO UPDATE
			SET state = excluded.state, summary = excluded.summary, detail = excluded.detail, at = excluded.at`,
			in.ID, oid, check.Name, string(check.State), check.Summary, check.Detail, x.now)
	})
}

// Checks lists the checks of a commit, by name.
func (c *Client) Checks(ctx context.Context, r forge.Repo, oid string) (out []forge.Check, err error) {
	err = c.in(ctx, r, reads("list the checks of "+oid), func(x *session, in scope) error {
		out, err = x.checks(in.ID, oid)
		return err
	})
	return out, err
}

func (x *session) checks(repo int64, oid string) (out []forge.Check, err error) {
	err = x.each(func(scan func(...any) error) error {
		var c forge.Check
		err := scan(&c.Name, &c.State, &c.Summary, &c.Detail)
		out = append(out, c)
		return err
	}, `SELECT name, state, summary, detail FROM checks WHERE repo = ? AND oid = ? ORDER BY name`, repo, oid)
	return out, err
}

// RefUpdate is one branch, tag or other ref that a push has moved. A zero id
// stands for no object.
type RefUpdate struct {
	Ref      string
	Old, New git.OID
}

// Received tells of a push that has been done: each branch and tag to the hooks,
// and the changes whose head it moved. Other refs are told to nobody, as on the
// forges of the field.
func (s *Store) Received(ctx context.Context, repo int64, by forge.User, moved []RefUpdate) error {
	return s.update(ctx, "tell of a push", func(x *session) error {
		row, err := x.repo(repo)
		if err != nil {
			return err
		}
		for _, m := range moved {
			if err := x.pushed(scope{row, forge.Write, by}, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// told is where a ref was when it was last told of.
func (x *session) told(repo int64, ref string) (oid git.OID, err error) {
	err = x.one(to(&oid), `SELECT oid FROM refs WHERE repo = ? AND name = ?`, repo, ref)
	if errors.Is(err, sql.ErrNoRows) {
		return git.ZeroOID, nil
	}
	return oid, err
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
