package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/webhook/inbox"
)

// sweepCursor names the time of the issue or change that was swept last.
const sweepCursor = "issues"

// sweepAll looks, now and then, for what no webhook told: issues and their changes that
// were updated since the last look, and tasks in the repository that the schedule doesn't
// know, because they are another installation's or the store is new. Without
// webhooks it is all that there is.
func (s *server) sweepAll(ctx context.Context) error {
	return s.eachForge(ctx, "sweep", s.sweepForge)
}

// sweepForge sweeps the worlds of one forge.
func (s *server) sweepForge(ctx context.Context, forge string) {
	hints, paced := s.hints[forge], newPacer()
	turns := s.newTurns(hints)
	defer turns.wait()
	var swept, late time.Time // of all; when a hint's turn comes
	round := 0
	for {
		now := time.Now()
		if !now.Before(swept.Add(s.sweepEvery())) {
			swept = now
			for _, w := range inTurn(s.worlds.openAt(forge), round) {
				turns.take(w, func() { s.sweepOne(ctx, w) })
			}
			round++
			swept = rested(swept, time.Now(), s.sweepEvery())
		}
		var due []string
		due, late = paced.admit(hints.take(), time.Now())
		s.lookAfter(ctx, due, turns)
		wait := time.Until(swept.Add(s.sweepEvery()))
		if !late.IsZero() {
			wait = min(wait, time.Until(late))
		}
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-hints.signal:
		}
		timer.Stop()
	}
}

// rested is when a round of sweeps counts as begun. One that took most of the time
// between two is followed by a rest of a quarter of that time, so that sweeping never
// takes everything.
func rested(began, ended time.Time, every time.Duration) time.Time {
	if latest := ended.Add(-every / 4 * 3); latest.After(began) {
		return latest
	}
	return began
}

// inTurn has another one come first in each round: where a forge limits a round,
// it is not always the same who are left out.
func inTurn[E any](list []E, round int) []E {
	if len(list) == 0 {
		return nil
	}
	first := round % len(list)
	return slices.Concat(list[first:], list[:first])
}

// sweepEvery is how often all worlds are swept.
func (s *server) sweepEvery() time.Duration {
	c := s.conf().Server
	if c.Intake == config.IntakePoll {
		return c.Poll
	}
	return c.Sweep
}

// lookAfter follows hints: what is open is looked at, and what is closed may work
// now.
func (s *server) lookAfter(ctx context.Context, worlds []string, turns *turns) {
	if len(worlds) == 0 {
		return
	}
	s.worlds.tryNow(worlds)
	for _, name := range worlds {
		if w := s.worlds.named(name); w != nil && !turns.take(w, func() {
			s.recheck(ctx, []string{name})
			s.checkAccess(ctx, w.listing, w.at)
			s.sweepOne(ctx, w)
		}) {
			turns.hints.keep(name)
		}
	}
}

// tryNow makes closed worlds due.
func (ws *worlds) tryNow(worlds []string) {
	ws.locked(func() {
		for _, l := range ws.list {
			if l.served == nil && slices.Contains(worlds, l.world) {
				l.next = time.Time{}
			}
		}
	})
	select {
	case ws.wake <- struct{}{}:
	default: // it is awake
	}
}

func (s *server) sweepOne(ctx context.Context, w *served) {
	s.bases[w.listing.forge.Name].add([]string{w.World})
	w.git.forget()
	w.seen.forget()
	s.recordPauses(ctx, w, "", "")
	if err := w.sup.WatchActs(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("the world's acts could not be looked at", "world", w.World, "error", err)
	}
	n, err := s.sweep(ctx, w)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.Warn("a sweep found no answer; it is tried again", "world", w.World, "error", err)
	case n > 0:
		s.log.Info("a sweep found tasks to look at", "world", w.World, "tasks", n)
	}
}

