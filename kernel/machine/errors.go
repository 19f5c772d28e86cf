package machine

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The codes that the machine itself puts into faults and errors. Package
// kernel has them in its table.
const (
	// CodeRequestMalformed: a field is missing or not in its form.
	CodeRequestMalformed = "machine.request.malformed"
	// CodeRequestModified: validation or arbitration changed the request.
	CodeRequestModified = "machine.request.modified"
	// CodeVerdictMalformed: arbitration gave no usable verdict.
	CodeVerdictMalformed = "machine.verdict.malformed"
	// CodeEffectFailed: the effect gave an error that has no code of its own.
	CodeEffectFailed = "machine.effect.failed"
	// CodeFatal: a fatal error that has no code of its own.
	CodeFatal = "machine.fatal"
	// CodePanic: a panic while the request was handled, or its goroutine ended.
	CodePanic = "machine.panic"
	// CodeBootFailed: configuration or records could not be loaded.
	CodeBootFailed = "machine.boot.failed"
	// CodeHalted: a person halted the machine.
	CodeHalted = "machine.halted"
	// CodeCrashed: the process ended under the request; the outcome of its
	// effect is unknown.
	CodeCrashed = "machine.crashed"
)

// Refusal is the cause in a [StateError] that callers ask for with errors.Is.
type Refusal string

const (
	// ErrBusy: another request, or a halt, is under way. Submit again when it has ended.
	ErrBusy Refusal = "another request is under way; submit again when it has ended"
	// ErrHalted: the machine is HALTED and takes nothing any more. Boot
	// another one; after a durable halt a person must open a new epoch first.
	ErrHalted Refusal = "the machine is halted; boot another one, after a durable halt in a new epoch"
)

// Error makes a refusal an error.
func (r Refusal) Error() string { return "machine: " + string(r) }

// StateError is a transition that the matrix doesn't have, or that isn't due. Nothing
// was changed. errors.Is finds [ErrHalted] in one from HALTED, and [ErrBusy] in one
// from a state in which a request is under way, or from IDLE while a halt is.
type StateError struct{ From, To State }

func (e *StateError) Error() string {
	text := fmt.Sprintf("machine: invalid transition %v to %v", e.From, e.To)
	var why Refusal
	if errors.As(e.Unwrap(), &why) {
		text += ": " + string(why)
	}
	return text
}

// Unwrap is the refusal, if there is one.
func (e *StateError) Unwrap() error {
	switch {
	case e.From == Halted:
		return ErrHalted
	case e.To == Validating && e.From != Booting:
		return ErrBusy
	}
	return nil
}

// ConfigError says why a machine can't be made of a configuration.
type ConfigError struct{ Detail string }

func (e *ConfigError) Error() string { return "machine: " + e.Detail }

// BootError says that loading failed and the machine is HALTED.
type BootError struct{ Err error }

func (e *BootError) Error() string { return "machine: boot failed, halted: " + e.Err.Error() }

// Unwrap is what loading said.
func (e *BootError) Unwrap() error { return e.Err }

// AuditError says that the auditor didn't take an entry, so the machine is
// HALTED without one. Stop the process, verify the store, boot again.
type AuditError struct {
	// State is where the machine was.
	State State
	Err   error
}

func (e *AuditError) Error() string {
	return fmt.Sprintf("machine: audit failed in %v, halted; verify the store before the next start: %v", e.State, e.Err)
}

// Unwrap is what the auditor said.
func (e *AuditError) Unwrap() error { return e.Err }

// PanicError says that a panic was caught. Handed to the machine, it halts it.
type PanicError struct {
	// Where says what panicked: Validate, Arbitrate, Execute, Append or Boot.
	Where string
	// Value is what it panicked with, as text.
	Value string
}

func (e *PanicError) Error() string {
	return "machine: panic in " + e.Where + ", halted: " + e.Value
}

// FatalError is an error that halted the machine.
type FatalError struct {
	Code string
	Err  error
}

func (e *FatalError) Error() string { return "machine: halted, " + e.Code + ": " + e.Err.Error() }

// Unwrap is the error itself.
func (e *FatalError) Unwrap() error { return e.Err }

// Fatal marks an error of an effect after which the machine must not go on, such as a
// broken ledger. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &FatalError{Code: CodeFatal, Err: err}
}

// faultOf is what an entry says about an error.
func faultOf(err error, code, subject string) *Fault {
	var own interface{ Fault() Fault }
	if errors.As(err, &own) {
		f := own.Fault()
		return &f
	}
	var fatal *FatalError
	var panicked *PanicError
	switch {
	case errors.As(err, &panicked):
		code, subject = CodePanic, panicked.Where
	case errors.As(err, &fatal):
		code = fatal.Code
	}
	return &Fault{Code: code, Subject: subject, Detail: err.Error()}
}

// clean makes text recordable: valid UTF-8 of at most MaxTextBytes.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxTextBytes {
		return text
	}
	end := MaxTextBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Caught runs f and turns a panic into a [*PanicError], for [Machine.Failed] and the
// other steps that take an error.
func Caught(where string, f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Where: where, Value: fmt.Sprint(value)}
		}
	}()
	return f()
}

// joined is both errors, or the one there is.
func joined(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return errors.Join(a, b)
}
