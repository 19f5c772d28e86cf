package main

import (
	"context"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// openServerDesk makes the part of a server that takes a person's requests.
func openServerDesk(s *server) (func(context.Context) error, error) {
	d, err := openDesk(s.in.dir, s.obey)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { d.serve(ctx); return nil }, nil
}

// obey answers one request.
func (s *server) obey(ctx context.Context, r request) answer {
	if r.Act == actPause || r.Act == actUnpause {
		return s.obeyPause(ctx, r)
	}
	w, why := s.worldNamed(r.World)
	if w == nil {
		return answer{Detail: why}
	}
	k := scheduler.Key{World: w.world, Task: r.Task}
	var err error
	switch r.Act {
	case kernel.ActStop, kernel.ActHalt:
		err = s.sched.Ask(ctx, k, r.Act, r.Actor, r.Reason)
	case kernel.ActResume:
		if err = w.sup.Resume(ctx, r.Task, r.Actor, r.Reason); err == nil {
			w.restful.forget(r.Task)
			err = s.inbox.Mark(ctx, []inbox.Key{inbox.Key(k)}, time.Now().UnixMilli())
		}
	default:
		return answer{Detail: "The act is unknown."}
	}
	if err != nil {
		return answer{Detail: explain(err).Error()}
	}
	return answer{OK: true}
}

// worldNamed finds the world of a request, which need not name the only one.
func (s *server) worldNamed(name string) (w *served, why string) {
	if w := s.worlds[name]; w != nil {
		return w, ""
	}
	if name != "" {
		return nil, "The running server doesn't govern " + name + "."
	}
	if len(s.worlds) != 1 {
		return nil, "The running server governs several repositories: give --world."
	}
	for _, w = range s.worlds {
	}
	return w, ""
}

func (s *server) obeyPause(ctx context.Context, r request) answer {
	if r.World != "" && s.worlds[r.World] == nil {
		return answer{Detail: "The running server doesn't govern " + r.World + "."}
	}
	if err := s.inbox.SetPause(ctx, r.pause(), r.Act == actPause); err != nil {
		return answer{Detail: explain(err).Error()}
	}
	s.sched.Nudge()
	s.log.Info("a person's pause", "on", r.Act == actPause, "world", r.World, "actor", r.Actor)
	return answer{OK: true}
}

func (r request) pause() inbox.Pause {
	return inbox.Pause{World: r.World, SinceMs: r.Time, By: r.Actor, Reason: r.Reason}
}
