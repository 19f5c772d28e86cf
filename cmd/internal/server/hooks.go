package server

import (
	"fmt"
	"time"

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

// selfTime bounds the question which account writ is.
const selfTime = 5 * time.Second

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
