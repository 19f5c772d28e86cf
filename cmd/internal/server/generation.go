package server

import (
	"sync"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/builder"
)

// generation is the server as one reading of its configuration has it. What a
// task was opened with stays, until it is closed.
type generation struct {
	cfg      config.Config
	in       *installation.Installation // with this configuration
	executor *builder.Local
	forges   []*wire.Forge
	given    wire.Secrets

	// What follows is guarded by worlds.mu.
	users   int  // tasks that run by it
	over    bool // another one took its place
	retired sync.Once
	ended   *sync.WaitGroup // of the server, for all of them
}

// now is the generation in force.
func (s *server) now() *generation { return s.gen.Load() }

// conf is the configuration in force. What needs a restart is the same in all
// generations, and is read from s.cfg.
func (s *server) conf() config.Config { return s.now().cfg }

// mayRetire gives an executor back that nobody uses any more. worlds.mu is held.
func (g *generation) mayRetire() {
	if g.over && g.users == 0 {
		g.retired.Do(func() { g.ended.Go(g.executor.Close) })
	}
}

// generate makes a generation, with forges that are connected to already.
func (s *server) generate(cfg config.Config, given wire.Secrets, forges []*wire.Forge, executor func(*installation.Installation) (*builder.Local, error)) (*generation, error) {
	in := *s.in
	in.Cfg = cfg
	g := &generation{cfg: cfg, in: &in, forges: forges, given: given, ended: &s.ended}
	var err error
	g.executor, err = executor(&in)
	return g, err
}

// later has f called when the server closes.
func (s *server) later(f func()) {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.closers = append(s.closers, f)
}

// close gives everything back, the lock last.
func (s *server) close() {
	s.closing.Lock()
	closers := s.closers
	s.closers = nil
	s.closing.Unlock()
	for i := len(closers) - 1; i >= 0; i-- {
		closers[i]()
	}
}
