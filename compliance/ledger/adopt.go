package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
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
	Heads     []string     `json:"heads,omitempty"`    // state commits that it knows nothing of
	Unsigned  bool         `json:"unsigned,omitempty"` // its checkpoint was missing
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
	case len(body.Abandoned)+len(body.Heads) == 0 && !body.Unsigned || len(body.Abandoned) > maxAbandoned || len(body.Heads) > maxAbandoned:
		return breaks("the adoption abandons %d checkpoints and %d commits; it must be 1 to %d, or none for want of a checkpoint", len(body.Abandoned), len(body.Heads), maxAbandoned)
	}
	a := Adopted{Seq: c.tree.size, Time: e.time, History: body.History, Actor: body.Actor, Reason: body.Reason, Heads: body.Heads, Unsigned: body.Unsigned}
	next := c.history()
	for _, note := range body.Abandoned {
		cp, err := c.open([]byte(note))
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
		cp, err := l.openOwn(signed)
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

// openOwn opens a checkpoint of one of the ledger's keys; of an empty ledger there
// is only the store's.
func (l *Ledger) openOwn(signed []byte) (cp Checkpoint, err error) {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if state.tree.size == 0 {
		cp, err = OpenCheckpoint(signed, l.store.key.Public)
	} else {
		cp, err = state.open(signed)
	}
	if err != nil {
		return cp, corrupt(l.world, NoSeq, err.Error())
	}
	if cp.World != l.world {
		return cp, corrupt(l.world, NoSeq, "the checkpoint is of another world, "+cp.World)
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

// unsigned is what is wrong where a ledger has more than its first record, and no
// checkpoint lies outside the store, where one was written with that record.
const unsigned = "there is no checkpoint outside the store, where one lies from the first record on: it was taken away, or an older store was put there without it"

// Check holds the ledger against the checkpoint that was kept outside the store, nil for
// none: nil if it is fulfilled or declared abandoned, otherwise ledger.rollback.
func (l *Ledger) Check(ctx context.Context, signed []byte) error {
	if len(signed) == 0 {
		if l.Chain().Head.Seq < 1 {
			return nil
		}
		return &Error{Code: kernel.CodeLedgerRollback, World: l.world, Seq: NoSeq, Detail: unsigned}
	}
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
	var said []kernel.Adoption
	for first := 0; first < len(bad); first += maxAbandoned {
		body := kernel.Adoption{Kind: string(kernel.KindAdoption), Actor: actor, Reason: reason}
		for i := first; i < min(first+maxAbandoned, len(bad)); i++ {
			history = max(history, bad[i].History)
			body.Abandoned = append(body.Abandoned, string(notes[i]))
		}
		history++
		body.History = history
		said = append(said, body)
	}
	var first []kernel.Draft
	if l.Chain().Head == kernel.NoHead() {
		genesis, err := l.genesis(g)
		if err != nil {
			return Adopted{}, err
		}
		first = []kernel.Draft{genesis}
	}
	list, err := l.adoptions(said...)
	if err != nil {
		return Adopted{}, err
	}
	if err := l.declare(ctx, now, first, list...); err != nil {
		return Adopted{}, err
	}
	all := l.Adopted()
	out := all[len(all)-1]
	out.Abandoned = bad
	return out, nil
}

// AdoptHeads declares the same where it isn't a checkpoint that shows an older ledger,
// but a state commit of its key that no record tells of: a whole state directory was
// put back from a copy, checkpoints and all (case R10).
func (l *Ledger) AdoptHeads(ctx context.Context, now int64, actor, reason string, heads []string) (Adopted, error) {
	if len(heads) == 0 || len(heads) > maxAbandoned || l.Chain().Head == kernel.NoHead() {
		return Adopted{}, ErrNothingToAdopt
	}
	return l.adopt(ctx, now, kernel.Adoption{Actor: actor, Reason: reason, Heads: heads})
}

// AdoptUnsigned declares the same where the checkpoint outside the store is missing. Said
// again before anything else was recorded, it is the same declaration.
func (l *Ledger) AdoptUnsigned(ctx context.Context, now int64, actor, reason string) (Adopted, error) {
	head := l.Chain().Head
	if head == kernel.NoHead() {
		return Adopted{}, ErrNothingToAdopt
	}
	if all := l.Adopted(); len(all) > 0 && all[len(all)-1].Seq+adoptionEntries == head.Seq && all[len(all)-1].Unsigned {
		return all[len(all)-1], nil
	}
	return l.adopt(ctx, now, kernel.Adoption{Actor: actor, Reason: reason, Unsigned: true})
}

func (l *Ledger) adopt(ctx context.Context, now int64, body kernel.Adoption) (Adopted, error) {
	l.mu.Lock()
	body.Kind, body.History, body.Abandoned = string(kernel.KindAdoption), l.state.history()+1, []string{}
	l.mu.Unlock()
	list, err := l.adoptions(body)
	if err != nil {
		return Adopted{}, err
	}
	if err := l.declare(ctx, now, nil, list...); err != nil {
		return Adopted{}, err
	}
	all := l.Adopted()
	return all[len(all)-1], nil
}

// adoptionEntries are the audit entries of an adoption, which follow its record: into
// VALIDATING, ARBITRATING, AUDITING and IDLE.
const adoptionEntries = 4

// intentAdopt is what an adoption asks of its kernel.
const intentAdopt = "adopt"

// declaration is what a person says of the whole ledger, and the kernel that it is a request
// to: the first of an epoch.
type declaration struct {
	kind   kernel.Kind
	body   canon.Sealed
	of     string
	epoch  int64
	actor  string
	intent string
}

// adoptions are declared by the world's own kernel, each in the epoch that is its history.
func (l *Ledger) adoptions(said ...kernel.Adoption) ([]declaration, error) {
	out := make([]declaration, len(said))
	for i, body := range said {
		sealed, err := canon.Seal(body)
		if err != nil {
			return nil, corrupt(l.world, NoSeq, err.Error())
		}
		out[i] = declaration{kernel.KindAdoption, sealed, kernel.MachineOf(l.world, 0), body.History, body.Actor, intentAdopt}
	}
	return out, nil
}

// declare has declarations handled, each as the request that it is. What follows first is
// durable in one append, or none of it.
func (l *Ledger) declare(ctx context.Context, now int64, first []kernel.Draft, said ...declaration) error {
	now = max(now, l.Chain().Time)
	drafts := first
	var kernels []*machine.Machine
	for _, d := range said {
		m, asked, err := l.asked(now, drafts, d)
		if err != nil {
			return err
		}
		drafts, kernels = append(drafts, asked...), append(kernels, m)
	}
	_, failed := l.Write(ctx, now, drafts...)
	for _, m := range kernels {
		if _, err := m.Recorded(failed); err != nil {
			return err
		}
	}
	return failed
}

// asked are the records of a declaration behind those that are written with it, and of the
// request that it is. One that the chain wouldn't take is denied, and nothing is recorded of
// it: the ledger isn't to be gone on with.
func (l *Ledger) asked(now int64, before []kernel.Draft, d declaration) (*machine.Machine, []kernel.Draft, error) {
	m, err := machine.New(machine.Config{Kernel: d.of, Epoch: d.epoch, Now: now})
	if err != nil {
		return nil, nil, err
	}
	if _, err := m.Booted(nil); err != nil {
		return nil, nil, err
	}
	drafts := []kernel.Draft{{Kind: d.kind, Body: d.body}}
	req := machine.Request{ID: d.intent + ":" + string(d.body.Hash()), Actor: d.actor, Intent: d.intent, Evidence: d.body.Hash(), Now: now}
	if _, err := m.Submit(req); err != nil {
		return nil, nil, err
	}
	if err := l.takes(now, slices.Concat(before, drafts)); err != nil {
		return nil, nil, err
	}
	if _, err := m.Validated(req, nil); err != nil {
		return nil, nil, err
	}
	next, err := m.Decided(req, machine.Verdict{Decision: machine.Allow, Summary: d.intent})
	if err != nil {
		return nil, nil, err
	}
	for _, e := range next.Sealed {
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindAudit, Body: e})
	}
	return m, drafts, nil
}

// takes is what the chain has against drafts that would come next; nothing is stored.
func (l *Ledger) takes(now int64, drafts []kernel.Draft) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	records, _, err := l.chain.Seal(now, drafts)
	if err != nil {
		return corrupt(l.world, NoSeq, err.Error())
	}
	_, _, err = l.prepare(records)
	return err
}
