package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Landlocked isolates without namespaces, for hosts and containers that forbid
// them; see "Without namespaces" in the package comment for what that means. It
// is safe for concurrent use.
type Landlocked struct {
	cfg Config
	abi int // the kernel's version of Landlock

	mu   sync.Mutex
	ids  map[int]bool // user ids in use, of a writ that runs as root
	last int          // how far below Config.RootUID the newest is; of two writs it begins elsewhere
}

// rootIDs is how many sandboxes a writ that runs as root can have at once:
// each has a user id of its own, from Config.RootUID downwards. As many below those
// are kept free for signalUser.
const rootIDs = 256

// The versions of Landlock that this level needs. Below the first a program
// could empty files outside; below the second it could send signals to all that
// runs as its user, so that it needs a user of its own.
const (
	abiTruncate = 3
	abiScoped   = 6
)

// RemedyLandlock is what an operator does where this level isn't to be had.
const RemedyLandlock = `Run Linux 6.12 or later with Landlock switched on (lsm=landlock,...).
On Linux 6.2 to 6.11: start writ as root with CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_CHOWN and CAP_KILL, so that each program gets a user of its own.
Or allow user namespaces and set sandbox: bubblewrap.`

// NewLandlocked gives the level without namespaces. It looks at nothing yet:
// see Probe.
func NewLandlocked(cfg Config) *Landlocked {
	if cfg.RootUID == 0 {
		cfg.RootUID = DefaultRootUID
	}
	return &Landlocked{cfg: cfg, abi: landlockABI(), ids: map[int]bool{}, last: os.Getpid() % rootIDs}
}

// Name implements Sandbox.
func (n *Landlocked) Name() string { return "landlock" }

// Probe implements Sandbox. It runs the whole isolation once.
func (n *Landlocked) Probe(ctx context.Context) error { return probeLevel(ctx, n, RemedyLandlock) }

// LandlockLacks says what the level landlock doesn't hold on a kernel that can't keep
// signals inside, and what to do; "" on others.
func LandlockLacks() (what, remedy string) { return NewLandlocked(Config{}).lacks() }

func (n *Landlocked) lacks() (what, remedy string) {
	if n.abi >= abiScoped {
		return "", ""
	}
	first := n.cfg.RootUID - 2*rootIDs + 1
	return "This kernel can't keep signals inside, so a program is ended by its user: what else came to run under that user ends with it.",
		fmt.Sprintf("Run Linux 6.12 or later, or set sandbox: bubblewrap. Until then let nothing else run under the users %d to %d.", first, n.cfg.RootUID)
}

// Start implements Sandbox. The places of the sandbox don't exist, so they are
// replaced in Argv and Env, as by None.
func (n *Landlocked) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if spec.Layers != nil {
		return nil, Overlays(ctx, n, "")
	}
	if err := spec.withoutNamespaces(n.Name()); err != nil {
		return nil, err
	}
	if spec.Loopback {
		return nil, &Error{Code: CodeSpec, Msg: "a loopback interface of its own needs a network namespace, which the level landlock doesn't have",
			Remedy: "Take loopback: true out of this builder's or the checks' configuration, or set sandbox: bubblewrap."}
	}
	inner, err := n.cfg.inner()
	if err != nil {
		return nil, err
	}
	uid, err := n.user()
	if err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.withDefaults()
	l := &launch{spec: spec, log: n.cfg.logger(), confined: true}
	l.release = func() { n.release(l.scratch, uid) }
	if err := n.build(l, inner, uid); err != nil {
		l.closeAll()
		return nil, err
	}
	return l.start(ctx)
}

