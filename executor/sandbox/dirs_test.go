package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// beside gives a program directories beside its workspace, each with the file "kept" in
// its layer. It gives the places of their layers and of what is written.
func beside(t *testing.T, spec *Spec, targets ...string) (lower, above []string) {
	t.Helper()
	dir := place(t)
	var dirs []Dir
	for _, target := range targets {
		d := Dir{Target: target, Source: filepath.Join(dir, filepath.Base(target), "above"), Lower: filepath.Join(dir, filepath.Base(target), "lower")}
		err := errors.Join(os.MkdirAll(d.Source, 0o755), os.MkdirAll(d.Lower, 0o755), os.WriteFile(filepath.Join(d.Lower, "kept"), []byte("prepared\n"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = RemoveTree(d.Source) })
		dirs, lower, above = append(dirs, d), append(lower, d.Lower), append(above, Upper(d.Source))
	}
	spec.Dirs = func(_ context.Context, owner int) ([]Dir, error) {
		var err error
		for _, l := range lower {
			err = errors.Join(err, os.Lchown(l, owner, owner), os.Lchown(filepath.Join(l, "kept"), owner, owner))
		}
		return dirs, err
	}
	return lower, above
}

// TestDirs_WrittenAbove: what was prepared shows in the home directory and in the workspace,
// whether or not that is an overlay itself, and what a program writes there lies apart.
func TestDirs_WrittenAbove(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		b := newSandbox(t)
		spec := script(t, `cat ~/.cache/kept deps/kept && echo mine > ~/.cache/kept && rm deps/kept && echo new > deps/new && ls -A deps ~ && ls /run/writ/layers`)
		at := spec.Workspace
		if over {
			layered(t, &spec)
			at = Upper(spec.Workspace)
		}
		if err := os.MkdirAll(filepath.Join(at, "deps"), 0o755); err != nil {
			t.Fatal(err)
		}
		lower, above := beside(t, &spec, HomeDir+"/.cache", WorkspaceDir+"/deps")
		if out := succeed(t, b, spec); out != "prepared\nprepared\n/home/writ:\n.cache\n\ndeps:\nnew\n" {
			t.Errorf("output: %s", out)
		}
		for _, l := range lower {
			if list := treeOf(t, l); !slices.Equal(list, []string{"kept prepared"}) {
				t.Errorf("the layer has %q now", list)
			}
		}
		if list := slices.Concat(treeOf(t, above[0]), treeOf(t, above[1])); !slices.Equal(list, []string{"kept mine", "kept Dc---------", "new new"}) {
			t.Errorf("above lies %q", list)
		}
		if list := treeOf(t, filepath.Join(at, "deps")); len(list) > 0 {
			t.Errorf("in the workspace itself lies %q", list)
		}
	}
}

// TestDirs_Home: a program's home directory is one of the host, and what the operator
// mounts below it still shows.
func TestDirs_Home(t *testing.T) {
	t.Parallel()
	home, mount := place(t), place(t)
	if err := os.WriteFile(filepath.Join(mount, "token"), []byte("operator's\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := script(t, `cat ~/tool/token && mkdir -p ~/go/pkg && echo left > ~/go/pkg/m && touch ~/tool/x`)
	spec.ReadOnly = []Mount{{Source: mount, Target: HomeDir + "/tool"}}
	spec.Dirs = func(context.Context, int) ([]Dir, error) { return []Dir{{Target: HomeDir, Source: home}}, nil }
	r := start(t, newSandbox(t), spec)
	r.finish(t)
	out := r.out.Text()
	if out != "operator's\ntouch: cannot touch '/home/writ/tool/x': Read-only file system\n" {
		t.Errorf("output: %s", out)
	}
	if data, err := os.ReadFile(filepath.Join(home, "go/pkg/m")); string(data) != "left\n" || err != nil {
		t.Errorf("left is %q, %v", data, err)
	}
}

// TestDirs_Refused: nobody is shown a directory anywhere else, nor at a level without mounts.
func TestDirs_Refused(t *testing.T) {
	t.Parallel()
	here := place(t)
	for _, d := range []Dir{
		{Target: "/usr/local", Source: here}, {Target: HomeDir + "/../x", Source: here}, {Target: WorkspaceDir, Source: here},
		{Target: HomeDir, Source: here, Lower: here}, {Target: HomeDir + "/a", Source: filepath.Join(here, "gone")}, {Target: "", Source: here},
	} {
		spec := script(t, "true")
		spec.Dirs = func(context.Context, int) ([]Dir, error) { return []Dir{d}, nil }
		if _, err := newSandbox(t).Start(t.Context(), spec); !isCode(err, CodeSpec) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	spec := script(t, "true")
	spec.Dirs = func(context.Context, int) ([]Dir, error) { return nil, nil }
	for _, s := range []Sandbox{NewNone(Config{}), NewLandlocked(Config{})} {
		if _, err := s.Start(t.Context(), spec); !isCode(err, CodeSpec) {
			t.Errorf("%s: %v", s.Name(), err)
		}
	}
}

func isCode(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
