package supervisor

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

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

// submit leads one request through the machine: validate, decide, compose the effect,
// append, act, append what came of it. Each is done while the machine is in the state for
// it. Other tasks have the world while the effect is out.
func (t *Task) submit(ctx context.Context, c *cycle) (receipt machine.Receipt, err error) {
	defer t.seenThrough(ctx)
	var next machine.Ready
	t.s.locked(func() {
		next, err = t.decide(ctx, c)
		t.fault(c.decision.Action, StageDecided)
		next, err = t.record(ctx, c, t.opening(c), next, err)
		t.faultRecorded(c, StageRecorded)
	})
	if err == nil && next.Call != nil {
		result, failed := t.act(ctx, c)
		t.s.locked(func() {
			next, err = t.machine.Executed(result, failed)
			next, err = t.record(ctx, c, t.closing(c), next, err)
			t.faultRecorded(c, StageSettled)
		})
	}
	if err != nil {
		return machine.Receipt{}, err
	}
	if r := next.Receipt; r.To == machine.Halted {
		err = r.Err
	}
	return *next.Receipt, err
}

// codeOf is the failure code of an error, if it has one.
func codeOf(err error) (kernel.Code, bool) {
	var coded interface{ FailureCode() kernel.Code }
	if !errors.As(err, &coded) {
		return "", false
	}
	return coded.FailureCode(), true
}

// seenThrough halts the machine of a request that was left in the middle: by a panic
// beside its steps, or because its goroutine was ended.
func (t *Task) seenThrough(ctx context.Context) {
	if s := t.machine.State(); s == machine.Idle || s == machine.Halted {
		return
	}
	t.s.locked(func() {
		next, err := t.machine.Failed(&machine.PanicError{Where: "Submit", Value: "the request was left in the middle"})
		if err := t.finish(ctx, next, err); err != nil {
			t.log().Error("the machine is halted", "error", err)
		}
	})
}

// decide is the pure part: validation in VALIDATING, the decision and its effect's bytes
// in ARBITRATING.
func (t *Task) decide(ctx context.Context, c *cycle) (machine.Ready, error) {
	t.observer.readShared(ctx, &c.observation)
	var err error
	if c.sealed, err = canon.Seal(c.facts); err != nil {
		return machine.Ready{}, err
	}
	req := machine.Request{
		ID: c.id, Actor: c.facts.Actor, Intent: string(c.facts.Request), Params: c.sealed.Bytes(), Now: c.clock.WallMs,
	}
	next, err := t.machine.Submit(req)
	if err != nil || next.Entries != nil {
		return next, err
	}
	if next, err = t.validate(c, req); err != nil || next.Entries != nil {
		return next, err
	}
	return t.arbitrate(ctx, c, req)
}

// validate says what is wrong with the request. Of one that is denied for it the reasons
// are recorded, and the denial, as of any other.
func (t *Task) validate(c *cycle, req machine.Request) (machine.Ready, error) {
	var wrong []machine.Fault
	caught := machine.Caught("Validate", func() error {
		t.probe(c, "validation")
		if wrong = faults(kernel.Validate(c.facts)); len(wrong) > 0 {
			c.decision = kernel.DecideOn(c.facts, c.sealed.Hash())
		}
		return nil
	})
	if caught != nil {
		return t.machine.Failed(caught)
	}
	return t.machine.Validated(req, wrong)
}

// arbitrate takes the kernel's decision and composes its effect.
func (t *Task) arbitrate(ctx context.Context, c *cycle, req machine.Request) (machine.Ready, error) {
	_, s := span(ctx, "decide")
	defer endSpan(s, nil)
	var v machine.Verdict
	caught := machine.Caught("Arbitrate", func() error {
		t.probe(c, "decision")
		c.decision = kernel.DecideOn(c.facts, c.sealed.Hash())
		v = machine.Verdict{Decision: machine.Decision(c.decision.Verdict), Summary: summary(c.decision)}
		if c.decision.Verdict != kernel.Allow {
			v.Faults = faults(c.decision.Violations)
			return nil
		}
		if c.effect = t.effectOf(ctx, c); c.effect != nil {
			v.Tool = &machine.ToolCall{Name: string(c.effect.intent.Effect), Key: c.effect.intent.Key}
		}
		return nil
	})
	if caught != nil {
		return t.machine.Failed(caught)
	}
	return t.machine.Decided(req, v)
}

