package world

import (
	"fmt"

	"github.com/writbot/writ/kernel"
)

// Fault is a rule of the world that a record or call would break. It is an
// error itself, so errors.Is(err, world.ErrSecondAcceptance) works on what the
// functions here return.
type Fault string

// The faults. Whatever returns one has changed nothing.
const (
	// ErrConfig: the world can't be made from this configuration.
	ErrConfig Fault = "config"
	// ErrOrder: a call or record out of turn (conformance WK28).
	ErrOrder Fault = "order"
	// ErrBody: a record's body is not what its kind says, or names something
	// else than its envelope.
	ErrBody Fault = "body"
	// ErrForeign: a record of another world, instance or genesis (case R6).
	ErrForeign Fault = "foreign"
	// ErrChain: sequence, previous hash or time don't follow (cases R1, R9).
	ErrChain Fault = "chain"
	// ErrReceipt: a receipt says something else than the fold.
	ErrReceipt Fault = "receipt"
	// ErrView: facts that contradict the fold.
	ErrView Fault = "view"
	// ErrUnknownProposal: something rests on a proposal that isn't recorded
	// (seed 003 §4).
	ErrUnknownProposal Fault = "unknown_proposal"
	// ErrPlan: a plan or spec that doesn't verify.
	ErrPlan Fault = "plan"
	// ErrNoDecision: an effect, dispatch or refusal that no decision is for.
	ErrNoDecision Fault = "no_decision"
	// ErrDispatch: a dispatch that isn't the allowed one (invariant E4).
	ErrDispatch Fault = "dispatch"
	// ErrSecondDispatch: a run id is dispatched once (promise P5).
	ErrSecondDispatch Fault = "second_dispatch"
	// ErrNoIntent: an outcome without its open intent (invariant E3).
	ErrNoIntent Fault = "no_intent"
	// ErrIntentOpen: an effect before the one before it is settled.
	ErrIntentOpen Fault = "intent_open"
	// ErrUnproven: an acceptance without the evidence it needs.
	ErrUnproven Fault = "unproven"
	// ErrSecondAcceptance: a second accepted result of an approval (invariant E1).
	ErrSecondAcceptance Fault = "second_acceptance"
	// ErrHalted: the task's kernel is halted.
	ErrHalted Fault = "halted"
	// ErrLand: the path space is full, or a path is too deep for it.
	ErrLand Fault = "land"
)

// Error makes a fault an error by itself.
func (f Fault) Error() string { return "world: " + string(f) }

// NoSeq is the sequence number of an error about something that has none yet.
const NoSeq = -1

// Error is every failure of this package.
type Error struct {
	Code   kernel.Code
	Fault  Fault
	Seq    int64 // of the record, or NoSeq
	Detail string
	cause  error
}

// Error is one line with all of it.
func (e *Error) Error() string {
	where := ""
	if e.Seq != NoSeq {
		where = fmt.Sprintf(" at record %d", e.Seq)
	}
	if e.cause != nil {
		return fmt.Sprintf("%s%s: %v: %s: %v", e.Code, where, e.Fault, e.Detail, e.cause)
	}
	return fmt.Sprintf("%s%s: %v: %s", e.Code, where, e.Fault, e.Detail)
}

// Unwrap gives the fault and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.cause != nil {
		return []error{e.Fault, e.cause}
	}
	return []error{e.Fault}
}

// refuse makes the error of a fault. A nil cause is fine.
func refuse(f Fault, cause error, format string, args ...any) error {
	return &Error{Code: f.code(), Fault: f, Seq: NoSeq, Detail: fmt.Sprintf(format, args...), cause: cause}
}

// code is what a caller that proposed the record is told. In a ledger each of
// these is corruption, for no kernel writes them.
func (f Fault) code() kernel.Code {
	switch f {
	case ErrConfig:
		return kernel.CodeConfigInvalid
	case ErrPlan:
		return kernel.CodePlanInvalid
	case ErrDispatch, ErrNoDecision:
		return kernel.CodeDispatchInvalid
	case ErrSecondDispatch, ErrSecondAcceptance:
		return kernel.CodeLockViolation
	case ErrUnproven:
		return kernel.CodeVerificationFailed
	case ErrIntentOpen:
		return kernel.CodeEffectUnknown
	case ErrHalted:
		return kernel.CodeTaskHalted
	case ErrLand:
		return kernel.CodeBudgetExceeded
	}
	return kernel.CodeLedgerCorrupt
}
