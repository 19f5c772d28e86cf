package server

import (
	"context"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
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
