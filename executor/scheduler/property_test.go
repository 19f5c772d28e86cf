package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
)

// step is one thing that happens to the scheduler, after some time.
type step struct {
	After time.Duration
	Do    string // mark, ask, pause, unpause, break, mend, restart, forget
	Key   scheduler.Key
}

// plan is a history: what happens, and what chance the Driver acts by.
type plan struct {
	Steps   []step
	Seed    uint64
	Options scheduler.Options
}

func drawPlan(t *rapid.T) plan {
	keys := rapid.Custom(func(t *rapid.T) scheduler.Key {
		return key(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "world"), rapid.Int64Range(1, 6).Draw(t, "task"))
	})
	steps := rapid.Custom(func(t *rapid.T) step {
		return step{
			After: rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 700 * time.Millisecond, 5 * time.Second, time.Minute}).Draw(t, "after"),
			Do: rapid.SampledFrom([]string{"mark", "mark", "mark", "mark", "ask", "ask", "pause", "unpause", "break", "mend", "restart",
				"forget"}).Draw(t, "do"),
			Key: keys.Draw(t, "key"),
		}
	})
	size := func(name string) int { return rapid.IntRange(1, 3).Draw(t, name) }
	return plan{
		Steps: rapid.SliceOfN(steps, 1, 40).Draw(t, "steps"), Seed: rapid.Uint64().Draw(t, "seed"),
		Options: scheduler.Options{
			DriveSlots: size("ticks"), WorldDriveSlots: size("world ticks"), BuildSlots: size("builds"), WorldBuildSlots: size("world builds"),
			PoisonAfter: rapid.IntRange(2, 20).Draw(t, "poison"), Resync: 10 * time.Minute, BackoffMost: time.Minute, ShutdownTime: 5 * time.Second,
		},
	}
}

// model watches a history: what was asked of a task and not yet seen to, and
// who runs.
type model struct {
	mu       sync.Mutex
	rand     *rand.Rand
	o        scheduler.Options
	live     map[scheduler.Key]int
	building map[scheduler.Key][]string
	owed     map[scheduler.Key]bool // marked, and no run began since
	asked    map[string]bool        // ids of acts, whether carried out
	paused   pauseSet
	broken   bool // the store is away
	again    bool // a process ended while it was: what it carried out may come again
	calm     bool // the Driver behaves
	faults   []string
}

func (m *model) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// Drive implements scheduler.Driver by chance.
func (m *model) Drive(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	m.mu.Lock()
	k := j.Key()
	m.live[k]++
	delete(m.owed, k)
	if m.live[k] > 1 {
		m.fault("%s runs twice at once", k)
	}
	if n := len(m.live); n > m.o.DriveSlots+m.o.BuildSlots {
		m.fault("%d tasks run at once", n)
	}
	took := time.Duration(m.rand.IntN(3000)) * time.Millisecond
	way, calm := m.rand.IntN(10), m.calm
	paths := []string{fmt.Sprintf("d%d/**", m.rand.IntN(3))}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		if m.live[k]--; m.live[k] == 0 {
			delete(m.live, k)
		}
		m.mu.Unlock()
	}()
	err := wait(ctx, took)
	switch {
	case err != nil:
		return scheduler.Result{}, err
	case calm:
		m.obey(j)
		return ends(ctx, j)
	}
	switch way {
	case 0:
		return scheduler.Result{}, errAway
	case 1:
		panic("by chance")
	case 2, 3, 4, 5:
		return m.build(ctx, j, paths)
	case 6:
		return scheduler.Result{}, scheduler.ErrHalted
	case 7:
		return scheduler.Result{Outcome: "due", Next: time.Now().Add(took).UnixMilli()}, nil
	}
	m.obey(j)
	return scheduler.Result{Outcome: "waiting"}, nil
}

func (m *model) obey(j *scheduler.Job) {
	for {
		select {
		case o := <-j.Acts():
			m.mu.Lock()
			if m.asked[o.ID] && !m.again {
				m.fault("the act %s on %s is carried out twice", o.ID, j.Key())
			}
			m.asked[o.ID] = true
			m.mu.Unlock()
			o.Done <- nil
		default:
			return
		}
	}
}

