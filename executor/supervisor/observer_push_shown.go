package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// hiddenMost is how long a push may be hidden, by a replica that lags, of which nobody
// has the bytes to make it again. Then the task goes on from HEAD as it is.
const hiddenMost = 2 * time.Minute

// shows holds the refs against the last push of ours that won. Until a look shows all
// that it brought, that is only the server's word: a replica may lag, and a server may
// have lied or failed over. Nothing is decided meanwhile. From the second such look on,
// the very same objects are pushed again where they lack, which is won, and looked at
// anew at once, or lost to whoever came first. A result that a rule refuses now is kept and
// waits for the rule. What else a rule refuses, nobody has any more, or a person took back
// is given up: nobody set the task back, and it goes on from what is there.
func (o *observer) shows(ctx context.Context, c *observation, refs git.Refs) error {
	p, err := o.worker.lastWon(ctx, refs)
	if p == nil || err != nil {
		return err
	}
	c.last = p
	lacks := p.lacks(refs)
	switch {
	case len(lacks) == 0:
		o.worker.confirm()
		return nil
	case lacks[0].Ref != o.StateRef():
		return nil // HEAD shows it: see readMissing
	}
	words := "the server said that the push of " + string(p.to()) + " won, and HEAD doesn't show it"
	now := o.s.now()
	switch {
	case o.halted() && !(p.result() && c.request == kernel.RequestStop):
		return nil // it is made again once a person takes the halt back
	case c.again:
		return &UnsettledError{words}
	case p.hidden == 0:
		o.worker.hide(p, max(now.BootMs, 1))
		return &UnsettledError{words}
	case len(p.pack.Data) == 0 && now.BootMs-p.hidden < hiddenMost.Milliseconds():
		return &UnsettledError{words}
	case len(p.pack.Data) == 0:
		o.log().Warn("a push that the server had acknowledged is lost, and nothing is kept of it", "commit", string(p.to()))
		o.worker.unseen = nil
		return nil
	}
	return o.pushAgain(ctx, c, p, refs, lacks, words)
}

// pushAgain pushes what the refs lack of a push of ours that won; words say that it does.
func (o *observer) pushAgain(ctx context.Context, c *observation, p *push, refs git.Refs, lacks []git.Command, words string) error {
	now := o.s.now()
	switch err := o.mayReturn(ctx, c, p, refs); {
	case errors.Is(err, errTakenBack):
		o.worker.unseen = nil
		return nil
	case p.owed != nil && now.WallMs < p.owed.Due:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnsettled, err)
	}
	o.log().Warn("a push that the server had acknowledged is made again", "commit", string(p.to()), "lacking", lacks[0].Ref)
	again := *p
	again.cmds = lacks
	out := o.worker.denied(ctx, &again, o.s.deps.Repo.Reassert(ctx, lacks, p.pack))
	p.owed = nil
	if out.Status == git.Refused && !p.bare && (p.result() || !out.Account) {
		o.log().Warn("a push that the server had acknowledged is lost, and refused now", "commit", string(p.to()), "words", out.Reason)
		if !p.result() {
			o.worker.unseen = nil
			return nil
		}
		p.owed = &kernel.OwedFacts{
			Due:     now.WallMs + ruleSoon.Milliseconds(),
			Refused: []kernel.Violation{{Code: kernel.CodePushRefused, Subject: lacks[0].Ref, Detail: out.Reason}},
		}
		return nil
	}
	c.again = out.Status == git.Won
	if reason := cmp.Or(out.Reason, errorText(out.Err)); reason != "" {
		words += ": " + reason
	}
	return &UnsettledError{words}
}

// lacks are the commands of a push whose refs still are where it found them. Where
// somebody has moved the state ref on, nothing is owed to it.
func (p *push) lacks(refs git.Refs) (list []git.Command) {
	if head := plain(refs.OID(p.cmds[0].Ref)); head != plain(p.from()) && head != plain(p.to()) {
		return nil
	}
	for _, c := range p.cmds {
		if plain(refs.OID(c.Ref)) == plain(c.Old) {
			list = append(list, c)
		}
	}
	return list
}

// mayReturn is why a push that was acknowledged and lost isn't made again, nil where it is:
// [worker.mayRepeat] of a task without a run.
func (o *observer) mayReturn(ctx context.Context, c *observation, p *push, refs git.Refs) error {
	switch {
	case p.result() && c.request == kernel.RequestStop:
		return errTakenBack
	case p.result() && o.worker.isStopping():
		return errActFirst
	case !p.accepted || !o.remote:
		return nil
	}
	trigger, err := o.triggerOf(ctx, p, refs)
	if err != nil {
		return err
	}
	var act string
	o.s.locked(func() { act = o.view().Act })
	issue, err := o.worker.askAgain(ctx, Terms{Trigger: trigger, Prior: act, Live: act})
	if err == nil && len(issue.Human) > 0 {
		err = errTakenBack
	}
	return err
}

// triggerOf says whose word approves, for a result that was lost: the contract that it was
// dispatched under, which lies beside the lease, whatever became of the one on the base.
func (o *observer) triggerOf(ctx context.Context, p *push, refs git.Refs) (contract.Trigger, error) {
	under, err := o.s.deps.Repo.Commit(ctx, p.from())
	if err != nil {
		return contract.Trigger{}, err
	}
	data, err := o.readFile(ctx, under.Tree, replay.FileContract)
	if err != nil {
		return contract.Trigger{}, err
	}
	if c, _, faults := contract.Load(data, contract.Source{Name: replay.FileContract}); len(faults) == 0 {
		return c.Trigger, nil
	}
	terms, err := o.readTerms(ctx, refs)
	return terms.contract.Trigger, err
}
