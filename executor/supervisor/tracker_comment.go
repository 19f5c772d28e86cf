package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// maxComment is how long a comment may be, in bytes: forges take 65,536
// characters, and some count bytes.
const maxComment = 60_000

// quietCodes are those that nobody is told of who hasn't been told anything
// before: there is nothing that writ was asked to do by somebody who may.
var quietCodes = []kernel.Code{
	kernel.CodeEventStale, kernel.CodeRecursion, kernel.CodeAuthority, kernel.CodeTargetIneligible, kernel.CodeTargetNotAllowed,
	kernel.CodeSuperseded, kernel.CodeTaskStopped,
}

// spoken reports whether a code is told to who was told nothing yet. That a person took back
// what was claimed is: who wrote that at HEAD may have died before it told of it, and a person
// may have moved on from there since.
func (c *observation) spoken(k kernel.Code) bool {
	claimed := c.facts.HeadCounts() && c.facts.Head.Run() != ""
	return !slices.Contains(quietCodes, k) || claimed && (k == kernel.CodeTaskStopped || k == kernel.CodeSuperseded)
}

// message is a text for people: what everybody reads, and what is folded below it.
type message struct{ shown, folded string }

// compose writes the status comment as it is to be: a function of HEAD and of how
// the task stands by it, so that every instance writes the same.
func (i *tracker) compose(ctx context.Context, c *observation, f *kernel.IssueFacts, stands kernel.Decision) error {
	m, err := i.statusText(ctx, c, f, stands)
	if err != nil || m.shown == "" {
		return err
	}
	c.text = c.ofRun(i.marker(), f) + m.shown + i.approveLine(c, stands) + m.folded
	f.Want = textDigest(c.text)
	return nil
}

// tellNoBase writes the status comment of a task of which nobody knows the contract: only an
// issue is told that heard of the task, and not yet of how it ended.
func (i *tracker) tellNoBase(c *observation, f *kernel.IssueFacts) {
	if i.worker.outageWords() == "" || len(f.Comments) == 0 || c.ended {
		return
	}
	c.text = c.ofRun(i.marker(), f) + i.outageText().shown
	f.Want = textDigest(c.text)
}

// statusText is the text for people; nothing of it is shown where there is nothing to say.
func (i *tracker) statusText(ctx context.Context, c *observation, f *kernel.IssueFacts, stands kernel.Decision) (message, error) {
	h, due := c.facts.Head, stands.Standing == kernel.StandDue || stands.Standing == kernel.StandActing
	if h.AwaitsRule() && c.facts.HeadCounts() && (due || h.Kept && len(stands.Violations) == 1 && inTheWay(stands.Violations)) {
		m, err := i.ruleText(ctx, c)
		if err != nil {
			return message{}, err
		}
		return i.withInstruction(ctx, c, m)
	}
	if i.worker.run != nil {
		return i.runText(c).told(i.worker.run.dispatch.Instruction), nil
	}
	if i.parted && !c.facts.Delivered() {
		return i.partedText(c), nil
	}
	halted, err := i.haltWords(ctx, c)
	if err != nil {
		return message{}, err
	}
	if c.facts.StrangersLease() && stands.Standing == kernel.StandHeld {
		return i.strangersText(c, f), nil
	}
	switch stands.Standing {
	case kernel.StandHeld, kernel.StandActing, kernel.StandRunning:
		if i.worker.outageWords() != "" && stands.Standing == kernel.StandActing {
			return i.outageText(), nil
		}
		if stands.Action != kernel.ActionClaim {
			return message{}, nil
		}
		return i.queuedText(c, f), nil
	case kernel.StandFinal, kernel.StandDue, kernel.StandWaiting, kernel.StandHalted:
		if !c.facts.HeadCounts() || c.facts.Missing != nil {
			break
		}
		r, ok, err := i.worker.reportAt(ctx, c.head)
		if err != nil {
			return message{}, err
		}
		if ok {
			return i.resultText(ctx, c, f, r, halted)
		}
	}
	if len(f.Comments) == 0 && !c.reopened(f) && !slices.ContainsFunc(stands.Codes, c.spoken) {
		return message{}, nil
	}
	r, err := i.worker.noticeOf(ctx, stands, c.facts, c.head, c.intake, "")
	if err != nil {
		return message{}, err
	}
	return i.reportText(c, r, report.Around{MaxAttempts: c.facts.Budgets.Attempts}, i.changeWords(c, f.Change)+halted), nil
}

