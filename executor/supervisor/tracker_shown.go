package supervisor

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// readForge takes what the issue shows. Where the request is to move it, it also
// composes what it is to show: the facts of one effect.
func (i *tracker) readForge(ctx context.Context, c *observation, seen *approval.Facts) error {
	if seen == nil {
		return nil
	}
	f := i.shown(c, seen)
	c.shown = f
	for _, a := range approval.Commands(*seen) {
		i.asked = max(i.asked, a.Comment)
	}
	if c.request != kernel.RequestTell {
		return nil
	}
	c.facts.Issue = f
	if f.Gone {
		return nil
	}
	if c.noBase != nil {
		i.tellNoBase(c, f)
		return nil //nolint:nilerr // the issue is told of it
	}
	var err error
	if f.Change, err = i.readChange(ctx, c); err != nil {
		return err
	}
	c.turnedDown = f.Change.Undone()
	if c.facts.Merged() {
		if c.waited, err = i.readWaited(ctx, c); err != nil {
			return err
		}
	}
	tick := c.facts
	tick.Request, tick.Issue, tick.Refresh, tick.Fix = kernel.RequestTick, nil, nil, nil
	stands := kernel.DecideOn(tick, "")
	if err := i.readCommands(ctx, c, f, seen, stands); err != nil {
		return err
	}
	return i.compose(ctx, c, f, stands)
}

// headAt is the committer time of HEAD in Unix milliseconds, as far as it can be.
func (c *observation) headAt() int64 {
	return c.task.dated(c, c.event.CommitterSeconds, c.facts.Head.OID)
}

// shown is what the issue shows of writ's.
func (i *tracker) shown(c *observation, seen *approval.Facts) *kernel.IssueFacts {
	// A change is no issue of a task's, whoever says so: nothing is said on it as if it were.
	f := &kernel.IssueFacts{Gone: seen.Issue.ID == 0 || seen.Issue.IsChange, HeadAt: c.headAt()}
	c.pages = pagesOf(seen.Issue.URL)
	if f.Gone {
		return f
	}
	f.Open = seen.Issue.State == forge.Open
	v := approval.Judge(*seen)
	if v.Closing != nil {
		f.ClosedBy = closedBy(v.Closing.Class)
	}
	f.PutBack = putBack(*seen, v.Act.At)
	f.Reopened = reopened(*seen)
	f.Labels, f.Touched = stateLabels(*seen)
	f.Refused = slices.Sorted(maps.Keys(i.refusedAt(c.facts.Head.OID)))
	f.Alert = len(c.intake.notify) > 0
	marks := i.marker()
	own := ownComments(*seen)
	c.said = marks.repliesOn(own)
	f.Doubles = c.said.doubles
	told := false
	for _, k := range own {
		if run, ok := marks.status(k.Body); ok {
			told = told || strings.Contains(k.Body, "task_final_state: ")
			f.Comments = append(f.Comments, kernel.CommentFacts{ID: k.ID, Run: run, Digest: textDigest(k.Body)})
			c.toldWait = marks.waits(k.Body)
		}
		if run, ok := marks.alert(k.Body); ok && run == c.alertOf() {
			f.Alerts++
		}
	}
	c.ended = told
	f.See = i.reactionOwed(c, f)
	f.Others = i.othersTell(c, f, told)
	return f
}

// pagesOf is where the pages of an issue's repository are, "" where its own page
// doesn't tell: commits are found beside issues.
func pagesOf(issue string) string {
	u, err := url.Parse(issue)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(issue, " <>()[]\n`") {
		return ""
	}
	for _, beside := range []string{"/issues", "/work_items"} {
		if at := strings.LastIndex(issue, beside); at > 0 {
			return issue[:at]
		}
	}
	return ""
}

func (m marker) alert(text string) (run string, ok bool) { return m.find("alert", text) }

// reactionOwed is the reaction to the label that approved the task, until the status
// comment answers it, or this process has tried: doing it again would change nothing, but
// cost the forge a request.
func (i *tracker) reactionOwed(c *observation, f *kernel.IssueFacts) (owed string) {
	i.s.locked(func() {
		if len(f.Comments) > 0 || !approval.IsLabel(c.facts.Act) {
			delete(i.s.seenActs, i.number)
		} else if i.s.seenActs[i.number] != c.facts.Act {
			owed = string(forge.ReactionSeen)
		}
	})
	return owed
}

