package kerneltest

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/kernel"
)

// Rules are the budgets of the task that the oracle watches.
type Rules struct{ Attempts, Interruptions int64 }

// Step is one move of a state ref as the oracle sees it. Between is the event
// that a claim may put between HEAD and its lease, if it does.
type Step struct {
	Effect         kernel.Action
	Old, New       Head
	Between        *Head
	Resumed, Human bool // a person moved on from Old; a person made the move
}

// Judge is a dumb second opinion on what may follow what at a state ref, and on
// what counts. It knows trailers only and shares no code with the decision. It
// returns "" or what is wrong.
func (r Rules) Judge(s Step) string {
	if s.Human {
		return ""
	}
	old, now := s.Old, s.New
	switch s.Effect {
	case kernel.ActionClaim:
		return r.claim(s)
	case kernel.ActionTakeOver, kernel.ActionRelease:
		return all(
			is(old.State, "working", "only a lease is broken or given back"), is(now.State, "stalled", "a broken lease is stalled"),
			is(now.Stalled, old.Run, "stalled names the run it breaks"), is(now.Attempt, old.Attempt, "an interruption is no attempt"),
			is(now.Interruptions, old.Interruptions+1, "it counts one interruption"), is(now.Approval, old.Approval, "the approval stays"))
	case kernel.ActionHeartbeat:
		return all(
			is(old.State, "working", "only a lease is renewed"), is(now.State, "working", "a heartbeat is a lease"),
			is(now.Run, old.Run, "of the same run"), is(now.Runner, old.Runner, "by the same runner"), is(now.Tree, old.Tree, "with the same tree"),
			is(now.Attempt, old.Attempt, "attempt"), is(now.Interruptions, old.Interruptions, "interruptions"), is(now.Approval, old.Approval, "approval"))
	case kernel.ActionResult:
		return r.result(old, now)
	case kernel.ActionWait:
		return all(is(now.State, "waiting", "who waits says so"), is(now.Attempt, old.Attempt, "waiting is no attempt"),
			is(now.Interruptions, old.Interruptions, "waiting is no interruption"))
	}
	return fmt.Sprintf("%s moves no ref", s.Effect)
}

func (r Rules) claim(s Step) string {
	old, now := s.Old, s.New
	attempt, interruptions := max(old.Attempt, 1), old.Interruptions
	switch {
	case s.Between != nil && old.State != "waiting":
		attempt, interruptions = 1, 0 // a new approval, or a person who moves on
	case old.State == "retry_pending":
		attempt++
	}
	wrong := all(is(now.State, "working", "a claim is a lease"), is(now.Attempt, attempt, "attempt of the claim"),
		is(now.Interruptions, interruptions, "interruptions of the claim"))
	if wrong != "" {
		return wrong
	}
	// A person begins anew what waits or is blocked; that is an event of its own.
	anew := s.Between != nil && (old.State == "waiting" || old.State == "blocked")
	free := old.OID == "" || s.Resumed || old.State == "open" || old.State == "stalled" || old.State == "retry_pending" || anew
	switch {
	case !free:
		return fmt.Sprintf("claimed over %q", old.State)
	case now.Attempt > r.Attempts:
		return fmt.Sprintf("attempt %d of %d", now.Attempt, r.Attempts)
	case s.Between != nil && s.Between.State != "open":
		return fmt.Sprintf("the event is %q", s.Between.State)
	case s.Between == nil && old.Approval != now.Approval:
		return "a new approval needs an event of its own"
	}
	return ""
}

func (r Rules) result(old, now Head) string {
	wrong := all(is(now.Attempt, old.Attempt, "a result doesn't change the attempt"), is(now.Interruptions, old.Interruptions, "nor interruptions"))
	if wrong != "" {
		return wrong
	}
	refused := strings.Contains(now.Codes, string(kernel.CodePushRefused))
	switch {
	case old.State == "working" && now.State == "completed":
		return is(now.Change != "", true, "a completed task names its change")
	case old.State == "working" && now.State == "retry_pending":
		return is(now.Attempt < r.Attempts, true, "the last attempt blocks")
	case old.State == "working" && now.State == "blocked":
		return is(now.Attempt == r.Attempts || refused, true, "blocked before the last attempt")
	case old.State == "stalled" && now.State == "blocked":
		return is(old.Interruptions > r.Interruptions, true, "blocked with interruptions left")
	case old.State == "retry_pending" && now.State == "blocked":
		return is(old.Attempt >= r.Attempts, true, "blocked with attempts left")
	}
	return fmt.Sprintf("%q can't follow %q", now.State, old.State)
}

func is[T comparable](got, want T, what string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: %v, want %v", what, got, want)
}

func all(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