// effectOf makes the effect of the decision, nil if it asks for none. One whose bytes can't
// be made is recorded as tried and failed, nothing happens outside, and the drive ends with
// the cause.
func (t *Task) effectOf(ctx context.Context, c *cycle) *effect {
	e, cause := t.prepare(ctx, c)
	if cause == nil {
		return e
	}
	c.broken = fmt.Errorf("supervisor: %s can't be composed: %w", c.decision.Action, cause)
	key := string(c.decision.Action) + ":" + c.id
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: c.decision.Action},
		do: func(context.Context) kernel.Outcome {
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: c.decision.Action,
				Status: kernel.OutcomeFailed, Code: kernel.CodeMachineEffect, Detail: cause.Error()}
		},
	}
}

// act does the effect, in EXECUTING. What it came to is recorded in any case; only a
// failure is an error of the request.
func (t *Task) act(ctx context.Context, c *cycle) (result machine.Result, failed error) {
	ctx, s := span(ctx, "act", append(t.ofRun(c), attribute.String("writ.effect", string(c.effect.intent.Effect)))...)
	defer s.End()
	failed = machine.Caught("Execute", func() error {
		t.probe(c, "effect")
		if !c.decision.Action.OnForge() {
			t.tracker.dropRefs()
		}
		o := c.effect.do(ctx)
		c.outcome = &o
		s.SetAttributes(attribute.String("writ.outcome", string(o.Status)))
		if o.Code != "" {
			s.SetAttributes(attribute.String("writ.code", string(o.Code)))
		}
		t.fault(c.decision.Action, StageDone)
		if o.Status != kernel.OutcomeDone {
			return &effectError{o}
		}
		result.Summary = string(o.Status)
		return nil
	})
	return result, failed
}

// effectError is an outcome that is no success, for the audit entry.
type effectError struct{ outcome kernel.Outcome }

func (e *effectError) Error() string {
	return fmt.Sprintf("%s: %s %s", e.outcome.Effect, e.outcome.Status, e.outcome.Detail)
}

// Fault is what the machine records.
func (e *effectError) Fault() machine.Fault {
	return machine.Fault{Code: string(e.outcome.Code), Subject: e.outcome.Key, Detail: e.Error()}
}

func faults(vs []kernel.Violation) []machine.Fault {
	out := make([]machine.Fault, 0, len(vs))
	for _, v := range vs {
		out = append(out, machine.Fault{Code: string(v.Code), Subject: v.Subject, Detail: v.Detail})
	}
	return out
}

func summary(d kernel.Decision) string {
	return fmt.Sprintf("%s: %s", d.Standing, d.Action)
}

// record makes the machine's entries durable, the first time with what the request itself
// has to record, until the machine asks for something else. C is nil where the request is
// left in the middle, and for a halt beside one.
func (t *Task) record(ctx context.Context, c *cycle, own []kernel.Draft, next machine.Ready, err error) (machine.Ready, error) {
	return recorded(t.machine, next, err, func(out machine.Ready) error {
		t.probe(c, "append")
		drafts := own
		own = nil
		return t.append(ctx, c, drafts, out)
	})
}

// recorded has a machine's entries written until it asks for something else. A write is
// one append; one that fails means that nothing happened.
func recorded(m *machine.Machine, next machine.Ready, err error, write func(machine.Ready) error) (machine.Ready, error) {
	for err == nil && next.Entries != nil {
		next, err = m.Recorded(machine.Caught("Append", func() error { return write(next) }))
	}
	return next, err
}

// append is one durable append. The entry that ends a request settles the round.
func (t *Task) append(ctx context.Context, c *cycle, drafts []kernel.Draft, out machine.Ready) error {
	now, run, settle := t.s.now().WallMs, "", false
	if c != nil {
		to := out.Entries[len(out.Entries)-1].StateTo
		now, run, settle = c.facts.Now, c.runID(), to == machine.Idle.String() || to == machine.Halted.String()
	}
	drafts = append(drafts, audited(t.number, run, out)...)
	ctx, s := span(ctx, "record", attribute.Int("writ.records", len(drafts)))
	err := t.s.write(ctx, now, drafts, settle)
	endSpan(s, err)
	return err
}

