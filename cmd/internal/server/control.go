package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// openServerDesk makes the part of a server that takes a person's requests.
func openServerDesk(s *server) (func(context.Context) error, error) {
	d, err := installation.OpenDesk(s.in.Dir, s.obey)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { d.Serve(ctx); return nil }, nil
}

// obey answers one request.
func (s *server) obey(ctx context.Context, r installation.Request) (a installation.Answer) {
	err := problem.Shelter(s.log, "requests", func() error { a = s.obeyNow(ctx, r); return nil })
	if err != nil {
		return installation.Refusal(err)
	}
	return a
}

func (s *server) obeyNow(ctx context.Context, r installation.Request) installation.Answer {
	switch r.Act {
	case installation.ActPause, installation.ActUnpause:
		return s.obeyPause(ctx, r)
	case ActQueue:
		return s.tellQueue()
	}
	w, why := s.worldNamed(r.World)
	if w == nil {
		return installation.Answer{Detail: why}
	}
	if r.Act == ActLogs {
		return s.tellLogs(w, r)
	}
	return s.obeyAct(ctx, w, r)
}

// obeyPause answers the request for a pause, or for its end.
func (s *server) obeyPause(ctx context.Context, r installation.Request) installation.Answer {
	asked := r.World
	if r.World = s.worlds.meant(asked); r.World != "" && !s.worlds.listed(r.World) {
		return installation.Answer{Detail: "The running server doesn't govern " + asked + "."}
	}
	said, err := installation.SetPause(ctx, s.inbox, r, s.worlds.called)
	if err != nil {
		return installation.Refusal(err)
	}
	s.sched.Nudge()
	for _, w := range s.worlds.open() {
		s.recordPauses(ctx, w, r.Actor, r.Reason)
	}
	s.log.Info("a person's pause", "on", r.Act == installation.ActPause, "world", r.World, "actor", r.Actor, "reason", r.Reason, "changed", said == "")
	return installation.Answer{OK: true, Said: said}
}

// tellQueue answers the request for it.
func (s *server) tellQueue() installation.Answer {
	list := s.waiting()
	q := Queue{Kind: "queue", Of: s.cfg.Server.Builds, Total: len(list), Waiting: list[:min(len(list), maxQueued)]}
	if s.sched != nil {
		q.Builds = s.sched.Load().BuildSlots
	}
	data, err := json.Marshal(q)
	if err != nil {
		return installation.Refusal(err)
	}
	return installation.Answer{OK: true, Said: string(data)}
}

// tellLogs answers the request for them.
func (s *server) tellLogs(w *served, r installation.Request) installation.Answer {
	k := scheduler.Key{World: w.World, Task: r.Task}
	out := s.tails.since(k, max(r.Next, 0))
	out.RunID = s.runs.run(k)
	data, err := json.Marshal(out)
	if err != nil {
		return installation.Refusal(err)
	}
	return installation.Answer{OK: true, Said: string(data)}
}

// worldNamed finds the world of a request, which need not name the only one.
func (s *server) worldNamed(name string) (w *served, why string) {
	world := s.worlds.meant(name)
	if w := s.worlds.named(world); w != nil {
		return w, ""
	}
	if p := s.worlds.closedWhy(world); p != nil {
		return nil, "The repository " + name + " is closed in the running server: " + p.Error()
	}
	if name != "" {
		return nil, "The running server doesn't govern " + name + "."
	}
	if list := s.worlds.open(); len(list) == 1 && s.worlds.countClosed() == 0 {
		return list[0], ""
	}
	return nil, "The running server governs several repositories: give --world."
}

// closedWhy is why a listed world is closed; nil if it isn't, or isn't listed.
func (ws *worlds) closedWhy(world string) *problem.Error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, l := range ws.list {
		if l.served == nil && l.world == world {
			return l.why
		}
	}
	return nil
}

// askForgeTime bounds the question whether there is an issue: a halt doesn't wait
// for a forge that hangs, and is well inside answerTime.
const askForgeTime = 4 * time.Second

// haltTime is how long a halt waits to be recorded; both together are less than
// answerTime.
const haltTime = 4 * time.Second

// obeyAct carries out a person's act on one task of a running server.
func (s *server) obeyAct(ctx context.Context, w *served, r installation.Request) installation.Answer {
	unsure, err := w.there(ctx, r.Task)
	if err != nil {
		return installation.Refusal(err)
	}
	k := scheduler.Key{World: w.World, Task: r.Task}
	out := installation.Answer{OK: true}
	switch r.Act {
	case kernel.ActStop:
		out.Said, err = s.stopTask(ctx, w, k, r)
	case kernel.ActHalt:
		if out.Said, err = s.haltTask(ctx, w, k, r); err == nil {
			s.lacking.note(inbox.Key(k), refusedFor{}) // it waits for a person, whenever it is looked at
		}
	case kernel.ActResume:
		out.Said, err = s.resumeTask(ctx, w, k, r)
	default:
		return installation.Answer{Detail: "The act is unknown."}
	}
	if err != nil {
		return installation.Refusal(err)
	}
	if unsure != "" && out.Said == "" {
		out.Said = fmt.Sprintf("task %d: the %s is recorded; %s", r.Task, r.Act, unsure)
	}
	return out
}

