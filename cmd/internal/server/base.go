package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
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

// refusedTasks are the tasks that were refused for what their builder lacks or by the
// configuration, whose push a rule of the server refused, or in whose way a ref is. That something was is durable, see lackingCursor; which
// tasks they are, only this process knows.
type refusedTasks struct {
	mu    sync.Mutex
	tasks map[inbox.Key]refusedFor
}

// refusedFor is why a task was refused.
type refusedFor struct {
	builder    string // that lacks something, "" for none
	configured bool   // by the configuration, or the contract
	ruled      bool   // by a rule of the server
	rule       string // its words, "" for none
	since      int64  // that a rule refuses it, Unix milliseconds
	ref        string // that is in its way: of its change branch, with an unlisted writer's lease, or with a state that waits for repair; "" for none
	at         string // commit of the ref that is in the way, "" for any
	absent     bool   // the ref isn't there, and should be
}

// lackingCursor says that tasks of a world were refused so.
const lackingCursor = "environment"

// lackingCodes say that a builder can't be started on this machine as it is, or that its
// provider doesn't serve it.
var lackingCodes = []kernel.Code{kernel.CodeEnvBuilder, kernel.CodeSandboxUnavailable, kernel.CodeEnvWorkspace, kernel.CodeEnvLayers, kernel.CodeEnvDisk,
	kernel.CodeEnvBuilderFailed, kernel.CodeEnvBuilderRequest, kernel.CodeProviderRefused, kernel.CodeProviderUnavailable}

func lacks(code kernel.Code) bool { return slices.Contains(lackingCodes, code) }

// configured reports whether a refusal may end with another configuration.
func configured(code kernel.Code) bool {
	return code == kernel.CodeObserveOnly || code == kernel.CodeEgressDenied || code == kernel.CodeBudgetExceeded || code == kernel.CodeBudgetSpent || code == kernel.CodeBudgetUnpriced || code == kernel.CodeBudgetUnmetered
}

// of are those of one world, of all worlds for "".
func (l *refusedTasks) of(world string) map[inbox.Key]refusedFor {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[inbox.Key]refusedFor{}
	for k, why := range l.tasks {
		if world == "" || k.World == world {
			out[k] = why
		}
	}
	return out
}

// note keeps one, or forgets it for no reason.
func (l *refusedTasks) note(k inbox.Key, why refusedFor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.tasks[k]
	switch {
	case why == refusedFor{}:
		delete(l.tasks, k)
		return
	case l.tasks == nil:
		l.tasks = map[inbox.Key]refusedFor{}
	case before.ruled && why.ruled:
		why.since = before.since
	}
	l.tasks[k] = why
}

// ruled is what rules of a world's server refuse, in its words; nil for nothing.
func (l *refusedTasks) ruled(world string) error {
	var first refusedFor
	n := 0
	for _, why := range l.of(world) {
		if !why.ruled {
			continue
		}
		if n++; n == 1 || why.since < first.since {
			first = why
		}
	}
	if n == 0 {
		return nil
	}
	return &problem.Error{
		Code: kernel.CodePushRefused,
		Text: fmt.Sprintf("The server refuses by a rule of its own what writ pushes, since %s; %s: %s",
			kernel.Timestamp(first.since/1000), waiting(n), onOneLine(first.rule)),
		Remedy: kernel.CodePushRefused.Info().Remedy,
	}
}

// lookAtLacking makes those tasks of a world due whose builder lacks nothing any more, or
// in whose way no ref is.
// What was refused before this process began is looked at once.
func (s *server) lookAtLacking(ctx context.Context, w *served) error {
	noted, err := s.inbox.Cursor(ctx, w.World, lackingCursor)
	if err != nil || noted == "" {
		return err
	}
	tasks := s.lacking.of(w.World)
	if len(tasks) == 0 {
		if err := s.inbox.MarkWorld(ctx, w.World, time.Now().UnixMilli()); err != nil {
			return err
		}
		return s.inbox.SetCursor(ctx, w.World, lackingCursor, "")
	}
	keys, err := freed(ctx, w, tasks)
	if err != nil {
		return err
	}
	whole := map[string]bool{}
	for k, why := range tasks {
		if why.builder == "" {
			continue // no look at this machine shows that it is mended
		}
		if _, asked := whole[why.builder]; !asked {
			whole[why.builder] = !slices.ContainsFunc(s.now().executor.Environment(ctx, why.builder), func(v kernel.Violation) bool { return lacks(v.Code) })
		}
		if whole[why.builder] {
			keys = append(keys, k)
		}
	}
	return s.inbox.MarkBehind(ctx, keys, time.Now().UnixMilli())
}

// freed are those tasks the ref in whose way is gone, or another.
func freed(ctx context.Context, w *served, tasks map[inbox.Key]refusedFor) (keys []inbox.Key, err error) {
	names := map[string]bool{}
	for _, why := range tasks {
		if why.ref != "" {
			names[why.ref] = true
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	refs, err := w.Repo.Refs(ctx, slices.Sorted(maps.Keys(names))...)
	if err != nil {
		return nil, err
	}
	for k, why := range tasks {
		if oid := refs.OID(why.ref); why.ref != "" && (oid.IsZero() != why.absent || why.at != "" && string(oid) != why.at) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}