// audited are the records of a machine's entries.
func audited(task int64, run string, out machine.Ready) []kernel.Draft {
	drafts := make([]kernel.Draft, 0, len(out.Sealed))
	for _, e := range out.Sealed {
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindAudit, Task: task, Run: run, Body: e})
	}
	return drafts
}

// opening are the records that must be durable before anything happens. Of a request that
// the machine itself denied, or that was left before it was decided, there is nothing to
// record but that.
func (t *Task) opening(c *cycle) []kernel.Draft {
	if c.decision.Kind == "" {
		return nil
	}
	run := c.runID()
	drafts := append([]kernel.Draft{}, c.staged...)
	drafts = append(drafts,
		kernel.Draft{Kind: kernel.KindObservation, Task: t.number, Run: run, Body: c.sealed},
		kernel.Draft{Kind: kernel.KindDecision, Task: t.number, Run: run, Body: c.decision})
	if c.decision.Verdict == kernel.Deny {
		refusal := kernel.NewRefusal(t.s.cfg.World, t.number, c.decision, []canon.Digest{c.decision.Facts})
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindRefusal, Task: t.number, Run: run, Body: refusal})
	}
	drafts = append(drafts, c.late...)
	if c.effect != nil {
		drafts = append(drafts, c.effect.drafts...)
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindIntent, Task: t.number, Run: run, Body: c.effect.intent})
	}
	return drafts
}

// closing is what came of the effect, where that is known, and of the builder that it ended.
func (t *Task) closing(c *cycle) (drafts []kernel.Draft) {
	if c.outcome != nil {
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindOutcome, Task: t.number, Run: c.runID(), Body: *c.outcome})
	}
	return append(drafts, t.worker.takeKilled()...)
}

// boot makes the kernel of the task's epoch.
func (t *Task) boot(ctx context.Context) error {
	_, err := t.s.boot(ctx, t.number, t.view().Epoch, func(m *machine.Machine) {
		t.machine = m
		t.probe(nil, "loading")
	})
	return err
}

// boot makes the kernel of a task's epoch, and leads it from BOOTING to IDLE. What a dead
// process had begun is closed as unknown meanwhile.
func (s *Supervisor) boot(ctx context.Context, number, epoch int64, loading func(*machine.Machine)) (*machine.Machine, error) {
	m, err := machine.New(machine.Config{
		Kernel: kernel.MachineOf(s.cfg.World, number), Epoch: epoch, Now: s.now().WallMs, LastEntry: s.world.LastEntry(number, epoch),
	})
	if err != nil {
		return nil, err
	}
	next, err := m.Booted(machine.Caught("Boot", func() error {
		loading(m)
		return s.closeIntents(ctx, number)
	}))
	next, err = recorded(m, next, err, func(out machine.Ready) error {
		return s.write(ctx, s.now().WallMs, audited(number, "", out), false)
	})
	if err != nil {
		return nil, err
	}
	return m, next.Receipt.Err
}

// closeIntents records, at the start of a process, that the outcome of what a
// dead one had begun is unknown.
func (s *Supervisor) closeIntents(ctx context.Context, task int64) error {
	var drafts []kernel.Draft
	for _, o := range s.world.OpenIntents(task) {
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindOutcome, Task: task, Run: o.Run, Body: kernel.Outcome{
			Kind: string(kernel.KindOutcome), Key: o.Intent.Key, Effect: o.Intent.Effect,
			Status: kernel.OutcomeUnknown, Code: kernel.CodeEffectUnknown, Detail: "the process ended before the outcome",
		}})
	}
	if len(drafts) == 0 {
		return nil
	}
	return s.write(ctx, s.now().WallMs, drafts, true)
}

// finish records what a halt beside a request asks for. The error is what kept
// it from coming about.
func (t *Task) finish(ctx context.Context, next machine.Ready, err error) error {
	if next, err = t.record(ctx, nil, nil, next, err); err != nil {
		return err
	}
	return next.Receipt.Err
}