// othersRetry is how long past its due time a retry is left to the installation that
// owes it, in milliseconds: longer than an update or a restart of it takes.
const othersRetry = 3_600_000

// othersTell reports whether the issue is another installation's to tell of. A
// forged HEAD is not such: no status comment of writ's account is of a run that this
// installation doesn't know, unless another one wrote it. Nor is one whose end isn't
// told: its disk may be lost, and then nobody else says why the task stands still.
// The same holds of a retry that is long due.
func (i *tracker) othersTell(c *observation, f *kernel.IssueFacts, told bool) (is bool) {
	h := c.facts.Head
	if _, ended := kernel.TaskStateOf(h.State); ended && h.State != string(kernel.TaskWaiting) && !told {
		return c.intake.unlisted
	}
	if h.State == string(kernel.TaskRetryPending) && c.clock.WallMs > f.HeadAt+c.intake.Budgets.RetryBackoffMaxMs+othersRetry {
		return c.intake.unlisted
	}
	if c.intake.unlisted || h.Trust != kernel.TrustUnlisted || h.Run() == "" || len(f.Comments) == 0 || f.Comments[0].Run != h.Run() {
		return c.intake.unlisted
	}
	i.s.locked(func() { is = !i.s.world.Dispatched(h.Run()) })
	return is
}

func closedBy(c approval.Class) string {
	switch c {
	case approval.BySelf:
		return kernel.ClosedBySelf
	case approval.ByBot:
		return kernel.ClosedByBot
	}
	return kernel.ClosedByPerson
}

// ownComments are those of writ's account, the oldest first.
func ownComments(f approval.Facts) []forge.Comment {
	var out []forge.Comment
	for _, k := range f.Comments {
		if k.Author.ID == f.Self.ID {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b forge.Comment) int { return int(min(max(a.ID-b.ID, -1), 1)) })
	return out
}

// other reports whether an event was not writ's doing. With a person's token that
// can't be told, and what the account did counts as writ's.
func other(e forge.Event, self forge.User) bool { return e.Actor.ID != self.ID }

// reopened reports whether somebody put the issue back open after writ had closed
// it for its result. A closing before the label of the result was set belongs to
// something earlier. A person's token closes and reopens for the person, too.
func reopened(f approval.Facts) bool {
	closed, is := false, false
	for _, e := range f.History {
		mine := !other(e, f.Self)
		switch {
		case e.Kind == forge.EventLabeled && e.Label == kernel.LabelCompleted && mine:
			closed, is = false, false
		case e.Kind == forge.EventClosed && mine:
			closed, is = true, false
		case e.Kind == forge.EventReopened && closed && (!mine || f.Self.Kind == forge.Person):
			is = true
		}
	}
	return is
}

// putBack counts how often writ has put the issue back open since a time.
func putBack(f approval.Facts, since int64) (n int64) {
	for _, e := range f.History {
		if e.Kind == forge.EventReopened && !other(e, f.Self) && e.At.UnixMilli() >= since {
			n++
		}
	}
	return n
}

// stateLabels are writ's labels on the issue, and those that somebody else set or
// took off last.
func stateLabels(f approval.Facts) (labels, touched []string) {
	for _, l := range kernel.StateLabels() {
		if slices.Contains(f.Issue.Labels, l) {
			labels = append(labels, l)
		}
		for _, e := range slices.Backward(f.History) {
			if e.Label != l || e.Kind != forge.EventLabeled && e.Kind != forge.EventUnlabeled {
				continue
			}
			if other(e, f.Self) {
				touched = append(touched, l)
			}
			break
		}
	}
	return labels, touched
}

// baseBranch is the short name of the branch that work is for.
func (in *Intake) baseBranch() string { return strings.TrimPrefix(in.BaseRef, "refs/heads/") }

// changeBranch is the short name of the change branch.
func (i *tracker) changeBranch() string { return strings.TrimPrefix(i.ChangeRef(), "refs/heads/") }

