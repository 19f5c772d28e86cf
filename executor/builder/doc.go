// Package builder runs builders and checks on this host: it lays out the
// workspace, starts the program in a sandbox, holds it to its budgets, and
// takes in what came of it. It implements [executor.Executor].
//
// A builder is any command. It finds its instruction on standard input and in
// the file that WRIT_DISPATCH names, its workspace as the current directory,
// and may leave a result at WRIT_RESULT. What it changed is never asked of it:
// when its last process is dead the workspace is walked and hashed, and those
// bytes are all that is ever committed. The runner (runner.go) evaluates a
// change in sandboxes and trees of its own, built from those bytes.
//
// # Where things lie
//
// Each run has a directory of its own below Config.WorkDir: the workspace, and
// for a builder the directory of its result. A base is read through a window of
// 64 MiB, so that its size costs disk, not memory, and it is laid out ahead
// where that can be: [Local.Prefetch] before the claim, the runner's tree while
// the builder works. No sandbox sees a tree before it is its own, and none is
// used twice. Directories are removed in the background; [Local.Close] waits
// for that, and [Local.Sweep] removes what a killed process left.
//
// A base is a layer where the sandbox can show one (layers.go): it is laid out once below
// Config.Layers, and a workspace is an overlay above it, of which only what was written
// is walked, for the rest can't have changed. Elsewhere each workspace is laid out whole.
//
// # What is wrong with a run
//
//	execution.timeout            start, build or idle budget; or, by the recorded
//	                             times, an end after the deadline
//	execution.no_output          no result where one is owed; nothing changed
//	execution.result.invalid     a result that isn't of the form, or that lists
//	                             other files than those that changed
//	execution.reported_failure   the result says failure
//	execution.exit_status        another exit code than 0, or a signal
//	execution.resource           a limit of the sandbox
//	execution.check.failed       a check that didn't exit with 0, or whose program
//	                             isn't there
//	execution.nondeterministic   a check that ended differently on the same tree
//	execution.scope.violation    in the diff, with the finer codes of the scope
//	task.interrupted             ended by writ
//	environment.*, sandbox.*     the host's doing, before or after the program
//
// Everything that is kept or shown goes through Config.Redact, but for the bytes
// of the diff, which are what is delivered. A file that holds a secret is refused
// (secret.detected), as is a path (path.unsafe), which is kept in its redacted form
// alone.
//
// A run that used up the disk's reserve is not judged: its workspace is removed
// before its outcome is there.
//
// It knows no lease, ledger or forge, and decides nothing: it returns proposals
// and what is wrong with them.
package builder