// recheck makes the open tasks of worlds due, for what writ may do there has
// changed.
func (s *server) recheck(ctx context.Context, worlds []string) {
	for _, name := range worlds {
		s.log.Info("a repository changed, or what writ may do there: its tasks are looked at", installation.LogWorld, name)
		if err := s.inbox.MarkWorld(ctx, name, time.Now().UnixMilli()); err != nil && ctx.Err() == nil {
			s.log.Warn("tasks could not be made due; they are looked at when they are", "world", name, "error", err)
		}
	}
}

// sweep marks what changed in one world. The cursor moves only when all that
// was found is marked; where the list breaks off, the next sweep goes on from there.
func (s *server) sweep(ctx context.Context, w *served) (int, error) {
	text, err := s.inbox.Cursor(ctx, w.World, sweepCursor)
	if err != nil {
		return 0, err
	}
	before := parseSwept(text)
	keys, now, broken := s.changed(ctx, w, before)
	mark := s.inbox.Mark
	if len(keys) > fewChanged {
		mark = s.inbox.MarkBehind
	}
	if err := mark(ctx, keys, time.Now().UnixMilli()); err != nil {
		return 0, errors.Join(broken, err)
	}
	if now.String() != text {
		broken = errors.Join(broken, s.inbox.SetCursor(ctx, w.World, sweepCursor, now.String()))
	}
	unknown, err := s.unknown(ctx, w)
	if err == nil {
		err = s.inbox.MarkBehind(ctx, unknown, time.Now().UnixMilli())
	}
	return len(keys) + len(unknown), errors.Join(broken, err)
}

// fewChanged is how many issues may have changed between two sweeps for each to be
// looked at as if a webhook had told of it. More are what a first sweep finds, or
// one after a long stop: they go behind what somebody asks for meanwhile.
const fewChanged = 64

// oldNews is how long ago a change was that a sweep passes over. Only the first
// sweep of a repository finds such changes, or one after as long a stop: a look at
// each issue that there ever was would use up what the forge allows.
const oldNews = 30 * 24 * time.Hour

// worthALook leaves out what changed long ago and is closed, or has no label by
// which anybody might have approved it. Those that were ever tasks are known
// otherwise, see unknown.
func worthALook(i forge.Issue, now time.Time) bool {
	return now.Sub(i.UpdatedAt) < oldNews || i.State == forge.Open && len(i.Labels) > 0
}

// clocksDiffer is how far a cursor may lie ahead of this clock. Beyond it somebody
// set a date: everything is looked through once more.
const clocksDiffer = time.Hour

// forgeTick is how exactly GitHub tells when an issue was updated: a second update in the
// same tick has the same time.
const forgeTick = time.Second

// overlap is how far before the newest update that was seen a sweep begins: an update may
// show later than one that came after it.
const overlap = 10 * time.Second

// changed are the issues that changed since the last sweep, or whose change did. Which task a
// change delivers is what the records say; of a change that they don't know, its description
// says so, which is a hint like any other. They come by their time: with an error they are
// those up to a moment.
func (s *server) changed(ctx context.Context, w *served, before swept) (keys []inbox.Key, now swept, err error) {
	began := time.Now()
	if before.until.After(began.Add(clocksDiffer)) {
		before = swept{}
	}
	now = swept{until: before.until, shown: maps.Clone(before.shown)}
	listed := map[inbox.Key]bool{} // in keys
	err = w.client.ListIssues(ctx, w.at, before.since(), func(i forge.Issue) error {
		clock := time.Now()
		if !now.isNews(i, began, clock) {
			return nil
		}
		task := i.Number
		if i.IsChange {
			task = cmp.Or(w.sup.TaskOfChange(i.Number), marker.Task(i.Body))
		}
		if key := (inbox.Key{World: w.World, Task: task}); task > 0 && worthALook(i, clock) && !listed[key] {
			listed[key] = true
			keys = append(keys, key)
		}
		return nil
	})
	now.forget()
	return keys, now, err
}