// textDigest is the digest of a comment's text, of which forges change line ends
// and the white space at its end.
func textDigest(text string) canon.Digest {
	return canon.Sum([]byte(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))))
}

// lookUpForge stages the outcome of effects on the issue that were unknown: what
// the forge shows now decides. Where it wasn't read, nobody knows; it is read
// before the effect is tried again, so that isn't doubled either.
func (i *tracker) lookUpForge(c *observation) {
	for _, o := range i.s.world.UnknownIntents(i.number) {
		if !o.Intent.Effect.OnForge() {
			continue
		}
		out := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: o.Intent.Key, Effect: o.Intent.Effect,
			Status: kernel.OutcomeFailed, Code: kernel.CodeEffectUnknown, Detail: "the issue is read before it is tried again"}
		if c.shown != nil && shows(*c.shown, c.said, o.Intent) {
			out.Status, out.Code, out.Detail = kernel.OutcomeDone, "", ""
		}
		c.stage(kernel.KindOutcome, o.Run, out)
	}
}

// shows reports whether the issue shows an effect. A reaction can't be looked up,
// but giving it again changes nothing.
func shows(f kernel.IssueFacts, said replies, i kernel.Intent) bool {
	switch i.Effect {
	case kernel.ActionComment, kernel.ActionRevise:
		return slices.ContainsFunc(f.Comments, func(k kernel.CommentFacts) bool { return k.Digest == i.Digest })
	case kernel.ActionUncomment:
		return !slices.ContainsFunc(f.Comments, func(k kernel.CommentFacts) bool { return decimal(k.ID) == i.New }) &&
			!slices.ContainsFunc(f.Doubles, func(id int64) bool { return decimal(id) == i.New })
	case kernel.ActionAnswer:
		id, err := strconv.ParseInt(i.New, 10, 64)
		return err == nil && (said.told[id] || said.explained >= id)
	case kernel.ActionAlert:
		return f.Alerts > 0
	case kernel.ActionLabel:
		return slices.Contains(f.Labels, i.Ref)
	case kernel.ActionUnlabel:
		return !slices.Contains(f.Labels, i.Ref)
	case kernel.ActionClose:
		return !f.Open
	case kernel.ActionReopen:
		return f.Open
	case kernel.ActionChange, kernel.ActionAmend:
		return f.Change != nil && f.Change.Number > 0
	}
	return false
}

// awaitedResult is a result at HEAD that awaitedResult for the merge of its change: what its tree
// holds, and its report.
type awaitedResult struct {
	entries []git.Entry
	report  report.Report
}

// readWaited reads the result at HEAD. A merge that can't be reported is no end of the
// task: it is looked at again.
func (i *tracker) readWaited(ctx context.Context, c *observation) (*awaitedResult, error) {
	tree, err := i.s.deps.Repo.Tree(ctx, c.head.Tree)
	if err != nil {
		return nil, err
	}
	r, ok, err := i.worker.reportAt(ctx, c.head)
	if err == nil && !ok {
		err = &executor.Error{Code: kernel.CodeEvidenceInvalid, Detail: "the report at HEAD, " + c.facts.Head.OID + ", can't be read"}
	}
	return &awaitedResult{tree.Entries, r}, err
}

const (
	// maxAnswers bounds the commands that are answered in one look at the issue.
	maxAnswers = 8
	// maxUnknown bounds for how many authors of commands the forge is asked only
	// to answer them.
	maxUnknown = 10
)

// wording is the answer to a command, as it is to be written.
type wording struct {
	text string // with its marker
	edit int64  // own comment that it replaces, 0 for a new one
}

// replies are what writ has answered on the issue in words.
type replies struct {
	told      map[int64]bool // commands with an answer of their own
	explained int64          // the command that the explanation was last written for
	comment   int64          // that holds it, 0 for none
	doubles   []int64        // comments that say again what an older one says
}

// repliesOn reads them off writ's own comments, the oldest first.
func (m marker) repliesOn(own []forge.Comment) replies {
	out := replies{told: map[int64]bool{}}
	for _, k := range own {
		if id, ok := m.number("answer", k.Body); ok {
			if out.told[id] {
				out.doubles = append(out.doubles, k.ID)
			}
			out.told[id] = true
		}
		if id, ok := m.number("explain", k.Body); ok {
			if out.comment != 0 {
				out.doubles = append(out.doubles, k.ID)
				continue
			}
			out.comment, out.explained = k.ID, id
		}
	}
	return out
}

