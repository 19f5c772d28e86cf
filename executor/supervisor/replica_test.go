package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// replica reads from a copy of the repository that lags, and pushes to the repository.
type replica struct {
	Repo
	copied string // "" once it has caught up
	old    Repo
}

func (r *replica) from() Repo {
	if r.copied == "" {
		return r.Repo
	}
	return r.old
}

func (r *replica) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	return r.from().Refs(ctx, names...)
}

func (r *replica) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	return r.from().Commit(ctx, oid)
}

func (r *replica) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	return r.from().Log(ctx, from, not, most)
}

func (r *replica) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	return r.from().Tree(ctx, oid)
}

func (r *replica) Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	return r.from().Blobs(ctx, oids, f)
}

// lags has the repository copied as it is now, for who reads it from there on.
func (r *replica) lags(t *testing.T, bare string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy.git")
	must(t, os.CopyFS(dir, os.DirFS(bare)))
	old, err := git.Open(t.Context(), git.Endpoint{URL: dir}, git.Options{})
	must(t, err)
	t.Cleanup(func() { _ = old.Close() }) // nothing is lost by it
	r.copied, r.old = dir, old
}

// lagging is a second installation at the same issue, and the two trust each other. What
// it reads lags once the test says so.
func (f *forged) lagging() (*bench, *replica) {
	r := &replica{}
	f.otherWrap = func(repo Repo) Repo { r.Repo = repo; return r }
	return f.another(), r
}

// looksAgain is one drive of an installation that may not be able to.
func (b *bench) looksAgain() (Status, error) {
	return b.task.Drive(b.t.Context(), DriveOptions{Actor: "writ", Yield: true})
}

// said is everything on the issue that a person sees of writ.
func (f *forged) said() string {
	f.t.Helper()
	i := f.forgeIssue()
	slices.Sort(i.Labels)
	var b strings.Builder
	b.WriteString(string(i.State) + " " + strings.Join(i.Labels, " ") + "\n")
	for _, k := range f.marked("task") {
		b.WriteString(k.Body + "\n")
	}
	for _, k := range f.marked("alert") {
		b.WriteString(k.Body + "\n")
	}
	return b.String()
}

// TestL19_AReplicaThatLags: two trusted installations, of which one reads an old copy of
// the repository. What the other one tells of is left to that one: for ten minutes nobody
// says that the state was set back, nothing is edited, reopened, labelled or built, and
// once the copy is as the repository, everything goes on.
func TestL19_AReplicaThatLags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terms       string
		from, until func(f *forged, other *bench)
	}{
		"nothing was there": {
			from:  func(*forged, *bench) {},
			until: func(f *forged, _ *bench) { f.drive() },
		},
		"saw the lease, and not the end": {
			from: func(f *forged, other *bench) {
				f.reach(kernel.ActionClaim)
				other.tick()
			},
			until: func(f *forged, _ *bench) { f.drive() },
		},
		"saw the first attempt, and not the second": {
			terms: "version: 1\nbudgets: {attempts: 3}\n",
			from: func(f *forged, other *bench) {
				f.exec.build = failing
				f.drive()
				other.tick()
			},
			until: func(f *forged, _ *bench) {
				f.clock.advance(3_600_000)
				f.reach(kernel.ActionDispatch)
				f.tellAll()
			},
		},
		"saw the first attempt, and not that it is blocked": {
			terms: "version: 1\nbudgets: {attempts: 2}\nnotify: [ana]\n",
			from: func(f *forged, other *bench) {
				f.exec.build = failing
				f.drive()
				other.tick()
			},
			until: func(f *forged, _ *bench) {
				f.clock.advance(3_600_000)
				f.drive()
			},
		},
		"nothing was there, and work awaits its merge": {
			terms: "version: 1\nclose_on: merged\nnotify: [ana]\n",
			from:  func(*forged, *bench) {},
			until: func(f *forged, _ *bench) { f.drive() },
		},
		"saw the first attempt, and not the end": {
			terms: "version: 1\nbudgets: {attempts: 3}\n",
			from: func(f *forged, other *bench) {
				f.exec.build = failing
				f.drive()
				other.tick()
				f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
			},
			until: func(f *forged, _ *bench) {
				f.clock.advance(3_600_000)
				f.drive()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTold(t, func(f *forged) { f.place.terms = c.terms })
			other, old := f.lagging()
			c.from(f, other)
			old.lags(t, f.bare)
			c.until(f, other)
			said, head := f.said(), f.ref(stateRef)
			for range 9 {
				st, err := other.looksAgain()
				if err == nil || !Passing(err) || slices.Contains(st.Decision.Codes, kernel.CodeStateRollback) {
					t.Errorf("the look came to %s %v, %v", st.Decision.Standing, st.Decision.Codes, err)
				}
				f.clock.advance(time.Minute.Milliseconds())
			}
			if now := f.said(); now != said || f.ref(stateRef) != head || len(other.exec.builds) > 0 {
				t.Errorf("%d builders; the issue was\n%s\nand is\n%s", len(other.exec.builds), said, now)
			}
			old.copied = ""
			_, err := other.looksAgain()
			must(t, err)
			if now := f.said(); now != said {
				t.Errorf("the copy caught up, and the issue is\n%s", now)
			}
		})
	}
}

