package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

const (
	// tryTime bounds one try to open a world. A forge that takes longer is no
	// better than one that doesn't answer.
	tryTime = 45 * time.Second
	// startTime bounds what a start waits for forges; what isn't open by then is
	// opened later.
	startTime = 15 * time.Second
	// triesAtOnce bounds the tries under way, whoever began them.
	triesAtOnce = 8
)

// errUnlisted is a repository that another reading of the configuration leaves
// out, or lists anew, while it was being opened.
var errUnlisted = errors.New("the configuration was read again meanwhile")

// list makes listings of what a generation's forges list. Two that would be the
// same world are an error.
func list(forges []*wire.Forge) (all []*listing, err error) {
	seen := map[string]string{}
	for _, f := range forges {
		for _, name := range f.Repositories {
			at := strings.LastIndexByte(name, '/')
			display := f.Display(forge.Repo{Owner: name[:at], Name: name[at+1:]})
			folded := strings.ToLower(display)
			if other, twice := seen[folded]; twice {
				return nil, &problem.Error{
					Code: kernel.CodeConfigInvalid, Exit: problem.ExitUsage,
					Text:   fmt.Sprintf("Two repositories would be called %s: %s and %s.", display, other, f.Name+" "+name),
					Remedy: "Leave one of them in forges.",
				}
			}
			seen[folded] = f.Name + " " + name
			all = append(all, &listing{forge: f, name: name, first: display, world: display})
		}
	}
	return all, nil
}

// tryAll tries to open worlds, several at once. The errors are this machine's.
func (s *server) tryAll(ctx context.Context, all []*listing) error {
	errs := make([]error, len(all))
	var tries sync.WaitGroup
	for i, l := range all {
		tries.Go(func() {
			s.worlds.places <- struct{}{}
			defer func() { <-s.worlds.places }()
			ctx, cancel := context.WithTimeout(ctx, tryTime)
			defer cancel()
			errs[i] = problem.Shelter(s.log, "repository", func() error { return s.try(ctx, l) })
			var own *problem.Fault
			if errors.As(errs[i], &own) { // of this world alone: the others are served meanwhile
				s.leaveShut(ctx, l, errs[i])
				errs[i] = nil
			}
		})
	}
	tries.Wait()
	return errors.Join(errs...)
}

// try tries to open one world. The error is this machine's.
func (s *server) try(ctx context.Context, l *listing) error {
	at := strings.LastIndexByte(l.name, '/')
	found, err := l.forge.Host.Find(ctx, l.name[:at], l.name[at+1:])
	if err != nil {
		s.leaveShut(ctx, l, wire.NotFound(l.forge, l.name, err))
		return nil
	}
	self, err := l.forge.Host.Client(found.Repo).Self(ctx)
	if err != nil {
		s.leaveShut(ctx, l, wire.NotFound(l.forge, l.name, err))
		return nil
	}
	world, err := l.forge.World(ctx, found.Repo)
	if err == nil {
		err = s.worlds.mayOpen(l, world, found.Repo)
	}
	if err != nil {
		s.leaveShut(ctx, l, err)
		return nil
	}
	w := &served{gen: s.now(), listing: l, life: newLifetime(), at: found.Repo}
	if err := s.readable(ctx, w, world); err != nil {
		s.leaveShut(ctx, l, err)
		return nil
	}
	// What follows is on this machine, and not cut off in the middle.
	if err := s.openWorld(context.WithoutCancel(ctx), w); err != nil {
		err = fmt.Errorf("%s: %w", l.name, errors.Join(err, w.Repo.Close()))
		if errors.Is(err, errUnlisted) {
			return nil // who is listed in its place is tried by itself
		}
		s.leaveShut(ctx, l, err)
		return err
	}
	s.checkAccess(ctx, l, found.Repo)
	s.announce(ctx, w, self)
	return nil
}

// mayOpen refuses a listing that a forge answers with another repository than the
// one which the operator listed: who takes a name that became free must not get the
// builders that were meant for its owner (case I12).
func (ws *worlds) mayOpen(l *listing, world string, at forge.Repo) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for known, b := range ws.bound {
		if hostOf(known) == l.forge.Identity && known != world && strings.EqualFold(b.name, at.String()) {
			return &problem.Error{
				Code: kernel.CodeTargetIneligible, Exit: problem.ExitRefused,
				Text: fmt.Sprintf("%s is another repository now: it is %s, and the one that was listed is %s.", l.name, world, known),
				Remedy: fmt.Sprintf("If that one was renamed, list its new name in place of this one. If this one goes on in its place: writ world rebind '%s' '%s' --repo %s, with this server's --state-dir and --config. ", known, world, l.forge.CloneURL(at)) +
					`See operations.md, "Renamed and moved repositories".`,
			}
		}
	}
	for _, other := range ws.list {
		if other != l && other.served != nil && other.world == world {
			return &problem.Error{
				Code: kernel.CodeConfigInvalid, Exit: problem.ExitRefused,
				Text: fmt.Sprintf("%s is the same repository as %s.", l.name, other.name), Remedy: "Leave one of them in forges.",
			}
		}
	}
	return nil
}

