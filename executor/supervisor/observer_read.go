package supervisor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/world"
)

// observation is what a request goes by: everything that was read for it, and what the
// kernel decides on. Who composes an effect only reads it.
type observation struct {
	id      string
	request kernel.Request
	clock   lease.Clock
	task    *subject
	facts   kernel.Facts
	intake  *Intake
	staged  []kernel.Draft // proposals and outcomes that are recorded first
	refs    *readRefs      // that it goes by
	headSeen
	runSeen
	issueSeen
	changeSeen
}

// headSeen is what was read at the state ref and below it.
type headSeen struct {
	head     git.Commit
	event    lease.Event
	acts     worldref.Standing // whose commits count
	below    git.Commit        // the task's state under the lease of an unlisted writer
	inputs   []git.Entry       // the tree of the lease at HEAD
	unpushed map[string][]byte // sealed work of the lease at HEAD that only our store has
	was      *replacedResult   // the result below a lease that is to replace it
	origin   git.OID           // the base that revised work at HEAD was first delivered on, "" of other work
	waited   *awaitedResult    // the result at HEAD, where its change is merged
	retry    *kernel.Retry
	onItsWay bool         // see [kernel.Facts]
	refInWay string       // a ref beside which the state ref, which isn't there, can't be, "" for none
	noBase   *noBaseError // why nobody knows the contract: the issue is only told of that
}

// runSeen is what was read of our own run, and of the work that a claim begins with.
type runSeen struct {
	evidence replay.Evidence // of a run that is judged
	last     *push           // our push that won, where no look had shown it before
	again    bool            // a push was made again, and taken
	answer   *kernel.Outcome // the answer of an own push that was unknown until now
	left     *leftWork       // what an interrupted run has sealed, where it was asked for
	fresh    *freshWork      // delivered work, made again on the base as it is now, where that was asked for
	fix      *revisionWork   // what a revision of delivered work begins with, where that was asked for
}

// issueSeen is what the issue shows, and what it is to say.
type issueSeen struct {
	shown     *kernel.IssueFacts // the issue, where it was read
	unheard   bool               // the issue couldn't be asked before accepted work is pushed
	ended     bool               // the issue tells how the task ended
	text      string             // what the status comment is to say
	pages     string             // where the repository's pages are, "" if that isn't known
	said      replies            // writ's answers to commands, as the issue shows them
	replies   map[int64]wording  // answers that are to be given, by the command's comment
	toldSeq   int64              // the highest number of a state commit that the issue tells of
	toldWait  string             // the act of which the issue tells why its work waits, "" for none
	outdone   map[int64]bool     // commands for which a newer one counts, by their comment
	anewSince string             // the act that took back what was approved anew since, "" for none
}

// changeSeen is what was read of the change and its branch, and what the change is to say.
type changeSeen struct {
	change     git.OID // the commit at the change branch
	inWay      string  // a branch beside which the change branch can't be, "" for none
	stray      git.OID // the commit at the change branch, where a run of this task delivered it and HEAD doesn't tell of it
	changeText string
	changeURL  string      // the change's page
	turnedDown bool        // people turned down the work that HEAD tells of
	check      forge.Check // the check that the change's commit is owed
	reviewed   bool        // what people said of the change was read
}

// observe reads everything that the decision depends on. HEAD is read over git. Without a
// run, issue and contract are read again at every request, so that an edit is seen; with
// one, as [observer.readPinned] says.
func (o *observer) observe(ctx context.Context, req kernel.Request, actor string) (*observation, error) {
	c, err := o.observeOnce(ctx, req, actor)
	if errors.Is(err, errMovedOn) { // once: a server may show another HEAD for ever
		o.tracker.dropRefs()
		c, err = o.observeOnce(ctx, req, actor)
	}
	return c, err
}

// errMovedOn says that HEAD was moved, and the issue told so, while both were read.
var errMovedOn = errors.New("supervisor: HEAD moves while it is read; it is looked at again")

