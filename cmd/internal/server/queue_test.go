package server

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestQueue_KeepsARevision: what is asked of delivered work while there is no room for it is
// done when there is.
func TestQueue_KeepsARevision(t *testing.T) {
	p := newServerPlace(t)
	p.More = ", builds: 1"
	p.Builders = "  adds: {argv: [sh, -c, 'echo hello >> out.txt']}\n"
	p.Serve()
	done := p.File("adds")
	p.Approve(done)
	p.Until("the first task completes", func() bool { return p.Head(done) == "completed" && p.Issue(done).State == forge.Closed })
	busy := p.File("waits")
	p.Approve(busy)
	p.Until("the other one is worked on", func() bool { return p.Head(busy) == "working" })
	_, err := p.Maintainer.AddComment(t.Context(), p.Repo, done, "/writ fix Say it twice.")
	must(t, err)
	p.Until("the revision waits", func() bool { return p.Metric(`writ_tasks_waiting{why="slots"}`) == 1 })
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	p.Until("it is delivered", func() bool {
		return strings.Count(gittest.Git(t, p.Store.GitDir(p.Repo.ID), "show", fmt.Sprintf("writ/change/%d:out.txt", done)), "hello") == 2
	})
}

// TestQueue_WhatIsLookedAtLater: a task that the forge's limits, another runner or a
// back-off keep is listed until it is looked at again; one that waits for a person isn't.
func TestQueue_WhatIsLookedAtLater(t *testing.T) {
	s := &server{sched: new(scheduler.Scheduler), runs: newTaskRuns()}
	s.runs.call("w", "o/n")
	const at = 1_800_000_000_000
	for i, outcome := range []string{outcomeLimited, outcomeUnable, string(kernel.StandDue), string(kernel.StandHeld), string(kernel.StandWaiting), string(kernel.StandFinal)} {
		s.waits.note(scheduler.Key{World: "w", Task: int64(i + 1)}, scheduler.Result{Outcome: outcome, Next: at})
	}
	s.waits.note(scheduler.Key{World: "w", Task: 9}, scheduler.Result{Outcome: string(kernel.StandDue)})
	var got []string
	for _, q := range s.waiting() {
		got = append(got, fmt.Sprintf("%s#%d %s %s", q.Repository, q.Task, q.Why, q.Until))
		if WaitWords[q.Why] == "" {
			t.Errorf("%s isn't explained", q.Why)
		}
	}
	until := kernel.Timestamp(at / 1000)
	want := []string{"o/n#1 limits " + until, "o/n#2 server " + until, "o/n#3 back-off " + until, "o/n#4 held " + until}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.waits.note(scheduler.Key{World: "w", Task: 1}, scheduler.Result{})
	if n := s.waitingFor(waitLimits); n != 0 {
		t.Errorf("looked at again, %d wait", n)
	}
}
