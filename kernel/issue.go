package kernel

import (
	"slices"
	"strings"

	"github.com/writbot/writ/kernel/canon"
)

// RequestTell asks for the next effect that moves the issue on the forge towards
// HEAD.
const RequestTell Request = "tell"

// The effects on an issue. Each is one call of the forge, and doing it again
// changes nothing more. None of them moves the task: HEAD does.
const (
	ActionComment   Action = "comment"   // create the status comment
	ActionRevise    Action = "revise"    // edit it
	ActionUncomment Action = "uncomment" // delete a duplicate of it
	ActionAlert     Action = "alert"     // tell those whom the contract names, once
	ActionLabel     Action = "label"     // set one of writ's labels
	ActionUnlabel   Action = "unlabel"   // take one of writ's labels off
	ActionClose     Action = "close"
	ActionReopen    Action = "reopen"
	ActionChange    Action = "change"      // open the change that delivers the work
	ActionAmend     Action = "change_edit" // edit what an earlier run wrote there
	ActionReview    Action = "review"      // check anew what was pushed to the change's branch
	ActionCheck     Action = "check"       // say the result on the change's commit
	ActionSee       Action = "see"         // answer an approving label without words
	ActionReact     Action = "react"       // answer a command without words, which ends its answer
	ActionAnswer    Action = "answer"      // answer a command in words
)

// OnForge reports whether the action is an effect on an issue.
func (a Action) OnForge() bool { return slices.Contains(forgeActions, a) }

// forgeActions are in the order in which an ended task needs them: nothing is
// closed before it says why. Who approved is answered first.
var forgeActions = []Action{
	ActionSee, ActionReopen, ActionChange, ActionAmend, ActionUncomment, ActionComment, ActionRevise, ActionAnswer, ActionReact,
	ActionLabel, ActionUnlabel, ActionAlert, ActionClose, ActionReview, ActionCheck,
}

// ForgeActions lists the effects on an issue.
func ForgeActions() []Action { return slices.Clone(forgeActions) }

// Writ's labels: one per state, set and taken off one by one.
const (
	LabelClaimed      = "writ:claimed"
	LabelCompleted    = "writ:completed"
	LabelRetryPending = "writ:retry-pending"
	LabelBlocked      = "writ:blocked"
)

// StateLabels are writ's labels.
func StateLabels() []string {
	return []string{LabelClaimed, LabelCompleted, LabelRetryPending, LabelBlocked}
}

// labelOf is the label that a state has, "" for none.
func labelOf(s TaskState) string {
	switch s {
	case TaskClaimed:
		return LabelClaimed
	case TaskCompleted:
		return LabelCompleted
	case TaskRetryPending:
		return LabelRetryPending
	case TaskBlocked:
		return LabelBlocked
	}
	return ""
}

// Who closed an issue.
const (
	ClosedBySelf   = "self"
	ClosedByPerson = "person" // or a bot that the contract names
	ClosedByBot    = "bot"
)

// IssueFacts is an issue as the forge shows it, as far as writ moves it.
type IssueFacts struct {
	Gone     bool           `json:"gone"`      // the forge has no such issue, or it is a change: there is nothing to move
	Open     bool           `json:"open"`      //
	ClosedBy string         `json:"closed_by"` // one of the Closed words, "" while it is open
	Reopened bool           `json:"reopened"`  // somebody else put it back open after writ had closed it
	PutBack  int64          `json:"put_back"`  // how often writ has put it back open since the approval
	Labels   []string       `json:"labels"`    // writ's labels that it bears
	Touched  []string       `json:"touched"`   // writ's labels that somebody else set or took off last
	Comments []CommentFacts `json:"comments"`  // own ones with the task's marker, the oldest first
	Want     canon.Digest   `json:"want"`      // of the status comment as it should be, "" where none is owed
	Alert    bool           `json:"alert"`     // the contract names somebody to tell
	Alerts   int64          `json:"alerts"`    // own alerts of HEAD's run
	Change   *ChangeFacts   `json:"change"`    // null where no change delivers the work
	Refused  []string       `json:"refused"`   // effects that the forge refused to this process since HEAD moved
	HeadAt   int64          `json:"head_at"`   // committer time of HEAD, Unix milliseconds
	// Commands are those that no answer is known to have been given to, the oldest
	// first.
	Commands []CommandFacts `json:"commands,omitempty"`
	Doubles  []int64        `json:"doubles,omitempty"` // own answers that say again what an older one says
	Check    *CheckFacts    `json:"check,omitempty"`   // that the change's commit is owed
	// Others says that the issue is for others to tell of: the contract lists
	// runners, and this installation isn't among them, or HEAD and the status comment
	// are of a run of an installation that this one doesn't trust.
	Others bool `json:"others,omitempty"`
	// See is the reaction that the approving act is owed, if it counts: it set the label,
	// and nothing of writ's on the issue answers it yet.
	See string `json:"see,omitempty"`
}

