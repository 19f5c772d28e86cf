// Package scheduler drives the tasks of many worlds from a durable schedule:
// it takes what is due, gives it to a [Driver], and stores when the task is to
// be driven next. It decides when and how many, never what: a due time is a
// hint, and the Driver decides from state it reads afresh.
//
// It may read and write the schedule and the scheduler's notes, read the file of
// a [PauseFile], and start goroutines. It never touches git, a forge, the ledger
// or a process, and knows no task state: it imports the names of a person's acts
// from package kernel and nothing else of writ.
//
// # What holds
//
// One drive per task: a task is in the table of running tasks from before it
// is taken until its next time is stored, and nothing in the table is started.
// A mark that comes meanwhile makes the task due again, so it is driven once more.
//
// Two classes of slots. A drive holds a drive slot. Before its builder starts it
// asks for a build slot ([Job.Build]); with one it gives the drive slot back, so
// that short drives never wait behind long builds. Without one it ends, and the
// task is driven again when its turn has come, with the slot granted to it:
// nobody waits in memory with half-read state, and a stop reaches a task that
// waits as it reaches any other. At most DriveSlots+BuildSlots tasks are driven at
// once, besides those that wait for a server.
//
// A drive that waits for its server, and of which nothing runs, lends its slot to
// other worlds ([Job.Idle]). It counts for its own world all the same, so that a
// world whose server hangs has no more drives at once than its bounds allow and
// holds up nobody else. A build slot that it lent it asks for again before it
// starts anything. A drive slot it doesn't ask for, and goes on once its server
// answers.
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
// A person's stop kills first: [Scheduler.Ask] calls the function that the drive
// left with [Job.OnKill] on a goroutine of its own, before the act is stored and
// whatever the drive's own goroutine hangs in. Then the act is stored, handed to
// the drive, and kept until the Driver says that it was carried out, if need be
// over a restart.
//
// Every open task has its next time: the one the Driver gives, never further
// off than Resync; after an error a wait that doubles up to a cap; Resync for a
// halted task, and for one that failed too often in a row. The line for a build
// slot is in memory, so a process that starts makes due at once what is due
// within Recheck: the tasks of that line are among it. A panic of a Driver is
// such an error. It is contained if it happens on the goroutine that Drive was
// called on, or in the kill function; no program can contain another.
//
// Every [PauseSource] is read at each look at the schedule, and again between a
// take and its drive. What can't be read counts as paused. A pause gives no build
// slot: tasks are driven and persons obeyed as ever, and nothing begins that
// needs one.
package scheduler
