package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// itemRow is an issue or a change as the database has it.
type itemRow struct {
	forge.Issue
}

const itemColumns = `i.id, i.number, i.change, i.title, i.body, i.state, i.locked, i.at, i.updated, u.id, u.login, u.kind
	FROM items i JOIN users u ON u.id = i.author`

func scanItem(r repoRow, scan func(...any) error) (it itemRow, err error) {
	var at, updated int64
	err = scan(&it.ID, &it.Number, &it.IsChange, &it.Title, &it.Body, &it.State, &it.Locked, &at, &updated,
		&it.Author.ID, &it.Author.Login, &it.Author.Kind)
	it.CreatedAt, it.UpdatedAt = time.UnixMilli(at).UTC(), time.UnixMilli(updated).UTC()
	it.URL = itemURL(r, it.IsChange, it.Number)
	return it, err
}

func itemURL(r repoRow, change bool, number int64) string {
	if change {
		return fmt.Sprintf("%s/changes/%d", r.URL, number)
	}
	return fmt.Sprintf("%s/issues/%d", r.URL, number)
}

// item reads one with its labels.
func (x *session) item(r repoRow, number int64) (itemRow, error) {
	row := x.tx.QueryRowContext(x.ctx, `SELECT `+itemColumns+` WHERE i.repo = ? AND i.number = ?`, r.ID, number)
	it, err := scanItem(r, row.Scan)
	if err != nil {
		return it, noRows(err, "%s#%d", r.Repo, number)
	}
	it.Labels, err = x.labelsOf(it.ID)
	return it, err
}

func (x *session) labelsOf(item int64) (names []string, err error) {
	err = x.each(func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM item_labels WHERE item = ? ORDER BY name`, item)
	return names, err
}

// Issue is forge.Issues.
func (c *Client) Issue(ctx context.Context, r forge.Repo, number int64) (out forge.Issue, err error) {
	err = c.inItem(ctx, r, number, reads("look at"), func(_ *session, _ scope, it itemRow) error {
		out = it.Issue
		return nil
	})
	return out, err
}

// pageSize is how many issues one transaction lists.
const pageSize = 100

// ListIssues is forge.Issues. What is updated while the list goes on comes
// again, at its end.
func (c *Client) ListIssues(ctx context.Context, r forge.Repo, since time.Time, each func(forge.Issue) error) error {
	updated, number := since.UnixMilli(), int64(0)
	if since.IsZero() {
		updated = 0
	}
	for {
		var page []forge.Issue
		err := c.in(ctx, r, reads("list the issues of "+r.String()), func(x *session, in scope) (err error) {
			page, err = x.listItems(in.repoRow, true, updated, number)
			return err
		})
		if err != nil {
			return err
		}
		for _, i := range page {
			if err := each(i); err != nil {
				return err
			}
			updated, number = i.UpdatedAt.UnixMilli(), i.Number
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// listItems lists a page of changes, and of issues where these are wanted, too, from the
// given place in the order of updates on.
func (x *session) listItems(r repoRow, issues bool, updated, after int64) (page []forge.Issue, err error) {
	err = x.each(func(scan func(...any) error) error {
		it, err := scanItem(r, scan)
		page = append(page, it.Issue)
		return err
	}, `SELECT `+itemColumns+` WHERE i.repo = ? AND (i.change OR ?) AND (i.updated > ? OR i.updated = ? AND i.number > ?)
		ORDER BY i.updated, i.number LIMIT ?`, r.ID, issues, updated, updated, after, pageSize)
	for n := range page {
		if err == nil {
			page[n].Labels, err = x.labelsOf(page[n].ID)
		}
	}
	return page, err
}

// checkText refuses what can't be an issue's or change's text.
func checkText(title, body string) error {
	switch {
	case strings.TrimSpace(title) == "" || strings.ContainsAny(title, "\r\n"):
		return refuse(forge.Invalid, "a title is one line that isn't empty")
	case len(title) > maxTitle || len(body) > maxBody:
		return refuse(forge.Invalid, "a title has at most %d bytes, a text %d", maxTitle, maxBody)
	case !utf8.ValidString(title + body):
		return refuse(forge.Invalid, "the text is not UTF-8")
	}
	return nil
}

// FileIssue opens an issue. Whoever may read may do that.
func (c *Client) FileIssue(ctx context.Context, r forge.Repo, title, body string) (out forge.Issue, err error) {
	err = c.in(ctx, r, writes(forge.Read, "file an issue in "+r.String()), func(x *session, in scope) error {
		it, err := x.addItem(in, false, title, body)
		if err != nil {
			return err
		}
		out = it.Issue
		return x.tellItem(in, it, "opened", "")
	})
	return out, err
}

// addItem makes an issue or a change with its first version.
func (x *session) addItem(in scope, change bool, title, body string) (it itemRow, err error) {
	if err := checkText(title, body); err != nil {
		return it, err
	}
	var number int64
	if err := x.one(to(&number), `UPDATE repos SET last_item = last_item + 1 WHERE id = ? RETURNING last_item`, in.ID); err != nil {
		return it, err
	}
	if err := x.do(`INSERT INTO items (repo, number, change, title, body, state, author, locked, at, updated)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?)`, in.ID, number, change, title, body, string(forge.Open), in.by.ID, x.now, x.now); err != nil {
		return it, err
	}
	if it, err = x.item(in.repoRow, number); err != nil {
		return it, err
	}
	return it, x.addVersion(in, it, 1)
}

// addVersion keeps the text of an item as it is now.
func (x *session) addVersion(in scope, it itemRow, n int64) error {
	digest, err := digestOf(it)
	if err != nil {
		return err
	}
	return x.do(`INSERT INTO versions (item, n, title, body, digest, editor, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		it.ID, n, it.Title, it.Body, digest, in.by.ID, x.now)
}