// CommentFacts is one status comment.
type CommentFacts struct {
	ID     int64        `json:"id"`
	Run    string       `json:"run_id"`
	Digest canon.Digest `json:"digest"` // of its text
}

// ChangeFacts is the change of the task's branch.
type ChangeFacts struct {
	Number int64  `json:"number"` // 0 where there is none yet
	Run    string `json:"run_id"` // that its text names, "" for a text that isn't ours
	Open   bool   `json:"open"`
	Own    bool   `json:"own"` // writ opened it
	// What follows is of a change that is there, see [ChangeFacts.Undone].
	Head     string `json:"head,omitempty"`     // commit of its branch
	Old      bool   `json:"old,omitempty"`      // it delivered an earlier result, and has ended
	Merged   string `json:"merged,omitempty"`   // commit on the base, "" unless merged
	Verified string `json:"verified,omitempty"` // commit that a merge must bring: the delivered one, or one pushed since that passed its review
	Into     string `json:"into,omitempty"`     // other branch that it was merged into, and whose merge isn't on the base
	Reverted string `json:"reverted,omitempty"` // commit on the base that reverts it
	// Pushed says that the branch isn't as it was verified: somebody pushed to it.
	Pushed bool         `json:"pushed,omitempty"`
	Review *ReviewFacts `json:"review,omitempty"` // of what was pushed
	// Differs are the paths that don't have the verified content, of a merged
	// change: none means that what was merged is what was verified.
	Differs []string `json:"differs,omitempty"`
}

// Undone reports whether the work was turned down: the change was closed unmerged,
// merged into another branch than the base, or reverted.
func (c *ChangeFacts) Undone() bool {
	return c != nil && c.Number != 0 && !c.Old && !c.Open && (c.Merged == "" || c.Reverted != "")
}

// ReviewFacts is what scope and checks say of a pushed commit.
type ReviewFacts struct {
	Ended      bool        `json:"ended"`
	Violations []Violation `json:"violations"`
}

// CheckFacts is a check that a commit is owed.
type CheckFacts struct {
	OID    string       `json:"oid"`
	Digest canon.Digest `json:"digest"`
}

// IssueEffect says what the effect on an issue is about.
type IssueEffect struct {
	Target int64        `json:"target"` // number of the comment or change, 0 for none
	Label  string       `json:"label"`  // or the reaction
	Digest canon.Digest `json:"digest"` // of the text that is written, "" for none
}

// othersWait is how long an instance leaves the issue to the one that wrote HEAD:
// two that tell at once make comments that one has to delete again.
const othersWait = 60_000 // ms

// decideIssue names the one effect that moves the issue towards HEAD, if any. It
// is derived from HEAD as it was just read, from what the forge shows, and from
// how the task stands by HEAD's own rules; never from what a process remembers.
func decideIssue(f Facts) Decision {
	tick := f
	tick.Request, tick.Issue, tick.Refresh = RequestTick, nil, nil // what is delivered stands until it is replaced
	stands := decideTask(tick)
	d := Decision{
		Verdict: Allow, Standing: stands.Standing, Action: ActionNone, Attempt: f.Head.Attempt,
		Interruptions: f.Head.Interruptions, WaitingFor: f.Head.WaitingFor,
		Reasons: Reason{Rule: "issue", Holds: true, Detail: "the issue shows what HEAD says"},
	}
	d.State, _ = TaskStateOf(f.Head.State)
	if f.Issue == nil || f.Issue.Gone || f.Issue.Others && f.Run == nil || !speaks(f, stands) || stands.Action == ActionRedeliver {
		return d
	}
	if (f.Head.Trust == TrustListed || f.StrangersLease()) && f.Run == nil && f.Now < f.Issue.HeadAt+othersWait {
		d.Wake = f.Issue.HeadAt + othersWait
		return d
	}
	i := issueRules{f: f, state: stateShown(f), counts: counts(f, stands)}
	if stands.Standing == StandWaiting && f.Merged() {
		d.Standing, d.Action, d.State, d.WaitingFor = StandActing, ActionComplete, TaskCompleted, ""
		d.Reasons = Reason{Rule: "issue", Holds: false, Detail: "the change that HEAD waits for is merged"}
		return d
	}
	if i.overruled() {
		d.Codes = []Code{CodeSuperseded}
	}
	for _, a := range forgeActions {
		if (f.StrangersLease() || f.unread()) && !slices.Contains(saidActions, a) {
			continue
		}
		if e, due := i.due(a); due && !slices.Contains(f.Issue.Refused, e.RefusedAs(a)) {
			d.Action, d.Issue = a, &e
			d.Standing = StandActing
			d.Reasons = Reason{Rule: "issue", Holds: false, Detail: "the issue doesn't show yet what HEAD says: " + string(a)}
			return d
		}
	}
	return d
}

