package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// showing skips nothing: where the host can't show layers, the tests of the level
// without them have shown what there is to show.
func showing(t *testing.T) bool {
	t.Helper()
	if confined() {
		t.Log("the level without namespaces shows no layers: each workspace is laid out whole, as the other tests saw")
	}
	return !confined()
}

const overlaid = `grep -q ' /workspace .* - overlay ' /proc/self/mountinfo || echo "no overlay" >&2; `

// alone gives a bed a sandbox of its own: of a writ that runs as root, which user a
// program gets depends on who else runs.
func alone(c *Config) { c.Sandbox = sandbox.NewBubblewrap(sandbox.Config{}) }

// layersOf are the names of the layers that are there.
func (b *bed) layersOf() []string {
	b.t.Helper()
	list, err := os.ReadDir(b.cfg.Layers.Dir)
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// layer is the tree of a kind.
func (b *bed) layer(kind string) string {
	b.t.Helper()
	names := slices.DeleteFunc(b.layersOf(), func(n string) bool { return !strings.HasPrefix(n, kind+"-") })
	if len(names) != 1 {
		b.t.Fatalf("layers of kind %s: %q", kind, names)
	}
	return filepath.Join(b.cfg.Layers.Dir, names[0], layerTree)
}

// restart gives the bed the executor of another process.
func (b *bed) restart() {
	b.t.Helper()
	builders := b.local.cfg.Builders
	b.local.Close()
	b.cfg.Builders = builders
	b.local = New(b.cfg)
	if err := b.local.Sweep(); err != nil {
		b.t.Fatal(err)
	}
}

// TestLayers_SecondWorkspaceReadsNothing builds and checks twice on a base: it is read
// for the first run, and each run sees an overlay.
func TestLayers_SecondWorkspaceReadsNothing(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b := newBed(t, alone)
	reads := countReads(b)
	for n := range 3 {
		if n == 2 {
			b.restart() // then it is hashed, not read
		}
		job := b.job(script(overlaid + "git status --porcelain >&2; echo '// changed' >> calc/add.go"))
		job.Scope.KeepIgnored = true // no .gitignore is read
		o := b.build(job)
		if codes(o) != "" || o.Result.Stderr.Tail != "" || paths(o.Diff) != "modify calc/add.go" {
			t.Errorf("%s: %v, %s, %s", codes(o), o.Violations, paths(o.Diff), o.Result.Stderr.Tail)
		}
		if c := b.check(o, shCheck("c", overlaid+"grep -q changed calc/add.go && test -e README.md && ! test -e .git")); len(c.Violations) > 0 || c.Tail != "" {
			t.Errorf("%v: %s", c.Violations, c.Tail)
		}
		if n == 2 {
			break // a new process makes the throw-away .git anew, and reads for that
		}
		for id, times := range reads() {
			if times != 1 {
				t.Errorf("blob %s was read %d times", id, times)
			}
		}
	}
}

// TestLayers_ChecksOnly has a builder rename a directory of the base in one step, which no
// overlay of an ordinary user allows, while the checks see theirs above a layer.
func TestLayers_ChecksOnly(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b := newBed(t, alone)
	b.cfg.Layers.ChecksOnly = true
	b.restart()
	o := b.build(b.job(script("git mv calc sums")))
	if !strings.Contains(paths(o.Diff), "sums/add.go") {
		t.Errorf("%s: %v, %s, %s", codes(o), o.Violations, paths(o.Diff), o.Result.Stderr.Tail)
	}
	if c := b.check(o, shCheck("c", overlaid+"test -e README.md")); len(c.Violations) > 0 || c.Tail != "" {
		t.Errorf("%v: %s", c.Violations, c.Tail)
	}
}

// TestLayers_NoRunChangesThem has a builder do what it can to what it sees.
func TestLayers_NoRunChangesThem(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b := newBed(t, alone)
	b.sh("echo x >> calc/add.go")
	before, err := stateOf(b.layer("base"), b.local.stock.owner())
	if err != nil {
		t.Fatal(err)
	}
	o := b.sh(overlaid + `for f in $(git ls-files); do echo y >> $f; chmod 777 $f; done; git commit -qam all; git config core.hooksPath /x; mv calc new; rm -rf docs .gitignore; mkdir docs; ln -s / docs/root; mv README.md docs`)
	if !strings.Contains(codes(o), string(kernel.CodeScopeOutside)) {
		t.Errorf("codes %s", codes(o))
	}
	after, err := stateOf(b.layer("base"), b.local.stock.owner())
	if err != nil || before != after {
		t.Errorf("the layer is another: %v, %v, %v", before, after, err)
	}
	if o := b.sh("git status --porcelain; git log --format=%s; git config core.hooksPath; cat README.md; echo z > calc/z"); codes(o) != "" || o.Result.Stdout.Tail != "base of the task\n# calc\n" {
		t.Errorf("%s: the next run sees %q", codes(o), o.Result.Stdout.Tail)
	}
}

// TestLayers_LaidOutAnew changes a layer behind writ's back, while it runs and while it
// doesn't. The next run sees the base.
func TestLayers_LaidOutAnew(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	alike := func(path, text string) error { // of the same length, with the same time
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
		return os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	for name, spoil := range map[string]func(base, git string) error{
		"other bytes":      func(base, _ string) error { return alike(base+"/README.md", "# evil\n") },
		"a file more":      func(base, _ string) error { return os.WriteFile(base+"/calc/more.go", nil, 0o644) },
		"an ignored file":  func(base, _ string) error { return os.WriteFile(base+"/calc/x.log", nil, 0o644) },
		"a directory more": func(base, _ string) error { return os.Mkdir(base+"/more", 0o755) },
		"a .git in it":     func(base, _ string) error { return os.MkdirAll(base+"/.git/hooks", 0o755) },
		"a file less":      func(base, _ string) error { return os.Remove(base + "/README.md") },
		"a file cut off":   func(base, _ string) error { return os.Truncate(base+"/README.md", 0) },
		"another mode":     func(base, _ string) error { return os.Chmod(base+"/README.md", 0o600) },
		"another link": func(base, _ string) error {
			_ = os.Remove(base + "/docs/link")
			return os.Symlink("/", base+"/docs/link")
		},
		"a second name":  func(base, _ string) error { return os.Link(base+"/README.md", base+"/../outside") },
		"nothing at all": func(base, _ string) error { return os.RemoveAll(base) },
		"a hook for git": func(_, git string) error {
			return os.WriteFile(git+"/.git/config", []byte("[core]\n\tfsmonitor = echo evil >&2\n"), 0o644)
		},
		"a hook under git":  func(_, git string) error { return os.MkdirAll(git+"/.git/hooks/x", 0o755) },
		"a file beside git": func(_, git string) error { return os.WriteFile(git+"/calc", nil, 0o644) },
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restarted=%v", name, restarted), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, alone)
				const look = `find . -path ./.git/objects -prune -o -printf '%p %m %l\n' | sort; cat README.md docs/link .git/config; git status --porcelain; echo z > calc/z`
				want := b.sh(look)
				if codes(want) != "" {
					t.Fatal(codes(want), want.Violations)
				}
				if err := spoil(b.layer("base"), b.layer("git")); err != nil {
					t.Fatal(err)
				}
				for _, kind := range []string{"base", "git"} { // whoever did it was careful
					if tree := b.layer(kind); name != "nothing at all" || kind != "base" {
						if err := give(tree, b.local.stock.owner()); err != nil {
							t.Fatal(err)
						}
					}
				}
				if restarted {
					b.restart()
				}
				if got := b.sh(look); codes(got) != "" || got.Result.Stdout.Tail != want.Result.Stdout.Tail {
					t.Errorf("%s: the next run sees\n%s\nnot\n%s", codes(got), got.Result.Stdout.Tail, want.Result.Stdout.Tail)
				}
			})
		}
	}
}

