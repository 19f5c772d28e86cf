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

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server"
	"github.com/writbot/writ/executor/scheduler"
)

// TestQueue_SaysWhoWaits: a task for which there is no slot is listed with what it waits
// for and its place, is counted by the metric, and is gone from both once it has one.
func TestQueue_SaysWhoWaits(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.More = ", builds: 1"
	p.want(problem.ExitRefused, "is not there", "queue", "--state-dir", p.State())
	p.want(problem.ExitUsage, "--state-dir is missing", "queue")
	s := p.Serve()
	p.UntilReady()
	p.want(problem.ExitDone, "build slots in use: 0 of 1; tasks that wait: 0", "queue", "--state-dir", p.State())
	first := p.File("waits")
	p.Approve(first)
	p.Until("the first task's builder runs", func() bool { return strings.Contains(s.Log.String(), "builder waits started") })
	second := p.File("waits")
	p.Approve(second)
	var q server.Queue
	p.Until("the second one waits", func() bool {
		exit, out := p.cli("queue", "--state-dir", p.State(), "--json")
		return exit == problem.ExitDone && json.Unmarshal([]byte(out), &q) == nil && q.Total == 1 && q.Waiting[0].Why == scheduler.WaitSlots
	})
	want := server.Queue{Kind: "queue", Builds: 1, Of: 1, Total: 1, Waiting: []server.QueuedTask{{World: p.World(), Repository: "local/o/n", Task: second, Why: scheduler.WaitSlots, Place: 1}}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	// A look that takes some seconds says meanwhile that it waits for the server.
	p.Until("the command shows it", func() bool {
		exit, out := p.cli("queue", "--state-dir", p.State())
		return exit == problem.ExitDone && strings.Contains(out, fmt.Sprintf("local/o/n#%d  slots: all build slots are in use (server.builds) (place 1)", second))
	})
	p.Until("the metric counts it", func() bool { return p.Metric(`writ_tasks_waiting{why="slots"}`) == 1 })
	p.Until("/readyz counts it", func() bool {
		r, err := http.Get("http://" + p.Hook + "/readyz")
		must(t, err)
		shown, err := io.ReadAll(r.Body)
		must(t, errors.Join(err, r.Body.Close()))
		return strings.Contains(string(shown), `"now":{"builds":1,"builds_of":1,"waiting":1,"waiting_for_build":1}`)
	})
	p.Until("the second one says why", func() bool {
		return slices.ContainsFunc(p.BotComments(second), func(body string) bool {
			return strings.Contains(body, "waits for its turn") && strings.Contains(body, server.QueueWords[scheduler.WaitSlots])
		})
	})
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	p.Until("both are done", func() bool { return p.Head(first) == "completed" && p.Head(second) == "completed" })
	p.Until("nothing waits", func() bool { return p.Metric(`writ_tasks_waiting{why="slots"}`) == 0 })
	s.End()
	p.want(problem.ExitOther, "No process runs", "queue", "--state-dir", p.State())
}
