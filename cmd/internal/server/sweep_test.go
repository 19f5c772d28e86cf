package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/webhook/inbox"
)

// brokenList is a forge's client with issues of its own, whose list breaks off.
type brokenList struct {
	forge.Client
	issues []forge.Issue
	breaks int // after so many; 0: never
	asked  int // about the repository
}

func (b *brokenList) ListIssues(_ context.Context, _ forge.Repo, since time.Time, f func(forge.Issue) error) error {
	for n, i := range b.issues {
		if i.UpdatedAt.Before(since) {
			continue
		}
		if b.breaks > 0 && n >= b.breaks {
			return errors.New("the forge wants to be left alone")
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

func (b *brokenList) Repository(ctx context.Context, id int64) (forge.Repository, error) {
	b.asked++
	return b.Client.Repository(ctx, id)
}

// openedWith is a server with one open world that doesn't run, on a client of the test.
func openedWith(t *testing.T, b *brokenList) (*server, *served) {
	t.Helper()
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	b.Client, w.client = w.client, b
	return s, w
}

// TestF4_FirstSweepIsSmall: a repository with a long past is not looked at issue by
// issue: what changed long ago counts only where it is open and has a label.
func TestF4_FirstSweepIsSmall(t *testing.T) {
	now := time.Now()
	old := now.AddDate(-1, 0, 0)
	s, w := openedWith(t, &brokenList{issues: []forge.Issue{
		{Number: 1, State: forge.Closed, Labels: []string{"writ"}, UpdatedAt: old}, {Number: 2, State: forge.Open, UpdatedAt: old},
		{Number: 3, State: forge.Open, Labels: []string{"writ"}, UpdatedAt: old}, {Number: 4, State: forge.Closed, UpdatedAt: now.Add(-time.Hour)},
		{Number: 5, State: forge.Open, UpdatedAt: now.Add(-time.Minute)},
	}})
	s.sweepOne(t.Context(), w)
	if got := s.dueIn(t, w); !slices.Equal(got, []int64{3, 4, 5}) {
		t.Errorf("looked at are %v", got)
	}
}

// TestF4_SweepSeesChanges: a change that was updated, as what is said in its conversation
// does, has the task looked at that it delivers; one that says of none, or of none that can
// be, nothing.
func TestF4_SweepSeesChanges(t *testing.T) {
	now := time.Now().Add(-time.Minute)
	change := func(number int64, body string) forge.Issue {
		return forge.Issue{Number: number, IsChange: true, State: forge.Open, Body: body, UpdatedAt: now}
	}
	s, w := openedWith(t, &brokenList{issues: []forge.Issue{
		{Number: 3, State: forge.Open, UpdatedAt: now}, change(4, "<!-- writ:task:local/1:3 run=r -->\nIt is done."),
		change(5, "<!-- writ:task:local/1:2 run=r -->\nIt is done."), change(6, "By hand."), change(7, "<!-- writ:task:local/1:99999999999999999999 run=r -->"),
	}})
	for _, want := range []int{2, 2, 0} {
		if n, err := s.sweep(t.Context(), w); n != want || err != nil {
			t.Errorf("found are %d, %v; want %d", n, err, want)
		}
		s.moveShown(t, w, -forgeTick)
	}
	if got := s.dueIn(t, w); !slices.Equal(got, []int64{2, 3}) {
		t.Errorf("looked at are %v", got)
	}
}

// TestW12_SameSecond: what happens to an issue in the second in which a sweep saw it is
// found by the next one, though the forge shows the same time: a sweep leaves an issue out
// only if one looked at it that began after that second. So it is with an issue that is dated
// ahead.
func TestW12_SameSecond(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, at := range map[string]time.Time{"a minute ago": now.Add(-time.Minute), "ahead": now.Add(24 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			b := &brokenList{issues: []forge.Issue{{Number: 1, State: forge.Open, UpdatedAt: at}}}
			s, w := openedWith(t, b)
			wants := func(when string, want int) {
				t.Helper()
				if n, err := s.sweep(t.Context(), w); n != want || err != nil {
					t.Errorf("%s %d are found, %v; want %d", when, n, err, want)
				}
			}
			wants("at first", 1)
			wants("within the second", 1)
			s.moveShown(t, w, -forgeTick)
			b.issues = append(b.issues, forge.Issue{Number: 2, State: forge.Open, UpdatedAt: at})
			wants("once the second is over, with another issue of it", 2)
			wants("after that", 1)
			s.moveShown(t, w, time.Hour)
			wants("after this clock was set back", 1)
			s.moveShown(t, w, -forgeTick)
			wants("once that second is over, too", 1)
			wants("at the end", 0)
			b.issues[0].UpdatedAt = at.Add(time.Second)
			wants("updated in the next second", 1)
		})
	}
}

// TestW12_ShownLate: an update that the forge shows later than a newer one is found.
func TestW12_ShownLate(t *testing.T) {
	at := time.Now().Add(-time.Minute).Truncate(time.Second)
	b := &brokenList{issues: []forge.Issue{{Number: 1, State: forge.Open, UpdatedAt: at}}}
	s, w := openedWith(t, b)
	for range 2 {
		_, err := s.sweep(t.Context(), w)
		must(t, err)
		s.moveShown(t, w, -forgeTick)
	}
	b.issues = []forge.Issue{{Number: 2, State: forge.Open, UpdatedAt: at.Add(-overlap)}, b.issues[0], {Number: 3, State: forge.Open, UpdatedAt: at.Add(time.Second)}}
	for _, want := range []int{2, 1, 0} { // of which one lies before the overlap by then
		if n, err := s.sweep(t.Context(), w); n != want || err != nil {
			t.Errorf("found are %d, %v; want %d", n, err, want)
		}
		s.moveShown(t, w, -forgeTick)
	}
	cursor, err := s.inbox.Cursor(t.Context(), w.World, sweepCursor)
	must(t, err)
	if _, there := parseSwept(cursor).shown[2]; there {
		t.Errorf("what the next sweep isn't shown is remembered: %s", cursor)
	}
}

// moveShown has issues shown for the first time at another time than they were.
func (s *server) moveShown(t *testing.T, w *served, by time.Duration) {
	t.Helper()
	cursor, err := s.inbox.Cursor(t.Context(), w.World, sweepCursor)
	must(t, err)
	at := parseSwept(cursor)
	for n, u := range at.shown {
		if !u.shown.IsZero() {
			at.note(n, update{u.at, u.shown.Add(by)})
		}
	}
	must(t, s.inbox.SetCursor(t.Context(), w.World, sweepCursor, at.String()))
}

// TestI17_SweepKnowsChangesByTheRecords: of a change whose description lost its first line,
// or names another task, the records say which task it delivers; of another change they say
// nothing.
func TestI17_SweepKnowsChangesByTheRecords(t *testing.T) {
	p := newServerPlace(t)
	v := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	v.End()
	change, err := p.Maintainer.FindChange(t.Context(), p.Repo, fmt.Sprintf("writ/change/%d", n), "")
	must(t, err)
	s := p.server()
	w := s.worlds.open()[0]
	for name, c := range map[string]struct{ number, task int64 }{"the change": {change.Number, n}, "another one": {change.Number + 1, 99}} {
		for _, body := range []string{"It is done.", "<!-- writ:task:local/1:99 run=r -->\nIt is done."} {
			b := &brokenList{Client: w.client, issues: []forge.Issue{{Number: c.number, IsChange: true, State: forge.Open, Body: body, UpdatedAt: time.Now()}}}
			keys, _, err := s.changed(t.Context(), &served{Governed: w.Governed, at: w.at, client: b, sup: w.sup}, swept{})
			var want []inbox.Key
			if c.task == n || body != "It is done." {
				want = []inbox.Key{{World: w.World, Task: c.task}}
			}
			if err != nil || !slices.Equal(keys, want) {
				t.Errorf("%s with %q: %v, %v", name, body, keys, err)
			}
		}
	}
	if got := s.worlds.taskOfChange(w.World, change.Number); got != n || s.worlds.taskOfChange("none", change.Number) != 0 {
		t.Errorf("a webhook learns of task %d", got)
	}
}

// dueIn are the tasks that the schedule has of a world.
func (s *server) dueIn(t *testing.T, w *served) (tasks []int64) {
	t.Helper()
	list, err := s.inbox.Scheduled(t.Context(), w.World)
	must(t, err)
	for _, d := range list {
		tasks = append(tasks, d.Key.Task)
	}
	slices.Sort(tasks)
	return tasks
}

// TestF4_SweepGoesOn: a sweep whose list breaks off, for the forge limits it, keeps
// what it found, and the next one goes on from there.
func TestF4_SweepGoesOn(t *testing.T) {
	b := &brokenList{breaks: 2}
	now := time.Now().Add(-time.Minute).Truncate(time.Second)
	for n := range int64(5) {
		b.issues = append(b.issues, forge.Issue{Number: n + 1, State: forge.Open, UpdatedAt: now.Add(time.Duration(n) * time.Second)})
	}
	s, w := openedWith(t, b)
	if _, err := s.sweep(t.Context(), w); err == nil || !slices.Equal(s.dueIn(t, w), []int64{1, 2}) {
		t.Fatalf("%v, found are %v", err, s.dueIn(t, w))
	}
	cursor, err := s.inbox.Cursor(t.Context(), w.World, sweepCursor)
	if at := parseSwept(cursor); err != nil || !at.until.Equal(now.Add(time.Second)) {
		t.Errorf("it goes on from %+v, %v", at, err)
	}
	b.breaks = 0
	if n, err := s.sweep(t.Context(), w); err != nil || n != 5 || !slices.Equal(s.dueIn(t, w), []int64{1, 2, 3, 4, 5}) {
		t.Errorf("%d, of which 3 are more, %v: found are %v", n, err, s.dueIn(t, w))
	}
}

// TestJ6_DateAhead: an issue that says that it changes in years to come is looked at
// twice, and hides none that changes until then; a cursor that lies there already is
// not believed.
func TestJ6_DateAhead(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	b := &brokenList{issues: []forge.Issue{
		{Number: 1, State: forge.Open, UpdatedAt: now.Add(-time.Minute)}, {Number: 2, State: forge.Open, UpdatedAt: now.AddDate(50, 0, 0)},
	}}
	s, w := openedWith(t, b)
	for i, want := range []int{2, 2, 0} {
		if n, err := s.sweep(t.Context(), w); err != nil || n != want {
			t.Errorf("sweep %d found %d, %v; want %d", i, n, err, want)
		}
		s.moveShown(t, w, -forgeTick)
	}
	b.issues = slices.Insert(b.issues, 1, forge.Issue{Number: 3, State: forge.Open, UpdatedAt: now.Add(-time.Second)})
	if n, err := s.sweep(t.Context(), w); err != nil || n != 1 || !slices.Equal(s.dueIn(t, w), []int64{1, 2, 3}) {
		t.Errorf("%d, %v: found are %v", n, err, s.dueIn(t, w))
	}
	must(t, s.inbox.SetCursor(t.Context(), w.World, sweepCursor, now.AddDate(50, 0, 0).Format(time.RFC3339)+" 2"))
	if n, err := s.sweep(t.Context(), w); err != nil || n != 3 {
		t.Errorf("from a cursor that lies ahead %d are found, %v", n, err)
	}
}

// TestF4_ProbesAskSeldom: however often /readyz is asked, a forge is asked once
// until a sweep asks it anyway.
func TestF4_ProbesAskSeldom(t *testing.T) {
	b := &brokenList{}
	s, w := openedWith(t, b)
	ask := func() {
		for range 20 {
			for _, check := range s.parts() {
				if err := check.Run(t.Context()); err != nil && strings.HasPrefix(check.Name, "forge:") {
					t.Error(check.Name, err)
				}
			}
		}
	}
	if ask(); b.asked != 1 {
		t.Errorf("the forge was asked %d times", b.asked)
	}
	s.sweepOne(t.Context(), w)
	if ask(); b.asked != 2 {
		t.Errorf("after a sweep it was asked %d times", b.asked)
	}
	var l cachedAnswer
	now, asked := time.Unix(1_800_000_000, 0), 0
	for at, c := range []struct {
		after time.Duration
		fails bool
		want  int
	}{{0, false, 1}, {wellFor - 1, false, 1}, {1, true, 2}, {failingFor - 1, true, 2}, {1, false, 3}} {
		now = now.Add(c.after)
		err := l.ask(now, func() error {
			asked++
			if c.fails {
				return errors.New("no")
			}
			return nil
		})
		if asked != c.want || (err != nil) != c.fails {
			t.Errorf("%d: asked %d times, %v", at, asked, err)
		}
	}
}

// TestServe_OpenedWhileRelisted: a repository that another reading of the
// configuration lists anew while it is being opened isn't opened by the one before.
func TestServe_OpenedWhileRelisted(t *testing.T) {
	s, w := openedWith(t, &brokenList{})
	before := *w.listing
	err := s.openWorld(t.Context(), &served{gen: s.now(), listing: &before, life: newLifetime(), at: w.at, Governed: w.Governed})
	if !errors.Is(err, errUnlisted) || s.before(w.World) != w {
		t.Errorf("%v: it is open by the old list", err)
	}
}

// TestF4_SweepsTakeTurns: each world comes first in one of the rounds.
func TestF4_SweepsTakeTurns(t *testing.T) {
	var first []string
	for round := range 4 {
		order := inTurn([]string{"a", "b", "c"}, round)
		if len(order) != 3 {
			t.Errorf("round %d has %v", round, order)
		}
		first = append(first, order[0])
	}
	if !slices.Equal(first, []string{"a", "b", "c", "a"}) || inTurn([]string(nil), 3) != nil {
		t.Errorf("first come %v", first)
	}
}

// TestW13_SweepsRest: a round of sweeps that takes most of the time between two, or far
// more, is followed by a rest of a quarter of that time.
func TestW13_SweepsRest(t *testing.T) {
	began, every := time.Unix(1_800_000_000, 0), 20*time.Minute
	for took, rest := range map[time.Duration]time.Duration{
		0: 20 * time.Minute, time.Minute: 19 * time.Minute, 15 * time.Minute: 5 * time.Minute, 16 * time.Minute: 5 * time.Minute,
		20 * time.Minute: 5 * time.Minute, 5 * time.Hour: 5 * time.Minute,
	} {
		ended := began.Add(took)
		if got := rested(began, ended, every).Add(every).Sub(ended); got != rest {
			t.Errorf("after %s the next round comes in %s, want %s", took, got, rest)
		}
	}
}

// stateRefs makes state refs of tasks that nobody here knows, all at one commit
// whose word and age are given.
func (p *serverPlace) stateRefs(from, to int, state string, age time.Duration) {
	p.T.Helper()
	bare := p.Store.GitDir(p.Repo.ID)
	tree := gittest.GitInput(p.T, bare, "", "hash-object", "-w", "-t", "tree", "--stdin")
	at := fmt.Sprintf("%d +0000", time.Now().Add(-age).Unix())
	commit := gittest.GitInput(p.T, bare, fmt.Sprintf("tree %s\nauthor A <a@example.com> %s\ncommitter A <a@example.com> %s\n\nold\n\naynig-state: %s\n", tree, at, at, state),
		"hash-object", "-w", "-t", "commit", "--stdin")
	var b strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&b, "create refs/writ/task/%d %s\n", n, commit)
	}
	gittest.GitInput(p.T, bare, b.String(), "update-ref", "--stdin")
	gittest.Git(p.T, bare, "pack-refs", "--all") // as forges have them: reading loose ones takes git seconds
}

