package scheduler

import (
	"context"
	"slices"
	"time"
)

// look reads pauses and schedule once and starts what may start. It returns how
// long to wait until the next look, unless something wakes the scheduler.
func (s *Scheduler) look(ctx context.Context) (wait time.Duration) {
	wait = storeFirst //nolint:wastedassign // it counts if lookNow panics; storeRetryAt is later then
	defer s.contain(ctx, "a look at the schedule panicked: it is looked at again")
	return s.lookNow(ctx)
}

func (s *Scheduler) lookNow(ctx context.Context) time.Duration {
	s.mu.Lock()
	wait := time.Until(s.storeRetryAt)
	s.mu.Unlock()
	if wait > 0 {
		return wait
	}
	s.readPauses(ctx)
	s.startGranted(ctx)
	shown := 0
	for depth := firstDepth; s.driveSlotFree() && ctx.Err() == nil; depth *= 4 {
		var keys []Key
		err := within(ctx, func(ctx context.Context) (err error) {
			keys, err = s.schedule.Due(ctx, time.Now().UnixMilli(), depth)
			return err
		})
		if err != nil {
			return s.storeFailed(ctx, err)
		}
		shown = len(keys)
		if deepest := s.start(ctx, keys); shown < depth || depth >= mostDepth || deepest > s.o.WorldDriveSlots+s.o.WorldBuildSlots {
			break
		}
	}
	s.reportLoad(shown)
	wait, err := s.untilNext(ctx)
	if err != nil {
		return s.storeFailed(ctx, err)
	}
	if shown == 0 { // otherwise it is a take that shows whether the store takes
		s.storeAnswered()
	}
	return wait
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
	if len(s.skipped) > 0 {
		most = skipTime
	}
	s.mu.Unlock()
	left := time.Duration(at-time.Now().UnixMilli()) * time.Millisecond
	if !ok || left <= 0 {
		return most, err
	}
	return min(left, most), err
}

// storeFailed notes that the store didn't answer, or that a look at it failed, and
// returns how long to leave it alone: longer each time.
func (s *Scheduler) storeFailed(ctx context.Context, err error) time.Duration {
	s.mu.Lock()
	s.storeFailures++
	wait := backoff(Key{}, s.storeFailures, storeFirst, storeMost)
	s.storeRetryAt = time.Now().Add(wait)
	s.mu.Unlock()
	if ctx.Err() == nil {
		s.log.Warn("the schedule can't be read: it is asked again", "after", wait, "error", err)
	}
	return wait
}

// storeAnswered notes that the store answers.
func (s *Scheduler) storeAnswered() {
	s.mu.Lock()
	s.storeFailures = 0
	s.mu.Unlock()
}

// reportLoad tells the metrics of a look that was shown so many due tasks.
func (s *Scheduler) reportLoad(shown int) {
	l := s.Load()
	l.Due = shown
	s.o.Metrics.Load(l)
}

// driveSlotFree reports whether a task can be started without a build slot.
func (s *Scheduler) driveSlotFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usedDriveSlots < s.o.DriveSlots
}

// startGranted starts the tasks that a build slot is granted to, and those with a
// person's act.
func (s *Scheduler) startGranted(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, q := range s.queue {
		if q.granted && s.inOutage(k.World) { // others need the slot now
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
	for k, until := range s.skipped {
		if !now.Before(until) {
			delete(s.skipped, k)
		}
	}
}

// start starts due tasks: one of each world in turn, the world served longest
// ago first, while drive slots are free. It returns how many tasks the list has of the
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
		case a.startTurn < b.startTurn:
			return -1
		case a.startTurn > b.startTurn:
			return 1
		}
		return 0
	})
	for len(order) > 0 && s.usedDriveSlots < s.o.DriveSlots {
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

// inOutage reports whether the server of a world can't serve its tasks now.
func (s *Scheduler) inOutage(world string) bool { return s.o.Outage != nil && s.o.Outage(world) }

// begin puts a task into the table of running tasks and starts it, if it isn't
// there and there is a slot for it; s.mu is held. What is paused is driven all the
// same, for persons' acts are obeyed: it gets no build slot.
func (s *Scheduler) begin(ctx context.Context, k Key) bool {
	if s.running[k] != nil || ctx.Err() != nil {
		return false
	}
	if s.inOutage(k.World) && !slices.Contains(s.urgent, k) {
		return false
	}
	if until, ok := s.skipped[k]; ok && time.Now().Before(until) {
		return false
	}
	w := s.worldOf(k.World)
	j := newJob(s, k)
	if q := s.queue[k]; q != nil && q.granted {
		s.dequeue(q)
		j.slot, j.granted = &slot{scope: q.scope}, true
	} else if s.usedDriveSlots >= s.o.DriveSlots || w.usedDriveSlots >= s.o.WorldDriveSlots {
		return false
	} else {
		s.usedDriveSlots++
		w.usedDriveSlots++
	}
	s.turn++
	w.startTurn = s.turn
	s.running[k] = j
	go s.drive(ctx, j)
	return true
}
