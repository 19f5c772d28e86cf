package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// actMemory touches args[0] MiB of private memory and stays.
func actMemory(args []string) {
	n, _ := strconv.Atoi(args[0])
	mem, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	touch(mem, err)
}

// actUndumpable is actMemory, of a process that tries not to be looked into.
func actUndumpable(args []string) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // refused at one level
	actMemory(args)
}

// actShared touches args[0] MiB of shared memory, which no rlimit counts.
func actShared(args []string) {
	n, _ := strconv.Atoi(args[0])
	for ; n > 0; n -= 16 {
		touchOnce(unix.Mmap(-1, 0, min(n, 16)<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON))
	}
	touch(nil, nil)
}

// actHidden touches args[0] mappings of shared memory, 1 MiB each, and has them
// forgotten: they are in memory, and no process is seen to use them.
func actHidden(args []string) {
	n, _ := strconv.Atoi(args[0])
	for range n {
		mem := touchOnce(unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON))
		if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil || mem[0] != 1 {
			fmt.Println("madvise:", err)
			os.Exit(1)
		}
	}
	touch(nil, nil)
}

// actMemfd fills a file in memory of args[0] MiB, and stays: with its descriptor
// alone, with its mapping alone, or until its input ends with both.
func actMemfd(args []string) {
	n, _ := strconv.Atoi(args[0])
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	block := make([]byte, 1<<20)
	for range n {
		if err == nil {
			_, err = unix.Write(fd, block)
		}
	}
	if err != nil {
		fmt.Println("memfd:", err)
		os.Exit(1)
	}
	if args[1] == "open" {
		touch(nil, nil)
	}
	mem := touchOnce(unix.Mmap(fd, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	if args[1] == "mapped" {
		_ = unix.Close(fd)
		touch(mem, nil)
	}
	fmt.Println("filled")
	_, _ = os.Stdin.Read(block)
	runtime.KeepAlive(mem)
}

// actTables makes args[0] MiB of page tables: a page of zeros that everybody
// shares, once in each two megabytes.
func actTables(args []string) {
	n, _ := strconv.Atoi(args[0])
	const step = 2 << 20
	mem, err := unix.Mmap(-1, 0, (n<<8)*step, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		fmt.Println("mmap:", err)
		os.Exit(1)
	}
	_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	sum := byte(0)
	for i := 0; i < len(mem); i += step {
		sum += mem[i]
	}
	touch([]byte{sum}, nil)
}

// actKernelMemory asks for what the kernel keeps for everybody.
func actKernelMemory([]string) {
	name := []byte("/x\x00")
	for _, c := range []struct {
		name string
		args [4]uintptr
	}{
		{"semaphores", [4]uintptr{unix.SYS_SEMGET, 0, 1, 0o600}},
		{"messages", [4]uintptr{unix.SYS_MSGGET, 0, 0o600}},
		{"queue", [4]uintptr{unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT | unix.O_RDWR, 0o600}},
	} {
		_, _, no := unix.Syscall(c.args[0], c.args[1], c.args[2], c.args[3])
		fmt.Printf("%s: %v\n", c.name, no)
	}
}

// actZero tries all ways to memory that no process is seen to use.
func actZero([]string) {
	const rw = unix.PROT_READ | unix.PROT_WRITE
	try := func(name string, fd, size, flags int) {
		_, err := unix.Mmap(fd, 0, size, rw, flags)
		fmt.Printf("%s: %v\n", name, err)
	}
	try("shared", -1, sharedBytes+1, unix.MAP_SHARED|unix.MAP_ANON)
	try("huge", -1, 2<<20, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB)
	try("small", -1, sharedBytes, unix.MAP_SHARED|unix.MAP_ANON)
	try("private", -1, 4*sharedBytes, unix.MAP_PRIVATE|unix.MAP_ANON)
	_, err := unix.Open("/dev/zero", unix.O_RDWR, 0)
	fmt.Printf("zero for writing: %v\n", err)
	fd, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
	fmt.Printf("zero: %v\n", err)
	try("zero shared", fd, 1<<20, unix.MAP_SHARED)
	try("zero private", fd, 1<<20, unix.MAP_PRIVATE)
}

// actMappings makes args[0] mappings without a page in them.
func actMappings(args []string) {
	n, _ := strconv.Atoi(args[0])
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, n*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	for i := 0; i+page < len(mem) && err == nil; i += 2 * page {
		err = unix.Mprotect(mem[i:i+page], unix.PROT_READ)
	}
	touch(nil, err)
}
