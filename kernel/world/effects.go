package world

import (
	"slices"
	"strconv"

	"github.com/writbot/writ/kernel"
)

// intent opens an effect: the one of the task's last decision, once, and not
// before the outcome of the effect before is known.
func (f *fold) intent(e entry) error {
	var i kernel.Intent
	if err := decode(e, &i, &i.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	r := t.Ruling
	switch {
	case i.Key == "":
		return refuse(ErrBody, nil, "the intent has no key")
	case r == nil || r.Action != i.Effect || !i.Effect.External():
		return refuse(ErrNoDecision, nil, "no decision is for the effect %q", i.Effect)
	case r.needsAllow() && r.Verdict != kernel.Allow:
		return refuse(ErrNoDecision, nil, "the decision on %q is %s", i.Effect, r.Verdict)
	case r.needsAllow() && t.Halted:
		return refuse(ErrHalted, nil, "task %d is halted: %s", t.Number, t.HaltReason)
	}
	opened := OpenIntent{Intent: i, Run: e.run, Ruling: *r}
	if len(t.Intents) > 0 && !t.Intents[0].retriedBy(opened) {
		return refuse(ErrIntentOpen, nil, "the outcome of %q isn't known", t.Intents[0].Intent.Key)
	}
	if err := f.begin(&t, i, e.run); err != nil {
		return err
	}
	t.Ruling, t.Intents = nil, []OpenIntent{opened}
	f.put(t)
	return nil
}

// retriedBy reports whether the other is this very effect again, which is what
// may be tried while its outcome is unknown (case L7).
func (o OpenIntent) retriedBy(other OpenIntent) bool {
	return o.Unknown && o.Intent == other.Intent && o.Run == other.Run
}

// begin is what an effect needs and changes before it is tried.
func (f *fold) begin(t *Task, i kernel.Intent, run string) error {
	again := len(t.Intents) > 0
	switch i.Effect {
	case kernel.ActionClaim:
		if again {
			return nil
		}
		if run == "" || run == t.Run.ID {
			return refuse(ErrOrder, nil, "a claim needs a fresh run id")
		}
		if list := f.admit(t.Number, t.AllowedFiles); len(list) > 0 {
			return refuse(ErrLand, nil, "%s", list[0].Detail)
		}
		f.end(t)
		t.Run = Run{ID: run, Resumes: t.Ruling.Resumes, Refreshes: t.Ruling.Refreshes, Fixes: t.Ruling.Fixes}
		return nil
	case kernel.ActionDispatch:
		return t.beginDispatch(i, run)
	case kernel.ActionSeal, kernel.ActionChecks, kernel.ActionHeartbeat, kernel.ActionRelease:
		if !t.live() || t.Run.ID != run {
			return refuse(ErrOrder, nil, "run %q is no live run of task %d", run, t.Number)
		}
	}
	return nil
}

// beginDispatch holds the bytes that are to be handed out against the recorded
// dispatch (invariant E4), and the run against its having had one (P5).
func (t *Task) beginDispatch(i kernel.Intent, run string) error {
	switch {
	case !t.live() || t.Run.ID != run:
		return refuse(ErrDispatch, nil, "run %q is no live run of task %d", run, t.Number)
	case t.Dispatch.Run != run || t.Dispatch.Hash != i.Digest:
		return refuse(ErrDispatch, nil, "the dispatch of run %q with this digest isn't recorded", run)
	case t.Run.Resumes != "":
		return refuse(ErrSecondDispatch, nil, "run %q goes on with sealed work and has no dispatch of its own", run)
	case t.Run.Dispatched:
		return refuse(ErrSecondDispatch, nil, "run %q was dispatched before", run)
	}
	t.Run.Dispatched = true
	return nil
}

// outcome closes the open intent of its key, or leaves it as unknown until it
// is looked up.
func (f *fold) outcome(e entry) error {
	var o kernel.Outcome
	if err := decode(e, &o, &o.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	at := slices.IndexFunc(t.Intents, func(x OpenIntent) bool { return x.Intent.Key == o.Key && x.Intent.Effect == o.Effect })
	if at < 0 {
		return refuse(ErrNoIntent, nil, "no open intent has the key %q", o.Key)
	}
	opened := t.Intents[at]
	t.Intents = slices.Delete(slices.Clone(t.Intents), at, at+1)
	switch o.Status {
	case kernel.OutcomeUnknown:
		opened.Unknown = true
		t.Intents = with(t.Intents, opened)
	case kernel.OutcomeDone:
		f.came(&t, opened)
	case kernel.OutcomeLost:
		// A lost heartbeat or result ends no run by itself: whether HEAD is
		// still ours, the next observation says.
		if o.Effect != kernel.ActionHeartbeat && o.Effect != kernel.ActionSeal && o.Effect != kernel.ActionResult && !o.Effect.OnForge() {
			f.end(&t)
		}
	case kernel.OutcomeRefused, kernel.OutcomeFailed, kernel.OutcomeUnable:
		if o.Effect == kernel.ActionClaim {
			f.end(&t)
		}
		if o.Status == kernel.OutcomeRefused {
			t.told(opened.Intent)
		}
	default:
		return refuse(ErrBody, nil, "the status %q is none of an outcome", o.Status)
	}
	f.put(t)
	return nil
}

// came takes in that an effect came to be. What it changes in the task is
// produced when the round is settled.
func (f *fold) came(t *Task, o OpenIntent) {
	if o.Intent.Effect.OnForge() {
		t.told(o.Intent)
		return // HEAD moves the task, and the issue only shows it
	}
	f.now.done = append(f.now.done, effect{t.Number, o})
	if seen := f.seen(t.Number); seen != nil {
		seen.stale = true
	}
	switch o.Intent.Effect {
	case kernel.ActionDispatch:
		t.Run.Started = true
		f.now.charges = append(f.now.charges, charge{t.Builder, countDispatched})
	case kernel.ActionResult:
		t.Run.Over = true
	case kernel.ActionWait:
		if o.Ruling.WaitingFor == kernel.WaitRule && t.Run.ID == o.Run && t.Run.Judged {
			return // what was judged is kept, and delivered once the server takes it
		}
		if kernel.SealedWait(o.Ruling.WaitingFor) {
			t.Run.Over = true // it brought its work to HEAD
			return
		}
		f.end(t)
	case kernel.ActionTakeOver, kernel.ActionRelease, kernel.ActionAbandon, kernel.ActionRestore:
		f.end(t)
	}
}

// told notes what the issue can't be asked about: that a command was answered, or a
// check set, or that the forge takes neither. It isn't done again.
func (t *Task) told(i kernel.Intent) {
	switch i.Effect {
	case kernel.ActionReact:
		if id, err := strconv.ParseInt(i.New, 10, 64); err == nil {
			if t.Answered = t.Answered.With(id); i.Ref != kernel.Obeyed {
				t.TurnedDown = t.TurnedDown.With(id)
			}
		}
	case kernel.ActionCheck:
		t.Checked = i.Ref + " " + string(i.Digest)
	}
}

// end ends the live run. One that was dispatched and brought no result to HEAD
// was interrupted.
func (f *fold) end(t *Task) {
	if !t.live() {
		return
	}
	t.Run.Over = true
	if t.Run.Dispatched && (!t.Run.Judged || t.Run.Accepted) {
		f.now.charges = append(f.now.charges, charge{t.Builder, countInterrupted})
	}
}
