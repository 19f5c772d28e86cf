package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
	"github.com/writbot/writ/kernel"
)

// machine is a fake builder of one task, and what its Driver was told.
type machine struct {
	killed chan struct{} // closed by the kill
	at     time.Time     // when
	acts   []scheduler.Act
}

// hangs is a task that holds a running builder while its own goroutine hangs in
// the network for so long, and obeys only then.
func (m *machine) hangs(d time.Duration) behaviour {
	return func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
		release, ok := j.Build(nil)
		if !ok {
			return scheduler.Result{}, nil
		}
		defer release()
		j.OnKill(func() { m.at = time.Now(); close(m.killed) })
		<-time.After(d) // no ctx: nothing reaches it
		return m.obeys(ctx, j)
	}
}

// obeys carries out the acts that wait and is over.
func (m *machine) obeys(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
	for {
		select {
		case o := <-j.Acts():
			m.acts = append(m.acts, o.Act)
			o.Done <- nil
		default:
			return scheduler.Result{Outcome: "waiting"}, nil
		}
	}
}

// A stop and a halt reach the builder within two seconds, although the task's
// own goroutine hangs and the store doesn't answer either.
func TestX5_StopReachesTheBuilderOfAHangingTask(t *testing.T) {
	for _, kind := range []string{kernel.ActStop, kernel.ActHalt} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, scheduler.Options{}, func(b *bench) {
				m := &machine{killed: make(chan struct{})}
				b.do(m.hangs(time.Hour))
				b.start()
				k := key("w", 1)
				b.mark(k)
				b.pass(time.Minute)
				b.mem.SetFault(func(op string, _ scheduler.Key) error {
					if op == "Add" {
						<-time.After(4 * time.Second)
					}
					return nil
				})
				asked := time.Now()
				b.must(b.s.Ask(context.Background(), k, kind, "17", "wrong branch"))
				select {
				case <-m.killed:
				default:
					t.Fatal("the builder runs on")
				}
				if d := m.at.Sub(asked); d > 2*time.Second {
					t.Errorf("killed after %s", d)
				}
				b.mem.SetFault(nil)
				if n := b.note(k); len(n.Acts) != 1 || n.Acts[0].Reason != "wrong branch" {
					t.Errorf("stored: %+v", n)
				}
				b.do(m.obeys)
				b.pass(2 * time.Hour)
				if len(m.acts) != 1 || m.acts[0].Kind != kind || m.acts[0].Actor != "17" {
					t.Errorf("the run was told %+v", m.acts)
				}
				if n := b.note(k); len(n.Acts) != 0 || n.Failures != 0 {
					t.Errorf("still remembered: %+v", n)
				}
			})
		})
	}
}

// A kill that hangs or panics holds up neither the act nor the others.
func TestX5_AKillThatHangsOrPanics(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, scheduler.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, func(b *bench) {
		free := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(free) })
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			j.OnKill(func() {
				if j.Key().Task == 1 {
					<-free
					return
				}
				panic("no such process")
			})
			if b.count(j.Key()) == 1 {
				o := <-j.Acts()
				o.Done <- nil
			}
			return ends(ctx, j)
		})
		b.start()
		b.mark(key("w", 1), key("w", 2))
		b.pass(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := b.s.Ask(ctx, key("w", 1), kernel.ActStop, "17", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a kill that hangs is answered %v", err)
		}
		if text := log.String(); !strings.Contains(text, "stored=true") || strings.Contains(text, "stored=false") {
			t.Errorf("the act is stored, and the log has %s", text)
		}
		b.must(b.s.Ask(context.Background(), key("w", 2), kernel.ActStop, "17", ""))
		b.pass(time.Second)
		for n := range int64(2) {
			if got := b.outcome(key("w", n+1)); got != "final" {
				t.Errorf("task %d: %q", n+1, got)
			}
		}
		b.pass(time.Minute)
	})
}

