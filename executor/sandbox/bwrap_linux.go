package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// What identifies user and machine inside.
const (
	insideID = 1000 // user and group id inside
	hostName = "writ"
)

// Bubblewrap isolates with the bwrap program; see the package comment for what
// that means. It is safe for concurrent use.
type Bubblewrap struct {
	cfg Config

	mu   sync.Mutex
	free []*rootUser // those of the root level that no program is in
	made int
}

// NewBubblewrap gives the usual level. It looks at nothing yet: see Probe.
func NewBubblewrap(cfg Config) *Bubblewrap {
	if cfg.RootUID == 0 {
		cfg.RootUID = DefaultRootUID
	}
	return &Bubblewrap{cfg: cfg}
}

// Name implements Sandbox.
func (b *Bubblewrap) Name() string { return "bubblewrap" }

// Probe implements Sandbox. It runs the whole isolation once, about 20 ms.
func (b *Bubblewrap) Probe(ctx context.Context) error { return probeLevel(ctx, b, Remedy) }

// probeLevel runs a program that does nothing. What processes left that were killed
// meanwhile is taken away first.
func probeLevel(ctx context.Context, s Sandbox, remedy string) error {
	sweepScratch()
	place, err := newScratch()
	if err != nil {
		return unavailable("there is no place for a temporary directory", err)
	}
	defer func() { _ = place.remove() }() // the next one tries again
	workspace := filepath.Join(place.dir, "workspace")
	if err := errors.Join(os.Chmod(place.dir, 0o711), os.Mkdir(workspace, 0o700)); err != nil { //nolint:gosec // the sandbox's user passes through
		return unavailable("there is no place for a temporary directory", err)
	}
	p, err := s.Start(ctx, Spec{Argv: []string{initPath, wordProbe}, Workspace: workspace})
	if err != nil {
		return err
	}
	exit := p.Wait()
	if exit.Cause == CauseExited && exit.Code == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if exit.Err != nil {
		return exit.Err
	}
	return &Error{Code: CodeUnavailable, Msg: fmt.Sprintf("a program that does nothing ended with code %d (%s)", exit.Code, exit.Cause), Remedy: remedy}
}

// sweepScratch removes the temporary directories that killed processes of this user
// left, and ends what still waits there for a parent that is dead.
func sweepScratch() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*")) // the pattern is valid
	for _, dir := range left {
		lock, err := lockDir(dir)
		if err != nil || lock == nil {
			continue
		}
		KillStrays(dir)
		_ = (&scratch{dir, lock}).remove() // the next one tries again
	}
}

// Start implements Sandbox.
func (b *Bubblewrap) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	program, initProgram, err := b.programs()
	if err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.withDefaults()
	l := &launch{spec: spec, log: b.cfg.logger()}
	asRoot, err := b.rootLevel()
	if err != nil {
		return nil, err
	}
	l.release = func() { b.leave(asRoot) }
	owner := os.Geteuid()
	if asRoot != nil {
		owner = asRoot.uid
	}
	if l.lower, err = spec.above(ctx, owner, landlockABI()); err == nil {
		l.dirs, err = spec.beside(ctx, owner, landlockABI())
	}
	if err == nil {
		err = b.build(l, program, initProgram, asRoot)
	}
	if err != nil {
		l.closeAll()
		return nil, err
	}
	return l.start(ctx)
}

// leave gives back what a start had from rootLevel, once nothing runs.
func (b *Bubblewrap) leave(u *rootUser) {
	if u == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, u)
}

// above makes the two directories of an overlay that are this program's alone, and
// finds the layers below them.
func (s Spec) above(ctx context.Context, owner, abi int) (lower []string, err error) {
	if s.Layers == nil {
		return nil, nil
	}
	if err := ofOverlay(s.Workspace, abi); err != nil {
		return nil, err
	}
	if lower, err = s.Layers(ctx, owner); err != nil {
		return nil, err
	}
	if len(lower) == 0 || len(lower) > maxLayers {
		return nil, &Error{Code: CodeSpec, Msg: fmt.Sprintf("an overlay has %d layers; it must have 1 to %d", len(lower), maxLayers)}
	}
	return lower, nil
}

