package sandbox

import (
	"bytes"
	"encoding/binary"
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

// target is the file that a call names, and where its own argument is: the mode, or
// the address of the times.
type target struct {
	dir   int32
	path  uint64 // address
	open  bool   // dir is the file itself
	flags int
	arg   uint64
}

// targetOf reads the arguments of a call that changes modes or times.
func targetOf(d seccompData) target {
	args := d.args
	switch nr := uintptr(d.nr); {
	case nr == unix.SYS_FCHMOD:
		return target{dir: int32(args[0]), open: true, arg: args[1]}
	case nr == unix.SYS_FCHMODAT, isCall(nr, "futimesat"):
		return target{dir: int32(args[0]), path: args[1], open: args[1] == 0, arg: args[2]}
	case nr == unix.SYS_FCHMODAT2:
		return target{dir: int32(args[0]), path: args[1], arg: args[2], flags: int(args[3])}
	case nr == unix.SYS_UTIMENSAT:
		return target{dir: int32(args[0]), path: args[1], open: args[1] == 0, arg: args[2], flags: int(args[3])}
	default: // chmod, utime, utimes
		return target{dir: unix.AT_FDCWD, path: args[0], arg: args[1]}
	}
}

// isCall reports whether nr is that call on this architecture.
func isCall(nr uintptr, name string) bool {
	want, ok := callNumbers[runtime.GOARCH][name]
	return ok && want == nr
}

// change makes the change that a call asks for, to the file that it names.
func (a *answerer) change(n *seccompNotif, do func(n *seccompNotif, t target, file int) error) error {
	t := targetOf(n.data)
	file, err := t.file(n.pid)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	where, err := os.Readlink(selfLink(file))
	if err != nil || !a.mayWrite(where) {
		return unix.EPERM
	}
	return do(n, t, file)
}

// selfLink is a path to an open file.
func selfLink(file int) string { return fmt.Sprintf("/proc/self/fd/%d", file) }

// alive reports whether the call still waits: only then all that was read of its
// process was the caller's and not a successor's.
func (a *answerer) alive(n *seccompNotif) error {
	if no := a.ioctl(notifIDValid, unsafe.Pointer(&n.id)); no != 0 {
		return no
	}
	return nil
}

// mode changes a file's mode.
func (a *answerer) mode(n *seccompNotif, t target, file int) error {
	var st unix.Stat_t
	if err := errors.Join(a.alive(n), unix.Fstat(file, &st)); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Fchmodat(unix.AT_FDCWD, selfLink(file), uint32(t.arg)&0o7777, 0)
}

// times changes a file's times.
func (a *answerer) times(n *seccompNotif, t target, file int) error {
	times, err := timesOf(n.pid, uintptr(n.data.nr), t.arg)
	if err != nil {
		return err
	}
	if err := a.alive(n); err != nil {
		return err
	}
	// An empty path means the open file, which may be a link.
	empty := []byte{0}
	var at uintptr
	if times != nil {
		at = uintptr(unsafe.Pointer(&times[0]))
	}
	_, _, no := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(file), uintptr(unsafe.Pointer(&empty[0])), at, unix.AT_EMPTY_PATH, 0, 0)
	runtime.KeepAlive(times)
	if no != 0 {
		return no
	}
	return nil
}

// timesOf reads the times that a call gives, in its own form; nil means now.
func timesOf(pid uint32, nr uintptr, address uint64) ([]unix.Timespec, error) {
	if address == 0 {
		return nil, nil
	}
	words := 4
	if isCall(nr, "utime") {
		words = 2
	}
	data := make([]byte, words*8)
	if err := memoryAt(pid, address, data); err != nil {
		return nil, err
	}
	word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(data[8*i:])) }
	if words == 2 {
		return []unix.Timespec{{Sec: word(0)}, {Sec: word(1)}}, nil
	}
	out := []unix.Timespec{{Sec: word(0), Nsec: word(1)}, {Sec: word(2), Nsec: word(3)}}
	if nr != unix.SYS_UTIMENSAT { // microseconds
		for i := range out {
			if out[i].Nsec < 0 || out[i].Nsec >= 1e6 {
				return nil, unix.EINVAL
			}
			out[i].Nsec *= 1000
		}
	}
	return out, nil
}

// memoryAt reads a caller's memory.
func memoryAt(pid uint32, address uint64, data []byte) error {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer mem.Close()
	if n, err := mem.ReadAt(data, int64(address)); n != len(data) {
		return errors.Join(unix.EFAULT, err)
	}
	return nil
}

// file opens the file that a call names.
func (t target) file(pid uint32) (int, error) {
	if t.open {
		return openOf(pid, t.dir, "", unix.AT_EMPTY_PATH)
	}
	path, err := pathOf(pid, t.path)
	if err != nil {
		return -1, err
	}
	return openOf(pid, t.dir, path, t.flags)
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
