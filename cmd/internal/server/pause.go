package server

import (
	"context"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/webhook/inbox"
)

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
