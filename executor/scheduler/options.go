package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Defaults of [Options].
const (
	// DefaultTicks: a tick waits for the network most of its time.
	DefaultTicks = 16
	// DefaultWorldTicks leaves room for three other worlds when one is slow.
	DefaultWorldTicks = 4
	// DefaultBuilds: builders use cores and memory, and a laptop has few.
	DefaultBuilds = 4
	// DefaultWorldBuilds leaves half of them to the others.
	DefaultWorldBuilds = 2
	// DefaultBackoffFirst and DefaultBackoffMost bound the wait after an error.
	DefaultBackoffFirst = time.Second
	DefaultBackoffMost  = 10 * time.Minute
	// DefaultPoisonAfter is reached after about an hour and a quarter of failing.
	DefaultPoisonAfter = 16
	// DefaultSweep is the longest that an open task is not looked at.
	DefaultSweep = 6 * time.Hour
	// DefaultRecheck is how often a task that waits for a slot is looked at
	// nevertheless. Who has something new of it marks it; a long line that is
	// looked at often asks more of a forge than the forge allows.
	DefaultRecheck = 30 * time.Minute
	// DefaultShutdownTime is longer than a task's last push may take.
	DefaultShutdownTime = 25 * time.Second
)

const (
	// poll bounds the wait between two looks at the schedule: others may mark
	// tasks without waking us, a pause may end, a clock may jump.
	poll = 2 * time.Second
	// passTime is how long a task is left alone that was listed as due and then
	// could not be taken: mostly the list was read before its last run ended.
	passTime = 100 * time.Millisecond
	// soonest is the shortest wait that a Runner may ask for, so that one which
	// always asks for `now` doesn't turn in circles.
	soonest = time.Second
	// storeTime bounds one write to schedule or notes.
	storeTime = 5 * time.Second
	// storeFirst and storeMost bound the wait before it is tried again.
	storeFirst = 250 * time.Millisecond
	storeMost  = 15 * time.Second
	// killTime is what a kill may take when the time to shut down is over.
	killTime = 2 * time.Second
	// firstDepth and mostDepth bound how many due tasks a look asks for.
	firstDepth = 256
	mostDepth  = 1 << 16
	// maxOrders bounds the acts that wait in memory for one running task; more
	// are kept in the notes and handed over by the next run.
	maxOrders = 16
	// lookahead bounds how many waiting tasks of one world are compared with
	// each other's paths; those behind them wait until one of them goes.
	lookahead = 16
)

// Options say how much at once, and how long to wait. What is zero has the
// default of its name.
type Options struct {
	Ticks, WorldTicks         int // tasks that run without a build slot, in all and of one world
	Builds, WorldBuilds       int // builders
	BackoffFirst, BackoffMost time.Duration
	PoisonAfter               int // failures in a row
	Sweep, Recheck            time.Duration
	ShutdownTime              time.Duration

	// Rest is how long tasks of a world need not be begun, since its server can't
	// serve them and somebody's try comes first; nil for never. It must return at
	// once. A person's act is handed over all the same.
	Rest     func(world string) time.Duration
	Pauses   []Pauses
	NewID    func() string // a fresh id for each act; required
	Observer Observer      // nil for nobody
	Log      *slog.Logger  // nil is silent
}

func (o *Options) complete() error {
	if o.NewID == nil {
		return errors.New("scheduler: NewID is missing: give a function that makes a fresh id")
	}
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{
		{"Ticks", &o.Ticks, DefaultTicks}, {"WorldTicks", &o.WorldTicks, DefaultWorldTicks},
		{"Builds", &o.Builds, DefaultBuilds}, {"WorldBuilds", &o.WorldBuilds, DefaultWorldBuilds},
		{"PoisonAfter", &o.PoisonAfter, DefaultPoisonAfter},
	} {
		if err := complete(n.name, n.value, n.usual); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"BackoffFirst", &o.BackoffFirst, DefaultBackoffFirst}, {"BackoffMost", &o.BackoffMost, DefaultBackoffMost},
		{"Sweep", &o.Sweep, DefaultSweep}, {"Recheck", &o.Recheck, DefaultRecheck},
		{"ShutdownTime", &o.ShutdownTime, DefaultShutdownTime},
	} {
		if err := complete(d.name, d.value, d.usual); err != nil {
			return err
		}
	}
	if o.Observer == nil {
		o.Observer = quiet{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func complete[T int | time.Duration](name string, value *T, usual T) error {
	switch {
	case *value < 0:
		return fmt.Errorf("scheduler: %s is negative: give a positive value, or none for %v", name, usual)
	case *value == 0:
		*value = usual
	}
	return nil
}

// within runs one operation on a store with its time limit. Its panic is an
// error like any other: the store is asked again, later each time.
func within(ctx context.Context, f func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack())
		}
	}()
	return f(ctx)
}

var errPanicked = errors.New("scheduler: the store panicked")