// beside are the directories beside the workspace.
func (s Spec) beside(ctx context.Context, owner, abi int) ([]Dir, error) {
	if s.Dirs == nil {
		return nil, nil
	}
	dirs, err := s.Dirs(ctx, owner)
	if err == nil {
		err = checkDirs(dirs)
	}
	for _, d := range dirs {
		if err == nil && d.Lower != "" {
			err = errors.Join(checkDir("layer", d.Lower), ofOverlay(d.Source, abi))
		}
	}
	return dirs, err
}

// checkDirs refuses places that aren't the program's, and sources that aren't there.
func checkDirs(dirs []Dir) error {
	for _, d := range dirs {
		below := strings.HasPrefix(d.Target, HomeDir+"/") || strings.HasPrefix(d.Target, WorkspaceDir+"/")
		if path.Clean(d.Target) != d.Target || d.Target != HomeDir && !below {
			return specError(fmt.Sprintf("the directory %q is neither in the home directory nor in the workspace", d.Target))
		}
		if d.Target == HomeDir && d.Lower != "" {
			return specError("the home directory itself can't be an overlay")
		}
		if err := checkDir("directory", d.Source); err != nil {
			return err
		}
	}
	return nil
}

// programs finds bwrap and the inner stage.
func (b *Bubblewrap) programs() (bwrap, inner string, err error) {
	name := b.cfg.Bubblewrap
	if name == "" {
		name = "bwrap"
	}
	if bwrap, err = exec.LookPath(name); err != nil {
		return "", "", unavailable("the program bwrap was not found", err)
	}
	inner, err = b.cfg.inner()
	return bwrap, inner, err
}

// inner is the program of the inner stages.
func (c Config) inner() (path string, err error) {
	if c.Init != "" {
		return c.Init, nil
	}
	if path, err = os.Executable(); err != nil {
		return "", unavailable("writ can't find its own executable", err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", &Error{Code: CodeUnavailable, Msg: "writ's own executable was replaced or removed while it runs",
			Remedy: "Restart writ.", Err: err}
	}
	return path, nil
}

// build makes the command with its descriptors.
func (b *Bubblewrap) build(l *launch, program, inner string, asRoot *rootUser) error {
	l.cgroup = newCgroup(b.cfg.Cgroup, l.spec.Limits, l.log)
	a := &arguments{made: map[string]bool{}}
	l.child = &a.extra
	if err := l.openPipes(a); err != nil {
		return unavailable("descriptors are exhausted", err)
	}
	if asRoot != nil {
		if err := giveAway(asRoot.uid, l.spec, l.dirs); err != nil {
			return &Error{Code: CodeSpec, Msg: "the workspace can't be given to the sandbox's user", Err: err}
		}
	}
	if err := a.namespaces(asRoot, len(l.lower) > 0 || l.overlaid()); err != nil {
		return unavailable("descriptors are exhausted", err)
	}
	a.system()
	overlays := a.places(l.spec, l.lower, l.dirs)
	a.on(initPath, "--ro-bind", inner)
	if err := a.contents(l.spec.Files); err != nil {
		return err
	}
	a.add("--remount-ro", "/dev", "--remount-ro", "/", "--", initPath, wordInit)
	notify, err := l.openNotify()
	if err != nil {
		return unavailable("descriptors are exhausted", err)
	}
	c := l.initConfig(asRoot != nil, !b.cfg.WithoutLandlock)
	c.Dirs = overlays
	if c.Notify, err = strconv.Atoi(a.descriptor(notify)); err != nil {
		return err
	}
	if err := l.openGateway(a, &c); err != nil {
		return unavailable("descriptors are exhausted", err)
	}
	if l.answer, err = newAnswerer(c); err != nil {
		return err
	}
	if err := a.config(c); err != nil {
		return unavailable("descriptors are exhausted", err)
	}
	l.cmd = &exec.Cmd{Path: program, Args: append([]string{"bwrap"}, a.args...)}
	l.cmd.Env = []string{} // bwrap itself gets nothing: its environment is visible on the host
	l.cmd.Dir = "/"
	l.cmd.ExtraFiles = a.extra
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	return nil
}

