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
	Foreign        bool // Old was made for another place: it is a parent only
	// Outage says that the server was unable to renew a lease: what ends over that
	// isn't counted.
	Outage bool
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
			interrupted(s), is(now.Approval, old.Approval, "the approval stays"), sealedLate(s))
	case kernel.ActionHeartbeat:
		return all(
			is(old.State, "working", "only a lease is renewed"), is(now.State, "working", "a heartbeat is a lease"),
			is(now.Run, old.Run, "of the same run"), is(now.Runner, old.Runner, "by the same runner"), is(now.Tree, old.Tree, "with the same tree"),
			is(now.Attempt, old.Attempt, "attempt"), is(now.Interruptions, old.Interruptions, "interruptions"), is(now.Approval, old.Approval, "approval"))
	case kernel.ActionSeal:
		return all(
			is(old.State, "working", "only under a lease is work sealed"), is(now.State, "working", "sealing is a heartbeat"),
			is(now.Run, old.Run, "of the same run"), is(now.Runner, old.Runner, "by the same runner"), is(now.Tree != old.Tree, true, "with the work in its tree"),
			is(now.Attempt, old.Attempt, "attempt"), is(now.Interruptions, old.Interruptions, "interruptions"), is(now.Approval, old.Approval, "approval"))
	case kernel.ActionResult:
		return r.result(old, now)
	case kernel.ActionComplete:
		return all(
			is(old.State+" "+old.Waiting, "waiting merge", "only a result that waits for its merge is completed by it"),
			is(now.State+" "+now.Waiting, "completed ", "who is merged is completed"), is(now.Change, old.Change, "the change stays"),
			is(now.Approval, old.Approval, "the approval stays"), is(now.Attempt, old.Attempt, "a merge is no attempt"),
			is(now.Interruptions, old.Interruptions, "nor an interruption"))
	case kernel.ActionRestore:
		counts := now.Cut - old.Cut
		return all(
			is(old.State, "working", "only over a lease is a result put back"), is(old.Refreshes+old.Fixes != "", true, "of a run that was to replace it"),
			is(now.Run == "" && now.Change != "", true, "what is put back is a result"), is(accepted(now), true, "that was accepted"),
			is(now.Approval, old.Approval, "the approval stays"), is(now.Attempt, old.Attempt, "it is no attempt"),
			is(now.Interruptions, old.Interruptions, "the result bears no interruption of such a run"),
			is(now.Cut == 0 || counts == 0 || counts == 1, true, "an interruption counts one at most"), sealedLate(s))
	case kernel.ActionWait:
		if now.Waiting == "rule" {
			return r.awaitRule(old, now)
		}
		return all(is(now.State, "waiting", "who waits says so"), is(now.Attempt, old.Attempt, "waiting is no attempt"),
			is(now.Interruptions, old.Interruptions, "waiting is no interruption"))
	}
	return fmt.Sprintf("%s moves no ref", s.Effect)
}

// interrupted: who breaks a lease or gives it back counts one interruption, but for a
// person's halt, which counts nothing, and a server that was unable.
func interrupted(s Step) string {
	counts := s.New.Interruptions - s.Old.Interruptions
	switch {
	case strings.Contains(s.New.Codes, string(kernel.CodeTaskHalted)):
		return is(counts, 0, "a halt is no interruption")
	case counts == 0 && s.Outage && s.Effect == kernel.ActionTakeOver:
		return ""
	}
	return is(counts, 1, "it counts one interruption")
}

// sealedLate: between a lease and the word that it is broken, or the result that is put back
// over it, stands at most its own renewal, with the work in its tree.
func sealedLate(s Step) string {
	b := s.Between
	ends := b != nil && (s.Effect == kernel.ActionTakeOver && b.Tree == s.New.Tree || s.Effect == kernel.ActionRestore && b.Fix == s.Old.Fix && b.Fix != "")
	if b == nil || ends && b.State == "working" && b.Run == s.Old.Run && b.Runner == s.Old.Runner &&
		b.Tree != s.Old.Tree && b.Attempt == s.Old.Attempt && b.Interruptions == s.Old.Interruptions {
		return ""
	}
	return fmt.Sprintf("%q of run %s stands between a lease and its end", b.State, b.Run)
}