// saidActions are what is done on the issue while an unlisted writer has the task, or nobody
// knows the contract: it is said, and commands are answered. Labels may be that writer's,
// and what becomes of the issue and the work is the contract's matter.
var saidActions = []Action{ActionComment, ActionRevise, ActionAnswer, ActionReact}

// Merged reports whether the change that HEAD waits for is merged, so that the task is
// completed. Who merges a change takes the work, whatever became of the base since.
func (f Facts) Merged() bool {
	return f.Run == nil && f.AwaitsMerge() && f.SameIssue && f.Issue != nil &&
		f.Issue.Change != nil && f.Issue.Change.Number != 0 && !f.Issue.Change.Old && f.Issue.Change.Merged != ""
}

// speaks reports whether this instance says anything on the issue now: not while
// somebody else holds the task, and not of a run that isn't at HEAD any more. A lease
// that only a person moves on from holds nothing, and the issue is told why it waits:
// one that needs repair, or our own of a task that was halted. It is told, too, who holds
// the task where nobody answers for that writer, and what one that has ended waits for
// where nobody can break it.
func speaks(f Facts, stands Decision) bool {
	if f.Run != nil {
		return len(ownerRule(f)) == 0
	}
	if stands.Standing == StandHeld {
		return f.StrangersLease()
	}
	return f.Head.State != HeadWorking || NeedsRepair(f) || f.haltedLease() || f.Head.Owed != nil || f.unread() && f.Head.LeaseExpired
}

// StrangersLease reports whether an unlisted writer's lease is live: a lock, whoever may
// push can lay one, and nobody answers for it.
func (f Facts) StrangersLease() bool {
	return f.Run == nil && f.Head.State == HeadWorking && !f.Head.LeaseExpired && f.Head.unlistedLock()
}

// unread reports whether the base or the contract on it can't be read.
func (f Facts) unread() bool {
	return f.Run == nil && slices.ContainsFunc(f.Policy, func(v Violation) bool { return v.Code == CodeEnvRepository })
}

// haltedLease reports whether HEAD is our own lease of a task that was halted, by a
// process that died: nobody works on it.
func (f Facts) haltedLease() bool {
	return f.Run == nil && f.View.Halted && f.Head.State == HeadWorking && f.Head.Trust == TrustOwn && !f.Head.Foreign()
}

// stateShown is the state that the issue is to show: HEAD's, if HEAD can be
// trusted.
func stateShown(f Facts) TaskState {
	if f.Run == nil && (!f.HeadCounts() || f.Head.Unrestorable != nil) || f.haltedLease() || f.Missing != nil {
		return TaskNone
	}
	if f.replacing() { // the delivered result stands until it is replaced
		s, _ := f.Head.refreshed()
		return s
	}
	if f.Head.Owed != nil && !f.View.Halted {
		return TaskWaiting
	}
	s, _ := TaskStateOf(f.Head.State)
	return s
}

// issueRules answer whether an effect is due.
type issueRules struct {
	f      Facts
	state  TaskState
	counts bool // the approval does
}

// counts reports whether the approval is one that the task goes on by, or went on by: an
// act that doesn't count is answered by nobody, unless it is a command.
func counts(f Facts, stands Decision) bool {
	return stands.Action == ActionClaim || f.HeadCounts() && f.Act == f.Head.Act || f.Run != nil && len(stands.Codes) == 0
}

// overruled reports whether a person did something that writ leaves as it is.
func (i issueRules) overruled() bool {
	is := i.f.Issue
	return is.Reopened || len(is.Touched) > 0 || !is.Open && is.ClosedBy == ClosedByPerson && i.state != TaskCompleted
}

func (i issueRules) due(a Action) (IssueEffect, bool) {
	is := i.f.Issue
	switch a {
	case ActionSee:
		return IssueEffect{Label: is.See}, is.See != "" && i.counts
	case ActionReopen:
		return IssueEffect{}, i.closedWrongly()
	case ActionChange:
		return IssueEffect{}, i.delivers() && (is.Change.Number == 0 || is.Change.Old)
	case ActionAmend:
		return i.amend()
	case ActionReview:
		return i.review()
	case ActionCheck:
		return i.check()
	case ActionUncomment, ActionComment, ActionRevise:
		return i.comment(a)
	case ActionAnswer, ActionReact:
		return i.answer(a)
	case ActionLabel:
		l := labelOf(i.state)
		return IssueEffect{Label: l}, l != "" && !slices.Contains(is.Labels, l) && !slices.Contains(is.Touched, l)
	case ActionUnlabel:
		return i.unlabel()
	case ActionAlert:
		return IssueEffect{}, (i.state == TaskBlocked || i.f.Run == nil && NeedsRepair(i.f)) && is.Alert && is.Alerts == 0
	case ActionClose:
		return IssueEffect{}, i.closes()
	}
	return IssueEffect{}, false
}

