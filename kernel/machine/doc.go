// Package machine is the seven-state machine through which every request to a
// task's kernel goes (seed 004, whole). It knows nothing of tasks or forges.
//
// # One request
//
//	BOOTING ─▶ IDLE ─▶ VALIDATING ─▶ ARBITRATING ─▶ EXECUTING ─▶ AUDITING ─▶ IDLE
//
// A failed validation, a DENY, and an ALLOW with nothing to do go to AUDITING
// directly; a HALT decision, a halt command and every fatal error go to
// HALTED, which nothing leaves. [Markdown] prints the whole table. The seven
// states are those of the machine; what state a task is in, is data.
//
// # Audit before change
//
// Each change of state has its own [Entry], and the auditor has acknowledged
// it before the state is assigned; only BOOTING to IDLE has none. Validation
// and arbitration are pure, so they are computed first, their entries go to
// the auditor in one Append, and then the states are passed through one by
// one. The effect runs in EXECUTING; the two entries that lead from there back
// to IDLE are the second and last Append of a request. The entry into IDLE
// closes the request and holds its summary.
//
// An Append is tried once. If it fails, the machine is HALTED all the same:
// the one change that no entry tells of. After a crash, or such a halt, an
// auditor may hold entries whose change never came, and a request that isn't
// closed. The next machine of the epoch closes it while it boots, with the
// error [CodeCrashed]; whether its effect happened is then unknown, and looking
// it up by its key is a request of its own.
//
// # Errors
//
// Faults of a request, a DENY, and an ordinary error of the effect are no
// errors of the machine: they are in the [Receipt], and the machine is IDLE
// again. A panic, a [Fatal] error, a malformed verdict, a request that was
// modified, and a failed Append halt it. A halt is of the process where the
// process was its cause; a new machine of the same epoch may then be booted. It
// is durable where a policy or a person decided it: then [New] refuses, until a
// person opens a new epoch.
//
// # Concurrency
//
// A Machine may be shared. Its callers are serialised, and it starts no
// goroutine. A Submit waits for its turn, except that during EXECUTING it is
// refused with [ErrBusy], so that an effect that submits can't wait for itself.
// Validate, Arbitrate, Append and the function given to Boot may read the state
// but must not call Submit, Boot or Halt, and Execute must not call Halt: it
// returns a [Fatal] error instead.
//
// Time is an input. The virtual clock is the largest time that was ever given,
// in milliseconds since 1970, and never goes back.
package machine
