package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

const (
	// keptFor is how long what the issue showed may be gone by while it is being
	// moved, in milliseconds. HEAD is read before each effect all the same.
	keptFor = 10_000
	// lookEvery is how often a run looks at its issue where somebody says at once
	// that there is something to see, in milliseconds.
	lookEvery = 300_000
)

// kept is what the issue showed at the start of a pass that moves it, and what the
// pass has done since: each effect would else cost the forge four requests. An
// effect that didn't come about, or whose answer was lost, ends it.
type kept struct {
	facts  approval.Facts
	full   bool          // authority and target were asked, too
	change *forge.Change // nil where it wasn't looked for
	at     int64         // Clock.BootMs
	since  bool          // something was done since it was read
	live   bool          // a look that held a run read it
}

// serves reports whether a request may go by what is kept: one that moves the issue,
// and the first one after a run has ended.
func (k *kept) serves(t *Task, c *cycle, terms Terms) bool {
	if k == nil || !k.full && !terms.Brief || c.clock.BootMs-k.at >= keptFor {
		return false
	}
	if c.request == kernel.RequestTell {
		return t.telling
	}
	return k.live && t.quiet && t.run == nil && c.request == kernel.RequestTick
}

// askIssue reads the issue, or takes what is kept of it.
func (t *Task) askIssue(ctx context.Context, c *cycle, terms Terms) (Issue, error) {
	f, remote := t.issues.(*forgeIssues)
	if k := t.kept; remote && k.serves(t, c, terms) {
		facts := k.facts
		facts.Trigger, facts.Prior, facts.Live = terms.Trigger, terms.Prior, terms.Live
		return f.judged(facts, terms), nil
	}
	t.kept = nil
	issue, err := t.issues.Issue(ctx, terms)
	if err == nil {
		t.nameIssue(issue.seen)
	}
	if err == nil && remote && issue.seen.Issue.ID != 0 {
		t.kept = &kept{facts: *issue.seen, full: !terms.Brief, at: c.clock.BootMs, live: t.run != nil && c.request == kernel.RequestTick}
		t.looked = c.clock.BootMs
	}
	return issue, err
}

// findChange finds the change of the task's branch, or takes what is kept of it.
func (t *Task) findChange(ctx context.Context, base string) (forge.Change, error) {
	if t.telling && t.kept != nil && t.kept.change != nil {
		return *t.kept.change, nil
	}
	p := t.s.deps.Forge
	found, err := p.Client.FindChange(ctx, p.Repo, t.changeBranch(), base)
	if err == nil && t.kept != nil {
		t.kept.change = &found
	}
	return found, err
}

// moved takes an effect that was done into what is kept of the issue.
func (t *Task) moved(c *cycle, a kernel.Action, e kernel.IssueEffect) {
	k := t.kept
	if k == nil {
		return
	}
	k.since = true
	issue := &k.facts.Issue
	switch a {
	case kernel.ActionReopen:
		issue.State = forge.Open
		k.happened(c, forge.EventReopened, "")
	case kernel.ActionClose:
		issue.State = forge.Closed
		k.happened(c, forge.EventClosed, "")
	case kernel.ActionLabel:
		issue.Labels = append(slices.Clone(issue.Labels), e.Label)
		k.happened(c, forge.EventLabeled, e.Label)
	case kernel.ActionUnlabel:
		issue.Labels = slices.DeleteFunc(slices.Clone(issue.Labels), func(l string) bool { return l == e.Label })
		k.happened(c, forge.EventUnlabeled, e.Label)
	case kernel.ActionUncomment:
		k.facts.Comments = slices.DeleteFunc(slices.Clone(k.facts.Comments), func(x forge.Comment) bool { return x.ID == e.Target })
	case kernel.ActionComment, kernel.ActionRevise, kernel.ActionAlert, kernel.ActionAnswer:
		k.wrote(c.wrote)
	case kernel.ActionChange, kernel.ActionAmend:
		k.change = nil
	}
}

// happened adds what writ did to the history.
func (k *kept) happened(c *cycle, kind forge.EventKind, label string) {
	e := forge.Event{ID: 1, Kind: kind, Actor: k.facts.Self, Label: label, At: time.UnixMilli(c.clock.WallMs)}
	if n := len(k.facts.History); n > 0 {
		e.ID = k.facts.History[n-1].ID + 1
	}
	k.facts.History = append(slices.Clip(k.facts.History), e)
}

// wrote takes a comment in, as it is now.
func (k *kept) wrote(w forge.Comment) {
	list := slices.Clone(k.facts.Comments)
	at := slices.IndexFunc(list, func(x forge.Comment) bool { return x.ID == w.ID })
	if at < 0 {
		list = append(list, w)
	} else {
		list[at].Body = w.Body
	}
	k.facts.Comments = list
}
