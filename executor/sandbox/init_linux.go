package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The words by which init knows what to do. The program is run inside as initPath with one
// of them.
const (
	wordInit  = "init"  // restrict this process, then become the program
	wordHold  = "hold"  // keep a user namespace open until standard input ends
	wordReap  = "reap"  // without namespaces: start init, and end what is left
	wordProbe = "probe" // do nothing, successfully
	wordLayer = "layer" // try an overlay
)

// The descriptors the inner stage finds. Both are gone in the program.
const (
	configFD = 3 // initConfig as JSON
	statusFD = 4 // readyByte before the exec, then a failure as JSON if any
)

// readyByte on the status pipe followed by its end is the sign of life: the
// end comes from the kernel, which closes the pipe when the exec has succeeded.
const readyByte = 'R'

// layersStep is the step of the inner stage that mounts an overlay.
const layersStep = "layers"

// initExit is the exit code of an inner stage that failed; the status pipe has
// the reason.
const initExit = 125

// initConfig is what the outer stage tells the inner one.
type initConfig struct {
	Program  string    `json:"program"` // Argv[0] unless it is given
	Argv     []string  `json:"argv"`
	Env      []string  `json:"env"`
	Umask    int       `json:"umask"`
	Drop     bool      `json:"drop"` // become insideID; only the root level needs it
	Own      []string  `json:"own"`  // directories given to insideID before that
	Writable []string  `json:"writable"`
	Layers   int       `json:"layers"`    // below the workspace, which is an overlay if there are any
	ReadOnly bool      `json:"read_only"` // the overlay
	Dirs     []mounted `json:"dirs"`      // the overlays beside it
	Loopback bool      `json:"loopback"`
	Proxy    int       `json:"proxy"` // the socket for the gateway's listener; 0: there is no gateway
	Limits   Limits    `json:"limits"`
	// Uncounted says that no control group counts the memory, so that ways to
	// use memory that no process is seen to use must be closed.
	Uncounted bool `json:"uncounted"`
	Landlock  bool `json:"landlock"` // fail without it
	ABI       int  `json:"abi"`      // the version of Landlock, 0 for none
	Notify    int  `json:"notify"`   // the socket for the filter's listener

	// The rest is of the level without namespaces.
	Confined bool     `json:"confined"`
	Readable []string `json:"readable"` // nothing else can be read
	UID      int      `json:"uid"`      // host user to become; 0: stay who you are
	Dir      string   `json:"dir"`      // working directory
}

// initFailure is what the inner stage tells when it can't go on.
type initFailure struct {
	Stage string `json:"stage"`
	Errno int    `json:"errno"`
	Text  string `json:"text"`
}

// init is the beginning of a process inside: the same executable is the first to run
// there, restricts itself and turns into the program that is wanted. In any other
// process it does nothing. It is not a call in main: before that the program's other
// packages would be set up, which takes as long as all that is done here. So nothing here
// may rely on a package that this one doesn't import.
//
// These processes end by syscall.Exit: there is nothing to flush, and os.Exit waits a
// second in a binary with the race detector.
func init() { //nolint:gochecknoinits // main is too late
	if len(os.Args) != 2 || os.Args[0] != initPath {
		return
	}
	switch os.Args[1] {
	case wordInit:
		runInit()
	case wordReap:
		runReaper()
	case wordHold:
		_, _ = io.Copy(io.Discard, os.Stdin)
		syscall.Exit(0)
	case wordProbe:
		syscall.Exit(0)
	case wordLayer:
		tryOverlay()
	}
}

