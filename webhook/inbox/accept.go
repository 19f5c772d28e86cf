package inbox

import (
	"context"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel/canon"
)

// Delivery is what a hook took.
type Delivery struct {
	Hook       string // the receiver's name
	ID         string // the forge's id of the delivery
	Event      string
	Action     string
	Ignored    string // code of why nothing is due; "" if something is
	Signature  string // as it was sent; "" if it wasn't
	ReceivedMs int64
	// Body is the raw body where it is to be kept, nil elsewhere. One longer
	// than [MaxBody] isn't kept; its digest is.
	Body     []byte
	Digest   string // of the raw body; "" to have it computed from Body
	Evidence []Evidence
}

func (d *Delivery) check() error {
	if d.Hook == "" || d.ID == "" {
		return &Error{Detail: "a delivery has a hook and an id"}
	}
	err := allFit(
		field{"hook", d.Hook, maxID}, field{"delivery", d.ID, maxID}, field{"event", d.Event, maxID},
		field{"action", d.Action, maxID}, field{"ignored", d.Ignored, maxID},
		field{"signature", d.Signature, maxText}, field{"digest", d.Digest, maxID},
	)
	for _, e := range d.Evidence {
		if err == nil {
			err = e.check()
		}
	}
	return err
}

// Accept stores the delivery, its evidence and a due time (d.ReceivedMs) for
// each of the keys: durably and all at once when the error is nil, none of it
// otherwise. A delivery that is there already is counted as a duplicate and
// stored no second time, neither is its evidence; its tasks are due all the
// same.
func (b *Inbox) Accept(ctx context.Context, d Delivery, due []Key) (duplicate bool, err error) {
	if err := d.check(); err != nil {
		return false, err
	}
	if len(due) > maxKeys {
		return false, &Error{Detail: "a delivery concerns too many tasks"}
	}
	for _, k := range due {
		if err := k.check(); err != nil {
			return false, err
		}
	}
	if d.Digest == "" {
		d.Digest = string(canon.Sum(d.Body))
	}
	body, err := b.pack(d.Body)
	if err != nil {
		return false, err
	}
	sooner := false
	err = b.store.Write(ctx, func(tx store.Tx) (err error) {
		if duplicate, err = insertDelivery(tx, d, body); err != nil {
			return err
		}
		sooner, err = mark(tx, due, d.ReceivedMs)
		return err
	})
	if err != nil {
		return false, err
	}
	if sooner {
		b.awake()
	}
	return duplicate, nil
}

func insertDelivery(tx store.Tx, d Delivery, body []byte) (duplicate bool, err error) {
	const insert = `INSERT INTO deliveries
		(hook, delivery, event, action, ignored, signature, digest, first_ms, last_ms, arrivals, kept)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, 1, $9) ON CONFLICT (hook, delivery) DO NOTHING`
	inserted, err := tx.Exec(insert, d.Hook, d.ID, d.Event, d.Action, d.Ignored, d.Signature, d.Digest, d.ReceivedMs, int64(len(body)))
	if err != nil {
		return false, err
	}
	if inserted == 0 {
		const count = `UPDATE deliveries SET arrivals = arrivals + 1, last_ms = CASE WHEN $3 > last_ms THEN $3 ELSE last_ms END
			WHERE hook = $1 AND delivery = $2`
		_, err = tx.Exec(count, d.Hook, d.ID, d.ReceivedMs)
		return true, err
	}
	if len(body) == 0 && len(d.Evidence) == 0 {
		return false, nil
	}
	var id int64
	if _, err := tx.Row(`SELECT id FROM deliveries WHERE hook = $1 AND delivery = $2`, []any{d.Hook, d.ID}, &id); err != nil {
		return false, err
	}
	return false, insertEvidence(tx, id, d, body)
}

func insertEvidence(tx store.Tx, id int64, d Delivery, body []byte) error {
	if len(body) > 0 {
		if _, err := tx.Exec(`INSERT INTO payloads (delivery, body) VALUES ($1, $2)`, id, body); err != nil {
			return err
		}
	}
	const keep = `INSERT INTO evidence (delivery, world, task, event_ms, kind, ref, actor, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`
	for _, e := range d.Evidence {
		if _, err := tx.Exec(keep, id, e.World, e.Task, e.EventMs, e.Kind, e.Ref, e.ActorID, e.Digest); err != nil {
			return err
		}
	}
	return nil
}
