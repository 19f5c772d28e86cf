package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// push is one effect on refs: an explicit compare-and-swap of the state ref and
// perhaps of the change branch, all or none.
type push struct {
	key       string
	action    kernel.Action
	cmds      []git.Command // the state ref's first
	pack      git.Pack
	seq       int64             // of the state commit
	bare      bool              // no blob is in it: no rule about contents can be against it
	stored    bool              // it brings work that only our store has
	keeps     bool              // it says that judged work waits, which is kept if it is refused
	unshelves bool              // once it is shown, what the store keeps of the task is of no more use
	of        string            // action, run and text, which stay the same while what it brings does
	won       func()            // what this process then knows
	failed    func()            // what it knows where the server didn't take it; nil for nothing
	repair    string            // HEAD that a person moved on from by it; "" for none, see [resumedAt]
	hidden    int64             // when a look first didn't show it, though it won, Clock.BootMs; 0 for never
	before    *lease.Tenure     // of a renewal: what the run had without it
	owed      *kernel.OwedFacts // of a result that was lost, and that a rule refuses now
	accepted  bool              // it brings work that was accepted
}

func (p *push) from() git.OID { return p.cmds[0].Old }
func (p *push) to() git.OID   { return p.cmds[0].New }

// attempts at settling an unknown push before the tick is given up for now.
const settleTries = 3

// do pushes and settles what it can: an unknown answer is looked up, and the
// very same objects are pushed again, never others for the same expectation
// (cases L6, L7), unless a person's word changes what is to be done.
func (w *worker) do(ctx context.Context, req kernel.Request, p *push) kernel.Outcome {
	if p.result() {
		w.setDelivering(true)
	}
	out := w.push(ctx, p)
	answered := out.Status != git.Unknown
	tries := settleTries
	if w.s.outage.rest(w.s.now()) > 0 {
		tries = 0 // one try, for all tasks
	}
	for try := 0; out.Status == git.Unknown && try < tries; try++ {
		next, kept := w.lookUp(ctx, req, p)
		if kept != nil {
			break // the next look settles it
		}
		out = next
	}
	out = w.doubted(ctx, p, w.denied(ctx, p, out))
	w.judgedBy(p, &out)
	o := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: p.key, Effect: p.action, Detail: out.Reason}
	switch out.Status {
	case git.Won:
		o.Status = kernel.OutcomeDone
		w.took(p)
	case git.Lost:
		o.Status, o.Code = kernel.OutcomeLost, kernel.CodeLeaseLost
	case git.Refused:
		o.Status, o.Code = kernel.OutcomeRefused, kernel.CodePushRefused
	case git.Unable:
		o.Status, o.Code = kernel.OutcomeUnable, unableCode(out.Err)
	case git.Unknown:
		o.Status, o.Code = kernel.OutcomeUnknown, kernel.CodeEffectUnknown
		w.pending = p
	default:
		o.Status, o.Code = kernel.OutcomeFailed, kernel.CodeForgeUnreachable
	}
	if out.Status == git.Unable || out.Status == git.Unknown {
		w.unable(cmp.Or(out.Reason, errorText(out.Err)), true, out.Space)
	}
	if answered {
		w.forgetPush(p, out.Status)
	}
	if o.Detail == "" && out.Err != nil {
		o.Detail = out.Err.Error()
	}
	return o
}

