package scheduler

import (
	"cmp"
	"slices"
)

// slot is a build slot that a drive holds, or has lent.
type slot struct{ scope scope }

// waiter is a task that asked for a build slot in vain.
type waiter struct {
	key     Key
	scope   scope
	granted bool // a free slot is granted to it, and counts as in use
	back    bool // it asks for a slot that its drive has lent, and that still counts for its world
}

// Build asks for a build slot and, for a scope with patterns, for the paths that
// they match. With ok the builder may start, and release gives both back. It may
// be called more than once; the scheduler releases both when Drive returns.
//
// Not ok means that all slots are in use, or some of the paths, or that the world
// is paused: Drive must then return soon, with what is true of the task now, and is
// called again when its turn has come. Slot and paths are granted to the task from
// then until that drive ends; so a task that waits for both never holds one of them
// in vain.
//
// A slot that was lent, see [Job.Idle], is reclaimed in the same way. Not ok then
// means that others have it: Drive may go on with what needs no slot, has a token in
// [Job.Nudges] when its turn has come, and asks again.
//
// An empty scope stands for `overlap: allow`: it is in nobody's way.
func (j *Job) Build(scope []string) (release func(), ok bool) {
	s, wanted := j.s, parseScope(scope)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worldOf(j.key.World)
	switch {
	case j.over:
		return nil, false
	case j.slot != nil && j.slot.scope.equal(wanted): // granted to this drive, or asked for again
		if j.outbid = j.lent && !s.reclaim(w, j); j.outbid {
			return nil, false
		}
		mine := j.slot
		return func() { j.release(mine) }, true
	}
	s.toDriveSlot(j)
	q := s.queue[j.key]
	if q != nil && q.granted {
		s.revoke(q)
	}
	if !s.buildSlotFree(w) || s.isPaused(w) || s.inTheWay(w, j.key, wanted) {
		s.enqueue(w, j.key, wanted)
		j.wants = true
		s.grantSlots()
		s.Nudge()
		return nil, false
	}
	if q != nil {
		s.dequeue(q)
	}
	s.holdSlot(w, j.key, wanted)
	s.usedDriveSlots--
	w.usedDriveSlots--
	j.wants = false
	mine := &slot{scope: wanted}
	j.slot = mine
	s.Nudge() // a drive slot is free
	return func() { j.release(mine) }, true
}

func (s scope) equal(o scope) bool { return slices.Equal(s.text, o.text) }

// release gives a build slot back; the drive goes on with a drive slot.
func (j *Job) release(mine *slot) {
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.slot != mine {
		return
	}
	s.toDriveSlot(j)
	s.grantSlots()
	s.Nudge()
}

// Idle lends the drive's slot to other worlds: nothing of it runs, and it waits for a
// server. The slot still counts for its own world, and the paths stay held, so that a
// world whose server hangs holds up nobody but itself, and has no more drives at once
// than its bounds allow. It may be called again while the drive waits, and gives up
// what was granted to the task meanwhile.
func (j *Job) Idle() {
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.over {
		return
	}
	s.unqueue(j)
	if q := s.queue[j.key]; q != nil && q.granted {
		s.revoke(q)
	}
	if !j.lent {
		j.lent = true
		*s.counter(j)--
	}
	s.grantSlots()
	s.Nudge()
}

// counter is the field that counts the slots in use of the kind that the drive has.
func (s *Scheduler) counter(j *Job) *int {
	if j.slot != nil {
		return &s.usedBuildSlots
	}
	return &s.usedDriveSlots
}

// reclaim takes a lent build slot back, or puts the task first in its world's line.
func (s *Scheduler) reclaim(w *world, j *Job) bool {
	q := s.queue[j.key]
	if q == nil && s.usedBuildSlots >= s.o.BuildSlots {
		q = &waiter{key: j.key, scope: j.slot.scope, back: true}
		s.queue[j.key] = q
		w.waiting = slices.Insert(w.waiting, 0, q)
	}
	switch {
	case q == nil:
		s.usedBuildSlots++
	case !q.granted:
		return false
	default:
		s.dequeue(q)
	}
	j.lent = false
	return true
}

// unqueue takes a task out of the line that stands there for what its drive has lent.
func (s *Scheduler) unqueue(j *Job) {
	q := s.queue[j.key]
	if q == nil || !q.back {
		return
	}
	if q.granted {
		s.revoke(q)
	}
	s.dequeue(q)
}

