package main

import (
	"context"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/webhook/inbox"
)

// baseCursor names the commit of the base up to which it was looked through for
// work that is taken back.
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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.bases.signal:
		}
		for _, name := range s.bases.take() {
			w := s.worlds.named(name)
			if w == nil {
				continue
			}
			if n, err := s.lookAtBase(ctx, w); err != nil && ctx.Err() == nil {
				s.log.Warn("the base could not be looked through; it is tried again with the next push or sweep", "world", name, "error", err)
			} else if n > 0 {
				s.log.Info("commits on the base take back work of tasks", "world", name, "tasks", n)
			}
		}
	}
}

// lookAtBase makes those tasks due whose work is taken back by what is new on the
// base. The cursor moves only when they are.
func (s *server) lookAtBase(ctx context.Context, w *served) (int, error) {
	before, err := s.inbox.Cursor(ctx, w.world, baseCursor)
	if err != nil {
		return 0, err
	}
	var tip git.OID
	var tasks []int64
	if w.sup.Delivered() {
		if _, tip, err = w.sup.Base(ctx); err == nil && string(tip) != before {
			tasks, err = s.takenBack(ctx, w, git.OID(before), tip)
		}
		if err != nil {
			return 0, err
		}
	}
	keys := make([]inbox.Key, 0, len(tasks))
	for _, n := range tasks {
		w.restful.forget(n) // on the forge it looks as before
		keys = append(keys, inbox.Key{World: w.world, Task: n})
	}
	if len(keys) > 0 {
		if err := s.inbox.Mark(ctx, keys, time.Now().UnixMilli()); err != nil {
			return 0, err
		}
		s.sched.Nudge()
	}
	if tip != "" && string(tip) != before {
		err = s.inbox.SetCursor(ctx, w.world, baseCursor, string(tip))
	}
	return len(keys), err
}

// takenBack reads the new commits in one exchange, however many a push brought.
// Without a cursor that is a commit, the newest are looked through.
func (s *server) takenBack(ctx context.Context, w *served, before, tip git.OID) ([]int64, error) {
	var not []git.OID
	most := fewCommits
	if before.Valid() && !before.IsZero() {
		not, most = []git.OID{before}, mostNewCommits
	}
	commits, rest, err := w.repo.Log(ctx, []git.OID{tip}, not, most)
	if err != nil {
		return nil, err
	}
	if rest != nil && not != nil {
		s.log.Warn("more came to the base than is looked through; what lies below is left out", "world", w.world, "commits", len(commits))
	}
	return w.sup.TakenBack(ctx, commits)
}