// user reserves a host user for one program; 0 for writ's own, where that is an
// ordinary one and the kernel keeps its signals inside. The ids take turns: what a
// program left is still being read, and its owner could change its modes.
func (n *Landlocked) user() (int, error) {
	if n.abi < abiTruncate {
		return 0, lacking("the kernel's Landlock is too old to keep files outside as they are", nil)
	}
	if os.Geteuid() != 0 {
		if n.abi < abiScoped {
			return 0, lacking("the kernel's Landlock is too old to keep signals inside, and only root can give programs another user", nil)
		}
		return 0, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for range rootIDs {
		n.last = (n.last + 1) % rootIDs
		if id := n.cfg.RootUID - n.last; id > 0 && !n.ids[id] && n.unused(id) {
			n.ids[id] = true
			return id, nil
		}
	}
	return 0, lacking(fmt.Sprintf("all of the %d users for programs run something already", rootIDs), nil)
}

// unused reports whether no process has a user, or the one that is kept free with
// him, where all that has him is ended with the program.
func (n *Landlocked) unused(id int) bool {
	if n.abi >= abiScoped {
		return true
	}
	for _, user := range []int{id, id - rootIDs} {
		if _, err := unix.Getpriority(unix.PRIO_USER, user); user <= 0 || !errors.Is(err, unix.ESRCH) {
			return false
		}
	}
	return true
}

// Reaches is why the user of a program can't come to its workspace below a directory,
// nil where he can: a writ that runs as root gives programs users of their own.
func (n *Landlocked) Reaches(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return reaches(dir)
}

func reaches(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return unavailable("the place of the workspaces can't be looked at", err)
		}
		if mode := info.Mode().Perm(); mode&0o001 == 0 {
			return &Error{Code: CodeUnavailable, Msg: fmt.Sprintf("the program's user can't pass through %s (mode %04o)", at, mode), Remedy: "chmod o+x " + at + ", run writ as an ordinary user, or set sandbox: bubblewrap."}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// release gives back what a start took.
func (n *Landlocked) release(place *scratch, uid int) {
	if err := place.remove(); err != nil {
		n.cfg.logger().Warn("sandbox: a temporary directory could not be removed", "dir", place.dir, "err", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ids, uid)
}

// build makes the places and the command.
func (n *Landlocked) build(l *launch, inner string, uid int) (err error) {
	if l.scratch, err = newScratch(); err != nil {
		return lacking("there is no place for a temporary directory", err)
	}
	dir, err := filepath.EvalSymlinks(l.scratch.dir)
	if err != nil {
		return err
	}
	if err := n.hand(l.spec, dir, inner, uid); err != nil {
		return err
	}
	places, err := layOut(dir, l.spec)
	if err != nil {
		return err
	}
	places = slices.Concat([]Mount{{initPath, inner}}, places, []Mount{{TmpDir, filepath.Join(dir, "tmp")}})
	c := n.initConfig(l, dir, inner, uid, places)
	l.cgroup = newCgroup(n.cfg.Cgroup, l.spec.Limits, l.log)
	c.Uncounted = !l.cgroup.holdsMemory()
	l.tmp = []string{filepath.Join(dir, "tmp"), filepath.Join(dir, "home")}
	a := &arguments{}
	l.child = &a.extra
	if err := l.openConfinedPipes(a, c); err != nil {
		return lacking("descriptors are exhausted", err)
	}
	l.cmd = &exec.Cmd{Path: inner, Args: []string{initPath, wordReap}, Env: []string{}, Dir: "/", ExtraFiles: a.extra}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// hand gives the program's user what he may write, and a way to it.
func (n *Landlocked) hand(s Spec, dir, inner string, uid int) error {
	tmp, home := filepath.Join(dir, "tmp"), filepath.Join(dir, "home")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Mkdir(home, 0o700)); err != nil {
		return err
	}
	if uid == 0 {
		return nil
	}
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chown(tmp, uid, uid), os.Chown(home, uid, uid)); err != nil { //nolint:gosec // passing through only
		return lacking("files can't be given to another user", err)
	}
	for _, path := range []string{inner, filepath.Join(dir, "files"), s.Workspace, s.OutDir} {
		if closed := closedTo(path); closed != "" {
			return &Error{Code: CodeUnavailable, Msg: fmt.Sprintf("the program's user can't pass through %s", closed),
				Remedy: "Allow passing, and nothing else: chmod o+x " + closed}
		}
	}
	if err := giveAway(uid, s, nil); err != nil {
		return &Error{Code: CodeSpec, Msg: "the workspace can't be given to the sandbox's user", Err: err}
	}
	return nil
}

// closedTo is the first directory above path that others can't pass through,
// "" for none.
func closedTo(path string) string {
	for i, c := range path {
		if c != '/' || i == 0 {
			continue
		}
		if st, err := os.Stat(path[:i]); err == nil && st.Mode()&0o001 == 0 {
			return path[:i]
		}
	}
	return ""
}

// initConfig is what the inner stage is told.
func (n *Landlocked) initConfig(l *launch, dir, inner string, uid int, places []Mount) initConfig {
	s := l.spec
	c := initConfig{
		Env: []string{}, Umask: s.umask(), Limits: s.Limits, Landlock: true, ABI: n.abi,
		Confined: true, UID: uid, Dir: s.Workspace, Notify: notifyFD,
		Writable: []string{filepath.Join(dir, "tmp"), filepath.Join(dir, "home")},
		Readable: append(systemPaths(), inner, filepath.Join(dir, "files")),
	}
	if s.Argv[0] == initPath {
		c.Program = inner
	}
	for _, word := range s.Argv {
		c.Argv = append(c.Argv, onHost(word, places))
	}
	if c.Program != "" {
		c.Argv[0] = initPath // by which the inner stage is known
	}
	// A file that exists and can't be read is an error to git. Java knows neither
	// TMPDIR nor HOME; it says at each start that it heard this.
	env := once(append([]string{"GIT_CONFIG_NOSYSTEM=1"}, s.Env...))
	if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, javaOptions) }) {
		env = append(env, javaOptions+"-Djava.io.tmpdir="+filepath.Join(dir, "tmp")+" -Duser.home="+filepath.Join(dir, "home"))
	}
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		c.Env = append(c.Env, key+"="+onHost(value, places))
	}
	for _, m := range s.ReadOnly {
		c.Readable = append(c.Readable, m.Source)
	}
	if s.ReadOnlyWorkspace {
		c.Readable = append(c.Readable, s.Workspace)
	} else {
		c.Writable = append(c.Writable, s.Workspace)
	}
	if s.OutDir != "" {
		c.Writable = append(c.Writable, s.OutDir)
	}
	for i, dir := range c.Writable { // by the name that the kernel gives it
		if name, err := filepath.EvalSymlinks(dir); err == nil {
			c.Writable[i] = name
		}
	}
	return c
}

