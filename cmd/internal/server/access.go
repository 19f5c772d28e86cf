package server

import (
	"context"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge"
)

// checkAccess asks what writ was given for a repository, and tells what is news.
// A forge that doesn't answer changes nothing.
func (s *server) checkAccess(ctx context.Context, l *listing, at forge.Repo) {
	if l.forge.Access == nil {
		return
	}
	has, err := l.forge.Access(ctx, at)
	if err != nil {
		s.log.Debug("what writ may do could not be asked", "repository", l.name, "error", err)
		return
	}
	before, said := s.worlds.given(l, has)
	switch {
	case has.Lacks != nil && !said:
		s.log.Warn("writ lacks something at the forge", "forge", l.forge.Name, "repository", l.name, "error", has.Lacks.Text, "remedy", has.Lacks.Remedy)
	case has.Lacks == nil && before != nil:
		s.log.Info("writ has at the forge what it needs", "forge", l.forge.Name, "repository", l.name)
	}
}

// given notes what writ has for a repository. It returns what it lacked before,
// and whether what it lacks now was said already: a token is of many repositories.
func (ws *worlds) given(l *listing, has wire.Access) (before *problem.Error, said bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, other := range ws.list {
		said = said || has.Lacks != nil && other.lacks != nil && other.lacks.Text == has.Lacks.Text
	}
	before = l.lacks
	l.installation, l.lacks = has.Installation, has.Lacks
	return before, said
}
