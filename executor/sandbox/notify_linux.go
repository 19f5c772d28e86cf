package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The filter hands over to writ what it refuses, so that a failed run's report can
// name it, and what Landlock has no rule for: changes of modes and times. Writ
// opens the file, looks where it is, and makes the change itself if that is a
// place the program may write. What the program then does to its memory or to the
// path changes nothing any more: the open file is what is changed.

// The kernel's structures and requests; see seccomp_unotify(2).
type (
	seccompData struct {
		nr, arch uint32
		ip       uint64
		args     [6]uint64
	}
	seccompNotif struct {
		id         uint64
		pid, flags uint32
		data       seccompData
	}
	seccompResp struct {
		id    uint64
		val   int64
		err   int32
		flags uint32
	}
)

const (
	notifRecv    = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend    = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	notifIDValid = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
)

// sendFD passes a descriptor on to writ.
func sendFD(socket, fd int) error {
	return unix.Sendmsg(socket, []byte{readyByte}, unix.UnixRights(fd), nil, 0)
}

// maxDenied bounds how many calls are remembered by name. More would not be read.
const maxDenied = 16

// answerer answers what one tree's filter hands over.
type answerer struct {
	filter   filter
	uid      int      // as whom files are changed; 0: as writ's own user
	writable []string // directories, as the kernel names them
	verdict  *bpf.VM
	listener int
	before   int64        // processor time of the thread when it began
	used     atomic.Int64 // processor time of the answers, in nanoseconds

	mu     sync.Mutex
	denied []string
}

// newAnswerer prepares the answers for a start.
func newAnswerer(c initConfig) (*answerer, error) {
	vm, err := bpf.NewVM(seccompProgram(c.filter()))
	return &answerer{filter: c.filter(), uid: c.UID, writable: c.Writable, verdict: vm}, err
}

// serve answers until stop ends. Without a listener nothing is to be served, and a
// call that nobody answers fails. It keeps its thread, which it lends to the
// program's user: no file is changed with more rights than the program's.
func (a *answerer) serve(socket, stop *os.File) {
	defer socket.Close()
	runtime.LockOSThread()
	if !readable(int(socket.Fd()), stop) || !a.receive(int(socket.Fd())) {
		runtime.UnlockOSThread()
		return
	}
	defer unix.Close(a.listener)
	if a.lend(a.uid) {
		var ru unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_THREAD, &ru)
		a.before = ru.Utime.Nano() + ru.Stime.Nano()
		for readable(a.listener, stop) && a.one() {
			if unix.Getrusage(unix.RUSAGE_THREAD, &ru) == nil {
				a.used.Store(ru.Utime.Nano() + ru.Stime.Nano() - a.before)
			}
		}
	}
	if a.lend(0) { // a thread that isn't writ's again ends with this goroutine
		runtime.UnlockOSThread()
	}
}

// user is the program's user where that isn't writ's, or 0.
func (a *answerer) user() int {
	if a == nil {
		return 0
	}
	return a.uid
}

// lend gives this thread a user's rights on files and processes, and with 0 writ's
// own again. Where the program has writ's user there is nothing to do.
func (a *answerer) lend(id int) bool {
	if a.user() == 0 {
		return true
	}
	for _, nr := range []uintptr{unix.SYS_SETFSGID, unix.SYS_SETFSUID} {
		_, _, _ = unix.RawSyscall(nr, uintptr(id), 0, 0)
		if now, _, _ := unix.RawSyscall(nr, uintptr(id), 0, 0); int(now) != id { // the one before is the answer
			return false
		}
	}
	return true
}

// readable waits until fd can be read; false when stop has ended first, or fd.
func readable(fd int, stop *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if err == nil {
			return fds[1].Revents == 0 && fds[0].Revents&unix.POLLIN != 0
		}
		if err != unix.EINTR {
			return false
		}
	}
}

// receive takes the listener from the program's stage.
func (a *answerer) receive(socket int) (ok bool) {
	a.listener, ok = receiveFD(socket)
	return ok
}

// receiveFD takes the one descriptor that sendFD passes on.
func receiveFD(socket int) (fd int, ok bool) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return -1, false
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return -1, false
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, false
	}
	return fds[0], true
}