// unknown are the tasks whose state refs neither schedule nor ledger knows, but for
// those that ended long ago.
func (s *server) unknown(ctx context.Context, w *served) ([]inbox.Key, error) {
	known, err := s.known(ctx, w)
	if err != nil {
		return nil, err
	}
	prefix := installation.RefPrefix(s.cfg.Refs)
	refs, err := w.Repo.Refs(ctx, prefix)
	if err != nil {
		return nil, err
	}
	heads := map[int64]git.OID{}
	for _, n := range supervisor.TasksAt(refs.Names(), prefix) {
		if !known[n] {
			heads[n] = refs.OID(installation.StateRef(s.cfg.Refs, n))
		}
	}
	if err := s.leaveOutEnded(ctx, w, heads); err != nil {
		return nil, err
	}
	keys := make([]inbox.Key, 0, len(heads))
	for _, n := range slices.Sorted(maps.Keys(heads)) {
		keys = append(keys, inbox.Key{World: w.World, Task: n})
	}
	return keys, nil
}

// ended remembers, for one repository and in memory, which state refs tell of a
// task that ended long ago, by the commit at HEAD. A look at each of them would
// use up what the forge allows; one exchange with git tells thousands apart.
type ended struct {
	mu    sync.Mutex
	heads map[int64]git.OID
}

