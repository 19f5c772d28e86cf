// Package server is the life of `writ serve`: it opens and closes worlds, takes webhooks and
// sweeps, gives turns to tasks, takes over a new configuration, and obeys a person's
// requests. The commands that talk to it are in cmd/writ.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/tracing"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

// Serve is `writ serve`; each value of hups has the file read again.
func Serve(ctx context.Context, proc *wire.Process, file string, hups <-chan os.Signal) error {
	if file == "" {
		return problem.Usage("--config is missing: give the configuration of this machine.")
	}
	if err := installation.PathFlag("config", file); err != nil {
		return err
	}
	cfg, err := proc.Load(file)
	if err != nil {
		return err
	}
	seen := proc.Fingerprint(file, cfg)
	if cfg.Server.StateDir == "" || !cfg.Forges.Any() {
		return problem.Usage("%s sets no server.state_dir, or no forge (forges.github, gitlab or local): there is nothing to serve.", file)
	}
	s, err := newServer(ctx, proc, cfg)
	if err != nil {
		return err
	}
	defer s.close()
	s.reloads.file, s.reloads.hups, s.reloads.seen = file, hups, seen
	return s.endedEarly(ctx, s.run(ctx))
}

// endedEarly is how a start ends that a person ended: in order, as a server does that is
// ended later. What else is wrong is told.
func (s *server) endedEarly(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	s.log.Info("ended during the start, before anything was received")
	return problem.Quiet(problem.ExitDone)
}

// server is the parts of a running `writ serve`.
type server struct {
	process  *wire.Process
	in       *installation.Installation
	cfg      config.Config // as it was at the start, see conf
	gen      atomic.Pointer[generation]
	reloads  reloads
	log      *slog.Logger
	level    *slog.LevelVar
	inbox    *inbox.Inbox
	worlds   *worlds
	shut     *shutLines    // of worlds that don't open
	waits    taskWaits     // for `writ queue` and /metrics
	tails    taskTails     // for `writ logs`
	turn     time.Duration // see turnWithin
	older    chan error    // that the store is older than its key, or a ledger isn't what it was
	hints    forgeHints    // which of them to look at
	bases    forgeHints    // whose base to look through
	lacking  refusedTasks  // what lacks its builder, or a rule refuses
	hook     *webhook.Server
	listens  []*net.TCPListener // server.listen, and server.probes where it is set
	early    *webhook.Startup   // answers there until hook does
	sched    *scheduler.Scheduler
	cycles   sync.Mutex // one writer of the execution log
	runs     *taskRuns  // for the log
	traces   traces
	pool     *git.Pool // of what git servers send
	metrics  *serverMetrics
	registry *prometheus.Registry
	ended    sync.WaitGroup // of executors that are no longer used

	opening sync.Mutex         // one world at a time; guards ever
	ever    map[string]*served // by name: as this process opened them last

	selves sync.Mutex // guards self and hooks
	self   map[string]forge.User
	hooks  map[string]*webhook.Renewable // by forge

	closing sync.Mutex
	closers []func() // called in reverse
}

// newServer opens everything. Nothing is started yet.
func newServer(ctx context.Context, proc *wire.Process, cfg config.Config) (*server, error) {
	secrets, err := proc.ReadSecrets(cfg)
	if err != nil {
		return nil, err
	}
	s := &server{
		process: proc, cfg: cfg, runs: newTaskRuns(), worlds: newWorlds(), hints: newForgeHints(), bases: newForgeHints(), turn: turnWithin, registry: prometheus.NewRegistry(), older: make(chan error, 1),
		level: &slog.LevelVar{}, ever: map[string]*served{}, pool: git.NewPool(git.PoolDisk, git.PoolMemory), self: map[string]forge.User{}, hooks: map[string]*webhook.Renewable{},
	}
	s.log = serverLog(proc, cfg.Server, s.runs, s.level)
	s.shut = newShutLines(s.log)
	if err := s.open(ctx, secrets); err != nil {
		s.close()
		return nil, s.endedEarly(ctx, err)
	}
	return s, nil
}

