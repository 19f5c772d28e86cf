package server

import (
	"context"
	"errors"
	"strings"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/webhook/inbox"
)

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

// pauseFile is the file whose existence is a pause.
func (s *server) pauseFile() scheduler.PauseFile {
	if path := s.cfg.Server.PauseFile; path != "" {
		return scheduler.PauseFile(path)
	}
	return scheduler.PauseFile(s.in.Dir.File("pause"))
}

// pausesNow are those of the store and of the file.
func (s *server) pausesNow(ctx context.Context) ([]inbox.Pause, error) {
	list, err := s.inbox.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	file, err := s.pauseFile().Paused(ctx)
	if err != nil {
		return nil, err
	}
	by := "the file " + string(s.pauseFile())
	if file.All {
		list = append(list, inbox.Pause{By: by})
	}
	for world := range file.Worlds {
		list = append(list, inbox.Pause{World: world, By: by})
	}
	return list, nil
}

// recordPauses has the world's kernel record what of it is paused by now. By is who ended
// what is over. A pause holds whether or not it can be recorded; each sweep tries again, and
// finds those by a file.
func (s *server) recordPauses(ctx context.Context, w *served, by, reason string) {
	list, err := s.pausesNow(ctx)
	if err == nil {
		err = w.sup.Pauses(ctx, installation.PausesOf(list, w.World, s.worlds.meant), by, reason)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a pause or its end could not be recorded; it holds all the same", installation.LogWorld, w.World, "error", err)
	}
}

// notPaused is an error while something is paused. By whom and why is in the log:
// anybody may ask this.
func (s *server) notPaused(ctx context.Context) error {
	list, err := s.pausesNow(ctx)
	if err != nil {
		return errors.New("What is paused can't be read, so everything is.") //nolint:staticcheck // a sentence
	}
	if len(list) == 0 {
		return nil
	}
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = installation.Request{World: s.worlds.called(p.World)}.Paused()
		if p.SinceMs > 0 {
			words[i] += " since " + installation.PauseSince(p)
		} else {
			words[i] += " by a file"
		}
	}
	return errors.New("Paused: " + strings.Join(words, ", ") + ".")
}

// logPauses says at the start what is paused: nobody looks for a pause in a
// server that was just started.
func (s *server) logPauses(ctx context.Context) {
	list, err := s.pausesNow(ctx)
	if err != nil {
		return // the scheduler says so, and pauses everything
	}
	for _, p := range list {
		since := ""
		if p.SinceMs > 0 {
			since = installation.PauseSince(p)
		}
		s.log.Warn("paused: nothing new is started", installation.LogWorld, p.World, installation.LogRepository, s.worlds.called(p.World), "actor", p.By, "since", since, "reason", p.Reason)
	}
}
