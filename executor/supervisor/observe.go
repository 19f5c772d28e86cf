package supervisor

import (
	"context"
	"errors"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// observation is what a request goes by: everything that was read for it, and what the
// kernel decides on. Who composes an effect only reads it.
type observation struct {
	id       string
	request  kernel.Request
	clock    lease.Clock
	facts    kernel.Facts
	intake   *Intake
	head     git.Commit
	acts     worldref.Standing // who counts
	below    git.Commit        // under an unlisted writer's lease: the task's state
	event    lease.Event
	unpushed map[string][]byte // sealed work of the lease at HEAD that only our store has
	inputs   []git.Entry       // of that lease's tree
	change   git.OID           // at the change branch
	stray    git.OID           // that, where it is what a run of this task delivered and HEAD doesn't tell of
	unheard  bool              // the issue couldn't be asked before accepted work is pushed
	noBase   *noBaseError      // why nobody knows the contract: the issue is only told of that
	onItsWay bool              // see [kernel.Facts]
	ended    bool              // the issue tells how the task ended
	inWay    string            // a branch beside which it can't be, "" for none
	refInWay string            // a ref beside which the state ref, which isn't there, can't be, "" for none
	retry    *kernel.Retry
	evidence replay.Evidence    // once judged
	last     *push              // of ours that won, where no look had shown it before
	again    bool               // it was made again, and taken
	answer   *kernel.Outcome    // of an own push that was unknown until now
	staged   []kernel.Draft     // proposals and outcomes to be recorded first
	shown    *kernel.IssueFacts // the issue, where it was read
	// What the issue is to say: the text of comment and change, and the change's page.
	text, changeURL string
	changeText      string
	turnedDown      bool              // the work that HEAD tells of
	waited          *waited           // the result at HEAD, where its change is merged
	was             *refreshed        // below a lease that is to replace it
	pages           string            // where the repository's pages are, "" if that isn't known
	check           forge.Check       // that the change's commit is owed
	said            replies           // writ's answers to commands, as the issue shows them
	toldSeq         int64             // the highest number of a state commit that the issue tells of
	toldWait        string            // the act of which the issue tells why its work waits for room, "" for none
	replies         map[int64]wording // to be given, by the command's comment
	left            *left             // what an interrupted run has sealed, where it was asked for
	fresh           *fresh            // delivered work, made again on the base as it is now, where that was asked for
	fix             *revised          // what a revision of it begins with, where that was asked for
	outdone         map[int64]bool    // commands for which a newer one counts, by their comment
	anewSince       string            // the act that took back what was approved anew since, "" for none
	reviewed        bool              // what people said of the change was read
	origin          git.OID           // base that revised work at HEAD was first delivered on, "" of other work
	task            *subject
}

// cycle is one request in flight: what was seen, what was decided, what came of it.
type cycle struct {
	observation
	sealed   canon.Sealed // the facts, once all is seen
	judged   *kernel.Judgement
	late     []kernel.Draft // records that the decision makes
	broken   error          // the effect's bytes could not be made
	decision kernel.Decision
	effect   *effect
	outcome  *kernel.Outcome
	wrote    forge.Comment // that the effect wrote
	forgeErr error
}

// observe reads everything that the decision depends on. HEAD is read over git;
// issue and contract are read again at every request, so that an edit is seen.
func (t *Task) observe(ctx context.Context, req kernel.Request, actor string) (*observation, error) {
	c, err := t.observeOnce(ctx, req, actor)
	if errors.Is(err, errMovedOn) { // once: a server may show another HEAD for ever
		c, err = t.observeOnce(ctx, req, actor)
	}
	return c, err
}

// errMovedOn says that HEAD was moved, and the issue told so, while both were read.
var errMovedOn = errors.New("supervisor: HEAD moves while it is read; it is looked at again")

func (t *Task) observeOnce(ctx context.Context, req kernel.Request, actor string) (*observation, error) {
	c := &observation{id: t.s.deps.NewRunID(), request: req, clock: t.s.now(), task: t.subject}
	t.observer.baseWake = 0
	if err := t.worker.settle(ctx, c); err != nil {
		return nil, err
	}
	refs, err := t.observer.look(ctx, c)
	if c.again {
		refs, err = t.observer.look(ctx, c) // nothing else is to be waited for
	}
	if err != nil {
		return nil, err
	}
	t.s.keepActs(ctx, refs)
	c.change, c.inWay = refs.OID(t.ChangeRef()), inWay(refs, t.ChangeRef())
	if refs.OID(t.StateRef()).IsZero() {
		c.refInWay = inWay(refs, t.StateRef())
	}
	t.s.locked(func() {
		c.onItsWay = t.observer.onItsWay(refs.OID(t.StateRef()))
		t.worker.lookUpUnknown(c, refs.OID(t.StateRef()))
	})
	issue, err := t.observer.readIssue(ctx, c, refs)
	if err != nil {
		return nil, err
	}
	t.s.locked(func() { c.facts.View = t.view() })
	head, err := t.observer.headFacts(ctx, c, refs.OID(t.StateRef()))
	if err != nil {
		return nil, err
	}
	if c.noBase != nil && head.Trust != kernel.TrustOwn {
		return nil, c.noBase // whose HEAD counts, the contract says
	}
	c.facts = kernel.Facts{
		Kind: string(kernel.KindObservation), Request: req, Actor: actor, View: c.facts.View,
		World: t.s.cfg.World, Task: t.number, Head: head, SameIssue: t.remote,
	}
	if err := t.observer.readTold(ctx, c, issue); err != nil {
		return nil, err
	}
	if err := t.observer.movedSince(ctx, c.facts.Head); err != nil {
		return nil, err
	}
	if err := t.readWork(ctx, c, issue); err != nil {
		return nil, err
	}
	if err := t.tracker.readForge(ctx, c, issue.seen); err != nil {
		return nil, err
	}
	t.s.locked(func() { t.tracker.lookUpForge(c) })
	if err := t.observer.noteSecond(ctx, c); err != nil {
		return nil, err
	}
	return c, t.observer.readRetry(ctx, c)
}

// readWork reads the task, and the work that HEAD or the live run has.
func (t *Task) readWork(ctx context.Context, c *observation, issue Issue) error {
	if issue.seen != nil { // what was answered with a no doesn't count later
		issue.seen.TurnedDown = c.facts.View.TurnedDown
	}
	if err := t.observer.readSealed(ctx, c); err != nil {
		return err
	}
	if err := t.observer.readRefresh(ctx, c, issue.seen); err != nil {
		return err
	}
	if err := t.observer.readFix(ctx, c, issue.seen); err != nil {
		return err
	}
	t.observer.readTask(c, issue)
	if t.worker.run == nil { // the terms decide what is next, and that whether a claim is wanted
		if err := t.observer.readPaths(ctx, c, issue.seen); err != nil {
			return err
		}
		t.observer.readRoom(ctx, c)
	}
	for _, read := range []func(context.Context, *observation) error{t.worker.readUnpushed, t.observer.readStray} {
		if err := read(ctx, c); err != nil {
			return err
		}
	}
	c.facts.Policy = append(c.facts.Policy, t.observer.refsFree(c)...)
	t.observer.changeMoved(ctx, c)
	if err := t.observer.fixStands(ctx, c, issue.seen); err != nil {
		return err
	}
	if err := t.observer.readRun(ctx, c); err != nil || t.worker.run == nil {
		return err
	}
	return t.observer.readPaths(ctx, c, issue.seen)
}

// readFile reads one file of a state commit's tree; nil if it isn't there.
func (sj *subject) readFile(ctx context.Context, tree git.OID, name string) ([]byte, error) {
	list, err := sj.s.deps.Repo.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	var data []byte
	for _, e := range list.Entries {
		if e.Path == name && e.Mode == git.ModeFile {
			err = sj.s.deps.Repo.Blobs(ctx, []git.OID{e.OID}, func(_ git.OID, b []byte) error { data = b; return nil })
		}
	}
	return data, err
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// stageLate adds a record that the decision makes, after it.
func (c *cycle) stageLate(kind kernel.Kind, run string, body any) {
	c.late = append(c.late, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}

// runID is the run that a record of this request concerns.
func (c *cycle) runID() string {
	switch {
	case c.facts.Run != nil:
		return c.facts.Run.RunID
	case c.effect != nil && c.effect.run != "":
		return c.effect.run
	}
	return c.facts.Head.RunID
}

func (c *observation) stage(kind kernel.Kind, run string, body any) {
	c.staged = append(c.staged, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}
