package sandbox

import "time"

// Cause says why a process is over.
type Cause string

// The causes, in the order in which they are looked for: a tree that was
// killed for a limit is CauseResource even if its program exited first.
const (
	// CauseStartFailed: the program never ran. Exit.Err says why.
	CauseStartFailed Cause = "start_failed"
	// CauseResource: a limit ended it. Exit.Limit names the limit.
	CauseResource Cause = "resource"
	// CauseKilled: Kill was called or the context was done, or, where Exit.Limit is
	// LimitDisk, others left too little of the file system for anybody to go on.
	CauseKilled Cause = "killed"
	// CauseExited: the program ended by itself; see Exit.Code.
	CauseExited Cause = "exited"
)

// Limit names a limit in Exit.Limit and Exit.Hints.
type Limit string

// The limits that can be named.
const (
	LimitCPU       Limit = "cpu"
	LimitMemory    Limit = "memory"
	LimitProcesses Limit = "processes"
	LimitFileSize  Limit = "file_size"
	LimitTmpBytes  Limit = "tmp_bytes"
	LimitTmpFiles  Limit = "tmp_files"
	LimitOutput    Limit = "output"
	LimitDisk      Limit = "disk"
)

// Exit is how a process ended.
type Exit struct {
	// Cause says why it is over.
	Cause Cause
	// Code is the exit code, 128 plus the signal if a signal ended the program
	// (as a shell counts), -1 if it never ran or the tree was killed.
	Code int
	// Signal is the signal that ended the program, 0 if none.
	Signal int
	// Limit is the limit behind CauseResource, and LimitDisk behind some CauseKilled.
	Limit Limit
	// Hints are limits that were reached without ending the program. A builder
	// that failed may have failed because of them.
	Hints []Limit
	// Denied are the names of system calls that the sandbox refused, in the order
	// of the first of each, at most 16. A program that failed may have failed
	// because of them. Calls that every program tries and can do without aren't
	// among them.
	Denied []string
	// Watched says that no control group held the memory limit: the tree was looked
	// at from outside, and some of the kernel's memory is counted nowhere; see the
	// package comment.
	Watched bool
	// DiskLow says that the reserve of Limits.DiskReserveBytes was not free when
	// the tree was dead: remove the workspace before anything else is done.
	DiskLow bool
	// Err explains CauseStartFailed; an *Error.
	Err error
	// CPU is the processor time of the whole tree.
	CPU time.Duration
	// Wall is the time from Start to the death of the tree.
	Wall time.Duration
	// PeakMemoryBytes is the highest use seen, 0 if unknown.
	PeakMemoryBytes int64
}

// Process is a running tree. Its methods may be used concurrently.
type Process struct {
	started chan struct{}
	done    chan struct{}
	kill    func(reason killReason)

	exit Exit // final once done is closed
}

// killReason is why a tree is being killed. The first one stands.
type killReason struct {
	cause Cause
	limit Limit
}

// Started is closed when the program itself has been executed: its sign of
// life. It stays open when the program never runs; then Done is closed.
func (p *Process) Started() <-chan struct{} { return p.started }

// Done is closed when the whole tree is dead and its output has been written.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and says how it ended.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Kill kills the whole tree and waits for its death, at most KillGrace.
// It reports whether the tree is dead. Killing a dead tree is harmless.
func (p *Process) Kill() bool {
	p.kill(killReason{cause: CauseKilled})
	timer := time.NewTimer(KillGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
