package ledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/writbot/writ/kernel"
)

// NoSeq is the sequence of an [Error] that concerns no single record.
const NoSeq = -1

// Error is every failure of this package: code, sentence, cause. The remedy is
// the code's (kernel.Code.Info).
//
//   - ledger.fork: the stored head isn't the expected one. Nothing was stored.
//   - ledger.unavailable: the storage failed, or the store refuses because it
//     failed before. What was appended doesn't count; it may be found stored
//     after a restart, as an announcement that nobody acted on.
//   - ledger.corrupt: what is stored does not verify, or what was to be
//     appended is no continuation.
//   - ledger.rollback: the store is older than a checkpoint.
type Error struct {
	Code   kernel.Code
	World  string // "" where the whole store is concerned
	Seq    int64  // the record concerned, or [NoSeq]
	Detail string // a sentence without secrets
	Err    error  // cause, or nil
}

func (e *Error) Error() string {
	s := string(e.Code)
	if e.World != "" {
		s += " " + e.World
	}
	if e.Seq != NoSeq {
		s += fmt.Sprintf(" record %d", e.Seq)
	}
	s += ": " + e.Detail
	if e.Err != nil { // one code is enough
		s += ": " + strings.TrimPrefix(e.Err.Error(), string(kernel.CodeEnvStore)+": ")
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode is the error's code.
func (e *Error) FailureCode() kernel.Code { return e.Code }

// CodeOf is the code of an error of this package, or "".
func CodeOf(err error) kernel.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func corrupt(world string, seq int64, detail string) *Error {
	return &Error{Code: kernel.CodeLedgerCorrupt, World: world, Seq: seq, Detail: detail}
}

func unavailable(world, detail string, err error) *Error {
	return &Error{Code: kernel.CodeLedgerUnavailable, World: world, Seq: NoSeq, Detail: detail, Err: err}
}
