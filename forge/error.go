package forge

import (
	"errors"
	"fmt"
	"time"
)

// Reason is the class of a forge's refusal or failure.
type Reason string

// The reasons. What is Unavailable or Limited may pass by itself; the others
// stay until a person changes something.
const (
	NotFound     Reason = "not found"    // gone, moved, or hidden from us
	Unauthorized Reason = "unauthorized" // the credentials are wrong or have ended
	Forbidden    Reason = "forbidden"    // the credentials lack a permission
	Limited      Reason = "rate limited" // see Error.RetryAfter
	Invalid      Reason = "invalid"      // the forge doesn't take what was sent
	Conflict     Reason = "conflict"     // it is in another state than was expected
	Unavailable  Reason = "unavailable"  // network, time-out, a 5xx
)

// Error is what every adapter returns.
type Error struct {
	Reason Reason
	Op     string // what was tried: "comment on o/n#3"
	// RetryAfter is how long to leave the forge alone, with Limited and where it
	// said so; 0 elsewhere.
	RetryAfter time.Duration
	// Applied says that a write may have been done all the same (a time-out, a 502):
	// look it up before trying again.
	Applied bool
	Err     error // the cause; never holds credentials
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Op, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Reason, e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsReason reports whether an error is a forge's with that reason.
func IsReason(err error, r Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == r
}

// Passing reports whether an error may pass by itself.
func Passing(err error) bool { return IsReason(err, Limited) || IsReason(err, Unavailable) }
