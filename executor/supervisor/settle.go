package supervisor

import (
	"context"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// push is one effect on refs: an explicit compare-and-swap of the state ref and
// perhaps of the change branch, all or none.
type push struct {
	key    string
	action kernel.Action
	cmds   []git.Command // the state ref's first
	pack   git.Pack
	won    func() // what this process then knows
}

func (p *push) from() git.OID { return p.cmds[0].Old }
func (p *push) to() git.OID   { return p.cmds[0].New }

// attempts at settling an unknown push before the tick is given up for now.
const settleTries = 3

// do pushes and settles what it can: an unknown answer is looked up, and the
// very same objects are pushed again, never others for the same expectation
// (cases L6, L7).
func (t *Task) do(ctx context.Context, p *push) kernel.Outcome {
	out := t.s.deps.Repo.CompareAndSwap(ctx, p.cmds, p.pack)
	for try := 0; out.Status == git.Unknown && try < settleTries; try++ {
		out = t.lookUp(ctx, p)
	}
	o := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: p.key, Effect: p.action, Detail: out.Reason}
	switch out.Status {
	case git.Won:
		o.Status = kernel.OutcomeDone
		p.won()
	case git.Lost:
		o.Status, o.Code = kernel.OutcomeLost, kernel.CodeLeaseLost
	case git.Refused:
		o.Status, o.Code = kernel.OutcomeRefused, kernel.CodePushRefused
	case git.Unknown:
		o.Status, o.Code = kernel.OutcomeUnknown, kernel.CodeEffectUnknown
		t.pending = p
	default:
		o.Status, o.Code = kernel.OutcomeFailed, kernel.CodeForgeUnreachable
	}
	if o.Detail == "" && out.Err != nil {
		o.Detail = out.Err.Error()
	}
	return o
}

// lookUp reads the ref again. Where it hasn't moved, the same push is repeated.
// That the repetition never left says nothing about the push before it, which
// may still arrive: unknown stays unknown.
func (t *Task) lookUp(ctx context.Context, p *push) git.Outcome {
	refs, err := t.s.deps.Repo.Refs(ctx, p.cmds[0].Ref)
	if err != nil {
		return git.Outcome{Status: git.Unknown, Err: err}
	}
	switch plain(refs.OID(p.cmds[0].Ref)) {
	case plain(p.to()):
		return git.Outcome{Status: git.Won, AlreadyApplied: true}
	case plain(p.from()):
		out := t.s.deps.Repo.Reassert(ctx, p.cmds, p.pack)
		if out.Status == git.Unsent {
			out.Status = git.Unknown
		}
		return out
	}
	return git.Outcome{Status: git.Lost, Reason: "HEAD is another commit"}
}

// settle closes an own push whose answer was lost, before anything is observed.
// Its outcome becomes a record of the next request.
func (t *Task) settle(ctx context.Context, c *cycle) error {
	p := t.pending
	if p == nil {
		return nil
	}
	o := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: p.key, Effect: p.action}
	switch out := t.lookUp(ctx, p); out.Status {
	case git.Won:
		o.Status = kernel.OutcomeDone
		p.won()
	case git.Lost:
		o.Status, o.Code = kernel.OutcomeLost, kernel.CodeLeaseLost
	case git.Refused:
		o.Status, o.Code, o.Detail = kernel.OutcomeRefused, kernel.CodePushRefused, out.Reason
	default:
		return ErrUnsettled
	}
	t.pending, c.answer = nil, &o
	t.noteRefusal(&o)
	return nil
}