// awaitRule: the wait for a rule adds nothing but itself. Of a claim it says what that
// would have been counted as, or where a person began the task anew, nothing.
func (r Rules) awaitRule(old, now Head) string {
	begins := now.Approval == "" || old.State == "retry_pending" && now.Attempt == old.Attempt+1
	return all(is(now.State, "waiting", "who waits says so"), is(now.Change, "", "nothing is delivered"),
		is(old.OID == "" || now.Tree == old.Tree, true, "the wait has the tree of HEAD"), is(now.Interruptions == old.Interruptions || now.Approval == "", true, "waiting is no interruption"),
		is(begins || now.Attempt == old.Attempt || old.Attempt == 0 && now.Attempt == 1, true, "waiting is no attempt"))
}

// accepted reports whether a HEAD is accepted work.
func accepted(h Head) bool {
	return h.State == "completed" || h.State == "waiting" && h.Waiting == "merge"
}

func (r Rules) claim(s Step) string {
	old, now := s.Old, s.New
	if now.Refreshes != "" { // delivered work, on another base
		return all(
			is(now.State, "working", "a claim is a lease"), is(accepted(old), true, "only accepted work is applied on another base"),
			is(s.Between == nil, true, "nobody begins anew"), is(now.Attempt, old.Attempt, "it is no attempt"),
			is(now.Interruptions, old.Interruptions, "nor an interruption"), is(now.Approval, old.Approval, "the approval stays"),
			is(now.Base != old.Base, true, "on another base"))
	}
	if now.Fixes != "" { // a revision of delivered work
		return all(
			is(now.State, "working", "a claim is a lease"), is(accepted(old), true, "only over accepted work is there a revision"),
			is(s.Between == nil, true, "nobody begins anew"), is(now.Attempt, old.Attempt, "it is no attempt"),
			is(now.Interruptions, old.Interruptions, "nor an interruption"), is(now.Approval, old.Approval, "the text's approval stays"),
			is(now.Base, old.Change, "on the delivered commit"), is(now.Fix != "" && now.Fix != old.Fix, true, "with a list of its own"),
			is(now.Resumes == "" || now.RefreshAct == old.RefreshAct, true, "with a builder of its own, unless the very act was cut off"))
	}
	attempt, interruptions := max(old.Attempt, 1), old.Interruptions
	rule := old.State == "waiting" && old.Waiting == "rule"
	if rule && now.Interruptions == interruptions+1 && s.Between == nil {
		interruptions++ // who had the work has lost it
	}
	switch {
	case rule && old.Approval == "":
		attempt, interruptions = 1, 0
	case s.Between != nil && (old.State != "waiting" || old.Waiting == "merge"):
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
	free := old.OID == "" || rule || s.Foreign || s.Resumed || old.State == "open" || old.State == "stalled" || old.State == "retry_pending" || anew
	switch {
	case !free:
		return fmt.Sprintf("claimed over %q", old.State)
	case now.Attempt > r.Attempts:
		return fmt.Sprintf("attempt %d of %d", now.Attempt, r.Attempts)
	case s.Between != nil && s.Between.State != "open":
		return fmt.Sprintf("the event is %q", s.Between.State)
	case now.Resumes != "" && (old.State != "stalled" && !rule || s.Between != nil):
		return fmt.Sprintf("sealed work is gone on with over %q", old.State)
	case s.Between == nil && old.Approval != now.Approval:
		return "a new approval needs an event of its own"
	}
	return ""
}

func (r Rules) result(old, now Head) string {
	if old.State == "waiting" && old.Waiting == "rule" {
		old.State = "working" // a result that a rule refused is pushed onto the wait
	}
	wrong := all(is(now.Attempt, old.Attempt, "a result doesn't change the attempt"), is(now.Interruptions, old.Interruptions, "nor interruptions"))
	if wrong != "" {
		return wrong
	}
	refused := strings.Contains(now.Codes, string(kernel.CodePushRefused))
	switch {
	case old.State == "working" && (now.State == "completed" || now.State == "waiting" && now.Waiting == "merge"):
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
