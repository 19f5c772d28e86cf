package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// upperPlace holds the upper and the work directory, which must be on one mount.
const upperPlace = layersDir + "/above"

// maxLayers is far below the kernel's own limit and keeps the mount's options, which
// are one page, short.
const maxLayers = 64

func lowerPlace(n int) string { return filepath.Join(layersDir, strconv.Itoa(n)) }

// Owner is the user of the host whom the next program will have, unless another starts
// first: the one to lay a layer out for ahead.
func (b *Bubblewrap) Owner() int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.free) - 1; last >= 0 {
		return b.free[last].uid
	}
	return b.cfg.RootUID - b.made
}

// overlays implements Overlays: it mounts one and sees that both directories show.
func (b *Bubblewrap) overlays(ctx context.Context, dir string) error {
	dir, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return &Error{Code: CodeLayers, Msg: "there is no place for a temporary directory", Err: err}
	}
	defer func() { _ = RemoveTree(dir) }() // it is empty but for what is made here
	lower, workspace := filepath.Join(dir, "lower"), filepath.Join(dir, "workspace")
	err = errors.Join(os.Chmod(dir, 0o711), os.Mkdir(lower, 0o755), os.Mkdir(workspace, 0o755), //nolint:gosec // the sandbox's user passes through
		os.WriteFile(filepath.Join(lower, "below"), nil, 0o644)) //nolint:gosec // as above
	if err != nil {
		return &Error{Code: CodeLayers, Msg: "a temporary directory can't be filled", Err: err}
	}
	spec := Spec{
		Argv: []string{initPath, wordLayer}, Workspace: workspace,
		Layers: func(_ context.Context, owner int) ([]string, error) {
			return []string{lower}, os.Lchown(filepath.Join(lower, "below"), owner, owner)
		},
	}
	p, err := b.Start(ctx, spec)
	if err != nil {
		return err
	}
	switch exit := p.Wait(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case exit.Err != nil:
		return exit.Err
	case exit.Cause != CauseExited || exit.Code != 0:
		return &Error{Code: CodeLayers, Msg: fmt.Sprintf("an overlay was mounted and doesn't work: the program that tries it ended with code %d (%s)", exit.Code, exit.Cause)}
	}
	var mark unix.Stat_t
	if err := unix.Lstat(filepath.Join(Upper(workspace), "below"), &mark); err != nil || mark.Mode&unix.S_IFMT != unix.S_IFCHR || mark.Rdev != 0 {
		return &Error{Code: CodeLayers, Msg: "what was removed in an overlay has left no mark in its upper directory", Err: err}
	}
	return nil
}

// ofOverlay makes the two directories of an overlay that are one program's alone.
func ofOverlay(dir string, abi int) error {
	if abi == 0 {
		return &Error{Code: CodeLayers, Msg: "without Landlock the directories of an overlay could be reached behind it"}
	}
	for _, name := range []string{upperName, workName} {
		//nolint:gosec // a workspace has the modes of a checkout; the directory above it is closed
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return &Error{Code: CodeLayers, Msg: "the directories of an overlay can't be made", Err: err}
		}
	}
	return nil
}

// dirs mounts the directories beside the workspace: as they are, or where the inner stage
// finds them what will be an overlay. What lies in the home directory must be made there.
func (a *arguments) dirs(dirs []Dir) (overlays []mounted) {
	for n, d := range dirs {
		if d.Target == HomeDir {
			continue // the home directory itself is no overlay
		}
		if d.Lower == "" {
			a.on(d.Target, "--bind", d.Source)
			continue
		}
		m := mounted{Target: d.Target, Lower: []string{filepath.Join(layersDir, fmt.Sprintf("dir%d", n))}, Above: filepath.Join(layersDir, fmt.Sprintf("dir%d-above", n))}
		if strings.HasPrefix(d.Target, HomeDir+"/") {
			a.on(d.Target, "--perms", "0755", "--dir")
		}
		a.on(m.Lower[0], "--ro-bind", d.Lower)
		a.on(m.Above, "--bind", d.Source)
		overlays = append(overlays, m)
	}
	return overlays
}

// mounted is an overlay that the inner stage mounts, with the places of its directories.
type mounted struct {
	Target string   `json:"target"`
	Lower  []string `json:"lower"`
	Above  string   `json:"above"`
}

// mountCapabilities are those that the inner stage needs to mount an overlay, and
// gives up before the program runs: the kernel keeps them for what it does in the
// directories itself. Without the second it can't use the work directory, which it
// makes with no permissions at all.
var mountCapabilities = []string{"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"}

// overlay mounts the workspace, in a mount namespace of its own: bwrap's belongs to
// another user namespace in the level of an ordinary user. What is mounted acts with
// the rights of who mounted it, so that is the program's user.
func (c initConfig) overlay() error {
	if c.Layers == 0 && len(c.Dirs) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	if c.Drop {
		back, err := asProgram()
		if err != nil {
			return err
		}
		defer back()
	}
	if c.Layers > 0 {
		workspace := mounted{Target: WorkspaceDir, Above: upperPlace}
		for n := range c.Layers {
			workspace.Lower = append(workspace.Lower, lowerPlace(n))
		}
		if err := workspace.mount(c.ReadOnly); err != nil {
			return err
		}
	}
	for _, m := range c.Dirs {
		if err := m.mount(false); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	return covered(layersDir)
}

func (m mounted) mount(readOnly bool) error {
	options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s/%s,workdir=%s/%s", strings.Join(m.Lower, ":"), m.Above, upperName, m.Above, workName)
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("overlay", m.Target, "overlay", flags, options); err != nil {
		return fmt.Errorf("an overlay: %w", err)
	}
	return nil
}

// covered hides what is at dir behind an empty directory that nothing can be made in.
func covered(dir string) error {
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=0555,size=4k,nr_inodes=2"); err != nil {
		return fmt.Errorf("hide the layers: %w", err)
	}
	return nil
}

// asProgram makes this thread touch files as the program's user, until it is taken
// back: the change takes away what overrides permissions, which is needed again.
func asProgram() (back func(), err error) {
	runtime.LockOSThread() // it is already; the pair is here so that nobody has to know
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	had := make([]unix.CapUserData, 2) // the version has two words
	if err := unix.Capget(&hdr, &had[0]); err != nil {
		return nil, err
	}
	setFSID := func(id uintptr) {
		// What was set before is the answer, never an error.
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, id, 0, 0)
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, id, 0, 0)
	}
	back = func() {
		setFSID(0)
		_ = unix.Capset(&hdr, &had[0]) // where it fails the next step that needs one does
		runtime.UnlockOSThread()
	}
	setFSID(insideID)
	if err := unix.Capset(&hdr, &had[0]); err != nil {
		back()
		return nil, err
	}
	return back, nil
}