// TestLayers_Killed finds on the disk what a process leaves that is killed at any point of
// making or removing a layer: nothing of it is shown, and all of it is removed.
func TestLayers_Killed(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b := newBed(t, alone)
	b.sh("echo x > calc/x")
	dir := b.cfg.Layers.Dir
	whole := b.layersOf()
	for _, left := range []string{newLayer + "1/tree/calc", newLayer + "2", oldLayer + "1/tree/tree/calc", oldLayer + "2"} {
		if err := os.MkdirAll(filepath.Join(dir, left), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	base := filepath.Dir(b.layer("base"))
	if err := os.Rename(base, filepath.Join(dir, oldLayer+"3")); err != nil { // before the new one had its name
		t.Fatal(err)
	}
	b.restart()
	if got := b.layersOf(); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, ".") }) {
		t.Errorf("left: %q", got)
	}
	if o := b.sh("cat README.md; echo x > calc/x"); codes(o) != "" || o.Result.Stdout.Tail != "# calc\n" {
		t.Errorf("%s %q", codes(o), o.Result.Stdout.Tail)
	}
	if got := b.layersOf(); !slices.Equal(got, whole) {
		t.Errorf("%q, not %q", got, whole)
	}
}

// TestLayers_Eviction keeps what is used, and what was used last, within the limits. It runs
// alone: a lock is also held by a child of this process until that has become its program.
func TestLayers_Eviction(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := &layers{dir: t.TempDir(), limit: 100 << 10, age: time.Hour, log: slog.New(slog.DiscardHandler), now: func() time.Time { return now },
		held: map[string]*layer{}, live: map[string]bool{}}
	get := func(key string) func() {
		t.Helper()
		_, _, release, err := s.get(t.Context(), key, os.Geteuid(), source{fill: func(_ context.Context, dir string) error {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "f"), make([]byte, 40<<10), 0o644)
		}})
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	there := func(what string, want ...string) {
		t.Helper()
		list, err := os.ReadDir(s.dir)
		var got []string
		for _, e := range list {
			got = append(got, e.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, not %q", what, got, err, want)
		}
	}
	used := get("a")
	for _, key := range []string{"b", "c", "d"} {
		now = now.Add(time.Minute)
		get(key)()
	}
	there("a is in use, b went", "a", "c", "d")
	copyDescriptors(t, filepath.Join(s.dir, "a"))
	used()
	used() // twice does no harm
	there("within the limit when a is let go of", "a", "d")
	now = now.Add(2 * time.Hour)
	s.trim(s.limit)
	there("too old")
	held := get("e")
	now = now.Add(2 * time.Hour)
	s.trim(0)
	other := &layers{dir: s.dir, limit: 1 << 10, age: time.Hour, log: s.log, now: s.now, held: map[string]*layer{}, live: map[string]bool{}}
	other.trim(0)
	there("in use, whatever its age, and whoever asks", "e")
	s.limit = 1 << 20
	held()
	// Another process measures what it finds.
	if err := other.sweep(); err != nil {
		t.Fatal(err)
	}
	there("found too large")
}

