package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The allow-list of the level without namespaces. A list of what is forbidden
// would have holes with every new kernel: a call that isn't named here is
// answered as by a kernel that doesn't have it.

//go:generate go run mknumbers.go

// layer says what makes an allowed call harmless.
type layer string

const (
	// byItself: it reaches the caller's own process and descriptors only, or it
	// needs a capability, and the program has none.
	byItself layer = "itself"
	// byFilter: the argument filter beside it.
	byFilter layer = "filter"
	// byLandlock: the rules for files, or that signals stay inside.
	byLandlock layer = "Landlock"
	// byWrit: it is handed to writ, which does it in the program's place or not.
	byWrit layer = "writ"
)

// row is a group of calls that are harmless for the same reason. docs/security.md
// shows all of them.
type row struct {
	name  string // of the group
	calls string
	only  string // what the filter lets through, "" for everything
	held  layer
	why   string
	// rule decides on the arguments and must return; nil allows.
	rule func(filter) []bpf.Instruction
	// quiet refusals aren't told: every other program makes them and goes on.
	quiet bool
}

// always is the rule that doesn't look at arguments.
func always(answer bpf.Instruction) func(filter) []bpf.Instruction {
	return func(filter) []bpf.Instruction { return []bpf.Instruction{answer} }
}

// fixed is the rule that is the same for each start.
func fixed(body []bpf.Instruction) func(filter) []bpf.Instruction {
	return func(filter) []bpf.Instruction { return body }
}

// rows is the table. Calls that an architecture doesn't have are passed over.
var rows = []row{
	{
		name: "mappings", held: byFilter, why: "The caller's own memory. What no process is seen to use is refused.", calls: "mmap",
		only: "where no control group counts memory: no huge pages, no shared anonymous mapping above 16 MiB", rule: ifUncounted(visibleMappings()),
	},
	{
		name: "memory", held: byItself, why: "It changes the caller's own memory.",
		calls: "brk munmap mremap mprotect madvise mlock mlock2 munlock mlockall munlockall msync mincore mseal pkey_alloc pkey_free pkey_mprotect map_shadow_stack mbind get_mempolicy set_mempolicy membarrier",
	},
	{
		name: "memory file", held: byFilter, why: "A file in memory, which is counted as memory.", calls: "memfd_create",
		only: "no huge pages", rule: fixed(flagsDenied(1, unix.MFD_HUGETLB)),
	},
	{
		name: "descriptors", held: byItself, why: "It acts on a descriptor, and the program gets none that leads outside but for reading.",
		calls: "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek close dup dup2 dup3 pipe pipe2 fsync fdatasync ftruncate fstat copy_file_range sendfile splice tee sync_file_range readahead fadvise64 flock getdents getdents64 fchdir fstatfs",
	},
	{
		name: "descriptors closed", held: byFilter, why: "It acts on descriptors. What a thread alone has is found by no look at its process.", calls: "close_range",
		only: "where no control group counts memory: none for a thread alone", rule: ifUncounted(flagsDenied(2, unix.CLOSE_RANGE_UNSHARE)),
	},
	{
		name: "waiting", held: byItself, why: "It waits for descriptors or time, or makes a descriptor for that.",
		calls: "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime inotify_init inotify_init1 inotify_add_watch inotify_rm_watch pause nanosleep clock_nanosleep alarm getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete futex futex_wait futex_wake futex_requeue futex_waitv",
	},
	{
		name: "questions", held: byItself, why: "It asks and changes nothing.",
		calls: "getpid gettid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid getcpu getcwd getrandom getrusage getrlimit getpriority ioprio_get capget sched_getparam sched_getscheduler sched_getaffinity sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval sysinfo uname time times gettimeofday clock_gettime clock_getres statfs",
	},
	{
		name: "names", held: byItself, why: "It shows which files exist, not what is in them; this level doesn't hide that.",
		calls: "stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat chdir",
	},
	{
		name: "own process", held: byItself, why: "It changes the caller itself; what would give it more needs a capability or is refused by no_new_privs.",
		calls: "arch_prctl set_tid_address set_robust_list rseq rseq_slice_yield rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigreturn sigaltstack restart_syscall umask setpgid setsid setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset setrlimit sched_yield exit exit_group wait4 waitid fork vfork pidfd_open",
	},
	{
		name: "restrictions", held: byItself, why: "It takes something away from the caller and its children.",
		calls: "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
	},
	{
		name: "processes", held: byFilter, why: "A child, or a part of the caller; no namespace, in which it would have rights.",
		calls: "clone", only: "no flag for a namespace; where no control group counts memory: no thread with descriptors of its own, no process in the caller's memory but by vfork",
		rule: cloneRule,
	},
	{
		name: "unshare", held: byFilter, why: "As above.",
		calls: "unshare", only: "no flag for a namespace; where no control group counts memory: no descriptors for a thread alone",
		rule: unshareRule,
	},
	{
		name: "priority", held: byFilter, why: "Others of the same user, and by the user's number all of them, could be slowed down.",
		calls: "setpriority", only: "which is a process, and it is the caller (0)", rule: fixed(exactly(unix.PRIO_PROCESS, 0)),
	},
	{
		name: "io priority", held: byFilter, why: "As above.",
		calls: "ioprio_set", only: "which is a process, and it is the caller (0)", rule: fixed(exactly(ioprioWhoProcess, 0)),
	},
	{
		name: "scheduling", held: byFilter, why: "As above.",
		calls: "sched_setaffinity sched_setparam sched_setscheduler sched_setattr prlimit64", only: "the process is the caller (0)",
		rule: fixed(exactly(0)),
	},
	{
		name: "prctl", held: byFilter, why: "Options that change the caller only. Others reach another process, or don't exist yet.",
		calls: "prctl", only: "options of a list, and not to hide its memory from writ", rule: fixed(prctlRule()),
	},
	{
		name: "fcntl", held: byFilter, why: "Without leases, which make others wait, and without signals to others.",
		calls: "fcntl", only: "commands of a list", rule: fixed(onlyValues(1, unix.EINVAL, fcntlCommands...)),
	},
	{
		name: "ioctl", held: byFilter, why: "Many change a file through a descriptor for reading, or make files where Landlock doesn't look.",
		calls: "ioctl", only: "requests of a list", rule: fixed(onlyValues(1, unix.ENOTTY, ioctlRequests...)),
	},
	{
		name: "personality", held: byFilter, why: "Other personalities weaken the caller's own memory.",
		calls: "personality", only: "0 and the question", rule: fixed(onlyValues(0, unix.EPERM, 0, personalityQuery)),
	},
	{
		name: "sockets", held: byFilter, why: "There is no network namespace, and a path leads to any daemon. A pair that carries datagrams could still be sent to others.",
		calls: "socketpair", only: "local, SOCK_STREAM or SOCK_SEQPACKET", rule: fixed(connectedPairs()),
	},
	{
		name: "no sockets", held: byFilter, why: "As above.",
		calls: "socket", only: "never: EAFNOSUPPORT", rule: always(errno(unix.EAFNOSUPPORT)),
	},
	{
		name: "pairs", held: byItself, why: "It acts on a connected pair, the only sockets there are.",
		calls: "sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg shutdown getsockopt setsockopt getsockname getpeername",
	},
	{
		name: "files", held: byLandlock, why: "Only what the rules name is opened, made, removed, run or emptied.",
		calls: "open openat openat2 creat truncate mkdir mkdirat mknod mknodat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat execve execveat",
	},
	{
		name: "signals", held: byLandlock, why: "Signals stay inside, or the program has a user of its own.",
		calls: "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal",
	},
	{
		name: "modes", held: byWrit, why: "Landlock has no rule for them: writ opens the file and changes it if the program may write it.",
		calls: "chmod fchmod fchmodat fchmodat2", only: "handed over where the program has writ's user", rule: modeRule,
	},
	{
		name: "times", held: byWrit, why: "As above.",
		calls: "utime utimes futimesat utimensat", only: "handed over", rule: always(handOver),
	},
	{
		name: "owners", held: byFilter, why: "Writ's files could get another group. Programs take it as they do for an ordinary user.",
		calls: "chown lchown fchown fchownat", only: "never: EPERM", rule: always(errno(unix.EPERM)),
	},
	{
		name: "attributes", held: byFilter, why: "Access lists on any path. Programs take it as a file system without attributes.",
		calls: "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr",
		only:  "never: EOPNOTSUPP", rule: always(errno(unix.EOPNOTSUPP)), quiet: true,
	},
}

