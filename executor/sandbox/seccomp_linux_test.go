package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict runs the program on one system call. The virtual machine reads
// big-endian words, and the kernel native ones at the same places.
func verdict(t *testing.T, loopback, uncounted bool, arch uint32, nr uintptr, args ...uint64) uint32 {
	t.Helper()
	return verdictOf(t, filter{loopback: loopback, uncounted: uncounted}, arch, nr, args...)
}

func verdictOf(t *testing.T, f filter, arch uint32, nr uintptr, args ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(seccompProgram(f))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, dataArgs+6*8)
	binary.BigEndian.PutUint32(data[dataNr:], uint32(nr))
	binary.BigEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[dataArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[dataArgs+8*i+4:], uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestX3_SeccompVerdicts(t *testing.T) {
	const (
		ok      = unix.SECCOMP_RET_ALLOW
		fail    = unix.SECCOMP_RET_ERRNO
		kill    = unix.SECCOMP_RET_KILL_PROCESS
		perm    = fail | uint32(unix.EPERM)
		nosys   = fail | uint32(unix.ENOSYS)
		noaf    = fail | uint32(unix.EAFNOSUPPORT)
		noproto = fail | uint32(unix.EPROTONOSUPPORT)
		plenty  = 1 << 40
	)
	for _, c := range []struct {
		name                string
		loopback, uncounted bool
		arch                uint32
		nr                  uintptr
		args                []uint64
		want                uint32
	}{
		{name: "read", nr: unix.SYS_READ, want: ok},
		{name: "execve", nr: unix.SYS_EXECVE, want: ok},
		{name: "another architecture", arch: unix.AUDIT_ARCH_I386, nr: unix.SYS_READ, want: kill},
		{name: "mount", nr: unix.SYS_MOUNT, want: perm},
		{name: "clone3", nr: unix.SYS_CLONE3, want: nosys},
		{name: "io_uring", nr: unix.SYS_IO_URING_SETUP, want: nosys},
		{name: "asynchronous input and output", nr: unix.SYS_IO_SETUP, want: nosys},
		{name: "thread", nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, want: ok},
		{name: "clone with namespace", nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_NEWNET | uint64(unix.SIGCHLD)}, want: perm},
		{name: "unshare files", nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_FILES}, want: ok},
		{name: "unshare files uncounted", uncounted: true, nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_FILES}, want: perm},
		{name: "unshare paths uncounted", uncounted: true, nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_FS}, want: ok},
		{name: "thread uncounted", uncounted: true, nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD}, want: ok},
		{name: "thread with descriptors of its own", uncounted: true, nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD}, want: perm},
		{name: "fork uncounted", uncounted: true, nr: unix.SYS_CLONE, args: []uint64{uint64(unix.SIGCHLD) | unix.CLONE_CHILD_SETTID}, want: ok},
		{name: "vfork uncounted", uncounted: true, nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, want: ok},
		{name: "process in the same memory", nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_VM | uint64(unix.SIGCHLD)}, want: ok},
		{name: "process in the same memory uncounted", uncounted: true, nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_VM | unix.CLONE_FILES | uint64(unix.SIGCHLD)}, want: perm},
		{name: "clone with namespace uncounted", uncounted: true, nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_NEWNET | uint64(unix.SIGCHLD)}, want: perm},
		{name: "close_range uncounted", uncounted: true, nr: unix.SYS_CLOSE_RANGE, args: []uint64{3, 1 << 31, unix.CLOSE_RANGE_CLOEXEC}, want: ok},
		{name: "close_range of a thread alone", uncounted: true, nr: unix.SYS_CLOSE_RANGE, args: []uint64{3, 1 << 31, unix.CLOSE_RANGE_UNSHARE}, want: perm},
		{name: "unshare time", nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_NEWTIME}, want: perm},
		{name: "ioctl", nr: unix.SYS_IOCTL, args: []uint64{0, unix.TCGETS}, want: ok},
		{name: "tiocsti", nr: unix.SYS_IOCTL, args: []uint64{0, tiocsti}, want: perm},
		{name: "tiocsti in disguise", nr: unix.SYS_IOCTL, args: []uint64{0, 1<<32 | tiocsti}, want: perm},
		{name: "personality 0", nr: unix.SYS_PERSONALITY, args: []uint64{0}, want: ok},
		{name: "personality", nr: unix.SYS_PERSONALITY, args: []uint64{0x20000}, want: perm},
		{name: "unix socket", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_UNIX}, want: ok},
		{name: "socketpair", nr: unix.SYS_SOCKETPAIR, args: []uint64{unix.AF_UNIX}, want: ok},
		{name: "inet socket", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET}, want: noaf},
		{name: "inet socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, want: ok},
		{name: "inet6 socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, want: ok},
		{name: "unix socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, want: ok},
		{name: "raw socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_UDP}, want: noproto},
		{name: "raw inet6 socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET6, unix.SOCK_RAW}, want: noproto},
		{name: "ping socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, want: noproto},
		{name: "SCTP socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, want: noproto},
		{name: "packet socket on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_PACKET}, want: noaf},
		{name: "netlink", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}, want: noaf},
		{name: "routing netlink on loopback", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}, want: ok},
		{name: "netfilter netlink", loopback: true, nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 0, unix.NETLINK_NETFILTER}, want: noaf},
		{name: "memfd", nr: unix.SYS_MEMFD_CREATE, want: ok},
		{name: "memfd uncounted", uncounted: true, nr: unix.SYS_MEMFD_CREATE, want: ok},
		{name: "memfd of huge pages", uncounted: true, nr: unix.SYS_MEMFD_CREATE, args: []uint64{0, unix.MFD_HUGETLB}, want: perm},
		{name: "semaphores", nr: unix.SYS_SEMGET, want: ok},
		{name: "semaphores uncounted", uncounted: true, nr: unix.SYS_SEMGET, want: nosys},
		{name: "messages uncounted", uncounted: true, nr: unix.SYS_MSGGET, want: nosys},
		{name: "message queues uncounted", uncounted: true, nr: unix.SYS_MQ_OPEN, want: nosys},
		{name: "fallocate by another name", nr: unix.SYS_IOCTL, args: []uint64{0, resvsp}, want: perm},
		{name: "fallocate", nr: unix.SYS_FALLOCATE, want: fail | uint32(unix.EOPNOTSUPP)},
		{name: "shared mapping", nr: unix.SYS_MMAP, args: []uint64{0, plenty, 0, unix.MAP_SHARED | unix.MAP_ANON}, want: ok},
		{name: "small shared mapping", uncounted: true, nr: unix.SYS_MMAP, args: []uint64{0, sharedBytes, 0, unix.MAP_SHARED | unix.MAP_ANON}, want: ok},
		{name: "large shared mapping", uncounted: true, nr: unix.SYS_MMAP, args: []uint64{0, sharedBytes + 1, 0, unix.MAP_SHARED | unix.MAP_ANON}, want: fail | uint32(unix.ENOMEM)},
		{name: "huge shared mapping", uncounted: true, nr: unix.SYS_MMAP, args: []uint64{0, plenty, 0, 1<<32 | unix.MAP_SHARED | unix.MAP_ANON | unix.MAP_NORESERVE}, want: fail | uint32(unix.ENOMEM)},
		{name: "large private mapping", uncounted: true, nr: unix.SYS_MMAP, args: []uint64{0, plenty, 0, unix.MAP_PRIVATE | unix.MAP_ANON}, want: ok},
		{name: "large mapping of a file", uncounted: true, nr: unix.SYS_MMAP, args: []uint64{0, plenty, 0, unix.MAP_SHARED}, want: ok},
		{name: "huge pages", uncounted: true, nr: unix.SYS_MMAP, args: []uint64{0, 4096, 0, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB}, want: fail | uint32(unix.ENOMEM)},
		{name: "small segment", uncounted: true, nr: unix.SYS_SHMGET, args: []uint64{0, 56}, want: ok},
		{name: "large segment", uncounted: true, nr: unix.SYS_SHMGET, args: []uint64{0, shmBytes + 1}, want: fail | uint32(unix.EINVAL)},
		{name: "huge segment", uncounted: true, nr: unix.SYS_SHMGET, args: []uint64{0, plenty}, want: fail | uint32(unix.EINVAL)},
	} {
		arch := c.arch
		if arch == 0 {
			arch = auditArch
		}
		if got := verdict(t, c.loopback, c.uncounted, arch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: verdict %#x, want %#x", c.name, got, c.want)
		}
	}
}

// Every call named in a list is refused, so that no entry is lost on the way.
func TestX3_SeccompLists(t *testing.T) {
	for want, list := range map[unix.Errno][]uintptr{unix.EPERM: append(deniedHere, deniedEverywhere...), unix.ENOSYS: absent} {
		for _, nr := range list {
			if got := verdict(t, false, false, auditArch, nr); got != unix.SECCOMP_RET_ERRNO|uint32(want) {
				t.Errorf("call %d: verdict %#x", nr, got)
			}
		}
	}
}
