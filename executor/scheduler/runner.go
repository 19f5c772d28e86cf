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

// Runner drives one task. Run returns when the task stands still, when it has to
// wait for a time or for a slot, or soon after ctx ended, having given its lease
// back by then. It is never called twice at once for one task, and it answers
// every order it carried out. What it started must have ended when it returns.
//
// An error is a failure of what is around the task (something can't be read or
// written), not of the task: the task is tried again after a growing wait. Wrap
// [ErrHalted] for a task that must not be tried until a person moves on.
type Runner interface {
	Run(ctx context.Context, j *Job) (Result, error)
}

// Result is how a task stands after a run.
type Result struct {
	Outcome string // one word for logs and metrics, such as the standing
	RunID   string // of the run that was driven, "" without one
	Next    int64  // Unix milliseconds; 0 if only the sweep needs to look again
	Ended   bool   // for good: not looked at again until it is marked
	// Unable: the world's server can't do what is asked of it. That is no failure of
	// the task, which is run again at Next, and its acts are handed over again.
	Unable bool
}

// ErrHalted says that the task's kernel is halted. It is not counted as a
// failure: the task leaves the rotation until a mark, an act or the sweep.
var ErrHalted = errors.New("scheduler: the task is halted")

// errGone is the failure of a Runner that ended its own goroutine.
var errGone = errors.New("scheduler: the runner ended without returning")

// errUnanswered is the failure of a Runner that returned at ease although a
// person's act was not carried out.
var errUnanswered = errors.New("scheduler: a person's act was not carried out")

// PanicError is a Runner's panic, as the error of its run.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return "scheduler: the runner panicked" }

// Outcomes of a run that the scheduler names itself.
const (
	OutcomeError  = "error"
	OutcomePanic  = "panic"
	OutcomeHalted = "halted"
	OutcomeParted = "parted"   // the process shuts down
	OutcomeQueued = "queued"   // waits for a build slot or for others' paths
	OutcomePoison = "poisoned" // failed too often in a row
)

// Observer hears what happens, for metrics. Its methods are called by many
// goroutines and must return at once.
type Observer interface {
	Started(k Key)
	Ended(k Key, outcome string, took time.Duration)
	Load(l Load)
}

// Load is what a look at the schedule found.
type Load struct {
	Due     int // due tasks it was shown, at most as many as it asked for
	Ticks   int // tasks that run without a build slot
	Builds  int // build slots held or kept for somebody
	Waiting int // tasks that wait for a build slot
}

// quiet is the Observer of nobody.
type quiet struct{}

func (quiet) Started(Key)                      {}
func (quiet) Ended(Key, string, time.Duration) {}
func (quiet) Load(Load)                        {}
