package sandbox

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Both architectures are little-endian, so the
// low half of an argument comes first.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// namespaceFlags are the clone and unshare flags that make namespaces. The one
// for time has another meaning in clone, so unshare has its own mask.
const (
	namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	unshareFlags = namespaceFlags | unix.CLONE_NEWTIME
)

// ioctls that type into a terminal or drive the console, and those that are
// fallocate by another name.
const (
	tiocsti   = 0x5412
	tioclinux = 0x541c
	resvsp    = 0x40305828 // FS_IOC_RESVSP
	resvsp64  = 0x4030582a
	zeroRange = 0x40305839
)

var deniedRequests = []uint32{tiocsti, tioclinux, resvsp, resvsp64, zeroRange}

// personalityQuery asks for the execution domain without changing it.
const personalityQuery = 0xffffffff

// deniedEverywhere are the system calls that no build needs and that have
// carried most ways out of a container: each is a large part of the kernel that
// an unprivileged process can reach. They exist on every architecture here.
var deniedEverywhere = []uintptr{
	// other processes' memory
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	// mounts, old and new
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	// files by handle, past the mounts
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	// keys, which are shared per user id and not per namespace
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// kernel programs, tracing and the fault handler
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_SYSLOG, unix.SYS_LOOKUP_DCOOKIE,
	// namespaces
	unix.SYS_SETNS,
	// the machine
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL,
}

// absent are system calls for which programs have a fallback when the kernel is
// too old: they are answered that way. io_uring does other calls past the filter;
// of what io_setup takes the whole machine has one stock, so that one program could
// have all of it.
var absent = []uintptr{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_SETUP}

// errno makes a call fail with no.
func errno(no unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(no)}
}

var (
	allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	slay  = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
)

// filter is what varies.
type filter struct {
	loopback  bool // internet sockets, in a network namespace of its own
	uncounted bool // no control group counts memory
	confined  bool // no namespace is around it: no sockets at all
	sameUser  bool // it runs as writ's own user
}

// seccompFilters are the assembled filter: for a start at which writ listens, and
// for one at which it can't.
type seccompFilters struct{ listened, alone []unix.SockFilter }

// newFilters assembles the filter for this architecture.
func newFilters(f filter) (out seccompFilters, err error) {
	if auditArch == 0 {
		return out, fmt.Errorf("no system call table for %s", runtime.GOARCH)
	}
	if out.listened, err = assemble(listenedProgram(f)); err != nil {
		return out, err
	}
	if !f.confined { // that level can't do without
		out.alone, err = assemble(seccompProgram(f))
	}
	return out, err
}

func assemble(prog []bpf.Instruction) ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(prog)
	out := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		out[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return out, err
}

// hiddenMemory are calls that take memory of the kernel which belongs to no
// process, so that only a control group can count it: a gigabyte of semaphores or
// of messages. Hardly a build needs them.
var hiddenMemory = []uintptr{
	unix.SYS_MEMFD_SECRET, unix.SYS_SEMGET, unix.SYS_MSGGET, unix.SYS_MQ_OPEN,
}

// shmBytes bounds a System V segment where no control group counts: with the
// kernel's 4096 segments 16 MiB, and enough for the marker that database servers
// make.
const shmBytes = 4 << 10

// sharedBytes bounds a shared anonymous mapping where no control group counts.
// Its pages stay in memory though no process is seen to use them, once they are
// dropped from the page tables or all but one of them are unmapped. 16 MiB is
// far above what programs share with their children; the meter bounds how many
// there are.
const sharedBytes = 16 << 20

// sharedMapping are the flags of a mapping that is shared and anonymous.
const sharedMapping = unix.MAP_SHARED | unix.MAP_ANONYMOUS

// visibleMappings refuses large shared anonymous mappings, and huge pages, which
// no process is seen to use either.
func visibleMappings() []bpf.Instruction {
	size := atMost(1, sharedBytes, unix.ENOMEM)
	return append([]bpf.Instruction{
		loadArg(3),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.MAP_HUGETLB, SkipFalse: 1},
		errno(unix.ENOMEM),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: sharedMapping},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: sharedMapping, SkipTrue: 1},
		allow,
	}, size...)
}