// serverLog is the log of a server. Every line about a task bears its world, its
// number and, once there is one, its run.
func serverLog(proc *wire.Process, c config.Server, runs *taskRuns, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the configuration takes no other word
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: proc.Clean}
	lines := &wire.LockedLines{W: proc.Stderr}
	var h slog.Handler = slog.NewTextHandler(lines, o)
	if c.Log == config.LogJSON {
		h = slog.NewJSONHandler(lines, o)
	}
	return slog.New(taskLog{Handler: h, runs: runs})
}

func (s *server) open(ctx context.Context, secrets wire.Secrets) (err error) {
	if err := s.openTraces(secrets); err != nil {
		return err
	}
	in := &installation.Installation{Cfg: s.cfg, Log: s.log, Taken: func() error { return s.answer(ctx) }}
	if s.in, err = installation.OpenAs(ctx, in, s.cfg.Server.StateDir, installation.Use{Server: true, Trusted: installation.TrustedIn(s.cfg)}); err != nil {
		return err
	}
	s.later(s.in.Close)
	if err := s.in.Current(ctx); err != nil {
		return err
	}
	s.inbox = inbox.New(s.in.DB)
	s.metrics = newServerMetrics(s.registry, s)
	s.reloads.register(s.registry)
	if err := s.openFirst(ctx, secrets); err != nil {
		return err
	}
	if err := s.openWorlds(ctx); err != nil {
		return err
	}
	return s.wire()
}

// openTraces prepares the way to the collector that the configuration names.
func (s *server) openTraces(secrets wire.Secrets) error {
	t := s.cfg.Server.Traces
	ignored := tracing.CheckEnvironment(s.process.Env)
	if t.Endpoint == "" {
		if len(ignored) > 0 {
			s.log.Info("there are no traces: server.traces.endpoint names no collector", "variables", strings.Join(ignored, " "))
		}
		return nil
	}
	if len(ignored) > 0 {
		return &problem.Error{
			Code: kernel.CodeConfigInvalid, Exit: problem.ExitUsage,
			Text:   "Writ doesn't obey " + strings.Join(ignored, ", ") + ".",
			Remedy: "Unset what is named; server.traces says where traces go.",
		}
	}
	p, err := tracing.Open(tracing.Options{Endpoint: t.Endpoint, Headers: secrets.Traces, Version: s.process.Version, Log: s.log})
	if err != nil {
		return err
	}
	s.traces.provider = p
	s.later(func() { p.Close(context.Background()) }) // bounds itself
	return nil
}

// openFirst makes the first generation.
func (s *server) openFirst(ctx context.Context, given wire.Secrets) error {
	forges, err := s.process.Connect(ctx, s.cfg, given, s.log)
	if err != nil {
		return err
	}
	for _, f := range forges {
		s.later(f.Host.Close)
	}
	g, err := s.generate(s.cfg, given, forges, func(in *installation.Installation) (*builder.Local, error) {
		return s.process.Executor(in, wire.Overrides{})
	})
	if err != nil {
		return err
	}
	s.gen.Store(g)
	s.later(s.closeGeneration)
	return nil
}

// closeGeneration ends the executors of all generations.
func (s *server) closeGeneration() {
	if g := s.now(); g != nil {
		s.worlds.locked(func() { g.over = true; g.users = 0; g.mayRetire() })
	}
	s.ended.Wait()
}

// openWorlds tries to open every repository of the configuration once. A forge
// that doesn't answer leaves its worlds closed; what is wrong on this machine is
// an error.
func (s *server) openWorlds(ctx context.Context) error {
	all, err := list(s.now().forges)
	if err != nil {
		return err
	}
	if err := s.readBindings(ctx); err != nil {
		return err
	}
	s.worlds.locked(func() {
		for _, l := range all {
			s.worlds.likely(l)
		}
		s.worlds.list = all
	})
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	due, _ := s.worlds.due(time.Now())
	return s.tryAll(ctx, due)
}

// readBindings reads what the store knows.
func (s *server) readBindings(ctx context.Context) error {
	notes, err := s.inbox.Cursors(ctx, BindingNote)
	if err != nil {
		return err
	}
	s.worlds.locked(func() {
		for world, text := range notes {
			if b, ok := parseBinding(text); ok {
				s.worlds.bound[world] = b
			}
		}
	})
	return nil
}

