package scheduler_test

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// behaviour is what a fake Driver does with a task.
type behaviour func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error)

// bench is a scheduler over a schedule in memory, in virtual time.
type bench struct {
	t      *testing.T
	mem    *schedulertest.Memory
	s      *scheduler.Scheduler
	begun  time.Time
	end    func() []scheduler.Key // nil while it doesn't run
	paused pauseSet

	mu        sync.Mutex
	does      behaviour
	runs      map[scheduler.Key][]time.Duration // when each run began, since the bench
	live      map[scheduler.Key]int
	liveWorld map[string]int
	order     []scheduler.Key
	most      int // at once
	mostWorld int
	outcomes  map[scheduler.Key][]string
}

// inBubble runs a test in virtual time on a scheduler that doesn't run yet. At
// the end nothing may be left.
func inBubble(t *testing.T, o scheduler.Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(newBench(t, schedulertest.NewMemory(), o))
	})
}

func newBench(t *testing.T, mem *schedulertest.Memory, o scheduler.Options) *bench {
	b := &bench{
		t: t, mem: mem, begun: time.Now(), does: ends,
		runs: map[scheduler.Key][]time.Duration{}, live: map[scheduler.Key]int{}, liveWorld: map[string]int{},
		outcomes: map[scheduler.Key][]string{},
	}
	var ids int
	var mu sync.Mutex
	o.NewID = func() string {
		mu.Lock()
		defer mu.Unlock()
		ids++
		return time.Now().String() + strconv.Itoa(ids)
	}
	o.Metrics = b
	o.Pauses = append(o.Pauses, &b.paused)
	var err error
	if b.s, err = scheduler.New(mem, mem, b, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop() })
	return b
}

// start starts the scheduler.
func (b *bench) start() {
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan []scheduler.Key)
	go func() { left <- b.s.Run(ctx) }()
	b.end = func() []scheduler.Key { cancel(); return <-left }
	synctest.Wait()
}

// stop shuts it down and returns what was left.
func (b *bench) stop() []scheduler.Key {
	if b.end == nil {
		return nil
	}
	end := b.end
	b.end = nil
	return end()
}

// Drive implements scheduler.Driver: it watches, and does what was set.
func (b *bench) Drive(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	k := j.Key()
	b.mu.Lock()
	b.live[k]++
	b.liveWorld[k.World]++
	if b.live[k] > 1 {
		b.t.Errorf("%s runs twice at once", k)
	}
	b.runs[k] = append(b.runs[k], time.Since(b.begun))
	b.order = append(b.order, k)
	sum := 0
	for n := range maps.Values(b.liveWorld) {
		sum += n
	}
	b.most, b.mostWorld = max(b.most, sum), max(b.mostWorld, b.liveWorld[k.World])
	does := b.does
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.live[k]--
		b.liveWorld[k.World]--
		b.mu.Unlock()
	}()
	return does(ctx, j)
}

// do says what the Driver does from now on.
func (b *bench) do(f behaviour) {
	b.mu.Lock()
	b.does = f
	b.mu.Unlock()
}

func (b *bench) Started(scheduler.Key) {}
func (b *bench) Load(scheduler.Load)   {}
func (b *bench) Ended(k scheduler.Key, outcome string, _ time.Duration) {
	b.mu.Lock()
	b.outcomes[k] = append(b.outcomes[k], outcome)
	b.mu.Unlock()
}

func (b *bench) count(k scheduler.Key) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs[k])
}

func (b *bench) served() []scheduler.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]scheduler.Key(nil), b.order...)
}

// began lists when the task's runs began, since the bench was made.
func (b *bench) began(k scheduler.Key) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Duration(nil), b.runs[k]...)
}

func (b *bench) outcome(k scheduler.Key) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.outcomes[k]); n > 0 {
		return b.outcomes[k][n-1]
	}
	return ""
}

// mark makes tasks due now.
func (b *bench) mark(keys ...scheduler.Key) {
	b.t.Helper()
	for _, k := range keys {
		b.must(b.mem.Mark(context.Background(), k, time.Now().UnixMilli()))
	}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// pass lets time pass, and what is due in it happen.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// pause pauses a world, or all of them for "", and unpause ends that.
func (b *bench) pause(world string)   { b.paused.set(b.s, world, true) }
func (b *bench) unpause(world string) { b.paused.set(b.s, world, false) }

// pauseSet is a place where a test writes pauses down. The zero value is ready.
type pauseSet struct {
	mu     sync.Mutex
	worlds map[string]bool
}

// Paused implements scheduler.PauseSource.
func (p *pauseSet) Paused(context.Context) (scheduler.Paused, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return scheduler.Paused{All: p.worlds[""], Worlds: maps.Clone(p.worlds)}, nil
}

func (p *pauseSet) set(s *scheduler.Scheduler, world string, on bool) {
	p.mu.Lock()
	if p.worlds == nil {
		p.worlds = map[string]bool{}
	}
	p.worlds[world] = on
	p.mu.Unlock()
	s.Nudge()
}

// note is what is remembered of a task.
func (b *bench) note(k scheduler.Key) scheduler.Note {
	b.t.Helper()
	n, err := b.mem.Load(context.Background(), k)
	b.must(err)
	return n
}

// ends is the behaviour of a task that is over.
func ends(context.Context, *scheduler.Job) (scheduler.Result, error) {
	return scheduler.Result{Outcome: "final", Ended: true}, nil
}

// wait waits in virtual time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takes is a behaviour that takes some time and is over then.
func takes(d time.Duration) behaviour {
	return func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
		if err := wait(ctx, d); err != nil {
			return scheduler.Result{}, err
		}
		return ends(ctx, j)
	}
}

// builds is a behaviour that asks for a build slot and builds for some time.
func builds(d time.Duration, scope ...string) behaviour {
	return func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
		release, ok := j.Build(scope)
		if !ok {
			return scheduler.Result{Outcome: "due"}, nil
		}
		defer release()
		return takes(d)(ctx, j)
	}
}

func key(world string, task int64) scheduler.Key { return scheduler.Key{World: world, Task: task} }
