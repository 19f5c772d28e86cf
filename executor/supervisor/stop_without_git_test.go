package supervisor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// awayRepo is a repository whose server is away for a while, or hangs.
type awayRepo struct {
	Repo
	away   atomic.Bool
	hangs  atomic.Bool
	missed func() // called once, when somebody wants to read
	once   sync.Once
}

func (a *awayRepo) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	if a.away.Load() {
		a.once.Do(a.missed)
		if a.hangs.Load() {
			<-ctx.Done()
			return git.Refs{}, ctx.Err()
		}
		return git.Refs{}, &git.Error{Code: git.CodeUnreachable, Msg: "no network"}
	}
	return a.Repo.Refs(ctx, names...)
}

// stopped expects that the work wasn't accepted and waits for a person.
func (f *forged) stopped(code kernel.Code) {
	f.t.Helper()
	if f.ref(changeRef) != "" || f.trailer("aynig-state") != "waiting" || f.trailer("writ-waiting-for") != "approval" {
		f.t.Errorf("change branch %q, HEAD %s, for %s", f.ref(changeRef), f.trailer("aynig-state"), f.trailer("writ-waiting-for"))
	}
	if i := f.forgeIssue(); i.State == forge.Closed && code == kernel.CodeTaskStopped {
		f.t.Error("the issue is closed")
	}
	if f.trailer("writ-interruptions") != "0" || f.trailer("writ-attempt") != "1" {
		f.t.Errorf("%s interruptions, attempt %s", f.trailer("writ-interruptions"), f.trailer("writ-attempt"))
	}
}

// TestP10_StopNobodyToldOf: what a person did before the work was accepted wins, also
// where its delivery was lost and nobody looks during the build, in whatever phase.
func TestP10_StopNobodyToldOf(t *testing.T) {
	t.Parallel()
	acts := map[string]struct {
		act  func(*forged)
		code kernel.Code
	}{
		"stop":    {func(f *forged) { f.comment(f.scene.Owner, "/writ stop") }, kernel.CodeTaskStopped},
		"unlabel": {func(f *forged) { f.unlabel(f.scene.Triage) }, kernel.CodeSuperseded},
		"close":   {func(f *forged) { must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Closed)) }, kernel.CodeSuperseded},
	}
	terms := map[string]string{"without checks": "", "with checks": termsWithCheck}
	for what, rules := range terms {
		for _, after := range []kernel.Action{kernel.ActionDispatch, kernel.ActionJudge} {
			for name, c := range acts {
				t.Run(what+", "+name+" after "+string(after), func(t *testing.T) {
					f := newTold(t, func(f *forged) { f.place.terms = rules })
					f.reach(after)
					c.act(f)
					f.task.tracker.quiet = true
					st := f.reach(kernel.ActionWait)
					f.wants(st, kernel.StandActing, c.code)
					f.task.tracker.quiet = false
					f.wants(f.drive(), kernel.StandWaiting)
					f.stopped(c.code)
				})
			}
		}
	}
}

// TestP10_AcceptedOnceTheForgeAnswers: where nobody can be asked whether the approval
// still stands, judged work is kept, nothing is counted, and it is delivered once the
// forge answers; a stop that stands there then wins.
func TestP10_AcceptedOnceTheForgeAnswers(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{false, true} {
		f := newTold(t, nil)
		f.reach(kernel.ActionJudge)
		if stop {
			f.comment(f.scene.Owner, "/writ stop")
		}
		f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
		for range 3 {
			if _, err := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); err == nil && f.ref(changeRef) != "" {
				t.Fatal("it was accepted without asking")
			}
			f.clock.advance(120_000)
			f.task.Close() // whoever drives gives its place to another task
			task, err := f.sup.Open(t.Context(), 1, nil)
			must(t, err)
			f.task = task
		}
		f.scene.Bot.Clear()
		f.withBranch()
		st := f.drive()
		if f.started() != 1 {
			t.Errorf("%d builders", f.started())
		}
		if stop {
			f.wants(st, kernel.StandWaiting)
			f.stopped(kernel.CodeTaskStopped)
		} else {
			f.shows("task 1 completed", kernel.LabelCompleted, false)
		}
	}
}

