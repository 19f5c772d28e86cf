package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/webhook"
)

// worlds are the repositories that the configuration lists, and the worlds that
// they are. It is the one place where that is known; any goroutine may ask.
type worlds struct {
	mu    sync.Mutex
	list  []*listing
	bound map[string]binding // by world: how its repository was called last
	wake  chan struct{}      // a closed one is to be tried now

	places chan struct{} // of tries to open one
}

func newWorlds() *worlds {
	return &worlds{bound: map[string]binding{}, wake: make(chan struct{}, 1), places: make(chan struct{}, triesAtOnce)}
}

// listing is a repository of the configuration. While it is closed nothing is
// done in it: its webhooks are taken, and what is due stays due.
type listing struct {
	forge *wire.Forge
	name  string // as it is listed
	first string // what people call it, by the name that is listed

	// What follows is guarded by worlds.mu.
	world        string  // its identity; first, until that is known
	id           int64   // the forge's number of it; 0: not known
	installation int64   // of a GitHub App; 0: not known, or none
	served       *served // nil: closed
	why          *problem.Error
	lacks        *problem.Error // of what writ may do there; nil: nothing
	tries        int            // in a row, without success
	next         time.Time
	trying       bool
}

// lifetime is what all that is ever made of an open world shares.
type lifetime struct {
	ctx context.Context // ends when the world is closed
	end context.CancelFunc

	// What follows is guarded by worlds.mu.
	runs  int
	empty chan struct{} // closed once the world is, and nothing of it runs
	ended ended
}

func newLifetime() *lifetime {
	l := &lifetime{empty: make(chan struct{}), ended: ended{heads: map[int64]git.OID{}}}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// locked calls f with all of it to itself.
func (ws *worlds) locked(f func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	f()
}

// named is an open world; nil for any other.
func (ws *worlds) named(world string) *served {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.find(world)
}

// find is named, with ws.mu held.
func (ws *worlds) find(world string) *served {
	for _, l := range ws.list {
		if l.served != nil && l.world == world {
			return l.served
		}
	}
	return nil
}

// open lists the open worlds, by name.
func (ws *worlds) open() (list []*served) {
	ws.locked(func() {
		for _, l := range ws.list {
			if l.served != nil {
				list = append(list, l.served)
			}
		}
	})
	slices.SortFunc(list, func(a, b *served) int { return cmp.Compare(a.World, b.World) })
	return list
}

// openAt are those of a forge.
func (ws *worlds) openAt(forge string) []*served {
	return slices.DeleteFunc(ws.open(), func(w *served) bool { return w.listing.forge.Name != forge })
}

// listed reports whether a world is, open or closed.
func (ws *worlds) listed(world string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.ContainsFunc(ws.list, func(l *listing) bool { return l.world == world })
}

// meant is the world that a person names by its identity or by what it is called,
// now or in the configuration. Any other name is left as it is.
func (ws *worlds) meant(name string) string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, l := range ws.list {
		if name == l.world || name != "" && strings.EqualFold(name, l.first) || l.served != nil && name == l.served.Display {
			return l.world
		}
	}
	return name
}

// called is what people call a world; what isn't listed is called what it is.
func (ws *worlds) called(world string) (name string) {
	name = world
	ws.locked(func() {
		for _, l := range ws.list {
			if l.world == world {
				name = l.first
			}
		}
	})
	return name
}

// named are pauses in which a person may have named a world by what it is called.
type named struct {
	scheduler.PauseSource
	worlds *worlds
}

// Paused implements scheduler.PauseSource.
func (n named) Paused(ctx context.Context) (scheduler.Paused, error) {
	p, err := n.PauseSource.Paused(ctx)
	for _, name := range slices.Collect(maps.Keys(p.Worlds)) {
		p.Worlds[n.worlds.meant(name)] = true
	}
	return p, err
}

// shown are copies of the listings, for who shows them.
func (ws *worlds) shown() (list []listing) {
	ws.locked(func() {
		for _, l := range ws.list {
			list = append(list, *l)
		}
	})
	return list
}

// lists reports whether a listing is one of the configuration in force.
func (ws *worlds) lists(l *listing) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Contains(ws.list, l)
}

// countClosed is how many are closed.
func (ws *worlds) countClosed() (n int) {
	ws.locked(func() {
		for _, l := range ws.list {
			if l.served == nil {
				n++
			}
		}
	})
	return n
}