// leaveOutEnded takes out those tasks whose HEAD, by its own word, ended so long ago
// that a sweep would pass over its issue. Whose word that is doesn't matter here:
// whatever happens on the issue has it looked at.
func (s *server) leaveOutEnded(ctx context.Context, w *served, heads map[int64]git.OID) error {
	w.life.ended.mu.Lock()
	defer w.life.ended.mu.Unlock()
	known := w.life.ended.heads
	maps.DeleteFunc(known, func(n int64, oid git.OID) bool { return heads[n] != oid })
	maps.DeleteFunc(heads, func(n int64, oid git.OID) bool { return known[n] == oid })
	said := map[git.OID]bool{}
	now := time.Now()
	err := w.Repo.Commits(ctx, slices.Collect(maps.Values(heads)), func(c git.Commit) {
		if endedLongAgo(c, now) {
			said[c.OID] = true
		}
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(heads, func(n int64, oid git.OID) bool {
		if said[oid] {
			known[n] = oid
		}
		return said[oid]
	})
	return nil
}

// endedLongAgo reads a commit at HEAD.
func endedLongAgo(c git.Commit, now time.Time) bool {
	if !c.Committer.OK || now.Sub(time.Unix(c.Committer.Seconds, 0)) < oldNews {
		return false
	}
	ev, err := lease.ReadEvent(lease.Head{OID: string(c.OID), Message: c.Message, CommitterSeconds: c.Committer.Seconds, CommitterOK: true})
	if err != nil {
		return false
	}
	waits := slices.ContainsFunc(ev.Extra(), func(tr lease.Trailer) bool { return tr.Key == kernel.TrailerWaitingFor })
	return !waits && (ev.State == string(kernel.TaskCompleted) || ev.State == string(kernel.TaskBlocked))
}

// swept is how far the sweeps have come: the time of the newest update that was seen, and the
// issues that were updated in the [overlap] before it.
//
// An issue may say that it changes in years to come: owners of a GitLab project may set that
// date. It never moves the time, or nothing would be found until then; it is one of those
// issues as long as it lies ahead.
type swept struct {
	until time.Time
	shown map[int64]update
}

// update is an update of an issue: the forge's time of it, and when the forge first showed it,
// by this clock. That is zero once the issue needn't be looked at for this update any more.
type update struct{ at, shown time.Time }

// maxAhead bounds how many issues that lie ahead are remembered; others are looked at in each
// sweep.
const maxAhead = 1000

// since is where the next sweep begins.
func (s *swept) since() time.Time {
	if s.until.IsZero() {
		return s.until
	}
	return s.until.Add(-overlap)
}

// isNews takes in what a sweep that began at a time sees of an issue, and reports whether the
// issue is to be looked at. It is until a sweep looks that began a [forgeTick] after the forge
// first showed the update: by then no other update could get the same time any more. So each
// of these issues is looked at by two sweeps.
func (s *swept) isNews(i forge.Issue, began, clock time.Time) bool {
	ahead := i.UpdatedAt.After(clock)
	if !ahead && i.UpdatedAt.After(s.until) {
		s.until = i.UpdatedAt
	}
	u, known := s.shown[i.Number]
	switch {
	case !known || !u.at.Equal(i.UpdatedAt):
		u = update{at: i.UpdatedAt, shown: clock}
	case u.shown.IsZero():
		return false
	case u.shown.After(began): // this clock was set back
		u.shown = began
	case began.Sub(u.shown) >= forgeTick:
		u.shown = time.Time{}
	}
	if known || !ahead || len(s.shown) < maxAhead {
		s.note(i.Number, u)
	}
	return true
}

func (s *swept) note(number int64, u update) {
	if s.shown == nil {
		s.shown = map[int64]update{}
	}
	s.shown[number] = u
}

// forget leaves out the issues that the next sweep isn't shown.
func (s *swept) forget() {
	maps.DeleteFunc(s.shown, func(_ int64, u update) bool { return u.at.Before(s.since()) })
}

// String is a cursor: the time, and each of the issues with the time of its update, a slash
// and, if it is to be looked at once more, when that update was shown.
func (s swept) String() string {
	if s.until.IsZero() && len(s.shown) == 0 {
		return ""
	}
	text := s.until.UTC().Format(time.RFC3339Nano)
	for _, n := range slices.Sorted(maps.Keys(s.shown)) {
		u := s.shown[n]
		text += " " + strconv.FormatInt(n, 10) + "@" + u.at.UTC().Format(time.RFC3339Nano) + "/"
		if !u.shown.IsZero() {
			text += u.shown.UTC().Format(time.RFC3339Nano)
		}
	}
	return text
}

// parseSwept reads a cursor. From one that is spoilt everything is looked at once more, and
// what an older version noted of single issues is left out, so that they are.
func parseSwept(text string) (s swept) {
	until, issues, _ := strings.Cut(text, " ")
	s.until, _ = time.Parse(time.RFC3339Nano, until) // zero if it is none
	for _, word := range strings.Fields(issues) {
		number, times, _ := strings.Cut(word, "@")
		at, shown, whole := strings.Cut(times, "/")
		var u update
		var err2, err3 error
		n, err := strconv.ParseInt(number, 10, 64)
		u.at, err2 = time.Parse(time.RFC3339Nano, at)
		if shown != "" {
			u.shown, err3 = time.Parse(time.RFC3339Nano, shown)
		}
		if whole && errors.Join(err, err2, err3) == nil {
			s.note(n, u)
		}
	}
	return s
}

// known are the tasks that the schedule or the ledger has.
func (s *server) known(ctx context.Context, w *served) (map[int64]bool, error) {
	due, err := s.inbox.Scheduled(ctx, w.World)
	if err != nil {
		return nil, err
	}
	known := map[int64]bool{}
	for _, d := range due {
		known[d.Key.Task] = true
	}
	for _, n := range w.sup.Tasks() {
		known[n] = true
	}
	return known, nil
}

// hintPace is how often at most a world is swept because of hints: whoever can
// have a forge send them often must not have writ ask the forge as often.
const hintPace = 30 * time.Second

// pacer lets a world through once in hintPace. Who comes too early waits, and
// counts once however often it comes. It is of one goroutine.
type pacer struct {
	last map[string]time.Time
	late []string
}

func newPacer() *pacer { return &pacer{last: map[string]time.Time{}} }

// admit takes worlds that were hinted at, and returns those whose turn it is, and
// when the next one's comes; zero for none.
func (p *pacer) admit(worlds []string, now time.Time) (due []string, next time.Time) {
	for _, w := range worlds {
		if !slices.Contains(p.late, w) {
			p.late = append(p.late, w)
		}
	}
	p.late = slices.DeleteFunc(p.late, func(w string) bool {
		at := p.last[w].Add(hintPace)
		if !at.After(now) {
			due, p.last[w] = append(due, w), now
			return true
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
		return false
	})
	return due, next
}
