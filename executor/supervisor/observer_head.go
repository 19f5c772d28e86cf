package supervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/world"
)

// readHead reads the commit at HEAD and what it says. A commit that can be read
// in two ways is no event; the observation rule then ends it. Of a commit that was
// made for another place nothing is read but that.
func (o *observer) readHead(ctx context.Context, c *observation, oid git.OID) (kernel.HeadFacts, error) {
	h, err := o.readCommit(ctx, c, oid)
	if err == nil {
		h.Witnessed, err = o.witnessed(ctx, c, h)
	}
	if err == nil {
		err = o.readRefreshed(ctx, c, &h)
	}
	if err == nil {
		err = o.readOrigin(ctx, c, h)
	}
	if err == nil && h.RefreshOwed && h.RefreshWaits == "" && len(c.head.Parents) == 1 {
		if work, err := sealedAt(ctx, o.s.deps.Repo, c.head.Parents[0]); err != nil {
			return h, err
		} else if len(work.Diff.Guarded) > 0 {
			h.RefreshWaits = kernel.WaitPaths // a revision that was cut off before anybody was asked
		}
	}
	return h, err
}

// witnessed is [Witnessed] of a task that nothing runs of here.
func (o *observer) witnessed(ctx context.Context, c *observation, h kernel.HeadFacts) (*kernel.WitnessedFacts, error) {
	if o.worker.run != nil {
		return nil, nil
	}
	return Witnessed(ctx, o.s.deps.Repo, o.s.standing(c.intake.runners).Witnessed(o.StateRef()), h, c.facts.View)
}

// Witnessed is the state commit that an act names where HEAD lacks it, and nothing was seen
// of the task here: what was seen says more.
func Witnessed(ctx context.Context, repo Repo, named string, h kernel.HeadFacts, v kernel.TaskView) (*kernel.WitnessedFacts, error) {
	if v.Seen != "" || v.Unshown != "" || named == "" || named == h.OID {
		return nil, nil
	}
	if h.OID != "" {
		below, more, err := repo.Log(ctx, []git.OID{git.OID(h.OID)}, nil, maxTold)
		switch code := git.CodeOf(err); {
		case errors.Is(err, git.ErrWrongType), code == git.CodeObjectMissing, code == git.CodeObjectInvalid, code == git.CodeCommitAmbiguous: // nobody's state
		case err != nil:
			return nil, err
		case len(more) > 0, slices.ContainsFunc(below, func(k git.Commit) bool { return string(k.OID) == named }):
			return nil, nil
		}
	}
	w := &kernel.WitnessedFacts{OID: named}
	was, err := repo.Commit(ctx, git.OID(named))
	if code := git.CodeOf(err); code == git.CodeObjectMissing || code == git.CodeObjectInvalid || code == git.CodeCommitAmbiguous {
		return w, nil // it is named all the same
	} else if err != nil {
		return nil, err
	}
	if stamp, err := kernel.ReadStamp(lease.Parse(was.Message).Trailers); err == nil {
		w.Seq = stamp.Seq
	}
	return w, nil
}

// readCommit reads the commit at HEAD.
func (o *observer) readCommit(ctx context.Context, c *observation, oid git.OID) (kernel.HeadFacts, error) {
	if oid.IsZero() {
		return kernel.HeadFacts{Trust: kernel.TrustNone}, nil
	}
	h := kernel.HeadFacts{OID: string(oid), Trust: kernel.TrustNone, Binding: kernel.BindNone}
	commit, err := o.s.deps.Repo.Commit(ctx, oid)
	if errors.Is(err, git.ErrWrongType) { // a blob or a tag: no event, and no parent either
		c.acts = o.s.standing(c.intake.runners)
		h.Fault = git.Reason(err)
		return h, nil
	}
	if err != nil && git.CodeOf(err) != string(kernel.CodeCommitAmbiguous) {
		return h, err
	}
	c.head = commit
	c.acts = o.s.standing(c.intake.runners)
	h.Trust, h.Signer = o.s.trust(commit, o.StateRef(), c.acts)
	ev, err := eventOf(commit, err != nil)
	if err != nil {
		h.Fault = strings.ToValidUTF8(faultWords(err), "?")
		return h, nil
	}
	if o.bind(&h, ev, c.acts); h.Foreign() {
		c.event.CommitterSeconds = ev.CommitterSeconds
		return h, nil
	}
	c.event = ev
	h.State, h.RunID, h.RunnerID, h.OriginState = ev.State, ev.RunID, ev.RunnerID, ev.OriginState
	o.judgeLease(c, &h)
	if h.UnlistedLock() {
		return h, o.readBelow(ctx, c, commit, &h)
	}
	readTrailers(&h, ev)
	boundTrailers(c.intake.Budgets, o.dated(c, ev.CommitterSeconds, h.OID), &h)
	return h, o.readParent(ctx, c, commit, &h)
}

