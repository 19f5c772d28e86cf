package inbox

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"io"

	"github.com/writbot/writ/compliance/store"
)

// MaxBody is the longest body that is kept, in bytes: far above an issue with
// its text, far below what would fill a disk unseen.
const MaxBody = 1 << 20

// Evidence is what an event that may approve a task said, as the caller read
// it from the signed body. The same evidence again, from whatever delivery, is
// kept once.
type Evidence struct {
	World   string
	Task    int64
	Kind    string // the caller's word: a label, a comment
	Ref     string // which one: the label, or the comment's number
	ActorID string // the forge's number of the account, as text
	Digest  string // of title and body as they stood in the event
	EventMs int64  // as the forge says
}

func (e Evidence) check() error {
	if err := (Key{e.World, e.Task}).check(); err != nil {
		return err
	}
	return allFit(field{"kind", e.Kind, maxID}, field{"ref", e.Ref, maxText}, field{"actor", e.ActorID, maxID}, field{"digest", e.Digest, maxID})
}

// StoredEvidence is evidence with the delivery that it came from; see
// [Inbox.Payload].
type StoredEvidence struct {
	Evidence
	Hook, Delivery string
}

// Evidence lists what was kept of a task, in the order of the events.
func (b *Inbox) Evidence(ctx context.Context, world string, task int64) (all []StoredEvidence, err error) {
	const text = `SELECT e.event_ms, e.kind, e.ref, e.actor, e.digest, d.hook, d.delivery
		FROM evidence e JOIN deliveries d ON d.id = e.delivery
		WHERE e.world = $1 AND e.task = $2 ORDER BY e.event_ms, e.id`
	err = b.store.View(ctx, func(q store.Queries) error {
		return q.Rows(text, []any{world, task}, func(r store.Row) error {
			e := StoredEvidence{Evidence: Evidence{World: world, Task: task}}
			err := r.Scan(&e.EventMs, &e.Kind, &e.Ref, &e.ActorID, &e.Digest, &e.Hook, &e.Delivery)
			all = append(all, e)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// StoredDelivery is a delivery as it was kept.
type StoredDelivery struct {
	Delivery        // without Evidence; Body is nil if it isn't kept
	LastMs    int64 // when it came last
	Arrivals  int64 // how often it came
	BodyBytes int64 // that the kept body takes, 0 if none is kept
}

// Payload gives a delivery back, with its body if that is kept.
func (b *Inbox) Payload(ctx context.Context, hook, id string) (d StoredDelivery, found bool, err error) {
	const text = `SELECT id, event, action, ignored, signature, digest, first_ms, last_ms, arrivals, kept
		FROM deliveries WHERE hook = $1 AND delivery = $2`
	d.Hook, d.ID = hook, id
	var packed []byte
	err = b.store.View(ctx, func(q store.Queries) error {
		var row int64
		found, err = q.Row(text, []any{hook, id}, &row, &d.Event, &d.Action, &d.Ignored, &d.Signature,
			&d.Digest, &d.ReceivedMs, &d.LastMs, &d.Arrivals, &d.BodyBytes)
		if err != nil || !found {
			return err
		}
		_, err = q.Row(`SELECT body FROM payloads WHERE delivery = $1`, []any{row}, &packed)
		return err
	})
	if err != nil || !found {
		return StoredDelivery{}, false, err
	}
	d.Body, err = unpack(packed)
	return d, err == nil, err
}

// How a kept body is written: its first byte says it.
const (
	plainForm    = 0
	deflatedForm = 1

	// deflateFrom is the length from which a body is compressed; for a shorter
	// one that takes longer than to write it as it is.
	deflateFrom = 8 << 10
)

// packer compresses one body at a time.
type packer struct {
	out bytes.Buffer
	w   *flate.Writer
}

// pack gives what is stored of a body: nothing of one that isn't kept.
func (b *Inbox) pack(body []byte) ([]byte, error) {
	switch {
	case len(body) == 0 || len(body) > MaxBody:
		return nil, nil
	case len(body) < deflateFrom:
		return append([]byte{plainForm}, body...), nil
	}
	p, ok := b.packers.Get().(*packer)
	if !ok {
		p = &packer{}
		var err error
		if p.w, err = flate.NewWriter(&p.out, flate.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer b.packers.Put(p)
	p.out.Reset()
	p.out.WriteByte(deflatedForm)
	p.w.Reset(&p.out)
	if _, err := p.w.Write(body); err != nil {
		return nil, err
	}
	if err := p.w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(p.out.Bytes()), nil
}

func unpack(packed []byte) (body []byte, err error) {
	switch {
	case len(packed) == 0:
		return nil, nil
	case packed[0] == plainForm:
		return packed[1:], nil
	case packed[0] == deflatedForm:
		body, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed[1:])), MaxBody+1))
		if err == nil && len(body) > MaxBody {
			err = fmt.Errorf("it has more than %d bytes", MaxBody)
		}
	default:
		err = fmt.Errorf("its form %d is unknown", packed[0])
	}
	if err != nil {
		return nil, &Error{Detail: "a kept body can't be read: " + err.Error()}
	}
	return body, nil
}
