// Package worlds writes and reads what is said, in a repository, of its world and of keys:
// that a world goes on as another, that a key is replaced or revoked, that what a forge lost
// was put back. Commands show a person what each of these would do, and ask for a reason
// before anything is written.
package worlds

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
)

// Acting is an open installation, in whose name acts are written.
type Acting struct {
	*installation.Installation
	proc *wire.Process
}

// Of has an installation that is open write and read acts.
func Of(proc *wire.Process, in *installation.Installation) *Acting {
	return &Acting{Installation: in, proc: proc}
}

// Open opens an installation that is there, for acts that it signs. While a replacement of
// its key is under way, only what is for rotating opens it.
func Open(ctx context.Context, proc *wire.Process, cfg config.Config, state string, rotating bool) (*Acting, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return nil, err
	}
	if use := dir.LastUse(); use.Refs == config.RefsHeads {
		cfg.Refs = use.Refs
	}
	in, err := installation.OpenAs(ctx, &installation.Installation{Cfg: cfg, Log: proc.Warnings(), Rotating: rotating, Fault: proc.Fault}, state, installation.Use{})
	if err != nil {
		return nil, err
	}
	return Of(proc, in), nil
}

// Place is a world in whose repository acts are written.
type Place struct {
	World   string // its identity
	Display string // what people call it
	URL     string

	Repo   *git.Repo
	Room   *worldref.Room
	Prefix string   // of its state refs
	refs   git.Refs // state refs, branches, and the ref of the acts
}

// Place opens a world's repository, and reads its refs and its acts. Close its
// repository.
func (s *Acting) Place(ctx context.Context, world, url string) (p *Place, err error) {
	at, err := installation.NewPlace(url)
	if err != nil {
		return nil, err
	}
	p = &Place{World: world, Display: s.Dir.LastUse().Called(world), URL: at.URL, Prefix: installation.RefPrefix(s.Cfg.Refs)}
	if p.Repo, err = s.proc.Repository(ctx, s.Cfg, at, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if err := s.read(ctx, p); err != nil {
		installation.CloseRepo(p.Repo)
		return nil, err
	}
	return p, nil
}

func (s *Acting) read(ctx context.Context, p *Place) (err error) {
	if p.Room, err = s.ActsOf(p.Repo, p.World); err != nil {
		return err
	}
	if p.refs, err = p.Repo.Refs(ctx, p.Prefix, p.Room.Ref()); err != nil {
		return err
	}
	return p.Room.Look(ctx, p.tip())
}

// tip is where the acts are.
func (p *Place) tip() git.OID { return p.refs.OID(p.Room.Ref()) }

// Places opens the worlds that are meant, all before anything is changed. One whose path
// holds another world now is left out, and elsewhere is told of it.
func (s *Acting) Places(ctx context.Context, worlds map[string]string, elsewhere func(called, path, now string)) (places []*Place, end func(), err error) {
	end = func() {
		for _, p := range places {
			installation.CloseRepo(p.Repo)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(worlds)) {
		called := s.Dir.LastUse().Called(w)
		if now, err := git.Identity(worlds[w]); filepath.IsAbs(worlds[w]) && err == nil && now != "" && now != w {
			elsewhere(called, worlds[w], now)
			continue
		}
		p, err := s.Place(ctx, w, worlds[w])
		if err != nil {
			end()
			told := problem.Explain(err)
			told.Text = called + ": " + told.Text
			told.Remedy += " Nothing was changed. A repository that is gone for good is left out with --without."
			return nil, nil, told
		}
		places = append(places, p)
	}
	return places, end, nil
}

// stands are how the state refs stand to what the ledger of a world saw, for somebody
// who lists these keys too. The world is the place's own, or one that it goes on as.
func (s *Acting) stands(ctx context.Context, p *Place, world string, also ...ssh.PublicKey) ([]supervisor.Stand, error) {
	history, err := s.Testimony(ctx, world)
	if err != nil {
		return nil, err
	}
	sup, err := s.reader(p, world, history, also...)
	if err != nil {
		return nil, err
	}
	return sup.Stands(ctx, p.refs)
}

// reader is a supervisor of a place's world that only reads, for somebody who lists these
// keys too.
func (s *Acting) reader(p *Place, world string, history *supervisor.History, also ...ssh.PublicKey) (*supervisor.Supervisor, error) {
	g := &installation.Governed{Installation: s.Installation, Repo: p.Repo, World: world, Display: p.Display}
	cfg, deps, err := s.proc.Supervision(g, nil, wire.Supervision{})
	if err != nil {
		return nil, err
	}
	cfg.Trusted, deps.Acts = append(cfg.Trusted, also...), p.Room
	return supervisor.New(cfg, deps, history), nil
}

// Remark is a state ref of which a person is told before an act is written.
type Remark struct {
	supervisor.Stand
	Until git.OID // the commit that counts there; "" where none does
	Left  string  // why its task doesn't go on; "" where it does
}

// marks are commits on refs, and the last of the acts.
func (p *Place) marks(stands []supervisor.Stand, until func(supervisor.Stand) git.OID) (marks []worldref.Mark) {
	for _, st := range stands {
		if oid := until(st); oid != "" {
			marks = append(marks, worldref.Mark{Ref: st.Ref, Head: string(oid)})
		}
	}
	if last := p.Room.Last(); last != "" {
		marks = append(marks, worldref.Mark{Ref: p.Room.Ref(), Head: string(last)})
	}
	return marks
}

// act begins an act in the name of the person at the keyboard.
func (s *Acting) act(word, reason, old, next string, refs []worldref.Mark) worldref.Act {
	return worldref.Act{Act: word, Actor: s.proc.LocalActor(), Reason: reason, Time: installation.NewClock().Now().WallMs, Old: old, New: next, Refs: refs}
}