// An act on a task that nobody drives is stored, makes the task due at once,
// goes before the others, and is carried out once.
func TestX5_AnActOnATaskThatStandsStill(t *testing.T) {
	inBubble(t, scheduler.Options{DriveSlots: 1}, func(b *bench) {
		m := &machine{}
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if err := wait(ctx, time.Second); err != nil {
				return scheduler.Result{}, err
			}
			return m.obeys(ctx, j)
		})
		for n := range int64(100) {
			b.mark(key("w", n+1))
		}
		b.pass(time.Second)
		b.start()
		b.must(b.s.Ask(context.Background(), key("w", 500), kernel.ActStop, "17", "no"))
		b.pass(6500 * time.Millisecond)
		if len(m.acts) != 1 || m.acts[0] != (scheduler.Act{ID: m.acts[0].ID, Kind: kernel.ActStop, Actor: "17", Reason: "no"}) {
			t.Fatalf("after a few of a hundred turns it was told %+v", m.acts)
		}
		b.pass(time.Hour)
		if len(m.acts) != 1 {
			t.Errorf("told %d times", len(m.acts))
		}
	})
}

// An act is kept until it is carried out: over an error, over a run that came
// to nothing, and over the death of the process.
func TestX5_AnActIsKeptUntilItIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := schedulertest.NewMemory()
		k := key("w", 1)
		b := newBench(t, mem, scheduler.Options{})
		told := 0
		b.do(func(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
			told++
			if o := <-j.Acts(); told == 1 {
				o.Done <- errors.New("the ledger is away")
			}
			return scheduler.Result{Outcome: "waiting"}, nil
		})
		b.start()
		b.must(b.s.Ask(context.Background(), k, kernel.ActStop, "17", ""))
		b.pass(10 * time.Second)
		if n := b.note(k); told < 3 || told > 6 || n.Failures != told || len(n.Acts) != 1 {
			t.Errorf("told %d times, remembered %+v", told, n)
		}
		b.stop()
		mem.Restart()

		m := &machine{}
		b = newBench(t, mem, scheduler.Options{})
		b.do(m.obeys)
		b.start()
		b.pass(time.Hour)
		if len(m.acts) != 1 {
			t.Errorf("the next process was told %+v", m.acts)
		}
		if n := b.note(k); n.Failures != 0 || len(n.Acts) != 0 {
			t.Errorf("remembered: %+v", n)
		}
	})
}

// An act that is carried out before it is stored is not carried out again.
func TestX5_CarriedOutBeforeItIsStored(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		m := &machine{}
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if len(m.acts) == 0 {
				o := <-j.Acts()
				m.acts = append(m.acts, o.Act)
				o.Done <- nil
			}
			return m.obeys(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.mem.SetFault(func(op string, _ scheduler.Key) error {
			if op == "Add" {
				<-time.After(3 * time.Second)
			}
			return nil
		})
		b.must(b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", ""))
		b.pass(time.Hour)
		if len(m.acts) != 1 {
			t.Errorf("carried out %d times", len(m.acts))
		}
	})
}

// A store that can't take the act says so; the builder is dead all the same.
func TestX5_AnActThatCantBeStored(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		m := &machine{killed: make(chan struct{})}
		b.do(m.hangs(time.Minute))
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		full := errors.New("no space left")
		b.mem.SetFault(func(op string, _ scheduler.Key) error {
			if op == "Add" {
				return full
			}
			return nil
		})
		if err := b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", ""); !errors.Is(err, full) {
			t.Errorf("answered %v", err)
		}
		select {
		case <-m.killed:
		default:
			t.Error("the builder runs on")
		}
		b.pass(2 * time.Minute)
		if len(m.acts) != 1 {
			t.Errorf("the run was told %+v", m.acts)
		}
	})
}

// More acts than a run is handed are kept for the next.
func TestX5_ManyActs(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		m := &machine{killed: make(chan struct{}, 100)}
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			<-time.After(time.Minute)
			return m.obeys(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		for range 40 {
			b.must(b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", ""))
		}
		b.pass(20 * time.Minute)
		if len(m.acts) != 40 || len(b.note(key("w", 1)).Acts) != 0 {
			t.Errorf("%d acts carried out, %d left", len(m.acts), len(b.note(key("w", 1)).Acts))
		}
	})
}
