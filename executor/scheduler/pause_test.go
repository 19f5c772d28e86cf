package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
)

// A paused world is not taken from, keeps its due times, and leaves the others
// alone; what runs in it goes on, and can be stopped.
func TestX5_APausedWorld(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		m := &machine{killed: make(chan struct{})}
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key() == key("w", 1) && b.count(j.Key()) == 1 {
				return m.hangs(10*time.Minute)(ctx, j)
			}
			return ends(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.s.Pause("w")
		b.mark(key("w", 2), key("v", 1))
		due, _ := b.mem.At(key("w", 2))
		b.pass(5 * time.Minute)
		if b.count(key("w", 2)) != 0 || b.count(key("v", 1)) != 1 {
			t.Errorf("paused: %d runs, the other world: %d", b.count(key("w", 2)), b.count(key("v", 1)))
		}
		if at, taken := b.mem.At(key("w", 2)); at != due || taken {
			t.Errorf("due at %d, was %d; taken %v", at, due, taken)
		}
		if len(b.s.Running()) != 1 {
			t.Errorf("running: %v", b.s.Running())
		}
		b.must(b.s.Stop(context.Background(), key("w", 1), "17", ""))
		<-m.killed
		b.pass(10 * time.Minute)
		b.s.Unpause("w")
		b.pass(time.Second)
		if b.count(key("w", 2)) != 1 || len(m.acts) != 1 {
			t.Errorf("after the pause: %d runs, %d acts", b.count(key("w", 2)), len(m.acts))
		}
	})
}

func TestX5_APauseOfEverything(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.s.Pause("")
		b.s.Pause("w")
		b.start()
		b.mark(key("w", 1), key("v", 1))
		b.pass(time.Minute)
		if n := len(b.served()); n != 0 {
			t.Errorf("%d runs", n)
		}
		b.s.Unpause("")
		b.pass(time.Second)
		if b.count(key("v", 1)) != 1 || b.count(key("w", 1)) != 0 {
			t.Errorf("runs: %v", b.served())
		}
	})
}

// A task that is in the middle of being taken when the pause comes is given
// back as it was.
func TestX5_APauseInTheMiddleOfATake(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.mem.SetFault(func(op string, _ scheduler.Key) error {
			if op == "Take" {
				<-time.After(2 * time.Second)
			}
			return nil
		})
		k := key("w", 1)
		b.mark(k)
		due, _ := b.mem.At(k)
		b.pass(time.Second)
		b.start()
		b.pass(time.Second)
		b.s.Pause("w")
		b.pass(time.Minute)
		if at, taken := b.mem.At(k); b.count(k) != 0 || taken || at != due {
			t.Errorf("%d runs, due %d, was %d; taken %v", b.count(k), at, due, taken)
		}
		b.s.Unpause("w")
		b.pass(5 * time.Second)
		if b.count(k) != 1 {
			t.Errorf("%d runs after the pause", b.count(k))
		}
	})
}

// source is a place where a pause is written down.
type source struct {
	p   atomic.Pointer[scheduler.Paused]
	err atomic.Pointer[error]
}

func (s *source) Paused(context.Context) (scheduler.Paused, error) {
	if err := s.err.Load(); err != nil {
		return scheduler.Paused{}, *err
	}
	if p := s.p.Load(); p != nil {
		return *p, nil
	}
	return scheduler.Paused{}, nil
}

// Each place where a pause is written down counts, is read before each take,
// and pauses everything while it can't be read.
func TestX5_PausesAreReadBeforeEachTake(t *testing.T) {
	one, two := &source{}, &source{}
	inBubble(t, scheduler.Options{Ticks: 1, Pauses: []scheduler.Pauses{one, two}}, func(b *bench) {
		b.start()
		n := int64(0)
		runs := func(what string, want int) {
			t.Helper()
			before := len(b.served())
			n++
			b.mark(key("w", n), key("v", n))
			b.pass(3 * time.Second)
			if n := len(b.served()) - before; n != want {
				t.Errorf("%s: %d runs, want %d", what, n, want)
			}
		}
		runs("not paused", 2)
		one.p.Store(&scheduler.Paused{Worlds: map[string]bool{"w": true}})
		runs("one world in one place", 1)
		two.p.Store(&scheduler.Paused{Worlds: map[string]bool{"v": true}})
		runs("the other in the other", 0)
		one.p.Store(nil)
		runs("one ended", 3)
		two.p.Store(nil)
		runs("both ended", 4)
		err := errors.New("permission denied")
		two.err.Store(&err)
		runs("unreadable", 0)
		two.err.Store(nil)
		runs("readable again", 4)
	})
}

func TestX5_ThePauseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pause")
	f := scheduler.PauseFile(path)
	for _, c := range []struct {
		name, text       string
		all, a, b, fails bool
	}{
		{name: "empty", text: "", all: true, a: true, b: true},
		{name: "only a comment", text: "# deploy\n\n", all: true, a: true, b: true},
		{name: "one world", text: "# deploy\n  forge/o/a \r\n", a: true},
		{name: "two worlds", text: "forge/o/a\nforge/o/b", a: true, b: true},
		{name: "a part of a name", text: "forge/o", a: false},
		{name: "too long", text: strings.Repeat("x", 2<<20), fails: true},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := f.Paused(context.Background())
		if (err != nil) != c.fails || p.All != c.all || p.Has("forge/o/a") != c.a || p.Has("forge/o/b") != c.b {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if p, err := f.Paused(context.Background()); err != nil || p.Any() {
		t.Errorf("no file: %+v, %v", p, err)
	}
	if _, err := scheduler.PauseFile(t.TempDir()).Paused(context.Background()); err == nil {
		t.Error("a directory was read")
	}
}
