package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// effect is a prepared effect: its intent, the records that must come before
// it, and what to do. Preparing composes bytes and touches nothing outside.
type effect struct {
	intent kernel.Intent
	drafts []kernel.Draft
	run    string // of a claim: the run that it begins
	do     func(context.Context) kernel.Outcome
	push   *push // that it consists of, nil for none
}

// prepare composes the effect of a decision.
func (t *Task) prepare(ctx context.Context, c *cycle) (*effect, error) {
	if c.decision.Action.OnForge() {
		return t.prepareIssue(c), nil
	}
	return t.worker.prepareRun(ctx, c)
}

// plain writes the zero id as "".
func plain(oid git.OID) string {
	if oid.IsZero() {
		return ""
	}
	return string(oid)
}

// nextDate is the committer date of the commit that follows HEAD: now, and
// never earlier than what it follows (conformance A28).
func (c *observation) nextDate() int64 {
	return lease.NextCommitterSeconds(c.event.CommitterSeconds, c.clock.WallMs)
}

// stateTree is the tree of the task's state, empty where there is none. That of an unlisted writer's lease is
// none: what lies there would reach a builder under our signature.
func (c *observation) stateTree(objs *git.Objects) (git.OID, error) {
	switch {
	case c.facts.Head.OID == "", c.facts.Head.Foreign():
	case !c.facts.Head.UnlistedLock():
		return c.head.Tree, nil
	case c.below.Tree != "":
		return c.below.Tree, nil
	}
	return objs.Tree(nil)
}

// prepareIssue composes one effect on the issue. HEAD, and where the world's acts are, is read
// once more right before it: forge writes have no compare-and-swap, and what slips
// through all the same is put right by a later look. The next one of the pass goes by
// what is read here.
func (t *Task) prepareIssue(c *cycle) *effect {
	e, a := *c.decision.Issue, c.decision.Action
	target := ""
	if e.Target != 0 {
		target = decimal(e.Target)
	}
	key := strings.Join([]string{string(a), target + e.Label, c.id}, ":")
	outcome := func(s kernel.OutcomeStatus, code kernel.Code, detail string) kernel.Outcome {
		return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: a, Status: s, Code: code, Detail: detail}
	}
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: a, Digest: e.Digest, Ref: e.Label, New: target},
		do: func(ctx context.Context) kernel.Outcome {
			refs, err := t.s.deps.Repo.Refs(ctx, t.observer.lookedAt()...)
			switch {
			case err != nil:
				return outcome(kernel.OutcomeFailed, kernel.CodeForgeUnreachable, "HEAD can't be read: "+words(err))
			case plain(refs.OID(t.StateRef())) != c.facts.Head.OID:
				return outcome(kernel.OutcomeFailed, kernel.CodeLeaseLost, "HEAD moved meanwhile")
			case slices.ContainsFunc(t.s.actsRef(), func(ref string) bool { return refs.OID(ref) != c.refs.OID(ref) }):
				return outcome(kernel.OutcomeFailed, kernel.CodeLeaseLost, "the world's acts moved meanwhile")
			}
			if a == kernel.ActionSee { // once, whatever comes of it: the comment follows
				t.s.locked(func() { t.s.seenActs[t.number] = c.facts.Act })
			}
			c.forgeErr = t.tracker.moveIssue(ctx, c, a, e)
			status, code := forgeSays(c.forgeErr)
			if a == kernel.ActionReview {
				status, code = reviewSays(c.forgeErr)
			}
			if status == kernel.OutcomeDone {
				t.tracker.moved(c, a, e, refs)
			} else {
				t.tracker.kept = nil
			}
			if status == kernel.OutcomeRefused {
				t.tracker.refuseAt(c.facts.Head.OID, e.RefusedAs(a), words(c.forgeErr))
			}
			return outcome(status, code, words(c.forgeErr))
		},
	}
}

// reviewSays is what the start of a review came to. What is wrong with the sandbox,
// the repository or the builder's place is no trouble of the forge.
func reviewSays(err error) (kernel.OutcomeStatus, kernel.Code) {
	var ours *executor.Error
	var fe *forge.Error
	switch code := kernel.Code(git.CodeOf(err)); {
	case err == nil:
		return kernel.OutcomeDone, ""
	case errors.As(err, &ours):
		return kernel.OutcomeFailed, ours.Code
	case errors.As(err, &fe):
		return forgeSays(err)
	case code == "":
		return kernel.OutcomeFailed, kernel.CodeMachineEffect
	case code.Known():
		return kernel.OutcomeFailed, code
	}
	return kernel.OutcomeFailed, kernel.CodeEnvRepository
}
