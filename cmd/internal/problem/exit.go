package problem

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/executor/branch"
	"github.com/writbot/writ/kernel"
)

// The exit statuses of writ (README).
const (
	ExitDone    = 0
	ExitOther   = 1
	ExitUsage   = 2
	ExitRetry   = 10
	ExitBlocked = 11
	ExitRefused = 12
	ExitHeld    = 13
	ExitWaiting = 14
)

// The exit statuses of the branch runner alone (docs/branch-runner.md).
const (
	ExitIdle      = 20 // nothing to do
	ExitLost      = 21
	ExitMissing   = 22 // no command, or none that can be run
	ExitInvalid   = 23 // the command left no valid completion
	ExitFailed    = 24 // the same, and it says that it failed
	exitTakenOver = 25
	ExitMalformed = 26 // HEAD can't be read as an event
)

// standings maps how a task stands to an exit status. Where several states can
// stand so, the state decides.
var standings = map[kernel.Standing]func(kernel.TaskState) int{
	kernel.StandFinal:     finalExit,
	kernel.StandDue:       dueExit,
	kernel.StandHeld:      always(ExitHeld),
	kernel.StandWaiting:   always(ExitWaiting),
	kernel.StandRefused:   always(ExitRefused),
	kernel.StandHalted:    always(ExitRefused),
	kernel.StandActing:    always(ExitOther), // the process ended before its effect was settled
	kernel.StandRunning:   always(ExitOther),
	kernel.StandAbandoned: always(ExitOther),
}

// ExitOf is the exit status of a task that stands so.
func ExitOf(d kernel.Decision) int {
	if f, ok := standings[d.Standing]; ok {
		return f(d.State)
	}
	return ExitOther
}

func always(exit int) func(kernel.TaskState) int {
	return func(kernel.TaskState) int { return exit }
}

func finalExit(s kernel.TaskState) int {
	switch s {
	case kernel.TaskCompleted:
		return ExitDone
	case kernel.TaskRetryPending:
		return ExitRetry
	case kernel.TaskBlocked:
		return ExitBlocked
	}
	return ExitOther
}

// dueExit: a failed attempt waits for the next one; an interrupted run ended
// nothing, so its task only waits for a time.
func dueExit(s kernel.TaskState) int {
	if s == kernel.TaskRetryPending {
		return ExitRetry
	}
	return ExitWaiting
}

// ExitOfCode is the exit status of an error with this code, before or beside a
// decision of the kernel.
func ExitOfCode(c kernel.Code) int {
	switch c {
	case kernel.CodeConfigInvalid, kernel.CodeURLInvalid, kernel.CodeRefInvalid:
		return ExitUsage
	case kernel.CodeStateInUse, kernel.CodeLeaseHeld:
		return ExitHeld
	case kernel.CodeTaskHalted, kernel.CodeSandboxUnavailable, kernel.CodeGovernanceInvalid, kernel.CodeTargetIneligible,
		kernel.CodeLedgerCorrupt, kernel.CodeLedgerRollback, kernel.CodeLedgerOtherKey, kernel.CodeLedgerArchived, kernel.CodeTaskNumberTaken, kernel.CodeForgeCredential,
		kernel.CodeKeyUnfinished, kernel.CodeKeyOver, kernel.CodeWorldFork, kernel.CodeWorldElsewhere:
		return ExitRefused
	}
	if strings.HasPrefix(string(c), "environment.") {
		return ExitRefused
	}
	return ExitOther
}

// Quiet ends the program with a status whose reason has been told already.
type Quiet int

// Error implements error.
func (q Quiet) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// tickExits are the statuses of `writ tick`, the gravest first: of several branches
// the first that is met by one of them is the command's.
var tickExits = []struct {
	status branch.Status
	exit   int
}{
	{branch.StatusInterrupted, ExitOther},
	{branch.StatusUnable, ExitOther},
	{branch.StatusUnknown, ExitOther},
	{branch.StatusRefused, ExitRefused},
	{branch.StatusInvalid, ExitInvalid},
	{branch.StatusFailed, ExitFailed},
	{branch.StatusLost, ExitLost},
	{branch.StatusMalformed, ExitMalformed},
	{branch.StatusUnrunnable, ExitMissing},
	{branch.StatusMissing, ExitMissing},
	{branch.StatusRunning, ExitDone},
	{branch.StatusDone, ExitDone},
	{branch.StatusTakenOver, exitTakenOver},
	{branch.StatusHeld, ExitHeld},
	{branch.StatusIdle, ExitIdle},
	{branch.StatusNone, ExitIdle},
}

// TickExit is the exit status of a call that came to these statuses, of several branches
// perhaps: that of the gravest.
func TickExit(seen map[branch.Status]bool) int {
	for _, e := range tickExits {
		if seen[e.status] {
			return e.exit
		}
	}
	return ExitIdle
}
