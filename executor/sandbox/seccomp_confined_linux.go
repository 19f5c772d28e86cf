package sandbox

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What namespaces would keep apart must be refused where there are none.

// shared are calls that reach what everybody on the host shares: System V and
// POSIX message queues, semaphores and memory.
var shared = []uintptr{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// ofOthers are calls on files by their path that Landlock knows nothing of, and
// calls on other processes.
var ofOthers = slices.Concat(chownHere, []uintptr{unix.SYS_FCHOWNAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES})

// modes are calls that change a file's mode. A program that runs as writ's user
// could close writ's own files with them, or open them to everybody, so the reaper
// looks at each; see answerer. A descriptor is no proof that the program may
// write: it gets one of each file that it may read, writ's own program included.
var modes = slices.Concat(chmodHere, []uintptr{unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2})

// ownProcess are calls with a process in an argument, by its place, which may be
// 0 for the caller alone. Others of the same user could be slowed or limited.
var ownProcess = []struct {
	nr  uintptr
	arg uint32
}{
	{unix.SYS_PRLIMIT64, 0}, {unix.SYS_SCHED_SETAFFINITY, 0}, {unix.SYS_SCHED_SETPARAM, 0},
	{unix.SYS_SCHED_SETSCHEDULER, 0}, {unix.SYS_SCHED_SETATTR, 0}, {unix.SYS_SETPRIORITY, 1}, {unix.SYS_IOPRIO_SET, 1},
}

// withoutNamespaces is the part of the filter that stands in for them. There is
// no network namespace, so no socket is made at all: a path can lead to any
// daemon. Pairs of connected ones remain.
func withoutNamespaces(sameUser bool) []bpf.Instruction {
	prog := onCall(unix.SYS_SOCKET, errno(unix.EAFNOSUPPORT))
	for _, nr := range shared {
		prog = append(prog, onCall(nr, errno(unix.ENOSYS))...)
	}
	if !sameUser {
		return prog
	}
	for _, nr := range ofOthers {
		prog = append(prog, onCall(nr, errno(unix.EPERM))...)
	}
	for _, nr := range modes {
		prog = append(prog, onCall(nr, bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})...)
	}
	for _, p := range ownProcess {
		prog = append(prog, onCall(p.nr, onlyValues(p.arg, unix.EPERM, 0)...)...)
	}
	return prog
}
