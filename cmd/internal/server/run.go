package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/tracing"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/webhook/inbox"
)

// serverActor is in whose name a server looks at tasks. It approves nothing.
const serverActor = "writ"

// outcomeClosed is a look at a task of a world that is closed.
const outcomeClosed = "closed"

// outcomeUnable is a look that the repository's server or its forge couldn't serve.
const outcomeUnable = "unable"

// outcomeLimited is a look that the forge's limits kept from reading the issue.
const outcomeLimited = "limited"

// Drive implements scheduler.Driver: it drives one task until it stands still, and notes
// what it waits for then.
func (s *server) Drive(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	s.waits.note(j.Key(), scheduler.Result{})
	r, err := s.driveTask(ctx, j)
	if err == nil {
		s.waits.note(j.Key(), r)
	}
	return r, err
}

func (s *server) driveTask(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	w := s.worlds.enter(j.Key().World)
	if w == nil { // it is due again when the world opens, see tryAgain
		return scheduler.Result{Outcome: outcomeClosed}, nil
	}
	defer s.worlds.leave(w)
	if s.rests(ctx, w, j) {
		return scheduler.Result{Outcome: string(kernel.StandFinal), Ended: true}, nil
	}
	task, err := w.sup.Open(ctx, j.Key().Task, nil)
	if errors.Is(err, machine.ErrHalted) {
		var resumed bool
		if resumed, err = s.resumeFirst(ctx, w, j.Key()); resumed && err == nil {
			task, err = w.sup.Open(ctx, j.Key().Task, nil)
		} else if err == nil {
			err = machine.ErrHalted
		}
	}
	if err != nil {
		return scheduler.Result{}, halted(err)
	}
	defer task.Close()
	j.OnKill(task.Kill)
	key := j.Key()
	ctx, span := s.traces.tracer().Start(aboutTask(ctx, key), "task", trace.WithAttributes(tracing.World.String(key.World), tracing.Task.Int64(key.Task)))
	defer span.End()
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.life.ctx, cancel)()
	slot := &slot{job: j}
	defer slot.giveBack()
	defer s.tails.begin(key)()
	w.unchanged.begin(j.Key().Task)
	st, err := task.Drive(ctx, supervisor.DriveOptions{
		Actor: serverActor, Yield: true, Acts: acts(ctx, j), Nudges: j.Nudges(), Admit: slot.admit, Idle: j.Idle,
		Why:   func() string { return QueueWords[s.sched.Why(key)] },
		OnRun: func(run string, held bool) { s.runs.set(key, run); s.metrics.lease(key, held) },
	})
	s.metrics.lease(key, false)
	span.SetAttributes(tracing.Outcome.String(string(st.Decision.Standing)), tracing.Run.String(s.runs.run(key)))
	r := scheduler.Result{Outcome: string(st.Decision.Standing), RunID: s.runs.run(key), Next: st.Wake}
	r.Ended = err == nil && st.Ended()
	w.unchanged.end(j.Key().Task, r.Ended, st.Facts.Head.OID)
	switch {
	case w.life.ctx.Err() != nil && asked.Err() == nil: // handed over, as in a shutdown
		return scheduler.Result{Outcome: outcomeClosed, RunID: r.RunID}, nil
	case ctx.Err() != nil:
		return r, ctx.Err()
	case st.Unable:
		return scheduler.Result{Outcome: outcomeUnable, RunID: r.RunID, Next: st.Wake, Unable: true}, nil
	case err != nil:
		s.noteOlder(w, key.Task, err)
		return leftAlone(r, err, time.Now())
	}
	s.noteBase(ctx, w, st)
	s.noteLacking(ctx, inbox.Key(key), st)
	j.Log().Debug("looked at a task", "standing", r.Outcome, "codes", st.Decision.Codes)
	return r, nil
}

// maxRuns bounds what is remembered of runs, for the log alone: the oldest go
// first.
const maxRuns = 4096

// set notes the run that a task is about; "" notes nothing.
func (t *taskRuns) set(k scheduler.Key, run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.tasks[run]; known || run == "" {
		return
	}
	t.of[k], t.tasks[run] = run, k
	if t.order = append(t.order, run); len(t.order) > maxRuns {
		old := t.order[0]
		t.order = t.order[1:]
		if at := t.tasks[old]; t.of[at] == old {
			delete(t.of, at)
		}
		delete(t.tasks, old)
	}
}

// resumeFirst carries out a resume that is stored behind a halt, of a task that can't be
// looked at before: the process that was to do it died between the two.
func (s *server) resumeFirst(ctx context.Context, w *served, k scheduler.Key) (resumed bool, err error) {
	note, err := s.inbox.Note(ctx, inbox.Key(k))
	if err != nil {
		return false, err
	}
	for _, a := range note.Acts {
		if a.Kind == kernel.ActResume {
			if err := w.sup.Resume(ctx, k.Task, a.Actor, a.Reason); err != nil {
				return false, err
			}
			return true, s.forgetAsked(ctx, k)
		}
	}
	return false, nil
}

// aboutTask makes a context whose lines are about a task.
func aboutTask(ctx context.Context, k scheduler.Key) context.Context {
	return context.WithValue(ctx, taskKey{}, k)
}