// openPipes makes the descriptors of the inner stage, in their fixed places,
// and the pipe on which bwrap tells the first process.
func (l *launch) openPipes(a *arguments) error {
	status, statusW, err := os.Pipe()
	if err != nil {
		return err
	}
	l.status = status
	a.extra = append(a.extra, nil, statusW) // nil: see arguments.config
	info, infoW, err := os.Pipe()
	if err != nil {
		return err
	}
	l.info = info
	a.add("--info-fd", a.descriptor(infoW))
	return nil
}

// overlaid reports whether a directory beside the workspace is an overlay.
func (l *launch) overlaid() bool {
	return slices.ContainsFunc(l.dirs, func(d Dir) bool { return d.Lower != "" })
}

// initConfig is what the inner stage is told.
func (l *launch) initConfig(drop, landlock bool) initConfig {
	s := l.spec
	c := initConfig{
		Argv: s.Argv, Env: once(s.Env), Umask: s.umask(), Drop: drop, Loopback: s.Loopback || s.Gateway != nil, Limits: s.Limits,
		Uncounted: !l.cgroup.holdsMemory(), Landlock: landlock, ABI: landlockABI(),
		Writable: []string{TmpDir, HomeDir, "/dev/shm"},
		Layers:   len(l.lower), ReadOnly: s.ReadOnlyWorkspace,
	}
	if !s.ReadOnlyWorkspace {
		c.Writable = append(c.Writable, WorkspaceDir)
	}
	if s.OutDir != "" {
		c.Writable = append(c.Writable, OutDir)
	}
	if drop {
		c.Own = []string{HomeDir}
	}
	return c
}

// arguments collects the command line and the descriptors it names.
type arguments struct {
	args  []string
	extra []*os.File      // descriptor 3 and up
	made  map[string]bool // directories asked for
}

func (a *arguments) add(args ...string) { a.args = append(a.args, args...) }

// on asks for what goes to target. bwrap would make missing parents private to
// the user that sets up, so they are made here, outermost first.
func (a *arguments) on(target string, args ...string) {
	for i, c := range target {
		if parent := target[:i]; c == '/' && i > 0 && !a.made[parent] {
			a.made[parent] = true
			a.add("--perms", "0755", "--dir", parent)
		}
	}
	a.add(args...)
	a.add(target)
}

// descriptor passes f on and gives the number the child sees.
func (a *arguments) descriptor(f *os.File) string {
	a.extra = append(a.extra, f)
	return strconv.Itoa(2 + len(a.extra))
}

// namespaces asks for all of them. In the root level the user namespace exists
// already and bwrap may keep what the inner stage needs to give up its own user.
func (a *arguments) namespaces(root *rootUser, mounts bool) error {
	a.add("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
		"--hostname", hostName, "--die-with-parent", "--new-session", "--cap-drop", "ALL")
	if mounts {
		for _, capability := range mountCapabilities {
			a.add("--cap-add", capability)
		}
	}
	if root == nil {
		if mounts {
			a.add("--cap-add", "CAP_SETPCAP") // to give them up
		}
		id := strconv.Itoa(insideID)
		a.add("--unshare-user", "--uid", id, "--gid", id)
		return nil
	}
	ns, err := dup(root.ns)
	if err != nil {
		return err
	}
	a.add("--userns", a.descriptor(ns), "--uid", "0", "--gid", "0")
	for _, capability := range []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN"} {
		a.add("--cap-add", capability)
	}
	return nil
}

// systemDirs are shown read-only, as links where the host has links.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles and systemGlobs are what programs need of /etc. None of them
// holds a secret: /etc/ssl/private, package manager and git configuration, and
// Maven's settings, are not among them. Files are copied, since each mount costs bwrap more time than
// a copy; the globs are configuration that language runtimes link to.
var (
	systemFiles = []string{
		"/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/os-release", "/etc/protocols", "/etc/services",
		"/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/maven/m2.conf", "/etc/maven/toolchains.xml",
		"/etc/debian_version", "/etc/lsb-release", "/etc/timezone",
	}
	systemGlobs = []string{
		"/etc/alternatives", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
		"/etc/java-*-openjdk", "/etc/python3*", "/etc/maven/logging",
	}
)

