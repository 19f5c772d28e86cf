package main

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/kernel"
)

// The exit statuses of writ (README).
const (
	exitDone    = 0
	exitOther   = 1
	exitUsage   = 2
	exitRetry   = 10
	exitBlocked = 11
	exitRefused = 12
	exitHeld    = 13
	exitWaiting = 14
)

// The exit statuses of the branch runner alone (docs/branch-runner.md).
const (
	exitIdle      = 20 // nothing to do
	exitLost      = 21
	exitMissing   = 22 // no command, or none that can be run
	exitInvalid   = 23 // the command left no valid completion
	exitFailed    = 24 // the same, and it says that it failed
	exitTakenOver = 25
	exitMalformed = 26 // HEAD can't be read as an event
)

// standings maps how a task stands to an exit status. Where several states can
// stand so, the state decides.
var standings = map[kernel.Standing]func(kernel.TaskState) int{
	kernel.StandFinal:     finalExit,
	kernel.StandDue:       dueExit,
	kernel.StandHeld:      always(exitHeld),
	kernel.StandWaiting:   always(exitWaiting),
	kernel.StandRefused:   always(exitRefused),
	kernel.StandHalted:    always(exitRefused),
	kernel.StandActing:    always(exitOther), // the process ended before its effect was settled
	kernel.StandRunning:   always(exitOther),
	kernel.StandAbandoned: always(exitOther),
}

// exitOf is the exit status of a task that stands so.
func exitOf(d kernel.Decision) int {
	if f, ok := standings[d.Standing]; ok {
		return f(d.State)
	}
	return exitOther
}

func always(exit int) func(kernel.TaskState) int {
	return func(kernel.TaskState) int { return exit }
}

func finalExit(s kernel.TaskState) int {
	switch s {
	case kernel.TaskCompleted:
		return exitDone
	case kernel.TaskRetryPending:
		return exitRetry
	case kernel.TaskBlocked:
		return exitBlocked
	}
	return exitOther
}

// dueExit: a failed attempt waits for the next one; an interrupted run ended
// nothing, so its task only waits for a time.
func dueExit(s kernel.TaskState) int {
	if s == kernel.TaskRetryPending {
		return exitRetry
	}
	return exitWaiting
}

// codeExit is the exit status of an error with this code, before or beside a
// decision of the kernel.
func codeExit(c kernel.Code) int {
	switch c {
	case kernel.CodeConfigInvalid, kernel.CodeURLInvalid, kernel.CodeRefInvalid:
		return exitUsage
	case kernel.CodeStateInUse, kernel.CodeLeaseHeld:
		return exitHeld
	case kernel.CodeTaskHalted, kernel.CodeSandboxUnavailable, kernel.CodeGovernanceInvalid, kernel.CodeTargetIneligible,
		kernel.CodeLedgerCorrupt, kernel.CodeLedgerRollback, kernel.CodeLedgerOtherKey, kernel.CodeLedgerArchived, kernel.CodeTaskNumberTaken, kernel.CodeForgeCredential,
		kernel.CodeKeyUnfinished, kernel.CodeKeyOver, kernel.CodeWorldFork, kernel.CodeWorldElsewhere:
		return exitRefused
	}
	if strings.HasPrefix(string(c), "environment.") {
		return exitRefused
	}
	return exitOther
}

// quiet ends the program with a status whose reason has been told already.
type quiet int

func (q quiet) Error() string { return fmt.Sprintf("exit status %d", int(q)) }
