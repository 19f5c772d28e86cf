package world

import (
	"bytes"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Kernel is the WorldKernel of seed 002: one instance's view of one world, a
// fold of the instance's records. It calls no model, no network and no file,
// and serves one caller at a time.
//
// Records that are durable come in through [Kernel.Apply]; a request is a
// [Round], from [Kernel.Begin] to [Kernel.Commit].
type Kernel struct {
	fold    *fold
	beside  *beside
	head    kernel.Head
	time    int64 // of the last record, Unix milliseconds
	receipt *RoundReceipt
	version int64 // grows with each record that isn't neutral
}

// New is a world before its first record. The configuration must be valid
// ([ErrConfig]); the order of its members doesn't matter.
func New(c WorldConfig) (*Kernel, error) {
	f, err := newFold(c)
	if err != nil {
		return nil, err
	}
	return &Kernel{fold: f, beside: newBeside(), head: kernel.NoHead()}, nil
}

// Open is a world from its whole ledger, genesis first.
func Open(records []kernel.Record) (*Kernel, error) {
	if len(records) == 0 || records[0].Kind != kernel.KindGenesis {
		return nil, refuse(ErrOrder, nil, "a ledger begins with its genesis")
	}
	k, err := OpenGenesis(records[0])
	for i := 1; err == nil && i < len(records); i++ {
		err = k.Apply(records[i])
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// OpenGenesis is a world from its first record, which is applied. The others
// follow one by one through [Kernel.Apply].
func OpenGenesis(first kernel.Record) (*Kernel, error) {
	var g kernel.Genesis
	if err := canon.UnmarshalCanonical(first.Body, &g); err != nil {
		return nil, atSeq(refuse(ErrBody, err, "the body of the genesis"), first.Seq)
	}
	k, err := New(ConfigOf(g, first.Instance))
	if err != nil {
		return nil, atSeq(err, first.Seq)
	}
	return k, k.Apply(first)
}

// Apply folds one durable record: the engine of the facade, and all that a
// replay needs. The record must follow the last one (sequence, previous hash,
// time) and be this world's and instance's; its body must be what its kind
// says and break no rule; a receipt must be the one that the fold makes. What
// isn't so is an [*Error] with the code `ledger.corrupt` and the record's
// sequence number, and changes nothing.
func (k *Kernel) Apply(r kernel.Record) error {
	hash, err := canon.Hash(r)
	if err != nil {
		return atSeq(refuse(ErrBody, err, "it can't be hashed"), r.Seq)
	}
	next := *k
	if err := next.passed(r, hash); err != nil {
		return err
	}
	e := entry{kind: r.Kind, task: r.Task, run: r.Run, body: r.Body}
	switch r.Kind {
	case kernel.KindGenesis:
		err = k.genesis(e)
	case kernel.KindReceipt:
		err = next.settled(e, r)
	default:
		err = k.fold.take(&e)
	}
	if err != nil {
		k.fold.tasks.changed = nil
		return atSeq(err, r.Seq)
	}
	next.fold.tasks.settle()
	k.beside.note(r, e.said)
	*k = next
	return nil
}

// passed moves the kernel's place in the chain on to a record that follows.
func (k *Kernel) passed(r kernel.Record, hash canon.Digest) error {
	if err := k.follows(r); err != nil {
		return atSeq(err, r.Seq)
	}
	k.head, k.time = kernel.Head{Seq: r.Seq, Hash: hash}, r.Time
	if !neutral(r.Kind) {
		k.version++
	}
	return nil
}

// follows holds the envelope against the chain. Only recorded time counts, and
// the sequence is the order (case R9).
func (k *Kernel) follows(r kernel.Record) error {
	c := k.fold.config
	switch {
	case r.World != c.WorldID || r.Instance != c.Instance:
		return refuse(ErrForeign, nil, "it belongs to instance %q of %q", r.Instance, r.World)
	case r.V != kernel.RecordVersion:
		return refuse(ErrChain, nil, "the version %d of its envelope is unknown", r.V)
	case r.Seq != k.head.Seq+1 || r.Prev != k.head.Hash:
		return refuse(ErrChain, nil, "it doesn't follow record %d", k.head.Seq)
	case r.Time < k.time:
		return refuse(ErrChain, nil, "its time goes back")
	case (r.Kind == kernel.KindGenesis) != (r.Seq == 0):
		return refuse(ErrOrder, nil, "the genesis is the first record and no other is")
	}
	return nil
}

func (k *Kernel) genesis(e entry) error {
	mine, err := canon.Marshal(k.fold.config.Genesis())
	if err != nil {
		return refuse(ErrBody, err, "the genesis")
	}
	if !bytes.Equal(mine, e.body) || e.task != 0 || e.run != "" {
		return refuse(ErrForeign, nil, "the genesis is of another world")
	}
	return nil
}

// settled makes the receipt again and compares.
func (k *Kernel) settled(e entry, r kernel.Record) error {
	var said RoundReceipt
	if err := decode(e, &said, &said.Kind); err != nil {
		return err
	}
	if said.Timestamp < k.fold.time || said.Timestamp > r.Time {
		return refuse(ErrReceipt, nil, "its timestamp is not between the receipt before and its record")
	}
	next := k.fold.fork()
	for i := range next.now.actions {
		next.accept(i)
	}
	known := slices.Concat(next.ids(true), next.ids(false))
	strangers := slices.DeleteFunc(slices.Clone(said.RejectedActionIDs), func(id string) bool { return slices.Contains(known, id) })
	made, err := next.settle(said.Seed, said.Timestamp, strangers)
	if err != nil {
		return err
	}
	body, err := canon.Marshal(made)
	if err != nil {
		return refuse(ErrReceipt, err, "the receipt")
	}
	if canon.Sum(body) != e.hash() {
		return refuse(ErrReceipt, nil, "the receipt of round %d is not the fold's", said.RoundID)
	}
	k.fold, k.receipt = next, &made
	return nil
}

// Snapshot is a copy of the state. Between rounds its hash is the last
// receipt's snapshot_hash_after; inside one it shows what is recorded so far.
func (k *Kernel) Snapshot() (WorldSnapshot, error) { return k.fold.copySnapshot() }

// StateHash is the hash of the last settled state.
func (k *Kernel) StateHash() canon.Digest { return k.fold.hash }

// Receipt is the receipt of the last settled round, the same until the next;
// before the first it is [ErrOrder].
func (k *Kernel) Receipt() (RoundReceipt, error) { return copyReceipt(k.receipt) }

// Config is the world's configuration, its seed in any case.
func (k *Kernel) Config() WorldConfig {
	return ConfigOf(k.fold.config.Genesis(), k.fold.config.Instance)
}

// Chain is where the next record goes; [kernel.Chain.Seal] gives drafts their
// place.
func (k *Kernel) Chain() kernel.Chain {
	return kernel.Chain{World: k.fold.config.WorldID, Instance: k.fold.config.Instance, Head: k.head, Time: k.time}
}

// Genesis is the draft of the first record.
func (k *Kernel) Genesis() kernel.Draft {
	return kernel.Draft{Kind: kernel.KindGenesis, Body: k.fold.config.Genesis()}
}

// TaskView is what a decision needs of a task beside HEAD; the observation that
// it rests on must hold exactly this.
func (k *Kernel) TaskView(task int64) kernel.TaskView { return k.fold.view(task) }

// Dispatched reports whether the intent of a dispatch of this run, the last one
// of its task, is recorded: there is no second (promise P5).
func (k *Kernel) Dispatched(run string) bool {
	is := false
	k.fold.tasks.all(func(t *known) { is = is || t.Run.ID == run && t.Run.Dispatched })
	return is
}

// Admit lists what keeps paths from being reserved for a task, each as
// `policy.budget_exceeded`: facts for the decision on its claim.
func (k *Kernel) Admit(task int64, allowedFiles []string) []kernel.Violation {
	return k.fold.admit(task, allowedFiles)
}

// OpenIntents are the task's effects that have no outcome at all: a process
// that finds some at its start closes each as unknown.
func (k *Kernel) OpenIntents(task int64) []OpenIntent { return k.fold.intents(task, false) }

// UnknownIntents are the task's effects whose outcome is unknown: each is
// looked up by its key before another effect of the task is tried.
func (k *Kernel) UnknownIntents(task int64) []OpenIntent { return k.fold.intents(task, true) }

func (f *fold) intents(task int64, unknown bool) []OpenIntent {
	t := f.task(task)
	return slices.DeleteFunc(slices.Clone(t.Intents), func(o OpenIntent) bool { return o.Unknown != unknown })
}

// Task is what the fold knows of a task, archived ones included; ok is false if
// no record is of it. Its lists are not to be written to.
func (k *Kernel) Task(number int64) (t Task, ok bool) { return k.fold.known(number) }

// Acted reports whether an act of this person and key was accepted for the task, or for the
// world that it concerns: it has its answer, and isn't asked again.
func (k *Kernel) Acted(task int64, a kernel.OperatorAct) bool {
	acted := k.fold.acted
	if !a.Global() {
		acted = k.fold.task(task).Acted
	}
	return a.Key != "" && slices.Contains(acted, actionID(agentOf(a.Actor), a.Key))
}

// Pauses are those for which nothing new is started. The list is not to be written to.
func (k *Kernel) Pauses() []Pause { return k.fold.pauses }

// Tasks are the numbers of the known tasks, in order.
func (k *Kernel) Tasks() []int64 {
	out := make([]int64, 0, k.fold.tasks.count())
	k.fold.tasks.all(func(t *known) { out = append(out, t.Number) })
	slices.Sort(out)
	return out
}
