package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

const (
	// keptFor is how long what the issue showed may be gone by while it is being
	// moved, in milliseconds. HEAD is read before each effect all the same.
	keptFor = 10_000
	// staleAfter is when refs that were read are read again before a pass ends by them, in
	// milliseconds: as long as an effect takes.
	staleAfter = 1000
	// lookEvery is how often a run looks at its issue where somebody says at once
	// that there is something to see, in milliseconds.
	lookEvery = 300_000
)

// kept is what the issue showed at the start of a pass that moves it, and what the
// pass has done since: each effect would else cost the forge four requests. An
// effect that didn't come about, or whose answer was lost, ends it.
type kept struct {
	facts  approval.Facts
	full   bool                  // authority and target were asked, too
	change *forge.Change         // nil where it wasn't looked for
	said   []forge.ReviewComment // of that change; nil where it wasn't read
	at     int64                 // Clock.BootMs
	since  bool                  // something was done since it was read
	live   bool                  // a look that held a run read it
	refs   *readRefs             // for the next look; nil once one took them, or something was pushed
}

// serves reports whether a request may go by what is kept: one that moves the issue,
// and the first one after a run has ended.
func (k *kept) serves(i *tracker, c *observation, terms Terms) bool {
	if k == nil || !k.full && !terms.Brief || c.clock.BootMs-k.at >= keptFor {
		return false
	}
	if c.request == kernel.RequestTell {
		return i.worker.telling
	}
	return k.live && i.quiet && i.worker.run == nil && c.request == kernel.RequestTick
}

// askIssue reads the issue, or takes what is kept of it.
func (i *tracker) askIssue(ctx context.Context, c *observation, terms Terms) (Issue, error) {
	f, remote := i.issues.(*forgeIssues)
	if k := i.kept; remote && k.serves(i, c, terms) {
		facts := k.facts
		facts.Trigger, facts.Prior, facts.Live = terms.Trigger, terms.Prior, terms.Live
		return f.judged(facts, terms), nil
	}
	i.kept = nil
	issue, err := i.issues.Issue(ctx, terms)
	if err == nil {
		i.nameIssue(issue.seen)
	}
	if err == nil && remote && issue.seen.Issue.ID != 0 {
		i.kept = &kept{facts: *issue.seen, full: !terms.Brief, at: c.clock.BootMs, live: i.worker.run != nil && c.request == kernel.RequestTick}
		i.looked = c.clock.BootMs
	}
	return issue, err
}

// readRefs are the refs as they were read for a look, or right before an effect.
type readRefs struct {
	git.Refs
	at    int64 // Clock.BootMs
	stale bool  // an effect was done since, or it is some time ago
	taken bool  // they were kept
}

// takeRefs are the refs that are kept for a look of the pass that moves the issue, nil where
// there are none. No effect on the issue rests on them alone: HEAD and the world's acts are
// read before each, and all of them when the pass ends. A push is a compare-and-swap.
func (i *tracker) takeRefs(c *observation) *readRefs {
	k := i.kept
	if k == nil || k.refs == nil || c.request != kernel.RequestTell || !i.worker.telling || c.clock.BootMs-k.at >= keptFor {
		return nil
	}
	refs := *k.refs
	refs.stale, refs.taken = refs.stale || c.clock.BootMs-refs.at >= staleAfter, true
	k.refs = nil
	return &refs
}

// keepRefs keeps the refs that a look has read for the next one.
func (i *tracker) keepRefs(c *observation) {
	if i.kept != nil && !c.refs.taken {
		i.kept.refs = c.refs
	}
}

// dropRefs has the next look read the refs.
func (i *tracker) dropRefs() {
	if i.kept != nil {
		i.kept.refs = nil
	}
}

// nameIssue keeps which of the forge's issues this one is.
func (sj *subject) nameIssue(seen *approval.Facts) {
	if seen == nil || seen.Issue.ID == 0 {
		return
	}
	var created int64
	if at := seen.Issue.CreatedAt; !at.IsZero() {
		created = at.Unix()
	}
	sj.issueName = kernel.IssueName(seen.Issue.ID, created)
}

// findChange finds the change of the task's branch, or takes what is kept of it.
func (i *tracker) findChange(ctx context.Context, base string) (forge.Change, error) {
	if i.worker.telling && i.kept != nil && i.kept.change != nil {
		return *i.kept.change, nil
	}
	p := i.s.deps.Forge
	found, err := p.Client.FindChange(ctx, p.Repo, i.changeBranch(), base)
	if err == nil && i.kept != nil {
		i.kept.change = &found
	}
	return found, err
}

// readReviews finds the change of the task's branch, a zero one where there is none, and
// what people said of it while it is open. read is false where nobody asked the forge: who
// moves the issue goes by what the look before it read, and the first look after a run by
// what the run's last one read.
func (i *tracker) readReviews(ctx context.Context, c *observation) (found forge.Change, said []forge.ReviewComment, read bool, err error) {
	k := i.kept
	switch {
	case k != nil && i.worker.run == nil && (k.live || c.request == kernel.RequestTell):
		if k.said == nil || k.change == nil {
			return found, nil, false, nil
		}
		return *k.change, k.said, true, nil
	case c.request == kernel.RequestTell:
		return found, nil, false, nil
	}
	found, err = i.findChange(ctx, c.intake.baseBranch())
	if forge.IsReason(err, forge.NotFound) {
		return forge.Change{}, nil, true, nil
	}
	said = []forge.ReviewComment{}
	if p := i.s.deps.Forge; err == nil && found.State == forge.ChangeOpen {
		said, err = p.Client.ReviewComments(ctx, p.Repo, found.Number)
	}
	if err != nil && !forge.Passing(err) {
		i.say("what was said of the change can't be read: %v", err)
		return found, nil, false, nil
	}
	if err == nil && i.kept != nil {
		i.kept.said = append([]forge.ReviewComment{}, said...)
	}
	return found, said, true, err
}

// moved takes an effect that was done into what is kept of the issue, with the refs as they
// were right before it.
func (i *tracker) moved(c *cycle, a kernel.Action, e kernel.IssueEffect, refs git.Refs) {
	k := i.kept
	if k == nil {
		return
	}
	k.since, k.refs = true, &readRefs{Refs: refs, at: c.clock.BootMs, stale: true}
	issue := &k.facts.Issue
	switch a {
	case kernel.ActionReopen:
		issue.State = forge.Open
		k.happened(&c.observation, forge.EventReopened, "")
	case kernel.ActionClose:
		issue.State = forge.Closed
		k.happened(&c.observation, forge.EventClosed, "")
	case kernel.ActionLabel:
		issue.Labels = append(slices.Clone(issue.Labels), e.Label)
		k.happened(&c.observation, forge.EventLabeled, e.Label)
	case kernel.ActionUnlabel:
		issue.Labels = slices.DeleteFunc(slices.Clone(issue.Labels), func(l string) bool { return l == e.Label })
		k.happened(&c.observation, forge.EventUnlabeled, e.Label)
	case kernel.ActionUncomment:
		k.facts.Comments = slices.DeleteFunc(slices.Clone(k.facts.Comments), func(x forge.Comment) bool { return x.ID == e.Target })
	case kernel.ActionComment, kernel.ActionRevise, kernel.ActionAlert, kernel.ActionAnswer:
		k.wrote(c.wrote)
	case kernel.ActionChange, kernel.ActionAmend:
		k.change = nil
	}
}

// happened adds what writ did to the history.
func (k *kept) happened(c *observation, kind forge.EventKind, label string) {
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