// number is the comment that a reply is to.
func (m marker) number(kind, text string) (int64, bool) {
	word, ok := m.find(kind, text)
	id, err := strconv.ParseInt(word, 10, 64)
	return id, ok && err == nil
}

// readCommands takes what commands are owed an answer, and composes it.
func (i *tracker) readCommands(ctx context.Context, c *observation, f *kernel.IssueFacts, seen *approval.Facts, stands kernel.Decision) error {
	now := c.clock.WallMs
	for n, account := range approval.Unknown(i.unanswered(c, *seen), now) {
		if n == maxUnknown {
			break
		}
		if err := (&forgeIssues{s: i.s, number: i.number}).askAbout(ctx, seen, account); err != nil {
			return err
		}
	}
	list := i.unanswered(c, *seen)
	i.stopAsked(list)
	explain := int64(0)
	for _, a := range list {
		if a.May && !a.OnChange && a.Command.Verb == approval.Explain {
			explain = max(explain, a.Comment)
		}
	}
	c.replies, c.outdone, c.anewSince = map[int64]wording{}, map[int64]bool{}, seen.AnewSince()
	for _, a := range approval.Owed(approval.Commands(*seen), now) {
		if len(f.Commands) == maxAnswers {
			break
		}
		if a.Command.Verb == approval.Accept {
			if a.May = c.mayAccept(seen, a); a.May {
				if goesOn, err := i.goesOnWithSealed(ctx, c); err != nil {
					return err
				} else if goesOn {
					continue // what it accepts is being gone on with, or will be
				}
			}
		}
		if a.Command.Verb == approval.Fix && !c.reviewed && i.worker.run == nil && c.facts.Delivered() {
			continue // the next look knows more
		}
		answered := c.facts.View.Answered.Has(a.Comment)
		if answered && c.said.told[a.Comment] || !a.May && !i.s.heard(a.Author.ID, a.Comment) {
			continue
		}
		outdone, err := i.outdone(ctx, c, a)
		if err != nil {
			return err
		}
		if answered && !outdone && !i.givenUp(c, a) {
			continue
		}
		c.outdone[a.Comment] = outdone
		owed := i.answer(c, a, stands, explain)
		owed.Late = answered
		f.Commands = append(f.Commands, owed)
	}
	return nil
}

// stopAsked ends a review that runs where a person who may says `/writ stop`. Of a
// live run it is a request of its own.
func (i *tracker) stopAsked(list []approval.Asked) {
	for _, a := range list {
		if a.May && !a.OnChange && a.Command.Fault == "" && a.Command.Verb == approval.Stop && i.worker.run == nil {
			i.stopReview(a.Author.Login)
		}
	}
}

// goesOnWithSealed reports whether a run goes on with sealed work, or was to and was cut off:
// what was accepted of it is no more at HEAD, and not yet delivered.
func (i *tracker) goesOnWithSealed(ctx context.Context, c *observation) (bool, error) {
	if r := i.worker.run; r != nil {
		return r.resumes != "", nil
	}
	switch h := c.facts.Head; {
	case !h.Trusted():
		return false, nil
	case h.State == kernel.HeadWorking:
		return trailer(c.event, kernel.TrailerResumes) != "", nil
	case h.State != kernel.HeadStalled:
		return false, nil
	}
	tree, err := i.s.deps.Repo.Tree(ctx, c.head.Tree) // of the lease that was broken or given back
	if err != nil {
		return false, gitTrouble(err)
	}
	return slices.ContainsFunc(tree.Entries, func(e git.Entry) bool { return e.Path == sealed.File }), nil
}

// mayAccept reports whether who asks to accept guarded paths has the permission for it,
// which is another one than the trigger's.
func (c *observation) mayAccept(seen *approval.Facts, a approval.Asked) bool {
	least, err := forge.ParsePermission(c.intake.accept)
	return err == nil && a.Author.Kind == forge.Person && seen.Permissions[a.Author.ID] >= least
}