// resultText tells of the result at HEAD, and composes the description of its change.
func (i *tracker) resultText(ctx context.Context, c *observation, f *kernel.IssueFacts, r report.Report, halted string) (message, error) {
	lines, err := i.linesOf(ctx, git.OID(r.BaseCommit), git.OID(r.ChangeCommit))
	if err != nil {
		return message{}, err
	}
	around := report.Around{Change: c.changeLink(f.Change), Lines: lines, MaxAttempts: c.facts.Budgets.Attempts, Revision: c.origin != ""}
	i.readCheck(c, f, r)
	held, err := i.pathsWords(ctx, c)
	if err != nil {
		return message{}, err
	}
	brief := r
	brief.Warnings, brief.Notes, brief.Merge, brief.WaitingFor = nil, nil, nil, "" // the issue says them, and keeps them true
	c.changeText = c.marked(i.marker(), marker.Status) + brief.Description(around) + brief.Evidence(maxComment-markerRoom, i.provenText(c)+c.workText(brief))
	if r.Merge = mergeOf(f.Change); r.Merge != nil {
		r.WaitingFor = ""
	}
	moved, err := i.movedWords(ctx, c, f.Change)
	if err != nil {
		return message{}, err
	}
	tried, err := i.refreshWords(ctx, c)
	if err != nil {
		return message{}, err
	}
	if i.mayWaitStill(c) {
		return message{}, nil
	}
	if i.asksForMore(c) && i.worker.waitWords() != "" {
		if m := i.queuedText(c, f); m.shown != "" || c.toldWait != "" {
			return m, nil
		}
	}
	return i.withInstruction(ctx, c, i.reportText(c, r, around, held+i.changeWords(c, f.Change)+moved+tried+c.spentWords()+editedWords(c)+halted))
}

// readCheck composes the check that the change's commit is owed: it says the report
// of the result at HEAD.
func (i *tracker) readCheck(c *observation, f *kernel.IssueFacts, r report.Report) {
	ch, verified := f.Change, string(c.verified())
	if ch == nil || ch.Number == 0 || ch.Old || verified == "" {
		return
	}
	c.check = forge.Check{Name: checkName, State: forge.CheckPassed, Summary: "Verified by writ: attempt " + decimal(r.Attempts) + ", run " + r.RunID}
	r.Merge = nil
	c.check.Detail = r.Evidence(maxComment, "")
	f.Check = &kernel.CheckFacts{OID: verified, Digest: checkDigest(c.check)}
	if ch.Pushed {
		i.readReviewCheck(c, f)
	}
}

// readReviewCheck composes the check of what was pushed, once that was reviewed.
func (i *tracker) readReviewCheck(c *observation, f *kernel.IssueFacts) {
	f.Check = nil
	if r := f.Change.Review; r != nil && r.Ended {
		c.check = i.reviewCheck(f.Change.Head, len(r.Violations) == 0, r.Violations)
		if i.reviewed().open() {
			c.check.Detail = report.LineChecksNoSandbox + "\n\n" + c.check.Detail
		}
		f.Check = &kernel.CheckFacts{OID: f.Change.Head, Digest: checkDigest(c.check)}
	}
}

// spentWords say that the base moved on and why the contract doesn't ask again.
func (c *observation) spentWords() string {
	r := c.facts.Refresh
	switch {
	case r == nil || r.Auto == nil || len(r.Faults) > 0:
	case c.facts.StopSeen() != "":
		return "\nThe base moved on. Since `/writ stop` was said, the contract no longer has this work applied there, until the task is approved anew.\n"
	case r.Auto.Nth > r.Auto.Most:
		return fmt.Sprintf("\nThe base moved on. The contract asked %s that this work be applied there, which is as often as it may. `/writ refresh` asks once more.\n", report.Counted(int(r.Auto.Most), "time"))
	}
	return ""
}

