package server

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

// reloads is how a running server takes over a changed configuration.
type reloads struct {
	file string
	hups <-chan os.Signal
	seen string // the fingerprint of what was read at the start

	mu      sync.Mutex
	refusal *problem.Error // of the newest reading; nil: it is in force
	count   *prometheus.CounterVec
	success prometheus.Gauge
}

// The outcomes of a reload.
const (
	reloadApplied = "applied"
	reloadRefused = "refused"
)

// register shows reloads at /metrics.
func (r *reloads) register(registry *prometheus.Registry) {
	r.count = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "writ_config_reload_total", Help: "Readings of a changed configuration, by what came of them.",
	}, []string{"result"})
	r.success = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "writ_config_last_success_timestamp_seconds", Help: "When the configuration in force was read, in seconds since 1970.",
	})
	for _, result := range []string{reloadApplied, reloadRefused} {
		r.count.WithLabelValues(result)
	}
	r.success.SetToCurrentTime()
	registry.MustRegister(r.count, r.success)
}

// refused is why the newest reading isn't in force.
func (r *reloads) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return orNil(r.refusal)
}

func (r *reloads) settle(refusal *problem.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = refusal
	if refusal != nil {
		r.count.WithLabelValues(reloadRefused).Inc()
		return
	}
	r.count.WithLabelValues(reloadApplied).Inc()
	r.success.SetToCurrentTime()
}

// reload reads the configuration and the secrets again. All of it is in force
// when it returns, or none.
func (s *server) reload(ctx context.Context, why string) {
	said := s.conf().Warnings()
	err := s.takeOver(ctx)
	if err == nil {
		s.warn(said)
		s.meetAll(ctx)
		s.reloads.settle(nil)
		s.log.Info("the configuration was read again and is in force", "why", why, "worlds", len(s.worlds.open()), "closed", s.worlds.countClosed())
		s.wakeLacking(ctx)
		s.sayWhatLacks(ctx)
		return
	}
	p := problem.Explain(err)
	s.reloads.settle(p)
	remedy := p.Remedy
	if remedy == "" {
		remedy = p.Code.Info().Remedy
	}
	s.log.Error("the configuration was read again and is refused; the one before stays in force", "why", why,
		"code", string(p.Code), "error", p.Text, "remedy", remedy)
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

// wakeLacking makes all of them due, for another configuration is in force.
func (s *server) wakeLacking(ctx context.Context) {
	var keys []inbox.Key
	for k := range s.lacking.of("") {
		keys = append(keys, k)
	}
	if err := s.inbox.MarkBehind(ctx, keys, time.Now().UnixMilli()); err != nil && ctx.Err() == nil {
		s.log.Warn("tasks that were refused are looked at with the next sweep, or at the pace of the rule", "error", err)
	}
}

// warn says what prices, budgets and tables don't hold, but for what was said of the
// configuration before.
func (s *server) warn(said []string) {
	for _, text := range s.conf().Warnings() {
		if !slices.Contains(said, text) {
			s.log.Warn("the configuration doesn't hold all", "what", text)
		}
	}
}

// change is a configuration that is about to be taken over.
type change struct {
	gen   *generation
	list  []*listing
	open  map[*listing]*served
	gone  []*listing
	hooks map[string]webhook.Hook
}

func (s *server) takeOver(ctx context.Context) error {
	cfg, err := s.process.Load(s.reloads.file)
	if err != nil {
		return err
	}
	if keys := config.NeedRestart(s.cfg, cfg); len(keys) > 0 {
		return needsRestart(keys)
	}
	given, err := s.process.ReadSecrets(cfg)
	if err != nil {
		return err
	}
	s.opening.Lock() // nothing is opened meanwhile
	defer s.opening.Unlock()
	c, err := s.prepare(ctx, cfg, given)
	if err != nil {
		return err
	}
	s.commit(c)
	return nil
}

func needsRestart(keys []string) *problem.Error {
	return &problem.Error{
		Code: kernel.CodeConfigInvalid, Exit: problem.ExitUsage, Text: "Changed, and needs a restart: " + strings.Join(keys, ", ") + ". Nothing of the file was taken over.",
		Remedy: "Start writ again, or put the old value back.",
	}
}

// prepare makes all that is new, and changes nothing.
func (s *server) prepare(ctx context.Context, cfg config.Config, given wire.Secrets) (c *change, err error) {
	c = &change{open: map[*listing]*served{}, hooks: map[string]webhook.Hook{}}
	forges, fresh, err := s.forgesFor(ctx, cfg, given)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, f := range fresh {
			if err != nil {
				f.Host.Close()
			} else {
				s.later(f.Host.Close)
			}
		}
		if err != nil && c.gen != nil {
			c.gen.executor.Close()
		}
	}()
	c.gen, err = s.generate(cfg, given, forges, func(in *installation.Installation) (*builder.Local, error) {
		return s.process.NewExecutor(in, wire.Overrides{})
	})
	if err != nil {
		return nil, err
	}
	if c.list, err = list(forges); err != nil {
		return nil, err
	}
	for _, l := range c.list {
		if err := s.carryOver(ctx, c, l); err != nil {
			return nil, err
		}
	}
	for _, old := range s.worlds.shown() {
		if !slices.ContainsFunc(c.list, old.same) {
			c.gone = append(c.gone, &old)
		}
	}
	return c, s.newHooks(c)
}