// handOver gives a call to writ.
var handOver = bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}

// modeRule hands changes of modes over. A descriptor is no proof that the program
// may write: it gets one of each file that it may read, writ's own program
// included. A program with a user of its own has nothing outside that is its own.
func modeRule(f filter) []bpf.Instruction {
	if f.sameUser {
		return []bpf.Instruction{handOver}
	}
	return []bpf.Instruction{allow}
}

// ifUncounted is a rule for where no control group counts memory.
func ifUncounted(prog []bpf.Instruction) func(filter) []bpf.Instruction {
	return func(f filter) []bpf.Instruction {
		if f.uncounted {
			return prog
		}
		return []bpf.Instruction{allow}
	}
}

// ioprioWhoProcess is IOPRIO_WHO_PROCESS, which says that a number is a process's.
const ioprioWhoProcess = 1

// exactly refuses unless the first arguments have these values.
func exactly(values ...uint32) []bpf.Instruction {
	var prog []bpf.Instruction
	for n, v := range values {
		prog = append(prog, loadArg(uint32(n)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: 1}, errno(unix.EPERM))
	}
	return append(prog, allow)
}

// connectedPairs allows pairs that stay connected. One for datagrams can be sent
// to any path that its end names.
func connectedPairs() []bpf.Instruction {
	return []bpf.Instruction{
		loadArg(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipFalse: 4},
		loadArg(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketTypes},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_SEQPACKET, SkipTrue: 1},
		errno(unix.EAFNOSUPPORT),
		allow,
	}
}