// refreshWords say what the last try came to of applying the delivered work on another base,
// where that is another result's.
func (i *tracker) refreshWords(ctx context.Context, c *observation) (string, error) {
	if !c.facts.Delivered() {
		return "", nil
	}
	data, err := i.readFile(ctx, c.head.Tree, replay.FileRefresh)
	var r replay.RefreshRecord
	if err != nil || canon.UnmarshalCanonical(data, &r) != nil {
		return "", err
	}
	text, what := "\nApplied on the base "+c.commitLink(r.Base)+", it didn't hold", "apply it on the base "+c.commitLink(r.Base)
	if r.Fix != "" {
		text, what = "\nIts revision didn't hold", "revise it"
	}
	h := c.facts.Head
	switch goesOn := c.facts.ResumesFix() && len(c.facts.RefusesFix()) == 0; {
	case c.facts.ReplacementHeld(), goesOn && !r.Interrupted:
		return "", nil // what it waits for is said, or it was accepted and is delivered next
	case h.RefreshWaits == "" || goesOn:
	case r.Fix != "":
		return i.waitedWords(c, "Its revision"), nil
	default:
		return i.waitedWords(c, "That it be applied on the base "+c.commitLink(r.Base)), nil
	}
	if r.Interrupted {
		text = "\nA run that was to " + what + " was interrupted"
	}
	text += ", and the change is as it was"
	if text += "."; len(r.Violations) > 0 {
		text = strings.TrimSuffix(text, ".") + ":\n"
	}
	text += "\n"
	text += bullets(r.Violations)
	fix, refresh := c.facts.Fix, c.facts.Refresh
	again := h.RefreshOwed && (refresh != nil && refresh.Act == h.RefreshAct || fix != nil && fix.Act == h.RefreshAct)
	if again && h.NotBefore > 0 {
		text += "\nIt is tried again by itself, from `" + kernel.Timestamp(h.NotBefore/1000) + "` on.\n"
	} else if again {
		text += "\nIt is tried again by itself.\n"
	}
	return text, nil
}

// movedWords say that the base moved so that the delivered change no longer applies to it.
func (i *tracker) movedWords(ctx context.Context, c *observation, ch *kernel.ChangeFacts) (string, error) {
	if ch == nil || ch.Number == 0 || !ch.Open || ch.Pushed || !c.facts.Delivered() || c.facts.RefreshNext() && c.facts.ReplacementHeld() {
		return "", nil
	}
	on, err := i.rebasedHere(ctx, c)
	switch {
	case err != nil:
		return "", err
	case len(on.conflicts) > 0:
		return "\n**The base moved.** It has another content by now at " + named(on.conflicts) + ", where this work changes the same lines, lines beside them, or what has no lines, so that what was verified doesn't apply there.\n\n" +
			"**Now:** Merge it by hand and look at what comes of it. " + i.adaptWords(c) + "Or close the change unmerged. " + i.againWords(), nil
	case len(on.merged) > 0:
		return "\n**The base moved.** It has other lines by now in " + named(on.merged) + ", which this work changes too. A merge mixes the two, and nothing has checked what that gives.\n\n" +
			"**Now:** `/writ refresh` mixes them, and judges and checks the outcome.\n", nil
	}
	return "", nil
}

// pathsWords show what somebody is asked to accept, and how. They are a function of HEAD,
// the base and the contract, and of what is asked of delivered work.
func (i *tracker) pathsWords(ctx context.Context, c *observation) (string, error) {
	const without = "and it is delivered without another build"
	f := c.facts
	if f.ReplacementHeld() && f.RefreshNext() {
		what := "Applied on the base " + c.commitLink(string(c.intake.BaseCommit)) + ", as is asked, the work changes guarded paths"
		return i.acceptWords(c, c.fresh.held, what, "and once its checks have passed there it is delivered, without a builder") + " `/writ reject` gives that up, and the change stays as it is. Once the base moves on, it is another line. What is asked of the change meanwhile waits.\n", nil
	}
	if !f.Head.AwaitsPaths() && !f.ReplacementHeld() {
		return "", nil
	}
	if s := f.Sealed; f.Paths == nil || s == nil || len(s.Faults) > 0 || s.Governance != f.Governance || s.Approval != f.Head.Approval {
		why := "It can't be read."
		if s != nil && len(s.Faults) > 0 {
			why = plainWord(s.Faults[0].Detail)
		}
		return "\nThe work that waits can't be delivered any more: `" + why + "` `/writ retry` has it built anew, `/writ reject` ends it.\n", nil
	}
	if c.left.held == nil {
		h, err := heldOf(ctx, i.s.deps.Repo, i.s.cfg.World, c.left.work)
		if err != nil {
			return "", err
		}
		c.left.held = h
	}
	if !f.Head.AwaitsPaths() {
		return i.acceptWords(c, c.left.held, "The revision is done, and changes guarded paths", without) + " `/writ reject` gives it up, and the change stays as it is. A `/writ refresh` waits meanwhile.\n", nil
	}
	return i.acceptWords(c, c.left.held, "The work is done, and changes guarded paths", without) + " `/writ reject` ends it.\n", nil
}

