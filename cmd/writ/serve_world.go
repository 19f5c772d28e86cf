package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/local"
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
func (s *server) openWorlds(ctx context.Context, secrets secrets) error {
	c := s.cfg.Forges.Local
	store, err := local.Open(ctx, local.Options{Dir: c.Dir, URL: c.URL, Logger: s.log})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() {
		if err := store.Close(); err != nil {
			s.log.Error("the embedded forge could not be closed", "error", err)
		}
	})
	self, err := store.Authenticate(ctx, secrets.token)
	if err != nil {
		return &problem{exit: exitRefused, text: "The embedded forge doesn't know the token of " + c.Token + ".", remedy: "Make one for writ's own account there."}
	}
	s.self = self.ID
	visible, err := store.As(self).Repositories(ctx)
	if err != nil {
		return err
	}
	for _, name := range c.Repositories {
		i := slices.IndexFunc(visible, func(r forge.Repository) bool { return strings.EqualFold(r.String(), name) })
		if i < 0 {
			return coded(kernel.CodeTargetNotAllowed, "The repository %s is not at the forge, or writ's account may not see it.", name)
		}
		at := visible[i].Repo
		auth := git.Auth{Username: self.Login, Password: secrets.token}
		if err := s.openWorld(ctx, at, s.traces.client(store.As(self)), c.URL, auth); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// openWorld opens one repository. Its address is built from the configuration,
// never from what a payload says (case I13).
func (s *server) openWorld(ctx context.Context, at forge.Repo, client forge.Client, base string, auth git.Auth) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	world := "local/" + at.String()
	endpoint := git.Endpoint{URL: strings.TrimSuffix(base, "/") + "/" + at.String() + ".git", Auth: auth}
	endpoint.Auth.AllowPlaintext = u.Scheme == "http" // the operator wrote it so
	repo, err := git.Open(ctx, endpoint, git.Options{Logger: s.log.With(logWorld, world)})
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
			Client: w.restful, Repo: at, Evidence: approvals{s.inbox, world}, EditHistory: true,
			Allowed: func(owner, name string) bool { return s.allowed(owner + "/" + name) },
		},
		ended: s.logCycle(g),
	})
	if err != nil {
		return err
	}
	s.worlds[world], s.byID[at.ID] = w, w
	return nil
}

func (s *server) allowed(name string) bool {
	for _, r := range s.cfg.Forges.Local.Repositories {
		if strings.EqualFold(r, name) {
			return true
		}
	}
	return false
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
