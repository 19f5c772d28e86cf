package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// served is one governed repository of a server.
type served struct {
	*governed
	at      forge.Repo
	client  forge.Client
	restful *restful // the client as the supervisor has it
	sup     *supervisor.Supervisor
}

// openWorlds opens every repository of the configuration. One that can't be
// opened stops the start: what an operator listed must be governed.
func (s *server) openWorlds(ctx context.Context, secrets secrets) (err error) {
	if s.forges, err = s.app.connect(ctx, s.cfg, secrets, s.log); err != nil {
		return err
	}
	for _, f := range s.forges {
		s.closers = append(s.closers, f.host.Close)
	}
	for _, f := range s.forges {
		for _, name := range f.repositories {
			at := strings.LastIndexByte(name, '/')
			found, err := f.host.Find(ctx, name[:at], name[at+1:])
			if err != nil {
				return notFound(f, name, err)
			}
			if err := s.openWorld(ctx, f, found.Repo); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// openWorld opens one repository. Its address is built from the configuration,
// never from what a payload says (case I13).
func (s *server) openWorld(ctx context.Context, f *connected, at forge.Repo) (err error) {
	world := f.world(at)
	if s.worlds[world] != nil {
		return &problem{code: kernel.CodeConfigInvalid, exit: exitUsage, text: "Two repositories would be the world " + world + ".", remedy: "Leave one of them in forges."}
	}
	client := s.traces.client(f.host.Client(at))
	if f.self, err = client.Self(ctx); err != nil {
		return err
	}
	options := f.git
	options.Logger = s.log.With(logWorld, world)
	options.Limits.Cached = s.cachedEach()
	endpoint := git.Endpoint{URL: f.host.GitURL(at), Auth: f.host.GitAuth(at)}
	repo, err := git.Open(ctx, endpoint, options)
	if err != nil {
		return err
	}
	g, err := s.in.govern(ctx, world, repo)
	if err == nil {
		err = s.in.dir.remember(world, endpoint.URL)
	}
	if err != nil {
		return errors.Join(err, repo.Close())
	}
	w := &served{governed: g, at: at, client: client, restful: newRestful(client, at)}
	s.closers = append(s.closers, func() { _ = repo.Close() }) // everything that counts was answered before
	w.sup, err = s.app.supervise(ctx, g, s.traces.executor(s.executor), supervision{
		repo: s.traces.repo(repo, world), observe: s.cfg.Server.Observe,
		forge: &supervisor.Forge{
			Client: w.restful, Repo: at, Evidence: approvals{s.inbox, world}, EditHistory: f.host.EditHistory(), Allowed: f.allowed,
		},
		ended: s.logCycle(g),
	})
	if err != nil {
		return err
	}
	s.worlds[world], f.byID[at.ID] = w, w
	return nil
}

// cachedBytes are for git objects in memory, of all repositories together, and
// cachedLeast is what each has at least.
const (
	cachedBytes = 256 << 20
	cachedLeast = 4 << 20
)

// cachedEach is the share of one repository.
func (s *server) cachedEach() int64 {
	n := 0
	for _, f := range s.forges {
		n += len(f.repositories)
	}
	return max(cachedLeast, min(git.DefaultCached, cachedBytes/int64(max(n, 1))))
}

// logCycle is the CLI's, one cycle at a time: all worlds write one log.
func (s *server) logCycle(g *governed) func(supervisor.Cycle) {
	write := s.app.logCycle(g)
	return func(c supervisor.Cycle) {
		s.cycles.Lock()
		defer s.cycles.Unlock()
		write(c)
		s.metrics.attempt(c)
	}
}
