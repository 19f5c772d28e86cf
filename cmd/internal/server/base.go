package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/webhook/inbox"
)

// baseCursor names the commit of the base up to which it was looked through for
// work that is reverted.
const baseCursor = "base"

// How far one look at a base goes, and the first one of a process that never
// looked; the newest commits come first.
const (
	mostNewCommits = 20_000
	fewCommits     = 1000
)

// watchBases looks through what came to the base of a world when somebody pushed
// there, and with each sweep, for such a delivery may be lost: a commit that takes
// a task's work back changes nothing on its issue.
func (s *server) watchBases(ctx context.Context) error {
	return s.eachForge(ctx, "bases", func(ctx context.Context, forge string) {
		var told sync.Map
		turns := s.newTurns(s.bases[forge])
		defer turns.wait()
		for {
			select {
			case <-ctx.Done():
				return
			case <-turns.hints.signal:
				s.lookAtBases(ctx, turns, &told)
			}
		}
	})
}

// lookAtBases looks through those that are to be. The log is told of a trouble when it
// changes; told has those that it was told of, by world.
func (s *server) lookAtBases(ctx context.Context, turns *turns, told *sync.Map) {
	for _, name := range turns.hints.take() {
		if w := s.worlds.named(name); w != nil && !turns.take(w, func() { s.lookThrough(ctx, w, told) }) {
			turns.hints.keep(name)
		}
	}
}

func (s *server) lookThrough(ctx context.Context, w *served, told *sync.Map) {
	n, err := s.lookAtBase(ctx, w)
	if ctx.Err() != nil {
		return
	}
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	before, _ := told.Swap(w.World, trouble)
	if trouble != "" && trouble != before {
		s.log.Warn("the base could not be looked through; it is tried again with the next push or sweep", "world", w.World, "error", err)
	} else if n > 0 {
		s.log.Info("commits on the base revert work of tasks", "world", w.World, "tasks", n)
	}
}

// lookAtBase makes those tasks due whose work is reverted by what is new on the
// base. The cursor moves only when they are.
func (s *server) lookAtBase(ctx context.Context, w *served) (int, error) {
	if err := s.lookAtLacking(ctx, w); err != nil {
		return 0, err
	}
	delivered := w.sup.Delivered()
	if !delivered {
		if open, err := s.inbox.Scheduled(ctx, w.World); err != nil || len(open) == 0 {
			return 0, err // nobody waits for anything there
		}
	}
	base, err := w.sup.Base(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.baseMoved(ctx, w, base); err != nil || !delivered {
		return 0, err
	}
	before, err := s.inbox.Cursor(ctx, w.World, baseCursor)
	if err != nil {
		return 0, err
	}
	var tasks []int64
	if string(base.Tip) != before {
		if tasks, err = s.reverted(ctx, w, git.OID(before), base.Tip); err != nil {
			return 0, err
		}
	}
	keys := make([]inbox.Key, 0, len(tasks))
	for _, n := range tasks {
		w.unchanged.forget(n) // on the forge it looks as before
		keys = append(keys, inbox.Key{World: w.World, Task: n})
	}
	if len(keys) > 0 {
		if err := s.inbox.Mark(ctx, keys, time.Now().UnixMilli()); err != nil {
			return 0, err
		}
		s.sched.Nudge()
	}
	if string(base.Tip) != before && base.Auto { // what is delivered may be applied there
		if err = s.inbox.MarkWorld(ctx, w.World, time.Now().UnixMilli()); err != nil {
			return 0, err
		}
		s.sched.Nudge()
	}
	if string(base.Tip) != before {
		err = s.inbox.SetCursor(ctx, w.World, baseCursor, string(base.Tip))
	}
	return len(keys), err
}

// unusableCursor names the commit of the base for which a task was not claimed, and
// termsCursor the contract under which the tasks were looked at, see
// [supervisor.Base].
const (
	unusableCursor = "base unusable"
	termsCursor    = "contract"
)

// baseMoved has the tasks of a world looked at when the contract is another than the
// one under which they were, for it may have refused them, and when another commit
// is there than one that could not be used. The cursors move only when they are due.
func (s *server) baseMoved(ctx context.Context, w *served, base supervisor.Base) error {
	unusable, err := s.inbox.Cursor(ctx, w.World, unusableCursor)
	if err != nil {
		return err
	}
	terms, err := s.inbox.Cursor(ctx, w.World, termsCursor)
	if err != nil {
		return err
	}
	mended := unusable != "" && string(base.Tip) != unusable
	if !mended && terms == string(base.Terms) {
		return nil
	}
	w.sup.RulesMayBeMended()
	if err := s.inbox.MarkWorld(ctx, w.World, time.Now().UnixMilli()); err != nil {
		return err
	}
	s.log.Info("the contract or the base changed: the tasks of the repository are looked at", installation.LogWorld, w.World, "commit", string(base.Tip))
	s.sched.Nudge()
	if mended {
		err = s.inbox.SetCursor(ctx, w.World, unusableCursor, "")
	}
	return errors.Join(err, s.inbox.SetCursor(ctx, w.World, termsCursor, string(base.Terms)))
}

// reverted reads the new commits in one exchange, however many a push brought.
// Without a cursor that is a commit, the newest are looked through.
func (s *server) reverted(ctx context.Context, w *served, before, tip git.OID) ([]int64, error) {
	var not []git.OID
	most := fewCommits
	if before.Valid() && !before.IsZero() {
		not, most = []git.OID{before}, mostNewCommits
	}
	commits, rest, err := w.Repo.Log(ctx, []git.OID{tip}, not, most)
	if err != nil {
		return nil, err
	}
	if rest != nil && not != nil {
		s.log.Warn("more came to the base than is looked through; what lies below is left out", "world", w.World, "commits", len(commits))
	}
	return w.sup.Reverted(ctx, commits)
}