func parseBinding(text string) (b binding, ok bool) {
	number, name, _ := strings.Cut(text, " ")
	id, err := strconv.ParseInt(number, 10, 64)
	return binding{id, name}, err == nil && id > 0
}

// wire makes scheduler and receiver.
func (s *server) wire() (err error) {
	s.traces.register(s.registry)
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c := s.cfg.Server
	s.sched, err = scheduler.New(schedule{s.inbox}, notes{s.inbox}, s, scheduler.Options{
		BuildSlots: int(c.Builds), WorldBuildSlots: int(c.BuildsPerWorld), ShutdownTime: c.Drain,
		Pauses: []scheduler.PauseSource{named{s.pauseFile(), s.worlds}, named{pauses{s.inbox}, s.worlds}, s.worlds},
		Outage: s.worlds.outage,
		NewID:  uuid.NewString, Metrics: s.metrics, Log: s.log,
	})
	if err != nil {
		return err
	}
	hooks, err := s.openHooks()
	if err != nil {
		return err
	}
	var probes net.Listener
	if len(s.listens) > 1 {
		probes = s.listens[1]
	}
	s.hook, err = webhook.New(webhook.Config{
		Listener: s.listens[0], ProbeListener: probes, Hosts: c.Hosts, Proxies: c.Proxies(), Hooks: hooks,
		Inbox: s.traces.inbox(following{webhook.StoreInbox(s.inbox), s.stored}), Checks: s.checks(), Parts: s.parts, Numbers: s.numbers,
		Limits: webhook.Limits{Body: int64(c.MaxBody)}, Logger: s.log, Registry: s.registry, Middleware: s.traces.middleware(),
	})
	return err
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

// stored follows a delivery: a task that runs already hears of it at once, and
// worlds are looked at when it tells of a push to the base, or of what writ may
// do there.
func (s *server) stored(d webhook.Delivery) {
	keys := make([]scheduler.Key, len(d.Event.Keys))
	for i, k := range d.Event.Keys {
		keys[i] = scheduler.Key(k)
	}
	s.sched.Marked(keys...)
	if w := d.Event.Pushed; w != "" {
		s.bases[d.Hook].add([]string{w})
	}
	if a := d.Event.Access; a != nil {
		s.hints[d.Hook].add(a.Worlds)
	}
}

// checks are what the whole process needs, by the names that /readyz shows.
func (s *server) checks() []webhook.Check {
	return []webhook.Check{
		{Name: "store", Run: func(context.Context) error { return s.inWords(s.in.DB.Ready()) }},
		{Name: "sandbox", Run: func(ctx context.Context) error {
			return s.inWords(s.environment(ctx, installation.DefaultBuilder, kernel.CodeSandboxUnavailable, kernel.CodeEnvWorkspace, kernel.CodeEnvLayers))
		}},
	}
}

// answer takes the addresses and answers there that the process lives: what follows
// takes the longer, the longer the history is, and whoever restarts a process that
// doesn't answer would do so for ever.
func (s *server) answer(ctx context.Context) error {
	for _, at := range []struct{ address, key string }{{s.cfg.Server.Listen, "server.listen"}, {s.cfg.Server.Probes, "server.probes"}} {
		if at.address == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.address)
		if err != nil {
			return problem.BadAddress(at.address, err, at.key)
		}
		s.later(func() { _ = l.Close() }) // the receiver closes it too
		s.listens = append(s.listens, l.(*net.TCPListener))
	}
	s.early = webhook.NewStartup(s.log, s.listens...)
	s.later(func() { _ = s.early.End() }) // nothing is asked of it any more
	return nil
}

// receive answers at the addresses from here on.
func (s *server) receive(ctx context.Context) error {
	if err := s.early.End(); err != nil {
		return err
	}
	return s.hook.Run(ctx)
}

