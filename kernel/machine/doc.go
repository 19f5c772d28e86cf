// Package machine is the seven-state machine through which every request to a
// task's kernel goes (seed 004, whole). It knows nothing of tasks or forges, and calls
// nobody: each method is one step, and its answer says what the caller does next.
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
// The caller validates, decides, appends and acts, each while the machine is in the
// state for it, and hands in what came of it:
//
//	next, err := m.Submit(req)         // VALIDATING; entries, if a required field is missing
//	next, err = m.Validated(req, nil)  // ARBITRATING; entries, if there are faults
//	next, err = m.Decided(req, v)      // next.Entries: append them
//	next, err = m.Recorded(nil)        // EXECUTING; next.Call: run it
//	next, err = m.Executed(result, nil) // AUDITING; next.Entries: append them
//	next, err = m.Recorded(nil)        // IDLE; next.Receipt
//
// A [Ready] has entries, or the one call, or the receipt at the end, so that a caller
// may also loop over it. A call is given only once the entries before it are durable.
//
// # Audit before change
//
// Each change of state has its own [Entry], which is handed out, numbered and chained
// before the state is assigned; only BOOTING to IDLE has none. Seed 004 and T31 ask for
// two things here that two durable appends a request can't both give to the letter: that
// an entry is durable before its change, and that validation is done in VALIDATING and
// the decision in ARBITRATING, though they are pure and share one append.
// What a state can do outside decides: an entry into EXECUTING, IDLE or HALTED is durable
// and acknowledged before the change, so that nothing is done, answered or given up that
// the ledger doesn't tell of. An entry into VALIDATING, ARBITRATING or AUDITING is handed
// out before the change and becomes durable in the next append, before anything else
// happens. If that append fails, these changes had no effect but that the machine is
// HALTED. The entry into IDLE closes the request and holds its summary; it is written
// while the machine is AUDITING.
//
// An append is tried once. If it fails, the machine is HALTED all the same:
// the one change that no entry tells of. After a crash, or such a halt, a ledger
// may hold entries whose change never came, and a request that isn't
// closed. The next machine of the epoch closes it while it boots, with the
// error [CodeCrashed]; whether its effect happened is then unknown, and looking
// it up by its key is a request of its own.
//
// # Errors
//
// Faults of a request, a DENY, and an ordinary error of the effect are no
// errors of the machine: they are in the [Receipt], and the machine is IDLE
// again. A panic ([Caught], [Machine.Failed]), a [Fatal] error, a malformed verdict, an
// answer about another request than the submitted one, and a failed append halt it. A
// halt is of the process where the process was its cause; a new machine of the same epoch
// may then be booted. It is durable where a policy or a person decided it: then [New]
// refuses, until a person opens a new epoch.
//
// # Concurrency
//
// A Machine may be shared: its steps are serialised, and it starts no goroutine and
// holds nothing from one step to the next. A request is taken in IDLE only; whoever comes
// while another one is under way is refused with [ErrBusy], an effect that submits among
// them, and comes again. A halt command is taken in every state: under a request it is
// obeyed at the next step, whose caller gets its entry.
//
// Time is an input. The virtual clock is the largest time that was ever given,
// in milliseconds since 1970, and never goes back.
package machine