// TestP10_StopWhileGitIsAway: the issue is read also while git can't be, when git is
// missed and whenever somebody tells of the issue: the builder is killed at once, and
// what was done is carried out when git is back.
func TestP10_StopWhileGitIsAway(t *testing.T) {
	t.Parallel()
	for _, missed := range []bool{false, true} {
		repo := &awayRepo{}
		f := newTold(t, func(f *forged) {
			f.exec.hold = true
			f.place.wrap = func(r Repo) Repo { repo.Repo = r; return repo }
		})
		started := make(chan struct{})
		f.exec.started = func(executor.BuildJob) { close(started) }
		ctx, cancel := context.WithCancel(t.Context())
		nudges, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Nudges: nudges})
			ended <- err
		}()
		await := func(what string, ch <-chan struct{}) {
			t.Helper()
			select {
			case <-ch:
			case <-time.After(patience):
				t.Fatal(what)
			}
		}
		nudge := func() {
			t.Helper()
			select {
			case nudges <- struct{}{}:
			case <-time.After(patience):
				t.Fatal("the drive hears nothing")
			}
		}
		await("no builder", started)
		stop := func() { // the clock stands: git isn't tried again meanwhile
			_, err := f.scene.Owner.AddComment(t.Context(), f.scene.Repo, 1, "/writ stop")
			must(t, err)
		}
		gone := make(chan struct{})
		repo.missed = stop
		if missed {
			repo.missed = func() { close(gone) }
		}
		nudge()
		repo.away.Store(true)
		nudge()
		if missed {
			await("nobody misses git", gone)
			nudge() // it looked at the issue, and waits for git
			stop()
			nudge()
		}
		await("the builder goes on", f.exec.builds[0].Done())
		if f.ref(changeRef) != "" || f.trailer("aynig-state") != "working" {
			t.Errorf("HEAD %s while git is away", f.trailer("aynig-state"))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		repo.away.Store(false)
		f.task.tracker.quiet = true
		f.wants(f.reach(kernel.ActionWait), kernel.StandActing, kernel.CodeTaskStopped)
		f.stopped(kernel.CodeTaskStopped)
	}
}

// TestP10_StopWhileGitHangs: a look that git leaves unanswered ends once somebody tells of
// the issue, and what runs is killed if he wants that.
func TestP10_StopWhileGitHangs(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the look hangs", "he acts"} {
		t.Run(first+" first", func(t *testing.T) { t.Parallel(); stopsWhileGitHangs(t, first == "he acts") })
	}
}

func stopsWhileGitHangs(t *testing.T, actsFirst bool) {
	t.Helper()
	repo := &awayRepo{}
	repo.hangs.Store(true)
	f := newTold(t, func(f *forged) {
		f.exec.hold = true
		f.place.wrap = func(r Repo) Repo { repo.Repo = r; return repo }
	})
	f.sup.patience = time.Millisecond
	f.reach(kernel.ActionDispatch)
	nudges, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan struct{})
	repo.missed = func() { close(hung) }
	stop := func() {
		_, err := f.scene.Owner.AddComment(t.Context(), f.scene.Repo, 1, "/writ stop")
		must(t, err)
	}
	repo.away.Store(!actsFirst)
	go func() {
		_, err := f.task.Drive(ctx, DriveOptions{Actor: "writ", Nudges: nudges})
		ended <- err
	}()
	if actsFirst {
		nudges <- struct{}{} // it waits for something to do
		repo.away.Store(true)
		nudges <- struct{}{} // and no look that git answered is under way any more
		stop()
	} else {
		<-hung
		stop()
	}
	for _, what := range []func() bool{
		func() bool {
			select {
			case nudges <- struct{}{}:
				return true
			case <-time.After(patience):
				return false
			}
		},
		func() bool {
			select {
			case <-f.exec.builds[0].Done():
				return true
			case <-time.After(patience):
				return false
			}
		},
	} {
		if !what() {
			t.Fatal("git hangs, and the builder goes on")
		}
	}
	repo.hangs.Store(false)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	repo.away.Store(false)
	f.task.tracker.quiet = true
	f.wants(f.reach(kernel.ActionWait), kernel.StandActing, kernel.CodeTaskStopped)
	f.stopped(kernel.CodeTaskStopped)
}

