package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/webhook/inbox"
)

// sweepCursor names the time of the issue that was swept last.
const sweepCursor = "issues"

// sweepAll looks, now and then, for what no webhook told: issues that changed
// since the last look, and tasks in the repository that the schedule doesn't
// know, because they are another installation's or the store is new. Without
// webhooks it is all that there is.
func (s *server) sweepAll(ctx context.Context) error {
	paced := newPacer()
	var swept, late time.Time // of all; when a hint's turn comes
	round := 0
	for {
		now := time.Now()
		if !now.Before(swept.Add(s.sweepEvery())) {
			swept = now
			for _, w := range inTurn(s.worlds.open(), round) {
				s.sweepOne(ctx, w)
			}
			round++
		}
		var due []string
		due, late = paced.admit(s.hints.take(), time.Now())
		s.lookAfter(ctx, due)
		wait := time.Until(swept.Add(s.sweepEvery()))
		if !late.IsZero() {
			wait = min(wait, time.Until(late))
		}
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-s.hints.signal:
		}
		timer.Stop()
	}
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
func (s *server) lookAfter(ctx context.Context, worlds []string) {
	if len(worlds) == 0 {
		return
	}
	s.worlds.tryNow(worlds)
	for _, name := range worlds {
		if w := s.worlds.named(name); w != nil {
			s.recheck(ctx, []string{name})
			s.checkAccess(ctx, w.listing, w.at)
			s.sweepOne(ctx, w)
		}
	}
}

func (s *server) sweepOne(ctx context.Context, w *served) {
	s.bases.add([]string{w.world})
	w.git.forget()
	w.seen.forget()
	n, err := s.sweep(ctx, w)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.Warn("a sweep found no answer; it is tried again", "world", w.world, "error", err)
	case n > 0:
		s.log.Info("a sweep found tasks to look at", "world", w.world, "tasks", n)
	}
}

// recheck makes the open tasks of worlds due, for what writ may do there has
// changed.
func (s *server) recheck(ctx context.Context, worlds []string) {
	for _, name := range worlds {
		s.log.Info("what writ may do in a repository may have changed: its tasks are looked at", logWorld, name)
		open, err := s.inbox.Scheduled(ctx, name)
		if err == nil && len(open) > 0 {
			keys := make([]inbox.Key, len(open))
			for i, d := range open {
				keys[i] = d.Key
			}
			err = s.inbox.Mark(ctx, keys, time.Now().UnixMilli())
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("tasks could not be made due; they are looked at when they are", "world", name, "error", err)
		}
	}
}

// sweep marks what changed in one world. The cursor moves only when all that
// was found is marked; where the list breaks off, the next sweep goes on from there.
func (s *server) sweep(ctx context.Context, w *served) (int, error) {
	text, err := s.inbox.Cursor(ctx, w.world, sweepCursor)
	if err != nil {
		return 0, err
	}
	before := parseSwept(text)
	keys, now, broken := s.changed(ctx, w, before)
	unknown, err := s.unknown(ctx, w)
	if err != nil {
		return 0, errors.Join(broken, err)
	}
	if keys = append(keys, unknown...); len(keys) > 0 {
		if err := s.inbox.Mark(ctx, keys, time.Now().UnixMilli()); err != nil {
			return 0, err
		}
	}
	if now.String() != text {
		err = s.inbox.SetCursor(ctx, w.world, sweepCursor, now.String())
	}
	return len(keys), errors.Join(broken, err)
}

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

// changed are the issues that changed since the last sweep, those of the very
// same moment that it did not see included. They come by their time: with an error
// they are those up to a moment.
func (s *server) changed(ctx context.Context, w *served, before swept) (keys []inbox.Key, now swept, err error) {
	now = before
	err = w.client.ListIssues(ctx, w.at, before.until, func(i forge.Issue) error {
		if i.UpdatedAt.Equal(before.until) && slices.Contains(before.seen, i.Number) {
			return nil
		}
		if i.UpdatedAt.After(now.until) {
			now = swept{until: i.UpdatedAt}
		}
		if i.UpdatedAt.Equal(now.until) {
			now.seen = append(slices.Clone(now.seen), i.Number)
		}
		if worthALook(i, time.Now()) {
			keys = append(keys, inbox.Key{World: w.world, Task: i.Number})
		}
		return nil
	})
	return keys, now, err
}

// unknown are the tasks whose state refs neither schedule nor ledger knows.
func (s *server) unknown(ctx context.Context, w *served) ([]inbox.Key, error) {
	known, err := s.known(ctx, w)
	if err != nil {
		return nil, err
	}
	prefix := refPrefix(s.cfg.Refs)
	refs, err := w.repo.Refs(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var keys []inbox.Key
	for _, name := range refs.Names() {
		n, err := strconv.ParseInt(strings.TrimPrefix(name, prefix), 10, 64)
		if err == nil && n > 0 && !known[n] {
			keys = append(keys, inbox.Key{World: w.world, Task: n})
		}
	}
	return keys, nil
}

// swept is how far the sweeps have come: the time of the newest change that was
// seen, and the issues that changed right then. Forges count in seconds.
type swept struct {
	until time.Time
	seen  []int64
}

// String is a cursor: the time, and the numbers with commas between them.
func (s swept) String() string {
	if s.until.IsZero() {
		return ""
	}
	numbers := make([]string, len(s.seen))
	for i, n := range s.seen {
		numbers[i] = strconv.FormatInt(n, 10)
	}
	return s.until.UTC().Format(time.RFC3339Nano) + " " + strings.Join(numbers, ",")
}

// parseSwept reads a cursor. From one that is spoilt everything is looked at
// once more.
func parseSwept(text string) (s swept) {
	at, list, _ := strings.Cut(text, " ")
	s.until, _ = time.Parse(time.RFC3339Nano, at) // zero if it is none
	for _, word := range strings.Split(list, ",") {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			s.seen = append(s.seen, n)
		}
	}
	return s
}

// known are the tasks that the schedule or the ledger has.
func (s *server) known(ctx context.Context, w *served) (map[int64]bool, error) {
	due, err := s.inbox.Scheduled(ctx, w.world)
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