// socketTypes is the part of a socket's type that isn't flags.
const socketTypes = 0xf

// prctlRule also keeps processes dumpable: of others an ordinary user isn't shown
// how much memory they have.
func prctlRule() []bpf.Instruction {
	dumpable := exactly(unix.PR_SET_DUMPABLE, 1)
	prog := []bpf.Instruction{
		loadArg(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PR_SET_DUMPABLE, SkipFalse: uint8(len(dumpable))},
	}
	return slices.Concat(prog, dumpable, onlyValues(0, unix.EINVAL, prctlOptions...))
}

// prctlOptions are options that concern the caller and its children only.
var prctlOptions = []uint32{
	unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG, unix.PR_GET_DUMPABLE, unix.PR_GET_KEEPCAPS, unix.PR_SET_KEEPCAPS,
	unix.PR_GET_TIMING, unix.PR_SET_TIMING, unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_GET_SECCOMP, unix.PR_SET_SECCOMP,
	unix.PR_CAPBSET_READ, unix.PR_CAPBSET_DROP, unix.PR_GET_TSC, unix.PR_SET_TSC, unix.PR_GET_SECUREBITS, unix.PR_SET_SECUREBITS,
	unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK, unix.PR_MCE_KILL, unix.PR_MCE_KILL_GET, unix.PR_SET_CHILD_SUBREAPER,
	unix.PR_GET_CHILD_SUBREAPER, unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS, unix.PR_GET_TID_ADDRESS,
	unix.PR_SET_THP_DISABLE, unix.PR_GET_THP_DISABLE, unix.PR_SET_FP_MODE, unix.PR_GET_FP_MODE, unix.PR_CAP_AMBIENT,
	unix.PR_SVE_SET_VL, unix.PR_SVE_GET_VL, unix.PR_GET_SPECULATION_CTRL, unix.PR_SET_SPECULATION_CTRL, unix.PR_PAC_RESET_KEYS,
	unix.PR_SET_TAGGED_ADDR_CTRL, unix.PR_GET_TAGGED_ADDR_CTRL, unix.PR_SET_SYSCALL_USER_DISPATCH, unix.PR_PAC_SET_ENABLED_KEYS,
	unix.PR_PAC_GET_ENABLED_KEYS, unix.PR_SME_SET_VL, unix.PR_SME_GET_VL, unix.PR_SET_MDWE, unix.PR_GET_MDWE,
	unix.PR_SET_VMA, unix.PR_SET_PTRACER,
}

// fcntlCommands are commands on the caller's own descriptors.
var fcntlCommands = []uint32{
	unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_DUPFD_QUERY, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
	unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW,
	unix.F_GETOWN, unix.F_GETSIG, unix.F_GETLEASE, unix.F_SETPIPE_SZ, unix.F_GETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS,
}

// ioctlRequests are questions about descriptors, copies of one's own files, and
// what a program does with a terminal, of which it has at most its own.
var ioctlRequests = []uint32{
	unix.TCGETS, unix.TCSETS, unix.TCSETSW, unix.TCSETSF, unix.TCGETS2, unix.TCSETS2, unix.TCSETSW2, unix.TCSETSF2,
	unix.TIOCSCTTY, unix.TIOCNOTTY, unix.TIOCGPGRP, unix.TIOCSPGRP, unix.TIOCGSID, unix.TIOCGWINSZ, unix.TIOCSWINSZ, unix.TIOCOUTQ,
	unix.TIOCINQ, fioNbio, fioClex, fioNclex, fioGetBsz, unix.FS_IOC_GETFLAGS, fsGetXattr, fsFiemap,
	unix.FICLONE, unix.FICLONERANGE,
}

// Requests that package unix doesn't name.
const (
	fioGetBsz  = 0x2        // FIGETBSZ
	fioNbio    = 0x5421     // FIONBIO
	fioNclex   = 0x5450     // FIONCLEX
	fioClex    = 0x5451     // FIOCLEX
	fsGetXattr = 0x801c581f // FS_IOC_FSGETXATTR
	fsFiemap   = 0xc020660b // FS_IOC_FIEMAP
)

// allowed is the part of the filter that lets through what the table names, for
// an architecture; or that part which refuses quietly.
func allowed(f filter, arch string, quiet bool) []bpf.Instruction {
	var plain, tested []bpf.Instruction
	for _, r := range rows {
		for name := range strings.FieldsSeq(r.calls) {
			nr, ok := callNumbers[arch][name]
			switch {
			case !ok || r.quiet != quiet:
			case r.rule == nil:
				plain = append(plain, onCall(nr, allow)...)
			default:
				tested = append(tested, onCall(nr, r.rule(f)...)...)
			}
		}
	}
	return append(tested, plain...)
}

// Table is the allow-list of the level without namespaces as Markdown, for
// docs/security.md. Calls that one architecture alone has are there for both.
func Table() string {
	var b strings.Builder
	b.WriteString("| | calls | only if | why | held by |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		calls := "`" + strings.ReplaceAll(r.calls, " ", "` `") + "`"
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.name, calls, r.only, r.why, r.held)
	}
	return b.String()
}
