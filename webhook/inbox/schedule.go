package inbox

import (
	"context"
	"slices"

	"github.com/writbot/writ/compliance/store"
)

// Ticket is a taken task.
type Ticket struct {
	Key        Key
	Generation int64 // which taking of the task this is
	DueMs      int64 // what the due time was
}

// Mark makes tasks due at that time, or leaves them due earlier. Tasks that are taken
// stay so, and the mark counts when they are given back.
func (b *Inbox) Mark(ctx context.Context, keys []Key, atMs int64) error {
	return b.markAll(ctx, keys, atMs, mark)
}

// MarkBehind makes tasks due as Mark does, but behind those that were marked
// otherwise, and behind what is due within [soonMs] anyway: for old work that is
// found in masses, so that it keeps nothing waiting that is asked for now.
func (b *Inbox) MarkBehind(ctx context.Context, keys []Key, atMs int64) error {
	return b.markAll(ctx, keys, atMs, markBehind)
}

// MarkWorld makes all tasks of a world due behind the others, as MarkBehind does: those
// that have a due time, and those that are taken, whose look may have begun before what
// makes them due.
func (b *Inbox) MarkWorld(ctx context.Context, world string, atMs int64) error {
	const text = `UPDATE schedule SET due_ms = $2,
			backlog = CASE WHEN due_ms <> 0 AND due_ms < $2 + $3 THEN backlog ELSE 1 END
		WHERE world = $1 AND (due_ms > $2 OR due_ms = 0 AND taken_ms <> 0)`
	if err := b.exec(ctx, text, world, max(atMs, 1), int64(soonMs)); err != nil {
		return err
	}
	b.awake()
	return nil
}

func (b *Inbox) markAll(ctx context.Context, keys []Key, atMs int64, mark func(store.Tx, []Key, int64) (bool, error)) error {
	for _, k := range keys {
		if err := k.check(); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(keys, maxKeys) {
		sooner := false
		err := b.store.Write(ctx, func(tx store.Tx) (err error) {
			sooner, err = mark(tx, part, atMs)
			return err
		})
		if err != nil {
			return err
		}
		if sooner {
			b.awake()
		}
	}
	return nil
}

// mark says whether something is due sooner than it was.
func mark(tx store.Tx, keys []Key, atMs int64) (sooner bool, err error) {
	const text = `INSERT INTO schedule (world, task, due_ms, taken_ms, generation, failures, backlog) VALUES ($1, $2, $3, 0, 0, 0, 0)
		ON CONFLICT (world, task) DO UPDATE SET backlog = 0,
			due_ms = CASE WHEN schedule.due_ms = 0 OR excluded.due_ms < schedule.due_ms THEN excluded.due_ms ELSE schedule.due_ms END
		WHERE schedule.due_ms = 0 OR excluded.due_ms < schedule.due_ms OR schedule.backlog = 1`
	return marked(tx, text, keys, atMs)
}

// soonMs is how soon a task must be due to keep its place before the backlog, in
// milliseconds.
const soonMs = 60_000

// markBehind is mark for the backlog.
func markBehind(tx store.Tx, keys []Key, atMs int64) (sooner bool, err error) {
	const text = `INSERT INTO schedule (world, task, due_ms, taken_ms, generation, failures, backlog) VALUES ($1, $2, $3, 0, 0, 0, 1)
		ON CONFLICT (world, task) DO UPDATE SET due_ms = excluded.due_ms,
			backlog = CASE WHEN schedule.due_ms <> 0 AND schedule.due_ms < excluded.due_ms + $4 THEN schedule.backlog ELSE 1 END
		WHERE schedule.due_ms = 0 OR excluded.due_ms < schedule.due_ms`
	return marked(tx, text, keys, atMs, int64(soonMs))
}

func marked(tx store.Tx, text string, keys []Key, atMs int64, more ...any) (sooner bool, err error) {
	atMs = max(atMs, 1) // 0 is no due time
	for _, k := range keys {
		changed, err := tx.Exec(text, append([]any{k.World, k.Task, atMs}, more...)...)
		if err != nil {
			return false, err
		}
		sooner = sooner || changed > 0
	}
	return sooner, nil
}

// Take hands a task out, whatever its due time. Not ok: it is taken already, or it
// has no due time.
func (b *Inbox) Take(ctx context.Context, k Key) (t Ticket, ok bool, err error) {
	const text = `UPDATE schedule SET taken_ms = due_ms, due_ms = 0, generation = generation + 1
		WHERE world = $1 AND task = $2 AND due_ms <> 0 AND taken_ms = 0 RETURNING generation, taken_ms`
	t.Key = k
	err = b.store.Write(ctx, func(tx store.Tx) error {
		ok, err = tx.Row(text, []any{k.World, k.Task}, &t.Generation, &t.DueMs)
		return err
	})
	if err != nil || !ok {
		return Ticket{}, false, err
	}
	return t, true, nil
}

// Done gives a task back, due at nextMs, 0 for no due time of its own. If it was
// marked since it was taken, the earlier of the two counts. A ticket is given
// back once: another time, or after [Inbox.Recover], it is an [*Error], and
// nothing has changed.
func (b *Inbox) Done(ctx context.Context, t Ticket, nextMs int64) error {
	const text = `UPDATE schedule SET taken_ms = 0,
			backlog = CASE WHEN due_ms = 0 OR $4 <> 0 AND $4 < due_ms THEN 0 ELSE backlog END,
			due_ms = CASE WHEN due_ms = 0 OR $4 <> 0 AND $4 < due_ms THEN $4 ELSE due_ms END
		WHERE world = $1 AND task = $2 AND generation = $3 AND taken_ms <> 0`
	changed := int64(0)
	err := b.store.Write(ctx, func(tx store.Tx) (err error) {
		changed, err = tx.Exec(text, t.Key.World, t.Key.Task, t.Generation, max(nextMs, 0))
		return err
	})
	if err != nil {
		return err
	}
	if changed == 0 {
		return &Error{Detail: "the task was given back before"}
	}
	b.awake()
	return nil
}

// Recover makes due again what was taken and not given back, and says how many
// that were: called once by a process that starts, before it takes anything.
func (b *Inbox) Recover(ctx context.Context) (tasks int64, err error) {
	const text = `UPDATE schedule SET taken_ms = 0,
			due_ms = CASE WHEN due_ms <> 0 AND due_ms < taken_ms THEN due_ms ELSE taken_ms END
		WHERE taken_ms <> 0`
	err = b.store.Write(ctx, func(tx store.Tx) error {
		tasks, err = tx.Exec(text)
		return err
	})
	if err != nil {
		return 0, err
	}
	if tasks > 0 {
		b.awake()
	}
	return tasks, nil
}

// Hasten makes due what would be due by untilMs and isn't taken, in the
// order that it would have been: called by a process that starts, for what only
// waited for something in the process before.
func (b *Inbox) Hasten(ctx context.Context, nowMs, untilMs int64) error {
	const text = `UPDATE schedule SET due_ms = CASE WHEN due_ms > $2 - $1 THEN due_ms - ($2 - $1) ELSE 1 END
		WHERE due_ms > $1 AND due_ms <= $2 AND taken_ms = 0`
	if err := b.exec(ctx, text, nowMs, untilMs); err != nil {
		return err
	}
	b.awake()
	return nil
}
