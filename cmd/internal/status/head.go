package status

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// seenPlace is a repository, as the world of which a ledger tells.
type seenPlace struct {
	repo     *git.Repo
	world    string
	standing worldref.Standing // who counts
	lease    lease.Policy
}

// head reads HEAD as far as [headFault] goes by it.
func (at seenPlace) head(ctx context.Context, oid git.OID, ref string, v kernel.TaskView) (kernel.HeadFacts, git.Commit, error) {
	h, c, err := at.commit(ctx, oid, ref, v)
	if err == nil {
		h.Witnessed, err = supervisor.Witnessed(ctx, at.repo, at.standing.Witnessed(ref), h, v)
	}
	return h, c, err
}

func (at seenPlace) commit(ctx context.Context, oid git.OID, ref string, v kernel.TaskView) (kernel.HeadFacts, git.Commit, error) {
	if oid.IsZero() {
		return kernel.HeadFacts{Trust: kernel.TrustNone}, git.Commit{}, nil
	}
	h, c, err := at.read(ctx, oid, ref, v)
	if err != nil {
		return h, c, err
	}
	if h.Told = v.Told; h.Seq >= v.Told {
		h.Told = 0
	}
	if h.Trusted() && h.Seq == v.SeenSeq+1 || h.UnlistedLock() && (h.State == kernel.HeadStalled || h.LeaseExpired) {
		below := at.below(ctx, c, ref, v)
		h.Parent = below.OID
		switch kernel.TaskState(below.State) {
		case kernel.TaskCompleted, kernel.TaskBlocked, kernel.TaskWaiting:
			h.Over = below.State
		}
	}
	return h, c, nil
}

// maxUnlisted bounds the commits of unlisted writers below HEAD that are looked through,
// as the server does.
const maxUnlisted = 256

// below is the first commit below HEAD that is trusted and bound here.
func (at seenPlace) below(ctx context.Context, c git.Commit, ref string, v kernel.TaskView) kernel.HeadFacts {
	for range maxUnlisted {
		if len(c.Parents) == 0 {
			break
		}
		h, parent, err := at.read(ctx, c.Parents[0], ref, v)
		if err != nil {
			break
		}
		if h.Trusted() || h.OID == v.Seen {
			return h
		}
		c = parent
	}
	return kernel.HeadFacts{}
}

// read reads a commit of a state ref: what it says, whose it is, and where it belongs.
func (at seenPlace) read(ctx context.Context, oid git.OID, ref string, v kernel.TaskView) (kernel.HeadFacts, git.Commit, error) {
	h := kernel.HeadFacts{OID: string(oid), Trust: kernel.TrustNone, Binding: kernel.BindNone}
	c, err := at.repo.Commit(ctx, oid)
	if errors.Is(err, git.ErrWrongType) { // a blob or a tag: no event
		h.Fault = git.Reason(err)
		return h, c, nil
	}
	if err != nil && git.CodeOf(err) != git.CodeCommitAmbiguous {
		return h, c, err
	}
	if signer, err := c.Verify(nil); err == nil || git.CodeOf(err) == git.CodeUntrusted {
		h.Signer, h.Trust = signer, kernel.TrustUnlisted
	}
	if at.standing.Signs(h.Signer, ref, h.OID) {
		h.Trust = kernel.TrustListed
	}
	ev, err := eventOf(c)
	if err != nil {
		h.Fault = err.Error()
		if fault, ok := errors.AsType[*lease.Error](err); ok {
			h.Fault = fault.Detail
		}
		return h, c, nil
	}
	if s, err := kernel.ReadStamp(ev.Trailers); err == nil {
		h.Seq, h.Named, h.Binding = s.Seq, s.String(), s.Binding(kernel.Stamp{World: at.worldOf(s, oid), Ref: ref, Task: v.Task, Issue: at.issueOf(ctx, s, v)})
	}
	if h.Foreign() {
		return h, c, nil
	}
	h.State = ev.State
	h.LeaseExpired = ev.State == kernel.HeadWorking && leaseEnd(ev, at.lease) < time.Now().Unix()
	return h, c, nil
}

// worldOf is the world that a commit has to name here. One whose identity isn't known is
// whichever the commit says.
func (at seenPlace) worldOf(s kernel.Stamp, oid git.OID) string {
	if !strings.Contains(at.world, "#") || at.standing.Bound(s.World, s.Ref, string(oid)) {
		return s.World
	}
	return at.world
}

// issueOf is the issue that a commit has to name here: that of the commit that was seen
// last, as far as that can be read.
func (at seenPlace) issueOf(ctx context.Context, s kernel.Stamp, v kernel.TaskView) string {
	if v.Seen == "" || s.World != at.world {
		return s.Issue
	}
	seen, err := at.repo.Commit(ctx, git.OID(v.Seen))
	if err != nil {
		return s.Issue
	}
	was, err := kernel.ReadStamp(lease.Parse(seen.Message).Trailers)
	if err != nil || was.World != s.World {
		return s.Issue
	}
	return was.Issue
}

// eventOf reads a commit as a state event.
func eventOf(c git.Commit) (lease.Event, error) {
	return lease.ReadEvent(lease.Head{
		OID: string(c.OID), Message: c.Message, CommitterSeconds: c.Committer.Seconds,
		CommitterOK: c.Committer.OK && len(c.Ambiguous) == 0,
	})
}

// leaseEnd is when a lease ends unless it is renewed, in Unix seconds.
func leaseEnd(ev lease.Event, pol lease.Policy) int64 {
	return ev.CommitterSeconds + min(max(ev.LeaseSeconds, 0), pol.MaxLeaseSeconds) + pol.GraceSeconds
}