// one takes and answers one call. It reports whether there can be more.
func (a *answerer) one() bool {
	var n seccompNotif
	switch no := a.ioctl(notifRecv, unsafe.Pointer(&n)); no {
	case 0:
	case unix.EINTR, unix.ENOENT: // the caller is gone
		return true
	default:
		return false
	}
	r := seccompResp{id: n.id}
	if err := a.decide(&n); err != nil {
		no := unix.EPERM
		_ = errors.As(err, &no) // EPERM where it is no call's
		r.err = -int32(no)
	}
	_ = a.ioctl(notifSend, unsafe.Pointer(&r)) // the caller may be gone
	return true
}

// decide refuses a call as the filter says, or does what it asks for.
func (a *answerer) decide(n *seccompNotif) error {
	answer := a.judge(n.data)
	switch {
	case answer == handOver.Val && isTimes(uintptr(n.data.nr)):
		return a.change(n, a.times)
	case answer == handOver.Val:
		return a.change(n, a.mode)
	case answer&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		a.note(uintptr(n.data.nr))
		return unix.Errno(answer & unix.SECCOMP_RET_DATA)
	}
	return unix.EPERM // the filter doesn't hand over what it allows
}

func isTimes(nr uintptr) bool {
	return nr == unix.SYS_UTIMENSAT || isCall(nr, "utime") || isCall(nr, "utimes") || isCall(nr, "futimesat")
}

// judge runs the filter once more, for its own answer. The virtual machine reads
// big-endian words, and the kernel native ones at the same places.
func (a *answerer) judge(d seccompData) uint32 {
	data := make([]byte, dataArgs+len(d.args)*8)
	binary.BigEndian.PutUint32(data[dataNr:], d.nr)
	binary.BigEndian.PutUint32(data[dataArch:], d.arch)
	for i, arg := range d.args {
		binary.BigEndian.PutUint32(data[dataArgs+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[dataArgs+8*i+4:], uint32(arg>>32))
	}
	answer, err := a.verdict.Run(data)
	if err != nil {
		return unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	}
	return uint32(answer)
}

// note remembers a refused call by its name.
func (a *answerer) note(nr uintptr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name := callName(runtime.GOARCH, nr); len(a.denied) < maxDenied && !slices.Contains(a.denied, name) {
		a.denied = append(a.denied, name)
	}
}

// callName is what a system call of this architecture is called.
func callName(arch string, nr uintptr) string {
	for name, n := range callNumbers[arch] {
		if n == nr && name != "arch_specific_syscall" {
			return name
		}
	}
	return fmt.Sprintf("number %d", nr)
}

// refused are the names of calls that were refused, in the order of the first.
func (a *answerer) refused() []string {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.denied)
}

// cost is the processor time that the answers took, which is the tree's doing.
func (a *answerer) cost() time.Duration {
	if a == nil {
		return 0
	}
	return time.Duration(a.used.Load())
}

func (a *answerer) ioctl(request uintptr, p unsafe.Pointer) unix.Errno {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(a.listener), request, uintptr(p))
	runtime.KeepAlive(p)
	return no
}

// openNotify makes the socket over which the filter's listener comes, and gives
// the child's end.
func (l *launch) openNotify() (*os.File, error) {
	var inner *os.File
	var err error
	l.notify, inner, err = descriptorWay()
	return inner, err
}

// descriptorWay is a pair of sockets over which the inner stage passes a descriptor on.
func descriptorWay() (outer, inner *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "outer"), os.NewFile(uintptr(pair[1]), "inner"), nil
}

// startAnswers answers what the filter hands over until the function it returns is
// called, which waits for the last answer.
func (l *launch) startAnswers() (stop func()) {
	if l.answer == nil {
		return func() {}
	}
	r, w, err := os.Pipe()
	if err != nil {
		_ = l.notify.Close() // nobody answers, so all that is handed over is refused
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.answer.serve(l.notify, r) })
	return func() {
		_ = w.Close() // nothing is written through it
		wg.Wait()
		_ = r.Close()
	}
}
