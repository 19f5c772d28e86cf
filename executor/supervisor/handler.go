package supervisor

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// handler gives the machine its meaning: what a valid request is, what the
// kernel decides, and the one effect call.
type handler Task

// Validate decides once, purely; a request with faults is denied for them.
func (h *handler) Validate(machine.Request) []machine.Fault {
	t := (*Task)(h)
	c := t.cycle
	_, s := span(c.ctx, "decide")
	c.decision = kernel.DecideOn(c.facts, canon.Sum(c.sealed.Bytes))
	endSpan(s, nil)
	return faults(kernel.Validate(c.facts))
}

// Arbitrate gives the kernel's decision and composes its effect.
func (h *handler) Arbitrate(machine.Request) machine.Verdict {
	t := (*Task)(h)
	c := t.cycle
	v := machine.Verdict{Decision: machine.Decision(c.decision.Verdict), Summary: summary(c.decision)}
	if c.decision.Verdict != kernel.Allow {
		v.Faults = faults(c.decision.Violations)
		return v
	}
	e, err := t.prepare(c)
	if err != nil {
		e = t.uncomposed(c, err)
	}
	if e != nil {
		c.effect = e
		v.Tool = &machine.ToolCall{Name: string(e.intent.Effect), Key: e.intent.Key}
	}
	return v
}

// uncomposed stands for an effect whose bytes can't be made: it is recorded as
// tried and failed, nothing happened outside, and the drive ends with the cause.
func (t *Task) uncomposed(c *cycle, cause error) *effect {
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

// Execute does the effect. What it came to is recorded in any case; only a
// failure is an error of the request.
func (h *handler) Execute(machine.ToolCall) (machine.Result, error) {
	t := (*Task)(h)
	c := t.cycle
	o := t.outside(c)
	c.outcome = &o
	t.fault(c.decision.Action, StageDone)
	if o.Status != kernel.OutcomeDone {
		return machine.Result{}, &effectError{o}
	}
	return machine.Result{Summary: string(o.Status)}, nil
}

// outside does the effect while other tasks have the world.
func (t *Task) outside(c *cycle) kernel.Outcome {
	t.s.mu.Unlock()
	defer t.s.mu.Lock()
	ctx, s := span(c.ctx, "act", append(t.ofRun(c), attribute.String("writ.effect", string(c.effect.intent.Effect)))...)
	o := c.effect.do(ctx)
	s.SetAttributes(attribute.String("writ.outcome", string(o.Status)))
	if o.Code != "" {
		s.SetAttributes(attribute.String("writ.code", string(o.Code)))
	}
	s.End()
	return o
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

// journal writes the machine's entries together with what the request has to
// record: first the facts, proposals, decision and intent, then, with the entry
// that closes the request, the outcome and the round's receipt. Each call is
// one durable append; a failed one means that nothing happened.
type journal Task

// Append implements machine.Auditor.
func (j *journal) Append(entries []machine.Entry) error {
	t := (*Task)(j)
	c := t.cycle
	if c == nil { // boot, or a halt between requests
		return t.s.write(context.Background(), t.s.now().WallMs, auditDrafts(t.number, "", entries), false)
	}
	var drafts []kernel.Draft
	stage := StageSettled
	switch {
	case !c.recorded && c.decision.Kind == "":
		// The machine denied the request before it was judged: there is nothing
		// to record but that.
	case !c.recorded:
		t.fault(c.decision.Action, StageDecided)
		drafts, stage = t.opening(c), StageRecorded
	case c.outcome != nil && !c.settled:
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindOutcome, Task: t.number, Run: c.runID(), Body: *c.outcome})
		c.settled = true
	}
	drafts = append(drafts, auditDrafts(t.number, c.runID(), entries)...)
	closing := entries[len(entries)-1].StateTo
	settle := closing == machine.Idle.String() || closing == machine.Halted.String()
	ctx, s := span(c.ctx, "record", attribute.Int("writ.records", len(drafts)))
	err := t.s.write(ctx, c.facts.Now, drafts, settle)
	endSpan(s, err)
	if err != nil {
		return err
	}
	c.recorded = true
	t.fault(c.decision.Action, stage)
	return nil
}

// opening are the records that must be durable before anything happens.
func (t *Task) opening(c *cycle) []kernel.Draft {
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

func auditDrafts(task int64, run string, entries []machine.Entry) []kernel.Draft {
	out := make([]kernel.Draft, 0, len(entries))
	for _, e := range entries {
		out = append(out, kernel.Draft{Kind: kernel.KindAudit, Task: task, Run: run, Body: e})
	}
	return out
}
