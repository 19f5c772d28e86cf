package inbox

import (
	"context"

	"github.com/writbot/writ/compliance/store"
)

// Cursor is how far something has come in a world, such as the sweep of its
// issues; "" if it never set out. The caller knows what the text means.
func (b *Inbox) Cursor(ctx context.Context, world, name string) (value string, err error) {
	_, err = b.row(ctx, `SELECT value FROM cursors WHERE world = $1 AND name = $2`, []any{world, name}, &value)
	return value, err
}

// Cursors are those of one name, by world.
func (b *Inbox) Cursors(ctx context.Context, name string) (values map[string]string, err error) {
	values = map[string]string{}
	err = b.store.View(ctx, func(q store.Queries) error {
		return q.Rows(`SELECT world, value FROM cursors WHERE name = $1`, []any{name}, func(r store.Row) error {
			var world, value string
			err := r.Scan(&world, &value)
			values[world] = value
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// SetCursor stores one.
func (b *Inbox) SetCursor(ctx context.Context, world, name, value string) error {
	if err := allFit(field{"world", world, maxWorld}, field{"name", name, maxID}, field{"value", value, maxText}); err != nil {
		return err
	}
	return b.exec(ctx, `INSERT INTO cursors (world, name, value) VALUES ($1, $2, $3)
		ON CONFLICT (world, name) DO UPDATE SET value = excluded.value`, world, name, value)
}

// Pause says that nothing is started in a world.
type Pause struct {
	World   string // "" for all of them
	SinceMs int64
	By      string
	Reason  string
}

// SetPause pauses a world, or ends its pause. A pause that is there already
// stays as it was.
func (b *Inbox) SetPause(ctx context.Context, p Pause, on bool) error {
	if !on {
		if err := b.exec(ctx, `DELETE FROM pauses WHERE world = $1`, p.World); err != nil {
			return err
		}
		b.awake()
		return nil
	}
	if err := allFit(field{"world", p.World, maxWorld}, field{"actor", p.By, maxID}, field{"reason", p.Reason, maxText}); err != nil {
		return err
	}
	return b.exec(ctx, `INSERT INTO pauses (world, since_ms, actor, reason) VALUES ($1, $2, $3, $4)
		ON CONFLICT (world) DO NOTHING`, p.World, p.SinceMs, p.By, p.Reason)
}

// Paused is the pause that holds for a world, the one of all worlds first.
func (b *Inbox) Paused(ctx context.Context, world string) (p Pause, paused bool, err error) {
	const text = `SELECT world, since_ms, actor, reason FROM pauses WHERE world = '' OR world = $1 ORDER BY world LIMIT 1`
	paused, err = b.row(ctx, text, []any{world}, &p.World, &p.SinceMs, &p.By, &p.Reason)
	return p, paused, err
}

// Pauses lists them, the one of all worlds first.
func (b *Inbox) Pauses(ctx context.Context) (all []Pause, err error) {
	err = b.store.View(ctx, func(q store.Queries) error {
		return q.Rows(`SELECT world, since_ms, actor, reason FROM pauses ORDER BY world`, nil, func(r store.Row) error {
			var p Pause
			err := r.Scan(&p.World, &p.SinceMs, &p.By, &p.Reason)
			all = append(all, p)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