// TestL19_AReplicaThatStands: a copy that stays as it is for hours, while the other
// installation works, and after it has ended. What the one says then is taken back by the
// other, and is said ever more seldom; the one goes on as soon as the copy does.
func TestL19_AReplicaThatStands(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		f := newTold(t, func(f *forged) { f.place.terms = "version: 1\nbudgets: {attempts: 2}\nnotify: [ana]\n" })
		other, old := f.lagging()
		f.exec.build = failing
		f.drive()
		other.tick()
		old.lags(t, f.bare)
		f.clock.advance(3_600_000)
		if ended {
			f.drive()
		} else {
			f.reach(kernel.ActionDispatch)
			f.tellAll()
		}
		want, edits := f.marked("task")[0].Body, 0
		for range 6 * 60 {
			if _, err := other.looksAgain(); err != nil && !Passing(err) {
				t.Fatal(err)
			}
			if f.marked("task")[0].Body != want {
				edits++
			}
			f.clock.advance(time.Minute.Milliseconds())
			f.tick()
			f.tellAll()
			want = f.marked("task")[0].Body
		}
		if n := len(f.marked("alert")); edits == 0 || edits > 5 || len(other.exec.builds) > 0 || n > 2 {
			t.Errorf("ended=%t: %d times it was told otherwise, %d alerts, %d builders", ended, edits, n, len(other.exec.builds))
		}
		old.copied = ""
		if _, err := other.looksAgain(); err != nil || f.marked("task")[0].Body != want {
			t.Errorf("the copy caught up: %v, %s", err, f.marked("task")[0].Body)
		}
	}
}

// TestL19_AnAlarmIsNoWitness: what says that the state was set back vouches for nothing. A
// person's answer to it is heeded at once, by whoever looks.
func TestL19_AnAlarmIsNoWitness(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = "version: 1\nbudgets: {attempts: 1}\n" })
	f.exec.build = failing
	f.drive()
	f.shows("is blocked", kernel.LabelBlocked, true)
	other := f.another()
	gittest.Git(t, f.bare, "update-ref", "-d", stateRef)
	if _, err := other.looksAgain(); !strings.Contains(errorText(err), "it lags behind, or the state was set back") {
		t.Errorf("what was told just now isn't left to who told it: %v", err)
	}
	f.clock.advance(tellerTime.Milliseconds())
	st, err := other.looksAgain()
	must(t, err)
	f.wants(st, kernel.StandWaiting, kernel.CodeStateRollback)
	f.shows("state.rollback", "", true)
	f.comment(f.scene.Owner, "/writ retry")
	st = other.tick()
	if st.Decision.Action != kernel.ActionClaim || st.Facts.NextSeq() <= kernel.RepairSeqStep {
		t.Errorf("it stands %s %v, and does %s", st.Decision.Standing, st.Decision.Codes, st.Decision.Action)
	}
}

// slow reads what the repository was so long ago, and pushes to it as it is.
type slow struct {
	replica
	t      *testing.T
	bare   string
	clock  *testClock
	lag    time.Duration // 0 once it has caught up
	copies []pastCopy
}

type pastCopy struct {
	at  int64
	dir string
}

func (s *slow) copyNow() {
	dir := filepath.Join(s.t.TempDir(), "copy.git")
	must(s.t, os.CopyFS(dir, os.DirFS(s.bare)))
	s.copies = append(s.copies, pastCopy{s.clock.Now().BootMs, dir})
}

