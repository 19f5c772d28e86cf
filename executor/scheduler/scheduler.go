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
	runner   Runner
	o        Options
	log      *slog.Logger
	nudge    chan struct{} // something changed: look again

	mu        sync.Mutex
	running   map[Key]*Job
	worlds    map[string]*world
	queue     map[Key]*waiter   // who waits for a build slot
	urgent    []Key             // tasks with a person's act, taken before the others
	passed    map[Key]time.Time // not to be taken again before then
	paused    Paused            // by all sources, when they were read last
	blind     bool              // a source could not be read then
	ticks     int               // tick slots held, and not lent
	builds    int               // build slots held or granted, and not lent
	turn      uint64            // counts what was started and granted
	trouble   int               // times in a row that the store didn't answer
	restUntil time.Time         // the store is left alone until then
}

// world is what is known of one world while it has something to do.
type world struct {
	name    string
	ticks   int
	builds  int
	served  uint64        // the turn when a task of it was last started
	granted uint64        // the turn when a build slot was last granted
	waiting []*waiter     // in the order they came
	held    map[Key]scope // the scopes of those who hold a build slot
}

// New makes a scheduler. Nothing happens before Run.
func New(schedule Schedule, notes Notes, r Runner, o Options) (*Scheduler, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Scheduler{
		schedule: schedule, notes: notes, runner: r, o: o, log: o.Log, nudge: make(chan struct{}, 1),
		running: map[Key]*Job{}, worlds: map[string]*world{}, queue: map[Key]*waiter{}, passed: map[Key]time.Time{},
	}, nil
}

// Run drives what is due until ctx ends. Then nothing more is taken, each
// running task parts, and Run returns when all have, or after ShutdownTime and
// a last kill: what is left then is listed, by world and number, and may still
// run.
func (s *Scheduler) Run(ctx context.Context) (left []Key) {
	s.hasten(ctx)
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

// hasten looks at once at what waited for a build slot in the process before:
// the line was in its memory. Recheck is how far off their due times are.
func (s *Scheduler) hasten(ctx context.Context) {
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
// schedule. It is a courtesy: those that run hear of it by [Job.Nudges] at once,
// instead of by one more run at the end.
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

// shutdown waits for the running tasks, and kills what doesn't end in time.
func (s *Scheduler) shutdown() []Key {
	if !s.emptied(s.o.ShutdownTime) {
		for _, j := range s.jobs() {
			j.log.Warn("the task did not part in time: what it runs is killed")
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

// emptied waits until nothing runs, at most that long.
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

// Running is a task that runs now.
type Running struct {
	Key   Key
	Since time.Time
	Build bool // holds a build slot
}

// Running lists what runs, in no order.
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
