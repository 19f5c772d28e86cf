// Package supervisor drives a task: it observes, asks the kernel, records,
// acts, and takes the outcome as its next input.
//
// One call of [Task.Tick] is one request of the task's kernel and at most one
// effect. The same code runs on the happy path and in recovery: what a process
// remembers is never needed, because HEAD of the state ref says how the task
// stands. [Task.Drive] calls Tick until the task stands still.
//
// A task has three rooms, each a type with state of its own. The observer reads what a
// decision depends on, and hands it on as an observation: HEAD, contract, issue, and the
// work that there is. The worker has the run: its lease, builder and checks, the judgement,
// every push and what became of it. The tracker has the task where people see it: status,
// answers, change and review. The worker knows neither of the others, the tracker knows the
// worker, the observer knows both, and Task, which leads a request through the machine,
// knows all. What was seen is never written to once the kernel has decided: a cycle holds
// the observation, the decision and the outcome.
//
// A method of a room stands in a file that begins with observer, worker or tracker, a rule
// that a test holds. What one matter needs of several rooms is in one file: fix.go, refresh.go
// and guarded_paths.go. The driver is the methods of Task and drive: task.go (one request),
// drive.go (one after the other, and how the act of a person reaches them), submit.go and
// effects.go lead a request through the rooms and the machine; act.go and halt.go are the
// requests of persons. The rest is the world's, for all its tasks.
//
// It may read and push git, start builders and checks through package executor,
// and write the ledger. It never edits a ref but by compare-and-swap, never
// acts before the record of it is durable, and never looks at what a builder
// says it changed.
package supervisor
