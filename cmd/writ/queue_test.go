package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestQueue_SaysWhoWaits: a task for which there is no slot is listed with what it waits
// for and its place, is counted by the metric, and is gone from both once it has one.
func TestQueue_SaysWhoWaits(t *testing.T) {
	p := newForgePlace(t)
	p.more = ", builds: 1"
	p.want(exitRefused, "is not there", "queue", "--state-dir", p.state())
	p.want(exitUsage, "--state-dir is missing", "queue")
	s := p.serve()
	p.untilReady()
	p.want(exitDone, "build slots in use: 0 of 1; tasks that wait: 0", "queue", "--state-dir", p.state())
	first := p.File("waits")
	p.Approve(first)
	p.until("the first task is worked on", func() bool { return p.head(first) == "working" })
	second := p.File("waits")
	p.Approve(second)
	var q queued
	p.until("the second one waits", func() bool {
		exit, out := p.cli("queue", "--state-dir", p.state(), "--json")
		return exit == exitDone && json.Unmarshal([]byte(out), &q) == nil && q.Total == 1
	})
	want := queued{Kind: "queue", Builds: 1, Of: 1, Total: 1, Waiting: []queuedTask{{World: p.world(), Repository: "local/o/n", Task: second, Why: scheduler.WaitSlots, Place: 1}}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	p.want(exitDone, fmt.Sprintf("local/o/n#%d  slots: all build slots are in use (server.builds) (place 1)", second), "queue", "--state-dir", p.state())
	if n := p.metric(`writ_tasks_waiting{why="slots"}`); n != 1 {
		t.Errorf("the metric counts %v", n)
	}
	r, err := http.Get("http://" + p.hook + "/readyz")
	must(t, err)
	shown, err := io.ReadAll(r.Body)
	must(t, errors.Join(err, r.Body.Close()))
	if want := `"now":{"builds":1,"builds_of":1,"waiting":1,"waiting_for_build":1}`; !strings.Contains(string(shown), want) {
		t.Errorf("/readyz has no %s: %s", want, shown)
	}
	p.until("the second one says why", func() bool {
		return slices.ContainsFunc(p.BotComments(second), func(body string) bool {
			return strings.Contains(body, "waits for its turn") && strings.Contains(body, queueWords[scheduler.WaitSlots])
		})
	})
	must(t, os.WriteFile(p.gate(), nil, 0o600))
	p.until("both are done", func() bool { return p.head(first) == "completed" && p.head(second) == "completed" })
	p.until("nothing waits", func() bool { return p.metric(`writ_tasks_waiting{why="slots"}`) == 0 })
	s.end()
	p.want(exitOther, "No process runs", "queue", "--state-dir", p.state())
}

// TestQueue_KeepsARevision: what is asked of delivered work while there is no room for it is
// done when there is.
func TestQueue_KeepsARevision(t *testing.T) {
	p := newForgePlace(t)
	p.more = ", builds: 1"
	p.builders = "  adds: {argv: [sh, -c, 'echo hello >> out.txt']}\n"
	p.serve()
	done := p.File("adds")
	p.Approve(done)
	p.until("the first task completes", func() bool { return p.head(done) == "completed" && p.Issue(done).State == forge.Closed })
	busy := p.File("waits")
	p.Approve(busy)
	p.until("the other one is worked on", func() bool { return p.head(busy) == "working" })
	_, err := p.Maintainer.AddComment(t.Context(), p.Repo, done, "/writ fix Say it twice.")
	must(t, err)
	p.until("the revision waits", func() bool { return p.metric(`writ_tasks_waiting{why="slots"}`) == 1 })
	must(t, os.WriteFile(p.gate(), nil, 0o600))
	p.until("it is delivered", func() bool {
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
		if waitWords[q.Why] == "" {
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
