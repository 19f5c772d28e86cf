package server

import (
	"slices"
	"sync"

	"github.com/writbot/writ/executor/scheduler"
)

// ActLogs asks a running server for the newest output of what runs of a task.
const ActLogs = "logs"

// LogLines is the answer.
type LogLines struct {
	Kind  string   `json:"kind"`   // "logs"
	Runs  bool     `json:"runs"`   // the server works on the task
	RunID string   `json:"run_id"` // "" where that isn't known yet
	Lines []string `json:"lines"`  // that follow those asked for before
	Next  int64    `json:"next"`   // to ask for what follows these
	Lost  int64    `json:"lost"`   // lines before them that aren't kept any more
}

// What is kept of a running task's output, and what one answer has of it.
const maxKeptLines, maxKeptBytes = 1000, 256 << 10

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
func (t *taskTails) since(k scheduler.Key, next int64) LogLines {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := LogLines{Kind: ActLogs, Lines: []string{}, Next: next}
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