// mayWaitStill reports whether the issue says that what was asked of delivered work waits,
// and this look didn't read what people said of the change: it can't know better.
func (i *tracker) mayWaitStill(c *observation) bool {
	_, done := c.wanted()
	h := c.facts.Head
	waits := kernel.NewerAct(c.toldWait, done) && kernel.NewerAct(c.toldWait, h.Act) || h.RefreshWaits != ""
	return !c.reviewed && c.facts.Delivered() && waits
}

// asksForMore reports whether delivered work would be claimed for what somebody asks of it.
func (i *tracker) asksForMore(c *observation) bool {
	tick := c.facts
	tick.Request, tick.Issue = kernel.RequestTick, nil
	return c.facts.Delivered() && kernel.DecideOn(tick, "").Action == kernel.ActionClaim
}

// linesOf counts the lines of the change that delivers a result, nil where there is none,
// or git has lost it. Commits never change, so what was counted last is kept.
func (i *tracker) linesOf(ctx context.Context, base, change git.OID) (*report.Lines, error) {
	if base == "" || change == "" {
		return nil, nil //nolint:nilnil // there are none, which is no failure
	}
	if key := [2]git.OID{base, change}; i.counted.key == key {
		return i.counted.lines, nil
	}
	lines, err := countLines(ctx, i.s.deps.Repo, base, change)
	if err != nil && git.CodeOf(err) != git.CodeObjectMissing {
		return nil, err
	}
	i.counted = counted{[2]git.OID{base, change}, lines}
	return lines, nil
}

// counted are the lines of a change.
type counted struct {
	key   [2]git.OID
	lines *report.Lines
}

func countLines(ctx context.Context, repo Repo, base, change git.OID) (*report.Lines, error) {
	var trees [2]git.Tree
	for i, oid := range []git.OID{base, change} {
		var err error
		if trees[i], err = repo.Tree(ctx, oid); err != nil {
			return nil, err
		}
	}
	var ids []git.OID
	blobs := map[git.OID][]byte{}
	paths := git.Unequal(trees[0], trees[1])
	for _, p := range paths {
		for _, tree := range trees {
			if e, ok := tree.Find(p); ok && e.Mode != git.ModeGitlink {
				ids = append(ids, e.OID)
			}
		}
	}
	err := repo.Blobs(ctx, ids, func(oid git.OID, data []byte) error { blobs[oid] = data; return nil })
	out := &report.Lines{}
	for _, p := range paths {
		before, _ := trees[0].Find(p)
		after, _ := trees[1].Find(p)
		added, removed, ok := git.CountLines(blobs[before.OID], blobs[after.OID])
		out.Added, out.Removed = out.Added+added, out.Removed+removed
		if !ok {
			out.Uncounted++
		}
	}
	return out, err
}

