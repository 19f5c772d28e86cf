package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// acts are the hostile programs that are easier in Go than in a shell script.
// The test binary is itself the program inside.
func acts() map[string]func(args []string) {
	return map[string]func([]string){
		"act-net":      actNet,
		"act-syscalls": actSyscalls,
		"act-flood":    actFlood,
		"act-memory":   actMemory,
		"act-shared":   actShared,

		"act-undumpable": actUndumpable,
		"act-hidden":     actHidden,
		"act-zero":       actZero,
		"act-memfd":      actMemfd,
		"act-tables":     actTables,
		"act-mappings":   actMappings,

		"act-kernel-memory": actKernelMemory,
		"act-allocate":      actAllocate,
		"act-leader":        actLeader,
		"act-files":         actFiles,
		"act-tmpfiles":      actTmpFiles,
		"act-bomb":          actBomb,
		"act-spin":          actSpin,
		"act-fds":           actFDs,
		"act-flight":        actFlight,
		"act-server":        actServer,
		"act-gateway":       actGateway,
		"act-supervise":     supervise,
		"act-meddle":        actMeddle,
		"act-fchmod":        actFchmod,
		"act-forge":         actForge,
		"act-probe":         actProbe,
		"act-alone":         actAlone,
		"act-answer":        actAnswer,
		"act-remove":        actRemove,
	}
}

// actNet tries to reach each "network address" pair and prints what it reached.
func actNet(args []string) {
	for i := 0; i+1 < len(args); i += 2 {
		c, err := net.DialTimeout(args[i], args[i+1], 2*time.Second)
		if err == nil {
			_, err = c.Write([]byte("hello"))
		}
		if err != nil {
			fmt.Printf("denied %s %s: %v\n", args[i], args[i+1], err)
			continue
		}
		fmt.Printf("reached %s %s\n", args[i], args[i+1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if hosts, err := net.DefaultResolver.LookupHost(ctx, "example.com"); err == nil {
		fmt.Println("reached dns", hosts)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK, unix.AF_UNIX} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		fmt.Printf("family %d: %v\n", family, err)
		unix.Close(fd)
	}
	fmt.Println("net: end")
}

// actMeddle does to the process args[0] and the file args[1], one outside, what their owner may
// do, and prints what succeeded.
func actMeddle(args []string) {
	pid, _ := strconv.Atoi(args[0])
	file := args[1][len(outside):]
	cpus, limit := unix.CPUSet{1}, unix.Rlimit{Cur: 1, Max: 1}
	proc := func(name string) func() error {
		return func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); return err }
	}
	for _, try := range []struct {
		name string
		do   func() error
	}{
		{"signal", func() error { return unix.Kill(pid, 0) }},
		{"affinity", func() error { return unix.SchedSetaffinity(pid, &cpus) }},
		{"limit", func() error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil) }},
		{"priority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) }},
		{"environment", proc("environ")},
		{"maps", proc("maps")},
		{"read", func() error { _, err := os.ReadFile(file); return err }},
		{"truncate", func() error { return os.Truncate(file, 0) }},
		{"chmod", func() error { return os.Chmod(file, 0o777) }},
		{"remove", func() error { return os.Remove(file) }},
		{"link", func() error { return os.Link(file, "linked") }},
		{"attribute", func() error { return unix.Setxattr(file, "user.x", []byte("x"), 0) }},
		{"queue", func() error {
			_, _, no := unix.Syscall(unix.SYS_MSGGET, 0x77726974, unix.IPC_CREAT|0o600, 0)
			return orNil(no)
		}},
		{"memory", func() error { _, err := unix.SysvShmGet(0x77726974, 4096, unix.IPC_CREAT|0o600); return err }},
	} {
		if err := try.do(); err == nil {
			fmt.Println("could:", try.name)
		}
	}
	fmt.Println("meddle: end")
}

// actFchmod changes the modes of files that it has only opened for reading, and
// prints which.
func actFchmod(args []string) {
	for _, name := range args {
		f, err := os.Open(name)
		if err != nil {
			fmt.Println("can't read:", name)
			continue
		}
		if f.Chmod(0o751) == nil {
			fmt.Println("changed", name)
		}
		_ = f.Close()
	}
	fmt.Println("fchmod: end")
}

func orNil(no unix.Errno) error {
	if no == 0 {
		return nil
	}
	return no
}

// actServer serves itself on its own loopback interface.
func actServer([]string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("listen:", err)
		return
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprintln(c, "own loopback")
			_ = c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println("dial:", err)
		return
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(line)
}