// givenUp reports whether a command asks for something with delivered work that was never
// begun, and isn't by now: whoever was answered that it counts is told why it doesn't. A stop
// speaks for itself.
func (i *tracker) givenUp(c *observation, a approval.Asked) bool {
	f := c.facts
	if i.worker.run != nil || !f.Delivered() || c.turnedDown || f.StopSeen() != "" || a.ID == f.Head.RefreshAct {
		return false
	}
	return f.Refresh != nil && f.Refresh.Act == a.ID && len(f.RefusesRefresh()) > 0 || f.Fix != nil && f.Fix.Act == a.ID && len(f.RefusesFix()) > 0
}

// unanswered are the commands on the issue that this installation hasn't answered.
func (i *tracker) unanswered(c *observation, seen approval.Facts) []approval.Asked {
	return slices.DeleteFunc(approval.Commands(seen), func(a approval.Asked) bool { return c.facts.View.Answered.Has(a.Comment) })
}

// answer composes the answer to one command. Of several that ask for an
// explanation the newest gets it.
func (i *tracker) answer(c *observation, a approval.Asked, stands kernel.Decision, explain int64) kernel.CommandFacts {
	reaction, words := i.wordsFor(c, a, stands)
	out := kernel.CommandFacts{Comment: a.Comment, Reaction: string(reaction)}
	m := i.marker()
	r := wording{text: m.line("answer", decimal(a.Comment)) + words}
	out.Told = c.said.told[a.Comment]
	if a.Command.Verb == approval.Explain && reaction == forge.ReactionDone {
		r = wording{text: m.line("explain", decimal(a.Comment)) + words, edit: c.said.comment}
		out.Told = c.said.explained >= a.Comment || a.Comment != explain
	}
	if words != "" {
		out.Want = textDigest(r.text)
		c.replies[a.Comment] = r
	}
	return out
}

// wordsFor is what a command is answered: a reaction, and words where it can't be
// seen from the task what became of it.
func (i *tracker) wordsFor(c *observation, a approval.Asked, stands kernel.Decision) (forge.Reaction, string) {
	head := c.facts.Head
	switch cmd := a.Command; {
	case !a.May:
		return forge.ReactionRefused, ""
	case a.OnChange && cmd.Verb != approval.Fix:
		return forge.ReactionConfused, "On the change of a task `/writ fix` alone counts. Say everything else here, on the issue.\n"
	case cmd.Verb == approval.Stop && i.tooLateFor(c, a):
		return forge.ReactionConfused, "Nothing was stopped: the result came first. " + i.resultWords(c)
	case cmd.Verb == approval.Stop && cmd.Loose:
		return forge.ReactionDone, "Read as `/writ stop`. What else the line says counts for nothing.\n"
	case a.Edited && cmd.Verb != approval.Stop:
		return forge.ReactionConfused, "A comment that was edited is no command, for whoever edited it need not be who wrote it. Write a new one.\n"
	case cmd.Fault != "":
		return forge.ReactionConfused, "That is no command. " + cmd.Fault + "\n\n" + helpText
	case cmd.Verb == approval.Help:
		return forge.ReactionDone, helpText
	case cmd.Verb == approval.Explain:
		return forge.ReactionDone, report.Explain(i.number, stands) + i.approveLine(c, stands)
	case cmd.Verb == approval.Stop:
		return forge.ReactionDone, ""
	case cmd.Verb == approval.Accept:
		return i.acceptAnswer(c, a)
	case cmd.Verb == approval.Refresh:
		return i.refreshAnswer(c, a)
	case cmd.Verb == approval.Fix:
		return i.fixAnswer(c, a)
	case cmd.Verb == approval.Approve && cmd.Digest != c.facts.Current:
		return forge.ReactionConfused, "That is not the digest of the text as it is now. Read it, then comment this line:\n\n" + approveWords(c)
	case a.ID == c.facts.Act && slices.Contains(stands.Codes, kernel.CodeApprovalUnproven):
		return forge.ReactionConfused, "" // the status comment has the line that approves
	case c.facts.Delivered() && c.turnedDown && cmd.Verb != approval.Retry:
		return forge.ReactionConfused, "Its work was turned down, and only `/writ retry` moves on from that. " + i.againWords()
	case (cmd.Verb == approval.Run || cmd.Verb == approval.Approve) && c.facts.Delivered() && !c.turnedDown && kernel.NewerAct(c.anewSince, head.Act) && kernel.NewerAct(a.ID, c.anewSince):
		return forge.ReactionDone, "The stop is over. The work stands as it was delivered, and what was asked of it before isn't begun again: ask for it once more.\n"
	case c.facts.AwaitsMerge() && !c.turnedDown && kernel.NewerAct(a.ID, head.Act):
		return forge.ReactionConfused, "The work is verified and waits for the merge of its change. To have other work instead, close the change unmerged first. " + i.againWords()
	case c.facts.Delivered() && !c.turnedDown && kernel.NewerAct(a.ID, head.Act):
		return forge.ReactionConfused, "The task is completed, and what is completed is not done again. While its change is open, `/writ fix` has that revised; else file another issue for what is missing.\n"
	case stands.WaitingFor == kernel.WaitRepair && cmd.Verb != approval.Retry:
		return forge.ReactionConfused, "The task waits for repair; the status comment says why. Only `/writ retry` moves it on.\n"
	}
	return forge.ReactionDone, ""
}