// openWorld opens the world of a repository that can be read. The error is this
// machine's.
func (s *server) openWorld(ctx context.Context, w *served) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.runs.call(w.World, w.Display)
	if !s.worlds.lists(w.listing) { // who is listed in its place must not find this one's
		return errUnlisted
	}
	if before := s.ever[w.World]; before != nil {
		if err := s.goOn(w, before); err != nil {
			return err
		}
	} else {
		g, saved, err := s.governFrom(ctx, w)
		if err != nil {
			return err
		}
		w.Governed = g
		o := s.supervisionOf(w)
		o.Saved = saved
		w.sup, err = s.process.Supervise(ctx, g, s.traces.executor(w.gen.executor), o)
		if err != nil {
			return err
		}
		if g.Savings.Due(g.Ledger.Chain().Head.Seq + 1) {
			w.sup.Save()
		}
	}
	if err := s.bind(ctx, w.World, w.at); err != nil {
		return err
	}
	if err := s.in.Dir.Remember(w.World, w.Display, w.listing.forge.Host.GitURL(w.at)); err != nil {
		return err
	}
	repo := w.Repo
	s.later(func() { _ = repo.Close() }) // everything that counts was answered before
	s.ever[w.World] = w
	return nil
}

// call notes what people call a world.
func (t *taskRuns) call(world, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[world] = name
}

// governFrom opens a world from what an earlier process saved, where it can: the ledger's
// end is verified at once, the rest behind. What was saved is nil where nothing was, or
// nothing that is of use; the ledger is verified whole then.
func (s *server) governFrom(ctx context.Context, w *served) (*installation.Governed, *supervisor.Saved, error) {
	in := w.gen.in
	var saved *supervisor.Saved
	keep := &installation.Savings{}
	g, err := in.Governing(ctx, w.World, w.Display, w.Repo, func(ctx context.Context, world string) (*ledger.Ledger, error) {
		l, from, err := in.GoOnFrom(ctx, world, func(err error) { s.verified(in, world, err) })
		if err == nil {
			saved, keep.Size = from, from.World.Head.Seq+1
			return l, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			in.Log.Info("a ledger is verified and folded from its first record on", installation.LogWorld, world, "because", err)
		}
		return in.Store.World(ctx, world)
	})
	if err != nil {
		return nil, nil, err
	}
	keep.Governed, g.Savings = g, keep
	return g, saved, nil
}

// verified takes in what the verification behind has found. After a fault nothing of the
// world is read or recorded any more, so nothing of it acts; the server ends, and the
// next start verifies the ledger whole, and refuses.
func (s *server) verified(in *installation.Installation, world string, err error) {
	if err == nil {
		in.Log.Info("the whole ledger is verified", installation.LogWorld, world)
		return
	}
	if gone := os.Remove(installation.SavedFile(in.Dir.Path, world)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		in.Log.Error("what was saved of a ledger that doesn't verify can't be removed; the next start finds out anew", installation.LogWorld, world, "error", gone)
	}
	select {
	case s.older <- err:
	default: // it ends already
	}
}

// bind notes durably how a world's repository is called.
func (s *server) bind(ctx context.Context, world string, at forge.Repo) error {
	now := binding{at.ID, at.String()}
	var before binding
	s.worlds.locked(func() { before = s.worlds.bound[world] })
	if before == now {
		return nil
	}
	if err := s.inbox.SetCursor(ctx, world, BindingNote, now.String()); err != nil {
		return err
	}
	s.worlds.locked(func() { s.worlds.bound[world] = now })
	if before.id != 0 && !strings.EqualFold(before.name, now.name) {
		s.log.Info("a repository has another name; it is the same world", installation.LogWorld, world, "was", before.name, "is", now.name)
	}
	return nil
}

// readable makes the ways to a world and tries git, once nothing runs there any
// more from when it was open before.
func (s *server) readable(ctx context.Context, w *served, world string) error {
	if before := s.before(world); before != nil {
		select {
		case <-before.life.empty:
		case <-ctx.Done():
			return errors.New("the tasks that ran here have not ended yet; it is tried again")
		}
	}
	if err := s.reach(ctx, w, w.listing.forge, world); err != nil {
		return err
	}
	if _, err := w.Repo.Refs(ctx, installation.RefPrefix(s.cfg.Refs)); err != nil {
		return errors.Join(err, w.Repo.Close())
	}
	return nil
}

