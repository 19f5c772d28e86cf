package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
)

// await takes what comes.
func await[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("there is no %s", what)
	}
	return v
}

// silent is an installation whose git server takes one exchange and doesn't answer it:
// the n-th push, or with 0 the first request for refs.
type silent struct {
	*bench
	arrived chan struct{} // it was asked
	answer  chan struct{} // to be closed for its answer
	room    atomic.Bool
	asked   chan bool // what was answered who asked for room
	idle    chan struct{}
	nudges  chan struct{}
	log     *lockedBuffer
	ended   chan Status
}

// lockedBuffer is a buffer for many writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newSilent(t *testing.T, push int64, change func(*bench)) *silent {
	t.Helper()
	s := &silent{
		arrived: make(chan struct{}, 1), answer: make(chan struct{}), asked: make(chan bool, 100), idle: make(chan struct{}, 100),
		nudges: make(chan struct{}, 1), log: &lockedBuffer{}, ended: make(chan Status, 1),
	}
	s.room.Store(true)
	repo := newRepo(t)
	server := gittest.ServeHTTP(t, repo)
	var fetches, pushes atomic.Int64
	server.Set(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := int64(-1)
			switch {
			case strings.HasSuffix(r.URL.Path, "/git-receive-pack"):
				n = pushes.Add(1)
			case strings.HasSuffix(r.URL.Path, "/git-upload-pack") && fetches.Add(1) == 1:
				n = 0
			}
			if n != push {
				next.ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body) // nothing more of it is progress
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.arrived <- struct{}{}
			gittest.Delay(s.answer)(next).ServeHTTP(w, r)
		})
	})
	s.bench = newBench(t, repo, func(b *bench) {
		b.place.url, b.place.terms = server.URL, checkTerms
		if change != nil {
			change(b)
		}
	})
	s.sup.deps.Log = slog.New(slog.NewTextHandler(s.log, nil))
	return s
}

// begin drives the task as a server does. What an earlier test didn't end is ended.
func (s *silent) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		st, err := s.task.Drive(ctx, DriveOptions{Actor: "writ", Yield: true, Nudges: s.nudges,
			Admit: func([]string) bool {
				room := s.room.Load()
				s.asked <- room
				return room
			},
			Idle: func() { s.idle <- struct{}{} },
		})
		if err != nil {
			s.t.Error(err)
		}
		s.ended <- st
	}()
	s.t.Cleanup(cancel)
}

// movedAt has it that the exchange under way makes no progress since then, and says since when
// that was so.
func (t *Task) movedAt(since time.Time) (before time.Time) {
	t.worker.guard.Lock()
	defer t.worker.guard.Unlock()
	before, t.worker.asking.since = t.worker.asking.since, since
	return before
}

func (t *Task) lastMove() time.Time {
	t.worker.guard.Lock()
	defer t.worker.guard.Unlock()
	return t.worker.asking.since
}

// done waits until the task is completed, with nothing counted, and the server is known
// to work, after one warning.
func (s *silent) done() {
	s.t.Helper()
	if st := await(s.t, "end", s.ended); st.Decision.Standing != kernel.StandFinal {
		s.t.Errorf("it stands %s", st.Decision.Standing)
	}
	log := gittest.Git(s.t, s.bare, "log", "--format=%(trailers:key=aynig-state,valueonly,separator=)%(trailers:key=writ-interruptions,key_value_separator==,separator=)", stateRef)
	if !strings.HasPrefix(log, "completed") || strings.Contains(log, "interruptions=1") || strings.Count(log, "completed") != 1 {
		s.t.Errorf("the history is\n%s", log)
	}
	if o, is := s.sup.Outage(); is {
		s.t.Errorf("the server is said to be unable: %+v", o)
	}
	if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
		s.t.Errorf("%d warnings:\n%s", n, s.log)
	}
}

