package tick

import (
	"slices"
	"strings"

	"github.com/writbot/writ/kernel/lease"
)

// Step is what is to be done with a branch.
type Step string

// The steps.
const (
	StepNone      Step = "none"      // the commit at HEAD is no event and doesn't claim to be
	StepMalformed Step = "malformed" // it has the trailer, and can't be read as an event
	StepHeld      Step = "held"      // somebody's lease is live
	StepTakeOver  Step = "take_over" // the lease ended: replace it with `stalled`
	StepRun       Step = "run"       // claim the branch and run the state's command
)

// Decision is what [Decide] makes of a HEAD.
type Decision struct {
	Step    Step
	Event   lease.Event   // of every step but none and malformed
	Verdict lease.Verdict // of held and take over
	Err     error         // of malformed: what is wrong
}

// Decide says what is to be done with a branch whose HEAD is h. obs is what
// [lease.Observe] returned for that HEAD. Nothing but its arguments counts, so two
// machines that are told the same decide the same (A50).
func Decide(h lease.Head, obs lease.Sighting, now lease.Clock, pol lease.Policy) Decision {
	ev, err := lease.ReadEvent(h)
	if err != nil {
		if len(lease.Parse(h.Message).Values(lease.KeyState)) == 0 {
			return Decision{Step: StepNone}
		}
		return Decision{Step: StepMalformed, Err: err}
	}
	if ev.State != lease.StateWorking {
		return Decision{Step: StepRun, Event: ev}
	}
	v := lease.Judge(ev, obs, now, pol, false)
	if v.MayTakeOver {
		return Decision{Step: StepTakeOver, Event: ev, Verdict: v}
	}
	return Decision{Step: StepHeld, Event: ev, Verdict: v}
}

// KeyRemote is the trailer by which a lease says on which remote it stands. The
// helpers of the existing implementation look for it.
const KeyRemote = "aynig-remote"

// KeyOrigin tells the command of `stalled` which state's run ended so. The
// reserved name for it belongs to `working` alone.
const KeyOrigin = "writ-origin-state"

// Lease is what this runner says of itself in a claim.
type Lease struct {
	RunID    string // fresh for every claim
	RunnerID string
	Seconds  int64
	Remote   string // "" in local mode
}

// Claim writes the message of the lease commit on ev. The event's prompt and its
// trailers go with it, so that whoever finds the lease dead has them at HEAD. What
// can't be written again is left out: the lease itself always can.
func Claim(ev lease.Event, l Lease) ([]byte, error) {
	c := lease.Claim{OriginState: ev.State, RunID: l.RunID, RunnerID: l.RunnerID, LeaseSeconds: l.Seconds,
		Body: ev.Body, Extra: carried(ev)}
	bare := lease.Claim{OriginState: c.OriginState, RunID: c.RunID, RunnerID: c.RunnerID, LeaseSeconds: c.LeaseSeconds}
	if l.Remote != "" {
		c.Extra = append(c.Extra, lease.Trailer{Key: KeyRemote, Value: l.Remote})
		bare.Extra = []lease.Trailer{{Key: KeyRemote, Value: l.Remote}}
	}
	if message, err := lease.Working(c); err == nil {
		return message, nil
	}
	return lease.Working(bare)
}

// TakeOver writes the message of the commit that replaces an expired lease.
func TakeOver(ev lease.Event, remote string) ([]byte, error) {
	b := lease.Break{Body: ev.Body, Extra: carried(ev)}
	if remote != "" {
		b.Extra = append(b.Extra, lease.Trailer{Key: KeyRemote, Value: remote})
	}
	if ev.OriginState != "" {
		b.Extra = append(b.Extra, lease.Trailer{Key: KeyOrigin, Value: ev.OriginState})
	}
	if message, err := lease.Stalled(ev, b); err == nil {
		return message, nil
	}
	return lease.Stalled(ev, lease.Break{})
}

// carried are the trailers that a commit of the runner takes over from the one
// below it: all but the reserved ones and those that it writes itself.
func carried(ev lease.Event) []lease.Trailer {
	return slices.DeleteFunc(ev.Extra(), func(t lease.Trailer) bool {
		return strings.EqualFold(t.Key, KeyRemote) || strings.EqualFold(t.Key, KeyOrigin)
	})
}

// Run is an execution that has ended.
type Run struct {
	ID    string // run id
	Event string // the commit that triggered it
}

// Completion is what [Complete] makes of the HEAD after a run.
type Completion string

// The completions. Why says in words which of the ways it was.
const (
	CompletionDone    Completion = "done"    // HEAD has a state that isn't `working`, and is what the command left
	CompletionInvalid Completion = "invalid" // HEAD is the run's own, and no completion
	CompletionLost    Completion = "lost"    // HEAD is somebody else's
)

// Complete judges a run by the HEAD after it and nothing else (seed 000, §6, T9).
// left is the commit that the command left where it ran. A head without an id is
// a branch that is gone.
func Complete(r Run, head lease.Head, left string) (c Completion, why string) {
	ev, err := lease.ReadEvent(head)
	ours := head.OID == left
	switch {
	case head.OID == "":
		return CompletionLost, "the branch is gone"
	case err == nil && ev.State == lease.StateWorking && ev.RunID == r.ID:
		return CompletionInvalid, "HEAD is still the lease of this run"
	case !ours:
		return CompletionLost, "HEAD isn't the commit that the command left"
	case head.OID == r.Event:
		return CompletionInvalid, "HEAD is the event again that was run"
	case err != nil:
		return CompletionInvalid, "HEAD has no state"
	case ev.State == lease.StateWorking:
		return CompletionLost, "HEAD is the lease of another run"
	}
	return CompletionDone, "HEAD is " + ev.State
}
