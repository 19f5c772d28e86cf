package scheduler

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Key names a task: its world and its number there.
type Key struct {
	World string
	Task  int64
}

// String is the key as it stands in sentences: world#number.
func (k Key) String() string { return k.World + "#" + strconv.FormatInt(k.Task, 10) }

// Driver drives tasks. Drive returns when the task stands still, when it has to
// wait for a time or for a slot, or soon after ctx ended, having given its lease
// back by then. It is never called twice at once for one task, and it answers
// every order it carried out. What it started must have ended when it returns.
//
// An error is a failure of what is around the task (something can't be read or
// written), not of the task: the task is driven again after a growing wait. Wrap
// [ErrHalted] for a task that must not be driven until a person resumes it.
type Driver interface {
	Drive(ctx context.Context, j *Job) (Result, error)
}

// Result is how a task stands after a drive.
type Result struct {
	Outcome string // one word for logs and metrics, such as the standing
	RunID   string // of the run that the drive was about, "" without one
	Next    int64  // Unix milliseconds; 0 if Resync is soon enough
	Ended   bool   // for good: not driven again until it is marked
	// Unable: the world's server can't do what is asked of it. That is no failure of
	// the task, which is driven again at Next, and its acts are handed over again.
	Unable bool
}

// ErrHalted says that the task's kernel is halted. It is not counted as a
// failure: the task is left alone until a mark, an act or Resync.
var ErrHalted = errors.New("scheduler: the task is halted")

// errGone is the failure of a Driver that ended its own goroutine.
var errGone = errors.New("scheduler: the driver ended without returning")

// errUnanswered is the failure of a Driver that returned without an error although
// a person's act was not carried out.
var errUnanswered = errors.New("scheduler: a person's act was not carried out")

// PanicError is a Driver's panic, as the error of its drive.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return "scheduler: the driver panicked" }

// Outcomes of a drive that the scheduler names itself. The words are stable: they
// are labels of a metric.
const (
	OutcomeError    = "error"
	OutcomePanic    = "panic"
	OutcomeHalted   = "halted"
	OutcomeShutdown = "parted"   // the process shuts down
	OutcomeQueued   = "queued"   // waits for a build slot or for others' paths
	OutcomePoison   = "poisoned" // failed too often in a row
)

// Metrics hears what happens. Its methods are called by many goroutines and must
// return at once.
type Metrics interface {
	Started(k Key)
	Ended(k Key, outcome string, took time.Duration)
	Load(l Load)
}

// Load is how the slots are used at a moment. Slots that were lent, see [Job.Idle],
// don't count.
type Load struct {
	Due        int // due tasks that a look at the schedule was shown; 0 from [Scheduler.Load]
	DriveSlots int // in use
	BuildSlots int // in use, or granted to a task that waited
	Waiting    int // tasks that wait for a build slot
}

// noMetrics is the Metrics of a scheduler that was given none.
type noMetrics struct{}

func (noMetrics) Started(Key)                      {}
func (noMetrics) Ended(Key, string, time.Duration) {}
func (noMetrics) Load(Load)                        {}