func (o *observer) observeOnce(ctx context.Context, req kernel.Request, actor string) (*observation, error) {
	c := &observation{id: o.s.deps.NewRunID(), request: req, clock: o.s.now(), task: o.subject}
	o.baseWake = 0
	if err := o.worker.settle(ctx, c); err != nil {
		return nil, err
	}
	refs, err := o.look(ctx, c)
	if c.again {
		refs, err = o.look(ctx, c) // what the first look made again shows in the next
	}
	if err != nil {
		return nil, err
	}
	o.s.keepActs(ctx, refs)
	c.change, c.inWay = refs.OID(o.ChangeRef()), inWay(refs, o.ChangeRef())
	if refs.OID(o.StateRef()).IsZero() {
		c.refInWay = inWay(refs, o.StateRef())
	}
	o.s.locked(func() {
		c.onItsWay = o.onItsWay(refs.OID(o.StateRef()))
		o.worker.lookUpUnknown(c, refs.OID(o.StateRef()))
	})
	issue, err := o.readIssue(ctx, c, refs)
	if err != nil {
		return nil, err
	}
	o.tracker.keepRefs(c)
	o.s.locked(func() { c.facts.View = o.view() })
	head, err := o.headFacts(ctx, c, refs.OID(o.StateRef()))
	if err != nil {
		return nil, err
	}
	if c.noBase != nil && head.Trust != kernel.TrustOwn {
		return nil, c.noBase // whose HEAD counts, the contract says
	}
	c.facts = kernel.Facts{
		Kind: string(kernel.KindObservation), Request: req, Actor: actor, View: c.facts.View,
		World: o.s.cfg.World, Task: o.number, Head: head, SameIssue: o.remote,
	}
	if err := o.readTold(ctx, c, issue); err != nil {
		return nil, err
	}
	if err := o.movedSince(ctx, c.facts.Head); err != nil {
		return nil, err
	}
	if err := o.readWork(ctx, c, issue); err != nil {
		return nil, err
	}
	if err := o.tracker.readForge(ctx, c, issue.seen); err != nil {
		return nil, err
	}
	o.s.locked(func() { o.tracker.lookUpForge(c) })
	if err := o.noteSecond(ctx, c); err != nil {
		return nil, err
	}
	return c, o.readRetry(ctx, c)
}

// noteSecond says that another result than the one that this installation delivered is
// accepted under the same approval, and doesn't have that one below: the task was set
// back, and done again by one who couldn't know. What a person moved on from is none.
func (o *observer) noteSecond(ctx context.Context, c *observation) error {
	v, h := c.facts.View, c.facts.Head
	if v.AcceptedRun == "" || h.OID == v.Seen || h.Approval != v.AcceptedApproval || h.Run() == v.AcceptedRun ||
		!c.facts.Delivered() || h.Seq-v.SeenSeq >= kernel.RepairSeqStep {
		return nil
	}
	has, err := o.hasBelow(ctx, h, func(was kernel.HeadFacts) bool {
		return was.LastRun == v.AcceptedRun && (was.State == string(kernel.TaskCompleted) || was.State == string(kernel.TaskWaiting))
	})
	if err == nil && !has {
		o.log().Warn("another result was accepted under the same approval: the task was set back and done again elsewhere", "code", string(kernel.CodeStateRollback),
			"accepted", v.AcceptedRun, "again", h.Run(), "head", h.OID, "remedy", kernel.CodeStateRollback.Info().Remedy)
	}
	return err
}

// movedSince returns [errMovedOn] if the issue tells of a later HEAD because somebody pushed
// it and told of it after HEAD was read: then nobody set the task back.
func (o *observer) movedSince(ctx context.Context, h kernel.HeadFacts) error {
	if h.Told == 0 {
		return nil
	}
	return o.stillAt(ctx, h.OID)
}

// onItsWay reports whether a push of an earlier process may still reach the state ref: its
// answer wasn't heard, and HEAD is where it found it.
func (o *observer) onItsWay(head git.OID) bool {
	return slices.ContainsFunc(o.s.world.UnknownIntents(o.number), func(x world.OpenIntent) bool {
		i := x.Intent
		return i.Ref == o.StateRef() && i.New != "" && i.Old == plain(head)
	})
}

