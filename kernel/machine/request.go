package machine

import (
	"bytes"
	"fmt"

	"github.com/writbot/writ/kernel/canon"
)

// Limits of one request. What is above them is a fault of the request.
const (
	// MaxTextBytes bounds id, actor, intent and the names of a tool call, and
	// cuts each text that an entry quotes: 4 KiB is far above any name, and
	// enough of a message.
	MaxTextBytes = 4 << 10
	// MaxParamsBytes bounds the parameters: 1 MiB; larger evidence is named by
	// its digest.
	MaxParamsBytes = 1 << 20
)

// Request is what a machine is asked to do.
type Request struct {
	// ID names the request in entries and receipt. It isn't checked for being
	// new: the same id twice is simply another request.
	ID string
	// Actor is who asks.
	Actor string
	// Intent is what for, a word of the caller's vocabulary.
	Intent string
	// Params is canonical JSON, or nil. Entries hold its SHA-256.
	Params []byte
	// Evidence is the digest of what the request rests on, or "".
	Evidence canon.Digest
	// Now is the wall clock in Unix milliseconds, read by the caller.
	Now int64
}

// ToolCall is the one effect of a request.
type ToolCall struct {
	// Name says which effect, Key identifies this one for ever: by it an
	// effect of unknown outcome is looked up. Both are required.
	Name, Key string
	// Params is canonical JSON, or nil. Entries hold its SHA-256.
	Params []byte
}

// Result is what an effect call gave: a handle, an answer.
type Result struct {
	// Summary is a sentence for the entry that closes the request.
	Summary string
	// Data is the captured result; entries hold its SHA-256.
	Data []byte
}

// Decision is what arbitration makes of a valid request.
type Decision string

// The decisions of seed 004.
const (
	Allow Decision = "ALLOW"
	Deny  Decision = "DENY"
	Halt  Decision = "HALT"
)

// Strictest joins the decisions of several rules: HALT before DENY before
// ALLOW. No rule at all, and a word that is no decision, deny.
func Strictest(decisions ...Decision) Decision {
	joint := Decision("")
	for _, d := range decisions {
		switch {
		case d == Halt || joint == Halt:
			joint = Halt
		case d != Allow:
			joint = Deny
		case joint == "":
			joint = Allow
		}
	}
	if joint == "" {
		return Deny
	}
	return joint
}

// Fault is one thing that is wrong: a code of the table in package kernel, the
// path or field concerned, and a sentence without secrets.
type Fault struct {
	Code    string `json:"code"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// Verdict is the outcome of arbitration.
type Verdict struct {
	// Decision is required. Faults are all violations, in the order of the
	// rules; an ALLOW has none.
	Decision Decision
	Faults   []Fault
	// Tool is the effect to run; only with ALLOW, nil if there is nothing to do.
	Tool *ToolCall
	// Summary is a sentence for the entry that closes the request.
	Summary string
}

// check is what keeps a wrong verdict from being executed: there is no
// implicit ALLOW.
func (v Verdict) check() error {
	switch {
	case v.Decision != Allow && v.Decision != Deny && v.Decision != Halt:
		return fmt.Errorf("the verdict's decision is none of ALLOW, DENY, HALT")
	case v.Decision != Allow && v.Tool != nil:
		return fmt.Errorf("only ALLOW can have a tool call")
	case v.Decision == Allow && len(v.Faults) > 0:
		return fmt.Errorf("ALLOW can't have faults")
	case v.Tool != nil && (v.Tool.Name == "" || v.Tool.Key == ""):
		return fmt.Errorf("a tool call needs a name and a key")
	case v.Tool != nil && (!isName(v.Tool.Name) || !isName(v.Tool.Key)):
		return fmt.Errorf("a tool call's name and key are UTF-8 of at most %d bytes", MaxTextBytes)
	case v.Tool != nil && v.Tool.Params != nil:
		return canon.Check(v.Tool.Params, canon.Limits{MaxBytes: MaxParamsBytes}, nil)
	}
	return nil
}

// Status is what became of a submitted request.
type Status string

// The statuses of a receipt.
const (
	// Accepted: decided ALLOW, and done if there was something to do; or HALT.
	Accepted Status = "ACCEPTED"
	// Rejected: decided DENY.
	Rejected Status = "REJECTED"
	// Failed: the effect failed, or the machine halted under the request.
	Failed Status = "FAILED"
)

// Receipt says how a request ended, or a boot or halt, which have no id.
type Receipt struct {
	RequestID string
	Status    Status
	// Decision is "" if the machine halted before there was one.
	Decision Decision
	// From and To are the states before and after a request: IDLE, and IDLE or
	// HALTED. Of a boot or halt only To says anything.
	From, To State
	// Time is the virtual clock's, in Unix milliseconds.
	Time   int64
	Faults []Fault
	Result Result
	// Err is the effect's own error, or what halted the machine: a [*PanicError], a
	// [*FatalError], a [*BootError], an [*AuditError], or for a command under a
	// request a [*StateError] that is [ErrHalted].
	Err error
	// Entry is the hash of the last acknowledged entry.
	Entry canon.Digest
}

// is reports whether two requests are the same.
func (r Request) is(other Request) bool {
	return r.ID == other.ID && r.Actor == other.Actor && r.Intent == other.Intent && r.Evidence == other.Evidence &&
		r.Now == other.Now && bytes.Equal(r.Params, other.Params)
}

// isName reports whether text can be recorded as it is.
func isName(text string) bool { return clean(text) == text }

// malformed are the faults that the machine itself finds: required fields,
// sizes, text that can't be recorded, parameters in another form than the
// hashed one.
func (r Request) malformed() []Fault {
	var faults []Fault
	add := func(subject, detail string) {
		faults = append(faults, Fault{Code: CodeRequestMalformed, Subject: subject, Detail: detail})
	}
	for _, f := range []struct{ name, text string }{{"id", r.ID}, {"actor", r.Actor}, {"intent", r.Intent}} {
		if f.text == "" {
			add(f.name, "this field is required")
		} else if !isName(f.text) {
			add(f.name, fmt.Sprintf("this field must be UTF-8 of at most %d bytes", MaxTextBytes))
		}
	}
	if r.Params != nil {
		if err := canon.Check(r.Params, canon.Limits{MaxBytes: MaxParamsBytes}, nil); err != nil {
			add("params", "not canonical JSON: "+err.Error())
		}
	}
	if r.Evidence != "" && !r.Evidence.Valid() {
		add("evidence", "not a sha256 digest")
	}
	return faults
}