// announce has a world open, if it is still listed.
func (s *server) announce(ctx context.Context, w *served, self forge.User) {
	l := w.listing
	s.met(l.forge, self)
	tries := s.worlds.tried(l)
	if !s.worlds.opened(l, w, w.at) {
		s.worlds.locked(w.life.close)
		return
	}
	s.recordPauses(ctx, w, "", "")
	s.log.InfoContext(ctx, "a repository is open", installation.LogWorld, w.World, "repository", w.at.String(), "tries", tries+1)
}

// leaveShut keeps a world closed, and says why where that is news.
func (s *server) leaveShut(ctx context.Context, l *listing, err error) {
	why := problem.Explain(err)
	if errors.Is(err, context.DeadlineExceeded) {
		why = wire.Unanswered(l.forge, l.name, "There was no answer in time")
	}
	news, wait := s.worlds.shut(l, why, time.Now())
	if !news || ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		s.log.Debug("a repository is still closed", "repository", l.name, "retry", wait)
		return
	}
	remedy := why.Remedy
	if remedy == "" {
		remedy = why.Code.Info().Remedy
	}
	s.shut.tell(l.name, why.Code, func() {
		s.log.Warn("a repository is closed: nothing is done in it until it opens", installation.LogWorld, l.first, "forge", l.forge.Name,
			"repository", l.name, "code", string(why.Code), "error", why.Text, "remedy", remedy, "retry", wait)
	})
}

// tried is how often opening a world has failed.
func (ws *worlds) tried(l *listing) (n int) {
	ws.locked(func() { n = l.tries })
	return n
}

// keepOpening tries closed worlds again, later each time, and at once when there
// is a hint that it may work now.
func (s *server) keepOpening(ctx context.Context) error {
	var tries sync.WaitGroup
	defer tries.Wait()
	for {
		due, next := s.worlds.due(time.Now())
		for _, l := range due {
			tries.Go(func() { s.tryAgain(ctx, l) })
		}
		wait := mostTry
		if !next.IsZero() {
			wait = max(time.Until(next), time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-s.worlds.wake:
		}
		timer.Stop()
	}
}

// tryAgain tries one world, and looks at what happened in it while it was closed.
func (s *server) tryAgain(ctx context.Context, l *listing) {
	defer s.worlds.nudge()
	err := s.tryAll(ctx, []*listing{l})
	if err != nil && ctx.Err() == nil {
		s.log.Error("a repository can't be opened on this machine", "repository", l.name, "error", err)
	}
	if w := s.worlds.servedOf(l); w != nil {
		s.ofWorld(w, func() {
			s.recheck(ctx, []string{w.World})
			s.sweepOne(ctx, w)
		})
		s.sched.Nudge()
	}
}

// servedOf is what a listing has open.
func (ws *worlds) servedOf(l *listing) (w *served) {
	ws.locked(func() { w = l.served })
	return w
}

// nudge has due be asked again.
func (ws *worlds) nudge() {
	select {
	case ws.wake <- struct{}{}:
	default: // it is awake
	}
}

const (
	// shutWithin is how often repositories that are closed for one reason make a line.
	shutWithin = time.Minute
	// shutNamed is how many of them a line names; /readyz has all.
	shutNamed = 5
)

// shutLines bounds the lines about repositories that don't open: two hundred that a
// token doesn't reach are one line, and then one a minute.
type shutLines struct {
	log   *slog.Logger
	after func(time.Duration, func()) // calls later

	mu   sync.Mutex
	held map[kernel.Code][]string // by reason: names that no line has told yet
}

func newShutLines(log *slog.Logger) *shutLines {
	return &shutLines{log: log, held: map[kernel.Code][]string{}, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// tell tells of a repository at once, or with others within a minute.
func (s *shutLines) tell(name string, code kernel.Code, now func()) {
	s.mu.Lock()
	held, wait := s.held[code]
	if wait {
		if !slices.Contains(held, name) {
			s.held[code] = append(held, name)
		}
		s.mu.Unlock()
		return
	}
	s.held[code] = []string{}
	s.mu.Unlock()
	now()
	s.after(shutWithin, func() { s.sum(code) })
}

// sum tells of those that were held back.
func (s *shutLines) sum(code kernel.Code) {
	s.mu.Lock()
	names := s.held[code]
	if delete(s.held, code); len(names) > 0 {
		s.held[code] = []string{} // for another minute
	}
	s.mu.Unlock()
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	shown := strings.Join(names[:min(len(names), shutNamed)], " ")
	if more := len(names) - shutNamed; more > 0 {
		shown += " …"
	}
	s.log.Warn("more repositories were closed for the same reason: /readyz names each that still is", "count", len(names), "code", string(code), "repositories", shown, "remedy", code.Info().Remedy)
	s.after(shutWithin, func() { s.sum(code) })
}
