// Package scheduler drives the tasks of many worlds from a durable schedule:
// it takes what is due, gives it to a [Runner], and stores when the task is to
// be looked at next. It decides when and how many, never what: a due time is a
// hint, and the Runner decides from state it reads afresh (DESIGN §3).
//
// It may read and write the schedule and the scheduler's notes, and start
// goroutines. It never touches git, a forge, the ledger or a process, and knows
// no task state: it imports the names of a person's acts from package kernel
// and nothing else of writ.
//
// # What holds
//
// One executor per task: a task is in the table of running tasks from before it
// is taken until its next time is stored, and nothing in the table is started.
// A mark that comes meanwhile makes the task due again, so it runs once more.
//
// Two classes of slots. A task that runs holds a tick slot. Before its builder
// starts it asks for a build slot ([Job.Build]); with one it gives the tick slot
// back, so that short ticks never wait behind long builds. Without one it
// returns, and is run again when its turn has come, with the slot kept for it:
// nobody waits in memory with half-read state, and a stop reaches a task that
// waits as it reaches any other. At most Ticks+Builds tasks run at once, besides those that
// wait for a server.
//
// A run that waits for its server, and of which nothing runs, lends its slot to
// other worlds ([Job.Idle]). It counts for its own world all the same, so that a
// world whose server hangs has no more runs than ever wait at once and holds up
// nobody else. A build slot that it lent it asks for again before it starts anything;
// one for a look it doesn't, and goes on once its server answers.
//
// Fair between worlds: worlds are served in turn, the one served longest ago
// first, and each has bounds of its own. A world with a thousand due tasks
// delays a world with one by at most one turn.
//
// Overlapping scopes take turns where the contract says `overlap: wait`: the
// paths come with the question for a build slot, see [Overlap]. They are held
// while the builder's slot is held, in this process only: other instances
// don't know of them, and between two attempts of a task others may go first.
//
// A person's stop kills first: [Scheduler.Stop] calls the function that the
// running task left with [Job.OnKill] on a goroutine of its own, before the act
// is stored and whatever the task's own goroutine hangs in. Then the act is
// stored, handed to the running task, and kept until the Runner says that it was
// carried out, if need be over a restart.
//
// Every open task has its next time: the one the Runner gives, never further
// off than the sweep; after an error a wait that doubles up to a cap; the sweep
// for a halted task, and for one that failed too often in a row. The line for a
// build slot is in memory, so a process that starts looks at once at what is due
// within Recheck: who stood in that line is among it. A panic of a
// Runner is such an error. It is contained if it happens on the goroutine that
// Run was called on, or in the kill function; no program can contain another.
//
// Before each take every [Pauses] is read. What can't be read counts as paused. A
// pause gives no build slot: tasks are looked at and persons obeyed as ever, and
// nothing begins that needs one.
package scheduler