func (m *model) build(ctx context.Context, j *scheduler.Job, paths []string) (scheduler.Result, error) {
	release, ok := j.Build(paths)
	if !ok {
		return scheduler.Result{Outcome: "due"}, nil
	}
	k := j.Key()
	m.mu.Lock()
	world := 1
	for other, theirs := range m.building {
		if other.World == k.World {
			world++
			if scheduler.Overlap(paths, theirs) {
				m.fault("%s and %s build in %v at once", k, other, paths)
			}
		}
	}
	m.building[k] = paths
	if len(m.building) > m.o.BuildSlots || world > m.o.WorldBuildSlots {
		m.fault("%d build at once, %d of one world", len(m.building), world)
	}
	took := time.Duration(m.rand.IntN(60)) * time.Second
	m.mu.Unlock()
	err := wait(ctx, took)
	m.mu.Lock()
	delete(m.building, k)
	m.mu.Unlock()
	if err != nil {
		return scheduler.Result{}, err
	}
	release()
	m.obey(j)
	return ends(ctx, j)
}

// history plays a plan and returns what went wrong.
func history(t *testing.T, p plan) []string {
	m := &model{
		rand: rand.New(rand.NewPCG(p.Seed, 1)), o: p.Options, live: map[scheduler.Key]int{}, building: map[scheduler.Key][]string{},
		owed: map[scheduler.Key]bool{}, asked: map[string]bool{},
	}
	mem := schedulertest.NewMemory()
	ids := 0
	p.Options.NewID = func() string { ids++; return fmt.Sprint(ids) }
	p.Options.Pauses = []scheduler.PauseSource{&m.paused}
	var s *scheduler.Scheduler
	var cancel context.CancelFunc
	left := make(chan []scheduler.Key)
	start := func() {
		var err error
		if s, err = scheduler.New(mem, mem, m, p.Options); err != nil {
			t.Fatal(err)
		}
		var ctx context.Context
		ctx, cancel = context.WithCancel(context.Background())
		go func() { left <- s.Run(ctx) }()
	}
	start()
	for _, st := range p.Steps {
		<-time.After(st.After)
		m.step(t, mem, s, st, func() {
			cancel()
			if l := <-left; len(l) > 0 {
				m.mu.Lock()
				m.fault("left after the shutdown: %v", l)
				m.mu.Unlock()
			}
			mem.Restart()
			start()
		})
	}
	// What was broken is mended and nobody pauses: now all must be seen to.
	mem.SetFault(nil)
	m.mu.Lock()
	m.calm = true
	m.mu.Unlock()
	for _, w := range []string{"a", "b", "c"} {
		m.paused.set(s, w, false)
	}
	<-time.After(25 * time.Minute)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.owed {
		m.fault("%s was marked and is forgotten", k)
	}
	for id, carried := range m.asked {
		if !carried {
			m.fault("the act %s is forgotten", id)
		}
	}
	if n := len(s.Running()); n > 0 {
		m.fault("%d tasks run for ever", n)
	}
	m.mu.Unlock()
	cancel()
	<-left
	m.mu.Lock()
	return slices.Compact(m.faults)
}

func (m *model) step(t *testing.T, mem *schedulertest.Memory, s *scheduler.Scheduler, st step, restart func()) {
	ctx := context.Background()
	switch st.Do {
	case "mark":
		m.mu.Lock()
		m.owed[st.Key] = true
		m.mu.Unlock()
		if err := mem.Mark(ctx, st.Key, time.Now().UnixMilli()); err != nil {
			m.mu.Lock()
			delete(m.owed, st.Key)
			m.mu.Unlock()
		}
	case "ask":
		m.ask(mem, s, st.Key)
	case "pause":
		m.paused.set(s, st.Key.World, true)
	case "unpause":
		m.paused.set(s, st.Key.World, false)
	case "break":
		m.broken = true
		mem.SetFault(func(op string, _ scheduler.Key) error {
			if st.Key.Task > 3 || op == "Done" || op == "Take" {
				return errors.New("database is locked")
			}
			return nil
		})
	case "mend":
		m.broken = false
		mem.SetFault(nil)
	case "restart":
		m.mu.Lock()
		m.again = m.again || m.broken
		m.mu.Unlock()
		restart()
	case "forget":
		mem.Restart()
	default:
		t.Fatalf("no step is called %q", st.Do)
	}
}

// ask asks an act and, if it was stored, notes that it is owed.
func (m *model) ask(mem *schedulertest.Memory, s *scheduler.Scheduler, k scheduler.Key) {
	ctx := context.Background()
	before, _ := mem.Load(ctx, k)
	if err := s.Ask(ctx, k, "resume", "17", ""); err != nil {
		return
	}
	after, err := mem.Load(ctx, k)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range after.Acts {
		if !slices.Contains(before.Acts, a) && !m.asked[a.ID] {
			m.asked[a.ID] = false
		}
	}
}

// Whatever happens in whatever order: no marked task and no act is forgotten,
// no task runs twice at once, the bounds hold, and paths have one builder.
func TestX8_NoTaskIsForgottenAndNoneRunsTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = history(t, p) })
		if len(faults) > 0 {
			rt.Fatalf("%v", faults)
		}
	})
}
