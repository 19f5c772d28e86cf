package sandbox

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuGrace is the room between the soft limit on processor time, which signals
// SIGXCPU, and the hard one, which kills.
const cpuGrace = 5 // seconds

// dataRoom and the factor beside it keep RLIMIT_DATA above the memory limit,
// which the meter holds: this one only stops a process that is faster than the
// meter. It is not RLIMIT_AS, since language runtimes reserve far more
// addresses than they use, and only writable private memory counts here.
const dataRoom = 1 << 30 // bytes

// othersRoom is how many processes and threads of the same user may come while a
// confined tree runs, without taking its own away from it.
const othersRoom = 256

// setRlimits sets what the kernel holds for each process, and, for processes
// and threads, for the user id inside the namespace. A negative limit leaves
// the inherited one. The order matters: afterwards this process itself must be
// able to do nothing but exec. The one on descriptors comes later, see enter.
func setRlimits(c initConfig) error {
	l := c.Limits
	if c.Confined && c.UID == 0 && l.Processes > 0 {
		// The kernel counts all of the user's together, and those of others come
		// and go: it is only to slow a bomb down until the meter sees it.
		l.Processes = 2*l.Processes + tasksOfUser() + othersRoom
	}
	if err := setRlimit(unix.RLIMIT_CORE, 0, 0); err != nil {
		return err
	}
	cpu := int64((l.CPU + time.Second - 1) / time.Second)
	if err := setRlimit(unix.RLIMIT_CPU, cpu, cpu+cpuGrace); err != nil {
		return err
	}
	if err := setRlimit(unix.RLIMIT_FSIZE, l.FileSizeBytes, l.FileSizeBytes); err != nil {
		return err
	}
	if err := setRlimit(unix.RLIMIT_NPROC, l.Processes, l.Processes); err != nil {
		return err
	}
	if c.Uncounted && l.MemoryBytes > 0 {
		data := 2*l.MemoryBytes + dataRoom
		if err := setRlimit(unix.RLIMIT_DATA, data, data); err != nil {
			return err
		}
	}
	return nil
}

// setRlimit sets one limit, never above the inherited hard one. It goes through
// package syscall, which would otherwise restore RLIMIT_NOFILE at the exec.
func setRlimit(which int, soft, hard int64) error {
	if soft < 0 {
		return nil
	}
	var have syscall.Rlimit
	if err := syscall.Getrlimit(which, &have); err != nil {
		return err
	}
	want := syscall.Rlimit{Cur: min(uint64(soft), have.Max), Max: min(uint64(hard), have.Max)}
	return syscall.Setrlimit(which, &want)
}

// tasksOfUser counts the threads of everything that runs as this user.
func tasksOfUser() int64 {
	var n int64
	me := uint32(os.Getuid())
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil || st.Sys().(*syscall.Stat_t).Uid != me {
			continue
		}
		if f := statOf(int(number([]byte(filepath.Base(path))))); f != nil {
			n += number(f[statThreads])
		}
	}
	return n
}
