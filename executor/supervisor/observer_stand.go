package supervisor

import (
	"context"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// stand looks at one task.
func (o *observer) stand(ctx context.Context, in *Intake, oid git.OID) (Stand, error) {
	if oid.IsZero() {
		oid = ""
	}
	st := Stand{Task: o.number, Ref: o.StateRef(), Head: oid}
	c := &observation{clock: o.s.now(), task: o.subject, intake: in}
	if o.s.world != nil {
		c.facts.View = o.s.View(o.number)
		c.facts.View.ResumedHead = "" // who moved on from HEAD vouches for nothing at it
	}
	v := c.facts.View
	st.Seen = git.OID(v.Seen)
	if oid == "" && v.Seen == "" {
		return st, nil
	}
	var err error
	c.facts.Head, err = o.readHead(ctx, c, oid)
	if err != nil && !git.Lasting(err) {
		return st, err
	}
	if err != nil { // what nobody can read is nobody's state, and keeps nothing back
		c.facts.Head.State, c.facts.Head.Trust, c.facts.Head.Fault = "", kernel.TrustNone, faultWords(err)
	}
	h := c.facts.Head
	st.Signer = h.Signer
	if oid != "" {
		st.World, _ = lease.Parse(c.head.Message).Get(kernel.TrailerWorld)
	}
	st.Code, st.Why = o.illegitimate(c)
	st.Known = st.Legitimate() && (h.OID == v.Seen || h.Trust == kernel.TrustOwn)
	if st.Legitimate() {
		if err := o.completes(ctx, c, &st); err != nil {
			return st, err
		}
	}
	said := c.head
	if st.Seen == oid {
		st.SeenSigner = st.Signer
	} else if st.Seen != "" {
		seen, err := o.seenCommit(ctx, st.Seen)
		if err != nil {
			return st, err
		}
		_, st.SeenSigner = o.s.trust(seen, st.Ref, c.acts)
		if !st.Legitimate() {
			said = seen
		}
	}
	st.Approval, _ = lease.Parse(said.Message).Get(kernel.TrailerApproval)
	return st, nil
}

// illegitimate is why HEAD isn't what was seen last, nor legitimately after it.
func (o *observer) illegitimate(c *observation) (kernel.Code, string) {
	f, h := c.facts, c.facts.Head
	if o.s.world != nil {
		if err := o.own(c, h, f.View); err != nil {
			return kernel.CodeLedgerRollback, "HEAD is a commit of this installation's key that its ledger knows nothing of: it is forged, or another copy of the state directory made it, or this one is older."
		}
	}
	if faults := kernel.HeadFaults(f); len(faults) > 0 {
		last := faults[len(faults)-1] // the one that says the most
		return last.Code, last.Detail
	}
	switch {
	case h.Foreign():
		return kernel.CodeStateForeign, "HEAD was made for " + h.Named + "."
	case !h.Trusted():
		return kernel.CodeLeaseUntrusted, "HEAD is of a writer who isn't listed."
	}
	return "", ""
}

// completes finds the result that HEAD completes.
func (o *observer) completes(ctx context.Context, c *observation, st *Stand) error {
	if c.facts.Head.State != string(kernel.TaskCompleted) || len(c.head.Parents) != 1 {
		return nil
	}
	below, err := o.seenCommit(ctx, c.head.Parents[0])
	if err != nil {
		return err
	}
	if waited, _ := lease.Parse(below.Message).Get(kernel.TrailerWaitingFor); waited == kernel.WaitMerge {
		st.Result = below.OID
		_, st.ResultSigner = o.s.trust(below, st.Ref, c.acts)
	}
	return nil
}

// seenCommit is the commit that was seen last; none where the repository has lost it.
func (o *observer) seenCommit(ctx context.Context, oid git.OID) (git.Commit, error) {
	c, err := o.s.deps.Repo.Commit(ctx, oid)
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
		return git.Commit{}, nil
	}
	return c, err
}
