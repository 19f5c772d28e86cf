package scheduler

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scheduler drives what is due. All its methods may be called at any time by
// any goroutine, but Run only once.
type Scheduler struct {
	schedule Schedule
	notes    Notes
	driver   Driver
	o        Options
	log      *slog.Logger
	nudge    chan struct{} // something changed: look again

	mu      sync.Mutex
	running map[Key]*Job
	worlds  map[string]*world
	queue   map[Key]*waiter   // who waits for a build slot
	urgent  []Key             // tasks with a person's act, taken before the others
	skipped map[Key]time.Time // not to be taken again before then
	paused  Paused            // by all sources, when they were read last
	blind   bool              // a source could not be read then
	// Slots in use: granted ones count, lent ones don't.
	usedDriveSlots int
	usedBuildSlots int
	turn           uint64    // counts what was started and granted
	storeFailures  int       // times in a row that the store didn't answer
	storeRetryAt   time.Time // the store is left alone until then
}

// world is what is known of one world since the process started. It is kept while
// the world has nothing to do: a world that came back without its turns would go
// before all others.
type world struct {
	name string
	// Slots of the world's tasks, lent ones included.
	usedDriveSlots int
	usedBuildSlots int
	startTurn      uint64        // the turn when a task of it was last started
	grantTurn      uint64        // the turn when a build slot was last granted
	waiting        []*waiter     // in the order they came
	held           map[Key]scope // the scopes of tasks with a build slot, granted ones included
}

// New makes a scheduler. Nothing happens before Run.
func New(schedule Schedule, notes Notes, d Driver, o Options) (*Scheduler, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Scheduler{
		schedule: schedule, notes: notes, driver: d, o: o, log: o.Log, nudge: make(chan struct{}, 1),
		running: map[Key]*Job{}, worlds: map[string]*world{}, queue: map[Key]*waiter{}, skipped: map[Key]time.Time{},
	}, nil
}

// Run has driven what is due until ctx ends. Then nothing more is taken, each
// drive gives its lease back and ends, and Run returns when all have, or after
// ShutdownTime and a last kill: what is left then is listed, by world and
// number, and may still run.
func (s *Scheduler) Run(ctx context.Context) (left []Key) {
	s.hastenWaiting(ctx)
	for {
		timer := time.NewTimer(s.look(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return s.shutdown()
		case <-timer.C:
		case <-s.nudge:
		case <-s.schedule.Wake():
		}
		timer.Stop()
	}
}

// hastenWaiting makes due what waited for a build slot in the process before: the
// line was in its memory. Recheck is how far off the due times of those tasks are.
func (s *Scheduler) hastenWaiting(ctx context.Context) {
	now := time.Now()
	err := within(ctx, func(ctx context.Context) error {
		return s.schedule.Hasten(ctx, now.UnixMilli(), now.Add(s.o.Recheck).UnixMilli())
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("what waited for a build slot is looked at later", "after", s.o.Recheck, "error", err)
	}
}

// Nudge makes the scheduler look at schedule and pauses now.
func (s *Scheduler) Nudge() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Marked says which tasks somebody in this process has just marked in the
// schedule. Those that are driven hear of it by [Job.Nudges] at once; without it
// each is driven once more at the end.
func (s *Scheduler) Marked(keys ...Key) {
	s.mu.Lock()
	for _, k := range keys {
		if j := s.running[k]; j != nil {
			j.nudge()
		}
	}
	s.mu.Unlock()
	s.Nudge()
}

// shutdown waits for the drives to end, and kills what runs of those that don't in time.
func (s *Scheduler) shutdown() []Key {
	if !s.emptied(s.o.ShutdownTime) {
		for _, j := range s.jobs() {
			j.log.Warn("the task's drive did not end in time: what it runs is killed")
			go j.kill()
		}
		s.emptied(killTime)
	}
	var left []Key
	for _, j := range s.jobs() {
		left = append(left, j.key)
	}
	slices.SortFunc(left, func(a, b Key) int {
		if c := strings.Compare(a.World, b.World); c != 0 {
			return c
		}
		return int(min(max(a.Task-b.Task, -1), 1))
	})
	return left
}

// emptied waits until no task is driven, at most that long.
func (s *Scheduler) emptied(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for len(s.jobs()) > 0 {
		select {
		case <-s.nudge:
		case <-timer.C:
			return len(s.jobs()) == 0
		}
	}
	return true
}

func (s *Scheduler) jobs() []*Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Job, 0, len(s.running))
	for _, j := range s.running {
		out = append(out, j)
	}
	return out
}

// Running is a task that is driven now.
type Running struct {
	Key   Key
	Since time.Time
	Build bool // has a build slot, in use or lent, see [Job.Idle]
}

// Running lists the tasks that are driven, in no order.
func (s *Scheduler) Running() []Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Running, 0, len(s.running))
	for _, j := range s.running {
		out = append(out, Running{Key: j.key, Since: j.since, Build: j.slot != nil})
	}
	return out
}

// worldOf finds or makes a world; s.mu is held.
func (s *Scheduler) worldOf(name string) *world {
	w := s.worlds[name]
	if w == nil {
		w = &world{name: name, held: map[Key]scope{}}
		s.worlds[name] = w
	}
	return w
}
