package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// What a start is to take, however much was recorded before.
const (
	liveGoal  = time.Second
	readyGoal = 2 * time.Second
)

// BenchmarkStart10000 is a whole server's start, from its process to /healthz and /readyz,
// beside that of the same server with one task: with a ledger of 10,000 tasks, 160 records
// each, of which a server before saved what they fold to. It ended in order, or was killed,
// after which the database looks at its whole file.
func BenchmarkStart10000(b *testing.B) {
	const tasks, each = 10_000, 160
	hook := localtest.FreeAddress(b)
	p := localtest.New(b, "http://"+hook+"/hooks/local")
	dir := b.TempDir()
	config := write(b, dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: 30s, drain: 20s}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
builders: {default: {argv: [sh, -c, 'echo hello > out.txt']}}
`, dir, hook, p.Dir, p.URL))
	env := []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret}
	begin := func() (cmd *exec.Cmd, live, ready time.Duration) {
		cmd, _ = command(b, env, "serve", "--config", config)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		until(b, "http://"+hook+"/healthz")
		live = time.Since(began)
		until(b, "http://"+hook+"/readyz")
		return cmd, live, time.Since(began)
	}
	end := func(cmd *exec.Cmd, how syscall.Signal) {
		if err := cmd.Process.Signal(how); err != nil {
			b.Fatal(err)
		}
		if exit := ended(b, cmd.Wait()); exit != 0 && how == syscall.SIGTERM {
			b.Fatalf("writ serve ended with %d", exit)
		}
	}
	cmd, _, _ := begin()
	n := p.File("default")
	p.Approve(n)
	localtest.Until(b, time.Minute, "one task ends", func() bool { return p.Issue(n).State == forge.Closed })
	end(cmd, syscall.SIGTERM)
	cmd, floorLive, floorReady := begin()
	end(cmd, syscall.SIGTERM)
	grow(b, filepath.Join(dir, "state"), n, tasks, each)
	ms := func(d time.Duration) float64 { return float64(d.Milliseconds()) }
	for range b.N {
		cmd, live, ready := begin()
		end(cmd, syscall.SIGKILL)
		cmd, liveKilled, readyKilled := begin()
		end(cmd, syscall.SIGTERM)
		b.ReportMetric(ms(live), "ms-live")
		b.ReportMetric(ms(ready), "ms-ready")
		b.ReportMetric(ms(liveKilled), "ms-live-killed")
		b.ReportMetric(ms(readyKilled), "ms-ready-killed")
		if live > liveGoal || ready > readyGoal {
			b.Logf("beyond the goal of %s and %s", liveGoal, readyGoal)
		}
	}
	b.ReportMetric(ms(floorLive), "ms-live-one")
	b.ReportMetric(ms(floorReady), "ms-ready-one")
	info, err := os.Stat(filepath.Join(dir, "state", ledger.FileName))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB-store")
}

// until asks a page until it says yes.
func until(b *testing.B, url string) {
	b.Helper()
	localtest.Until(b, 5*time.Minute, url, func() bool {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close() // nothing is read of it
		return res.StatusCode == http.StatusOK
	})
}

// grow makes of a stopped server's ledger one of many tasks that are done: records of the
// task that it had, again and again, and what is saved of them.
func grow(b *testing.B, state string, done, tasks, each int64) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.Background()
	key, err := instancekey.Load(state)
	must(err)
	s, err := ledger.Open(ctx, filepath.Join(state, ledger.FileName), key, ledger.Options{})
	must(err)
	worlds, err := s.Worlds(ctx)
	must(err)
	l, err := s.World(ctx, worlds[0])
	must(err)
	var drafts []kernel.Draft
	for r, err := range l.RecordsOfTask(ctx, done) {
		must(err)
		drafts = append(drafts, kernel.Draft{Kind: r.Kind, Run: r.Run, Body: r.Body})
	}
	file := filepath.Join(state, "folded-"+canon.Sum([]byte(worlds[0])).Hex()[:16])
	doc, err := os.ReadFile(file)
	must(err)
	_, folded, err := ledger.OpenMark(doc, key.Public)
	must(err)
	saved, err := supervisor.DecodeSaved(folded)
	must(err)
	one, beside := saved.World.Archived[0], &saved.World.Beside
	audit, approved, pushed := beside.Audit[0], beside.Approved[0], beside.Pushed[0]
	for task := done + 1; task < done+tasks; task++ {
		all := make([]kernel.Draft, each)
		for i := range all {
			all[i] = drafts[i%len(drafts)]
			all[i].Task = task
		}
		_, err := l.Write(ctx, 0, all...)
		must(err)
		if task%100 == 0 {
			_, err = l.Checkpoint(ctx)
			must(err)
		}
		next := *one
		next.Number = task
		saved.World.Archived = append(saved.World.Archived, &next)
		audit.Task, approved.Task, pushed.Task = task, task, task
		beside.Audit, beside.Approved, beside.Pushed = append(beside.Audit, audit), append(beside.Approved, approved), append(beside.Pushed, pushed)
	}
	note, err := l.Checkpoint(ctx)
	must(err)
	must(ledger.WriteCheckpoint(ledger.CheckpointFile(state, worlds[0]), note))
	mark, err := l.Mark()
	must(err)
	saved.World.Head, saved.World.RecordTime = mark.Head, mark.Time
	folded, err = saved.Encode()
	must(err)
	doc, err = mark.Sign(key, folded)
	must(err)
	must(os.WriteFile(file, doc, 0o600))
	must(s.Close())
}
