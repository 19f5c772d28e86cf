package local

import (
	"context"
	"sync"
	"time"

	"github.com/writbot/writ/forge/git"
)

// maintenanceTime bounds what one repository's maintenance may take. What isn't done by
// then is begun anew after a later push.
const maintenanceTime = 5 * time.Minute

// keeping is which repository is maintained, one at a time, since pushes have a use for the
// machine as well.
type keeping struct {
	mu  sync.Mutex
	one int64 // 0: none
}

// maintain packs a repository behind its pushes, once there is enough to pack.
func (s *Store) maintain(repo int64) {
	if !git.NeedsMaintenance(s.GitDir(repo)) || s.ended.Err() != nil {
		return
	}
	s.keeping.mu.Lock()
	defer s.keeping.mu.Unlock()
	if s.keeping.one != 0 {
		return // its own next push, or the other's, comes back to it
	}
	s.keeping.one = repo
	s.running.Go(func() {
		defer func() {
			s.keeping.mu.Lock()
			s.keeping.one = 0
			s.keeping.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(s.ended, maintenanceTime)
		defer cancel()
		began := time.Now()
		if err := git.Maintain(ctx, "", s.GitDir(repo)); err != nil {
			s.log.Warn("a repository could not be packed; it works all the same, and more slowly", "repository", repo, "error", err)
			return
		}
		s.log.Info("a repository was packed", "repository", repo, "took", time.Since(began).String())
	})
}