// TestP10_StopWhileBothAreAway: somebody told of a stop while neither git nor the forge
// could be read. It is looked for again as soon as there is something to try.
func TestP10_StopWhileBothAreAway(t *testing.T) {
	t.Parallel()
	repo := &awayRepo{}
	f := newTold(t, func(f *forged) {
		f.exec.hold = true
		f.place.wrap = func(r Repo) Repo { repo.Repo = r; return repo }
	})
	f.reach(kernel.ActionDispatch)
	f.comment(f.scene.Owner, "/writ stop")
	repo.missed = func() {
		f.scene.Bot.Fail(forgetest.Any(), 1, forgetest.Fault{Reason: forge.Unavailable})
	}
	repo.away.Store(true)
	f.task.tracker.looked = f.clock.Now().BootMs // nobody looks by himself
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	d := &drive{task: f.task, o: DriveOptions{Actor: "writ", Nudges: make(chan struct{})}, came: make(chan struct{}, 1), heard: true}
	go func() {
		_, err := d.run(ctx)
		ended <- err
	}()
	select {
	case <-f.exec.builds[0].Done():
	case <-time.After(patience):
		t.Error("the builder goes on")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestP10_StopIsNotForgotten: a stop that was seen takes the approval back for good,
// also where no run was live: whatever becomes of its comment or of who wrote it, after a
// restart, and where no push brought it to HEAD. What is approved after it starts.
func TestP10_StopIsNotForgotten(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(*forged, int64){
		"edited": func(f *forged, id int64) {
			must(t, f.scene.Owner.EditComment(t.Context(), f.scene.Repo, id, "I was wrong"))
		},
		"reason added": func(f *forged, id int64) {
			must(t, f.scene.Owner.EditComment(t.Context(), f.scene.Repo, id, "/writ stop\n\nIt is wrong."))
		},
		"deleted": func(f *forged, id int64) { must(t, f.scene.Owner.DeleteComment(t.Context(), f.scene.Repo, id)) },
		"revoked": func(f *forged, _ int64) { f.scene.Grant(f.scene.Repo, f.scene.Triage.ID, forge.Read) },
	} {
		for _, when := range []string{"before the claim", "in the back-off", "while no push is taken"} {
			t.Run(name+" "+when, func(t *testing.T) {
				server := &denier{moot: true}
				f := newForged(t, func(f *forged) {
					f.exec.build = failing
					f.place.wrap = func(r Repo) Repo { server.Repo = r; return server }
				})
				f.scene.Grant(f.scene.Repo, f.scene.Triage.ID, forge.Write)
				f.label(f.scene.Owner)
				if when == "in the back-off" {
					f.reach(kernel.ActionResult)
				}
				before := f.started()
				f.clock.advance(1000)
				k, err := f.scene.Triage.AddComment(t.Context(), f.scene.Repo, 1, "/writ stop")
				must(t, err)
				if when == "while no push is taken" {
					server.says = git.Unable
				}
				f.wants(f.tick(), kernel.StandActing, kernel.CodeTaskStopped)
				f.clock.advance(1000)
				undo(f, k.ID)
				if server.says != "" {
					server.says = ""
					f.open()
					f.wants(f.tick(), kernel.StandActing, kernel.CodeTaskStopped)
				}
				for range 3 {
					f.open()
					f.wants(f.tick(), kernel.StandWaiting)
					f.clock.advance(3_600_000)
				}
				if f.started() != before {
					t.Fatal("a builder was started on an approval that was taken back")
				}
				f.comment(f.scene.Owner, "/writ run")
				f.reach(kernel.ActionDispatch)
			})
		}
	}
}

// TestP10_StopAndAWord: whatever follows the word, it stops, and the answer says how
// it was read.
func TestP10_StopAndAWord(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.hold = true })
	f.reach(kernel.ActionDispatch)
	f.comment(f.scene.Owner, "/writ stop, that is wrong")
	f.wants(f.tick(), kernel.StandActing, kernel.CodeTaskStopped)
	f.drive()
	if list := f.marked("answer"); len(list) != 1 || !strings.Contains(list[0].Body, "Read as `/writ stop`.") {
		t.Errorf("answered %+v", list)
	}
}

// TestG7_FencedWhileTheForgeIsWaitedFor: a lease that nobody renewed since the issue was being
// moved, or git read, and the server left that unanswered, ends over the server: nothing is
// counted.
func TestG7_FencedWhileTheForgeIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, waits := range []string{"", "forge", "git"} {
		f := newTold(t, func(f *forged) { f.exec.hold = true })
		f.reach(kernel.ActionDispatch)
		told := func() {}
		switch waits {
		case "forge":
			told = f.task.tells()
		case "git":
			told = begin(f.task.worker.on(t.Context()), false)
			f.task.movedAt(time.Now().Add(-time.Minute))
		}
		f.clock.advance(110_000)
		if !f.task.worker.Guard(f.clock.Now()) {
			t.Fatal("the fence isn't reached")
		}
		told()
		f.reach(kernel.ActionAbandon)
		f.clock.advance(60_000)
		f.reach(kernel.ActionTakeOver)
		want := "1"
		if waits != "" {
			want = "0"
		}
		if n := f.trailer(kernel.TrailerInterruptions); n != want {
			t.Errorf("%q was waited for: %s interruptions, want %s", waits, n, want)
		}
	}
}
