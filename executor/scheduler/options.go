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
	// DefaultDriveSlots: a drive waits for the network most of its time.
	DefaultDriveSlots = 16
	// DefaultWorldDriveSlots leaves slots to three other worlds when one is slow.
	DefaultWorldDriveSlots = 4
	// DefaultBuildSlots: builders use cores and memory, and a laptop has few.
	DefaultBuildSlots = 4
	// DefaultWorldBuildSlots leaves half of them to the others.
	DefaultWorldBuildSlots = 2
	// DefaultBackoffFirst and DefaultBackoffMost bound the wait after an error.
	DefaultBackoffFirst = time.Second
	DefaultBackoffMost  = 10 * time.Minute
	// DefaultPoisonAfter is reached after about an hour and a quarter of failing.
	DefaultPoisonAfter = 16
	// DefaultResync: what no webhook told is found by the sweep of a server, which
	// comes more often.
	DefaultResync = 6 * time.Hour
	// DefaultRecheck: a task of which something is new is marked, and a long line
	// that is driven often asks more of a forge than the forge allows.
	DefaultRecheck = 30 * time.Minute
	// DefaultShutdownTime is longer than a task's last push may take.
	DefaultShutdownTime = 25 * time.Second
)

const (
	// poll bounds the wait between two looks at the schedule: others may mark
	// tasks without waking us, a pause may end, a clock may jump.
	poll = 2 * time.Second
	// skipTime is how long a task is left alone that was listed as due and then
	// could not be taken: mostly the list was read before its last drive ended.
	skipTime = 100 * time.Millisecond
	// soonest is the shortest wait that a Driver may ask for, so that one which
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
	// maxOrders bounds the acts that wait in memory for one drive; more are kept in
	// the notes and handed over by the next drive.
	maxOrders = 16
	// lookahead bounds how many waiting tasks of one world are compared with
	// each other's paths; those behind them wait until one of them goes.
	lookahead = 16
)

// Options say how much at once, and how long to wait. What is zero has the
// default of its name.
type Options struct {
	DriveSlots, WorldDriveSlots int // tasks driven at once without a build slot, in all and of one world
	BuildSlots, WorldBuildSlots int // tasks driven at once that may run a builder, in all and of one world

	// BackoffFirst is the wait after a task's first failure. It doubles with each
	// further one in a row, up to BackoffMost.
	BackoffFirst, BackoffMost time.Duration
	// PoisonAfter is the number of failures in a row from which on a task is left
	// alone until it is marked, an act is asked of it, or Resync is over.
	PoisonAfter int
	// Resync is the longest time between two drives of an open task.
	Resync time.Duration
	// Recheck is the longest time between two drives of a task that waits for a
	// build slot.
	Recheck time.Duration
	// ShutdownTime is how long drives have to end by themselves once Run is to end.
	ShutdownTime time.Duration

	// Outage reports whether the server of a world can't serve its tasks now: none
	// of them is started then, but for a person's act. nil: no server is known to
	// be in an outage. It must return at once.
	Outage  func(world string) bool
	Pauses  []PauseSource
	NewID   func() string // a fresh id for each act; required
	Metrics Metrics       // nil: nobody hears of anything
	Log     *slog.Logger  // nil is silent
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
		{"DriveSlots", &o.DriveSlots, DefaultDriveSlots}, {"WorldDriveSlots", &o.WorldDriveSlots, DefaultWorldDriveSlots},
		{"BuildSlots", &o.BuildSlots, DefaultBuildSlots}, {"WorldBuildSlots", &o.WorldBuildSlots, DefaultWorldBuildSlots},
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
		{"Resync", &o.Resync, DefaultResync}, {"Recheck", &o.Recheck, DefaultRecheck},
		{"ShutdownTime", &o.ShutdownTime, DefaultShutdownTime},
	} {
		if err := complete(d.name, d.value, d.usual); err != nil {
			return err
		}
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
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
