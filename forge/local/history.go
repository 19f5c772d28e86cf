package local

import (
	"context"
	"time"

	"github.com/writbot/writ/forge"
)

// eventMerged is an event of changes, which forge has no word for.
const eventMerged forge.EventKind = "merged"

// History is forge.Issues.
func (c *Client) History(ctx context.Context, r forge.Repo, number int64) (out []forge.Event, err error) {
	err = c.inItem(ctx, r, number, reads("read the history of"), func(x *session, _ scope, it itemRow) error {
		all, err := x.events(it.ID)
		for _, e := range all {
			if e.Kind != eventMerged {
				out = append(out, e)
			}
		}
		return err
	})
	return out, err
}

func (x *session) events(item int64) (out []forge.Event, err error) {
	err = x.each(func(scan func(...any) error) error {
		var e forge.Event
		var at int64
		err := scan(&e.ID, &e.Kind, &e.Label, &e.Digest, &at, &e.Actor.ID, &e.Actor.Login, &e.Actor.Kind)
		e.At = time.UnixMilli(at).UTC()
		out = append(out, e)
		return err
	}, `SELECT e.id, e.kind, e.label, e.digest, e.at, u.id, u.login, u.kind
		FROM events e JOIN users u ON u.id = e.actor WHERE e.item = ? ORDER BY e.id`, item)
	return out, err
}

// Version is the text of an issue or change at one time.
type Version struct {
	N      int64 // counts from 1
	Title  string
	Body   string
	Digest string // the approval digest of title and raw body
	Editor forge.User
	At     time.Time
}

// Versions lists every text that an issue or change ever had, oldest first.
func (c *Client) Versions(ctx context.Context, r forge.Repo, number int64) (out []Version, err error) {
	err = c.inItem(ctx, r, number, reads("read the versions of"), func(x *session, _ scope, it itemRow) error {
		out, err = x.versions(it.ID)
		return err
	})
	return out, err
}

func (x *session) versions(item int64) (out []Version, err error) {
	err = x.each(func(scan func(...any) error) error {
		var v Version
		var at int64
		err := scan(&v.N, &v.Title, &v.Body, &v.Digest, &at, &v.Editor.ID, &v.Editor.Login, &v.Editor.Kind)
		v.At = time.UnixMilli(at).UTC()
		out = append(out, v)
		return err
	}, `SELECT v.n, v.title, v.body, v.digest, v.at, u.id, u.login, u.kind
		FROM versions v JOIN users u ON u.id = v.editor WHERE v.item = ? ORDER BY v.n`, item)
	return out, err
}
