package supervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// readHead reads the commit at HEAD and what it says. A commit that can be read
// in two ways is no event; the observation rule then ends it.
func (t *Task) readHead(ctx context.Context, c *cycle, oid git.OID) (kernel.HeadFacts, error) {
	if oid.IsZero() {
		return kernel.HeadFacts{Trust: kernel.TrustNone}, nil
	}
	h := kernel.HeadFacts{OID: string(oid), Trust: kernel.TrustNone}
	commit, err := t.s.deps.Repo.Commit(ctx, oid)
	if err != nil && git.CodeOf(err) != string(kernel.CodeCommitAmbiguous) {
		return h, err
	}
	ambiguous := err != nil
	c.head = commit
	h.Trust, h.Signer = t.s.trust(commit, c.intake.runners)
	ev, err := lease.ReadEvent(lease.Head{
		OID: string(oid), Message: commit.Message,
		CommitterSeconds: commit.Committer.Seconds, CommitterOK: commit.Committer.OK && !ambiguous,
	})
	if err != nil {
		h.Fault = strings.ToValidUTF8(faultWords(err), "?")
		return h, nil
	}
	c.event = ev
	h.State, h.RunID, h.RunnerID, h.OriginState = ev.State, ev.RunID, ev.RunnerID, ev.OriginState
	readTrailers(&h, ev)
	t.boundTrailers(c, &h)
	t.judgeLease(c, &h)
	return h, t.readOver(ctx, commit, &h)
}

// boundTrailers limits what trailers can do. A due time lies within the largest
// back-off from its commit, whatever a clock said, and that of an untrusted
// writer counts for nothing: he could freeze a task. Counts are taken from
// anybody, for a lease that changes hands must not reset them, but only up to
// the budgets.
func (t *Task) boundTrailers(c *cycle, h *kernel.HeadFacts) {
	b := c.intake.Budgets
	if !h.Trust.Trusted() {
		h.NotBefore = 0
		h.Attempt, h.Interruptions = min(h.Attempt, b.Attempts), min(h.Interruptions, b.Interruptions)
		return
	}
	const rounding = 1000 // trailers are whole seconds, rounded up
	h.NotBefore = min(h.NotBefore, c.event.CommitterSeconds*1000+b.RetryBackoffMaxMs+rounding)
}

// readOver looks below an untrusted lease: laid over the end of a task, or over
// a wait, it opens nothing again.
func (t *Task) readOver(ctx context.Context, commit git.Commit, h *kernel.HeadFacts) error {
	if h.State != kernel.HeadWorking || h.Trust.Trusted() || !h.LeaseExpired || len(commit.Parents) == 0 {
		return nil
	}
	below, err := t.s.deps.Repo.Commit(ctx, commit.Parents[0])
	if err != nil {
		return err
	}
	ev, err := lease.ReadEvent(lease.Head{OID: string(below.OID), Message: below.Message, CommitterSeconds: below.Committer.Seconds, CommitterOK: below.Committer.OK})
	if err != nil {
		return nil //nolint:nilerr // no event below: nothing that could be opened again
	}
	switch kernel.TaskState(ev.State) {
	case kernel.TaskCompleted, kernel.TaskBlocked, kernel.TaskWaiting:
		h.Over = ev.State
	}
	return nil
}

// trust says whose commit it is. Besides our own key those count that the
// operator or the contract lists.
func (s *Supervisor) trust(commit git.Commit, runners []ssh.PublicKey) (kernel.Trust, string) {
	own := s.deps.Signer.PublicKey()
	signer, err := commit.Verify(slices.Concat(s.cfg.Trusted, runners, []ssh.PublicKey{own}))
	switch {
	case err == nil && signer == git.Fingerprint(own):
		return kernel.TrustOwn, signer
	case err == nil:
		return kernel.TrustListed, signer
	case signer != "":
		return kernel.TrustUnlisted, signer
	}
	return kernel.TrustNone, ""
}

// judgeLease asks lease arithmetic about a lease that isn't our live run's.
func (t *Task) judgeLease(c *cycle, h *kernel.HeadFacts) {
	if h.State != kernel.HeadWorking || (t.run != nil && h.OID == string(t.run.head)) {
		return
	}
	var prev *lease.Observation
	if o, ok := t.s.deps.Observations.Load(t.StateRef()); ok {
		prev = &o
	}
	obs := lease.Observe(prev, t.StateRef(), h.OID, c.clock)
	if err := t.s.deps.Observations.Save(obs); err != nil {
		// Without the kept observation a takeover only comes later.
		t.log().Warn("observation not kept", "error", err)
	}
	h.Predecessor = t.run == nil && h.Trust == kernel.TrustOwn && h.RunnerID == t.s.cfg.RunnerID
	v := lease.Judge(c.event, obs, c.clock, t.s.cfg.Lease, h.Predecessor)
	h.LeaseExpired, h.LeaseUntil, h.LeaseReason = v.Expired, v.UntilWallMs, string(v.Reason)
}

// readTrailers takes Writ's own trailers. Numbers that can't be read count as
// zero; a trailer only ever restricts what may be done.
func readTrailers(h *kernel.HeadFacts, ev lease.Event) {
	get := func(key string) string {
		for _, tr := range ev.Extra() {
			if tr.Key == key {
				return tr.Value
			}
		}
		return ""
	}
	number := func(key string) int64 {
		n, err := strconv.ParseInt(get(key), 10, 64)
		if err != nil || n < 0 || n > maxTrailerNumber {
			return 0
		}
		return n
	}
	if id := get(kernel.TrailerAct); len(id) <= maxActBytes && kernel.NewerAct(id, "") {
		h.Act = id
	}
	if run := cmp.Or(get(kernel.TrailerRun), ev.StalledRun); ev.RunID == "" && lease.ValidRunID(run) {
		h.LastRun = run
	}
	if d, err := canon.ParseDigest(get(kernel.TrailerApproval)); err == nil {
		h.Approval = d
	}
	h.Attempt, h.Interruptions = number(kernel.TrailerAttempt), number(kernel.TrailerInterruptions)
	h.NotBefore = number(kernel.TrailerNotBefore) * 1000
	switch w := get(kernel.TrailerWaitingFor); w {
	case kernel.WaitMerge, kernel.WaitPlan, kernel.WaitApproval, kernel.WaitBudget, kernel.WaitPause, kernel.WaitRepair:
		h.WaitingFor = w
	}
}

// maxTrailerNumber bounds numbers in trailers: beyond any count or date, and
// small enough to be multiplied by a thousand.
const maxTrailerNumber = 253402300799

// maxActBytes bounds the id of an act.
const maxActBytes = 128

func faultWords(err error) string {
	var le *lease.Error
	if errors.As(err, &le) {
		return le.Detail + " (" + le.Fault.String() + ")"
	}
	return strings.TrimSpace(err.Error())
}
