package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// rootUser is as whom a program of a writ that runs as root runs: a user namespace,
// and the host's user id of insideID in it.
type rootUser struct {
	ns  *os.File
	uid int
}

// rootLevel gives the user namespace for a writ that runs as root, nil for an
// ordinary user. The kernel doesn't count the processes of user id 0, so a
// program of root must have another id on the host too: the namespace maps
// inner root, which only sets the mounts up, to root and insideID to
// Config.RootUID or one below, and the inner stage becomes insideID for good. No
// two programs that run have one of them in common: the kernel counts processes
// for each namespace, and descriptors on their way for each id.
func (b *Bubblewrap) rootLevel() (*rootUser, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.free) - 1; last >= 0 {
		u := b.free[last]
		b.free = b.free[:last]
		return u, nil
	}
	u := &rootUser{uid: b.cfg.RootUID - b.made}
	if u.uid <= 0 || b.made == rootIDs {
		return nil, unavailable(fmt.Sprintf("%d programs run already", b.made), nil)
	}
	var err error
	if u.ns, err = newUserns(u.uid); err != nil && innerRoot() {
		b.cfg.logger().Info("sandbox: this root can't map a second user id; its programs run with its own", "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("user namespaces are not allowed", err)
	}
	b.made++
	return u, nil
}

// innerRoot reports whether this root is root of a user namespace only: then
// the kernel does count its processes, and one user id is as good as another.
func innerRoot() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	f := strings.Fields(string(data))
	return len(f) < 3 || f[0] != "0" || f[1] != "0" || f[2] != "4294967295"
}

// newUserns makes the namespace by starting this program in it and keeping a
// handle; the program then ends.
func newUserns(uid int) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	defer r.Close()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: insideID, HostID: uid, Size: 1}}
	cmd := exec.Cmd{Path: "/proc/self/exe", Args: []string{initPath, wordHold}, Env: []string{}, Stdin: r}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	_ = cmd.Process.Kill() // it has done its part
	_ = cmd.Wait()
	return f, err
}

// dup is a second handle, so that each start closes its own.
func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// giveAway makes the program's user the owner of what it may write. Links are
// not followed, and files with more than one name can't lead outside: no
// sandbox can link across its mounts.
func giveAway(uid int, s Spec, dirs []Dir) error {
	places := []string{s.Workspace, s.OutDir}
	for _, d := range dirs {
		places = append(places, d.Source)
	}
	for _, dir := range places {
		if dir == "" {
			continue
		}
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, uid)
		}); err != nil {
			return err
		}
	}
	return nil
}