// javaOptions begins the variable of options that each Java machine reads.
const javaOptions = "JAVA_TOOL_OPTIONS="

// confinedFiles are files of /etc, without secrets, that a sandbox with a view
// of its own replaces, and what else programs read of the system.
var confinedFiles = []string{"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/hostname", "/proc", "/dev/zero"}

// systemPaths are the operating system's, those of them that are there.
func systemPaths() []string {
	var found []string
	for _, glob := range systemGlobs {
		some, _ := filepath.Glob(glob) // the patterns are constants
		found = append(found, some...)
	}
	for _, list := range [][]string{systemDirs, systemFiles, confinedFiles} {
		for _, path := range list {
			if _, err := os.Stat(path); err == nil {
				found = append(found, path)
			}
		}
	}
	return found
}

// openConfinedPipes makes the descriptors of the inner stages, in their fixed
// places.
func (l *launch) openConfinedPipes(a *arguments, c initConfig) error {
	status, statusW, err := os.Pipe()
	if err != nil {
		return err
	}
	l.status = status
	a.extra = append(a.extra, nil, statusW)
	if err := a.config(c); err != nil {
		return err
	}
	holdR, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	l.hold = hold
	a.extra = append(a.extra, holdR)
	notify, err := l.openNotify()
	if err != nil {
		return err
	}
	lock, err := dup(l.scratch.lock)
	if err != nil {
		return err
	}
	a.extra = append(a.extra, notify, lock) // the reaper only keeps it open
	l.answer, err = newAnswerer(c)
	return err
}

// lacking is the failure of a host that lacks what this level needs.
func lacking(msg string, err error) error {
	return &Error{Code: CodeUnavailable, Msg: msg, Remedy: RemedyLandlock, Err: err}
}

// reaped refuses to run a program whose parent isn't a reaper's. Of that one only
// the thread that is in the same domain can be looked at.
func reaped() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/exe", os.Getppid()))
	for _, thread := range threads {
		var parent string
		if parent, err = os.Readlink(thread); err == nil && parent == self {
			return nil
		}
	}
	return errors.Join(errors.New("nobody would end this program's children"), err)
}

// filter is what the seccomp filter must hold beside the rest.
func (c initConfig) filter() filter {
	return filter{loopback: c.Loopback, uncounted: c.Uncounted, confined: c.Confined, sameUser: c.Confined && c.UID == 0}
}
