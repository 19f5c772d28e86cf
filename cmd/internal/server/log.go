package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/executor/scheduler"
)

// taskLog is a handler that adds to a line what is known of its task: the run of
// a task that is named, the task of a run that is named, and both of the task
// that the context is about. Beside a world's identity it puts what people call it.
type taskLog struct {
	slog.Handler
	runs *taskRuns
	has  lineIDs // of the attributes given with With
}

// lineIDs are the ids that a line bears.
type lineIDs struct {
	key scheduler.Key
	run string

	called bool // what people call the world stands in it
}

func (l *lineIDs) take(at slog.Attr) {
	switch at.Key {
	case installation.LogWorld:
		l.key.World = at.Value.String()
	case installation.LogTask:
		if at.Value.Kind() == slog.KindInt64 {
			l.key.Task = at.Value.Int64()
		}
	case installation.LogRun:
		l.run = at.Value.String()
	case installation.LogRepository:
		l.called = true
	}
}

// WithAttrs implements slog.Handler.
func (h taskLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, at := range attrs {
		h.has.take(at)
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler. What is in a group names no task.
func (h taskLog) WithGroup(name string) slog.Handler { return h.Handler.WithGroup(name) }

// Handle implements slog.Handler.
func (h taskLog) Handle(ctx context.Context, r slog.Record) error {
	has := h.has
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(at slog.Attr) bool {
		has.take(at)
		if at.Key != installation.LogRun || at.Value.String() != "" { // who says that there is none may not know it
			line.AddAttrs(at)
		}
		return true
	})
	about := has
	if about.key.Task == 0 && about.run != "" {
		about.key = h.runs.task(about.run)
	}
	if k, ok := ctx.Value(taskKey{}).(scheduler.Key); ok && about.key.Task == 0 {
		about.key = k
	}
	if name := h.runs.called(about.key.World); name != "" && !has.called {
		line.AddAttrs(slog.String(installation.LogRepository, name))
	}
	if about.key.Task == 0 {
		return h.Handler.Handle(ctx, line)
	}
	if has.key.World == "" && about.key.World != "" {
		line.AddAttrs(slog.String(installation.LogWorld, about.key.World))
	}
	if has.key.Task == 0 {
		line.AddAttrs(slog.Int64(installation.LogTask, about.key.Task))
	}
	if run := h.runs.run(about.key); has.run == "" && run != "" {
		line.AddAttrs(slog.String(installation.LogRun, run))
	}
	return h.Handler.Handle(ctx, line)
}

// taskKey is the key of a context's task.
type taskKey struct{}

// taskRuns remembers the newest run of each task.
type taskRuns struct {
	mu    sync.Mutex
	of    map[scheduler.Key]string
	tasks map[string]scheduler.Key
	order []string // runs, the oldest first

	names map[string]string // of worlds, as people call them
}

func newTaskRuns() *taskRuns {
	return &taskRuns{of: map[scheduler.Key]string{}, tasks: map[string]scheduler.Key{}, names: map[string]string{}}
}

func (t *taskRuns) called(world string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[world]
}

func (t *taskRuns) run(k scheduler.Key) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[k]
}

func (t *taskRuns) task(run string) scheduler.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tasks[run]
}