// look is what is read at this time.
func (s *slow) look() {
	s.copied = ""
	if s.lag == 0 {
		return
	}
	for _, c := range s.copies {
		if c.at <= s.clock.Now().BootMs-s.lag.Milliseconds() {
			s.copied = c.dir
		}
	}
	if s.copied == "" {
		s.copied = s.copies[0].dir
	}
	old, err := git.Open(s.t.Context(), git.Endpoint{URL: s.copied}, git.Options{})
	must(s.t, err)
	s.t.Cleanup(func() { _ = old.Close() }) // nothing is lost by it
	s.old = old
}

func (s *slow) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	s.look()
	return s.replica.Refs(ctx, names...)
}

func (s *slow) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	out := s.Repo.CompareAndSwap(ctx, cmds, pack)
	s.copyNow()
	return out
}

// TestG7_LeasesThatCantBeKept: all that is read lags by more than a renewal takes. Each
// lease ends before a renewal of it is shown. Nothing is counted, no builder is started,
// the claims become ever more seldom, and the task is never blocked. Once the reads are
// live it is done within two minutes of the lease's end, or after more than an hour, ten.
func TestG7_LeasesThatCantBeKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lag, lasts, healed time.Duration
		claims             int
	}{
		{50 * time.Second, 50 * time.Minute, 2 * time.Minute, 13},
		{80 * time.Second, 3 * time.Hour, 10 * time.Minute, 24},
		{105 * time.Second, 50 * time.Minute, 2 * time.Minute, 13}, // shown as the lease has to be given up
	} {
		t.Run(fmt.Sprintf("%s for %s", c.lag, c.lasts), func(t *testing.T) {
			t.Parallel()
			var s *slow
			f := newTold(t, func(f *forged) {
				f.place.wrap = func(repo Repo) Repo { s = &slow{replica: replica{Repo: repo}, t: t}; return s }
			})
			s.bare, s.clock = f.bare, f.clock
			s.copyNow()
			s.lag = c.lag
			var claims []int64
			for began := f.clock.Now().BootMs; f.clock.Now().BootMs-began < c.lasts.Milliseconds(); f.clock.advance(5_000) {
				st, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ")
				switch {
				case err != nil && !Passing(err):
					t.Fatal(err)
				case err != nil:
					f.task.worker.giveUpIfOverdue()
				case st.Decision.Action == kernel.ActionClaim:
					claims = append(claims, (f.clock.Now().BootMs-began)/1000)
				}
			}
			if n := len(claims); n < 5 || n > c.claims || f.started() > 0 {
				t.Errorf("%d builders, %d claims, after seconds %v", f.started(), n, claims)
			}
			s.lag = 0
			var last Status
			most := c.healed.Milliseconds() + f.task.s.cfg.LeaseSeconds*1000
			for healed := f.clock.Now().BootMs; last.Decision.Standing != kernel.StandFinal && f.clock.Now().BootMs-healed < most; f.clock.advance(1_000) {
				st, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ")
				must(t, err)
				last = st
			}
			if last.Decision.Standing != kernel.StandFinal || f.trailer(kernel.TrailerInterruptions) != "0" || f.trailer(kernel.TrailerAttempt) != "1" || f.started() != 1 {
				t.Errorf("%s, %s interruptions, attempt %s, %d builders", last.Decision.Standing, f.trailer(kernel.TrailerInterruptions), f.trailer(kernel.TrailerAttempt), f.started())
			}
		})
	}
}

// TestG7_SeenAgain: one look that didn't show what was pushed, long before a run is given
// up over something else, keeps no claim waiting.
func TestG7_SeenAgain(t *testing.T) {
	t.Parallel()
	var s *slow
	f := newTold(t, func(f *forged) {
		f.exec.hold = true
		f.place.wrap = func(repo Repo) Repo { s = &slow{replica: replica{Repo: repo}, t: t}; return s }
	})
	s.bare, s.clock = f.bare, f.clock
	s.copyNow()
	f.reach(kernel.ActionClaim)
	s.lag = time.Second
	if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); !errors.Is(err, ErrUnsettled) {
		t.Fatalf("the claim is shown: %v", err)
	}
	s.lag = 0
	f.reach(kernel.ActionDispatch)
	f.clock.advance(45_000)
	f.reach(kernel.ActionHeartbeat)
	f.tick() // it is shown
	gittest.Git(t, f.bare, "update-ref", stateRef, gittest.Commit(t, f.bare, "refs/heads/x", f.ref(stateRef), map[string]string{"x": "y"}))
	f.reach(kernel.ActionAbandon)
	if at := f.task.observer.lagUntil(f.clock.Now()); at != 0 {
		t.Errorf("the next claim waits until %d", at)
	}
}