// system shows the operating system.
func (a *arguments) system() {
	for _, dir := range systemDirs {
		if link, err := os.Readlink(dir); err == nil {
			a.on(dir, "--symlink", link)
			continue
		}
		a.on(dir, "--ro-bind-try", dir)
	}
	for _, glob := range systemGlobs {
		found, _ := filepath.Glob(glob) // the patterns are constants
		for _, path := range found {
			a.on(path, "--ro-bind-try", path)
		}
	}
	for _, path := range systemFiles {
		if f, err := os.Open(path); err == nil {
			a.copied(path, f)
		}
	}
	a.add("--proc", "/proc", "--dev", "/dev")
}

// copied puts the content of f at target. It lies in the sandbox's root, which
// is read-only in the end.
func (a *arguments) copied(target string, f *os.File) {
	a.on(target, "--perms", "0444", "--file", a.descriptor(f))
}

// places mounts what the program may write and what the operator configured.
func (a *arguments) places(s Spec, lower []string, dirs []Dir) (overlays []mounted) {
	size := s.Limits.TmpBytes
	for _, t := range []struct{ perms, dir string }{{"1777", TmpDir}, {"0700", HomeDir}, {"1777", "/dev/shm"}} {
		how := []string{"--perms", t.perms, "--tmpfs"}
		if size > 0 {
			how = []string{"--perms", t.perms, "--size", strconv.FormatInt(size, 10), "--tmpfs"}
		}
		a.on(t.dir, how...)
	}
	at := slices.IndexFunc(dirs, func(d Dir) bool { return d.Target == HomeDir })
	if at >= 0 {
		a.on(HomeDir, "--bind", dirs[at].Source) // what the operator mounts below it shows
	}
	for _, m := range s.ReadOnly {
		a.on(m.target(), "--ro-bind", m.Source)
	}
	switch {
	case len(lower) > 0:
		a.layers(lower, s.Workspace)
	case s.ReadOnlyWorkspace:
		a.on(WorkspaceDir, "--ro-bind", s.Workspace)
	default:
		a.on(WorkspaceDir, "--bind", s.Workspace)
	}
	if s.OutDir != "" {
		a.on(OutDir, "--bind", s.OutDir)
	}
	return a.dirs(dirs)
}

// layers mounts where the inner stage finds them what will be the workspace.
func (a *arguments) layers(lower []string, workspace string) {
	a.on(WorkspaceDir, "--perms", "0755", "--dir")
	for n, dir := range lower {
		a.on(lowerPlace(n), "--ro-bind", dir)
	}
	a.on(upperPlace, "--bind", workspace)
}

// ownFiles stand in for the host's: one user, no other machine.
func ownFiles() []File {
	text := func(path, content string) File { return File{Target: path, Content: []byte(content)} }
	return []File{
		text("/etc/passwd", fmt.Sprintf("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n%s:x:%d:%d::%s:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", userName, insideID, insideID, HomeDir)),
		text("/etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", userName, insideID)),
		text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"),
		text("/etc/hosts", "127.0.0.1 localhost "+hostName+"\n::1 localhost\n"),
		text("/etc/hostname", hostName+"\n"),
		text("/etc/resolv.conf", ""),
	}
}

// contents passes files that exist inside only.
func (a *arguments) contents(files []File) error {
	for _, f := range append(ownFiles(), files...) {
		m, err := memoryFile(f.Content)
		if err != nil {
			return unavailable("descriptors are exhausted", err)
		}
		a.copied(f.Target, m)
	}
	return nil
}

// config passes what the inner stage is told. Its place was kept by openPipes.
func (a *arguments) config(c initConfig) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	a.extra[configFD-3], err = memoryFile(data)
	return err
}

// memoryFile is a file in memory, read from the beginning.
func memoryFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("writ", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "writ")
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
