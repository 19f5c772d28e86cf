package machine

import (
	"fmt"

	"github.com/writbot/writ/kernel/canon"
)

const (
	entryKind    = "audit"
	genesisKind  = "audit_genesis"
	entryVersion = 1
)

// HaltCause says in an entry into HALTED what may be booted after it.
type HaltCause string

const (
	// HaltProcess: the process was the cause; a new one may boot at once.
	HaltProcess HaltCause = "process"
	// HaltDurable: a policy or a person decided it; only a new epoch, which a
	// person opens, goes on.
	HaltDurable HaltCause = "durable"
)

// ToolRecord is a tool call in an entry: its parameters as their digest.
type ToolRecord struct {
	Name       string        `json:"name"`
	Key        string        `json:"key"`
	ParamsHash *canon.Digest `json:"params_hash"`
}

// Entry tells of one change of state before it happens. All members are always
// present, null where there is nothing, and all are hashed ([Entry.Digest]);
// decision, tool, faults, error and result are in every entry of the request
// from when they are known. Entries of a kernel's epoch form one chain from
// [Genesis] on, through any number of machines.
type Entry struct {
	Kind string `json:"kind"` // always "audit"
	V    int    `json:"v"`    // version of this form, 1
	// Kernel and Epoch are the chain's identity.
	Kernel string `json:"kernel"`
	Epoch  int64  `json:"epoch"`
	// Seq counts from 1; Prev is the digest of the entry before, or genesis.
	Seq  int64        `json:"seq"`
	Prev canon.Digest `json:"prev"`
	// Time is the virtual clock's, in Unix milliseconds.
	Time int64 `json:"time"`
	// RequestID, Actor and Intent are the request's. A halt by command has the
	// halting actor, and the request it cut off, if it did.
	RequestID *string `json:"request_id"`
	Actor     *string `json:"actor"`
	Intent    *string `json:"intent"`
	StateFrom string  `json:"state_from"`
	StateTo   string  `json:"state_to"`
	// Decision is ALLOW, DENY or HALT.
	Decision *Decision   `json:"decision"`
	Tool     *ToolRecord `json:"tool"`
	// ParamsHash and ResultHash are SHA-256 of the request's parameters and
	// the effect's data; EvidenceHash is the request's.
	ParamsHash   *canon.Digest `json:"params_hash"`
	EvidenceHash *canon.Digest `json:"evidence_hash"`
	ResultHash   *canon.Digest `json:"result_hash"`
	Faults       []Fault       `json:"faults"`
	Error        *Fault        `json:"error"`
	// Halt is set in entries into HALTED only.
	Halt *HaltCause `json:"halt"`
	// Summary is set in entries that close a request.
	Summary *string `json:"summary"`
}

// Digest is the entry's hash, which the next entry holds as Prev.
func (e Entry) Digest() (canon.Digest, error) { return canon.Hash(e) }

// Genesis is what the first entry of a chain follows.
func Genesis(kernel string, epoch int64) (canon.Digest, error) {
	return canon.Hash(struct {
		Kind   string `json:"kind"`
		Kernel string `json:"kernel"`
		Epoch  int64  `json:"epoch"`
	}{genesisKind, kernel, epoch})
}

// transition is the entry's change, if the matrix has it.
func (e Entry) transition() (from, to State, err error) {
	from, ok1 := ParseState(e.StateFrom)
	to, ok2 := ParseState(e.StateTo)
	if !ok1 || !ok2 {
		return 0, 0, fmt.Errorf("machine: entry %d: unknown state", e.Seq)
	}
	if !Allowed(from, to) {
		return 0, 0, &StateError{From: from, To: to}
	}
	return from, to, nil
}

// Check refuses an entry that lacks what each entry must have (SM36).
func (e Entry) Check() error {
	_, to, err := e.transition()
	switch {
	case err != nil:
		return err
	case e.Kind != entryKind || e.V != entryVersion:
		return fmt.Errorf("machine: entry %d: kind or version is wrong", e.Seq)
	case e.Kernel == "" || e.Seq < 1 || !e.Prev.Valid() || e.Time < 0:
		return fmt.Errorf("machine: entry %d: kernel, seq, prev or time is missing", e.Seq)
	case (e.Halt != nil) != (to == Halted):
		return fmt.Errorf("machine: entry %d: a cause of halting belongs to HALTED, and only there", e.Seq)
	case e.Halt != nil && *e.Halt != HaltProcess && *e.Halt != HaltDurable:
		return fmt.Errorf("machine: entry %d: unknown cause of halting", e.Seq)
	}
	return nil
}

// ChainError names the first entry of a chain that is wrong.
type ChainError struct {
	// Seq is the place where the entry stands, counted from 1.
	Seq int64
	Err error
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("machine: audit chain, entry %d: %v", e.Seq, e.Err)
}

// Unwrap is what is wrong with it.
func (e *ChainError) Unwrap() error { return e.Err }

// Verify reads a chain from its genesis: identity, order, hashes, clock, and
// that each entry starts where the one before ended, or where a new machine
// may start. It gives a [*ChainError] for the first wrong entry. That the end
// was cut off, no chain shows.
func Verify(kernel string, epoch int64, entries []Entry) error {
	prev, err := Genesis(kernel, epoch)
	if err != nil {
		return err
	}
	var last *Entry
	for i := range entries {
		e := &entries[i]
		seq := int64(i) + 1
		if e.Seq != seq || e.Prev != prev || e.Kernel != kernel || e.Epoch != epoch {
			return &ChainError{seq, fmt.Errorf("it doesn't follow the entry before")}
		}
		if err := e.Check(); err != nil {
			return &ChainError{seq, err}
		}
		if err := follows(last, e); err != nil {
			return &ChainError{seq, err}
		}
		if prev, err = e.Digest(); err != nil {
			return &ChainError{seq, err}
		}
		last = e
	}
	return nil
}

// follows checks clock and state against the entry before.
func follows(last, e *Entry) error {
	from, _, err := e.transition()
	if err != nil {
		return err
	}
	if last == nil {
		return starts(from)
	}
	_, at, err := last.transition()
	switch {
	case err != nil:
		return err
	case e.Time < last.Time:
		return fmt.Errorf("the clock goes back")
	case at == Halted && *last.Halt == HaltDurable:
		return &StateError{From: Halted, To: from}
	case at == from, from == Booting && (at == Idle || at == Halted), from == Idle && at == Halted:
		return nil
	}
	return &StateError{From: at, To: from}
}

// starts: the first entry of a chain is of a new machine.
func starts(from State) error {
	if from == Idle || from == Booting {
		return nil
	}
	return &StateError{From: Booting, To: from}
}
