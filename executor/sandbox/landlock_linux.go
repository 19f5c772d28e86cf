package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The package speaks to Landlock directly: a rule set for the one thread that
// becomes the program is three system calls, and a library that restricts all
// threads of a process needs C code or a stop of the world to do so.

// Rights by ABI version, as the kernel's documentation lists them.
const (
	landlockFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landlockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockV1   = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	landlockV2   = landlockV1 | unix.LANDLOCK_ACCESS_FS_REFER
	landlockV3   = landlockV2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockV5   = landlockV3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landlockIPC  = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
)

// errNoLandlock says that the kernel has no Landlock or doesn't enable it.
var errNoLandlock = errors.New("the kernel offers no Landlock")

// landlockABI is the version the kernel offers, 0 for none.
func landlockABI() int {
	v, _, no := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if no != 0 {
		return 0
	}
	return int(v)
}

// landlockAttr is the strictest rule set of an ABI version. Abstract sockets
// and signals stay inside the sandbox's own domain where the version can say so.
func landlockAttr(abi int) unix.LandlockRulesetAttr {
	a := unix.LandlockRulesetAttr{Handled_access_fs: landlockV1}
	switch {
	case abi >= 5:
		a.Handled_access_fs = landlockV5
	case abi >= 3:
		a.Handled_access_fs = landlockV3
	case abi >= 2:
		a.Handled_access_fs = landlockV2
	}
	if abi >= 6 {
		a.Scoped = landlockIPC
	}
	return a
}

// devices may be written, those of them that are there. /dev/zero is not among
// them: a shared mapping of it is memory that no process is seen to use, and
// writing to it is what /dev/null is for.
var devices = []string{"/dev/null", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// terminals are devices that a view of its own has for the program alone. The
// host's are those at which its user types. /dev/tty is one's own everywhere.
var terminals = []string{"/dev/ptmx", "/dev/pts", "/dev/console"}

// landlock restricts this thread: what may be read may be executed (with a view
// of its own everything, since that is small already), the devices may be
// written, and the writable paths may be changed. No mount, capability or user
// id changes that later.
func landlock(c initConfig) error {
	if c.ABI == 0 {
		if c.Landlock {
			return errNoLandlock
		}
		return nil
	}
	attr := landlockAttr(c.ABI)
	fd, err := newRuleset(attr)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rules := map[string]uint64{}
	if !c.Confined {
		rules["/"] = landlockRead
	}
	for _, path := range c.Readable {
		rules[path] = landlockRead
	}
	open := devices
	if !c.Confined {
		open = slices.Concat(devices, terminals)
	}
	for _, path := range open {
		if _, err := os.Lstat(path); err == nil {
			rules[path] = landlockRead | landlockFile
		}
	}
	for _, path := range c.Writable {
		rules[path] = attr.Handled_access_fs
	}
	for path, access := range rules {
		if err := landlockAllow(fd, path, access&attr.Handled_access_fs); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return restrictSelf(fd)
}

func newRuleset(attr unix.LandlockRulesetAttr) (int, error) {
	// The kernel accepts a longer structure as long as the rest is zero.
	fd, _, no := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if no != 0 {
		return -1, fmt.Errorf("rule set: %w", no)
	}
	return int(fd), nil
}

func restrictSelf(ruleset int) error {
	if _, _, no := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); no != 0 {
		return fmt.Errorf("restrict: %w", no)
	}
	return nil
}

// landlockAllow adds one rule.
func landlockAllow(ruleset int, path string, access uint64) error {
	f, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return err
	} else if !st.IsDir() {
		access &= landlockFile
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(f.Fd())}
	_, _, no := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if no != 0 {
		return no
	}
	return nil
}