// readIssue reads the contract, then the task's text, and holds one against the
// other.
func (o *observer) readIssue(ctx context.Context, c *observation, refs git.Refs) (Issue, error) {
	if o.worker.run != nil {
		return o.readPinned(ctx, c, refs)
	}
	terms, err := o.readTerms(ctx, refs)
	if noBase, lacks := errors.AsType[*noBaseError](err); lacks && c.request == kernel.RequestTell {
		terms.faults, c.noBase, err = []kernel.Violation{{Code: noBase.err.Code, Detail: noBase.err.Detail}}, noBase, nil
		terms.contract.Trigger = contract.Default().Trigger
	}
	if err != nil {
		return Issue{}, err
	}
	var view kernel.TaskView
	o.s.locked(func() { view = o.view() })
	issue, err := o.tracker.askIssue(ctx, c, Terms{Trigger: terms.contract.Trigger, Prior: view.Act})
	if err != nil {
		return issue, err
	}
	c.intake = o.assess(terms, issue)
	if err := o.limitWorkflows(ctx, c.intake); err != nil {
		return issue, err
	}
	issue.Retry = issue.Retry && c.noBase == nil
	if issue.Asked {
		issue.Policy = append(issue.Policy, o.s.observeOnly(terms.contract)...)
	}
	if len(terms.faults) > 0 {
		issue.Human = nil // whose word counts, such a contract doesn't say
	}
	return issue, nil
}

// workflowFiles are what GitHub takes no push of from an App that lacks the permission
// workflows.
const workflowFiles = ".github/workflows/"

// limitWorkflows forbids GitHub's workflows to a task that could change them, where GitHub
// would refuse them of writ, whoever accepted that. It is asked before a builder is paid.
func (o *observer) limitWorkflows(ctx context.Context, in *Intake) error {
	if !in.Scope.Accepts || o.s.deps.Forge == nil || o.s.deps.Forge.Workflows == nil {
		return nil
	}
	globs, _ := scope.ParseGlobs(in.Scope.Allowed)
	under := func(pattern string) bool { return strings.HasPrefix(scope.Fold(pattern), workflowFiles) }
	named := slices.DeleteFunc(slices.Clone(in.Scope.Allowed), func(p string) bool { return !under(p) })
	if len(named) == 0 && !globs.Match(workflowFiles+"ci.yml") && !globs.Match(workflowFiles+"ci.yaml") {
		return nil
	}
	may, err := o.s.deps.Forge.Workflows(ctx)
	if err != nil || may {
		return err
	}
	const why = "writ's GitHub App lacks the permission `workflows`, without which GitHub takes no change of a workflow"
	in.Scope.Forbidden = append(slices.Clone(in.Scope.Forbidden), workflowFiles+"**")
	in.Notes = append(in.Notes, "The workflows in "+workflowFiles+" are forbidden: "+why+".")
	for _, p := range named {
		in.Input = append(in.Input, kernel.Violation{Code: kernel.CodeProtectedPath, Subject: p, Detail: "The task names workflows, and " + why + "."})
	}
	return nil
}

// observeOnly is why nothing may be claimed that could be.
func (s *Supervisor) observeOnly(c contract.Contract) []kernel.Violation {
	v := kernel.Violation{Code: kernel.CodeObserveOnly}
	switch {
	case c.Mode == contract.ModeObserve:
		v.Subject, v.Detail = "mode", "The contract says mode: observe, so writ says what it would do and doesn't claim."
	case s.cfg.Observe:
		v.Subject, v.Detail = "server.observe", "The operator set server.observe, so writ says what it would do and doesn't claim."
	default:
		return nil
	}
	return []kernel.Violation{v}
}

// readPinned reads the text again for a run, which goes by what was pinned at
// its claim. Before the start, and only then, contract and approval are read
// whole once more, and what can't be read keeps it from starting; afterwards it
// doesn't keep the run from renewing its lease. Right before accepted work is pushed
// the issue is read in any case: an act that takes the approval back wins, whether or
// not anybody told of it, and where that can't be read the work is kept and waits.
func (o *observer) readPinned(ctx context.Context, c *observation, refs git.Refs) (Issue, error) {
	r := o.worker.run
	pinned := *r.intake
	c.intake = &pinned
	starting := kernel.RunFacts{Phase: r.phase, Resumes: r.resumes}.Starts() && c.request == kernel.RequestTick
	tell := c.request == kernel.RequestTell
	delivering := o.worker.judged() && r.judgement.Accepted() && c.request == kernel.RequestTick
	brief := tell || !delivering && (r.phase == kernel.PhaseBuilding || r.phase == kernel.PhaseChecking || r.waitsAtHead())
	if o.remote && !starting && !delivering && !brief {
		// What the build came to is taken in: it is the kernel's now. What isn't
		// started yet is only handed over, for which nobody need be asked.
		return r.heeded, nil
	}
	if o.tracker.quiet && brief && !tell && c.clock.BootMs-o.tracker.looked < lookEvery {
		return r.heeded, nil // nobody says that there is anything to see
	}
	asking := ctx
	if (starting || delivering) && !tell {
		asking = forge.Urgent(ctx) // the lease is held, and isn't renewed by who asks
	}
	issue, err := o.tracker.askIssue(asking, c, Terms{Trigger: pinned.trigger, Prior: r.act, Live: r.act, Brief: brief})
	if err != nil {
		if o.remote && (starting || tell) {
			return Issue{}, err
		}
		c.unheard = o.remote && delivering
		o.say("the issue can't be read at the moment: %v", err)
		return r.heeded, nil
	}
	if len(issue.Human) > 0 { // what it is stopped for stays, also where that can't be pushed yet
		r.heeded = Issue{Act: issue.Act, Human: issue.Human}
	}
	issue.Human = r.heeded.Human
	pinned.Current = digestOf(issue)
	if starting && !tell {
		pinned.Governance, err = o.contracts.contractNow(ctx, refs, r.intake)
	}
	return issue, err
}

