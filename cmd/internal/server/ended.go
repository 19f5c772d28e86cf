package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// ended remembers, for one repository and in memory, which state refs tell of a
// task that ended long ago, by the commit at HEAD. A look at each of them would
// use up what the forge allows; one exchange with git tells thousands apart.
type ended struct {
	mu    sync.Mutex
	heads map[int64]git.OID
}

// leaveOutEnded takes out those tasks whose HEAD, by its own word, ended so long ago
// that a sweep would pass over its issue. Whose word that is doesn't matter here:
// whatever happens on the issue has it looked at.
func (s *server) leaveOutEnded(ctx context.Context, w *served, heads map[int64]git.OID) error {
	w.life.ended.mu.Lock()
	defer w.life.ended.mu.Unlock()
	known := w.life.ended.heads
	maps.DeleteFunc(known, func(n int64, oid git.OID) bool { return heads[n] != oid })
	maps.DeleteFunc(heads, func(n int64, oid git.OID) bool { return known[n] == oid })
	said := map[git.OID]bool{}
	now := time.Now()
	err := w.Repo.Commits(ctx, slices.Collect(maps.Values(heads)), func(c git.Commit) {
		if endedLongAgo(c, now) {
			said[c.OID] = true
		}
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(heads, func(n int64, oid git.OID) bool {
		if said[oid] {
			known[n] = oid
		}
		return said[oid]
	})
	return nil
}

// endedLongAgo reads a commit at HEAD.
func endedLongAgo(c git.Commit, now time.Time) bool {
	if !c.Committer.OK || now.Sub(time.Unix(c.Committer.Seconds, 0)) < oldNews {
		return false
	}
	ev, err := lease.ReadEvent(lease.Head{OID: string(c.OID), Message: c.Message, CommitterSeconds: c.Committer.Seconds, CommitterOK: true})
	if err != nil {
		return false
	}
	waits := slices.ContainsFunc(ev.Extra(), func(tr lease.Trailer) bool { return tr.Key == kernel.TrailerWaitingFor })
	return !waits && (ev.State == string(kernel.TaskCompleted) || ev.State == string(kernel.TaskBlocked))
}
