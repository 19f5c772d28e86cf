package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// layered makes spec's workspace an overlay above two layers. What it returns is the
// lower one of them.
func layered(t *testing.T, spec *Spec) string {
	t.Helper()
	dir := place(t)
	top, bottom := filepath.Join(dir, "top"), filepath.Join(dir, "bottom")
	for path, text := range map[string]string{
		bottom + "/kept": "bottom\n", bottom + "/hidden": "bottom\n", bottom + "/d/a": "a\n", bottom + "/d/b": "b\n", top + "/hidden": "top\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = RemoveTree(spec.Workspace) }) // the kernel leaves a closed directory
	spec.Layers = func(_ context.Context, owner int) ([]string, error) {
		return []string{top, bottom}, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, owner, owner))
		})
	}
	return bottom
}

// tree lists what is below a directory, with the text of small files.
func treeOf(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || name == ".":
		case d.Type().IsRegular():
			data, rerr := os.ReadFile(path)
			list, err = append(list, name+" "+strings.TrimSpace(string(data))), rerr
		default:
			list = append(list, name+" "+d.Type().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLayers_WhatIsWrittenLiesAbove(t *testing.T) {
	t.Parallel()
	b := newSandbox(t)
	spec := script(t, `cat kept hidden d/a && echo more >> kept && rm -r d && mkdir d && echo c > d/c && rm hidden && echo new > new && chmod +x new && ls -A . d`)
	bottom := layered(t, &spec)
	before := treeOf(t, bottom)
	if out := succeed(t, b, spec); out != "bottom\ntop\na\n.:\nd\nkept\nnew\n\nd:\nc\n" {
		t.Errorf("output: %s", out)
	}
	if after := treeOf(t, bottom); !slices.Equal(before, after) {
		t.Errorf("the layer is %q now", after)
	}
	if above := treeOf(t, Upper(spec.Workspace)); !slices.Equal(above, []string{"d d---------", "d/c c", "hidden Dc---------", "kept bottom\nmore", "new new"}) {
		t.Errorf("above lies %q", above)
	}
	var upper, work unix.Stat_t
	if err := errors.Join(unix.Lstat(Upper(spec.Workspace), &upper), unix.Lstat(filepath.Join(spec.Workspace, workName, workName), &work)); err != nil || upper.Uid != work.Uid {
		t.Errorf("who mounted it is user %d, and the program %d; %v", work.Uid, upper.Uid, err)
	}
	spec.ReadOnlyWorkspace, spec.Argv[2] = true, "cat kept && ! echo x > kept && ! echo x > other && ! rm new"
	if out := succeed(t, b, spec); !strings.HasPrefix(out, "bottom\nmore\n") {
		t.Errorf("read-only: %s", out)
	}
}

// marks lists what the kernel keeps of an overlay below a directory: removed names, and
// attributes that mean something to it.
func marks(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type()&fs.ModeCharDevice != 0 {
			list = append(list, name+" removed")
		}
		buf := make([]byte, 4096)
		n, err := unix.Llistxattr(path, buf)
		for key := range strings.SplitSeq(string(buf[:max(n, 0)]), "\x00") {
			if mark, ok := strings.CutPrefix(key, "user.overlay."); ok && !strings.HasPrefix(mark, "overlay.") && mark != "uuid" && mark != "impure" && mark != "origin" {
				list = append(list, name+" "+mark)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestX2_LayersCantBeForged has a program make, in each way that there is, the marks by
// which what it wrote is read afterwards, and go round the overlay to the directories
// behind it.
func TestX2_LayersCantBeForged(t *testing.T) {
	t.Parallel()
	b := newSandbox(t)
	spec := act(t, "act-forge")
	bottom := layered(t, &spec)
	before := treeOf(t, bottom)
	out := succeed(t, b, spec)
	if !strings.HasSuffix(out, "forge: end\n") || strings.Contains(out, "could:") {
		t.Errorf("output:\n%s", out)
	}
	if found := marks(t, Upper(spec.Workspace)); !slices.Equal(found, []string{"d opaque"}) { // the kernel's own, since it was removed and made anew
		t.Errorf("marks: %q", found)
	}
	if after := treeOf(t, bottom); !slices.Equal(before, after) {
		t.Errorf("the layer is %q now", after)
	}
}

// actForge prints what it could do.
func actForge([]string) {
	could := func(what string, err error) {
		if err == nil {
			fmt.Println("could:", what)
		}
	}
	if err := errors.Join(os.Mkdir("own", 0o755), os.WriteFile("own/file", []byte("x"), 0o644)); err != nil {
		fmt.Println("could not even write:", err)
	}
	could("make a whiteout", unix.Mknod("d/a", unix.S_IFCHR, 0))
	could("make a whiteout of its own", unix.Mknod("own/w", unix.S_IFCHR, 0))
	for _, key := range []string{"opaque", "redirect", "metacopy", "whiteout", "origin"} {
		for _, path := range []string{"own", "own/file", "d", "kept"} {
			// Newer kernels store it under a name that means nothing to them; see the marks.
			_ = unix.Lsetxattr(path, "user.overlay."+key, []byte("y"), 0)
		}
		could("set trusted."+key, unix.Lsetxattr("own", "trusted.overlay."+key, []byte("y"), 0))
	}
	if err := errors.Join(os.RemoveAll("d"), os.Mkdir("d", 0o755)); err != nil {
		fmt.Println("could not even remove:", err)
	}
	could("mount", unix.Mount("tmpfs", "own", "tmpfs", 0, ""))
	could("unmount", unix.Unmount(layersDir, unix.MNT_DETACH))
	could("have a namespace", unix.Unshare(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	for _, root := range []string{"", "/proc/1/root", "/proc/self/root", "/proc/2/root", "/proc/1/cwd/..", "/proc/1/task/1/root"} {
		list, _ := os.ReadDir(root + layersDir)
		for _, e := range list {
			fmt.Println("could: see", root+layersDir+"/"+e.Name())
		}
		could("write behind it by "+root, os.WriteFile(root+upperPlace+"/"+upperName+"/forged", nil, 0o644))
		could("write to a layer by "+root, os.WriteFile(root+lowerPlace(1)+"/forged", nil, 0o644))
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.SplitSeq(string(status), "\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "Cap") && strings.Trim(value, "\t0") != "" {
			fmt.Println("could: anything with", line)
		}
	}
	fmt.Println("forge: end")
}

// TestX10_LayersAndEachSystemCall makes each system call in a workspace that is an
// overlay.
func TestX10_LayersAndEachSystemCall(t *testing.T) {
	t.Parallel()
	b := newSandbox(t)
	v := newVictim(t)
	before := v.state(t)
	spec := sweep(t, v)
	bottom := layered(t, &spec)
	files := treeOf(t, bottom)
	r := start(t, b, spec)
	<-r.Done() // go test's own limit ends a hang
	v.intact(t, before)
	if got := answers(t, r.out.Text()); len(got) < sweepEnd {
		t.Errorf("%d calls were made", len(got))
	}
	if after := treeOf(t, bottom); !slices.Equal(files, after) {
		t.Errorf("the layer is %q now", after)
	}
}

// TestLayers_ReportedWhereTheyCantBe takes each reason for one that a caller can tell
// from a host that can't isolate.
func TestLayers_ReportedWhereTheyCantBe(t *testing.T) {
	t.Parallel()
	b, dir := newSandbox(t), place(t)
	if err := Overlays(t.Context(), b, dir); err != nil {
		t.Errorf("here they can: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the probe left %v", left)
	}
	lacks := func(what string, err error) {
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeLayers {
			t.Errorf("%s: %v", what, err)
		}
	}
	lacks("none", Overlays(t.Context(), NewNone(Config{}), dir))
	lacks("no directory", Overlays(t.Context(), b, dir+"/none"))
	lacks("landlock", Overlays(t.Context(), NewLandlocked(Config{}), dir))
	spec := script(t, "true")
	file := filepath.Join(spec.Workspace, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Layers = func(context.Context, int) ([]string, error) { return []string{file}, nil }
	for _, s := range []Sandbox{NewLandlocked(Config{Init: passable(t)}), NewNone(Config{})} {
		_, err := s.Start(t.Context(), spec)
		lacks(s.Name(), err)
	}
	lacks("a kernel that refuses", start(t, b, spec).finish(t).Err)
	own := errors.New("no layer")
	spec.Layers = func(context.Context, int) ([]string, error) { return nil, own }
	if _, err := b.Start(t.Context(), spec); !errors.Is(err, own) {
		t.Errorf("err = %v", err)
	}
	spec.Layers = func(context.Context, int) ([]string, error) { return nil, nil }
	if _, err := b.Start(t.Context(), spec); err == nil {
		t.Error("an overlay of nothing")
	}
}

// Without Landlock an ordinary user's program could reach them through the root of
// bwrap's own process, where they aren't covered.
func TestX2_LayersNeedLandlock(t *testing.T) {
	spec := script(t, "true")
	layered(t, &spec)
	if _, err := spec.above(t.Context(), os.Geteuid(), 0); err == nil {
		t.Error("an overlay without Landlock")
	}
	if dirs, err := spec.above(t.Context(), os.Geteuid(), 1); err != nil || len(dirs) != 2 {
		t.Errorf("%q, %v", dirs, err)
	}
}

func TestX2_LayersOfAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the other tests ran as an ordinary user")
		return
	}
	asOrdinaryUser(t, "^Test(X2_LayersCantBeForged|Layers_)", "TestX2_LayersCantBeForged", "TestLayers_WhatIsWrittenLiesAbove")
}

// BenchmarkLayers is a start in a workspace that is an overlay, beside one in a plain
// directory and bwrap alone, to the end of a program that does nothing. They take turns.
func BenchmarkLayers(b *testing.B) {
	s, lower := NewBubblewrap(Config{}), b.TempDir()
	if err := os.Chown(lower, s.Owner(), s.Owner()); err != nil {
		b.Fatal(err)
	}
	once := func(layers Layers) time.Duration {
		spec := Spec{Argv: []string{"/usr/bin/true"}, Env: BaseEnv(), Workspace: b.TempDir(), Layers: layers}
		begin := time.Now()
		p, err := s.Start(context.Background(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if e := p.Wait(); e.Cause != CauseExited || e.Code != 0 {
			b.Fatalf("exit = %+v", e)
		}
		took := time.Since(begin)
		if err := RemoveTree(spec.Workspace); err != nil {
			b.Fatal(err)
		}
		return took
	}
	var with, without, alone []time.Duration
	for b.Loop() {
		with = append(with, once(func(context.Context, int) ([]string, error) { return []string{lower}, nil }))
		without = append(without, once(nil))
		begin := time.Now()
		if out, err := bwrapAlone().CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		alone = append(alone, time.Since(begin))
	}
	ms := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Microseconds()) / 1000
	}
	b.ReportMetric(ms(with), "ms/layers")
	b.ReportMetric(ms(without), "ms/plain")
	b.ReportMetric(ms(alone), "ms/bwrap")
	b.ReportMetric(ms(with)-ms(without), "ms/more-than-plain")
	b.ReportMetric(ms(with)-ms(alone), "ms/more-than-bwrap")
}