// there is an error where the repository has no such issue and no record of such
// a task. unsure says that the forge could not be asked, which keeps no act back.
func (w *served) there(ctx context.Context, task int64) (unsure string, err error) {
	if slices.Contains(w.sup.Tasks(), task) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, askForgeTime)
	defer cancel()
	issue, err := w.client.Issue(ctx, w.at, task)
	switch {
	case forge.IsReason(err, forge.NotFound):
		return "", problem.Coded(kernel.CodeTaskNotFound, "%s has no issue %d.", w.Display, task)
	case err != nil:
		return "whether there is such an issue could not be asked of the forge", nil
	case issue.IsChange:
		return "", problem.Coded(kernel.CodeTaskNotFound, "%s#%d is a change, and no issue.", w.Display, task)
	}
	return "", nil
}

// stopTask stops what runs. said is "" where something did.
func (s *server) stopTask(ctx context.Context, w *served, k scheduler.Key, r installation.Request) (said string, err error) {
	onItsWay, undelivered := w.sup.Unsettled(k.Task)
	held := s.metrics.holds(k) || onItsWay || undelivered
	if err := s.sched.Ask(ctx, k, r.Act, r.Actor, r.Reason); err != nil {
		return "", err
	}
	if !held && !s.metrics.holds(k) {
		return fmt.Sprintf("task %d wasn't running in this server, so nothing was stopped; what was approved or due waits for another approval now. `writ task halt %[1]d` keeps it from starting", k.Task), nil
	}
	if onItsWay, _ = w.sup.Unsettled(k.Task); onItsWay {
		return fmt.Sprintf("task %d: the stop is stored; its result was on its way to git already, and whichever git takes first counts. `writ task show %[1]d` says which", k.Task), nil
	}
	return "", nil
}

// haltTask halts. A task that nobody looks at is halted here and now, also in a
// paused world; one that is looked at is killed, and halted by whoever drives it,
// which is waited for. said is "" when the halt is in the ledger.
func (s *server) haltTask(ctx context.Context, w *served, k scheduler.Key, r installation.Request) (said string, err error) {
	if s.looksAt(k) {
		if err := s.sched.Ask(ctx, k, r.Act, r.Actor, r.Reason); err != nil {
			return "", err
		}
		if !s.settled(ctx, w, k) {
			return fmt.Sprintf("task %d: what ran was killed, and the halt is stored; it is recorded when the look at the task that is under way ends", r.Task), nil
		}
		// A look may have ended without it, and where there is a pause no other follows.
		if w.sup.View(r.Task).Halted {
			return "", nil
		}
	}
	if err := w.sup.Halt(ctx, r.Task, r.Actor, r.Reason); err != nil {
		return "", err
	}
	return "", s.lookAgain(ctx, w, k)
}

// settled waits until a task is halted or nobody looks at it; not so if that lasts.
func (s *server) settled(ctx context.Context, w *served, k scheduler.Key) bool {
	ctx, cancel := context.WithTimeout(ctx, haltTime)
	defer cancel()
	tick := time.NewTicker(installation.PollEvery)
	defer tick.Stop()
	for !w.sup.View(k.Task).Halted && s.looksAt(k) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func (s *server) looksAt(k scheduler.Key) bool {
	return slices.ContainsFunc(s.sched.Running(), func(one scheduler.Running) bool { return one.Key == k })
}

// resumeTask resumes what there is to resume. Halts and stops that were asked before,
// and that no look has carried out, are no longer meant. A halt that a look under way is
// still to record is recorded first, and taken back right after it. said is "" when the
// resume is in the ledger.
func (s *server) resumeTask(ctx context.Context, w *served, k scheduler.Key, r installation.Request) (said string, err error) {
	note, err := s.inbox.Note(ctx, inbox.Key(k))
	if err != nil {
		return "", err
	}
	if asked(note, kernel.ActHalt) && s.looksAt(k) && !s.settled(ctx, w, k) {
		if err := s.sched.Ask(ctx, k, r.Act, r.Actor, r.Reason); err != nil {
			return "", err
		}
		return fmt.Sprintf("task %d: the halt before it is not recorded yet, and the resume is stored behind it; both are recorded when the look at the task that is under way ends", r.Task), nil
	}
	if !asked(note, kernel.ActHalt) {
		if err := w.Resumable(ctx, w.sup, w.sup.View(r.Task)); err != nil {
			return "", err
		}
	}
	if err := s.forgetAsked(ctx, k); err != nil {
		return "", err
	}
	if err := w.sup.Resume(ctx, r.Task, r.Actor, r.Reason); err != nil {
		return "", err
	}
	return "", s.lookAgain(ctx, w, k)
}

// forgetAsked forgets the acts that nobody has carried out yet.
func (s *server) forgetAsked(ctx context.Context, k scheduler.Key) error {
	note, err := s.inbox.Note(ctx, inbox.Key(k))
	if err != nil || len(note.Acts) == 0 {
		return err
	}
	var before []string
	for _, a := range note.Acts {
		before = append(before, a.ID)
	}
	return s.inbox.Settle(ctx, inbox.Key(k), note.Failures, before)
}

// asked reports whether a person asked for such an act, and no look has carried it out.
func asked(note inbox.Note, kind string) bool {
	return slices.ContainsFunc(note.Acts, func(a inbox.Act) bool { return a.Kind == kind })
}

// lookAgain makes a task due now, whatever its last look saw.
func (s *server) lookAgain(ctx context.Context, w *served, k scheduler.Key) error {
	w.unchanged.forget(k.Task)
	return s.inbox.Mark(ctx, []inbox.Key{inbox.Key(k)}, time.Now().UnixMilli())
}