// changeLink is the change that delivers the work, by its number and with its page.
func (c *observation) changeLink(ch *kernel.ChangeFacts) string {
	u, err := url.Parse(c.changeURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(c.changeURL, " <>()[]\n`") {
		return ""
	}
	word := "its change"
	if ch != nil && ch.Number > 0 {
		word = "change " + decimal(ch.Number)
	}
	return "[" + word + "](" + c.changeURL + ")"
}

// reopened reports whether the issue was put back open after a closing that took its
// approval back: whoever did so may wait for the task to begin.
func (c *observation) reopened(f *kernel.IssueFacts) bool {
	return f.Open && slices.ContainsFunc(c.facts.Human, func(v kernel.Violation) bool { return approval.IsClosing(v.Subject) })
}

// editedWords note that the issue isn't the one any more that the delivered work is for:
// an edit that came after the work was judged doesn't undo it.
func editedWords(c *observation) string {
	if c.intake == nil || !c.facts.Delivered() || c.intake.Current == c.facts.Head.Approval {
		return ""
	}
	return "\nThe issue was edited after this work was judged. The work is for the text that was approved, which stands below; for the text as it is now, open another issue.\n"
}

// haltWords say who halted the task, and what moves it on.
func (i *tracker) haltWords(ctx context.Context, c *observation) (string, error) {
	if !c.facts.View.Halted {
		return "", nil
	}
	a, err := i.haltAct(ctx)
	if err != nil {
		return "", err
	}
	by := "Halted"
	if a.Actor != "" {
		by += " by `" + plainWord(a.Actor) + "`"
	}
	return "\n" + by + ". Nothing of it runs, and commands on this issue are not answered until an operator says `writ task resume " + decimal(i.number) + "`.\n", nil
}

// partedText says that nobody works on the task for now.
func (i *tracker) partedText(c *observation) message {
	return i.headed("waits", "\nThe server that worked on it was stopped. Its run was given back: no attempt is counted, and the task goes on by itself when a server runs again.\n",
		nil, i.endText(c, report.Report{TaskID: i.number}))
}

// strangersText says that an unlisted writer has a task that is to be done.
func (i *tracker) strangersText(c *observation, f *kernel.IssueFacts) message {
	if len(f.Comments) == 0 && len(c.facts.Policy) > 0 {
		return message{}
	}
	h := c.facts.Head
	until := (h.LeaseUntil + 59_999) / 60_000 * 60 // whole minutes, so that it stays the same
	return i.headed("is held by an unlisted writer", fmt.Sprintf("\n`%s`: commit %s at `%s` is a lease, and its writer is not listed. It is waited for until `%s`, if it isn't renewed.\n\n",
		kernel.CodeLeaseHeld, c.commitLink(h.OID), plainWord(i.StateRef()), kernel.Timestamp(until))+
		"**Now:** If you know the writer, list its key in `runners` of the contract. If you don't, find out who pushed it, and delete that ref; the task goes on by itself then, at the next sweep.\n",
		[][2]string{{"held by", h.RunnerID}}, "")
}

// ofRun is the marker's line of the status comment. Where HEAD tells of no run, or only a
// person moves on from it, the comment goes on naming the run that it named: that there
// was one is what keeps a state ref that was removed or replaced from being taken for a
// new one by who has no memory of it (case L19).
func (c *observation) ofRun(m marker.Marker, f *kernel.IssueFacts) string {
	run := c.facts.Head.Run()
	if c.facts.StrangersLease() {
		run = "" // the run is nobody's
	}
	if run == "" || kernel.NeedsRepair(c.facts) {
		for _, k := range f.Comments {
			if k.Run != "" {
				run = k.Run
			}
		}
	}
	head := m.Line(marker.Status, run) + m.SeqLine(c.seqToTell())
	if kernel.NeedsRepair(c.facts) {
		head += m.DoubtLine()
	}
	return head
}

// seqToTell is the number of HEAD where it is the end of a run, so that whoever never saw
// it knows a ref that was set back from there. A lease and a wait for a rule are pushed
// anew all the time, and their run tells as much. Where HEAD doesn't count, what was told
// is kept.
func (c *observation) seqToTell() int64 {
	h := c.facts.Head
	switch {
	case !c.facts.HeadCounts():
		return c.toldSeq
	case h.State == kernel.HeadWorking, h.AwaitsRule():
		return 0
	}
	return h.Seq
}

// marked is the marker's line of a text of HEAD's run.
func (c *observation) marked(m marker.Marker, kind string) string {
	return m.Line(kind, c.facts.Head.Run())
}

const (
	waitsForRule   = "waits: a rule of the repository's server refuses its push"
	waitsForBranch = "waits: a branch is in the way of its change branch"
)

// outageText tells of a task whose server can't be asked.
func (i *tracker) outageText() message {
	o, _ := i.s.outage.of(i.number)
	return i.headed(outageHead(o), coded(o.Code(), i.worker.outageWords()), nil, "")
}

func outageHead(o Outage) string {
	switch o.Cause {
	case kernel.CodeGitBudget:
		return "waits: a limit of writ's own keeps the repository from being read"
	case kernel.CodeEnvRepository:
		return "waits: the repository's base branch isn't there"
	}
	return "waits for the repository's server"
}

// coded are words with the code that they are the cause of.
func coded(code kernel.Code, words string) string {
	return "\n`" + string(code) + "`: " + strings.TrimPrefix(words, "\n")
}

// headed is a text about a task: its outcome in a sentence, what is to be read, and folded
// what else is known of it, a line each, and below.
func (i *tracker) headed(stands, words string, lines [][2]string, below string) message {
	var b strings.Builder
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintf(&b, "- %s: `%s`\n", l[0], plainWord(l[1]))
		}
	}
	m := message{shown: fmt.Sprintf("**Writ: task %d %s.**\n%s", i.number, stands, words)}
	if b.Len()+len(below) > 0 {
		m.folded = report.Fold("Evidence", b.String()+below)
	}
	return m
}

