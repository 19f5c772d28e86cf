package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
)

// actLogs asks a running server for the newest output of what runs of a task.
const actLogs = "logs"

const (
	// followEvery is how soon a follower sees a new line.
	followEvery = 300 * time.Millisecond
	// What is kept of a running task's output, and what one answer has of it.
	maxKeptLines, maxKeptBytes = 1000, 256 << 10
)

// tailed is the answer.
type tailed struct {
	Kind  string   `json:"kind"`   // "logs"
	Runs  bool     `json:"runs"`   // the server works on the task
	RunID string   `json:"run_id"` // "" where that isn't known yet
	Lines []string `json:"lines"`  // that follow those asked for before
	Next  int64    `json:"next"`   // to ask for what follows these
	Lost  int64    `json:"lost"`   // lines before them that aren't kept any more
}

func (a *app) logsCommand() *cobra.Command {
	var w whereFlags
	var follow bool
	cmd := &cobra.Command{
		Use: "logs N --state-dir DIR", Short: "What the builder or the checks of a running task print", Args: cobra.ExactArgs(1),
		Long: `Logs shows the newest output of the builder or the checks of task N, while a server works
on it: both streams, as they come, without secrets and control characters. A flood of
short lines is shown in part. Of what has ended, the report on the issue has the end.`,
		Example: "  writ logs 12 --state-dir /var/lib/writ/state --follow",
	}
	cmd.Flags().StringVar(&w.state, "state-dir", "", "state directory of the server")
	cmd.Flags().StringVar(&w.world, "world", "", "the repository, by its name or its identity, for a server with several")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until nothing of the task runs")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := argNumber(args[0])
		if err != nil {
			return err
		}
		if w.state == "" {
			return usage("--state-dir is missing: give the server's.")
		}
		if err := pathFlag("state-dir", w.state); err != nil {
			return err
		}
		return a.showLogs(ctx, w, number, follow)
	})
	return cmd
}

func (a *app) showLogs(ctx context.Context, w whereFlags, number int64, follow bool) error {
	dir, err := openState(w.state, false)
	if err != nil {
		return err
	}
	world := dir.lastUse().meant(w.world)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for next, first := int64(0), true; ; first = false {
		t, err := a.askLogs(ctx, dir, request{Act: actLogs, World: world, Task: number, Next: next})
		switch {
		case err != nil:
			return err
		case first && !t.Runs:
			return &problem{exit: exitOther, text: "Nothing of task " + strconv.FormatInt(number, 10) + " runs now.",
				remedy: "`writ task show` and the issue say how it stands; the report has the end of the output, where something failed."}
		}
		if t.Lost > 0 && !first {
			a.print("… %d lines left out\n", t.Lost)
		}
		for _, line := range t.Lines {
			a.print("%s\n", a.redactor.String(line))
		}
		if next = t.Next; !follow || !t.Runs {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *app) askLogs(ctx context.Context, dir *stateDir, r request) (t tailed, err error) {
	busy := func() bool { return errors.As(dir.probe(), new(*problem)) }
	if !busy() {
		return t, &problem{exit: exitOther, text: "No process runs with the state directory " + dir.path + ", so nothing of its tasks does.", remedy: "`writ serve` starts the server."}
	}
	r.Actor, r.Time = a.localActor(), time.Now().UnixMilli()
	ans, err := dir.ask(ctx, r, func() bool { return !busy() })
	switch {
	case errors.Is(err, errUnheard):
		return t, coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", answerTime)
	case err != nil:
		return t, err
	case !ans.OK:
		return t, ans.problem("Only a server (`writ serve`) keeps what its builders print; writ task run prints it itself.")
	}
	return t, json.Unmarshal([]byte(ans.Said), &t)
}

// maxEndedTails is of how many tasks that ended last the output is kept, for who follows
// one to read its end.
const maxEndedTails = 16

// taskTails keep the newest output of the tasks that are worked on. The zero value is
// ready.
type taskTails struct {
	mu    sync.Mutex
	of    map[scheduler.Key]*taskTail
	ended []scheduler.Key // the one that ended first comes first
}

type taskTail struct {
	lines []string
	bytes int
	first int64 // number of the oldest line that is kept
	over  bool
}

// begin keeps what a task prints from now on, until the returned function is called.
func (t *taskTails) begin(k scheduler.Key) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[scheduler.Key]*taskTail{}
	}
	kept := &taskTail{}
	t.of[k] = kept
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		kept.over = true
		if t.of[k] == kept {
			t.endedLast(k)
		}
	}
}

// endedLast keeps a task's output a while longer, and forgets that of another; t.mu is held.
func (t *taskTails) endedLast(k scheduler.Key) {
	t.ended = append(slices.DeleteFunc(t.ended, func(o scheduler.Key) bool { return o == k }), k)
	for len(t.ended) > maxEndedTails {
		if old := t.of[t.ended[0]]; old != nil && old.over {
			delete(t.of, t.ended[0])
		}
		t.ended = t.ended[1:]
	}
}

// add takes a line, which is redacted already. The oldest ones go.
func (t *taskTails) add(k scheduler.Key, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.of[k]
	if kept == nil || kept.over {
		return
	}
	kept.lines, kept.bytes = append(kept.lines, line), kept.bytes+len(line)
	for len(kept.lines) > maxKeptLines || kept.bytes > maxKeptBytes {
		kept.bytes -= len(kept.lines[0])
		kept.lines, kept.first = kept.lines[1:], kept.first+1
	}
}

// since are the lines from a number on.
func (t *taskTails) since(k scheduler.Key, next int64) tailed {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := tailed{Kind: actLogs, Lines: []string{}, Next: next}
	kept := t.of[k]
	if kept == nil {
		return out
	}
	end := kept.first + int64(len(kept.lines))
	if next > end { // of an earlier look at the task
		next = 0
	}
	from := max(next, kept.first)
	out.Runs, out.Lost, out.Next = !kept.over, from-next, end
	out.Lines = append(out.Lines, slices.Clone(kept.lines[from-kept.first:])...)
	return out
}

// tellLogs answers the request for them.
func (s *server) tellLogs(w *served, r request) answer {
	k := scheduler.Key{World: w.world, Task: r.Task}
	out := s.tails.since(k, max(r.Next, 0))
	out.RunID = s.runs.run(k)
	data, err := json.Marshal(out)
	if err != nil {
		return refusal(err)
	}
	return answer{OK: true, Said: string(data)}
}
