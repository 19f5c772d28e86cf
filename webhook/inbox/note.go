package inbox

import (
	"context"
	"slices"

	"github.com/writbot/writ/compliance/store"
)

// Act is what a person asked of a task. The inbox doesn't know what it means.
type Act struct {
	ID     string // chosen by the caller, so that one act is stored once
	Kind   string
	Actor  string
	Reason string
}

// Note is what the scheduler remembers of a task over a restart.
type Note struct {
	Failures int   // in a row
	Acts     []Act // not carried out yet, oldest first
}

// Note reads a task's; the zero Note where there is none.
func (b *Inbox) Note(ctx context.Context, k Key) (n Note, err error) {
	args := []any{k.World, k.Task}
	err = b.store.View(ctx, func(q store.Queries) error {
		var failures int64
		if _, err := q.Row(`SELECT failures FROM schedule WHERE world = $1 AND task = $2`, args, &failures); err != nil {
			return err
		}
		n.Failures = int(failures)
		const text = `SELECT act, kind, actor, reason FROM acts WHERE world = $1 AND task = $2 ORDER BY id`
		return q.Rows(text, args, func(r store.Row) error {
			var a Act
			err := r.Scan(&a.ID, &a.Kind, &a.Actor, &a.Reason)
			n.Acts = append(n.Acts, a)
			return err
		})
	})
	if err != nil {
		return Note{}, err
	}
	return n, nil
}

// AddAct keeps an act; the same ID of a task twice is kept once.
func (b *Inbox) AddAct(ctx context.Context, k Key, a Act) error {
	if err := k.check(); err != nil {
		return err
	}
	if err := allFit(field{"act", a.ID, maxID}, field{"kind", a.Kind, maxID},
		field{"actor", a.Actor, maxID}, field{"reason", a.Reason, maxText}); err != nil {
		return err
	}
	return b.exec(ctx, `INSERT INTO acts (world, task, act, kind, actor, reason) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (world, task, act) DO NOTHING`, k.World, k.Task, a.ID, a.Kind, a.Actor, a.Reason)
}

// Settle stores the number of failures in a row and forgets the acts that were
// carried out, by their IDs; IDs that it doesn't know are no error. No due time
// changes.
func (b *Inbox) Settle(ctx context.Context, k Key, failures int, carried []string) error {
	if err := k.check(); err != nil {
		return err
	}
	carried = slices.Clone(carried)
	return b.store.Write(ctx, func(tx store.Tx) error {
		const text = `INSERT INTO schedule (world, task, due_ms, taken_ms, generation, failures) VALUES ($1, $2, 0, 0, 0, $3)
			ON CONFLICT (world, task) DO UPDATE SET failures = excluded.failures`
		if _, err := tx.Exec(text, k.World, k.Task, int64(failures)); err != nil {
			return err
		}
		for _, id := range carried {
			if _, err := tx.Exec(`DELETE FROM acts WHERE world = $1 AND task = $2 AND act = $3`, k.World, k.Task, id); err != nil {
				return err
			}
		}
		return nil
	})
}
