package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
	"github.com/writbot/writ/webhook/inbox"
)

// overInbox is the durable schedule that a server uses.
type overInbox struct{ in *inbox.Inbox }

func row(k scheduler.Key) inbox.Key { return inbox.Key{World: k.World, Task: k.Task} }

func (o overInbox) Due(ctx context.Context, now int64, limit int) ([]scheduler.Key, error) {
	due, err := o.in.Due(ctx, now, limit)
	keys := make([]scheduler.Key, 0, len(due))
	for _, d := range due {
		keys = append(keys, scheduler.Key{World: d.Key.World, Task: d.Key.Task})
	}
	return keys, err
}

func (o overInbox) Next(ctx context.Context) (int64, bool, error) { return o.in.Next(ctx) }

func (o overInbox) Take(ctx context.Context, k scheduler.Key) (scheduler.Ticket, bool, error) {
	t, ok, err := o.in.Take(ctx, row(k))
	return scheduler.Ticket{Key: k, Generation: t.Generation, Due: t.DueMs}, ok, err
}

func (o overInbox) Done(ctx context.Context, t scheduler.Ticket, next int64) error {
	err := o.in.Done(ctx, inbox.Ticket{Key: row(t.Key), Generation: t.Generation, DueMs: t.Due}, next)
	if errors.As(err, new(*inbox.Error)) {
		return nil // given back before
	}
	return err
}

func (o overInbox) Mark(ctx context.Context, k scheduler.Key, at int64) error {
	return o.in.Mark(ctx, []inbox.Key{row(k)}, at)
}

func (o overInbox) Hasten(ctx context.Context, now, until int64) error {
	return o.in.Hasten(ctx, now, until)
}

func (o overInbox) Wake() <-chan struct{} { return o.in.Wake() }

func (o overInbox) Load(ctx context.Context, k scheduler.Key) (scheduler.Note, error) {
	n, err := o.in.Note(ctx, row(k))
	note := scheduler.Note{Failures: n.Failures}
	for _, a := range n.Acts {
		note.Acts = append(note.Acts, scheduler.Act(a))
	}
	return note, err
}

func (o overInbox) Add(ctx context.Context, k scheduler.Key, a scheduler.Act) error {
	return o.in.AddAct(ctx, row(k), inbox.Act(a))
}

func (o overInbox) Settle(ctx context.Context, k scheduler.Key, failures int, carried []string) error {
	return o.in.Settle(ctx, row(k), failures, carried)
}

func openInbox(t *testing.T) overInbox {
	t.Helper()
	db, err := store.Open(context.Background(), filepath.Join(t.TempDir(), store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return overInbox{inbox.New(db)}
}

func TestInbox(t *testing.T) {
	schedulertest.Exercise(t, func(t *testing.T) schedulertest.Store { return openInbox(t) })
}

// once runs each task one time and closes full when all have been.
type once struct {
	mu   sync.Mutex
	ran  map[scheduler.Key]int
	want int
	full chan struct{}
}

func (o *once) Drive(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
	release, ok := j.Build([]string{fmt.Sprintf("d%d/**", j.Key().Task%5)})
	if !ok {
		return scheduler.Result{Outcome: "due"}, nil
	}
	defer release()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ran[j.Key()]++
	if len(o.ran) == o.want {
		o.want = 0
		close(o.full)
	}
	return scheduler.Result{Outcome: "final", Ended: true}, nil
}

// Two hundred tasks of twenty worlds over the real store, in real time: each is
// driven once, and its row says so.
func TestX8_TwoHundredTasksOverTheRealStore(t *testing.T) {
	const worlds, tasks = 20, 10
	s := openInbox(t)
	o := &once{ran: map[scheduler.Key]int{}, want: worlds * tasks, full: make(chan struct{})}
	sched, err := scheduler.New(s, s, o, scheduler.Options{NewID: func() string { return "1" }})
	if err != nil {
		t.Fatal(err)
	}
	var keys []inbox.Key
	for w := range worlds {
		for n := range tasks {
			keys = append(keys, inbox.Key{World: fmt.Sprintf("forge.example/o/r%d", w), Task: int64(n + 1)})
		}
	}
	if err := s.in.Mark(context.Background(), keys, time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan []scheduler.Key)
	begun := time.Now()
	go func() { left <- sched.Run(ctx) }()
	<-o.full
	t.Logf("%d tasks in %s", worlds*tasks, time.Since(begun))
	cancel()
	if l := <-left; len(l) > 0 {
		t.Errorf("left: %v", l)
	}
	for k, n := range o.ran {
		if n != 1 {
			t.Errorf("%s was driven %d times", k, n)
		}
	}
	if rows, err := s.in.Scheduled(context.Background(), ""); err != nil || len(rows) > 0 {
		t.Errorf("still scheduled: %v, %v", rows, err)
	}
}
