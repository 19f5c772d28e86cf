package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

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
