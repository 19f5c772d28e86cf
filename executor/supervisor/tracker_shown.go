package supervisor

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/report"
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

// waited is a result at HEAD that waited for the merge of its change: what its tree
// holds, and its report.
type waited struct {
	entries []git.Entry
	report  report.Report
}

// readWaited reads the result at HEAD. A merge that can't be reported is no end of the
// task: it is looked at again.
func (i *tracker) readWaited(ctx context.Context, c *observation) (*waited, error) {
	tree, err := i.s.deps.Repo.Tree(ctx, c.head.Tree)
	if err != nil {
		return nil, err
	}
	r, ok, err := i.worker.reportAt(ctx, c.head)
	if err == nil && !ok {
		err = &executor.Error{Code: kernel.CodeEvidenceInvalid, Detail: "the report at HEAD, " + c.facts.Head.OID + ", can't be read"}
	}
	return &waited{tree.Entries, r}, err
}