// eventOf reads a commit as a state event.
func eventOf(c git.Commit, ambiguous bool) (lease.Event, error) {
	return lease.ReadEvent(lease.Head{
		OID: string(c.OID), Message: c.Message,
		CommitterSeconds: c.Committer.Seconds, CommitterOK: c.Committer.OK && !ambiguous,
	})
}

// boundTrailers limits what trailers can do. A due time lies within the largest
// back-off from its commit (see [subject.dated]), whatever a clock said, and that of an untrusted
// writer counts for nothing: he could freeze a task.
func boundTrailers(b kernel.Budgets, committedMs int64, h *kernel.HeadFacts) {
	if !h.Trusted() {
		h.NotBefore = 0
		h.Attempt, h.Interruptions = min(h.Attempt, b.Attempts), min(h.Interruptions, b.Interruptions)
		return
	}
	const rounding = 1000 // trailers are whole seconds, rounded up
	most := b.RetryBackoffMaxMs
	if h.AwaitsRule() {
		most = kernel.RuleLeft
	}
	h.NotBefore = min(h.NotBefore, committedMs+most+rounding)
}

// readParent finds the commit that HEAD was put on, where the numbers leave open
// whether that is the one seen last.
func (o *observer) readParent(ctx context.Context, c *observation, commit git.Commit, h *kernel.HeadFacts) error {
	v := c.facts.View
	if !h.Trusted() || v.Seen == "" || h.OID == v.Seen || h.Seq != v.SeenSeq+1 {
		return nil
	}
	if len(commit.Parents) > 0 && string(commit.Parents[0]) == v.Seen {
		h.Parent = v.Seen // trusted when it was seen, whatever was said of its key since
		return nil
	}
	_, err := o.trustedBelow(ctx, c, commit, h)
	return err
}

// readBelow takes the task's state from below an unlisted writer's lease, which
// opens nothing, ends nothing and counts nothing.
func (o *observer) readBelow(ctx context.Context, c *observation, commit git.Commit, h *kernel.HeadFacts) error {
	if h.State == kernel.HeadWorking && !h.LeaseExpired {
		return nil
	}
	below, err := o.trustedBelow(ctx, c, commit, h)
	if err != nil || h.Parent == "" {
		return err
	}
	ev, err := eventOf(below, false)
	if err != nil {
		return nil //nolint:nilerr // it was an event when it was looked for
	}
	c.below = below
	was := kernel.HeadFacts{Trust: kernel.TrustListed, Binding: kernel.BindHere}
	readTrailers(&was, ev)
	boundTrailers(c.intake.Budgets, o.dated(c, ev.CommitterSeconds, h.OID), &was)
	h.Approval, h.Attempt, h.Interruptions, h.NotBefore, h.Act = was.Approval, was.Attempt, was.Interruptions, was.NotBefore, was.Act
	switch kernel.TaskState(ev.State) {
	case kernel.TaskCompleted, kernel.TaskBlocked, kernel.TaskWaiting:
		h.Over = ev.State
	}
	return nil
}

// maxUnlisted bounds the commits of unlisted writers below HEAD that are looked
// through: three hours of heartbeats. A task with more of them waits for a person.
const maxUnlisted = 256

// trustedBelow is the first commit below HEAD that is trusted and bound here; its id
// is the fact [kernel.HeadFacts.Parent]. None is no error.
func (o *observer) trustedBelow(ctx context.Context, c *observation, commit git.Commit, h *kernel.HeadFacts) (git.Commit, error) {
	for range maxUnlisted {
		if len(commit.Parents) == 0 {
			break
		}
		oid := commit.Parents[0]
		var err error
		if commit, err = o.s.deps.Repo.Commit(ctx, oid); err != nil {
			switch git.CodeOf(err) {
			case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
				err = nil
			}
			return commit, err
		}
		if below, err := eventOf(commit, false); err == nil {
			was := kernel.HeadFacts{OID: string(oid)}
			was.Trust, _ = o.s.trust(commit, o.StateRef(), c.acts)
			if o.bind(&was, below, c.acts); was.Trusted() {
				h.Parent = string(oid)
				return commit, nil
			}
		}
	}
	return git.Commit{}, nil
}

// observed is since when this installation has seen HEAD where it is.
func (sj *subject) observed(c *observation, head string) lease.Observation {
	var prev *lease.Observation
	if o, ok := sj.s.deps.Observations.Load(sj.StateRef()); ok {
		prev = &o
	}
	obs := lease.Observe(prev, sj.StateRef(), head, c.clock)
	if err := sj.s.deps.Observations.Save(obs); err != nil {
		// Without the kept observation what waits for it only comes later.
		sj.log().Warn("observation not kept", "error", err)
	}
	return obs
}

// dated is the date of HEAD, or of what it stands on, in Unix milliseconds. One that lies
// ahead of our clock says nothing, and would keep everybody waiting until then: HEAD
// counts from when it was first seen here.
func (sj *subject) dated(c *observation, seconds int64, head string) int64 {
	if seconds = max(seconds, 0); seconds <= c.clock.WallMs/1000 {
		return seconds * 1000
	}
	seen := sj.observed(c, head)
	return (c.clock.WallMs - (c.clock.BootMs - seen.FirstSeenBootMs)) / 1000 * 1000
}