// runText says who works on the task, and since when, or what its work waits for.
func (i *tracker) runText(c *observation) message {
	r, stands, words := i.worker.run, "is being worked on", i.worker.outageWords()
	attempt := fmt.Sprintf("%d of %d", r.attempt, r.pack.Budgets.Attempts)
	first := [][2]string{{"state", "claimed"}, {"held by", i.s.cfg.RunnerID}, {"since", kernel.Timestamp(r.claimed / 1000)}}
	switch {
	case r.again > 0:
		stands, words = waitsForRule, coded(kernel.CodePushRefused, ruleWords(r.ruling.refused[0].Detail, true))
		first = [][2]string{{"since", kernel.Timestamp(r.ruling.since / 1000)}, {"work kept by", i.s.cfg.RunnerID}}
	case i.worker.judged() && words != "":
		o, _ := i.s.outage.of(i.number)
		stands, words = outageHead(o), coded(o.Code(), words)
		first = [][2]string{{"work kept by", i.s.cfg.RunnerID}}
	case r.fixes != "":
		stands = "is verified, and its change is being revised"
		words = "\nBy builder `" + plainWord(r.pack.Spec.Builder) + "` since `" + kernel.Timestamp(r.claimed/1000) + "`, for what " + report.Counted(len(r.pack.Revision.Said), "comment") + " and `/writ fix` said. The change stays as it is until that is done.\n" + words
	case r.refreshes != "":
		stands = "is verified, and its change is being applied on the base as it is now"
		words = "\nIt is checked again there, since `" + kernel.Timestamp(r.claimed/1000) + "`. No builder runs, and the change stays as it is until that is done.\n" + words
	default:
		words = "\nAttempt " + attempt + ", by builder `" + plainWord(r.pack.Spec.Builder) + "`, since `" + kernel.Timestamp(r.claimed/1000) + "`.\n" + words
	}
	for _, note := range scopeNotes(r.pack) {
		words += fmt.Sprintf("\nNote: `%s`\n", plainWord(note))
	}
	return i.headed(stands, words, slices.Concat(first, [][2]string{
		{"attempt", attempt}, {"builder", r.pack.Spec.Builder}, {"run", r.id}, {"contract", string(r.pack.Pins.Governance)},
	}), fmt.Sprintf("- claim: %s\n- base commit: %s\n", c.commitLink(string(r.claim)), c.commitLink(r.pack.Pins.BaseCommit)))
}

