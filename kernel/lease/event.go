package lease

import (
	"slices"
	"strconv"
)

// MaxCommitterSeconds is the end of the year 9999, beyond which no tool agrees
// on how to write a date.
const MaxCommitterSeconds = 253402300799

// Head is the commit at HEAD of a state ref, as the caller read it.
type Head struct {
	OID     string // object id; compared, never interpreted
	Message []byte // the full message, as it stands in the commit object
	// CommitterSeconds is the committer date in Unix seconds.
	CommitterSeconds int64
	// CommitterOK says that the commit object has exactly one committer line
	// and that its date and time zone could be read.
	CommitterOK bool
}

// Event is what HEAD says (seed 000, §1). Fields whose trailer has a fault are
// empty.
type Event struct {
	OID         string
	State       string // selects the command; always valid
	OriginState string // the state that was claimed
	RunID       string
	RunnerID    string
	// LeaseSeconds is the lease's time to live as its writer wants it, not yet
	// capped.
	LeaseSeconds int64
	StalledRun   string // the run whose lease `stalled` broke, or "unknown"
	// CommitterSeconds is the committer date in Unix seconds, and 0 if the
	// date is a fault.
	CommitterSeconds int64

	Title    string
	Body     string    // the prompt
	Trailers []Trailer // all of them, reserved ones included
	Faults   []Fault   // in a fixed order: keys as written, then the date
}

// Malformed reports that HEAD is a lease that can't be read as one. Such a
// lease is a lock all the same; it ends by the observation rule alone.
func (e Event) Malformed() bool { return e.State == StateWorking && len(e.Faults) > 0 }

// Extra returns the trailers that aren't reserved, in their order.
func (e Event) Extra() []Trailer {
	return slices.DeleteFunc(slices.Clone(e.Trailers), func(t Trailer) bool { return Reserved(t.Key) })
}

// ReadEvent reads HEAD as a state event, in two layers: trailers as git reads
// them, then each reserved key must stand there exactly once in exact case.
//
// A commit whose `aynig-state` is missing, empty, repeated, misspelt or of the
// wrong form is no event: the error is an [*Error] with [CodeMalformed] and the
// fault. Anything else wrong leaves an event with Faults. They matter on a
// `working` commit only; other states are never branched on.
func ReadEvent(h Head) (Event, error) {
	m := Parse(h.Message)
	r := reader{message: m}
	ev := Event{OID: h.OID, Title: m.Title, Body: m.Body, Trailers: m.Trailers}
	ev.State = r.text(KeyState, true, ValidState)
	if len(r.faults) > 0 {
		return Event{}, &Error{Code: CodeMalformed, Fault: r.faults[0], Detail: "the commit at HEAD is no state event",
			Remedy: "push a commit with exactly one aynig-state trailer in its last paragraph"}
	}
	working := ev.State == StateWorking
	ev.OriginState = r.text(KeyOriginState, working, func(s string) bool { return ValidState(s) && s != StateWorking })
	ev.RunID = r.text(KeyRunID, working, ValidRunID)
	ev.RunnerID = r.text(KeyRunnerID, working, ValidRunnerID)
	ev.LeaseSeconds = r.seconds(KeyLeaseSeconds, working)
	ev.StalledRun = r.text(KeyStalledRun, false, func(s string) bool { return ValidRunID(s) || s == UnknownRun })
	if working && len(m.Values(KeyStalledRun)) > 0 {
		r.fault(FaultUnexpected, KeyStalledRun)
	}
	ev.CommitterSeconds = r.date(h)
	ev.Faults = r.faults
	return ev, nil
}

// reader reads the reserved keys of one message and collects the faults.
type reader struct {
	message Message
	faults  []Fault
}

func (r *reader) fault(kind FaultKind, subject string) {
	r.faults = append(r.faults, Fault{kind, subject})
}

// text returns the value of a reserved key that stands there exactly once, in
// exact case, and is valid; otherwise "" and a fault.
func (r *reader) text(key string, required bool, valid func(string) bool) string {
	var found []Trailer
	for _, t := range r.message.Trailers {
		if sameKey(t.Key, key) {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 0:
		if required {
			r.fault(FaultMissing, key)
		}
	case len(found) > 1:
		r.fault(FaultRepeated, key)
	case found[0].Key != key:
		r.fault(FaultMisspelt, key)
	case found[0].Value == "":
		r.fault(FaultEmpty, key)
	case !valid(found[0].Value):
		r.fault(FaultInvalid, key)
	default:
		return found[0].Value
	}
	return ""
}

// seconds reads a positive decimal number without sign or leading zero.
func (r *reader) seconds(key string, required bool) int64 {
	s := r.text(key, required, isDecimal)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		r.fault(FaultOutOfRange, key)
		return 0
	}
	return n
}

// isDecimal accepts an optional minus too, so that a negative number is told
// from no number.
func isDecimal(s string) bool {
	if len(s) > 1 && s[0] == '-' {
		s = s[1:]
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s == "0" || s[0] != '0'
}

// date returns the committer date if it can be worked with.
func (r *reader) date(h Head) int64 {
	switch {
	case !h.CommitterOK:
		r.fault(FaultInvalid, SubjectCommitterDate)
	case h.CommitterSeconds < 0 || h.CommitterSeconds > MaxCommitterSeconds:
		r.fault(FaultOutOfRange, SubjectCommitterDate)
	default:
		return h.CommitterSeconds
	}
	return 0
}
