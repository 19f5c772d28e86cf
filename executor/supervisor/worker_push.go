package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/pushed"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/world"
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
	before    *lease.Deadlines  // of a renewal: what the run had without it
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

func unableCode(err error) kernel.Code {
	if git.CodeOf(err) == git.CodeUnreachable {
		return kernel.CodeForgeUnreachable
	}
	return kernel.CodeForgeUnable
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

// pushEffect wraps a push as an effect. Its key is the new commit: no two effects
// share one, for every state commit bears a run id or a parent of its own.
func (w *worker) pushEffect(c *cycle, run string, p *push, drafts ...kernel.Draft) *effect {
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

// errTakenBack says that a person's word is against pushing a result again.
var errTakenBack = errors.New("supervisor: a person took back what would be pushed again")

// errActFirst says that a person's act is to be carried out first.
var errActFirst = errors.New("supervisor: a person's act comes before what would be pushed again")

// mayRepeat is why a push whose answer was lost isn't made again, nil where it is. A
// result isn't, once a person has stopped or halted the task or has taken the approval
// back on the issue, which is read before accepted work is pushed again. What he did there
// is kept with the run. An edit takes back nothing that is judged, as ever.
func (w *worker) mayRepeat(ctx context.Context, req kernel.Request, p *push) error {
	switch {
	case !p.delivers():
		return nil
	case req == kernel.RequestHalt, req == kernel.RequestStop && p.result():
		return errTakenBack
	case req != kernel.RequestStop && w.isStopping():
		return errActFirst
	}
	r := w.run
	if !p.accepted || r == nil {
		return nil
	}
	issue, err := w.askAgain(ctx, Terms{Trigger: r.intake.trigger, Prior: r.act, Live: r.act})
	if err != nil {
		return err
	}
	if len(issue.Human) > 0 {
		r.heeded = Issue{Act: issue.Act, Human: issue.Human}
		return errTakenBack
	}
	if r.waitsAtHead() && w.beganAnew(r, issue) {
		return errTakenBack
	}
	return nil
}

// askAgain reads what persons did on the issue, before a result is pushed again. What is
// no issue on a forge has nothing of the kind.
func (w *worker) askAgain(ctx context.Context, terms Terms) (Issue, error) {
	if !w.remote {
		return Issue{}, nil
	}
	terms.Brief = true
	issue, err := w.issues.Issue(forge.Urgent(ctx), terms)
	if err != nil {
		return Issue{}, fmt.Errorf("the issue can't be read: %w", err)
	}
	return issue, nil
}

// delivers reports whether a push moves the task on for good.
func (p *push) delivers() bool {
	switch p.action {
	case kernel.ActionResult, kernel.ActionComplete, kernel.ActionRedeliver:
		return true
	}
	return false
}

func (w *worker) setDelivering(on bool) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.delivering = on
}

// unsettledResult reports whether the server left the push of a result without an answer,
// or took it and no look has shown it.
func unsettledResult(pending, unseen *push) bool {
	return pending != nil && pending.result() || unseen != nil && unseen.result()
}

// Unsettled reports what a stop of the task would meet though nothing of it runs: a result that
// was pushed, and of which nobody knows yet what became, for it has no answer or no look has
// shown it; or work that is judged and that the server couldn't take yet.
func (s *Supervisor) Unsettled(number int64) (onItsWay, undelivered bool) {
	s.locked(func() {
		if t := s.open[number]; t != nil {
			t.worker.guard.Lock()
			defer t.worker.guard.Unlock()
			onItsWay, undelivered = t.worker.delivering, t.worker.undelivered
		} else if p := s.parked[number]; p != nil {
			onItsWay, undelivered = unsettledResult(p.pending, p.unseen), p.run != nil
		}
	})
	return onItsWay, undelivered
}

// push makes a push. What it brings is kept before, and a repair is said before, so that
// whoever is killed after it was won has both.
func (w *worker) push(ctx context.Context, p *push) git.Outcome {
	if err := w.sayRepair(ctx, p); err != nil {
		return git.Outcome{Status: git.Unable, Err: err}
	}
	w.keepPush(ctx, p)
	return w.s.deps.Repo.CompareAndSwap(ctx, p.cmds, p.pack)
}

// keepPush keeps what a push brings, for the day that the forge loses it. What can't be
// kept isn't: the push is what counts.
func (w *worker) keepPush(ctx context.Context, p *push) {
	if w.s.deps.Pushes == nil || p.action == kernel.ActionRedeliver {
		return
	}
	one := pushed.Push{Pack: p.pack.Data}
	for _, c := range p.cmds {
		one.Moves = append(one.Moves, pushed.Move{Ref: c.Ref, Old: plain(c.Old), New: plain(c.New)})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shelfTime)
	defer cancel()
	if err := w.s.deps.Pushes.Keep(ctx, w.number, w.s.now().WallMs, one); err != nil {
		w.log().Warn("a push is not kept in the store; it can't be put back from there", "error", err)
	}
}

// forgetPush forgets a push that the server didn't take. One that was lost may have gone
// through all the same, where the request was sent twice on its way. What stays by
// mistake is on no way to a commit that was seen, and ages.
func (w *worker) forgetPush(p *push, answer git.Status) {
	if w.s.deps.Pushes == nil || answer != git.Refused && answer != git.Unable {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shelfTime)
	defer cancel()
	if err := w.s.deps.Pushes.Forget(ctx, w.number, string(p.to())); err != nil {
		w.log().Warn("a push that came to nothing stays in the store", "error", err)
	}
}

// sayRepair records on the ref of the world's acts that a person moved on from a state
// that was set back, removed or somebody else's: the number of the commit that follows
// settles it for every listed installation, and the act says to all of them who looked
// at what. Where that ref refuses, the repair goes on: the ledger has the person's act.
// The error is that the server doesn't answer, as it wouldn't to the push.
func (w *worker) sayRepair(ctx context.Context, p *push) error {
	if p.repair == "" || w.s.deps.Acts == nil {
		return nil
	}
	said, err := w.resumption(ctx)
	if err != nil {
		return err
	}
	now := w.s.now().WallMs
	_, err = w.s.deps.Acts.Append(ctx, worldref.Act{
		Act: worldref.Repair, Actor: said.Actor, Time: now,
		// The epoch tells this repair from an earlier one of the same, for another reason
		// is another act.
		Reason: fmt.Sprintf("task %d, resume %d: %s", w.number, said.Epoch, said.Reason),
		Refs:   []worldref.Mark{{Ref: p.cmds[0].Ref, Head: p.repair}},
	}, worldref.Writer{Signer: w.s.deps.Signer, Name: w.s.cfg.Name, Email: w.s.cfg.Email})
	if err == nil && w.s.deps.Fault != nil {
		w.s.deps.Fault(RepairSaid)
	}
	var refused *worldref.Error
	if errors.As(err, &refused) && refused.Code != kernel.CodeForgeUnreachable {
		w.log().Warn("a repair is not recorded on the ref of the world's acts", "ref", w.s.deps.Acts.Ref(), "code", string(refused.Code), "error", refused.Detail)
		return nil
	}
	return err
}

// resumption is the last act by which a person moved on.
func (w *worker) resumption(ctx context.Context) (last kernel.OperatorAct, err error) {
	err = w.s.eachAct(ctx, w.number, func(a kernel.OperatorAct) {
		if a.Act == kernel.ActResume {
			last = a
		}
	}, func() {})
	return last, err
}

// eachAct goes through what persons did to a task, and through the looks at it between.
func (s *Supervisor) eachAct(ctx context.Context, number int64, act func(kernel.OperatorAct), look func()) error {
	for r, err := range s.deps.Ledger.RecordsOfTask(ctx, number) {
		if err != nil {
			return err
		}
		switch r.Kind {
		case kernel.KindObservation:
			look()
		case kernel.KindOperatorAct:
			var a kernel.OperatorAct
			if err := canon.UnmarshalCanonical(r.Body, &a); err != nil {
				return err
			}
			act(a)
		}
	}
	return nil
}

// PutBack records that a person puts the commit that was seen last back onto the task's
// ref, after the forge lost it. Said again before anybody looked, it is the same act.
func (s *Supervisor) PutBack(ctx context.Context, number int64, actor, reason string) error {
	turn := s.turn(number)
	turn.Lock()
	defer turn.Unlock()
	head, said := s.View(number).Seen, false
	err := s.eachAct(ctx, number, func(a kernel.OperatorAct) { said = a.Act == kernel.ActPutBack && a.Head == head }, func() { said = false })
	if err != nil || said {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.act(ctx, number, kernel.OperatorAct{Act: kernel.ActPutBack, Actor: actor, Reason: reason, Head: head})
}

// took takes in that the server said that a push won. What HEAD then shows is
// looked at before anything else is done.
func (w *worker) took(p *push) {
	p.won()
	p.hidden = 0
	if p.action == kernel.ActionRedeliver {
		return // the next look shows the branch, or lacks it again
	}
	w.unseen = p
	w.locked, w.lapsed = locked{}, ""
	if p.action != kernel.ActionHeartbeat {
		w.bare, w.untaken = false, untaken{}
	}
	w.tooLate(p)
	switch {
	case p.action != kernel.ActionClaim && p.action != kernel.ActionHeartbeat && p.action != kernel.ActionSeal:
	case w.run == nil:
		w.lapsed = p.to() // it was given up while the answer was waited for
	case w.run.due.Overdue(w.s.now()):
		w.guard.Lock()
		w.run.late = true
		w.guard.Unlock()
	}
}

// tooLate looks at a renewal whose answer came after the renew deadline had killed what ran: the run
// is over, as if the lease were, and nothing of it failed.
func (w *worker) tooLate(p *push) {
	w.guard.Lock()
	defer w.guard.Unlock()
	r := w.run
	if r != nil && p.before != nil && p.before.Overdue(w.s.now()) && (r.phase == kernel.PhaseBuilding || r.phase == kernel.PhaseChecking) {
		r.due = *p.before
	}
}

// result reports whether a push brings what was judged.
func (p *push) result() bool { return p.action == kernel.ActionResult }

// hide notes that a look didn't show a push. A renewal that nobody sees renews nothing, and
// is followed by another once it is shown.
func (w *worker) hide(p *push, at int64) {
	p.hidden = at
	w.guard.Lock()
	defer w.guard.Unlock()
	r := w.run
	if r == nil {
		return
	}
	r.hidden = true
	if p.before != nil && r.head == p.to() {
		r.due = *p.before
	}
}

// confirm notes that a look showed a push, or what somebody else did since.
func (w *worker) confirm() {
	p := w.unseen
	if p == nil {
		return // somebody else's was there before, and still is
	}
	if w.unseen = nil; p.unshelves {
		w.unshelve()
	}
	if p.hidden == 0 && p.action != kernel.ActionClaim && p.action != kernel.ActionTakeOver { // the server keeps up
		if w.lagged = (lagCount{}); w.run != nil {
			w.run.hidden = false
		}
	}
	w.s.wake(w.s.outage.won(w.number, p.to()))
}

// unshelve drops what the store keeps of the task. What stays there by mistake is of a
// run that HEAD doesn't name any more, and is never used.
func (w *worker) unshelve() {
	if w.s.deps.Shelf == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shelfTime)
	defer cancel()
	if err := w.s.deps.Shelf.Drop(ctx, w.number); err != nil {
		w.log().Warn("sealed work stays in the store", "error", err)
	}
}

// lastWon is the last push of ours that won and that no look has shown; nil for none.
// What a process doesn't remember the ledger does, and where HEAD isn't another's by now,
// what is kept of it is needed. A push whose answer a dead process didn't hear won, too,
// where some of its refs show it: the others lack.
func (w *worker) lastWon(ctx context.Context, refs git.Refs) (*push, error) {
	if w.unseen != nil {
		return w.unseen, nil
	}
	head := plain(refs.OID(w.StateRef()))
	var u world.Unshown
	unheard := false
	w.s.locked(func() {
		task, _ := w.s.world.Task(w.number)
		u = task.Unshown
		for _, o := range w.s.world.UnknownIntents(w.number) {
			if i := o.Intent; u.New == "" && i.New != "" && i.Effect != kernel.ActionRedeliver && !i.Effect.OnForge() && (head == i.Old || head == i.New) {
				u, unheard = world.Unshown{Old: i.Old, New: i.New}, true
			}
		}
	})
	p := &push{cmds: []git.Command{{Ref: w.StateRef(), Old: git.OID(u.Old), New: git.OID(u.New)}}}
	switch {
	case u.New == "":
		return nil, nil //nolint:nilnil // there is none, which is no failure
	case head != u.Old && head != u.New:
		return p, nil
	case w.s.deps.Pushes == nil:
		if !unheard {
			w.unseen = p
		}
		return w.unseen, nil
	}
	err := w.readKept(ctx, p)
	if left := p.left(refs); err == nil && unheard && (len(left) == 0 || len(left) == len(p.cmds)) {
		return nil, nil //nolint:nilnil // HEAD tells what became of it
	}
	if err == nil {
		w.unseen = p
	}
	return p, err
}

// left are the commands of a push that the refs don't show.
func (p *push) left(refs git.Refs) []git.Command {
	return slices.DeleteFunc(slices.Clone(p.cmds), func(c git.Command) bool { return refs.OID(c.Ref) == c.New })
}

// readKept takes a push from the store: all its commands and its bytes, or nothing where
// it isn't there, or our key or the world is another by now.
func (w *worker) readKept(ctx context.Context, p *push) error {
	way, _, err := w.s.deps.Pushes.Since(ctx, w.number, plain(p.from()), string(p.to()))
	if err != nil || len(way) != 1 {
		return err
	}
	objs := git.NewObjects()
	if err := objs.AgainPack(way[0].Pack); err != nil {
		w.log().Warn("what the store has of a push is damaged", "commit", string(p.to()), "error", err)
		return nil
	}
	head, err := objs.Added(p.to())
	if err != nil || !w.ownNow(head) {
		return nil //nolint:nilerr // it can't be made again
	}
	if p.action, err = w.actionOf(ctx, p.to()); err != nil {
		return err
	}
	if ev, err := eventOf(head, false); err == nil && p.result() {
		p.accepted = kernel.Judgement{State: kernel.TaskState(ev.State), WaitingFor: trailer(ev, kernel.TrailerWaitingFor)}.Accepted()
	}
	for _, m := range way[0].Moves[1:] {
		p.cmds = append(p.cmds, git.Command{Ref: m.Ref, Old: git.OID(m.Old), New: git.OID(m.New)})
	}
	p.pack, p.bare = objs.Pack(), objs.Bare()
	return nil
}

// actionOf is what a commit was pushed for, as its intent says.
func (w *worker) actionOf(ctx context.Context, commit git.OID) (action kernel.Action, err error) {
	for r, err := range w.s.deps.Ledger.RecordsOfTask(ctx, w.number) {
		if err != nil {
			return "", err
		}
		if r.Kind != kernel.KindIntent {
			continue
		}
		var i kernel.Intent
		if err := canon.UnmarshalCanonical(r.Body, &i); err != nil {
			return "", err
		}
		if i.New == string(commit) {
			action = i.Effect
		}
	}
	return action, nil
}

// ownNow reports whether a state commit would count as ours if it were at HEAD.
func (w *worker) ownNow(head git.Commit) bool {
	acts := w.s.standing(nil)
	h := kernel.HeadFacts{OID: string(head.OID)}
	h.Trust, _ = w.s.trust(head, w.StateRef(), acts)
	ev, err := eventOf(head, false)
	if err != nil {
		return false
	}
	w.bind(&h, ev, acts)
	return h.Trust == kernel.TrustOwn && h.Trusted()
}

// lost reports whether the last push of ours that won has neither become HEAD nor is
// below it.
func (w *worker) lost(ctx context.Context, c *observation, h kernel.HeadFacts) (bool, error) {
	p := c.last
	switch {
	case p == nil, h.OID == string(p.to()):
		return false, nil
	case h.OID == plain(p.from()):
		return true, nil
	case !h.Trusted():
		return false, nil
	}
	var not []git.OID
	if !p.from().IsZero() {
		not = append(not, p.from())
	}
	since, more, err := w.s.deps.Repo.Log(ctx, []git.OID{git.OID(h.OID)}, not, maxTold)
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
		return false, nil
	}
	return err == nil && len(more) == 0 && !slices.ContainsFunc(since, func(k git.Commit) bool { return k.OID == p.to() }), err
}

// lookUpUnknown stages the outcome of effects that an earlier process left
// unknown: a push shows at HEAD, and what ran in a dead process is over.
func (w *worker) lookUpUnknown(c *observation, head git.OID) {
	for _, o := range w.s.world.UnknownIntents(w.number) {
		if w.pending != nil && o.Intent.Key == w.pending.key || o.Intent.Effect.OnForge() {
			continue
		}
		out := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: o.Intent.Key, Effect: o.Intent.Effect,
			Status: kernel.OutcomeLost, Code: kernel.CodeTaskInterrupted, Detail: "HEAD doesn't show it"}
		switch {
		case c.answer != nil && c.answer.Key == o.Intent.Key:
			out = *c.answer
		case o.Intent.New != "" && (o.Intent.New == string(head) || o.Intent.New == string(c.change)):
			out.Status, out.Code, out.Detail = kernel.OutcomeDone, "", ""
		}
		c.stage(kernel.KindOutcome, o.Run, out)
	}
}
