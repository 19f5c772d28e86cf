// Package shelf keeps sealed work (compliance/sealed) in the instance's store while the
// server takes no push: one work of each task, until it lies in git or is of no more
// use. It is a help and no truth. What isn't there is built again, and whoever takes
// something from it judges it anew.
//
// It owns the table of that name, and knows neither what the work is nor whether it may
// be used.
package shelf

import (
	"context"
	"fmt"

	"github.com/writbot/writ/compliance/store"
)

// MaxWork bounds one work in bytes: the contract's largest budget, with a manifest and
// the third that its encoding adds.
const MaxWork = 96 << 20

// Shelf is that of one world. Its methods may be called at the same time.
type Shelf struct {
	db    store.Store
	world string
}

// Of is the shelf of a world in a store.
func Of(db store.Store, world string) *Shelf { return &Shelf{db, world} }

// Put keeps the work of a run, in the place of what was kept of the task before. It is
// durable when Put returns nil.
func (s *Shelf) Put(ctx context.Context, task int64, run string, work []byte) error {
	if len(work) > MaxWork {
		return fmt.Errorf("shelf: a work of %d bytes, %d are kept", len(work), MaxWork)
	}
	return s.db.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Exec(`INSERT INTO shelf (world, task, run, work) VALUES ($1, $2, $3, $4)
			ON CONFLICT (world, task) DO UPDATE SET run = excluded.run, work = excluded.work`, s.world, task, run, work)
		return err
	})
}

// Get is what is kept of a task; run is "" where nothing is.
func (s *Shelf) Get(ctx context.Context, task int64) (run string, work []byte, err error) {
	err = s.db.View(ctx, func(q store.Queries) error {
		return q.Rows(`SELECT run, work FROM shelf WHERE world = $1 AND task = $2`, []any{s.world, task}, func(r store.Row) error {
			return r.Scan(&run, &work)
		})
	})
	return run, work, err
}

// Drop forgets what is kept of a task, if anything is. Nothing is written where nothing
// is there.
func (s *Shelf) Drop(ctx context.Context, task int64) error {
	run, _, err := s.Get(ctx, task)
	if err != nil || run == "" {
		return err
	}
	return s.db.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Exec(`DELETE FROM shelf WHERE world = $1 AND task = $2`, s.world, task)
		return err
	})
}