// unshareRule refuses namespaces, and where the meter counts memory, descriptors for a
// thread alone: it looks at those of processes.
func unshareRule(f filter) []bpf.Instruction {
	if f.uncounted {
		return flagsDenied(0, unshareFlags|unix.CLONE_FILES)
	}
	return flagsDenied(0, unshareFlags)
}

// cloneRule refuses namespaces, and where the meter counts memory, also a thread with
// descriptors of its own, and a process that has its parent's memory and goes on beside
// it: memory that is handed from one process to the next is nowhere when it is looked
// for. A parent that waits for its child, as vfork has it, is there, as long as the
// child doesn't kill it; a look in between misses that memory.
func cloneRule(f filter) []bpf.Instruction {
	if !f.uncounted {
		return flagsDenied(0, namespaceFlags)
	}
	return []bpf.Instruction{
		loadArg(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags, SkipTrue: 5},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_FILES, SkipTrue: 2, SkipFalse: 3},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_VM, SkipFalse: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_VFORK, SkipFalse: 1},
		allow,
		errno(unix.EPERM),
	}
}

// seccompProgram is the filter. Calls whose answer doesn't depend on arguments
// cost nothing, since the kernel caches it.
func seccompProgram(f filter) []bpf.Instruction {
	return append(prolog(f), judgement(f)...)
}

// listenedProgram is the filter for a start at which writ listens: what is refused
// is handed over to it, so that it knows of the call, and refuses it.
func listenedProgram(f filter) []bpf.Instruction {
	body := judgement(f)
	for i, in := range body {
		if r, ok := in.(bpf.RetConstant); ok && r.Val&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO {
			body[i] = handOver
		}
	}
	return append(prolog(f), body...)
}

// prolog answers what nobody needs to know of: foreign interfaces, and calls that
// every program makes and has another way for.
func prolog(f filter) []bpf.Instruction {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		slay,
		bpf.LoadAbsolute{Off: dataNr, Size: 4},
	}
	prog = append(prog, archProlog...)
	// Its flags are in memory, where a filter can't look. Libraries try it first.
	prog = append(prog, onCall(unix.SYS_CLONE3, errno(unix.ENOSYS))...)
	// A gigabyte would be taken from the disk between two looks of the meter.
	// Programs write the blocks instead.
	prog = append(prog, onCall(unix.SYS_FALLOCATE, errno(unix.EOPNOTSUPP))...)
	if f.confined {
		prog = append(prog, allowed(f, runtime.GOARCH, true)...)
	}
	return prog
}

// judgement is the filter after the prolog: an allow-list where no namespaces
// stand around the program, otherwise a list of what is denied.
func judgement(f filter) []bpf.Instruction {
	if f.confined {
		return append(allowed(f, runtime.GOARCH, false), errno(unix.ENOSYS))
	}
	return append(denied(f), allow)
}

// denied is what namespaces don't hold.
func denied(f filter) []bpf.Instruction {
	var prog []bpf.Instruction
	for _, nr := range slices.Concat(deniedHere, deniedEverywhere) {
		prog = append(prog, onCall(nr, errno(unix.EPERM))...)
	}
	for _, nr := range absent {
		prog = append(prog, onCall(nr, errno(unix.ENOSYS))...)
	}
	if f.uncounted {
		for _, nr := range hiddenMemory {
			prog = append(prog, onCall(nr, errno(unix.ENOSYS))...)
		}
		prog = append(prog, onCall(unix.SYS_SHMGET, atMost(1, shmBytes, unix.EINVAL)...)...)
		prog = append(prog, onCall(unix.SYS_MEMFD_CREATE, flagsDenied(1, unix.MFD_HUGETLB)...)...)
		prog = append(prog, onCall(unix.SYS_MMAP, visibleMappings()...)...)
		prog = append(prog, onCall(unix.SYS_CLOSE_RANGE, flagsDenied(2, unix.CLOSE_RANGE_UNSHARE)...)...)
	}
	prog = append(prog, onCall(unix.SYS_CLONE, cloneRule(f)...)...)
	prog = append(prog, onCall(unix.SYS_UNSHARE, unshareRule(f)...)...)
	prog = append(prog, onCall(unix.SYS_PERSONALITY, onlyValues(0, unix.EPERM, 0, personalityQuery)...)...)
	prog = append(prog, onCall(unix.SYS_IOCTL, exceptValues(1, unix.EPERM, deniedRequests...)...)...)
	prog = append(prog, onCall(unix.SYS_SOCKET, families(f.loopback)...)...)
	return append(prog, onCall(unix.SYS_SOCKETPAIR, onlyValues(0, unix.EAFNOSUPPORT, unix.AF_UNIX)...)...)
}

