package server

import (
	"context"
	"fmt"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/webhook"
)

// hookOf makes the hook of a forge, as writ's account there is known now.
func (s *server) hookOf(f *wire.Forge, self forge.User) (webhook.Hook, error) {
	h, err := f.Hook(self, wire.Whose{World: s.worlds.lookup(f.Name), Installed: s.worlds.installed(f.Name), Name: s.worlds.listedAs(f.Name), Change: s.worlds.taskOfChange})
	if err != nil {
		return nil, fmt.Errorf("forges.%s: %w", f.Name, err)
	}
	return h, nil
}

// openHooks makes those of all forges; none where writ asks by itself.
func (s *server) openHooks() (list []webhook.Hook, err error) {
	if s.cfg.Server.Intake == config.IntakePoll {
		return nil, nil
	}
	s.selves.Lock()
	defer s.selves.Unlock()
	for _, f := range s.now().forges {
		h, err := s.hookOf(f, s.self[f.Name])
		if err != nil {
			return nil, err
		}
		s.hooks[f.Name] = webhook.NewRenewable(h)
		list = append(list, s.hooks[f.Name])
	}
	return list, nil
}

// selfTime bounds the question which account writ is.
const selfTime = 5 * time.Second

// meetAll asks each forge with an open world which account writ is there: a
// credential may have become another's. What can't be asked stays as it was.
func (s *server) meetAll(ctx context.Context) {
	asked := map[string]bool{}
	for _, w := range s.worlds.open() {
		f := w.listing.forge
		if asked[f.Name] {
			continue
		}
		asked[f.Name] = true
		ctx, cancel := context.WithTimeout(ctx, selfTime)
		self, err := w.client.Self(ctx)
		cancel()
		if err != nil {
			s.log.Debug("which account writ is could not be asked", "forge", f.Name, "error", err)
			continue
		}
		s.met(f, self)
	}
}

// met notes which account writ is at a forge: its own acts are no news from then
// on.
func (s *server) met(f *wire.Forge, self forge.User) {
	s.selves.Lock()
	defer s.selves.Unlock()
	if s.self[f.Name] == self {
		return
	}
	s.self[f.Name] = self
	renewable := s.hooks[f.Name]
	if renewable == nil {
		return
	}
	for _, now := range s.now().forges { // f may be of a generation before
		if now.Name == f.Name {
			f = now
		}
	}
	h, err := s.hookOf(f, self)
	if err != nil {
		s.log.Error("the hook can't be renewed", "forge", f.Name, "error", err) // it was made of the same before
		return
	}
	renewable.Renew(h)
}
