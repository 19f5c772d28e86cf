package supervisor

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// realClock is the machine's, for what really waits.
type realClock struct{ began time.Time }

func (c realClock) Now() lease.Clock {
	return lease.Clock{WallMs: time.Now().UnixMilli(), BootMs: 1_000_000 + time.Since(c.began).Milliseconds(), BootID: "boot"}
}

// moody is a disk whose server can't in turns: after so many pushes it fills, turns
// read-only, answers 403, or takes everything.
type moody struct {
	*gittest.Disk
	t      testing.TB
	mu     sync.Mutex // one push at a time: a disk that is written to can't be turned
	each   int        // pushes in a bad mood
	well   int        // pushes in a good one
	left   int        // moods until it is well for good
	pushes int
	turns  int
	next   int // pushes until the next turn
	mood   string
	seen   map[string]int // pushes that met a mood
	builds int            // of all tasks
}

// moods follow one another.
func moods() []string { return []string{"well", "full", "read-only", "forbidden", "declines"} }

func (m *moody) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.left > 0 && m.next == 0 {
			m.turn()
		}
		m.pushes, m.next = m.pushes+1, m.next-1
		m.seen[m.mood]++
		if m.mood == "forbidden" {
			next = gittest.Status(http.StatusForbidden, "We are down for maintenance.")(next)
		}
		next.ServeHTTP(w, q)
	})
}

// turn is the next mood.
func (m *moody) turn() {
	all := moods()
	m.left, m.turns, m.next = m.left-1, m.turns+1, m.each
	m.Drain(m.t)
	m.ReadOnly(m.t, false)
	hook := "exit 0"
	switch m.mood = all[m.turns%len(all)]; {
	case m.left == 0, m.mood == "well":
		m.mood, m.next = "well", m.well
	case m.mood == "declines":
		hook = "echo 'closed for a while' >&2; exit 1"
	}
	m.Run(m.t, "sh", "-c", `printf '#!/bin/sh\n%s\n' "$1" > "$0/hooks/pre-receive" && chmod +x "$0/hooks/pre-receive"`, m.Repo, hook)
	switch m.mood {
	case "full":
		m.Fill(m.t)
	case "read-only":
		m.ReadOnly(m.t, true)
	}
}

// soakOutages drives many tasks at once against such a server. Everything is finished by
// itself, and nothing is counted.
func soakOutages(t testing.TB, tasks, each, well, turns int) *moody {
	t.Helper()
	m := &moody{Disk: gittest.NewDisk(t), t: t, each: each, well: well, left: turns, seen: map[string]int{}}
	m.Run(t, "git", "-C", m.Repo, "config", "transfer.unpackLimit", "1")
	m.Run(t, "git", "-C", m.Repo, "config", "gc.auto", "0")
	base := gittest.NewBare(t)
	gittest.Commit(t, base, "refs/heads/main", "", map[string]string{"README": "hi\n"})
	gittest.Git(t, base, "push", "--quiet", m.URL, "main")
	exec := &fakeExecutor{}
	exec.build = func(job executor.BuildJob) (executor.BuildOutcome, error) {
		return writes(map[string]string{fmt.Sprintf("out%d.txt", job.Task): "hello\n"})(job)
	}
	p := place{
		url: m.URL, dir: t.TempDir(), terms: checkTerms, cfg: testConfig("soak"), clock: realClock{time.Now()}, obs: &lockedSightings{kept: keptSightings{}},
		exec: exec, issue: issueOf(1),
	}
	o, err := p.open(t.Context())
	must(t, err)
	t.Cleanup(o.close)
	m.Set(gittest.OnPush(m.handler))
	var all sync.WaitGroup
	for n := range int64(tasks) {
		task := o.task
		if n > 0 {
			task, err = o.sup.Open(t.Context(), n+1, issueOf(n+1))
			must(t, err)
		}
		all.Go(func() {
			if st, err := task.Drive(t.Context(), DriveOptions{Actor: "local:0:root"}); err != nil || st.Decision.State != kernel.TaskCompleted {
				t.Errorf("task %d: %s %s, %v", n+1, st.Decision.Standing, st.Decision.State, err)
			}
		})
	}
	all.Wait()
	for n := range tasks {
		ref := fmt.Sprintf("refs/writ/task/%d", n+1)
		r, err := replay.VerifyTask(t.Context(), o.repo, ref, replay.Options{Keys: []ssh.PublicKey{o.key}, World: p.cfg.World})
		if err != nil || !r.OK || r.State != kernel.TaskCompleted {
			t.Errorf("%s: %v\n%s", ref, err, r.Plain())
		}
		refs, err := o.repo.Refs(t.Context(), ref)
		must(t, err)
		head, err := o.repo.Commit(t.Context(), refs.OID(ref))
		must(t, err)
		if s := string(head.Message); !strings.Contains(s, "\nwrit-attempt: 1\n") || !strings.Contains(s, "\nwrit-interruptions: 0\n") {
			t.Errorf("%s counts: %s", ref, s)
		}
	}
	m.builds = len(exec.builds)
	for _, mood := range moods() {
		if m.seen[mood] == 0 {
			t.Errorf("no push met a server that is %s", mood)
		}
	}
	if out, lasts := o.sup.Outage(); lasts || m.left > 0 {
		t.Errorf("it is still unable: %+v, %d turns are left", out, m.left)
	}
	return m
}

// issueOf is one of several tasks, each with a file of its own.
func issueOf(n int64) *fixedIssue {
	i := sayHello()
	i.issue.Body = strings.ReplaceAll(i.issue.Body, "out.txt", fmt.Sprintf("out%d.txt", n))
	return i
}

// lockedSightings are shared by tasks that are driven at once.
type lockedSightings struct {
	mu   sync.Mutex
	kept keptSightings
}

func (l *lockedSightings) Load(ref string) (lease.Sighting, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.Load(ref)
}

func (l *lockedSightings) Save(o lease.Sighting) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.Save(o)
}

// TestG7_E8_SoakSmall: a disk that fills and turns read-only, and a server that answers
// 403 and declines, in turns; everything is finished.
func TestG7_E8_SoakSmall(t *testing.T) {
	t.Parallel()
	if m := soakOutages(t, 2, 1, 1, 5); m.builds != 2 {
		t.Errorf("%d builds for 2 tasks", m.builds)
	}
}

// BenchmarkSoakOutages is the same with more of everything. A builder whose lease can't
// be renewed for minutes is killed, so that there are more of them than tasks.
func BenchmarkSoakOutages(b *testing.B) {
	for range b.N {
		began := time.Now()
		m := soakOutages(b, 60, 2, 20, 26)
		b.ReportMetric(time.Since(began).Seconds(), "s/all")
		b.ReportMetric(float64(m.pushes), "pushes")
		b.ReportMetric(float64(m.builds), "builds")
		for mood, n := range m.seen {
			b.ReportMetric(float64(n), mood)
		}
	}
}
