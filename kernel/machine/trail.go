package machine

import (
	"github.com/writbot/writ/kernel/canon"
)

// trail gathers the entries of changes to come and what they say. It is used
// under the turn only.
type trail struct {
	*Machine
	at      State // where the machine will be after the entries so far
	entries []Entry
	// foreign is how many of the entries, at the start, tell of changes that
	// were another machine's.
	foreign int

	// What is known of the request so far.
	request  *Request
	actor    string
	params   *canon.Digest
	decision Decision
	tool     *ToolCall
	result   *Result
	faults   []Fault
	fault    *Fault
	summary  string
	failed   error // of the effect, ordinary
}

// trail starts at the current state. While BOOTING, the request that the
// process before left unfinished comes first.
func (m *Machine) trail() *trail {
	t := &trail{Machine: m, at: m.State()}
	if m.unfinished != nil && t.at == Booting {
		t.closeCrashed(*m.unfinished)
	}
	return t
}

// closeCrashed adds the entries that lead an unfinished request to its end.
// They repeat what its last entry knows.
func (t *trail) closeCrashed(e Entry) {
	_, at, _ := e.transition()
	e.Error = &Fault{Code: CodeCrashed, Subject: at.String(),
		Detail: "the process ended under the request; look its effect up by its key"}
	for _, to := range []State{Auditing, Idle} {
		if at == to {
			continue
		}
		e.StateFrom, e.StateTo, e.Time = at.String(), to.String(), t.now
		if to == Idle {
			e.Summary = text("crashed")
		}
		t.entries = append(t.entries, e)
		t.foreign++
		at = to
	}
}

// to adds the entry of the next change.
func (t *trail) to(next State) {
	e := Entry{
		Kind: entryKind, V: entryVersion, Kernel: t.kernel, Epoch: t.epoch, Time: t.now,
		StateFrom: t.at.String(), StateTo: next.String(), Actor: text(t.actor),
		ParamsHash: t.params, Error: cleanFault(t.fault), Faults: make([]Fault, 0, len(t.faults)),
	}
	for i := range t.faults {
		e.Faults = append(e.Faults, *cleanFault(&t.faults[i]))
	}
	t.describe(&e)
	if next == Idle || next == Halted {
		e.Summary = text(t.summary)
	}
	t.entries = append(t.entries, e)
	t.at = next
}

// describe adds what only a request has. An entry is kept for long: it holds
// copies, so that it doesn't hold the request and all that made it.
func (t *trail) describe(e *Entry) {
	if r := t.request; r != nil {
		e.RequestID, e.Intent = text(r.ID), text(r.Intent)
		if r.Evidence.Valid() {
			evidence := r.Evidence
			e.EvidenceHash = &evidence
		}
	}
	if t.decision != "" {
		decision := t.decision
		e.Decision = &decision
	}
	if t.tool != nil {
		e.Tool = &ToolRecord{t.tool.Name, t.tool.Key, digest(t.tool.Params)}
	}
	if t.result != nil {
		e.ResultHash = digest(t.result.Data)
	}
}

// halt adds the entry into HALTED, tries once to have the entries kept, and
// halts. An error means that there is no entry.
func (t *trail) halt(cause HaltCause) error {
	t.to(Halted)
	t.entries[len(t.entries)-1].Halt = &cause
	return t.commit()
}

// commit hands the entries to the auditor and then makes their changes. If
// they aren't acknowledged the machine is HALTED, with an [*AuditError].
func (t *trail) commit() error {
	if len(t.entries) == 0 {
		return nil
	}
	end, err := t.seal()
	if err == nil {
		err = t.record()
	}
	if err != nil {
		failed := &AuditError{State: t.State(), Err: err}
		return joined(failed, t.enter(Halted))
	}
	t.acknowledged(end)
	for _, e := range t.entries[t.foreign:] {
		_, to, err := e.transition()
		if err == nil {
			err = t.enter(to)
		}
		if err != nil {
			return err
		}
	}
	t.entries, t.foreign = nil, 0
	return nil
}

// seal numbers and chains the entries, and refuses incomplete ones.
func (t *trail) seal() (position, error) {
	p := t.chain
	for i := range t.entries {
		e := &t.entries[i]
		e.Seq, e.Prev = p.seq+1, p.hash
		if err := e.Check(); err != nil {
			return p, err
		}
		hash, err := t.codec.Hash(e)
		if err != nil {
			return p, err
		}
		p = position{e.Seq, hash}
	}
	return p, nil
}

// record is the one try of the entries. If the auditor ends the goroutine, the
// machine halts on the way out and asks it nothing more.
func (t *trail) record() (err error) {
	returned := false
	defer func() {
		if !returned {
			_ = t.enter(Halted) // no one is left to tell
		}
	}()
	if caught := protect("Append", func() { err = t.auditor.Append(t.entries) }); caught != nil {
		err = caught
	}
	returned = true
	return err
}

func (t *trail) acknowledged(end position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chain = end
	t.unfinished = nil
}

// text is a nullable text of an entry.
func text(s string) *string {
	if s == "" {
		return nil
	}
	s = clean(s)
	return &s
}

// digest is a nullable digest of an entry.
func digest(b []byte) *canon.Digest {
	if b == nil {
		return nil
	}
	d := canon.Sum(b)
	return &d
}

// cleanFault makes a fault recordable.
func cleanFault(f *Fault) *Fault {
	if f == nil {
		return nil
	}
	return &Fault{clean(f.Code), clean(f.Subject), clean(f.Detail)}
}
