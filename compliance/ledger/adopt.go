package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// firstHistory is the history that every ledger begins with.
const firstHistory = 1

// maxAbandoned bounds the checkpoints that one record declares abandoned: more
// than anybody keeps of one world, and far below the size of a record.
const maxAbandoned = 256

// Adopted is a declared beginning of another history: who went on with an older
// or other store, why, and what that contradicts.
type Adopted struct {
	Seq       int64        `json:"seq"` // the record that says so, first of its history
	Time      int64        `json:"time"`
	History   int64        `json:"history"`
	Actor     string       `json:"actor"`
	Reason    string       `json:"reason"`
	Abandoned []Checkpoint `json:"abandoned"`
}

// declared reports whether one of these names the very checkpoint. What lies
// between it and the older store isn't covered: an unnamed checkpoint of the
// same range may be of a third history.
func declared(adopted []Adopted, cp Checkpoint) bool {
	return slices.ContainsFunc(adopted, func(a Adopted) bool { return slices.Contains(a.Abandoned, cp) })
}

// history is the number of the history that the last record belongs to.
func (c *checker) history() int64 { return c.historyAt(c.tree.size) }

// historyAt is the same when the chain had that many records.
func (c *checker) historyAt(size int64) int64 {
	n := int64(firstHistory)
	for _, a := range c.adopted {
		if a.Seq < size {
			n = a.History
		}
	}
	return n
}

// adopt checks the declaration of another history: each checkpoint that it
// abandons was signed by this chain's key for this chain's world, and its number
// follows all that were used, so that no two checkpoints of one history
// contradict each other. The error is a *broken.
func (c *checker) adopt(e envelope) error {
	var body kernel.Adoption
	if err := canon.UnmarshalCanonical(e.body, &body); err != nil {
		return breaks("the adoption can't be read: %v", err)
	}
	switch {
	case body.Kind != string(kernel.KindAdoption) || e.task != 0:
		return breaks("the adoption is of another kind, or of a task")
	case body.Actor == "" || body.Reason == "":
		return breaks("the adoption doesn't say who or why")
	case len(body.Abandoned) == 0 || len(body.Abandoned) > maxAbandoned:
		return breaks("the adoption abandons %d checkpoints; it must be 1 to %d", len(body.Abandoned), maxAbandoned)
	}
	key, err := c.key()
	if err != nil {
		return breaks("%v", err)
	}
	a := Adopted{Seq: c.tree.size, Time: e.time, History: body.History, Actor: body.Actor, Reason: body.Reason}
	next := c.history()
	for _, note := range body.Abandoned {
		cp, err := OpenCheckpoint([]byte(note), key)
		if err != nil || cp.World != c.genesis.World {
			return breaks("the adoption abandons what is no checkpoint of this ledger")
		}
		next = max(next, cp.History)
		a.Abandoned = append(a.Abandoned, cp)
	}
	if next++; body.History != next {
		return breaks("the adoption begins history %d, not %d", body.History, next)
	}
	c.adopted = append(slices.Clip(c.adopted), a)
	return nil
}

// Adopted are the declared beginnings of the ledger's later histories, in their
// order. Of a ledger that was opened for reading nothing is known; [Ledger.Verify]
// says it there.
func (l *Ledger) Adopted() []Adopted {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == nil {
		return nil
	}
	return slices.Clone(l.state.adopted)
}

// Unfulfilled opens checkpoints of this ledger's key and world, and returns those
// that it neither fulfils nor declares abandoned, each once, with its note. Each
// is a rollback: more or other records were signed than are there. One that
// isn't signed by the key is ledger.corrupt.
func (l *Ledger) Unfulfilled(ctx context.Context, checkpoints ...[]byte) (out []Checkpoint, notes [][]byte, err error) {
	if l.store.key == nil {
		return nil, nil, unavailable(l.world, "the store was opened for reading", nil)
	}
	for _, signed := range checkpoints {
		cp, err := openOwn(l.world, signed, l.store.key.Public)
		if err != nil {
			return nil, nil, err
		}
		ok, err := l.holds(ctx, cp)
		if err != nil {
			return nil, nil, err
		}
		if !ok && !slices.Contains(out, cp) {
			out, notes = append(out, cp), append(notes, signed)
		}
	}
	return out, notes, nil
}

func openOwn(world string, signed []byte, key instancekey.Public) (Checkpoint, error) {
	cp, err := OpenCheckpoint(signed, key)
	if err != nil {
		return cp, corrupt(world, NoSeq, err.Error())
	}
	if cp.World != world {
		return cp, corrupt(world, NoSeq, "the checkpoint is of another world, "+cp.World)
	}
	return cp, nil
}

// holds reports whether the ledger fulfils the checkpoint or declares it.
func (l *Ledger) holds(ctx context.Context, cp Checkpoint) (bool, error) {
	l.mu.Lock()
	size, history, named := l.state.tree.size, l.state.historyAt(cp.Size), declared(l.state.adopted, cp)
	l.mu.Unlock()
	if named || cp.Size > size {
		return named, nil
	}
	root, err := l.Tree(ctx, cp.Size)
	return root == cp.Root && history == cp.History, err
}

// Check holds the ledger against a checkpoint that was kept outside the store:
// nil if it is fulfilled or declared abandoned, otherwise ledger.rollback.
func (l *Ledger) Check(ctx context.Context, signed []byte) error {
	bad, _, err := l.Unfulfilled(ctx, signed)
	if err != nil || len(bad) == 0 {
		return err
	}
	detail := "the store has other or fewer records than a checkpoint signs"
	return &Error{Code: kernel.CodeLedgerRollback, World: l.world, Seq: NoSeq, Detail: detail}
}

// ErrNothingToAdopt says that the ledger fulfils all the checkpoints, or has
// declared them abandoned.
var ErrNothingToAdopt = errors.New("ledger: nothing is to be adopted")

// Adopt declares, in one durable append, that a person goes on with this ledger
// although it doesn't fulfil checkpoints that its key has signed, and names each
// of them, in as many records as that takes; the answer is the last, with all of
// them. With each begins another history, whose checkpoints have an origin of their
// own. An empty ledger gets its genesis in the same append. The
// caller has shown what is lost and asked why.
func (l *Ledger) Adopt(ctx context.Context, now int64, actor, reason string, g kernel.Genesis, checkpoints ...[]byte) (Adopted, error) {
	bad, notes, err := l.Unfulfilled(ctx, checkpoints...)
	if err != nil {
		return Adopted{}, err
	}
	if len(bad) == 0 {
		return Adopted{}, ErrNothingToAdopt
	}
	l.mu.Lock()
	history := l.state.history()
	l.mu.Unlock()
	var drafts []kernel.Draft
	for first := 0; first < len(bad); first += maxAbandoned {
		body := kernel.Adoption{Kind: string(kernel.KindAdoption), Actor: actor, Reason: reason}
		for i := first; i < min(first+maxAbandoned, len(bad)); i++ {
			history = max(history, bad[i].History)
			body.Abandoned = append(body.Abandoned, string(notes[i]))
		}
		history++
		body.History = history
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindAdoption, Body: body})
	}
	if l.Chain().Head == kernel.NoHead() {
		first, err := l.genesis(g)
		if err != nil {
			return Adopted{}, err
		}
		drafts = append([]kernel.Draft{first}, drafts...)
	}
	if _, err := l.Write(ctx, now, drafts...); err != nil {
		return Adopted{}, err
	}
	all := l.Adopted()
	out := all[len(all)-1]
	out.Abandoned = bad
	return out, nil
}
