package main

import (
	"fmt"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/webhook"
)

// hookOf makes the hook of a forge, as writ's account there is known now.
func (s *server) hookOf(f *connected, self forge.User) (webhook.Hook, error) {
	h, err := f.hook(self, whose{s.worlds.lookup(f.name), s.worlds.installed(f.name)})
	if err != nil {
		return nil, fmt.Errorf("forges.%s: %w", f.name, err)
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
		h, err := s.hookOf(f, s.self[f.name])
		if err != nil {
			return nil, err
		}
		s.hooks[f.name] = webhook.NewRenewable(h)
		list = append(list, s.hooks[f.name])
	}
	return list, nil
}

// met notes which account writ is at a forge: its own acts are no news from then
// on.
func (s *server) met(f *connected, self forge.User) {
	s.selves.Lock()
	defer s.selves.Unlock()
	if s.self[f.name] == self {
		return
	}
	s.self[f.name] = self
	renewable := s.hooks[f.name]
	if renewable == nil {
		return
	}
	h, err := s.hookOf(f, self)
	if err != nil {
		s.log.Error("the hook can't be renewed", "forge", f.name, "error", err) // it was made of the same before
		return
	}
	renewable.Renew(h)
}
