// Package pushed keeps in the instance's store what it pushed to the refs of its tasks:
// the commands and the pack of each push that was won. A forge that was restored from a
// back-up, or failed over to a copy that lags, has lost the newest of them, and nobody
// else need have them. Fetched objects wouldn't do: they are kept in memory only, and a
// push isn't fetched.
//
// It is a help and no truth: what isn't there can't be put back by this instance, and
// what is there counts only as the HEAD that the ledger saw last. It owns the table of
// that name, and knows neither tasks' states nor git.
package pushed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// MaxTask bounds what is kept of one task, in bytes of packs. Beyond it the oldest
	// pushes are forgotten: a forge that lost only newer ones is still helped.
	MaxTask = 64 << 20
	// MaxAge is how long a push is kept at least. A back-up that is older can't be made
	// good.
	MaxAge = 14 * 24 * time.Hour
	// maxStep is the most by which one push has the others age: a clock that jumps ahead
	// costs a day of them and not all.
	maxStep = 24 * time.Hour
)

// Move is one ref of a push; Old is "" for a ref that it created.
type Move struct {
	Ref string `json:"ref"`
	Old string `json:"old"`
	New string `json:"new"`
}

// Push is one push of a task's refs: all of its moves, or none.
type Push struct {
	Moves []Move // the state ref's first
	Pack  []byte // what it brought
}

// Pushes are those of one world. Its methods may be called at the same time.
type Pushes struct {
	db    store.Store
	world string
}

// Of are the pushes of a world in a store.
func Of(db store.Store, world string) *Pushes { return &Pushes{db, world} }

// Keep keeps a push, durably, before it is made: whoever is killed after it was won has
// it. now is in Unix milliseconds; what is too old is forgotten, in all worlds.
func (p *Pushes) Keep(ctx context.Context, task, now int64, made Push) error {
	if len(made.Moves) == 0 {
		return errors.New("pushed: a push without a move")
	}
	if len(made.Pack) > MaxTask {
		return fmt.Errorf("pushed: a pack of %d bytes, %d are kept", len(made.Pack), MaxTask)
	}
	moves, err := canon.Marshal(made.Moves)
	if err != nil {
		return err
	}
	return p.db.Write(ctx, func(tx store.Tx) error {
		at, err := aged(tx, now)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM pushed WHERE at_ms < $1`, at-MaxAge.Milliseconds()); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO pushed (world, task, head, old, at_ms, moves, pack) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (world, task, head) DO NOTHING`, p.world, task, made.Moves[0].New, made.Moves[0].Old, at, moves, made.Pack); err != nil {
			return err
		}
		return p.bound(tx, task)
	})
}

// aged is the time by which pushes age: the wall clock's, but that it never goes back,
// nor ahead by more than maxStep from one push to the next.
func aged(tx store.Tx, now int64) (at int64, err error) {
	at = now
	var wall int64
	found, err := tx.Row(`SELECT kept_ms, wall_ms FROM pushed_clock WHERE id = 1`, nil, &at, &wall)
	if err != nil {
		return 0, err
	}
	if found {
		at += min(max(now-wall, 0), maxStep.Milliseconds())
	}
	_, err = tx.Exec(`INSERT INTO pushed_clock (id, kept_ms, wall_ms) VALUES (1, $1, $2)
		ON CONFLICT (id) DO UPDATE SET kept_ms = $1, wall_ms = $2`, at, now)
	return at, err
}

// bound forgets the oldest pushes of a task that has too much.
func (p *Pushes) bound(tx store.Tx, task int64) error {
	var from, sum int64
	err := tx.Rows(`SELECT id, length(pack) FROM pushed WHERE world = $1 AND task = $2 ORDER BY id DESC`, []any{p.world, task}, func(r store.Row) error {
		var id, size int64
		if err := r.Scan(&id, &size); err != nil {
			return err
		}
		if sum += size; sum > MaxTask {
			from = max(from, id)
		}
		return nil
	})
	if err != nil || from == 0 {
		return err
	}
	_, err = tx.Exec(`DELETE FROM pushed WHERE world = $1 AND task = $2 AND id <= $3`, p.world, task, from)
	return err
}

// Forget forgets a push that wasn't won.
func (p *Pushes) Forget(ctx context.Context, task int64, head string) error {
	return p.db.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Exec(`DELETE FROM pushed WHERE world = $1 AND task = $2 AND head = $3`, p.world, task, head)
		return err
	})
}

// Since are the pushes that lead from a commit of a task's state ref, "" for none, to a
// later one, the oldest first. Where there is no such way the list is empty, and gap is the
// commit whose push isn't kept: it was forgotten or is another's. It is "" where the way
// ends and from isn't on it.
func (p *Pushes) Since(ctx context.Context, task int64, from, head string) (list []Push, gap string, err error) {
	return p.SinceInside(ctx, task, from, head, func(Push) bool { return false })
}

// SinceInside is Since where from may lie inside a push, which can bring several commits:
// inside says whether it is one below the last that a push brought, and then the way begins
// with that push.
func (p *Pushes) SinceInside(ctx context.Context, task int64, from, head string, inside func(Push) bool) (list []Push, gap string, err error) {
	err = p.db.View(ctx, func(q store.Queries) error {
		at, size := head, 0
		for at != from && at != "" {
			var old string
			var moves, pack []byte
			found, err := q.Row(`SELECT old, moves, pack FROM pushed WHERE world = $1 AND task = $2 AND head = $3`,
				[]any{p.world, task, at}, &old, &moves, &pack)
			if err != nil {
				return err
			}
			if size += len(pack); !found || size > MaxTask {
				break
			}
			one := Push{Pack: pack}
			if err := canon.UnmarshalCanonical(moves, &one.Moves); err != nil {
				return fmt.Errorf("pushed: what is kept of %s: %w", at, err)
			}
			if list, at = append(list, one), old; at != from && inside(one) {
				at = from
			}
		}
		if at != from {
			list, gap = nil, at
		}
		return nil
	})
	slices.Reverse(list)
	return list, gap, err
}