// judgeLease asks lease arithmetic about a lease that isn't our live run's.
func (o *observer) judgeLease(c *observation, h *kernel.HeadFacts) {
	if h.State != kernel.HeadWorking || (o.worker.run != nil && h.OID == string(o.worker.run.head)) {
		return
	}
	obs := o.observed(c, h.OID)
	h.Predecessor = o.worker.run == nil && h.Trust == kernel.TrustOwn && h.Trusted() && h.RunnerID == o.s.cfg.RunnerID
	v := lease.Judge(c.event, obs, c.clock, o.s.cfg.Lease, h.Predecessor)
	h.Unrenewed = o.worker.run == nil && o.worker.lapsed != "" && h.OID == string(o.worker.lapsed)
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
	if id := get(kernel.TrailerRefreshAct); len(id) <= maxActBytes && kernel.NewerAct(id, "") {
		h.RefreshAct = id
	}
	h.RefreshInterruptions = number(kernel.TrailerRefreshInterruptions)
	h.RefreshOwed = ev.RunID == "" && h.RefreshAct != "" && get(kernel.TrailerRefreshInterruptions) != ""
	if waits := get(kernel.TrailerRefreshWaits); h.RefreshOwed && waits == kernel.WaitPaths {
		h.RefreshWaits = waits
	}
	if run := get(kernel.TrailerRefreshes); ev.RunID != "" && lease.ValidRunID(run) {
		h.Refreshes = run
	}
	if run := get(kernel.TrailerFixes); ev.RunID != "" && lease.ValidRunID(run) {
		h.Fixes = run
	}
	if d, err := canon.ParseDigest(get(kernel.TrailerFix)); err == nil {
		h.Fix = d
	}
	if run := cmp.Or(get(kernel.TrailerRun), ev.StalledRun); ev.RunID == "" && lease.ValidRunID(run) {
		h.LastRun = run
	}
	if d, err := canon.ParseDigest(get(kernel.TrailerApproval)); err == nil {
		h.Approval = d
	}
	h.Attempt, h.Interruptions = number(kernel.TrailerAttempt), number(kernel.TrailerInterruptions)
	h.NotBefore = number(kernel.TrailerNotBefore) * 1000
	if w := get(kernel.TrailerWaitingFor); slices.Contains(kernel.Waits(), w) {
		h.WaitingFor = w
		h.Kept = h.AwaitsRule() && get(kernel.TrailerBase) != ""
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

// headFacts are HEAD's, with what this installation knows of it.
func (o *observer) headFacts(ctx context.Context, c *observation, oid git.OID) (head kernel.HeadFacts, err error) {
	if head, err = o.readHead(ctx, c, oid); err != nil {
		return head, err
	}
	if err := o.worker.keyOver(c); err != nil {
		return head, err
	}
	if err := o.lackingAct(ctx, c, head); err != nil {
		return head, err
	}
	if err := o.own(c, head, c.facts.View); err != nil {
		return head, err
	}
	if head.Lost, err = o.worker.lost(ctx, c, head); err != nil {
		return head, err
	}
	if head.Lost && o.worker.unseen != nil {
		if head.Owed = o.worker.unseen.owed; o.halted() {
			head.Owed = cmp.Or(head.Owed, &kernel.OwedFacts{Refused: []kernel.Violation{}})
		}
	}
	if o.first == nil {
		o.first = &head.OID
	}
	if o.worker.run == nil && head.Kept && head.Trust == kernel.TrustOwn {
		head.Predecessor = true // who had this ledger before is dead
	}
	return head, nil
}

// onItsWay reports whether a push of an earlier process may still reach the state ref: its
// answer wasn't heard, and HEAD is where it found it.
func (o *observer) onItsWay(head git.OID) bool {
	return slices.ContainsFunc(o.s.world.UnknownIntents(o.number), func(x world.OpenIntent) bool {
		i := x.Intent
		return i.Ref == o.StateRef() && i.New != "" && i.Old == plain(head)
	})
}

// readRetry reads, at the HEAD of a failed or interrupted attempt, what the next
// dispatch ends with.
func (o *observer) readRetry(ctx context.Context, c *observation) error {
	if o.worker.run != nil {
		return nil
	}
	switch c.facts.Head.State {
	case string(kernel.TaskRetryPending), string(kernel.TaskWaiting), kernel.HeadStalled:
	default:
		return nil
	}
	if !c.facts.HeadCounts() {
		return nil // a stranger's words don't reach a builder this way
	}
	pack := replay.Pack{}
	var err error
	for _, name := range []string{replay.FileRetry, replay.FileSeedPack} {
		if pack[name], err = o.readFile(ctx, c.head.Tree, name); err != nil {
			return err
		}
	}
	var r kernel.Retry
	if err := canon.UnmarshalCanonical(replay.PriorRetry(pack), &r); err != nil {
		return nil //nolint:nilerr // a retry without its data is still a retry
	}
	c.retry = &r
	return nil
}
