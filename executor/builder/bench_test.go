package builder

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// benchFiles and benchBytes are the repository of the target in docs/benchmarks.md.
const (
	benchFiles = 1000
	benchBytes = 4 << 10
)

// BenchmarkLoop is a builder and a check that do nothing but change a file, on a
// base of a thousand files. The metrics are where the time goes, in milliseconds.
// WRIT_BENCH_DIR is where the workspaces lie: on some file systems making files
// costs more than all the rest.
func BenchmarkLoop(b *testing.B) {
	for _, ahead := range []bool{false, true} {
		b.Run(map[bool]string{false: "cold", true: "prepared"}[ahead], func(b *testing.B) { benchmarkLoop(b, ahead) })
	}
}

func benchmarkLoop(b *testing.B, ahead bool) {
	base := manyFiles(benchFiles, benchBytes)
	l := New(Config{
		Sandbox: sandbox.NewBubblewrap(sandbox.Config{}), WorkDir: benchDir(b), Now: func() int64 { return time.Now().UnixMilli() },
		Builders: map[string]Builder{"default": {Argv: []string{"/usr/bin/touch", "new"}}},
	})
	if vs := l.Environment(b.Context(), "default"); len(vs) > 0 {
		b.Fatal(vs)
	}
	job := executor.BuildJob{Builder: "default", Base: base, Budgets: budgets(), Scope: executor.ScopeRules{Allowed: []string{"new"}}}
	var build, check time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		l.stock.mu.Lock()
		l.stock.empty()
		l.stock.mu.Unlock()
		l.stock.busy.Wait()
		if ahead {
			l.Prefetch("default", base)
			l.stock.busy.Wait()
		}
		job.Run = fmt.Sprint("run-", n)
		b.StartTimer()
		begin := time.Now()
		r, err := l.Build(b.Context(), job)
		if err != nil {
			b.Fatal(err)
		}
		<-r.Done()
		build += time.Since(begin)
		o := r.Outcome()
		if len(o.Violations)+len(o.Diff.Violations) > 0 {
			b.Fatal(o.Violations, o.Diff.Violations)
		}
		begin = time.Now()
		k, err := l.Check(b.Context(), executor.CheckJob{Run: job.Run, Base: base, Diff: o.Diff, Contents: o.Contents,
			Checks: []kernel.Check{{Name: "c", Argv: []string{"/usr/bin/true"}, TimeoutMs: long}}})
		if err != nil {
			b.Fatal(err)
		}
		<-k.Done()
		check += time.Since(begin)
		if vs := k.Outcome().Violations; len(vs) > 0 {
			b.Fatal(vs)
		}
	}
	b.ReportMetric(float64(build.Milliseconds())/float64(b.N), "build-ms")
	b.ReportMetric(float64(check.Milliseconds())/float64(b.N), "check-ms")
	l.Close()
}

func benchDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(os.Getenv("WRIT_BENCH_DIR"), "writ-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// BenchmarkSteps times each step of the loop alone.
func BenchmarkSteps(b *testing.B) {
	base := manyFiles(benchFiles, benchBytes)
	list := entries(base.Files)
	s := newStock(benchDir(b), New(Config{}).cfg.Log)
	box := sandbox.NewBubblewrap(sandbox.Config{})
	sc, err := scope.New(list, scope.Rules{Allowed: []string{"new"}, MaxFiles: 10, MaxBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	spent := map[string]time.Duration{}
	timed := func(name string, step func() error) {
		begin := time.Now()
		if err := step(); err != nil {
			b.Fatal(name, err)
		}
		spent[name] += time.Since(begin)
	}
	ctx := context.Background()
	for b.Loop() {
		f := newFeed(base)
		f.hold()
		t := &tree{}
		if t.dir, err = s.directory(); err != nil {
			b.Fatal(err)
		}
		timed("layout", func() error { return s.fill(ctx, t, f) })
		timed("git", func() error { return s.writeGit(ctx, t.workspace(), t.workspace(), f, f.size()) })
		var p *sandbox.Process
		timed("start", func() error {
			p, err = box.Start(ctx, sandbox.Spec{Argv: []string{"/usr/bin/true"}, Env: sandbox.BaseEnv(), Workspace: t.workspace()})
			return err
		})
		timed("exec", func() error { <-p.Started(); return nil })
		timed("death", func() error { p.Wait(); return nil })
		timed("verify", func() error { _, err := sc.Verify(ctx, t.workspace()); return err })
		timed("remove", func() error { return os.RemoveAll(t.dir) })
		f.release()
	}
	for name, d := range spent {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N)/1000, strings.ReplaceAll(name, " ", "-")+"-ms")
	}
}

// worktreeFiles and worktreeBytes are the repository against which a second workspace is
// measured.
const (
	worktreeFiles = 50_000
	worktreeBytes = 1 << 10
)

// BenchmarkSecondWorkspace is a workspace of a base that was used before, from the wish
// for it to a program that runs in it, and its way out: what was written is walked, and
// it is removed. Beside it is git's way to a second tree of the same files, `git worktree
// add` and `git worktree remove`.
func BenchmarkSecondWorkspace(b *testing.B) {
	dir := benchDir(b)
	base := manyFiles(worktreeFiles, worktreeBytes)
	box := sandbox.NewBubblewrap(sandbox.Config{})
	l := New(Config{Sandbox: box, WorkDir: filepath.Join(dir, "work"), Layers: Layers{Dir: filepath.Join(dir, "layers")}})
	defer l.Close()
	if err := l.makeWorkDir(); err != nil {
		b.Fatal(err)
	}
	rules, err := scope.New(entries(base.Files), scope.Rules{Allowed: []string{"new"}, MaxFiles: 10, MaxBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	f := l.stock.feedOf(base)
	workspace := func() (ready, gone time.Duration) {
		begin := time.Now()
		t, err := l.stock.take(b.Context(), f, use{runner: true})
		if err != nil {
			b.Fatal(err)
		}
		p, err := box.Start(b.Context(), sandbox.Spec{Argv: []string{"/usr/bin/touch", "new"}, Env: sandbox.BaseEnv(), Workspace: t.workspace(), Layers: l.stock.shown(t)})
		if err != nil {
			b.Fatal(err)
		}
		select {
		case <-p.Started():
		case <-p.Done():
			b.Fatal(p.Wait().Err)
		}
		ready = time.Since(begin)
		p.Wait()
		begin = time.Now()
		if v, err := rules.VerifyAbove(b.Context(), sandbox.Upper(t.workspace())); err != nil || len(v.Changes) != 1 {
			b.Fatal(v.Changes, err)
		}
		l.stock.discardNow(t)
		return ready, time.Since(begin)
	}
	first, _ := workspace()
	repository := filepath.Join(dir, "repository")
	if err := scope.Materialise(b.Context(), repository, entries(base.Files), func(id string) ([]byte, error) { return f.get(b.Context(), id) }); err != nil {
		b.Fatal(err)
	}
	git := func(args ...string) time.Duration {
		begin := time.Now()
		args = append([]string{"-C", repository, "-c", "user.name=b", "-c", "user.email=b@example.com"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return time.Since(begin)
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "base")
	tree := filepath.Join(dir, "tree")
	var ready, gone, add, remove []time.Duration
	for b.Loop() {
		r, g := workspace()
		ready, gone = append(ready, r), append(gone, g)
		add, remove = append(add, git("worktree", "add", "-q", "--detach", tree)), append(remove, git("worktree", "remove", "--force", tree))
	}
	ms := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Microseconds()) / 1000
	}
	b.ReportMetric(float64(first.Milliseconds()), "ms/first")
	b.ReportMetric(ms(ready), "ms/second")
	b.ReportMetric(ms(gone), "ms/out")
	b.ReportMetric(ms(add), "ms/git-add")
	b.ReportMetric(ms(remove), "ms/git-remove")
	b.ReportMetric(ms(ready)/ms(add), "ratio")
}

// BenchmarkWarmCheck is the second run of a check whose caches the contract prepared,
// against the same command outside the sandbox with its own warm cache: a Go module of ten
// packages with a change in one of them.
func BenchmarkWarmCheck(b *testing.B) {
	argv := []string{"go", "test", "./..."}
	files := map[string]string{"go.mod": "module example.org/shop\n\ngo 1.24\n"}
	for n := range 10 {
		files[fmt.Sprintf("p%d/p.go", n)] = fmt.Sprintf("package p%d\n\nimport \"encoding/json\"\n\nvar JSON, _ = json.Marshal(%d)\n", n, n)
		files[fmt.Sprintf("p%d/p_test.go", n)] = fmt.Sprintf("package p%d\n\nimport \"testing\"\n\nfunc TestJSON(t *testing.T) {\n\tif len(JSON) == 0 {\n\t\tt.Fail()\n\t}\n}\n", n)
	}
	const changed = "package p0\n\nimport \"encoding/json\"\n\nvar JSON, _ = json.Marshal(\"changed\")\n"
	dir := benchDir(b)
	l := New(Config{
		Sandbox: sandbox.NewBubblewrap(sandbox.Config{}), WorkDir: filepath.Join(dir, "work"), Layers: Layers{Dir: filepath.Join(dir, "layers")},
		Now: func() int64 { return time.Now().UnixMilli() },
	})
	defer l.Close()
	id := scope.BlobID([]byte(changed))
	job := executor.CheckJob{
		World: "here", Base: baseOf(files), TreeID: strings.Repeat("e", 40), Contents: map[string][]byte{id: []byte(changed)},
		Diff:    kernel.Diff{Changes: []kernel.Change{{Path: "p0/p.go", Op: kernel.OpModify, AfterID: id, AfterMode: scope.ModeFile}}},
		Prepare: []kernel.Step{{Name: "warm", Argv: argv, TimeoutMs: 600_000}}, Checks: []kernel.Check{{Name: "test", Argv: argv, TimeoutMs: 600_000}},
	}
	check := func(n int) time.Duration {
		job.Run = fmt.Sprint("run-", n)
		begin := time.Now()
		r, err := l.Check(b.Context(), job)
		if err != nil {
			b.Fatal(err)
		}
		<-r.Done()
		if o := r.Outcome(); len(o.Violations) > 0 {
			b.Fatal(o.Violations, o.Tail)
		}
		return time.Since(begin)
	}
	out := filepath.Join(dir, "outside")
	write := func(name, text string) {
		at := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	outside := func(cache string) time.Duration {
		begin := time.Now()
		cmd := exec.CommandContext(b.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = out, append(os.Environ(), "GOCACHE="+cache, "GOFLAGS=", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
		return time.Since(begin)
	}
	first := check(0)
	warm := filepath.Join(dir, "cache")
	outside(warm)
	write("p0/p.go", changed)
	var in, plain []time.Duration
	for n := 1; b.Loop(); n++ {
		in = append(in, check(n))
		cache := filepath.Join(dir, fmt.Sprint("cache-", n)) // as it was before the change
		if err := os.CopyFS(cache, os.DirFS(warm)); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, outside(cache))
	}
	slices.Sort(in)
	slices.Sort(plain)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(first), "ms/first")
	b.ReportMetric(ms(in[len(in)/2]), "ms/second")
	b.ReportMetric(ms(plain[len(plain)/2]), "ms/outside")
	b.ReportMetric(ms(in[len(in)/2])/ms(plain[len(plain)/2]), "ratio")
}

// manyPrepared is how many files the preparation of BenchmarkPreparedMany leaves.
const manyPrepared = 100_000

// BenchmarkPreparedMany is a preparation that leaves many small files, as large trees of
// packages are: from the wish for a check to its outcome, the first time and again, against
// the same command outside the sandbox.
func BenchmarkPreparedMany(b *testing.B) {
	text := fmt.Sprintf("set -e; for d in $(seq %d); do mkdir -p ~/.cache/many/$d; cd ~/.cache/many/$d; seq 1000 | split -l 1 -a 3 -; done", manyPrepared/1000)
	dir := benchDir(b)
	l := New(Config{
		Sandbox: sandbox.NewBubblewrap(sandbox.Config{}), WorkDir: filepath.Join(dir, "work"), Layers: Layers{Dir: filepath.Join(dir, "layers")},
		Now: func() int64 { return time.Now().UnixMilli() },
	})
	defer l.Close()
	job := executor.CheckJob{
		World: "here", Base: baseOf(project), TreeID: strings.Repeat("e", 40), Checks: []kernel.Check{{Name: "test", Argv: []string{"/usr/bin/true"}, TimeoutMs: 600_000}},
	}
	runs := 0
	check := func(n int) time.Duration {
		job.Prepare = []kernel.Step{{Name: "many", Argv: []string{"/bin/sh", "-c", text + "; : " + fmt.Sprint(n)}, Keys: []string{"lock"}, TimeoutMs: 600_000}}
		job.Run = fmt.Sprint("run-", runs)
		runs++
		begin := time.Now()
		r, err := l.Check(b.Context(), job)
		if err != nil {
			b.Fatal(err)
		}
		<-r.Done()
		if o := r.Outcome(); len(o.Violations) > 0 {
			b.Fatal(o.Violations, o.Tail)
		}
		return time.Since(begin)
	}
	var first, again, plain []time.Duration
	for n := 0; b.Loop(); n++ {
		first = append(first, check(n))
		again = append(again, check(n))
		home := filepath.Join(dir, fmt.Sprint("home-", n))
		begin := time.Now()
		cmd := exec.CommandContext(b.Context(), "/bin/sh", "-c", text)
		if cmd.Env = append(os.Environ(), "HOME="+home); cmd.Run() != nil {
			b.Fatal("the command outside the sandbox failed")
		}
		plain = append(plain, time.Since(begin))
	}
	ms := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Milliseconds())
	}
	b.ReportMetric(ms(first), "ms/first")
	b.ReportMetric(ms(again), "ms/again")
	b.ReportMetric(ms(plain), "ms/outside")
	b.ReportMetric(ms(first)/ms(plain), "ratio")
}