// copyDescriptors copies what is open of a path, until the test ends, as a program that is
// being started has it.
func copyDescriptors(t *testing.T, path string) {
	t.Helper()
	const open = "/proc/self/fd"
	list, err := os.ReadDir(open)
	path, err2 := filepath.EvalSymlinks(path)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	copied := 0
	for _, e := range list {
		if to, _ := os.Readlink(filepath.Join(open, e.Name())); to != path {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err == nil {
			fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		copied++
	}
	if copied == 0 {
		t.Fatalf("nothing is open of %s", path)
	}
}

// TestLayers_TwoExecutors lays a layer out twice at once, as two executors of one process
// may: the first one's is used by both.
func TestLayers_TwoExecutors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	executor := func() *layers {
		return &layers{dir: dir, limit: 1 << 20, age: time.Hour, log: slog.New(slog.DiscardHandler), now: time.Now, held: map[string]*layer{}, live: map[string]bool{}}
	}
	src := source{
		fill:  func(_ context.Context, dir string) error { return os.Mkdir(dir, 0o755) },
		whole: func(context.Context, string, int) error { return nil },
	}
	first, second := executor(), executor()
	var before, after os.FileInfo
	slow := src
	slow.fill = func(ctx context.Context, at string) error {
		path, _, _, err := first.get(ctx, "k", os.Geteuid(), src) // in use until the end
		if err == nil {
			before, err = os.Stat(path)
		}
		return errors.Join(err, src.fill(ctx, at))
	}
	path, _, release, err := second.get(t.Context(), "k", os.Geteuid(), slow)
	if err == nil {
		after, err = os.Stat(path)
	}
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the second one made its own: %v", err)
	}
	release()
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("there are %v, %v", list, err)
	}
}

// refusing is a kernel that shows no layers, from the first time or from a later one.
type refusing struct {
	*sandbox.Bubblewrap
	from, shown atomic.Int64
}

func (r *refusing) Start(ctx context.Context, spec sandbox.Spec) (*sandbox.Process, error) {
	if spec.Layers != nil && r.shown.Add(1) > r.from.Load() {
		spec.Layers = func(context.Context, int) ([]string, error) { return []string{"/etc/passwd"}, nil } // no directory
	}
	return r.Bubblewrap.Start(ctx, spec)
}

