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