// TestG7_AServerThatDoesNotAnswer: whichever exchange a real server leaves unanswered, the
// task's place goes to others while it waits, the outage is known before the exchange is
// given up, and said once; once the server answers the task goes on, starts nothing before
// there is room again, and nothing is counted.
func TestG7_AServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		push  int64
		asks  bool // for room again, once the server answers
		build int  // that had been made then
	}{
		"at the fetch": {0, false, 0}, "at the claim": {1, true, 0}, "at the seal": {2, true, 1}, "at the result": {3, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			checked := make(chan struct{}, 10)
			s := newSilent(t, c.push, func(b *bench) {
				b.exec.check = func(job executor.CheckJob) executor.CheckOutcome { checked <- struct{}{}; return passed(job) }
			})
			s.begin()
			await(t, "request", s.arrived)
			s.task.movedAt(time.Now().Add(-silentAfter))
			localtest.Until(t, patience, "the outage is known", func() bool { _, is := s.sup.Outage(); return is })
			await(t, "place for others", s.idle)
			if o, is := s.sup.Outage(); !is || !o.Silent || o.Tasks != 1 {
				t.Errorf("the outage is shown as %+v, %v", o, is)
			}
			if c.push > 0 && !await(t, "first question for room", s.asked) {
				t.Error("there was no room at first")
			}
			s.room.Store(!c.asks)
			close(s.answer)
			if c.asks {
				for range 3 { // each nudge is a look, and a look asks once
					if await(t, "question for room", s.asked) || len(s.exec.builds) != c.build || len(checked) != 0 {
						t.Errorf("without room %d builds, %d checks", len(s.exec.builds), len(checked))
					}
					s.nudges <- struct{}{}
				}
				s.room.Store(true)
			}
			for len(s.ended) == 0 && c.asks && !await(t, "question for room", s.asked) {
				s.nudges <- struct{}{}
			}
			s.done()
			if len(s.exec.builds) != 1 || len(checked) != 1 {
				t.Errorf("%d builds, %d checks", len(s.exec.builds), len(checked))
			}
		})
	}
}

// TestG7_ARenewalThatIsNotAnswered: what runs keeps its place, whatever the server does;
// once the guard has killed it, the place goes to others.
func TestG7_ARenewalThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 10)
	s := newSilent(t, 2, func(b *bench) {
		b.exec.hold = true
		b.exec.started = func(executor.BuildJob) { started <- struct{}{} }
	})
	s.begin()
	await(t, "builder", started)
	build := s.exec.builds[0]
	for len(s.idle) > 0 { // it may have been lent before, on a slow machine
		<-s.idle
	}
	s.clock.advance(60_000)
	s.nudges <- struct{}{}
	await(t, "renewal", s.arrived)
	s.task.movedAt(time.Now().Add(-silentAfter))
	localtest.Until(t, patience, "the outage is known", func() bool { _, is := s.sup.Outage(); return is })
	s.task.worker.lend()
	if len(s.idle) != 0 || closed(build.Done()) {
		t.Errorf("while it builds its place was lent %d times", len(s.idle))
	}
	s.clock.advance(60_000)
	await(t, "place for others", s.idle)
	if !closed(build.Done()) || !build.killed {
		t.Error("its place is lent while it builds")
	}
	s.exec.hold = false
	close(s.answer)
	s.done()
}

// TestG7_AServerThatIsSlow: a server that takes some seconds is not said to be unable, and
// others go on meanwhile.
func TestG7_AServerThatIsSlow(t *testing.T) {
	t.Parallel()
	s := newSilent(t, 1, nil)
	s.begin()
	await(t, "request", s.arrived)
	s.task.worker.waitsSince(time.Now().Add(-idleAfter))
	await(t, "place for others", s.idle)
	if o, is := s.sup.Outage(); is || s.sup.Rest() > 0 {
		t.Errorf("the outage is shown as %+v", o)
	}
	close(s.answer)
	if st := await(t, "end", s.ended); st.Decision.Standing != kernel.StandFinal || strings.Contains(s.log.String(), "level=WARN") {
		t.Errorf("it stands %s:\n%s", st.Decision.Standing, s.log)
	}
}

