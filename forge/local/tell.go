package local

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
)

// tell writes a delivery for each hook, in the transaction of what it tells of.
func (x *session) tell(in scope, p forge.Payload) error {
	p.Repository = forge.PayloadRepository(in.Repo)
	p.Sender = forge.PayloadSender(in.by)
	p.AtMS = x.now
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return x.each(func(scan func(...any) error) error {
		d := Delivery{ID: uuid.NewString(), Event: string(p.Event), Body: body, At: timeOf(x.now), State: DeliveryPending}
		if err := scan(&d.Hook); err != nil {
			return err
		}
		if x.s.drops(d) {
			d.State = DeliveryDropped
		}
		return x.do(`INSERT INTO hook_deliveries (id, hook, event, body, state, attempts, status, fault, at, due)
			VALUES (?, ?, ?, ?, ?, 0, 0, '', ?, ?)`, d.ID, d.Hook, d.Event, d.Body, string(d.State), x.now, x.now)
	}, `SELECT url FROM hooks ORDER BY url`)
}

// drops asks the hook's own function, for tests.
func (s *Store) drops(d Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.hooks {
		if n.hook.URL == d.Hook && n.hook.Drop != nil {
			return n.hook.Drop(d)
		}
	}
	return false
}

func payloadIssue(it itemRow) *forge.PayloadIssue {
	return &forge.PayloadIssue{Number: it.Number, ID: it.ID, Title: it.Title, Body: it.Body}
}

// tellItem tells what happened to an issue or a change.
func (x *session) tellItem(in scope, it itemRow, action, label string) error {
	if !it.IsChange {
		return x.tell(in, forge.Payload{Event: forge.PayloadIssues, Action: action, Label: label, Issue: payloadIssue(it)})
	}
	c, err := x.change(in.repoRow, it)
	if err != nil {
		return err
	}
	return x.tell(in, forge.Payload{
		Event: forge.PayloadChange, Action: action, Label: label, Ref: "refs/heads/" + c.Head, After: c.HeadOID,
	})
}

// tellComment tells of a comment; of one on a change with the branch of that.
func (x *session) tellComment(in scope, it itemRow, action string, c forge.Comment) error {
	p := forge.Payload{
		Event: forge.PayloadComment, Action: action, Issue: payloadIssue(it),
		Comment: &forge.PayloadText{ID: c.ID, Body: c.Body},
	}
	if it.IsChange {
		change, err := x.change(in.repoRow, it)
		if err != nil {
			return err
		}
		p.Ref = "refs/heads/" + change.Head
	}
	return x.tell(in, p)
}