// readTask fills in the facts of issue, contract and environment. A run is
// judged by what was pinned at its claim; only the digest is compared anew.
func (o *observer) readTask(c *observation, issue Issue) {
	in := c.intake
	c.facts.Act, c.facts.Asked = issue.Act, issue.Asked
	c.facts.Approved, c.facts.Current = in.Approval.Digest, in.Current
	if o.worker.run != nil {
		in = o.worker.run.intake
		c.facts.Approved = in.Approval.Digest
	}
	c.facts.Governance, c.facts.Budgets, c.facts.Checks = in.Governance, in.Budgets, int64(len(in.Checks))
	c.facts.CloseOn = in.closeOn
	c.facts.Input, c.facts.Policy = in.Input, slices.Concat(in.Policy, issue.Policy)
	if c.facts.Human = issue.Human; o.worker.run != nil {
		return
	}
	c.facts.TakenBack, c.facts.OnItsWay, c.facts.LagUntil = issue.TakenBack, c.onItsWay, o.lagUntil(c.clock)
	c.facts.Policy = slices.Concat(c.facts.Policy, o.worker.refused, o.secretsIn(in))
	c.facts.Mended = o.worker.mendedSince(c) || o.worker.equippedSince(c)
	c.facts.BaseMoved = c.facts.Head.AwaitsEnvironment() && trailer(c.event, kernel.TrailerBase) != string(in.BaseCommit)
	if c.facts.Refused = o.worker.ruling.refused; len(c.facts.Refused) > 0 {
		c.facts.RuleWait = ruleWait(c.facts.Head, c.headAt())
	}
}

// lagUntil is until when nothing is claimed, Unix milliseconds; 0 for none.
func (o *observer) lagUntil(now lease.Clock) int64 {
	if o.worker.lagged.until <= now.BootMs {
		return 0
	}
	return now.WallMs + o.worker.lagged.until - now.BootMs
}

