package gitlabtest

import (
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// Repo is a project in writ's words.
func (s *Server) Repo(projectID int64) forge.Repo {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.data.Projects[projectID]
	return forge.Repo{ID: p.ID, Owner: p.Namespace, Name: p.Name}
}

// GitDir is a project's bare repository.
func (s *Server) GitDir(projectID int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir(s.data.Projects[projectID])
}

// Moved tells of a ref that was moved in the repository, as if it had been
// pushed; old is all zeros for a new one.
func (s *Server) Moved(projectID, user int64, ref, old, oid string) {
	s.mu.Lock()
	s.moved(s.data.Projects[projectID], user, []smarthttp.RefUpdate{{Ref: ref, Old: old, New: oid}})
	s.mu.Unlock()
	s.post.wake()
}
