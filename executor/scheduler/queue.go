package scheduler

import (
	"cmp"
	"slices"
)

// Why a task waits for a build slot.
const (
	WaitSlots  = "slots"    // the server's are all held
	WaitWorld  = "world"    // its repository's are
	WaitPaths  = "overlap"  // another task holds some of its paths
	WaitPause  = "pause"    // a person wants nothing started
	WaitServer = "server"   // its git server, or its forge, can't be asked now
	WaitTurn   = "starting" // a slot is granted to it
)

// Waiting is a task that asked for a build slot in vain.
type Waiting struct {
	Key   Key
	Why   string // one of the Wait words
	Place int    // in its world's line, from 1
}

// Queue lists the tasks that wait for a build slot, by world and place, as it is at
// this moment.
func (s *Scheduler) Queue() []Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Waiting
	for _, w := range s.worlds {
		for i, q := range w.waiting {
			out = append(out, Waiting{Key: q.key, Why: s.why(w, q, s.idles(q.key)), Place: i + 1})
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Key.World, b.Key.World), cmp.Compare(a.Place, b.Place))
	})
	return out
}

// Why says why a task waits for a build slot, "" for one that doesn't. The task's own drive
// may ask: that it takes long itself isn't why.
func (s *Scheduler) Why(k Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue[k]
	if q == nil {
		return ""
	}
	return s.why(s.worldOf(k.World), q, false)
}

// Load says how the slots are used at this moment. Due is left out: the store knows it.
func (s *Scheduler) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{DriveSlots: s.usedDriveSlots, BuildSlots: s.usedBuildSlots, Waiting: len(s.queue)}
}

// why says what keeps a waiter, or that its drive waits for a server; s.mu is held.
func (s *Scheduler) why(w *world, q *waiter, idles bool) string {
	switch {
	case q.granted:
		return WaitTurn
	case s.isPaused(w):
		return WaitPause
	case s.inOutage(w.name) || idles && !q.back:
		return WaitServer
	case !q.back && s.inTheWay(w, q.key, q.scope):
		return WaitPaths
	case !q.back && w.usedBuildSlots >= s.o.WorldBuildSlots && s.usedBuildSlots < s.o.BuildSlots:
		return WaitWorld
	}
	return WaitSlots
}
