package forgetest

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
)

// Delivery is one webhook that a [Fake] would send.
type Delivery struct {
	ID      string // a UUID
	Payload forge.Payload
}

// Deliveries returns what the forge would have sent so far, oldest first. Who
// plays the network loses, repeats and shuffles it.
func (f *Fake) Deliveries() []Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.deliveries)
}

// Repeat is an ill-behaved network: each delivery comes times times, every
// second round backwards.
func Repeat(all []Delivery, times int) []Delivery {
	var out []Delivery
	for i := range times {
		round := slices.Clone(all)
		if i%2 == 1 {
			slices.Reverse(round)
		}
		out = append(out, round...)
	}
	return out
}

// tell adds a delivery. The lock is held.
func (f *Fake) tell(about forge.Repository, by forge.User, p forge.Payload) {
	p.Repository = forge.PayloadRepository(about.Repo)
	p.Sender = forge.PayloadSender(by)
	p.AtMS = f.now().UnixMilli()
	id := uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "delivery %d", len(f.deliveries)))
	f.deliveries = append(f.deliveries, Delivery{ID: id.String(), Payload: p})
}

// tellItem tells what happened to an issue or a change. The lock is held.
func (f *Fake) tellItem(about forge.Repository, it *item, by forge.User, action, label string) {
	if c := it.change; c != nil {
		f.tell(about, by, forge.Payload{
			Event: forge.PayloadChange, Action: action, Ref: "refs/heads/" + c.Head, After: c.HeadOID,
		})
		return
	}
	f.tell(about, by, forge.Payload{Event: forge.PayloadIssues, Action: action, Label: label, Issue: it.payload()})
}

func (f *Fake) tellComment(about forge.Repository, it *item, by forge.User, action string, c forge.Comment) {
	p := forge.Payload{
		Event: forge.PayloadComment, Action: action, Issue: it.payload(), Comment: &forge.PayloadText{ID: c.ID, Body: c.Body},
	}
	if it.change != nil {
		p.Ref = "refs/heads/" + it.change.Head
	}
	f.tell(about, by, p)
}

func (it *item) payload() *forge.PayloadIssue {
	return &forge.PayloadIssue{Number: it.issue.Number, ID: it.issue.ID, Title: it.issue.Title, Body: it.issue.Body}
}