// ruleWait is how long a claim that is refused waits at HEAD, in milliseconds: twice as
// long as it did before.
func ruleWait(h kernel.HeadFacts, headAt int64) int64 {
	wait := claimSoon.Milliseconds()
	if h.AwaitsRule() && !h.Kept {
		wait = max(wait, 2*(h.NotBefore-headAt))
	}
	return min(wait, ruleAgain.Milliseconds())
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

// lackingAct is [Supervisor.LackingAct] where somebody else's HEAD counts: what the ref has
// is less than others saw, and the act that is lacking may have revoked his key. Who saw it
// puts it back.
func (o *observer) lackingAct(ctx context.Context, c *observation, head kernel.HeadFacts) error {
	if o.s.deps.Acts == nil || !head.Trusted() || head.Trust != kernel.TrustListed {
		return nil
	}
	return o.s.LackingAct(ctx, c.acts, o.s.underAct(o.StateRef(), c.head))
}

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

// trustedBelow is the first commit below HEAD that is trusted and bound here, whose id
// becomes the fact [kernel.HeadFacts.Parent]. None is no error: the fact stays empty.
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

// judgeLease asks lease arithmetic about a lease that isn't our live run's.
func (o *observer) judgeLease(c *observation, h *kernel.HeadFacts) {
	if h.State != kernel.HeadWorking || (o.worker.run != nil && h.OID == string(o.worker.run.head)) {
		return
	}
	obs := o.sighting(c, h.OID)
	h.Predecessor = o.worker.run == nil && h.Trust == kernel.TrustOwn && h.Trusted() && h.RunnerID == o.s.cfg.RunnerID
	v := lease.Judge(c.event, obs, c.clock, o.s.cfg.Lease, h.Predecessor)
	h.Unrenewed = o.worker.run == nil && o.worker.lapsed != "" && h.OID == string(o.worker.lapsed)
	h.LeaseExpired, h.LeaseUntil, h.LeaseReason = v.MayTakeOver, v.UntilWallMs, string(v.Reason)
}

// sighting is since when this instance has seen HEAD where it is.
func (sj *subject) sighting(c *observation, head string) lease.Sighting {
	var prev *lease.Sighting
	if o, ok := sj.s.deps.Sightings.Load(sj.StateRef()); ok {
		prev = &o
	}
	seen := lease.Observe(prev, sj.StateRef(), head, c.clock)
	if err := sj.s.deps.Sightings.Save(seen); err != nil {
		// Without the kept sighting what waits for it only comes later.
		sj.log().Warn("since when HEAD stands could not be kept", "error", err)
	}
	return seen
}

// dated is the date of HEAD, or of what it stands on, in Unix milliseconds. One that lies
// ahead of our clock says nothing, and would keep everybody waiting until then: HEAD
// counts from when it was first seen here.
func (sj *subject) dated(c *observation, seconds int64, head string) int64 {
	if seconds = max(seconds, 0); seconds <= c.clock.WallMs/1000 {
		return seconds * 1000
	}
	seen := sj.sighting(c, head)
	return (c.clock.WallMs - (c.clock.BootMs - seen.FirstSeenBootMs)) / 1000 * 1000
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

// readTrailers takes Writ's own trailers. Numbers that can't be read count as
// zero.
func readTrailers(h *kernel.HeadFacts, ev lease.Event) {
	get := func(key string) string { return trailer(ev, key) }
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

// maxTrailerNumber bounds numbers in trailers: the last second that a date may have. It is
// small enough to be multiplied by a thousand.
const maxTrailerNumber = lease.MaxCommitterSeconds

// maxActBytes bounds the id of an act.
const maxActBytes = 128

func faultWords(err error) string {
	var le *lease.Error
	if errors.As(err, &le) {
		return le.Detail + " (" + le.Fault.String() + ")"
	}
	return strings.TrimSpace(err.Error())
}

// maxRefreshLeases bounds the leases of a run that are looked through for what it is to
// replace: a day of one every ten seconds.
const maxRefreshLeases = 8640

// readRefreshed reads the delivered result below a lease that is to replace it, which is
// put back where that comes to nothing. One that doesn't count any more isn't.
func (o *observer) readRefreshed(ctx context.Context, c *observation, h *kernel.HeadFacts) error {
	over := cmp.Or(h.Refreshes, h.Fixes)
	if h.State != kernel.HeadWorking || over == "" || !h.Trusted() || o.worker.run == nil && !h.LeaseExpired {
		return nil
	}
	var was *replacedResult
	if o.worker.run != nil {
		was = o.worker.run.was
	}
	if was == nil {
		commit, ev, err := c.head, c.event, error(nil)
		for range maxRefreshLeases {
			if err != nil || ev.State != kernel.HeadWorking || ev.RunID != h.RunID || len(commit.Parents) != 1 {
				break
			}
			if commit, err = o.s.deps.Repo.Commit(ctx, commit.Parents[0]); err == nil {
				ev, err = eventOf(commit, false)
			}
		}
		if err != nil && gitTrouble(err) != nil {
			return err
		}
		if state := (kernel.Judgement{State: kernel.TaskState(ev.State), WaitingFor: trailer(ev, kernel.TrailerWaitingFor)}); err != nil || !state.Accepted() || trailer(ev, kernel.TrailerRun) != over {
			h.Unrestorable = &kernel.Violation{Code: kernel.CodeEvidenceInvalid, Subject: h.OID, Detail: "The result that this lease is to replace can't be read below it."}
			return nil //nolint:nilerr // which is said
		}
		was = &replacedResult{commit: commit, event: ev}
	}
	if !o.listedHere(c, was.event, was.commit) {
		_, signer := o.s.trust(was.commit, o.StateRef(), c.acts)
		h.Unrestorable = &kernel.Violation{Code: kernel.CodeLeaseUntrusted, Subject: h.OID, Detail: "This lease is to replace the result " + string(was.commit.OID) + ", signed by " + signer + ", which isn't listed, or not any more."}
		return nil
	}
	if was.tree.Entries == nil {
		var err error
		if was.tree, err = o.s.deps.Repo.Tree(ctx, was.commit.Tree); err != nil {
			return err
		}
	}
	c.was = was
	return nil
}

// sealedAt reads what lies sealed in the tree of a state commit, without its files; zero for
// nothing that can be read.
func sealedAt(ctx context.Context, repo Repo, at git.OID) (m sealed.Manifest, err error) {
	tree, err := repo.Tree(ctx, at)
	if err != nil {
		return m, gitTrouble(err)
	}
	files, err := filesOf(ctx, repo, slices.DeleteFunc(slices.Clone(tree.Entries), func(e git.Entry) bool { return e.Path != sealed.File }))
	if err != nil || files[sealed.File] == nil {
		return m, err
	}
	if m, err = sealed.Decode(files[sealed.File]); err != nil {
		return sealed.Manifest{}, nil //nolint:nilerr // whoever goes on with it says so
	}
	return m, nil
}

// readOrigin reads on which base the work at HEAD was first delivered, where that is a
// revision: the base that HEAD names is then the commit that was revised.
func (o *observer) readOrigin(ctx context.Context, c *observation, h kernel.HeadFacts) error {
	if !h.Trusted() || trailer(c.event, kernel.TrailerFixes) == "" {
		return nil
	}
	pack, err := o.seedAt(ctx, c.head.Tree)
	if r := pack.Revision; err == nil && r != nil {
		c.origin = git.OID(r.Origin)
	}
	return err
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

// readWork reads the task, and the work that HEAD or the live run has.
func (o *observer) readWork(ctx context.Context, c *observation, issue Issue) error {
	if issue.seen != nil { // what was answered with a no doesn't count later
		issue.seen.TurnedDown = c.facts.View.TurnedDown
	}
	if err := o.readSealed(ctx, c); err != nil {
		return err
	}
	if err := o.readRefresh(ctx, c, issue.seen); err != nil {
		return err
	}
	if err := o.readFix(ctx, c, issue.seen); err != nil {
		return err
	}
	o.readTask(c, issue)
	if o.worker.run == nil { // the terms decide what is next, and that whether a claim is wanted
		if err := o.readPaths(ctx, c, issue.seen); err != nil {
			return err
		}
		o.readEnvironment(ctx, c)
	}
	for _, read := range []func(context.Context, *observation) error{o.worker.readUnpushed, o.readStray} {
		if err := read(ctx, c); err != nil {
			return err
		}
	}
	c.facts.Policy = append(c.facts.Policy, o.refsFree(c)...)
	if vs := o.endedChange(ctx, c); vs != nil {
		o.worker.run.ruling.refused, o.worker.run.again = vs, 0
	}
	if err := o.fixStands(ctx, c, issue.seen); err != nil {
		return err
	}
	if err := o.readRun(ctx, c); err != nil || o.worker.run == nil {
		return err
	}
	return o.readPaths(ctx, c, issue.seen)
}

// readEnvironment reads what a run needs, where a claim is wanted.
func (o *observer) readEnvironment(ctx context.Context, c *observation) {
	if in := c.intake; kernel.WantsClaim(c.facts) {
		c.facts.Environment = slices.Concat(o.s.deps.Executor.Environment(ctx, in.Spec.Builder), o.outwardFaults(in), o.baseFaults(c))
		o.s.locked(func() { o.readBudget(c) })
	}
}

// outwardFaults are the contract's limits on models that nobody would hold, and the hosts that
// checks and preparation ask for and can't reach. They are said before a builder is paid.
func (o *observer) outwardFaults(in *Intake) []kernel.Violation {
	if x, ok := o.s.deps.Executor.(executor.Outward); ok {
		return append(x.Reach(o.s.cfg.Repository, in.Checks, in.Prepare), x.Unheld(o.s.cfg.Repository, in.Spec.Builder, in.Budgets)...)
	}
	return nil
}

// endedChange is the violation of a change that was merged or closed while a run was to
// replace what is on its branch. It is asked for once more right before the push.
func (o *observer) endedChange(ctx context.Context, c *observation) []kernel.Violation {
	r := o.worker.run
	if r == nil || r.refreshes+r.fixes == "" || r.phase != kernel.PhaseJudged || c.request != kernel.RequestTick || len(r.ruling.refused) > 0 {
		return nil
	}
	found, err := o.tracker.findChange(forge.Urgent(ctx), r.intake.baseBranch())
	switch {
	case forge.IsReason(err, forge.NotFound), err == nil && found.State != forge.ChangeOpen:
		return []kernel.Violation{{Code: kernel.CodeSuperseded, Subject: o.tracker.changeBranch(), Detail: "Its change was merged or closed meanwhile."}}
	case err != nil:
		c.unheard = true
		o.say("the change can't be looked at for now: %v", err)
	}
	return nil
}

// readRun fills in the facts of the live run and takes in what its processes
// came to: proposals, recorded before any decision uses them.
func (o *observer) readRun(ctx context.Context, c *observation) error {
	r := o.worker.run
	if r == nil {
		return nil
	}
	o.worker.takeIn(c)
	r.mended(c.clock.WallMs)
	o.changeBranchTaken(c)
	rf := &kernel.RunFacts{
		RunID: r.id, LeaseOID: string(r.head), Attempt: r.attempt, Phase: r.phase,
		RenewDue: r.due.RenewDue(c.clock) && !o.worker.unrenewable(), Overdue: r.due.Overdue(c.clock),
		ClaimedAt: r.claimed, Resumes: r.resumes, Refreshes: r.refreshes, Fixes: r.fixes, Refused: r.ruling.refused, Judgement: r.judgement, Again: r.again, Unheard: c.unheard, Checked: r.vetted,
	}
	switch r.phase {
	case kernel.PhaseClaimed:
		rf.Dispatch = o.worker.checkDispatch(c)
	case kernel.PhaseBuilt, kernel.PhaseSealed, kernel.PhaseChecking, kernel.PhaseChecked, kernel.PhaseJudged:
		exit := r.built.Result.Exit
		rf.Exit, rf.Build = &exit, slices.Concat(r.fails, r.built.Violations)
		rf.Scope, rf.Changes = r.built.Diff.Violations, int64(len(r.built.Diff.Changes))
		rf.CheckFails = r.checked.Violations
		rf.Message = r.intake.Message
		var err error
		if rf.Whole, err = o.judgeWhole(ctx, r); err != nil {
			return err
		}
		if rf.Starts() {
			rf.Dispatch = r.movedContract(c)
		}
	}
	c.facts.Run = rf
	return nil
}

// judgeWhole judges what a revision and the work below it come to together, against the base
// that the work was first delivered on.
func (o *observer) judgeWhole(ctx context.Context, r *run) ([]kernel.Violation, error) {
	if r.over == nil || len(r.fails)+len(r.built.Violations)+len(r.built.Diff.Violations) > 0 {
		return nil, nil
	}
	if r.whole != nil {
		return r.whole, nil
	}
	contents := maps.Clone(r.over.contents)
	maps.Copy(contents, r.built.Contents)
	rules := o.rulesOf(ctx, r.intake.Scope, r.pack.Budgets)
	rules.LockSources = r.pack.LockSources
	s, err := scope.New(scopeEntries(r.over.base), rules)
	if err != nil {
		return []kernel.Violation{{Code: kernel.CodeEnvBase, Detail: err.Error()}}, nil //nolint:nilerr // base or patterns can't be used
	}
	v, err := s.Again(ctx, replay.Composed(r.over.changes, r.built.Diff.Changes), contents)
	if err != nil {
		return nil, err
	}
	r.whole = append([]kernel.Violation{}, boundViolations(v.Violations)...)
	return r.whole, nil
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

// readFile reads one file of a state commit's tree; nil if it isn't there.
func (sj *subject) readFile(ctx context.Context, tree git.OID, name string) ([]byte, error) {
	list, err := sj.s.deps.Repo.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	var data []byte
	for _, e := range list.Entries {
		if e.Path == name && e.Mode == git.ModeFile {
			err = sj.s.deps.Repo.Blobs(ctx, []git.OID{e.OID}, func(_ git.OID, b []byte) error { data = b; return nil })
		}
	}
	return data, err
}

func (c *observation) stage(kind kernel.Kind, run string, body any) {
	c.staged = append(c.staged, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}