// toDriveSlot leaves a drive with a drive slot, whatever it has.
func (s *Scheduler) toDriveSlot(j *Job) {
	s.unqueue(j)
	if j.lent {
		j.lent = false
		*s.counter(j)++
	}
	if j.slot == nil {
		return
	}
	w := s.worldOf(j.key.World)
	s.dropSlot(w, j.key)
	j.slot = nil
	s.usedDriveSlots++
	w.usedDriveSlots++
}

// isPaused reports whether a person wants nothing of the world started.
func (s *Scheduler) isPaused(w *world) bool { return s.paused.Has(w.name) }

// buildSlotFree reports whether a build slot is free for the world.
func (s *Scheduler) buildSlotFree(w *world) bool {
	return s.usedBuildSlots < s.o.BuildSlots && w.usedBuildSlots < s.o.WorldBuildSlots
}

func (s *Scheduler) holdSlot(w *world, k Key, sc scope) {
	s.usedBuildSlots++
	w.usedBuildSlots++
	w.held[k] = sc
}

// grant gives a free slot to a task that waits, from when it counts as in use;
// revoke frees it again.
func (s *Scheduler) grant(q *waiter) {
	q.granted = true
	if q.back {
		s.usedBuildSlots++
		return
	}
	s.holdSlot(s.worldOf(q.key.World), q.key, q.scope)
}

func (s *Scheduler) revoke(q *waiter) {
	q.granted = false
	if q.back {
		s.usedBuildSlots--
		return
	}
	s.dropSlot(s.worldOf(q.key.World), q.key)
}

func (s *Scheduler) dropSlot(w *world, k Key) {
	s.usedBuildSlots--
	w.usedBuildSlots--
	delete(w.held, k)
}

// inTheWay reports whether somebody else holds some of the paths, or waits for
// some of them and was there first.
func (s *Scheduler) inTheWay(w *world, k Key, sc scope) bool {
	if sc.empty() {
		return false
	}
	for other, held := range w.held {
		if other != k && sc.overlaps(held) {
			return true
		}
	}
	for i, q := range w.waiting {
		switch {
		case q.key == k:
			return false
		case i == lookahead:
			return true
		case !q.granted && sc.overlaps(q.scope):
			return true
		}
	}
	return false
}

// enqueue puts a task at the end of its world's line, or leaves it where it
// stands there.
func (s *Scheduler) enqueue(w *world, k Key, sc scope) {
	if q := s.queue[k]; q != nil {
		q.scope = sc
		return
	}
	q := &waiter{key: k, scope: sc}
	s.queue[k] = q
	w.waiting = append(w.waiting, q)
}

// dequeue takes a task out of the line. A slot granted to it stays in use.
func (s *Scheduler) dequeue(q *waiter) {
	delete(s.queue, q.key)
	w := s.worldOf(q.key.World)
	if i := slices.Index(w.waiting, q); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// grantSlots grants free build slots to tasks that wait: worlds in turn, within a
// world the first whose paths are free. It must follow every change that frees
// a slot, a path or a place in a line, before anybody else can ask, and be
// followed by a look; s.mu is held.
func (s *Scheduler) grantSlots() {
	for s.usedBuildSlots < s.o.BuildSlots {
		q := s.nextWaiter()
		if q == nil {
			return
		}
		s.grant(q)
		s.turn++
		s.worldOf(q.key.World).grantTurn = s.turn
		if j := s.running[q.key]; q.back && j != nil {
			j.nudge()
		}
	}
}

func (s *Scheduler) nextWaiter() *waiter {
	var order []*world
	for _, w := range s.worlds {
		if len(w.waiting) > 0 && !s.inOutage(w.name) {
			order = append(order, w)
		}
	}
	slices.SortFunc(order, func(a, b *world) int {
		return cmp.Or(cmp.Compare(a.grantTurn, b.grantTurn), cmp.Compare(a.name, b.name))
	})
	for _, w := range order {
		open := s.buildSlotFree(w) && !s.isPaused(w)
		for _, q := range w.waiting[:min(len(w.waiting), lookahead)] {
			if !q.granted && (q.back || open && !s.idles(q.key) && !s.inTheWay(w, q.key, q.scope)) {
				return q
			}
		}
	}
	return nil
}

// idles reports whether a task is driven and waits for a server: it can't use a slot
// now.
func (s *Scheduler) idles(k Key) bool {
	j := s.running[k]
	return j != nil && j.lent
}
