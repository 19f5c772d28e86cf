package scheduler

import "context"

// Schedule is the durable schedule: one row per task. Times are Unix
// milliseconds. Package schedulertest has its tests.
type Schedule interface {
	// Due lists tasks that are due and not taken: the longest due of each world,
	// then each world's second, and so on. Fewer than limit means that there are
	// no more.
	Due(ctx context.Context, now int64, limit int) ([]Key, error)
	// Next is the earliest due time of the tasks that are not taken.
	Next(ctx context.Context) (at int64, ok bool, err error)
	// Take takes a task, also before its due time. Not ok: the task has no due
	// time, or was taken before. What a dead process had taken is free again before
	// the scheduler starts.
	Take(ctx context.Context, k Key) (t Ticket, ok bool, err error)
	// Done gives it back with its next due time, 0 for none. If it was marked
	// since, the earlier of the two counts, and the mark is never lost. A ticket
	// that is not in force any more changes nothing and is no error: it was given
	// back before, and the answer was lost.
	Done(ctx context.Context, t Ticket, next int64) error
	// Mark makes a task due at that time or earlier, taken or not.
	Mark(ctx context.Context, k Key, at int64) error
	// Hasten makes due what would be due by until and is not taken, in the order
	// that it would have been.
	Hasten(ctx context.Context, now, until int64) error
	// Wake has a token after a change that made something due sooner. There is
	// one receiver, the scheduler.
	Wake() <-chan struct{}
}

// Ticket is a task that was taken.
type Ticket struct {
	Key        Key
	Generation int64 // of this take: no other take of the task has it
	Due        int64 // what the due time was
}

// Act is what a person asked of a task.
type Act struct {
	ID     string // chosen by the scheduler, so that one act is stored once
	Kind   string // kernel.ActStop, kernel.ActHalt or another act of kernel
	Actor  string
	Reason string
}

// Note is what the scheduler remembers of a task over a restart.
type Note struct {
	Failures int   // errors in a row
	Acts     []Act // not carried out yet, oldest first
}

// Notes keeps the notes of tasks, durably. Each method is one transaction.
type Notes interface {
	Load(ctx context.Context, k Key) (Note, error)
	// Add keeps an act. The same ID twice is kept once.
	Add(ctx context.Context, k Key, a Act) error
	// Settle stores the number of failures and forgets the acts carried out,
	// given by their IDs; IDs it doesn't know are no error.
	Settle(ctx context.Context, k Key, failures int, carried []string) error
}