// actSyscalls makes the calls a way out would need and prints their errors.
func actSyscalls([]string) {
	runtime.LockOSThread()
	report := func(name string, no unix.Errno) { fmt.Printf("%s=%d\n", name, int(no)) }
	call := func(name string, nr, a, b, c uintptr) {
		_, _, no := unix.RawSyscall(nr, a, b, c)
		report(name, no)
	}
	call("unshare_user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
	call("unshare_files", unix.SYS_UNSHARE, unix.CLONE_FS, 0, 0)
	call("clone_user", unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0)
	call("clone3", unix.SYS_CLONE3, 0, 0, 0)
	call("setns", unix.SYS_SETNS, 0, 0, 0)
	call("ptrace", unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
	call("bpf", unix.SYS_BPF, 0, 0, 0)
	call("keyctl", unix.SYS_KEYCTL, 0, 0, 0)
	call("io_uring", unix.SYS_IO_URING_SETUP, 0, 0, 0)
	call("userfaultfd", unix.SYS_USERFAULTFD, 0, 0, 0)
	call("fsopen", unix.SYS_FSOPEN, 0, 0, 0)
	call("chroot", unix.SYS_CHROOT, 0, 0, 0)
	call("personality", unix.SYS_PERSONALITY, 0x0040000, 0, 0)
	call("personality_query", unix.SYS_PERSONALITY, personalityQuery, 0, 0)
	call("tiocsti", unix.SYS_IOCTL, 0, tiocsti, 0)
	call("tiocsti_high", unix.SYS_IOCTL, 0, 1<<32|tiocsti, 0)
	slash := []byte("/\x00")
	_, _, no := unix.RawSyscall6(unix.SYS_MOUNT, 0, uintptr(unsafe.Pointer(&slash[0])), 0, unix.MS_REMOUNT|unix.MS_BIND, 0, 0)
	report("remount", no)
	fmt.Println("syscalls: end")
}

// actFlood prints args[0] bytes.
func actFlood(args []string) {
	n, _ := strconv.Atoi(args[0])
	signal.Ignore(unix.SIGTERM)
	block := floodBlock()
	for n > 0 {
		m := min(n, len(block))
		if _, err := os.Stdout.Write(block[:m]); err != nil {
			os.Exit(1)
		}
		n -= m
	}
}

// floodBlock is 64 KiB of lines with bytes that are not UTF-8.
func floodBlock() []byte {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = "flood \xff\xfe\x1b[2J of lines\n"[i%len("flood \xff\xfe\x1b[2J of lines\n")]
	}
	return b
}

// hold keeps a program alive until it is killed.
func hold() { select {} }

// actAllocate wants a file of 64 MiB at once.
func actAllocate([]string) {
	f, err := os.Create("big")
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, 64<<20)
	}
	fmt.Println("fallocate:", err)
}

// init keeps actLeader's main goroutine on the process's first thread: while
// packages are initialised it is there, and a lock lets it stay.
func init() { //nolint:gochecknoinits // only there the goroutine is known to be on the first thread
	if len(os.Args) > 1 && os.Args[1] == "act-leader" {
		runtime.LockOSThread()
	}
}

// actLeader ends the process's first thread, so that the process itself seems to
// have neither memory nor descriptors, and touches args[0] MiB in another one, or
// makes a file in memory of that size where args[1] says so.
func actLeader(args []string) {
	n, _ := strconv.Atoi(args[0])
	go func() {
		for {
			stat, err := os.ReadFile("/proc/self/stat")
			if err != nil || strings.Contains(string(stat), ") Z ") {
				fmt.Println("the first thread has ended:", err)
				break
			}
			runtime.Gosched()
		}
		if len(args) > 1 {
			actMemfd(args)
		}
		touch(unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// touchOnce makes all pages of a mapping be there.
func touchOnce(mem []byte, err error) []byte {
	if err != nil {
		fmt.Println("mmap:", err)
		os.Exit(1)
	}
	for i := 0; i < len(mem); i += os.Getpagesize() {
		mem[i] = 1
	}
	return mem
}

// touch is touchOnce, and stays.
func touch(mem []byte, err error) {
	mem = touchOnce(mem, err)
	fmt.Println("touched")
	go func() {
		for {
			time.Sleep(time.Hour) // a sleeper keeps Go from seeing a deadlock
			runtime.KeepAlive(mem)
		}
	}()
	hold()
}

// actFiles writes one file of args[0] MiB into the workspace.
func actFiles(args []string) {
	n, _ := strconv.Atoi(args[0])
	f, err := os.Create("big")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	block := make([]byte, 1<<20)
	for range n {
		if _, err := f.Write(block); err != nil {
			fmt.Println("write:", err)
			os.Exit(3)
		}
	}
}

// actTmpFiles makes empty files in the place for temporary ones without end.
func actTmpFiles([]string) {
	for i := 0; ; i++ {
		f, err := os.Create(fmt.Sprintf("%s/%d", os.Getenv("TMPDIR"), i))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_ = f.Close()
	}
}

// actBomb forks without end, and so do all its children; with an argument each waits a
// little where it can't. It calls the kernel directly: after such a fork nothing else of Go
// works.
func actBomb(args []string) {
	waits := len(args) > 0
	rest := unix.Timespec{Nsec: 10_000_000}
	runtime.LockOSThread()
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 && waits {
			_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0)
		}
	}
}

// actSpin uses processor time without end.
func actSpin([]string) {
	for i := 0; ; i++ {
		_ = i * i
	}
}

// actFDs opens descriptors until it may not.
func actFDs([]string) {
	n := 0
	for {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Printf("stopped at %d: %v\n", n, err)
			return
		}
		n++
	}
}

// actProbe tries the sandbox again and again, and says each time that it begins.
func actProbe([]string) {
	for {
		fmt.Println("trying")
		_ = NewBubblewrap(Config{}).Probe(context.Background()) // it is killed
	}
}