// ruleText says that the task waits for a rule of the server's own. It is a function of
// HEAD, whoever has the work, and stays the same while the server says the same.
func (i *tracker) ruleText(ctx context.Context, c *observation) (message, error) {
	since, err := i.worker.ruleSince(ctx, c)
	if err != nil {
		return message{}, err
	}
	h, attempt := c.facts.Head, ""
	if h.Attempt > 0 {
		attempt = fmt.Sprintf("%d of %d", h.Attempt, c.facts.Budgets.Attempts)
	}
	stands, code, words := waitsForRule, kernel.CodePushRefused, ruleWords(ruleSaid(c.head), h.Kept)
	if slices.Contains(strings.Fields(trailer(c.event, kernel.TrailerCodes)), string(kernel.CodeBranchTaken)) {
		stands, code, words = waitsForBranch, kernel.CodeBranchTaken, branchWords(ruleSaid(c.head))
	}
	return i.headed(stands, coded(code, words)+i.worker.outageWords(), [][2]string{
		{"since", kernel.Timestamp(since / 1000)}, {"attempt", attempt}, {"run", h.Run()},
	}, ""), nil
}

// branchWords say what is in the way of done work, and what helps.
func branchWords(said string) string {
	return "\nThe work is done and kept. What keeps it from being delivered:\n\n" + report.Quoted(said) +
		"\nIt is delivered by itself once that branch is gone.\n"
}

// ruleWords say what a rule of the server is against, in its words, and what helps.
func ruleWords(said string, done bool) string {
	text := "\nThe server refuses, by a rule of its own, what is to be pushed. What it said:\n\n" + report.Quoted(cmp.Or(said, NoWords))
	if !done {
		return text + "\nNothing was started. The task is claimed again by itself, at least once an hour.\n\n" +
			"**Now:** Mend the rule or the permission that these words name, then comment `/writ retry` to have it tried at once.\n"
	}
	return text + "\nThe work is done and kept, and pushed again by itself, at least once an hour.\n\n" +
		"**Now:** Mend the rule or the permission that these words name, then comment `/writ retry` to have the work pushed at once by the installation that keeps it, or with a text after it to have it built anew.\n"
}

// NoWords stand for those of a server that gave none.
const NoWords = "(the server gave no words)"

// withInstruction adds what the builder was told, as the evidence at HEAD has it.
func (i *tracker) withInstruction(ctx context.Context, c *observation, m message) (message, error) {
	data, err := i.readFile(ctx, c.head.Tree, replay.FileDispatch)
	var told kernel.Dispatch
	if err == nil && canon.UnmarshalCanonical(data, &told) == nil && told.TaskID == i.number {
		m = m.told(told.Instruction)
	}
	return m, err
}

// told is the message with what the builder was told.
func (m message) told(instruction string) message {
	m.folded += instructionText(instruction, maxComment-markerRoom-len(m.shown)-len(m.folded))
	return m
}

// instructionText is what the builder was told, byte for byte and one click away.
// No line of it is a command of the forge: what others wrote begins with ">".
func instructionText(told string, room int) string {
	fence := fenceFor(told)
	text := report.Fold("The exact instruction", fence+"text\n"+told+fence)
	if told == "" || len(text) > room {
		return "\nThe exact instruction is in the task's evidence, in `" + replay.FileDispatch + "`.\n"
	}
	return text
}

// commitLink is a commit's id with a link to its page, which lasts, where the forge
// has one.
func (c *observation) commitLink(oid string) string {
	word := "`" + plainWord(oid) + "`"
	if c.pages == "" || oid == "" {
		return word
	}
	return "[" + word + "](" + c.pages + "/commit/" + url.PathEscape(oid) + ")"
}

// endText is what stands below a report's evidence: where it is, since when, and what
// it delivered.
func (i *tracker) endText(c *observation, r report.Report) string {
	var b strings.Builder
	if c.facts.Head.OID != "" {
		fmt.Fprintf(&b, "\n`%s` is at %s", plainWord(i.StateRef()), c.commitLink(c.facts.Head.OID))
		if at := c.headAt(); at > 0 { // a commit that is no event has no time that counts
			fmt.Fprintf(&b, " since `%s`", kernel.Timestamp(at/1000))
		}
		if most := c.facts.Budgets.Attempts; r.Attempts > 0 && most > 0 {
			fmt.Fprintf(&b, ", attempt %d of %d", r.Attempts, most)
		}
		b.WriteString(".\n")
	}
	return b.String() + c.workText(r)
}

// workText is what a report delivered, "" for nothing.
func (c *observation) workText(r report.Report) string {
	if r.ChangeCommit == "" {
		return ""
	}
	return fmt.Sprintf("\nThe work is commit %s on %s.\n", c.commitLink(r.ChangeCommit), c.commitLink(r.BaseCommit))
}