// run serves until ctx ends, or until a part can't go on.
func (s *server) run(ctx context.Context) error {
	if n, err := s.inbox.Recover(ctx); err != nil {
		return err
	} else if n > 0 {
		s.log.Info("tasks of the process before are due again", "tasks", n)
	}
	desk, err := openServerDesk(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	parts.Go(func() { // and the first task needn't wait for the probe
		_ = problem.Shelter(s.log, "probe", func() error { s.sayWhatLacks(ctx); return nil }) // each task asks again
	})
	for name, part := range map[string]func(context.Context) error{
		"receiver": s.receive, "store": s.watchStore, "requests": desk, "sweep": s.sweepAll, "bases": s.watchBases, "housekeeping": s.keepHouse,
		"repositories": s.keepOpening, "configuration": s.watchConfig,
	} {
		parts.Go(func() {
			if err := s.endure(ctx, name, part); err != nil && ctx.Err() == nil {
				s.log.Error("a part of the server failed; it ends", "part", name, "error", err)
				cancel(err)
			}
		})
	}
	s.warn(nil)
	if s.cfg.Server.Observe {
		s.log.Info("observing: nothing is claimed, whatever contracts say (server.observe)")
	}
	s.logPauses(ctx)
	s.log.Info("serving", "intake", s.cfg.Server.Intake, "listen", s.cfg.Server.Listen, "worlds", len(s.worlds.open()), "closed", s.worlds.countClosed(), "state_dir", s.in.Dir.Path)
	left := s.sched.Run(ctx)
	parts.Wait()
	if len(left) > 0 {
		s.log.Warn("not all tasks ended in time; their leases end by themselves", "tasks", len(left))
	}
	s.checkpointAll()
	s.saveAll()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	s.log.Info("ended")
	return nil
}

// watchConfig reads the configuration again when it is asked to, and when file
// or secrets have changed. A file that is replaced, or reached through links
// that are, is noticed all the same: what counts is what it holds.
func (s *server) watchConfig(ctx context.Context) error {
	if s.reloads.file == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := s.reloads.seen
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.reloads.hups:
			seen = s.process.Fingerprint(s.reloads.file, s.conf())
			s.reload(ctx, "SIGHUP")
		case <-tick.C:
			if now := s.process.Fingerprint(s.reloads.file, s.conf()); now != seen {
				seen = now // if it names other secrets from now on, it is read once more
				s.reload(ctx, "the file or a secret changed")
			}
		}
	}
}

// logPauses says at the start what is paused: nobody looks for a pause in a
// server that was just started.
func (s *server) logPauses(ctx context.Context) {
	list, err := s.pausesNow(ctx)
	if err != nil {
		return // the scheduler says so, and pauses everything
	}
	for _, p := range list {
		since := ""
		if p.SinceMs > 0 {
			since = installation.PauseSince(p)
		}
		s.log.Warn("paused: nothing new is started", installation.LogWorld, p.World, installation.LogRepository, s.worlds.called(p.World), "actor", p.By, "since", since, "reason", p.Reason)
	}
}

// saveAll saves what is folded of all worlds, and waits until it is.
func (s *server) saveAll() {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, w := range s.ever {
		w.sup.Save()
		w.Savings.Writing.Wait()
	}
}

// lockEvery is how often the server looks whether its lock's file is still its own.
const lockEvery = 5 * time.Second

// watchStore ends the server when the store takes nothing more, for it is verified
// as it is opened again, when it turns out to be older than its key or not what was
// stored, and when the file
// is gone by which others know that somebody serves.
func (s *server) watchStore(ctx context.Context) error {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.older:
			return err
		case <-s.in.DB.Failed():
			return s.in.DB.Err()
		case <-tick.C:
			if err := s.in.Dir.InPlace(); err != nil {
				return err
			}
		}
	}
}

// houseEvery is how often old deliveries are forgotten and checkpoints signed.
const houseEvery = time.Hour

func (s *server) keepHouse(ctx context.Context) error {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	for {
		before := time.Now().Add(-s.conf().Server.Keep).UnixMilli()
		if _, err := s.inbox.Prune(ctx, inbox.Keep{SinceMs: before}); err != nil && ctx.Err() == nil {
			s.log.Warn("old deliveries could not be forgotten", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.checkpointAll()
		s.checkAccessOf(ctx, s.worlds.open())
	}
}

// checkAccessOf does so for open worlds.
func (s *server) checkAccessOf(ctx context.Context, worlds []*served) {
	for _, w := range worlds {
		s.ofWorld(w, func() { s.checkAccess(ctx, w.listing, w.at) })
	}
}

func (s *server) checkpointAll() {
	for _, w := range s.worlds.open() {
		s.ofWorld(w, func() { w.Checkpoint(context.Background()) })
	}
}
