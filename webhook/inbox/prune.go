package inbox

import (
	"context"

	"github.com/writbot/writ/compliance/store"
)

// Keep says what stays.
type Keep struct {
	SinceMs   int64 // deliveries that came last before that go
	BodyBytes int64 // what kept bodies may take as they are stored; the oldest go first; 0 is no limit
}

// Pruned says what went.
type Pruned struct {
	Deliveries int64
	Bodies     int64 // of deliveries that stay
}

// pruneStep is how many deliveries are looked at in one transaction: others
// wait for it.
const pruneStep = 200

// Prune removes old deliveries with their evidence, and bodies beyond what may
// be kept. What has evidence of a task that has a due time or is taken stays,
// body and all, however old. A delivery that comes again after it was pruned is
// a new one, and does no harm: it is only a hint.
func (b *Inbox) Prune(ctx context.Context, k Keep) (Pruned, error) {
	p := pruning{keep: k}
	for {
		step := p
		more := false
		err := b.store.Write(ctx, func(tx store.Tx) (err error) {
			more, err = step.run(tx)
			return err
		})
		if err != nil {
			return p.gone, err
		}
		if p = step; !more {
			return p.gone, nil
		}
	}
}

// pruning goes through the deliveries from the oldest on.
type pruning struct {
	keep Keep
	last int64 // the delivery looked at last
	over int64 // bytes that bodies take beyond what they may
	gone Pruned
}

// old is a delivery that pruning looks at.
type old struct {
	id, last, kept int64
	open           int64 // tasks with a due time, or taken, that it has evidence of
}

// run looks at the next deliveries; more says that it is worth going on.
func (p *pruning) run(tx store.Tx) (more bool, err error) {
	if p.keep.BodyBytes > 0 {
		if _, err := tx.Row(bodyBytes, nil, &p.over); err != nil {
			return false, err
		}
		p.over -= p.keep.BodyBytes
	}
	found, err := p.next(tx)
	if err != nil {
		return false, err
	}
	for _, d := range found {
		if err := p.look(tx, d); err != nil {
			return false, err
		}
		more = more || d.last < p.keep.SinceMs
		p.last = d.id
	}
	return len(found) == pruneStep && (more || p.over > 0), nil
}

func (p *pruning) next(tx store.Tx) (found []old, err error) {
	const text = `SELECT id, last_ms, kept, (SELECT count(*) FROM evidence e JOIN schedule s ON s.world = e.world AND s.task = e.task
			WHERE e.delivery = deliveries.id AND (s.due_ms <> 0 OR s.taken_ms <> 0))
		FROM deliveries WHERE id > $1 ORDER BY id LIMIT $2 + 0`
	err = tx.Rows(text, []any{p.last, int64(pruneStep)}, func(r store.Row) error {
		var d old
		err := r.Scan(&d.id, &d.last, &d.kept, &d.open)
		found = append(found, d)
		return err
	})
	return found, err
}

func (p *pruning) look(tx store.Tx, d old) error {
	switch {
	case d.open > 0:
		return nil
	case d.last < p.keep.SinceMs:
		p.gone.Deliveries++
		p.over -= d.kept
		return each(tx, d.id, `DELETE FROM payloads WHERE delivery = $1`,
			`DELETE FROM evidence WHERE delivery = $1`, `DELETE FROM deliveries WHERE id = $1`)
	case p.over > 0 && d.kept > 0:
		p.gone.Bodies++
		p.over -= d.kept
		return each(tx, d.id, `DELETE FROM payloads WHERE delivery = $1`, `UPDATE deliveries SET kept = 0 WHERE id = $1`)
	}
	return nil
}

// each runs statements about one delivery.
func each(tx store.Tx, id int64, texts ...string) error {
	for _, text := range texts {
		if _, err := tx.Exec(text, id); err != nil {
			return err
		}
	}
	return nil
}