// TestW13_OldRefsKeepNobodyWaiting: an issue that is approved while thousands of
// unknown tasks are still to be looked at begins at once.
func TestW13_OldRefsKeepNobodyWaiting(t *testing.T) {
	p := newServerPlace(t)
	const old = 1500
	p.stateRefs(1000, 1000+old, "open", 90*24*time.Hour)
	s := p.Serve()
	p.Until("it serves", func() bool { return strings.Contains(s.Log.String(), "msg=serving") })
	p.Until("they are found", func() bool { return p.Metric("writ_schedule_due") > old/2 })
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue is done", func() bool { return p.Head(n) == "completed" })
	if left := p.Metric("writ_schedule_due"); left < old/4 {
		t.Errorf("%v of %d old ones were left when the issue was done", left, old)
	}
}

// TestW13_EndedLongAgo: state refs of tasks that ended long ago are told apart in
// one exchange with git, and not looked at; those that ended lately are, and so is
// an old one that moves.
func TestW13_EndedLongAgo(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	p.stateRefs(1, 1000, "completed", 90*24*time.Hour)
	p.stateRefs(1001, 2000, "blocked", 90*24*time.Hour)
	p.stateRefs(2001, 2002, "completed", time.Hour)
	p.stateRefs(2002, 2003, "open", 90*24*time.Hour)
	p.stateRefs(2003, 2004, "completed\nwrit-waiting-for: merge", 90*24*time.Hour)
	for range 2 {
		if _, err := s.sweep(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if got := s.dueIn(t, w); !slices.Equal(got, []int64{2001, 2002, 2003}) {
			t.Fatalf("looked at are %d: %v", len(got), got[:min(len(got), 5)])
		}
	}
	bare := p.Store.GitDir(p.Repo.ID)
	gittest.Git(t, bare, "update-ref", "refs/writ/task/7", "refs/writ/task/2002")
	_, err := s.sweep(t.Context(), w)
	must(t, err)
	if got := s.dueIn(t, w); !slices.Equal(got, []int64{7, 2001, 2002, 2003}) {
		t.Errorf("looked at are %v", got)
	}
}
