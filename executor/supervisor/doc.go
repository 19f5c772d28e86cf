// Package supervisor drives a task: it observes, asks the kernel, records,
// acts, and takes the outcome as its next input (DESIGN §3).
//
// One call of [Task.Tick] is one request of the task's kernel and at most one
// effect. The same code runs on the happy path and in recovery: what a process
// remembers is never needed, because HEAD of the state ref says how the task
// stands. [Task.Drive] calls Tick until the task stands still.
//
// It may read and push git, start builders and checks through package executor,
// and write the ledger. It never edits a ref but by compare-and-swap, never
// acts before the record of it is durable, and never looks at what a builder
// says it changed.
package supervisor