// enter is an open world whose task begins to run; leave follows. Nil: it is
// closed.
func (ws *worlds) enter(world string) *served {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.find(world)
	if w == nil || w.life.ctx.Err() != nil {
		return nil
	}
	w.life.runs++
	w.gen.users++
	return w
}

func (ws *worlds) leave(w *served) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.life.runs--
	if w.life.runs == 0 && w.life.ctx.Err() != nil {
		close(w.life.empty)
	}
	w.gen.users--
	w.gen.mayRetire()
}

// close closes an open world: what runs there hands itself over, as in a
// shutdown. ws.mu is held.
func (l *lifetime) close() {
	if l.ctx.Err() != nil {
		return
	}
	l.end()
	if l.runs == 0 {
		close(l.empty)
	}
}

// Paused implements scheduler.PauseSource: nothing is started in a listed world that is
// closed, and what is due there stays due.
func (ws *worlds) Paused(context.Context) (scheduler.Paused, error) {
	p := scheduler.Paused{Worlds: map[string]bool{}}
	ws.locked(func() {
		for _, l := range ws.list {
			if l.served == nil && ws.find(l.world) == nil {
				p.Worlds[l.world] = true
			}
		}
	})
	return p, nil
}

// lookup is the listed world of a repository, open or closed, by its number.
func (ws *worlds) lookup(forge string) func(int64) (string, bool) {
	return func(repository int64) (world string, listed bool) {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		for _, l := range ws.list {
			if l.forge.Name == forge && l.id == repository && repository != 0 {
				return l.world, true
			}
		}
		return "", false
	}
}

// taskOfChange is the task whose work a change delivers, by the records of an open world; 0
// for none.
func (ws *worlds) taskOfChange(world string, number int64) int64 {
	if w := ws.named(world); w != nil {
		return w.sup.TaskOfChange(number)
	}
	return 0
}

// listedAs tells by which name a repository of a forge is listed; "" for none.
func (ws *worlds) listedAs(forge string) func(int64) string {
	return func(repository int64) string {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		for _, l := range ws.list {
			if l.forge.Name == forge && l.id == repository && repository != 0 {
				return l.name
			}
		}
		return ""
	}
}

// installed are the listed worlds that an event of an App's installation may
// concern: those whose repository is known to belong to it, and those of its
// account, which may have installed the App anew. Without an installation they are
// the closed ones of the account.
func (ws *worlds) installed(forge string) func(int64, string) []string {
	return func(installation int64, account string) (list []string) {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		for _, l := range ws.list {
			owner, _, _ := strings.Cut(l.name, "/")
			ours := installation != 0 && l.installation == installation
			awaited := (l.served == nil || installation != 0) && account != "" && strings.EqualFold(owner, account)
			if l.forge.Name == forge && (ours || awaited) {
				list = append(list, l.world)
			}
		}
		return list
	}
}

// due takes the closed worlds whose time to be tried has come, and says when the
// next one's comes. Each is given back with shut or opened.
func (ws *worlds) due(now time.Time) (list []*listing, next time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, l := range ws.list {
		switch {
		case l.served != nil || l.trying:
		case !l.next.After(now):
			l.trying = true
			list = append(list, l)
		case next.IsZero() || l.next.Before(next):
			next = l.next
		}
	}
	return list, next
}

// The delays between two tries to open a world double from one to the other.
const (
	firstTry = 2 * time.Second
	mostTry  = 5 * time.Minute
)

// shut leaves a world closed until its next try, and reports whether the reason
// is news.
func (ws *worlds) shut(l *listing, why *problem.Error, now time.Time) (news bool, wait time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wait = tryAfter(l.tries)
	news = l.why == nil || l.why.Error() != why.Error()
	l.why, l.next, l.trying = why, now.Add(wait), false
	l.tries++
	return news, wait
}

// opened has a world open. It reports false where the listing is gone meanwhile.
func (ws *worlds) opened(l *listing, w *served, at forge.Repo) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	l.trying = false
	if !slices.Contains(ws.list, l) {
		return false
	}
	l.served, l.world, l.id, l.why, l.tries = w, w.World, at.ID, nil, 0
	return true
}

// hookOf makes the hook of a forge, as writ's account there is known now.
func (s *server) hookOf(f *wire.Forge, self forge.User) (webhook.Hook, error) {
	h, err := f.Hook(self, wire.Whose{World: s.worlds.lookup(f.Name), Installed: s.worlds.installed(f.Name), Name: s.worlds.listedAs(f.Name), Change: s.worlds.taskOfChange})
	if err != nil {
		return nil, fmt.Errorf("forges.%s: %w", f.Name, err)
	}
	return h, nil
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
