package local

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writbot/writ/forge"
)

const commentColumns = `c.id, c.item, c.body, c.at, c.updated, u.id, u.login, u.kind
	FROM comments c JOIN users u ON u.id = c.author`

func scanComment(scan func(...any) error) (c forge.Comment, item int64, err error) {
	var at, updated int64
	err = scan(&c.ID, &item, &c.Body, &at, &updated, &c.Author.ID, &c.Author.Login, &c.Author.Kind)
	c.CreatedAt, c.UpdatedAt = time.UnixMilli(at).UTC(), time.UnixMilli(updated).UTC()
	return c, item, err
}

// Comments is forge.Comments.
func (c *Client) Comments(ctx context.Context, r forge.Repo, number int64) (out []forge.Comment, err error) {
	err = c.inItem(ctx, r, number, reads("read the comments of"), func(x *session, _ scope, it itemRow) error {
		out, err = x.comments(it)
		return err
	})
	return out, err
}

func (x *session) comments(it itemRow) (out []forge.Comment, err error) {
	err = x.each(func(scan func(...any) error) error {
		c, _, err := scanComment(scan)
		c.URL = commentURL(it, c.ID)
		out = append(out, c)
		return err
	}, `SELECT `+commentColumns+` WHERE c.item = ? ORDER BY c.id`, it.ID)
	return out, err
}

func commentURL(it itemRow, id int64) string { return fmt.Sprintf("%s#comment-%d", it.URL, id) }

func checkComment(body string) error {
	if strings.TrimSpace(body) == "" || len(body) > maxComment || !utf8.ValidString(body) {
		return refuse(forge.Invalid, "a comment is UTF-8 of 1 to %d bytes", maxComment)
	}
	return nil
}

// AddComment is forge.Comments. Whoever may read may comment, unless the issue
// is locked.
func (c *Client) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (out forge.Comment, err error) {
	err = c.inItem(ctx, r, number, writes(forge.Read, "comment on"), func(x *session, in scope, it itemRow) error {
		if it.Locked && in.may < forge.Write {
			return refuse(forge.Forbidden, "it is locked")
		}
		if err := checkComment(body); err != nil {
			return err
		}
		at := time.UnixMilli(x.now).UTC()
		out = forge.Comment{Author: in.by, Body: body, CreatedAt: at, UpdatedAt: at}
		err := x.one(to(&out.ID), `INSERT INTO comments (item, author, body, at, updated) VALUES (?, ?, ?, ?, ?) RETURNING id`,
			it.ID, in.by.ID, body, x.now, x.now)
		if err != nil {
			return err
		}
		out.URL = commentURL(it, out.ID)
		if err := x.touch(it.ID); err != nil {
			return err
		}
		return x.tellComment(in, it, "created", out)
	})
	return out, err
}

// inComment does one call about one comment.
func (c *Client) inComment(ctx context.Context, r forge.Repo, id int64, what string, act func(*session, scope, itemRow, forge.Comment) error) error {
	what = fmt.Sprintf("%s the comment %d in %s", what, id, r)
	return c.in(ctx, r, writes(forge.Read, what), func(x *session, in scope) error {
		row := x.tx.QueryRowContext(x.ctx, `SELECT `+commentColumns+` WHERE c.id = ?`, id)
		comment, item, err := scanComment(row.Scan)
		if err != nil {
			return noRows(err, "the comment %d", id)
		}
		var number, repo int64
		if err := x.one(to(&repo, &number), `SELECT repo, number FROM items WHERE id = ?`, item); err != nil {
			return err
		}
		if repo != in.ID {
			return refuse(forge.NotFound, "the comment %d is not there", id)
		}
		it, err := x.item(in.repoRow, number)
		if err != nil {
			return err
		}
		return act(x, in, it, comment)
	})
}

// EditComment is forge.Comments. An author may edit his own.
func (c *Client) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	return c.inComment(ctx, r, id, "edit", func(x *session, in scope, it itemRow, old forge.Comment) error {
		if err := in.own(old.Author.ID, forge.Write, "edit another's comment"); err != nil {
			return err
		}
		if err := checkComment(body); err != nil {
			return err
		}
		if err := x.do(`UPDATE comments SET body = ?, updated = ? WHERE id = ?`, body, x.now, id); err != nil {
			return err
		}
		if err := x.touch(it.ID); err != nil {
			return err
		}
		old.Body = body
		return x.tellComment(in, it, "edited", old)
	})
}

// DeleteComment is forge.Comments. An author may delete his own.
func (c *Client) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	return c.inComment(ctx, r, id, "delete", func(x *session, in scope, it itemRow, old forge.Comment) error {
		if err := in.own(old.Author.ID, forge.Write, "delete another's comment"); err != nil {
			return err
		}
		if err := x.do(`DELETE FROM comments WHERE id = ?`, id); err != nil {
			return err
		}
		if err := x.touch(it.ID); err != nil {
			return err
		}
		return x.tellComment(in, it, "deleted", old)
	})
}

// React is forge.Comments.
func (c *Client) React(ctx context.Context, r forge.Repo, comment int64, with forge.Reaction) error {
	return c.inComment(ctx, r, comment, "react to", func(x *session, in scope, _ itemRow, _ forge.Comment) error {
		if !known(with) {
			return refuse(forge.Invalid, "%q is no reaction", with)
		}
		return x.do(`INSERT INTO reactions (comment, user, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, comment, in.by.ID, string(with))
	})
}

// ReactToIssue is forge.Comments.
func (c *Client) ReactToIssue(ctx context.Context, r forge.Repo, number int64, with forge.Reaction) error {
	return c.inItem(ctx, r, number, writes(forge.Read, "react to"), func(x *session, in scope, it itemRow) error {
		if !known(with) {
			return refuse(forge.Invalid, "%q is no reaction", with)
		}
		return x.do(`INSERT INTO item_reactions (item, user, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, it.ID, in.by.ID, string(with))
	})
}

// Reactions are how accounts answered to the comments of an issue or change, and under 0 to
// itself.
func (c *Client) Reactions(ctx context.Context, r forge.Repo, number int64) (all map[int64][]forge.Reaction, err error) {
	err = c.inItem(ctx, r, number, reads("read the reactions to"), func(x *session, _ scope, it itemRow) (err error) {
		all, err = x.reactions(it.ID)
		return err
	})
	return all, err
}

func known(r forge.Reaction) bool {
	switch r {
	case forge.ReactionSeen, forge.ReactionDone, forge.ReactionRefused, forge.ReactionConfused:
		return true
	}
	return false
}

// reactions lists how people answered to the comments of an item, and under 0 to the item
// itself.
func (x *session) reactions(item int64) (map[int64][]forge.Reaction, error) {
	out := map[int64][]forge.Reaction{}
	err := x.each(func(scan func(...any) error) error {
		var comment int64
		var with forge.Reaction
		err := scan(&comment, &with)
		out[comment] = append(out[comment], with)
		return err
	}, `SELECT r.comment, r.kind FROM reactions r JOIN comments c ON c.id = r.comment WHERE c.item = ?
		UNION SELECT 0, kind FROM item_reactions WHERE item = ? ORDER BY 1, 2`, item, item)
	return out, err
}
