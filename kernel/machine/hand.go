package machine

import (
	"github.com/writbot/writ/kernel/canon"
)

// hand hands out the entry of a change: numbered, chained and complete.
func (m *Machine) hand(to State, halt *HaltCause) error {
	op := &m.op
	e := Entry{
		Kind: entryKind, V: entryVersion, Kernel: m.kernel, Epoch: m.epoch, Time: m.now,
		StateFrom: m.state.String(), StateTo: to.String(), Actor: text(op.actor), Halt: halt,
		ParamsHash: op.params, Error: cleanFault(op.fault), Faults: make([]Fault, 0, len(op.faults)),
	}
	for i := range op.faults {
		e.Faults = append(e.Faults, *cleanFault(&op.faults[i]))
	}
	op.describe(&e)
	if to == Idle || to == Halted {
		e.Summary = text(op.summary)
	}
	return m.chained(e)
}

// describe adds what only a request has. An entry is kept for long: it holds
// copies, so that it doesn't hold the request and all that made it.
func (op *operation) describe(e *Entry) {
	if r := op.request; r != nil {
		e.RequestID, e.Intent = text(r.ID), text(r.Intent)
		if r.Evidence.Valid() {
			evidence := r.Evidence
			e.EvidenceHash = &evidence
		}
	}
	if op.decision != "" {
		decision := op.decision
		e.Decision = &decision
	}
	if op.tool != nil {
		e.Tool = &ToolRecord{op.tool.Name, op.tool.Key, digest(op.tool.Params)}
	}
	if op.result != nil {
		e.ResultHash = digest(op.result.Data)
	}
}

// chained gives an entry its place, and refuses one that is incomplete.
func (m *Machine) chained(e Entry) error {
	e.Seq, e.Prev = m.end.seq+1, m.end.hash
	if err := e.Check(); err != nil {
		return err
	}
	sealed, err := canon.Seal(e)
	if err != nil {
		return err
	}
	m.out, m.sealed, m.end = append(m.out, e), append(m.sealed, sealed), position{e.Seq, sealed.Hash()}
	return nil
}

// closeCrashed hands out the entries that lead the request of the process before to its
// end. They repeat what its last entry knows.
func (m *Machine) closeCrashed() error {
	if m.unfinished == nil || len(m.out) > 0 {
		return nil
	}
	e := *m.unfinished
	_, at, _ := e.transition()
	e.Error = &Fault{Code: CodeCrashed, Subject: at.String(),
		Detail: "the process ended under the request; look its effect up by its key"}
	for _, to := range []State{Auditing, Idle} {
		if at == to {
			continue
		}
		e.StateFrom, e.StateTo, e.Time = at.String(), to.String(), m.now
		if to == Idle {
			e.Summary = text("crashed")
		}
		if err := m.chained(e); err != nil {
			return err
		}
		at = to
	}
	return nil
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
