package server

import (
	"context"
	"encoding/json"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/scheduler"
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
		q.Builds = s.sched.Load().Builds
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
