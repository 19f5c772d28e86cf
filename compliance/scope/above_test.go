package scope

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/writbot/writ/kernel"
	"golang.org/x/sys/unix"
)

// aboveVar has the tests of this package run in workspaces that are overlays above the
// base, and judge what lies above. The process must be able to mount.
const aboveVar = "WRIT_TEST_ABOVE_A_LAYER"

func above() bool { return os.Getenv(aboveVar) != "" }

// closedHost says that the host forbids namespaces: the lane of CI that runs in a
// closed container.
const closedHost = "WRIT_TEST_WITHOUT_NAMESPACES"

// TestAbove_TheRulesAreTheSame runs the cases of scope once more, in overlays that the
// kernel itself writes.
func TestAbove_TheRulesAreTheSame(t *testing.T) {
	if os.Getenv(closedHost) != "" {
		t.Log("this host forbids namespaces, and with them overlays: no workspace of it is one")
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^Test(S[0-9]|Unchanged|AcceptedChange|ManyViolations|WhatIsWrittenHides)", "-test.v")
	cmd.Env = append(os.Environ(), aboveVar+"=yes")
	id := func(host int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: host, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: id(os.Geteuid()), GidMappings: id(os.Getegid()),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("above a layer: %v\n%s", err, out)
	}
	passed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^--- PASS: Test(?:(S\d+)_)(?:(S\d+)_)?`).FindAllSubmatch(out, -1) {
		passed[string(m[1])], passed[string(m[2])] = true, true
	}
	for n := range 18 {
		if c := fmt.Sprintf("S%d", n+1); !passed[c] {
			t.Errorf("%s did not run above a layer:\n%s", c, out)
		}
	}
	if !bytes.Contains(out, []byte("PASS: TestWhatIsWrittenHides")) {
		t.Errorf("not above a layer:\n%s", out)
	}
}

// mount makes the workspace an overlay above what was laid out in it.
func (w *world) mount() {
	w.t.Helper()
	must(w.t, os.Rename(w.dir, w.dir+"-lower"))
	for _, dir := range []string{w.dir, w.dir + "-upper", w.dir + "-work"} {
		must(w.t, os.Mkdir(dir, 0o755))
	}
	options := "userxattr,lowerdir=" + w.dir + "-lower,upperdir=" + w.dir + "-upper,workdir=" + w.dir + "-work"
	must(w.t, unix.Mount("overlay", w.dir, "overlay", 0, options))
	w.t.Cleanup(func() { must(w.t, unix.Unmount(w.dir, unix.MNT_DETACH)) })
	w.mounted = true
}

// snapshot walks the workspace, or what was written into it.
func (w *world) snapshot(s *Scope) (*Snapshot, error) {
	if w.mounted {
		return s.SnapshotAbove(context.Background(), w.dir+"-upper")
	}
	return s.Snapshot(context.Background(), w.dir)
}

// TestWhatIsWrittenHides tries everything by which a path of the base disappears. What
// lies above gives the verdict that the whole workspace gives.
func TestWhatIsWrittenHides(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"nothing":                     func(*world) {},
		"a file is gone":              func(w *world) { w.remove("calc/add.go") },
		"a directory is gone":         func(w *world) { w.remove("calc") },
		"everything is gone":          func(w *world) { w.remove("calc"); w.remove("docs"); w.remove("go.mod") },
		"a directory anew":            func(w *world) { w.remove("calc"); w.write("calc/new.go", "new\n") },
		"a directory anew and alike":  func(w *world) { w.remove("calc"); w.write("calc/add.go", baseFiles["calc/add.go"]) },
		"an inner directory anew":     func(w *world) { w.remove("calc/sub"); w.write("calc/sub/b.go", "new\n") },
		"a file for a directory":      func(w *world) { w.remove("calc"); w.write("calc", "file\n") },
		"a directory for a file":      func(w *world) { w.remove("go.mod"); w.write("go.mod/x", "file\n") },
		"an empty directory for it":   func(w *world) { w.remove("go.mod"); must(w.t, os.Mkdir(w.path("go.mod"), 0o755)) },
		"an ignored file for one":     func(w *world) { w.remove("docs"); must(w.t, os.Symlink("x", w.path("docs"))) },
		"a closed directory":          func(w *world) { must(w.t, os.Chmod(w.path("calc/sub"), 0)) },
		"touched and left":            func(w *world) { must(w.t, os.Chmod(w.path("calc/add.go"), 0o600)) },
		"a file moved over another":   func(w *world) { must(w.t, os.Rename(w.path("go.mod"), w.path("calc/add.go"))) },
		"written and written back":    func(w *world) { w.write("go.mod", "x"); w.write("go.mod", baseFiles["go.mod"]) },
		"removed and written again":   func(w *world) { w.remove("go.mod"); w.write("go.mod", baseFiles["go.mod"]) },
		"what git ignores":            func(w *world) { w.write("build/x", "x"); w.write("calc/x.log", "x") },
		"a link of the base replaced": func(w *world) { w.remove("calc/link"); must(w.t, os.Symlink("run.sh", w.path("calc/link"))) },
		"a submodule is gone":         func(w *world) { w.remove("calc/mod") },
		"a submodule is a file":       func(w *world) { w.remove("calc/mod"); w.write("calc/mod", "x") },
		"a file in a submodule":       func(w *world) { w.write("calc/mod/x", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, baseFiles)
			w.add("calc/link", ModeSymlink, "add.go")
			w.add("calc/mod", ModeGitlink, "")
			w.layOut()
			change(w)
			whole, err := w.scope(w.rules()).Verify(t.Context(), w.dir)
			must(t, err)
			if got := w.verify(w.rules()); !slices.Equal(ops(got), ops(whole)) || cmp.Diff(got, whole) != "" {
				t.Error(cmp.Diff(whole, got))
			}
		})
	}
}

// TestAbove_ForgedMarks writes, as only somebody behind the overlay can, what would
// make its reader see other things than the walk.
func TestAbove_ForgedMarks(t *testing.T) {
	for name, forge := range map[string]func(upper string) error{
		"a redirect":          func(u string) error { return unix.Lsetxattr(u+"/calc", "user.overlay.redirect", []byte("/docs"), 0) },
		"a file without data": func(u string) error { return unix.Lsetxattr(u+"/calc/f", "user.overlay.metacopy", nil, 0) },
		"a redirected file": func(u string) error {
			return unix.Lsetxattr(u+"/calc/f", "user.overlay.redirect", []byte("/go.mod"), 0)
		},
		"a whiteout attribute":  func(u string) error { return unix.Lsetxattr(u+"/calc/f", "user.overlay.whiteout", []byte("y"), 0) },
		"opaque in part":        func(u string) error { return unix.Lsetxattr(u+"/calc", opaqueMark, []byte("x"), 0) },
		"an opaque file":        func(u string) error { return unix.Lsetxattr(u+"/calc/f", opaqueMark, []byte("y"), 0) },
		"one that is not known": func(u string) error { return unix.Lsetxattr(u+"/calc", "user.overlay.later", []byte("y"), 0) },
		"another device":        func(u string) error { return unix.Mkfifo(u+"/calc/add.go", 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, baseFiles)
			upper := t.TempDir()
			must(t, os.Mkdir(filepath.Join(upper, "calc"), 0o755))
			must(t, os.WriteFile(filepath.Join(upper, "calc/f"), []byte("x"), 0o644))
			must(t, forge(upper))
			v, err := w.scope(w.rules()).VerifyAbove(t.Context(), upper)
			must(t, err)
			if !slices.ContainsFunc(v.Violations, func(x kernel.Violation) bool { return x.Code == kernel.CodeScopeFileType }) {
				t.Errorf("violations: %v", v.Violations)
			}
		})
	}
}

// What a program set itself is stored by newer kernels under a name of its own, and a
// mark at a place where the base has nothing removes nothing.
func TestAbove_HarmlessMarks(t *testing.T) {
	w := newWorld(t, baseFiles)
	upper := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(upper, "calc/own"), 0o755))
	for _, key := range []string{"user.overlay.overlay.redirect", "user.overlay.origin", "user.overlay.impure", "user.x"} {
		must(t, unix.Lsetxattr(filepath.Join(upper, "calc"), key, []byte("y"), 0))
	}
	must(t, unix.Mknod(filepath.Join(upper, "calc/none"), unix.S_IFCHR, 0))
	must(t, unix.Mknod(filepath.Join(upper, "calc/own/none"), unix.S_IFCHR, 0))
	must(t, unix.Mknod(filepath.Join(upper, "calc/sub"), unix.S_IFCHR, 0))
	must(t, os.Mkdir(filepath.Join(upper, "go.mod"), 0o755)) // as a kernel shows it, without a mark too
	v, err := w.scope(w.rules()).VerifyAbove(t.Context(), upper)
	must(t, err)
	wantClean(t, v)
	if d := cmp.Diff([]string{"delete calc/sub/a.go", "delete go.mod"}, ops(v)); d != "" {
		t.Error(d)
	}
}
