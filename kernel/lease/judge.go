package lease

import (
	"math"
	"slices"
)

// Reason says why a [Verdict] is as it is. The words are stable.
type Reason string

// The reasons for which a lease may be taken over.
const (
	// ReasonOwnPredecessor: the lease is of this instance's own dead run.
	ReasonOwnPredecessor Reason = "own_predecessor"
	// ReasonExpired: the date has passed and HEAD was seen unchanged.
	ReasonExpired Reason = "expired"
	// ReasonExpiredUnchanged: malformed, and HEAD was seen unchanged.
	ReasonExpiredUnchanged Reason = "expired_unchanged"
)

// The reasons for which nothing is taken over.
const (
	// ReasonNotWorking: there is no lease at HEAD.
	ReasonNotWorking Reason = "not_working"
	// ReasonDate: committer date, lease and grace lie ahead.
	ReasonDate Reason = "date"
	// ReasonUnobserved: the date has passed, but this instance hasn't seen HEAD
	// unchanged for the lease time.
	ReasonUnobserved Reason = "unobserved"
	// ReasonMalformed: malformed, and not seen unchanged for long enough.
	ReasonMalformed Reason = "malformed"
	// ReasonPolicyInvalid: the policy doesn't validate, so nothing is taken over.
	ReasonPolicyInvalid Reason = "policy_invalid"
)

// Verdict is what [Judge] makes of a HEAD.
type Verdict struct {
	MayTakeOver bool // the lease may be broken by compare-and-swap onto this HEAD
	Reason      Reason
	// UntilWallMs is, for a lease that is held, the best estimate of when it
	// may be taken over if its holder stays silent, in Unix milliseconds of
	// this runner's clock. 0 otherwise, and where the policy is invalid.
	UntilWallMs int64
	// LeaseSeconds is the lease time that was applied, after cap and default.
	LeaseSeconds int64
	// Faults are why the lease is malformed, a date in the far future included.
	Faults []Fault
}

// Judge decides whether the lease at HEAD may be taken over (seed 000,
// §5). ev is HEAD and obs what [Observe] returned for it. Two things must hold,
// in two clock domains, since the committer date is chosen by whoever
// commits and this machine's wall clock may be wrong:
//
//	now > committer date + lease seconds + grace   (wall clock, whole seconds)
//	HEAD seen unchanged for lease seconds          (boot clock, obs)
//
// Lease seconds are capped by the policy. A malformed lease, or one dated
// further ahead than the skew, falls under the second rule alone, with the
// default lease time or its own readable one, whichever is longer: a runner
// whose clock is slow sees every honest lease in the future and may not take it
// early. own is the caller's proof, by an exclusive lock, that the lease is its
// own dead predecessor's: such a lease ends at once.
func Judge(ev Event, obs Sighting, now Clock, pol Policy, own bool) Verdict {
	switch {
	case ev.State != StateWorking:
		return Verdict{Reason: ReasonNotWorking}
	case own:
		return Verdict{MayTakeOver: true, Reason: ReasonOwnPredecessor}
	case pol.Validate() != nil:
		return Verdict{Reason: ReasonPolicyInvalid}
	}
	nowSeconds := floorSeconds(now.WallMs)
	v := Verdict{Faults: slices.Clone(ev.Faults), LeaseSeconds: min(ev.LeaseSeconds, pol.MaxLeaseSeconds)}
	if ev.CommitterSeconds > addCapped(nowSeconds, pol.FutureSkewSeconds) {
		v.Faults = append(v.Faults, Fault{FaultFarFuture, SubjectCommitterDate})
	}
	malformed := len(v.Faults) > 0
	if malformed || v.LeaseSeconds < 1 {
		v.LeaseSeconds = max(v.LeaseSeconds, pol.DefaultLeaseSeconds)
	}

	unseenMs := v.LeaseSeconds*msPerSecond - max(0, obs.unchangedMs(ev.OID, now))
	seen := unseenMs <= 0
	deadline := addCapped(addCapped(ev.CommitterSeconds, v.LeaseSeconds), pol.GraceSeconds)
	passed := nowSeconds > deadline

	switch {
	case malformed && seen:
		v.MayTakeOver, v.Reason = true, ReasonExpiredUnchanged
	case malformed:
		v.Reason, v.UntilWallMs = ReasonMalformed, addCapped(now.WallMs, unseenMs)
	case seen && passed:
		v.MayTakeOver, v.Reason = true, ReasonExpired
	case passed:
		v.Reason, v.UntilWallMs = ReasonUnobserved, addCapped(now.WallMs, unseenMs)
	default:
		v.Reason = ReasonDate
		v.UntilWallMs = max(secondsToMs(addCapped(deadline, 1)), addCapped(now.WallMs, max(0, unseenMs)))
	}
	return v
}

// addCapped adds b, which isn't negative, without overflow: a sum beyond the
// range is its end.
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func secondsToMs(s int64) int64 {
	if s > math.MaxInt64/msPerSecond {
		return math.MaxInt64
	}
	return s * msPerSecond
}