// noteBase notes that a task was refused for the base's own sake, or waits for what its
// checks lack there.
func (s *server) noteBase(ctx context.Context, w *served, st supervisor.Status) {
	unusable := slices.Contains(st.Decision.Codes, kernel.CodeEnvBase)
	if st.Intake == nil || !unusable && (st.Decision.Standing != kernel.StandWaiting || !st.Facts.Head.AwaitsEnvironment()) {
		return
	}
	commit := string(st.Intake.BaseCommit)
	noted, err := s.inbox.Cursor(ctx, w.World, unusableCursor)
	if err == nil && noted != commit {
		if unusable {
			s.log.Warn("the base can't be used: no task is claimed in this repository until it moves", installation.LogWorld, w.World,
				"commit", commit, "code", string(kernel.CodeEnvBase), "error", st.Decision.Violations)
		}
		err = s.inbox.SetCursor(ctx, w.World, unusableCursor, commit)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("tasks that the base keeps from being claimed are looked at within the hour, not when it moves", installation.LogWorld, w.World, "error", err)
	}
}

// noteLacking notes whether a task was refused for what its builder lacks, by a rule, for a
// ref in its way, or by the configuration, or waits for its state to be repaired.
func (s *server) noteLacking(ctx context.Context, k inbox.Key, st supervisor.Status) {
	var why refusedFor
	refused := st.Intake != nil && st.Decision.Standing == kernel.StandRefused
	if refused && slices.ContainsFunc(st.Decision.Codes, lacks) {
		why.builder = cmp.Or(st.Intake.Spec.Builder, installation.DefaultBuilder)
	} else if why.rule, why.ruled = st.Rule(); why.ruled {
		why.since = time.Now().UnixMilli()
	} else if at := slices.IndexFunc(st.Decision.Violations, inTheWay); at >= 0 {
		why.ref = st.Decision.Violations[at].Subject
	} else if st.Facts.StrangersLease() {
		why.ref, why.at = installation.StateRef(s.cfg.Refs, k.Task), st.Facts.Head.OID
	} else if st.Facts.Kind != "" && kernel.NeedsRepair(st.Facts) { // whoever puts the later commit back needn't say so
		why.ref, why.at = installation.StateRef(s.cfg.Refs, k.Task), st.Facts.Head.OID
		why.absent = why.at == ""
	} else {
		why.configured = refused && slices.ContainsFunc(st.Decision.Codes, configured)
	}
	if why != (refusedFor{}) {
		if err := s.inbox.SetCursor(ctx, k.World, lackingCursor, "refused"); err != nil && ctx.Err() == nil {
			s.log.Warn("a task that was refused is not looked at at the next start", installation.LogWorld, k.World, "error", err)
		}
	}
	s.lacking.note(k, why)
}

func inTheWay(v kernel.Violation) bool { return v.Code == kernel.CodeBranchTaken }

// limitedPause is how long a forge is left alone that limits writ and doesn't say
// for how long.
const limitedPause = time.Minute

// leftAlone is the result of a look that ended with an error. What a forge limits
// is no failure of anything: the task is looked at again when the forge said, and
// however often that happens it isn't taken out of the rotation.
func leftAlone(r scheduler.Result, err error, now time.Time) (scheduler.Result, error) {
	var limited *forge.Error
	if !supervisor.Passing(err) || !errors.As(err, &limited) || limited.Reason != forge.Limited {
		return r, halted(err)
	}
	wait := limited.RetryAfter
	if wait <= 0 {
		wait = limitedPause
	}
	return scheduler.Result{Outcome: outcomeLimited, RunID: r.RunID, Next: now.Add(wait).UnixMilli()}, nil
}

// noteOlder ends the server where a task's HEAD shows that the store is older than
// its key: no other task may be written of either, in no repository, for their ledgers
// are in the same file.
func (s *server) noteOlder(w *served, task int64, err error) {
	if w.NoteOlder(w.World, task, err) {
		select {
		case s.older <- err:
		default: // it ends already
		}
	}
}

// halted marks what must not be tried again by itself.
func halted(err error) error {
	if errors.Is(err, machine.ErrHalted) {
		return fmt.Errorf("%w: %w", scheduler.ErrHalted, err)
	}
	return err
}

// acts hands a person's acts on, with their answers.
func acts(ctx context.Context, j *scheduler.Job) <-chan supervisor.Act {
	out := make(chan supervisor.Act)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case o := <-j.Acts():
				select {
				case out <- supervisor.Act{Kind: o.Kind, Actor: o.Actor, Reason: o.Reason, Key: o.ID, Done: o.Done}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// slot is the right to run a builder, asked for before a claim, and again before
// something is started where it was lent since.
type slot struct {
	job     *scheduler.Job
	release func()
}

// admit asks for it. What others work on where the contract says overlap: wait
// is in scope.
func (s *slot) admit(scope []string) bool {
	release, ok := s.job.Build(scope)
	if ok {
		s.release = release
	}
	return ok
}

func (s *slot) giveBack() {
	if s.release != nil {
		s.release()
	}
}