func digestOf(it itemRow) (string, error) {
	d, err := kernel.ApprovalDigest(it.Title, it.Body)
	if err != nil {
		return "", refuse(forge.Invalid, "the text has no digest: %w", err)
	}
	return string(d), nil
}

// EditIssue changes title and text. An author may edit his own.
func (c *Client) EditIssue(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	return c.inItem(ctx, r, number, writes(forge.Read, "edit"), func(x *session, in scope, it itemRow) error {
		if err := in.own(it.Author.ID, forge.Write, "edit another's text"); err != nil {
			return err
		}
		if it.IsChange {
			return refuse(forge.Invalid, "it is a change")
		}
		return x.editItem(in, it, title, body)
	})
}

func (x *session) editItem(in scope, it itemRow, title, body string) error {
	if err := checkText(title, body); err != nil {
		return err
	}
	if it.Title == title && it.Body == body {
		return nil
	}
	it.Title, it.Body = title, body
	if err := x.do(`UPDATE items SET title = ?, body = ? WHERE id = ?`, title, body, it.ID); err != nil {
		return err
	}
	var last int64
	if err := x.one(to(&last), `SELECT max(n) FROM versions WHERE item = ?`, it.ID); err != nil {
		return err
	}
	if err := x.addVersion(in, it, last+1); err != nil {
		return err
	}
	return x.event(in, it, forge.EventEdited, "")
}

// event is an entry of an item's history, and is told.
func (x *session) event(in scope, it itemRow, kind forge.EventKind, label string) error {
	digest, err := digestOf(it)
	if err != nil {
		return err
	}
	err = x.do(`INSERT INTO events (item, kind, actor, label, digest, at) VALUES (?, ?, ?, ?, ?, ?)`,
		it.ID, string(kind), in.by.ID, label, digest, x.now)
	if err := errors.Join(err, x.touch(it.ID)); err != nil {
		return err
	}
	return x.tellItem(in, it, string(kind), label)
}

func (x *session) touch(item int64) error {
	return x.do(`UPDATE items SET updated = max(updated, ?) WHERE id = ?`, x.now, item)
}

// SetState is forge.Issues. An author may close and reopen his own.
func (c *Client) SetState(ctx context.Context, r forge.Repo, number int64, s forge.State) error {
	return c.inItem(ctx, r, number, writes(forge.Read, "set the state of"), func(x *session, in scope, it itemRow) error {
		if err := in.own(it.Author.ID, forge.Triage, "close and reopen"); err != nil {
			return err
		}
		kind := forge.EventClosed
		switch {
		case s == forge.Open:
			kind = forge.EventReopened
		case s != forge.Closed:
			return refuse(forge.Invalid, "%q is no state", s)
		}
		if it.State == s {
			return nil
		}
		if it.IsChange {
			return refuse(forge.Conflict, "it is a change: merge or close that")
		}
		if err := x.do(`UPDATE items SET state = ? WHERE id = ?`, string(s), it.ID); err != nil {
			return err
		}
		return x.event(in, it, kind, "")
	})
}

// Lock forbids comments to those who may not write, or allows them again.
func (c *Client) Lock(ctx context.Context, r forge.Repo, number int64, locked bool) error {
	return c.inItem(ctx, r, number, writes(forge.Triage, "lock"), func(x *session, _ scope, it itemRow) error {
		if err := x.do(`UPDATE items SET locked = ? WHERE id = ?`, locked, it.ID); err != nil {
			return err
		}
		return x.touch(it.ID)
	})
}

// Transfer moves an issue to another repository, under a new number there.
func (c *Client) Transfer(ctx context.Context, r forge.Repo, number int64, target forge.Repo) (out forge.Issue, err error) {
	err = c.inItem(ctx, r, number, writes(forge.Write, "transfer"), func(x *session, in scope, it itemRow) error {
		row, err := x.repo(target.ID)
		if err != nil {
			return err
		}
		may, err := x.permission(row, c.user.ID)
		if err != nil {
			return err
		}
		if may < forge.Write || row.Archived || it.IsChange {
			return refuse(forge.Forbidden, "%s can't go to %s", it.URL, row.Repo)
		}
		if err := x.one(to(&number), `UPDATE repos SET last_item = last_item + 1 WHERE id = ? RETURNING last_item`, row.ID); err != nil {
			return err
		}
		err = errors.Join(
			x.do(`DELETE FROM item_labels WHERE item = ?`, it.ID),
			x.do(`UPDATE items SET repo = ?, number = ? WHERE id = ?`, row.ID, number, it.ID))
		if err != nil {
			return err
		}
		if it, err = x.item(row, number); err != nil {
			return err
		}
		out = it.Issue
		return x.event(scope{row, may, in.by}, it, forge.EventTransferred, "")
	})
	return out, err
}