// TestLayers_WhereTheyCantBe runs as without them, at once, and says so once.
func TestLayers_WhereTheyCantBe(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	for name, from := range map[string]int64{"never": -1, "not for the builder": 0, "not for the check": 1, "not for the second run of it": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, func(c *Config) {
				r := &refusing{Bubblewrap: c.Sandbox.(*sandbox.Bubblewrap)}
				r.from.Store(from)
				c.Sandbox = r
				if from < 0 {
					c.Layers.Dir = filepath.Join(c.WorkDir, "file", "layers") // can't be made
				}
			})
			if from < 0 {
				if err := os.MkdirAll(b.work, 0o711); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(b.work, "file"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(filepath.Join(b.work, "file"))
			}
			o := b.sh("echo '// changed' >> calc/add.go")
			if codes(o) != "" || paths(o.Diff) != "modify calc/add.go" {
				t.Errorf("%s %s: %v", codes(o), paths(o.Diff), o.Violations)
			}
			c := shCheck("c", "grep -q changed calc/add.go && ! test -e left && touch left")
			c.Repeat = 3
			if got := b.check(o, c); len(got.Violations) > 0 || got.Run.Checks[0].Runs != 3 {
				t.Errorf("%v, %v", got.Violations, got.Run.Checks)
			}
			if n := strings.Count(b.log.String(), "laid out whole"); n != 1 {
				t.Errorf("it is said %d times:\n%s", n, b.log)
			}
		})
	}
}

// TestS17_AppliedAboveIsTheSameTree shows checks the tree after a change, above a layer
// and whole.
func TestS17_AppliedAboveIsTheSameTree(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	for name, text := range map[string]string{
		"nothing removed":              "echo y > calc/add.go; echo y > calc/new; chmod +x calc/sub.go",
		"a file":                       "rm calc/sub.go",
		"a directory":                  "rm -r deep",
		"an inner directory":           "rm -r deep/er",
		"two of a directory":           "rm deep/a deep/er/b; echo n > deep/n",
		"a file for a directory":       "rm -r deep; echo f > deep",
		"a file for an inner one":      "rm -r deep/er; echo f > deep/er",
		"a directory for a file":       "rm calc/sub.go; mkdir calc/sub.go; echo f > calc/sub.go/x",
		"a directory for a directory":  "rm -r deep; mkdir -p deep/other; echo n > deep/other/n",
		"moved down, and its old name": "mv deep/a x; rm -r deep; mkdir deep; mv x deep/er",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"deep/a": "a\n", "deep/er/b": "b\n", "deep/er/est/c": "c\n", "deep/mod/x": "x\n"}
			for path, text := range calc {
				files[path] = text
			}
			var seen []string
			for _, whole := range []bool{false, true} {
				b := newBed(t, func(c *Config) {
					if whole {
						c.Layers.Dir = ""
					}
				})
				b.base = baseOf(files)
				job := b.job(script(text))
				job.Scope.Allowed = []string{"calc/**", "deep/**", "deep"}
				o := b.build(job)
				if codes(o) != "" {
					t.Fatalf("%s: %v", codes(o), append(o.Violations, o.Diff.Violations...))
				}
				c := b.check(o, shCheck("c", `find . -type f -printf '%p %m %y ' -exec cat {} \; -o -printf '%p %m %y %l\n' | sort; exit 1`))
				seen = append(seen, c.Tail)
			}
			if seen[0] != seen[1] || !strings.Contains(seen[0], "README.md") {
				t.Errorf("above a layer:\n%s\nwhole:\n%s", seen[0], seen[1])
			}
		})
	}
}

// TestLayers_OfEachUser gives two programs that run at once layers of their own where
// they have users of their own.
func TestLayers_OfEachUser(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b := newBed(t)
	job := b.job(script(`echo up; read line < /dev/null; while ! test -e /proc/self/nothing; do echo z >> calc/z && chmod 700 calc/add.go && sleep 0.01 && test $(wc -l < calc/z) -lt 20 || exit 0; done`))
	other := job
	other.Run = "run-2"
	var runs []executor.Build
	for _, j := range []executor.BuildJob{job, other} {
		r, err := b.local.Build(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	for _, r := range runs {
		b.await(r)
		if o := r.Outcome(); codes(o) != "" || !bytes.Contains([]byte(paths(o.Diff)), []byte("add calc/z")) {
			t.Errorf("%s %s: %v %s", codes(o), paths(o.Diff), o.Violations, o.Result.Stderr.Tail)
		}
	}
}