// anewText says how something is asked of delivered work once it was stopped.
const anewText = "\nComment `/writ run`, which approves the task anew, and then ask for it again.\n"

// refreshAnswer is what somebody is answered who asks for a refresh.
func (i *tracker) refreshAnswer(c *observation, a approval.Asked) (forge.Reaction, string) {
	h, r := c.facts.Head, c.facts.Refresh
	switch {
	case c.said.told[a.Comment]:
		return forge.ReactionConfused, "" // it was said why, and doesn't count any more
	case h.RefreshAct == a.ID, r != nil && kernel.NewerAct(r.Act, a.ID):
		return forge.ReactionDone, ""
	case c.turnedDown:
		return forge.ReactionConfused, "Its work was turned down, and only `/writ retry` moves on from that. " + i.againWords()
	case h.AwaitsPaths() || i.worker.run != nil && i.worker.run.refreshes+i.worker.run.fixes == "" || !c.facts.Delivered() && i.worker.run == nil:
		return forge.ReactionConfused, "There is no delivered change yet that could be applied on the base as it is now.\n"
	case i.worker.run != nil && i.worker.run.fixes != "":
		return forge.ReactionDone, "" // it comes next
	case i.worker.run != nil:
		return forge.ReactionConfused, "It is being applied on the base already, by an earlier command.\n"
	case r == nil:
		return forge.ReactionDone, "" // a later HEAD took it in
	}
	why := c.facts.RefusesRefresh()
	if len(why) == 0 {
		return forge.ReactionDone, ""
	}
	text := "The change stays as it is:\n\n"
	conflict := false
	for _, v := range why {
		text += bullet(v)
		conflict = conflict || v.Code == kernel.CodeBaseMoved
	}
	if c.facts.StopSeen() != "" {
		text += anewText
	}
	if conflict {
		text += "\nMerge it by hand and look at what comes of it. " + i.adaptWords(c) + "Or close the change unmerged. " + i.againWords()
	}
	return forge.ReactionConfused, text
}

// acceptAnswer is what somebody is answered who accepts.
func (i *tracker) acceptAnswer(c *observation, a approval.Asked) (forge.Reaction, string) {
	p, why := c.facts.Paths, c.facts.RefusesReplacement()
	switch {
	case trailer(c.event, kernel.TrailerAccepts) == a.ID:
		return forge.ReactionDone, ""
	case p != nil && a.Command.Digest == p.Digest && len(why) > 0:
		return forge.ReactionConfused, "It isn't delivered, and the change stays as it is:\n\n" + bullets(why)
	case p != nil && !p.Held() && a.Command.Digest == p.Digest:
		return forge.ReactionDone, ""
	case p == nil && !c.facts.Head.AwaitsPaths():
		return forge.ReactionConfused, "Nothing waits for that: no work of this task waits for its guarded paths.\n"
	}
	return forge.ReactionConfused, "That is not the digest of what waits now. The status comment shows what does, and the line that accepts it.\n"
}