// TestG7_AHungTryIsItsWait: the time that a try hung counts in the wait for the next one,
// so that a minute after the server answers again somebody has tried.
func TestG7_AHungTryIsItsWait(t *testing.T) {
	t.Parallel()
	o, clock := newOutage(), newClock()
	for range 10 {
		clock.advance(outageFar.Milliseconds())
		if _, ok := o.take(1, clock.Now()); !ok {
			t.Fatal("nobody may try")
		}
		clock.advance(outageFar.Milliseconds())
		if next := o.failed(1, clock.Now(), "no answer", true, false); next > clock.Now().BootMs+outageNext.Milliseconds() {
			t.Fatalf("after a minute without an answer the next try is in %d ms", next-clock.Now().BootMs)
		}
	}
}

// TestG7_ATroubleOfItsOwn waits longer each time, also where the other tasks of the
// repository find the server well in between.
func TestG7_ATroubleOfItsOwn(t *testing.T) {
	t.Parallel()
	o, clock := newOutage(), newClock()
	for i := range 10 {
		if _, ok := o.take(1, clock.Now()); !ok {
			t.Fatal("nobody may try")
		}
		next := o.failed(1, clock.Now(), "a lock is left", true, false)
		if i > 0 {
			o.won(2, git.OID(fmt.Sprint(i)))
		}
		clock.advance(next - clock.Now().BootMs)
	}
	began := clock.Now().BootMs
	o.take(1, clock.Now())
	if wait := o.failed(1, clock.Now(), "a lock is left", true, false) - began; wait < outageFar.Milliseconds() {
		t.Errorf("after ten tries it waits %d ms", wait)
	}
}

// trickle sends the answers of upload-pack byte by byte, one for each value of step; once
// that is closed all that is left. It says that it is to be told.
func trickle(waits chan<- struct{}, step <-chan struct{}) gittest.Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
				w = &drops{w, waits, step}
			}
			next.ServeHTTP(w, r)
		})
	}
}

type drops struct {
	http.ResponseWriter
	waits chan<- struct{}
	step  <-chan struct{}
}

func (d *drops) Write(b []byte) (n int, err error) {
	for ; n < len(b) && err == nil; n++ {
		select {
		case d.waits <- struct{}{}:
		default:
		}
		if _, more := <-d.step; !more {
			rest, err := d.ResponseWriter.Write(b[n:])
			return n + rest, err
		}
		_, err = d.ResponseWriter.Write(b[n : n+1])
		d.ResponseWriter.(http.Flusher).Flush()
	}
	return n, err
}

// TestG7_ATransferThatGoesOn: a server that sends byte by byte is slow for as long as it
// sends, and silent when it doesn't.
func TestG7_ATransferThatGoesOn(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	server := gittest.ServeHTTP(t, bare)
	waits, step := make(chan struct{}, 1), make(chan struct{})
	server.Set(trickle(waits, step))
	b := newBench(t, bare, func(b *bench) { b.place.url = server.URL })
	ended := make(chan error, 1)
	blob := git.OID(gittest.Git(t, bare, "rev-parse", "main:README"))
	go func() {
		ended <- timed{b.repo}.Blobs(b.task.worker.on(context.Background()), []git.OID{blob}, func(git.OID, []byte) error { return nil })
	}()
	await(t, "answer", waits)
	long := time.Now().Add(-time.Hour)
	for n := range 3 {
		b.task.movedAt(long)
		step <- struct{}{}
		localtest.Until(t, patience, "a byte is progress", func() bool { return !b.task.lastMove().Equal(long) })
		b.task.worker.noteSilence()
		if o, is := b.sup.Outage(); is {
			t.Fatalf("after %d bytes: %+v", n+1, o)
		}
	}
	b.task.movedAt(long)
	b.task.worker.noteSilence()
	if o, is := b.sup.Outage(); !is || !o.Silent {
		t.Errorf("that it sends nothing is shown as %+v, %v", o, is)
	}
	close(step)
	if err := await(t, "end", ended); err != nil {
		t.Error(err)
	}
	b.task.worker.goesOn()
	if since := b.task.movedAt(long); !since.IsZero() {
		t.Error("what comes late begins an exchange")
	}
}
