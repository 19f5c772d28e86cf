package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
)

// starts counts what got a build slot.
type starts struct {
	mu sync.Mutex
	n  map[scheduler.Key]int
}

func (s *starts) of(k scheduler.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[k]
}

func (s *starts) all() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.n {
		n += one
	}
	return n
}

// start asks for a build slot and ends.
func (s *starts) start(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	release, ok := j.Build(nil)
	if !ok {
		return scheduler.Result{Outcome: "due"}, nil
	}
	defer release()
	s.mu.Lock()
	s.n[j.Key()]++
	s.mu.Unlock()
	return ends(ctx, j)
}

func newStarts(b *bench) *starts {
	s := &starts{n: map[scheduler.Key]int{}}
	b.do(s.start)
	return s
}

// Nothing of a paused world is started, and the others are left alone. Its tasks are
// looked at, so that a person's word is heeded; what runs in it goes on, and can be
// stopped.
func TestX5_APausedWorld(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		m, st := &machine{killed: make(chan struct{})}, newStarts(b)
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			if j.Key() == key("w", 1) && b.count(j.Key()) == 1 {
				return m.hangs(10*time.Minute)(ctx, j)
			}
			return st.start(ctx, j)
		})
		b.start()
		b.mark(key("w", 1))
		b.pass(time.Second)
		b.pause("w")
		b.mark(key("w", 2), key("v", 1))
		b.pass(5 * time.Minute)
		if b.count(key("w", 2)) == 0 || st.of(key("w", 2)) != 0 || st.of(key("v", 1)) != 1 {
			t.Errorf("paused: %d looks, %d starts, of the other world: %d", b.count(key("w", 2)), st.of(key("w", 2)), st.of(key("v", 1)))
		}
		if n := b.count(key("w", 2)); n > 10 {
			t.Errorf("%d looks in five minutes", n)
		}
		if len(b.s.Running()) != 1 {
			t.Errorf("running: %v", b.s.Running())
		}
		b.must(b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", ""))
		<-m.killed
		b.pass(10 * time.Minute)
		b.unpause("w")
		b.pass(time.Second)
		if st.of(key("w", 2)) != 1 || len(m.acts) != 1 {
			t.Errorf("after the pause: %d starts, %d acts", st.of(key("w", 2)), len(m.acts))
		}
	})
}

// A person's act reaches a task of a paused world that doesn't run.
func TestX5_AnActInAPause(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		b.pause("")
		var acts []scheduler.Act
		b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
			for {
				select {
				case a := <-j.Acts():
					acts = append(acts, a.Act)
					a.Done <- nil
					continue
				default:
				}
				return ends(ctx, j)
			}
		})
		b.start()
		b.must(b.s.Ask(context.Background(), key("w", 1), kernel.ActStop, "17", ""))
		b.pass(time.Minute)
		if len(acts) != 1 {
			t.Errorf("%d acts", len(acts))
		}
	})
}

func TestX5_APauseOfEverything(t *testing.T) {
	inBubble(t, scheduler.Options{}, func(b *bench) {
		st := newStarts(b)
		b.pause("")
		b.pause("w")
		b.start()
		b.mark(key("w", 1), key("v", 1))
		b.pass(time.Minute)
		if n := st.all(); n != 0 {
			t.Errorf("%d starts", n)
		}
		b.unpause("")
		b.pass(time.Second)
		if st.of(key("v", 1)) != 1 || st.of(key("w", 1)) != 0 {
			t.Errorf("starts: %v", st.n)
		}
	})
}

// A task that is in the middle of being taken when the pause comes starts nothing; one
// for which a slot was kept is given back as it was.
func TestX5_APauseInTheMiddleOfATake(t *testing.T) {
	for _, kept := range []bool{false, true} {
		inBubble(t, scheduler.Options{BuildSlots: 1}, func(b *bench) {
			st := newStarts(b)
			b.mem.SetFault(func(op string, k scheduler.Key) error {
				if op == "Take" && k == key("w", 1) && (!kept || b.count(k) > 0) {
					<-time.After(2 * time.Second)
				}
				return nil
			})
			k := key("w", 1)
			if kept {
				b.do(func(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
					if j.Key() == k {
						return st.start(ctx, j)
					}
					return builds(time.Minute)(ctx, j)
				})
				b.start()
				b.mark(key("v", 1))
				b.pass(time.Second)
			}
			b.mark(k)
			if !kept {
				b.start()
			} else {
				b.pass(59 * time.Second)
			}
			b.pass(time.Second)
			b.pause("w")
			b.pass(time.Minute)
			if st.all() != 0 {
				t.Errorf("kept=%t: %d starts", kept, st.all())
			}
			b.unpause("w")
			b.pass(5 * time.Second)
			if st.of(k) != 1 {
				t.Errorf("kept=%t: %d starts after the pause", kept, st.of(k))
			}
		})
	}
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
	inBubble(t, scheduler.Options{DriveSlots: 1, Pauses: []scheduler.PauseSource{one, two}}, func(b *bench) {
		st := newStarts(b)
		b.start()
		n := int64(0)
		runs := func(what string, want int) {
			t.Helper()
			before := st.all()
			n++
			b.mark(key("w", n), key("v", n))
			b.pass(3 * time.Second)
			if n := st.all() - before; n != want {
				t.Errorf("%s: %d starts, want %d", what, n, want)
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
	if p, err := f.Paused(context.Background()); err != nil || p.All || len(p.Worlds) > 0 {
		t.Errorf("no file: %+v, %v", p, err)
	}
	if _, err := scheduler.PauseFile(t.TempDir()).Paused(context.Background()); err == nil {
		t.Error("a directory was read")
	}
}