// maxPutBack is how often a bot's closing is put back before it stands: two bots
// must not answer one another for ever.
const maxPutBack = 3

// closedWrongly: writ's own closing needs a completed HEAD whose work nobody turned
// down, and a bot's is none of a person's while the task is being worked on. A
// person's stands, and so does a bot's that comes again and again.
func (i issueRules) closedWrongly() bool {
	is := i.f.Issue
	if is.Open {
		return false
	}
	if i.state == TaskCompleted {
		return is.ClosedBy == ClosedBySelf && is.Change.Undone()
	}
	switch is.ClosedBy {
	case ClosedBySelf:
		return i.state != TaskNone
	case ClosedByBot:
		return is.PutBack < maxPutBack && (i.state == TaskClaimed || i.state == TaskRetryPending || i.state == TaskOpen)
	}
	return false
}

// delivers reports whether a change is to carry the accepted work.
func (i issueRules) delivers() bool {
	return i.f.Run == nil && i.f.Delivered() && i.f.Issue.Change != nil
}

// amend: a change that writ opened for an earlier run says what this one did.
// What somebody else wrote there stays.
func (i issueRules) amend() (IssueEffect, bool) {
	c := i.f.Issue.Change
	if !i.delivers() || c.Number == 0 || c.Old || !c.Open || !c.Own || c.Run == "" || c.Run == i.f.Head.Run() {
		return IssueEffect{}, false
	}
	return IssueEffect{Target: c.Number}, true
}

// comment keeps one status comment, the oldest, with the text that is owed now.
func (i issueRules) comment(a Action) (IssueEffect, bool) {
	is := i.f.Issue
	n := len(is.Comments)
	switch {
	case a == ActionUncomment && n > 1:
		return IssueEffect{Target: is.Comments[n-1].ID}, true
	case a == ActionUncomment && len(is.Doubles) > 0:
		return IssueEffect{Target: is.Doubles[0]}, true
	case is.Want == "" || i.tellsOfResult():
	case a == ActionComment && n == 0:
		return IssueEffect{Digest: is.Want}, true
	case a == ActionRevise && n > 0 && is.Comments[0].Digest != is.Want:
		return IssueEffect{Target: is.Comments[0].ID, Digest: is.Want}, true
	}
	return IssueEffect{}, false
}

// tellsOfResult reports whether the issue of a task that only a person moves on from now is
// closed and tells of a result: that is what the state ref lacks, and stays to be read.
func (i issueRules) tellsOfResult() bool {
	is := i.f.Issue
	return i.f.Run == nil && !is.Open && slices.Contains(is.Labels, LabelCompleted) && NeedsRepair(i.f)
}

func (i issueRules) unlabel() (IssueEffect, bool) {
	is := i.f.Issue
	if i.tellsOfResult() {
		return IssueEffect{}, false
	}
	for _, l := range is.Labels {
		if l != labelOf(i.state) && !slices.Contains(is.Touched, l) {
			return IssueEffect{Label: l}, true
		}
	}
	return IssueEffect{}, false
}

// review: what somebody pushed to the branch of an open change is checked anew, once
// for each commit. It is never forced over.
func (i issueRules) review() (IssueEffect, bool) {
	c := i.f.Issue.Change
	due := i.delivers() && c.Open && c.Pushed && c.Review == nil && !strings.HasPrefix(i.f.View.Checked, c.Head+" ")
	return IssueEffect{Label: c.head()}, due
}

func (c *ChangeFacts) head() string {
	if c == nil {
		return ""
	}
	return c.Head
}

// check says the result on the change's commit, once.
func (i issueRules) check() (IssueEffect, bool) {
	k := i.f.Issue.Check
	if k == nil || !i.delivers() || i.f.View.Checked == k.OID+" "+string(k.Digest) {
		return IssueEffect{}, false
	}
	return IssueEffect{Label: k.OID, Digest: k.Digest}, true
}

// closes: a trusted, completed HEAD of this very issue, whose report the status
// comment shows, and nobody who has put it back open or turned the work down
// (invariant E2). Where a change carries the work, it is there.
func (i issueRules) closes() bool {
	is, h := i.f.Issue, i.f.Head
	told := len(is.Comments) == 1 && is.Want != "" && is.Comments[0].Digest == is.Want
	stands := is.Change == nil || is.Change.Number != 0 && !is.Change.Old
	return is.Open && !is.Reopened && told && i.f.Run == nil && stands && !is.Change.Undone() &&
		i.state == TaskCompleted && h.WaitingFor != WaitMerge && i.f.SameIssue
}
