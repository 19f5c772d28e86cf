package builder

import (
	"context"
	"fmt"
	"os"
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
			l.Prepare("default", base)
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
		timed("git", func() error { return s.writeGit(ctx, t, f) })
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