// tryOverlay is what Overlays runs inside: it removes a file of the layer.
func tryOverlay() {
	if err := os.Remove(filepath.Join(WorkspaceDir, "below")); err != nil {
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// runInit is the inner stage. It never returns.
func runInit() {
	// Landlock, seccomp and user ids are set for this thread alone; the exec
	// makes it the only one.
	runtime.LockOSThread()
	status := os.NewFile(statusFD, "status")
	stage, err := enter(status)
	f := initFailure{Stage: stage, Text: err.Error()}
	var no syscall.Errno
	if errors.As(err, &no) {
		f.Errno = int(no)
	}
	_ = json.NewEncoder(status).Encode(f)
	syscall.Exit(initExit)
}

// enter restricts the thread step by step and executes the program. It returns
// only on failure, with the name of the step.
func enter(status *os.File) (stage string, err error) {
	var c initConfig
	if err := readConfig(&c); err != nil {
		return "config", err
	}
	filters, err := newFilters(c.filter())
	if err != nil {
		return "seccomp", err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"isolation", c.isolated},
		{"descriptors", closeOnExec},
		{"gateway", c.openGateway},
		{"memory", firstToGo},
		{layersStep, c.overlay},
		{"user", func() error { return becomeUser(c) }},
		{"reaper", c.bound},
		{"workspace", func() error { return syscall.Chdir(c.workspace()) }},
		{"no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"landlock", func() error { return landlock(c) }},
	} {
		if err := step.do(); err != nil {
			return step.name, err
		}
	}
	syscall.Umask(c.Umask)
	path, err := lookPath(cmp.Or(c.Program, c.Argv[0]), c.Env)
	if err != nil {
		return "exec", err
	}
	// From here on the process may not allocate much or start threads.
	if err := setRlimits(c); err != nil {
		return "rlimits", err
	}
	listener, err := filters.install()
	if err != nil {
		return "seccomp", err
	}
	if listener >= 0 {
		if err := sendFD(c.Notify, listener); err != nil {
			return "listener", err
		}
	}
	// Now, since the kernel passes a descriptor on only as long as no more than this
	// are on their way, those of all programs of this user.
	if err := setRlimit(unix.RLIMIT_NOFILE, c.Limits.OpenFiles, c.Limits.OpenFiles); err != nil {
		return "rlimits", err
	}
	if _, err := status.Write([]byte{readyByte}); err != nil {
		return "status", err
	}
	return "exec", syscall.Exec(path, c.Argv, c.Env)
}

// bound makes the program die with its reaper. A change of user would undo it.
func (c initConfig) bound() error {
	if !c.Confined {
		return nil
	}
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// readConfig leaves the descriptor as it is: a reaper hands it on.
func readConfig(c *initConfig) error {
	fd, err := unix.FcntlInt(configFD, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "config")
	defer f.Close()
	if err := json.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64)).Decode(c); err != nil {
		return err
	}
	if len(c.Argv) == 0 {
		return errors.New("no program")
	}
	return nil
}

// isolated refuses to run a program where no pid namespace was made for it: a
// bwrap that is not bwrap. Inside, the first process is bwrap's and this one is
// the second.
func (c initConfig) isolated() error {
	if c.Confined {
		return reaped()
	}
	if pid := os.Getpid(); pid != 2 {
		return fmt.Errorf("the process id is %d, so this is not a sandbox", pid)
	}
	return nil
}

// closeOnExec marks every descriptor above standard error.
func closeOnExec() error {
	return unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}

// firstToGo makes the program, and all that it starts, what the kernel ends first
// when memory runs out, before the writ that watches it.
func firstToGo() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) }

// workspace is the working directory.
func (c initConfig) workspace() string {
	if c.Confined {
		return c.Dir
	}
	return WorkspaceDir
}

// becomeUser gives up the inner root of the root level for good.
func becomeUser(c initConfig) error {
	if c.Confined {
		return confine(c)
	}
	if !c.Drop {
		return giveUpCapabilities()
	}
	for _, dir := range c.Own {
		if err := os.Lchown(dir, insideID, insideID); err != nil {
			return err
		}
	}
	return giveUpRoot(insideID)
}

// confine makes a process fit for a life beside others: it gets a user of its own
// where that is possible.
func confine(c initConfig) error {
	if c.UID == 0 {
		if os.Geteuid() == 0 {
			return errors.New("a program would run as root")
		}
		return nil
	}
	return giveUpRoot(c.UID)
}

// giveUpRoot becomes user and group id, without any capability for ever.
func giveUpRoot(id int) error {
	if err := shrinkBounds(); err != nil {
		return err
	}
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, 0, 0, 0},
		{unix.SYS_SETRESGID, uintptr(id), uintptr(id), uintptr(id)},
		{unix.SYS_SETRESUID, uintptr(id), uintptr(id), uintptr(id)},
	} {
		if _, _, no := unix.RawSyscall(call[0], call[1], call[2], call[3]); no != 0 {
			return no
		}
	}
	return noCapabilities()
}

// giveUpCapabilities is for a user who isn't root and was given some to mount the
// workspace.
func giveUpCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	has := make([]unix.CapUserData, 2) // the version has two words
	if err := unix.Capget(&hdr, &has[0]); err != nil || has[0].Permitted == 0 && has[1].Permitted == 0 {
		return err
	}
	if err := shrinkBounds(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return noCapabilities()
}

// shrinkBounds takes every capability out of what a program can ever get.
func shrinkBounds() error {
	for n := uintptr(0); n <= unix.CAP_LAST_CAP; n++ {
		// EINVAL: a capability that this kernel doesn't know.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil && err != unix.EINVAL {
			return err
		}
	}
	return nil
}

func noCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	none := make([]unix.CapUserData, 2) // the version has two words
	return unix.Capset(&hdr, &none[0])
}

// lookPath finds the program as a shell would, in the PATH of env.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	err := fmt.Errorf("%q is not on PATH: %w", name, syscall.ENOENT)
	for _, dir := range filepath.SplitList(envValue(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		st, serr := os.Stat(path)
		if serr != nil || st.IsDir() {
			continue
		}
		if st.Mode().Perm()&fs.FileMode(0o111) != 0 {
			return path, nil
		}
		err = fmt.Errorf("%s: %w", path, syscall.EACCES)
	}
	return "", err
}

// envValue is the last value of key in env.
func envValue(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}
