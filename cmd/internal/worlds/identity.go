package worlds

import (
	"context"
	"log/slog"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge"
)

// Identity is a place whose world is known as well as it can be.
type Identity struct {
	installation.Place
	// Vouched: the repository itself, or its forge, says so.
	Vouched bool
	issues  issueText
	close   func()
}

// issueText reads issues of a world; nil where tasks come from files.
type issueText func(ctx context.Context, number int64) (forge.Issue, error)

// Close gives back the forge that was asked.
func (id *Identity) Close() {
	if id.close != nil {
		id.close()
	}
}

// Identify learns which world a repository is: from its git directory, or from
// the forge of the configuration that has it. With mint a repository on this machine that
// has no identity yet gets one. Close what it gives.
func Identify(ctx context.Context, proc *wire.Process, cfg config.Config, repo string, mint bool) (id Identity, err error) {
	if id.Place, err = installation.NewPlace(repo); err != nil {
		return id, err
	}
	if id.OnDisk {
		err := id.Identify(mint)
		id.Vouched = id.World != id.Display
		return id, err
	}
	cfg.Server.Intake = config.IntakePoll // what takes webhooks isn't needed
	given, err := proc.ReadSecrets(cfg)
	if err != nil {
		return id, err
	}
	forges, err := proc.Connect(ctx, cfg, given, slog.New(slog.DiscardHandler))
	if err != nil {
		return id, err
	}
	for _, f := range forges {
		r, has := f.Named(id.URL)
		if !has || id.Vouched {
			f.Host.Close()
			continue
		}
		if err := id.ask(ctx, f, r); err != nil {
			f.Host.Close()
			return id, err
		}
	}
	return id, nil
}

// ask asks the forge that has a repository.
func (id *Identity) ask(ctx context.Context, f *wire.Forge, r forge.Repo) error {
	found, err := f.Host.Find(ctx, r.Owner, r.Name)
	if err != nil {
		return wire.NotFound(f, r.String(), err)
	}
	if id.World, err = f.World(ctx, found.Repo); err != nil {
		return err
	}
	client := f.Host.Client(found.Repo)
	id.Vouched, id.Display, id.close = true, f.Display(found.Repo), f.Host.Close
	id.issues = func(ctx context.Context, n int64) (forge.Issue, error) { return client.Issue(ctx, found.Repo, n) }
	return nil
}