// fixAnswer is what somebody is answered who asks for a revision.
func (i *tracker) fixAnswer(c *observation, a approval.Asked) (forge.Reaction, string) {
	h, f := c.facts.Head, c.facts.Fix
	const newer = "A newer `/writ fix` counts instead, for all comments together. Its own text is the one that is told.\n"
	switch {
	case c.said.told[a.Comment]:
		return forge.ReactionConfused, "" // it was said why, and doesn't count any more
	case c.outdone[a.Comment]:
		return forge.ReactionConfused, newer
	case h.RefreshAct == a.ID, i.worker.run != nil && i.worker.run.refreshAct != "":
		return forge.ReactionDone, ""
	case c.turnedDown:
		return forge.ReactionConfused, "Its work was turned down, and only `/writ retry` moves on from that. " + i.againWords()
	case h.AwaitsPaths() || i.worker.run != nil || !c.facts.Delivered():
		return forge.ReactionConfused, "There is no delivered change yet that could be revised.\n"
	case f == nil || kernel.NewerAct(h.RefreshAct, a.ID):
		return forge.ReactionDone, "" // a later HEAD took it in
	case f.Act != a.ID:
		return forge.ReactionConfused, newer
	}
	why := c.facts.RefusesFix()
	if len(why) == 0 {
		return forge.ReactionDone, ""
	}
	text := "The change stays as it is:\n\n"
	text += bullets(why) + bullets(f.Left)
	if c.facts.StopSeen() != "" {
		text += anewText
	}
	return forge.ReactionConfused, text
}

// tooLateFor reports whether a stop came to a result that git has, and stopped neither a review
// of what was pushed to its change nor what waits for its guarded paths.
func (i *tracker) tooLateFor(c *observation, a approval.Asked) (is bool) {
	i.s.locked(func() { is = i.s.stopped[i.number] == nil })
	return is && c.facts.Delivered() && !c.facts.Paths.Held() && !c.turnedDown && kernel.NewerAct(a.ID, c.facts.Head.Act)
}

// resultWords say what becomes of a result that nobody stopped.
func (i *tracker) resultWords(c *observation) string {
	if c.facts.AwaitsMerge() {
		return "The work waits for the merge of its change; close that unmerged to turn the work down.\n"
	}
	return "The task is completed.\n"
}

// approveWords is the line that approves the text as it is now.
func approveWords(c *observation) string {
	return fmt.Sprintf("```\n/writ approve %s\n```\n", c.facts.Current)
}

// approveLine says how the text as it is now can be approved, where the task waits
// for that, and is "" elsewhere.
func (i *tracker) approveLine(c *observation, stands kernel.Decision) string {
	wanted := stands.WaitingFor == kernel.WaitApproval || slices.ContainsFunc(stands.Codes, func(k kernel.Code) bool {
		return k == kernel.CodeInstructionChanged || k == kernel.CodeApprovalUnproven
	})
	if !i.remote || !wanted || i.worker.run != nil || !c.facts.Current.Valid() {
		return ""
	}
	return "\nTo approve the text as it is now, read it and comment this line:\n\n" + approveWords(c)
}

// helpText lists what can be said.
const helpText = `What a maintainer can say, in the first line of a comment:

| line | what it does |
|---|---|
| ` + "`/writ run`" + ` | approves the issue's text as it is now, and starts |
| ` + "`/writ retry`" + ` | the same; also moves on from a task that is blocked or waits for repair |
| ` + "`/writ retry TEXT`" + ` | the same, and the builder is given TEXT beside the issue |
| ` + "`/writ stop`" + ` | stops the run and takes back every approval so far |
| ` + "`/writ approve DIGEST`" + ` | approves the text with this digest, which writ names where it asks |
| ` + "`/writ accept DIGEST`" + ` | accepts what waits for that with this digest: changed paths that are guarded |
| ` + "`/writ reject`" + ` | turns such work down; like ` + "`/writ stop`" + ` |
| ` + "`/writ refresh`" + ` | applies the delivered change on the base as it is now, and checks it again there; nothing is built |
| ` + "`/writ fix TEXT`" + ` | has the delivered change revised for what people said of it; also on the change itself, and without TEXT |
| ` + "`/writ explain`" + ` | says why the task stands as it does, and what would move it on |
| ` + "`/writ help`" + ` | shows this |
`
