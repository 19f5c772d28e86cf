package server

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/webhook/inbox"
)

// hanging leaves what it is asked unanswered until the test lets it go on.
type hanging struct {
	asked  chan struct{}
	answer chan struct{}
}

func newHanging() hanging { return hanging{make(chan struct{}, 100), make(chan struct{})} }

func (h hanging) ask(ctx context.Context) error {
	h.asked <- struct{}{}
	select {
	case <-h.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h hanging) await(t *testing.T, what string) {
	t.Helper()
	select {
	case <-h.asked:
	case <-time.After(20 * time.Second): // it would hang
		t.Fatal(what)
	}
}

// hangingList is a forge's client, and hangingRefs a repository, that hang.
type (
	hangingList struct {
		forge.Client
		hanging
	}
	hangingRefs struct {
		supervisor.Repo
		hanging
	}
)

func (h hangingList) ListIssues(ctx context.Context, _ forge.Repo, _ time.Time, _ func(forge.Issue) error) error {
	return h.ask(ctx)
}

func (h hangingRefs) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	if err := h.ask(ctx); err != nil {
		return git.Refs{}, err
	}
	return h.Repo.Refs(ctx, names...)
}

// beside is another open world, whose client is the test's.
func (s *server) beside(w *served, forgeName, name string, client forge.Client) *served {
	world := forgeName + "/" + name
	l := &listing{forge: &wire.Forge{Name: forgeName}, name: name, world: world}
	l.served = &served{
		Governed: &installation.Governed{Installation: w.Installation, Ledger: w.Ledger, Repo: w.Repo, World: world, Display: world},
		gen:      w.gen, listing: l, life: newLifetime(), at: w.at, client: client, unchanged: w.unchanged, sup: w.sup,
	}
	s.worlds.locked(func() { s.worlds.list = append(s.worlds.list, l) })
	return l.served
}

// running runs a part of the server until the function that it returns is called, which
// waits for it.
func running(t *testing.T, part func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() {
		if err := part(ctx); err != nil {
			t.Error(err)
		}
	})
	return func() { cancel(); runs.Wait() }
}

// TestE8_SweepsOfForgesAreIndependent: a forge that hangs, for however long, keeps no
// other one's worlds from being swept.
func TestE8_SweepsOfForgesAreIndependent(t *testing.T) {
	s, w := openedWith(t, &brokenList{})
	s.turn = time.Hour
	var all []hanging
	for _, name := range wire.ForgeNames() {
		h := hangingList{w.client, newHanging()}
		s.beside(w, name, "0", h) // in the local forge it comes before the other
		all = append(all, h.hanging)
	}
	end := running(t, s.sweepAll)
	for i, h := range all {
		h.await(t, wire.ForgeNames()[i]+" isn't swept while the others hang")
	}
	end()
}

// TestE8_AWorldThatHangs: it keeps the other worlds of its forge from their turn for a
// bounded time. It has one turn at once, and what it was hinted at meanwhile isn't lost.
func TestE8_AWorldThatHangs(t *testing.T) {
	s, w := openedWith(t, &brokenList{})
	s.turn = time.Millisecond
	lists, second := hangingList{w.client, newHanging()}, hangingList{w.client, newHanging()}
	refs, secondRefs := hangingRefs{w.Repo, newHanging()}, hangingRefs{w.Repo, newHanging()}
	close(second.answer)
	close(secondRefs.answer)
	other := s.beside(w, "local", "z", second)
	w.client = lists
	for world, repo := range map[*served]supervisor.Repo{w: refs, other: secondRefs} {
		cfg, deps, err := s.process.Supervision(w.Governed, w.gen.executor, s.supervisionOf(w))
		must(t, err)
		must(t, s.inbox.Mark(t.Context(), []inbox.Key{{World: world.World, Task: 5}}, time.Now().Add(time.Hour).UnixMilli()))
		deps.Repo = repo
		world.sup = w.sup.With(cfg, deps)
	}
	end := running(t, s.watchBases)
	s.bases["local"].add([]string{w.World, other.World})
	refs.await(t, "the base isn't looked at")
	secondRefs.await(t, "a neighbour's base isn't looked at")
	s.bases["local"].add([]string{w.World})
	s.bases["local"].add([]string{other.World})
	secondRefs.await(t, "its base isn't looked at again")
	if len(refs.asked) > 0 {
		t.Error("a world has two turns at once")
	}
	close(refs.answer)
	refs.await(t, "what was hinted at during a turn is lost")
	end()

	end = running(t, s.sweepAll)
	lists.await(t, "a world isn't swept")
	second.await(t, "its neighbour isn't")
	end()
}
