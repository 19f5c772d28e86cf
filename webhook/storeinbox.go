package webhook

import (
	"context"
	"errors"
	"strconv"

	"github.com/writbot/writ/webhook/inbox"
)

// StoreInbox is the inbox of a store.
func StoreInbox(b *inbox.Inbox) Inbox { return storeInbox{b} }

type storeInbox struct{ inbox *inbox.Inbox }

func (i storeInbox) Accept(ctx context.Context, d Delivery) (duplicate bool, err error) {
	stored := inbox.Delivery{
		Hook: d.Hook, ID: d.ID, Event: d.Event.Kind, Action: d.Event.Action, Ignored: string(d.Event.Ignored),
		ReceivedMs: d.Received.UnixMilli(), Body: d.Body, Digest: string(d.Digest),
	}
	if d.Body != nil {
		stored.Signature = d.Event.Signature
	}
	for _, e := range d.Event.Evidence {
		stored.Evidence = append(stored.Evidence, inbox.Evidence{
			World: e.Key.World, Task: e.Key.Task, Kind: e.Kind, Ref: e.Ref, ActorID: strconv.FormatInt(e.Actor, 10),
			Digest: string(e.Digest), EventMs: e.At.UnixMilli(),
		})
	}
	due := make([]inbox.Key, 0, len(d.Event.Keys))
	for _, k := range d.Event.Keys {
		due = append(due, inbox.Key(k))
	}
	duplicate, err = i.inbox.Accept(ctx, stored, due)
	var unfit *inbox.Error
	if errors.As(err, &unfit) { // sending it again is no use
		err = &Error{Code: unfit.FailureCode(), Cause: err}
	}
	return duplicate, err
}
