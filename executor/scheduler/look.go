package scheduler

import (
	"context"
	"slices"
	"time"
)

// look reads pauses and schedule once and starts what may start. It returns how
// long nothing has to be done, unless something wakes the scheduler.
func (s *Scheduler) look(ctx context.Context) (rest time.Duration) {
	rest = storeFirst //nolint:wastedassign // it counts if lookNow panics; then it rests longer by itself
	defer s.contain(ctx, "a look at the schedule panicked: it is looked at again")
	return s.lookNow(ctx)
}

func (s *Scheduler) lookNow(ctx context.Context) time.Duration {
	s.mu.Lock()
	rest := time.Until(s.restUntil)
	s.mu.Unlock()
	if rest > 0 {
		return rest
	}
	s.readPauses(ctx)
	s.startKept(ctx)
	shown := 0
	for depth := firstDepth; s.room() && ctx.Err() == nil; depth *= 4 {
		var keys []Key
		err := within(ctx, func(ctx context.Context) (err error) {
			keys, err = s.schedule.Due(ctx, time.Now().UnixMilli(), depth)
			return err
		})
		if err != nil {
			return s.troubled(ctx, err)
		}
		shown = len(keys)
		if deepest := s.start(ctx, keys); shown < depth || depth >= mostDepth || deepest > s.o.WorldTicks+s.o.WorldBuilds {
			break
		}
	}
	s.observe(shown)
	rest, err := s.untilNext(ctx)
	if err != nil {
		return s.troubled(ctx, err)
	}
	if shown == 0 { // otherwise it is a take that shows whether the store takes
		s.calm()
	}
	return rest
}

// untilNext is the time to the next due task, at most poll. What is due already
// and could not start waits for the end of something that runs.
func (s *Scheduler) untilNext(ctx context.Context) (time.Duration, error) {
	var at int64
	var ok bool
	err := within(ctx, func(ctx context.Context) (err error) {
		at, ok, err = s.schedule.Next(ctx)
		return err
	})
	most := poll
	s.mu.Lock()
	if len(s.passed) > 0 {
		most = passTime
	}
	s.mu.Unlock()
	left := time.Duration(at-time.Now().UnixMilli()) * time.Millisecond
	if !ok || left <= 0 {
		return most, err
	}
	return min(left, most), err
}

// troubled notes that the store could not be asked and returns how long to leave
// it alone: longer each time.
func (s *Scheduler) troubled(ctx context.Context, err error) time.Duration {
	s.mu.Lock()
	s.trouble++
	rest := backoff(Key{}, s.trouble, storeFirst, storeMost)
	s.restUntil = time.Now().Add(rest)
	s.mu.Unlock()
	if ctx.Err() == nil {
		s.log.Warn("the schedule can't be read: it is asked again", "after", rest, "error", err)
	}
	return rest
}

// calm notes that the store answers.
func (s *Scheduler) calm() {
	s.mu.Lock()
	s.trouble = 0
	s.mu.Unlock()
}

func (s *Scheduler) observe(shown int) {
	s.mu.Lock()
	l := Load{Due: shown, Ticks: s.ticks, Builds: s.builds, Waiting: len(s.queue)}
	s.mu.Unlock()
	s.o.Observer.Load(l)
}

// room reports whether a tick slot is free.
func (s *Scheduler) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ticks < s.o.Ticks
}

// startKept starts the tasks for which a build slot is kept, and those with a
// person's act.
func (s *Scheduler) startKept(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, q := range s.queue {
		if q.granted && s.rests(k.World) { // others need the slot now
			s.revoke(q)
		}
	}
	s.grantSlots()
	for k, q := range s.queue {
		if q.granted {
			s.begin(ctx, k)
		}
	}
	s.urgent = slices.DeleteFunc(s.urgent, func(k Key) bool {
		return s.running[k] == nil && s.begin(ctx, k)
	})
	now := time.Now()
	for k, until := range s.passed {
		if !now.Before(until) {
			delete(s.passed, k)
		}
	}
}

// start starts due tasks: one of each world in turn, the world served longest
// ago first, while there is room. It returns how many tasks the list has of the
// world it has most of.
func (s *Scheduler) start(ctx context.Context, keys []Key) (deepest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := map[string][]Key{}
	var order []*world
	for _, k := range keys {
		if len(lines[k.World]) == 0 {
			order = append(order, s.worldOf(k.World))
		}
		lines[k.World] = append(lines[k.World], k)
		deepest = max(deepest, len(lines[k.World]))
	}
	slices.SortStableFunc(order, func(a, b *world) int {
		switch {
		case a.served < b.served:
			return -1
		case a.served > b.served:
			return 1
		}
		return 0
	})
	for len(order) > 0 && s.ticks < s.o.Ticks {
		order = slices.DeleteFunc(order, func(w *world) bool {
			lines[w.name] = s.startOne(ctx, lines[w.name])
			return len(lines[w.name]) == 0
		})
	}
	return deepest
}

// startOne starts the first task of a world's line that can be and returns the
// rest of the line.
func (s *Scheduler) startOne(ctx context.Context, line []Key) []Key {
	for i, k := range line {
		if s.begin(ctx, k) {
			s.urgent = slices.DeleteFunc(s.urgent, func(u Key) bool { return u == k })
			return line[i+1:]
		}
	}
	return nil
}

// rests reports whether the server of a world can't serve its tasks now.
func (s *Scheduler) rests(world string) bool { return s.o.Rest != nil && s.o.Rest(world) > 0 }

// begin puts a task into the table of running tasks and starts it, if it isn't
// there and there is a slot for it; s.mu is held. What is paused is looked at all
// the same, for persons' acts are obeyed: it gets no build slot.
func (s *Scheduler) begin(ctx context.Context, k Key) bool {
	if s.running[k] != nil || ctx.Err() != nil {
		return false
	}
	if s.rests(k.World) && !slices.Contains(s.urgent, k) {
		return false
	}
	if until, ok := s.passed[k]; ok && time.Now().Before(until) {
		return false
	}
	w := s.worldOf(k.World)
	j := newJob(s, k)
	if q := s.queue[k]; q != nil && q.granted {
		s.dequeue(q)
		j.slot, j.kept = &slot{scope: q.scope}, true
	} else if s.ticks >= s.o.Ticks || w.ticks >= s.o.WorldTicks {
		return false
	} else {
		s.ticks++
		w.ticks++
	}
	s.turn++
	w.served = s.turn
	s.running[k] = j
	go s.drive(ctx, j)
	return true
}
