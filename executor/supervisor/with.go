package supervisor

// With is a supervisor of the same world that works by another configuration and
// with other parts; records, ledger and open tasks are shared. Tasks that are open
// go on by what they were opened with, and tasks that are opened from the new one
// work by the new. World, prefixes of refs, Ledger and Clock must stay the same,
// and Repo and Forge must lead to the same repository. The account at the forge may
// be another one: it is asked for again.
func (s *Supervisor) With(cfg Config, deps Deps) *Supervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := *s
	cfg.RefPrefix, cfg.ChangePrefix = s.cfg.RefPrefix, s.cfg.ChangePrefix
	out.cfg, out.deps, out.account = cfg, deps, nil
	out.mayBeMended()
	out.equipped = out.mended
	return &out
}