// newHooks makes the hooks of a change, by the secrets that it brings.
func (s *server) newHooks(c *change) error {
	s.selves.Lock()
	defer s.selves.Unlock()
	for _, f := range c.gen.forges {
		if s.hooks[f.Name] == nil {
			continue
		}
		h, err := s.hookOf(f, s.self[f.Name])
		if err != nil {
			return err
		}
		c.hooks[f.Name] = h
	}
	return nil
}

// same reports whether two listings are of one repository.
func (l listing) same(other *listing) bool {
	return l.forge.Name == other.forge.Name && strings.EqualFold(l.name, other.name)
}

// carryOver takes what is known of a listed repository into a change.
func (s *server) carryOver(ctx context.Context, c *change, l *listing) error {
	for _, old := range s.worlds.shown() {
		if !old.same(l) {
			continue
		}
		l.world, l.id, l.installation, l.why, l.lacks = old.world, old.id, old.installation, old.why, old.lacks
		if old.served == nil {
			return nil
		}
		w, err := s.renewed(ctx, old.served, l, c.gen)
		c.open[l] = w
		return err
	}
	s.worlds.locked(func() { s.worlds.likely(l) })
	return nil
}

// renewed is an open world by another generation.
func (s *server) renewed(ctx context.Context, old *served, l *listing, gen *generation) (*served, error) {
	w := &served{gen: gen, listing: l, life: old.life, at: old.at}
	if l.forge.Host == old.listing.forge.Host {
		w.Governed = &installation.Governed{Installation: gen.in, Repo: old.Repo, World: old.World, Display: old.Display}
		w.client, w.unchanged = old.client, old.unchanged
	} else {
		if err := s.reach(ctx, w, l.forge, old.World); err != nil {
			return nil, err
		}
		repo := w.Repo
		s.later(func() { _ = repo.Close() }) // as above
	}
	return w, s.goOn(w, old)
}

// commit puts a change in force.
func (s *server) commit(c *change) {
	before := s.now()
	s.worlds.locked(func() {
		kept := map[*lifetime]bool{}
		for l, w := range c.open {
			l.served, kept[w.life] = w, true
		}
		for _, old := range s.worlds.list { // one may have been opened meanwhile: it is opened again
			if old.served != nil && !kept[old.served.life] {
				old.served.life.close()
			}
		}
		s.worlds.list = c.list
		s.gen.Store(c.gen)
		before.over = true
		before.mayRetire()
	})
	for l, w := range c.open {
		s.ever[l.world] = w
	}
	s.selves.Lock()
	for name, h := range c.hooks {
		s.hooks[name].Renew(h)
	}
	s.selves.Unlock()
	_ = s.level.UnmarshalText([]byte(c.gen.cfg.Server.LogLevel)) // the configuration takes no other word
	for _, old := range c.gone {
		s.log.Info("a repository is no longer listed: nothing is done in it any more", installation.LogWorld, old.world)
	}
	s.worlds.nudge()
	for _, h := range s.hints {
		h.add(nil) // the interval may be another
	}
	s.sched.Nudge()
}

// forgesFor are the forges of a configuration: with the connections that there
// are, where address and credential are the same; fresh are the others.
func (s *server) forgesFor(ctx context.Context, cfg config.Config, given wire.Secrets) (forges, fresh []*wire.Forge, err error) {
	made, err := s.process.Connect(ctx, cfg, given, s.log)
	if err != nil {
		return nil, nil, err
	}
	before := s.now()
	for _, f := range made {
		at := slices.IndexFunc(before.forges, func(old *wire.Forge) bool { return old.Name == f.Name })
		if at >= 0 && before.given.Of(f.Name).SameCredential(given.Of(f.Name)) {
			f.Host.Close()
			old := before.forges[at]
			f.Host, f.Identity, f.Display, f.World, f.Git, f.Access = old.Host, old.Identity, old.Display, old.World, old.Git, old.Access
		} else {
			fresh = append(fresh, f)
		}
	}
	return made, fresh, nil
}

// watchEvery is how often the file is looked at.
const watchEvery = 3 * time.Second
