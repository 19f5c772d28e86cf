package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local/localtest"
)

// BenchmarkServed is what a server needs for many tasks with a builder that does
// next to nothing, beside what one of them needs alone.
func BenchmarkServed(b *testing.B) {
	const tasks = 200
	for range b.N {
		env, started := countingSandbox(b)
		hook := localtest.FreeAddress(b)
		p := localtest.New(b, "http://"+hook+"/hooks/local")
		dir := b.TempDir()
		config := write(b, dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: 30s, drain: 20s, builds: 4, builds_per_world: 4}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
builders: {default: {argv: [sh, -c, 'echo hello > out.txt']}}
`, dir, hook, p.Dir, p.URL))
		server := start(b, append(env, "WRIT_LOCAL_TOKEN="+p.Token, "WRIT_LOCAL_HOOK_SECRET="+localtest.Secret), config)
		done := func(n int64) func() bool {
			return func() bool { return p.Issue(n).State == forge.Closed }
		}
		warm := p.File("default")
		p.Approve(warm)
		localtest.Until(b, time.Minute, "the server works", done(warm))

		began := time.Now()
		one := p.File("default")
		p.Approve(one)
		localtest.Until(b, time.Minute, "one task ends", done(one))
		alone := time.Since(began)

		var numbers []int64
		for range tasks {
			numbers = append(numbers, p.File("default"))
		}
		began = time.Now()
		for _, n := range numbers {
			p.Approve(n)
		}
		for _, n := range numbers {
			localtest.Until(b, 10*time.Minute, "all tasks end", done(n))
		}
		all := time.Since(began)
		b.ReportMetric(all.Seconds(), "s/all")
		b.ReportMetric(float64(all.Milliseconds())/tasks, "ms/task")
		b.ReportMetric(float64(alone.Milliseconds()), "ms/alone")
		b.ReportMetric(float64(started()-2), "builders")
		b.ReportMetric(peakMiB(b, server.Process.Pid), "MiB-peak")
	}
}

// peakMiB is the most memory that a process has had.
func peakMiB(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal("there is no peak in /proc")
	return 0
}