// provenText is where the evidence of HEAD's result is, wherever the state ref moves later.
func (i *tracker) provenText(c *observation) string {
	return fmt.Sprintf("\nThe evidence is commit %s of `%s`.\n", c.commitLink(c.facts.Head.OID), plainWord(i.StateRef()))
}

// changeWords say what people did with the change that a reader must know.
func (i *tracker) changeWords(c *observation, ch *kernel.ChangeFacts) string {
	branch := plainWord(i.changeBranch())
	switch {
	case ch == nil:
		return ""
	case ch.Number == 0 || ch.Old:
		if words, refused := i.refusedAt(c.facts.Head.OID)[kernel.IssueEffect{}.RefusedAs(kernel.ActionChange)]; refused {
			return "\nThe forge refused to open the change: `" + plainWord(words) + "`. The work is on the branch `" + branch + "`: open the change from it by hand, and the issue is closed.\n"
		}
		return ""
	case ch.Undone():
		return "\n" + i.againWords()
	case !ch.Open || !ch.Pushed:
		return ""
	}
	words := "\nSomebody pushed to `" + branch + "` after the verification. "
	switch r := ch.Review; {
	case i.reviewPassed(c, ch.Head) || r != nil && r.Ended && len(r.Violations) == 0:
		return words + "Scope and checks hold for " + c.commitLink(ch.Head) + ", too.\n"
	case r != nil && !r.Ended:
		return words + "The checks run again on " + c.commitLink(ch.Head) + ".\n"
	}
	return words + c.commitLink(ch.Head) + " is not what was verified; its check says what became of it.\n"
}

// againWords say how work that was turned down is done again: while its branch is there, no
// other change can be made.
func (i *tracker) againWords() string {
	return "To have it done again, delete the branch `" + plainWord(i.changeBranch()) + "`, then comment `/writ retry` and what should be different.\n"
}

// bullets are violations as a list.
func bullets(list []kernel.Violation) (text string) {
	for _, v := range list {
		text += bullet(v)
	}
	return text
}

// bullet is a violation as an item of a list.
func bullet(v kernel.Violation) string {
	about := ""
	if v.Subject != "" {
		about = " `" + plainWord(v.Subject) + "`"
	}
	return fmt.Sprintf("- `%s`%s: %s\n", v.Code, about, plainWord(v.Detail))
}

// plainWord keeps what can't end a code span or a line.
func plainWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '`' || r < ' ' || r == 0x7f || r > 0x7e && r < 0xa0 {
			return '.'
		}
		return r
	}, s)
}

// reportText renders a report so that it fits. words are to be read in any case.
func (i *tracker) reportText(c *observation, r report.Report, a report.Around, words string) message {
	shown := r.Comment(a) + words
	return message{shown, r.Evidence(maxComment-markerRoom-len(shown), i.endText(c, r))}
}

// markerRoom is left for the marker.
const markerRoom = 1_000

// alertOf is what an alert is about, so that there is one of each: the run that HEAD
// tells of, or the HEAD that waits for a person.
func (c *observation) alertOf() string {
	if kernel.NeedsRepair(c.facts) {
		return "repair-" + resumedAt(c.facts.Head.OID)
	}
	return c.facts.Head.Run()
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// queuedText says why a task waits that could be claimed, once for each act; nothing where it
// has room. What is asked of delivered work is told with the link to its change.
func (i *tracker) queuedText(c *observation, f *kernel.IssueFacts) message {
	words := i.worker.waitWords()
	at, unsaid := c.waitsSince(f)
	if words == "" || !unsaid || c.clock.WallMs < at+queuedAfter {
		return message{}
	}
	act, _ := c.wanted()
	stands, then := "is approved, and waits for its turn", "It starts by itself."
	if c.facts.Delivered() {
		stands, then = "is verified, and what was asked of its change waits for its turn", "That starts by itself, and the change stays as it is until then."
		if link := c.changeLink(f.Change); link != "" {
			stands += " (" + link + ")"
		}
	}
	m := i.headed(stands, "\n"+words+" "+then+"\n", nil, "")
	m.shown = i.marker().WaitLine(plainWord(act)) + m.shown
	return m
}