// lookUp reads the refs again. Where HEAD hasn't moved, what lacks of the push is
// pushed again, or kept says why not: see [worker.mayRepeat].
// That the repetition never left says nothing about the push before it, which
// may still arrive: unknown stays unknown.
func (w *worker) lookUp(ctx context.Context, req kernel.Request, p *push) (out git.Outcome, kept error) {
	refs, err := w.refsOf(ctx, p)
	if err != nil {
		return git.Outcome{Status: git.Unknown, Err: err}, nil //nolint:nilerr // the outcome has it
	}
	switch plain(refs.OID(p.cmds[0].Ref)) {
	case plain(p.to()):
		return git.Outcome{Status: git.Won, AlreadyApplied: true}, nil
	case plain(p.from()):
		if kept = w.mayRepeat(ctx, req, p); kept != nil {
			return git.Outcome{}, kept
		}
		out = w.denied(ctx, p, w.s.deps.Repo.Reassert(ctx, p.left(refs), p.pack))
		if out.Status == git.Unable {
			out.Status = git.Unknown
		}
		return out, nil
	}
	return git.Outcome{Status: git.Lost, Reason: "HEAD is another commit"}, nil
}

// settle closes an own push whose answer was lost, before anything is observed.
// Its outcome becomes a record of the next request. Of a halted task nothing is pushed
// again, nor is what a person took back: what HEAD shows is what became of it, as after a
// crash. What is decided instead is pushed onto the same commit, and whichever of the two
// the server takes counts.
func (w *worker) settle(ctx context.Context, c *observation) error {
	p := w.pending
	if p == nil {
		return nil
	}
	if w.halted() {
		w.giveUp()
		return nil
	}
	out, kept := w.lookUp(ctx, c.request, p)
	switch {
	case errors.Is(kept, errTakenBack):
		w.giveUp()
		return nil
	case kept != nil:
		return fmt.Errorf("%w: %w", ErrUnsettled, kept)
	}
	o := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: p.key, Effect: p.action}
	switch out.Status {
	case git.Won:
		o.Status = kernel.OutcomeDone
		w.took(p)
	case git.Lost:
		o.Status, o.Code = kernel.OutcomeLost, kernel.CodeLeaseLost
	case git.Refused:
		w.judgedBy(p, &out)
		if out.Status == git.Unable {
			return &UnsettledError{cmp.Or(out.Reason, errorText(out.Err))}
		}
		o.Status, o.Code, o.Detail = kernel.OutcomeRefused, kernel.CodePushRefused, out.Reason
	default:
		return &UnsettledError{cmp.Or(out.Reason, errorText(out.Err))}
	}
	w.giveUp()
	c.answer = &o
	w.noteRefusal(&o, p)
	return nil
}

// giveUp forgets the push that is to be settled.
func (w *worker) giveUp() {
	w.pending = nil
}

// ErrUnsettled says that a push of ours may still be applied by the server:
// nothing else may be tried until it is settled. The tick stays due.
var ErrUnsettled = errors.New("supervisor: the outcome of an own push is still unknown")

// UnsettledError is [ErrUnsettled], with what the server said.
type UnsettledError struct{ Words string }

func (e *UnsettledError) Error() string {
	if e.Words == "" {
		return ErrUnsettled.Error()
	}
	return ErrUnsettled.Error() + ": " + e.Words
}

// Is makes it an ErrUnsettled.
func (e *UnsettledError) Is(target error) bool { return target == ErrUnsettled }

// pushed wraps a push as an effect. Its key is the new commit: no two effects
// share one, for every state commit bears a run id or a parent of its own.
func (w *worker) pushed(c *cycle, run string, p *push, drafts ...kernel.Draft) *effect {
	p.action = c.decision.Action
	p.key = string(p.action) + ":" + string(p.to())
	if c.facts.Repairs() {
		p.repair = resumedAt(c.facts.Head.OID)
	}
	p.of = string(p.action) + ":" + c.facts.Head.Run() + ":" + string(c.facts.Approved)
	digest := canon.Sum(p.pack.Data)
	return &effect{
		drafts: drafts, run: run, push: p,
		intent: kernel.Intent{
			Kind: string(kernel.KindIntent), Key: p.key, Effect: p.action, Digest: digest,
			Ref: p.cmds[0].Ref, Old: plain(p.from()), New: string(p.to()), Seq: p.seq,
		},
		do: func(ctx context.Context) kernel.Outcome { return w.do(ctx, c.request, p) },
	}
}
