package scheduler

import (
	"cmp"
	"slices"
)

// slot is a build slot in somebody's hand.
type slot struct{ scope scope }

// waiter is a task that asked for a build slot in vain.
type waiter struct {
	key     Key
	scope   scope
	granted bool // the slot is kept for it; it counts as held
	back    bool // its run has lent the slot, and keeps all of it but the right to run something
}

// Build asks for a build slot and, for a scope with patterns, for the paths that
// they match. With ok the builder may start, and release gives both back; it may
// be called more than once, and what is not released is when Run returns.
//
// Not ok means that all slots are held, or some of the paths, or that the world is
// paused: Run must then
// return soon, with what is true of the task now, and is called again when its
// turn has come. Slot and paths are kept for it from then until that run ends;
// so a task that waits for both never holds one of them in vain.
//
// A slot that was lent, see [Job.Idle], is reclaimed in the same way. Not ok then
// means that others have it: Run may go on with what needs no slot, has a token in
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
	case j.slot != nil && j.slot.scope.equal(wanted): // kept for this run, or asked for again
		if j.outbid = j.lent && !s.reclaim(w, j); j.outbid {
			return nil, false
		}
		mine := j.slot
		return func() { j.release(mine) }, true
	}
	s.toTick(j)
	q := s.queue[j.key]
	if q != nil && q.granted {
		s.revoke(q)
	}
	if !s.free(w) || s.isPaused(w) || s.inTheWay(w, j.key, wanted) {
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
	s.ticks--
	w.ticks--
	j.wants = false
	mine := &slot{scope: wanted}
	j.slot = mine
	s.Nudge() // a tick slot is free
	return func() { j.release(mine) }, true
}

func (s scope) equal(o scope) bool { return slices.Equal(s.text, o.text) }

// release gives a build slot back; the run goes on with a tick slot.
func (j *Job) release(mine *slot) {
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.slot != mine {
		return
	}
	s.toTick(j)
	s.grantSlots()
	s.Nudge()
}

// Idle lends the run's slot to other worlds: nothing of it runs, and it waits for a
// server. The slot still counts for its own world, and the paths are kept, so that a
// world whose server hangs holds up nobody but itself, and no more of its tasks than
// ever wait at once. It may be called again while the run waits, and gives up what was
// kept for the run meanwhile.
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

// counter counts the slots of the run's kind that are held by whoever uses them.
func (s *Scheduler) counter(j *Job) *int {
	if j.slot != nil {
		return &s.builds
	}
	return &s.ticks
}

// reclaim has a lent build slot again, or has the run stand first in its world's line.
func (s *Scheduler) reclaim(w *world, j *Job) bool {
	q := s.queue[j.key]
	if q == nil && s.builds >= s.o.Builds {
		q = &waiter{key: j.key, scope: j.slot.scope, back: true}
		s.queue[j.key] = q
		w.waiting = slices.Insert(w.waiting, 0, q)
	}
	switch {
	case q == nil:
		s.builds++
	case !q.granted:
		return false
	default:
		s.dequeue(q)
	}
	j.lent = false
	return true
}

// unqueue takes a run out of the line that stands there for what it has lent.
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

// toTick leaves a run with a tick slot, whatever it has.
func (s *Scheduler) toTick(j *Job) {
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
	s.ticks++
	w.ticks++
}

// isPaused reports whether a person wants nothing of the world started.
func (s *Scheduler) isPaused(w *world) bool { return s.paused.Has(w.name) }

// free reports whether a build slot is free for the world.
func (s *Scheduler) free(w *world) bool {
	return s.builds < s.o.Builds && w.builds < s.o.WorldBuilds
}

func (s *Scheduler) holdSlot(w *world, k Key, sc scope) {
	s.builds++
	w.builds++
	w.held[k] = sc
}

// keep keeps a free slot for who waits, and revoke gives it to the others.
func (s *Scheduler) keep(q *waiter) {
	q.granted = true
	if q.back {
		s.builds++
		return
	}
	s.holdSlot(s.worldOf(q.key.World), q.key, q.scope)
}

func (s *Scheduler) revoke(q *waiter) {
	q.granted = false
	if q.back {
		s.builds--
		return
	}
	s.dropSlot(s.worldOf(q.key.World), q.key)
}

func (s *Scheduler) dropSlot(w *world, k Key) {
	s.builds--
	w.builds--
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

// dequeue takes a task out of the line. A slot granted to it is still held.
func (s *Scheduler) dequeue(q *waiter) {
	delete(s.queue, q.key)
	w := s.worldOf(q.key.World)
	if i := slices.Index(w.waiting, q); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// grantSlots keeps free build slots for those who wait: worlds in turn, within a
// world the first whose paths are free. It must follow every change that frees
// a slot, a path or a place in a line, before anybody else can ask, and be
// followed by a look; s.mu is held.
func (s *Scheduler) grantSlots() {
	for s.builds < s.o.Builds {
		q := s.nextWaiter()
		if q == nil {
			return
		}
		s.keep(q)
		s.turn++
		s.worldOf(q.key.World).granted = s.turn
		if j := s.running[q.key]; q.back && j != nil {
			j.nudge()
		}
	}
}

func (s *Scheduler) nextWaiter() *waiter {
	var order []*world
	for _, w := range s.worlds {
		if len(w.waiting) > 0 && !s.rests(w.name) {
			order = append(order, w)
		}
	}
	slices.SortFunc(order, func(a, b *world) int {
		return cmp.Or(cmp.Compare(a.granted, b.granted), cmp.Compare(a.name, b.name))
	})
	for _, w := range order {
		open := s.free(w) && !s.isPaused(w)
		for _, q := range w.waiting[:min(len(w.waiting), lookahead)] {
			if !q.granted && (q.back || open && !s.idles(q.key) && !s.inTheWay(w, q.key, q.scope)) {
				return q
			}
		}
	}
	return nil
}

// idles reports whether a task is being looked at, and waits for a server: it can't use
// a slot now.
func (s *Scheduler) idles(k Key) bool {
	j := s.running[k]
	return j != nil && j.lent
}
