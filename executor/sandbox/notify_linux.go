package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock has no rule for modes of files. Where programs run as writ's own user
// the filter therefore hands each change of a mode over to the reaper, which
// opens the file, looks where it is, and makes the change itself if that
// is a place the program may write. What the program then does to its memory or
// to the path changes nothing any more: the open file is what is changed.

// notifyFD is where the program's stage finds the socket for the listener.
const notifyFD = 5

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

// sendListener passes the filter's listener on to the reaper.
func sendListener(fd int) error {
	return unix.Sendmsg(notifyFD, []byte{readyByte}, unix.UnixRights(fd), nil, 0)
}

// answerer changes modes for the tree.
type answerer struct {
	listener int
	writable []string // directories, as the kernel names them
}

// answer serves what comes in over the socket until the reaper ends. Without a
// listener nothing is to be served, and a call that nobody answers fails.
func answer(socket int, writable []string) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return
	}
	a := &answerer{listener: fds[0], writable: writable}
	for a.one() {
		continue
	}
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
	if err := a.chmod(&n); err != nil {
		no := unix.EPERM
		_ = errors.As(err, &no) // EPERM where it is no call's
		r.err = -int32(no)
	}
	_ = a.ioctl(notifSend, unsafe.Pointer(&r)) // the caller may be gone
	return true
}

func (a *answerer) ioctl(request uintptr, p unsafe.Pointer) unix.Errno {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(a.listener), request, uintptr(p))
	runtime.KeepAlive(p)
	return no
}

// chmod makes the change that a call asks for.
func (a *answerer) chmod(n *seccompNotif) error {
	file, mode, err := a.open(n)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	// Only now is it sure that all of this was the caller's and not a successor's.
	if no := a.ioctl(notifIDValid, unsafe.Pointer(&n.id)); no != 0 {
		return no
	}
	link := fmt.Sprintf("/proc/self/fd/%d", file)
	where, err := os.Readlink(link)
	if err != nil || !a.mayWrite(where) {
		return unix.EPERM
	}
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Fchmodat(unix.AT_FDCWD, link, mode&0o7777, 0)
}

// open opens the file that a call names, and reads which mode it is to have.
func (a *answerer) open(n *seccompNotif) (file int, mode uint32, err error) {
	args, dir, flags := n.data.args[:], int32(unix.AT_FDCWD), 0
	switch nr := uintptr(n.data.nr); {
	case nr == unix.SYS_FCHMOD:
		file, err = openOf(n.pid, int32(args[0]), "", unix.AT_EMPTY_PATH)
		return file, uint32(args[1]), err
	case slices.Contains(chmodHere, nr):
	case nr == unix.SYS_FCHMODAT2:
		flags = int(args[3])
		fallthrough
	default:
		dir, args = int32(args[0]), args[1:]
	}
	path, err := pathOf(n.pid, args[0])
	if err != nil {
		return -1, 0, err
	}
	file, err = openOf(n.pid, dir, path, flags)
	return file, uint32(args[1]), err
}

// mayWrite reports whether a path is below a directory that the program may
// change.
func (a *answerer) mayWrite(path string) bool {
	return slices.ContainsFunc(a.writable, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// pathOf reads a path from a caller's memory.
func pathOf(pid uint32, address uint64) (string, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "", err
	}
	defer mem.Close()
	buf := make([]byte, 0, unix.PathMax)
	page := uint64(os.Getpagesize())
	for len(buf) < unix.PathMax { // page by page: the next one may not be there
		at := address + uint64(len(buf))
		part := make([]byte, min(page-at%page, uint64(unix.PathMax-len(buf))))
		n, err := mem.ReadAt(part, int64(at))
		if n == 0 {
			return "", errors.Join(unix.EFAULT, err)
		}
		buf = append(buf, part[:n]...)
		if i := bytes.IndexByte(buf, 0); i >= 0 {
			return string(buf[:i]), nil
		}
	}
	return "", unix.ENAMETOOLONG
}

// openOf opens a path as a caller would find it, without touching it.
func openOf(pid uint32, dir int32, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	if path == "" && flags&unix.AT_EMPTY_PATH == 0 {
		return -1, unix.ENOENT
	}
	if filepath.IsAbs(path) {
		return unix.Openat2(unix.AT_FDCWD, path, &how)
	}
	from := fmt.Sprintf("/proc/%d/cwd", pid)
	if dir != unix.AT_FDCWD {
		from = fmt.Sprintf("/proc/%d/fd/%d", pid, dir)
	}
	base, err := unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unix.EBADF
	}
	if path == "" {
		return base, nil
	}
	defer unix.Close(base)
	return unix.Openat2(base, path, &how)
}