// onCall runs body, which must return, for the system call nr. The accumulator
// holds the number before and, if the call is another, after.
func onCall(nr uintptr, body ...bpf.Instruction) []bpf.Instruction {
	skip := bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(nr), SkipFalse: uint8(len(body))}
	return append([]bpf.Instruction{skip}, body...)
}

// loadArg loads the low half of argument n. The kernel ignores the high half
// of the arguments that are tested with it alone.
func loadArg(n uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: dataArgs + 8*n, Size: 4}
}

// flagsDenied refuses argument n if it has one of flags.
func flagsDenied(n uint32, flags uint32) []bpf.Instruction {
	return []bpf.Instruction{
		loadArg(n),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: flags, SkipFalse: 1},
		errno(unix.EPERM),
		allow,
	}
}

// onlyValues refuses argument n unless it is one of values.
func onlyValues(n uint32, no unix.Errno, values ...uint32) []bpf.Instruction {
	prog := []bpf.Instruction{loadArg(n)}
	for _, v := range values {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, allow)
	}
	return append(prog, errno(no))
}

// exceptValues refuses argument n if it is one of values.
func exceptValues(n uint32, no unix.Errno, values ...uint32) []bpf.Instruction {
	prog := []bpf.Instruction{loadArg(n)}
	for _, v := range values {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, errno(no))
	}
	return append(prog, allow)
}

// atMost refuses argument n, all 64 bits of it, above limit.
func atMost(n, limit uint32, no unix.Errno) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArgs + 8*n + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
		loadArg(n),
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: limit, SkipTrue: 1},
		allow,
		errno(no),
	}
}

// families allows local sockets, and with loopback also TCP, UDP and the routing
// messages that resolvers ask for. An empty network namespace is around all of them.
func families(loopback bool) []bpf.Instruction {
	if !loopback {
		return onlyValues(0, unix.EAFNOSUPPORT, unix.AF_UNIX)
	}
	inet := internet()
	netlink := onlyValues(2, unix.EAFNOSUPPORT, unix.NETLINK_ROUTE)
	prog := []bpf.Instruction{
		loadArg(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipFalse: 1}, allow,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipFalse: uint8(len(inet))},
	}
	prog = append(prog, inet...)
	prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipFalse: uint8(len(netlink))})
	return append(append(prog, netlink...), errno(unix.EAFNOSUPPORT))
}

// socketType are the bits of a socket's type beside its flags.
const socketType = 0xf

// internet allows streams and datagrams of TCP and UDP. What else the kernel has for
// these families, ICMP and raw packets among it, no test suite needs.
func internet() []bpf.Instruction {
	protocols := onlyValues(2, unix.EPROTONOSUPPORT, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)
	return append([]bpf.Instruction{
		loadArg(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1},
		errno(unix.EPROTONOSUPPORT),
	}, protocols...)
}

// install puts the filter on this thread. It needs no_new_privs. It gives the
// descriptor at which calls are handed over, or -1 where somebody around writ
// listens already and the level can do without.
func (f seccompFilters) install() (int, error) {
	fd, no := loadSeccomp(f.listened, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if no != 0 && f.alone != nil {
		_, no = loadSeccomp(f.alone, 0)
		fd = -1
	}
	if no != 0 {
		return -1, no
	}
	return fd, nil
}

func loadSeccomp(filter []unix.SockFilter, flags uintptr) (int, unix.Errno) {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, no := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	return int(fd), no
}
