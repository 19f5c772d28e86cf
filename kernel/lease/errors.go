package lease

import (
	"errors"
	"strings"
)

// The failure codes of this package. The table in package kernel documents
// them for people.
const (
	// CodeMalformed: HEAD is no event, or its lease can't be read as one.
	CodeMalformed = "lease.malformed"
	// CodeLost: the lease at HEAD isn't the caller's (any more).
	CodeLost = "lease.lost"
	// CodeUnwritable: a message can't be written so that git reads it back.
	CodeUnwritable = "lease.unwritable"
	// CodePolicyInvalid: the numbers of a [Policy] contradict its limits.
	CodePolicyInvalid = "lease.policy_invalid"
)

// FaultKind says what is wrong with the subject of a [Fault]. The names are
// stable: they stand in records and reports.
type FaultKind string

// The kinds of faults.
const (
	FaultMissing    FaultKind = "missing"      // required and not there
	FaultEmpty      FaultKind = "empty"        // there, without a value
	FaultRepeated   FaultKind = "repeated"     // there more than once, in any case
	FaultMisspelt   FaultKind = "misspelt"     // there once, not in exact case
	FaultInvalid    FaultKind = "invalid"      // a value of the wrong form
	FaultOutOfRange FaultKind = "out_of_range" // a number beyond its limits
	FaultUnexpected FaultKind = "unexpected"   // has no place in this message
	FaultFarFuture  FaultKind = "far_future"   // a date later than the skew allows
)

// Subjects of faults that are neither trailer keys nor numbers of a [Policy].
const (
	SubjectCommitterDate = "committer-date"
	SubjectKey           = "key" // of a trailer
	SubjectTitle         = "title"
	SubjectBody          = "body"
	SubjectMessage       = "message"
)

// Fault is one thing wrong with a message or a [Policy].
type Fault struct {
	Kind    FaultKind `json:"kind"`
	Subject string    `json:"subject"` // a trailer's key, a number of a Policy, or one of the Subject words
}

// String is "subject kind", for a reader.
func (f Fault) String() string {
	return f.Subject + " " + strings.ReplaceAll(string(f.Kind), "_", " ")
}

// Error is every error of this package: a code, what is wrong, a sentence and
// what the reader can do.
type Error struct {
	Code   string
	Fault  Fault  // the zero Fault where no part of a message or policy is to blame
	Detail string // a sentence, without quoting foreign text
	Remedy string
}

// Error gives all parts in one line.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Detail
	if e.Fault != (Fault{}) {
		s += " (" + e.Fault.String() + ")"
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// HasCode reports whether err is, or wraps, an [*Error] of this code.
func HasCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func unwritable(kind FaultKind, subject, detail, remedy string) error {
	return &Error{Code: CodeUnwritable, Fault: Fault{kind, subject}, Detail: detail, Remedy: remedy}
}
