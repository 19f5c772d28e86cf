package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/store"
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
		s := storeSize(b, filepath.Join(dir, "state", store.FileName))
		const ended = tasks + 2
		b.ReportMetric(float64(s.file)/ended/1000, "kB-store/task")
		b.ReportMetric(float64(s.ledger)/ended/1000, "kB-ledger/task")
		b.ReportMetric(float64(s.pushed)/ended/1000, "kB-pushed/task")
		b.ReportMetric(float64(s.records)/ended, "records/task")
	}
}

// BenchmarkStop is how long a builder lives after a maintainer's `/writ stop` on the embedded
// forge, whose webhook tells of it, beside one whose sandbox is killed by hand.
func BenchmarkStop(b *testing.B) {
	hook := localtest.FreeAddress(b)
	p := localtest.New(b, "http://"+hook+"/hooks/local")
	dir, mark := b.TempDir(), fmt.Sprintf("%d.25", 100_000+os.Getpid()) // seconds that nobody else sleeps
	config := write(b, dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: 30s, drain: 20s}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
builders: {default: {argv: [sleep, '%s']}}
`, dir, hook, p.Dir, p.URL, mark))
	start(b, []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret}, config)
	var stopped, killed time.Duration
	for b.Loop() {
		for _, byHand := range []bool{false, true} {
			n := p.File("default")
			p.Approve(n)
			var pids []int
			localtest.Until(b, time.Minute, "the builder runs", func() bool { pids = sleeping(b, mark); return len(pids) > 0 })
			began := time.Now()
			if byHand {
				if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
					b.Fatal(err)
				}
			} else if _, err := p.Maintainer.AddComment(b.Context(), p.Repo, n, "/writ stop"); err != nil {
				b.Fatal(err)
			}
			localtest.Until(b, time.Minute, "the builder is gone", func() bool { return len(sleeping(b, mark)) == 0 })
			if took := time.Since(began); byHand {
				killed += took
				_, err := p.Maintainer.AddComment(b.Context(), p.Repo, n, "/writ stop") // it would be tried again
				if err != nil {
					b.Fatal(err)
				}
			} else {
				stopped += took
			}
		}
	}
	b.ReportMetric(float64(stopped.Milliseconds())/float64(b.N), "ms/stop")
	b.ReportMetric(float64(killed.Milliseconds())/float64(b.N), "ms/kill")
	b.ReportMetric(float64(stopped)/float64(killed), "ratio")
}

// sleeping are the processes that sleep so long, outermost first.
func sleeping(b *testing.B, seconds string) (pids []int) {
	b.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range list {
		if line, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(line), "sleep\x00"+seconds+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				b.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// stored is what a server's store takes, in bytes.
type stored struct {
	file    int64 // of a copy, which has no room to spare
	ledger  int64 // records as they are stored
	pushed  int64 // what is pushed again where a forge loses it, for 14 days
	records int64
}

// storeSize looks at a store beside its server.
func storeSize(b *testing.B, path string) (s stored) {
	b.Helper()
	db, err := store.OpenReadOnly(b.Context(), path, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }() // it was only read
	err = db.View(b.Context(), func(q store.Queries) error {
		_, err := q.Row(`SELECT (SELECT coalesce(sum(octet_length(raw) + octet_length(nodes)), 0) FROM records) + (SELECT coalesce(sum(octet_length(data) + octet_length(nodes)), 0) FROM segments),
			(SELECT coalesce(sum(octet_length(moves) + octet_length(pack)), 0) FROM pushed), (SELECT head_seq + 1 FROM worlds)`,
			nil, &s.ledger, &s.pushed, &s.records)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	copied := filepath.Join(b.TempDir(), "copy")
	if err := db.Backup(b.Context(), copied); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(copied)
	if err != nil {
		b.Fatal(err)
	}
	s.file = info.Size()
	return s
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
