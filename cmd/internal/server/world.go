package server

import (
	"context"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/webhook/inbox"
)

// served is one governed repository of a server, as a generation has it.
type served struct {
	*installation.Governed
	gen       *generation
	listing   *listing
	life      *lifetime
	at        forge.Repo
	client    forge.Client
	unchanged *unchanged // the client as the supervisor has it
	sup       *supervisor.Supervisor

	git, seen cachedAnswer // whether git and the forge answer
}

// before is a world as it was when this process opened it last; nil if it never
// did.
func (s *server) before(world string) *served {
	s.opening.Lock()
	defer s.opening.Unlock()
	return s.ever[world]
}

// reach makes the ways to a world's repository: git, and its forge's API. Its
// address is built from the configuration, never from what a payload says (case
// I13).
func (s *server) reach(ctx context.Context, w *served, f *wire.Forge, world string) error {
	options := f.Git
	options.Logger = s.log.With(installation.LogWorld, world)
	options.Limits.Cached, options.Pool = w.gen.cachedEach(), s.pool
	repo, err := git.Open(ctx, git.Endpoint{URL: f.Host.GitURL(w.at), Auth: f.Host.GitAuth(w.at)}, options)
	if err != nil {
		return err
	}
	w.Governed = &installation.Governed{Installation: w.gen.in, Repo: repo, World: world, Display: f.Display(w.at)}
	w.client = s.traces.client(f.Host.Client(w.at))
	w.unchanged = newUnchanged(w.client, w.at)
	return nil
}

// goOn takes over what another form of the same world has of it: its ledger, and
// what its supervisor knows.
func (s *server) goOn(w, before *served) error {
	w.Ledger, w.Savings = before.Ledger, before.Savings
	cfg, deps, err := s.process.Supervision(w.Governed, s.traces.executor(w.gen.executor), s.supervisionOf(w))
	if err == nil {
		w.sup = before.sup.With(cfg, deps)
	}
	return err
}

// payloadWithin is how long the delivery of an act takes where a forge is busy. What
// comes later is taken all the same.
const payloadWithin = 10 * time.Second

// supervisionOf is how a served world is supervised.
func (s *server) supervisionOf(w *served) wire.Supervision {
	f, within := w.listing.forge, payloadWithin
	if w.gen.cfg.Server.Intake == config.IntakePoll {
		within = 0
	}
	return wire.Supervision{
		Repo: s.traces.repo(w.Repo, w.World), Observe: w.gen.cfg.Server.Observe,
		Forge: &supervisor.Forge{
			Client: w.unchanged, Repo: w.at, Evidence: approvals{s.inbox, w.World}, EditHistory: f.Host.EditHistory(), Allowed: f.Allowed,
			PayloadWithin: within, Workflows: workflowsOf(f.Host, w.at),
		},
		Ended:  s.logCycle(w.Governed),
		Healed: func(tasks []int64) { s.healed(w.World, tasks) },
		Tail:   func(task int64, line string) { s.tails.add(scheduler.Key{World: w.World, Task: task}, line) },
	}
}

// healed has the tasks looked at that waited for their server.
func (s *server) healed(world string, tasks []int64) {
	keys := make([]inbox.Key, len(tasks))
	marked := make([]scheduler.Key, len(tasks))
	for i, n := range tasks {
		keys[i], marked[i] = inbox.Key{World: world, Task: n}, scheduler.Key{World: world, Task: n}
	}
	ctx, cancel := context.WithTimeout(context.Background(), healedTime)
	defer cancel()
	if err := s.inbox.Mark(ctx, keys, time.Now().UnixMilli()); err != nil {
		s.log.Warn("tasks that waited for their server are looked at later", "world", world, "error", err)
	}
	s.sched.Marked(marked...)
}

// workflowsOf is how the forge is asked whether pushes may change its workflows; nil where
// none has to be.
func workflowsOf(h wire.Host, at forge.Repo) func(context.Context) (bool, error) {
	g, ok := h.(interface {
		Workflows(ctx context.Context, r forge.Repo) (bool, error)
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context) (bool, error) { return g.Workflows(ctx, at) }
}

// cachedBytes are for git objects in memory, of all repositories together, and
// cachedLeast is what each has at least.
const (
	cachedBytes = 256 << 20
	cachedLeast = 4 << 20
)

// cachedEach is the share of one repository.
func (g *generation) cachedEach() int64 {
	n := 0
	for _, f := range g.forges {
		n += len(f.Repositories)
	}
	return max(cachedLeast, min(git.DefaultCached, cachedBytes/int64(max(n, 1))))
}

// logCycle is the CLI's, one cycle at a time: all worlds write one log.
func (s *server) logCycle(g *installation.Governed) func(supervisor.EndedRun) {
	write := s.process.LogCycle(g)
	return func(c supervisor.EndedRun) {
		s.cycles.Lock()
		defer s.cycles.Unlock()
		write(c)
		s.metrics.attempt(c)
	}
}
