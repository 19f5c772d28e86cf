package wire

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/filesystem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// localHost is the embedded forge of this machine.
type localHost struct {
	log   *slog.Logger
	store *local.Store
	url   string // without a slash at its end
	self  forge.User
	token string
}

// openLocal opens the embedded forge.
func openLocal(ctx context.Context, c config.LocalForge, given ForgeSecrets, log *slog.Logger) (*Forge, error) {
	store, err := local.Open(ctx, local.Options{Dir: c.Dir, URL: c.URL, Logger: log})
	if err != nil {
		return nil, FailedForge(c.Dir, err)
	}
	h := &localHost{log: log, store: store, url: strings.TrimSuffix(c.URL, "/"), token: given.Token}
	if h.self, err = store.Authenticate(ctx, h.token); err != nil {
		h.Close()
		p := problem.Coded(kernel.CodeForgeCredential, "The embedded forge in %s doesn't know the token in %s.", c.Dir, c.Token)
		p.Remedy = "Check that " + c.Token + " (or the file that " + c.Token + "_FILE names) holds a token made in this very directory: " +
			"writ forge token LOGIN --dir " + c.Dir + " --file FILE makes a new one, of writ's own account (writ forge user LOGIN --bot)."
		return nil, p
	}
	if h.self.Kind != forge.Bot {
		log.Warn("writ has a person's token: what this person says and labels counts as writ's own, and does nothing", "forge", "local", "login", h.self.Login,
			"remedy", "Make an account for writ (writ forge user LOGIN --bot), let it write (writ forge repo OWNER/NAME --grant LOGIN=write), and give it a token of its own.")
	}
	identity, err := store.Identity(ctx)
	if err != nil {
		h.Close()
		return nil, err
	}
	return &Forge{
		Name: "local", Host: h, Repositories: c.Repositories, Identity: identity,
		Display: func(r forge.Repo) string { return "local/" + r.String() },
		World:   func(ctx context.Context, r forge.Repo) (string, error) { return store.World(ctx, r.ID) },
		Hook: func(self forge.User, of Whose) (webhook.Hook, error) {
			return webhook.NewLocalHook(webhook.LocalConfig{Secrets: given.hooks, Self: self.ID, World: of.World})
		},
	}, nil
}

// Find implements host.
func (h *localHost) Find(ctx context.Context, owner, name string) (forge.Repository, error) {
	visible, err := h.store.As(h.self).Repositories(ctx)
	if err != nil {
		return forge.Repository{}, err
	}
	i := slices.IndexFunc(visible, func(r forge.Repository) bool { return strings.EqualFold(r.String(), owner+"/"+name) })
	if i < 0 {
		return forge.Repository{}, &forge.Error{Reason: forge.NotFound, Op: "find " + owner + "/" + name}
	}
	return visible[i], nil
}

// Client implements host.
func (h *localHost) Client(forge.Repo) forge.Client { return h.store.As(h.self) }

// GitURL implements host.
func (h *localHost) GitURL(r forge.Repo) string { return h.url + "/" + r.String() + ".git" }

// GitAuth implements host. Plain http is what the operator wrote.
func (h *localHost) GitAuth(forge.Repo) git.Auth {
	u, err := url.Parse(h.url)
	return git.Auth{Username: h.self.Login, Password: h.token, AllowPlaintext: err == nil && u.Scheme == "http"}
}

// EditHistory implements host.
func (*localHost) EditHistory() bool { return true }

// Close implements host.
func (h *localHost) Close() {
	if err := h.store.Close(); err != nil {
		h.log.Error("the embedded forge could not be closed", "error", err)
	}
}

// FailedForge is an embedded forge whose directory's file system refused something, with
// what helps; any other error stays as it is.
func FailedForge(dir string, err error) error {
	p := problem.Coded(kernel.CodeEnvStore, "The embedded forge in %s can't be opened (%s).", dir, problem.Cause(err))
	p.Subject = dir
	switch {
	case errors.Is(err, unix.EROFS):
		p.Remedy = "Its file system, mounted at " + filesystem.MountPoint(dir) + ", can't be written: mount it for writing (mount -o remount,rw)."
	case filesystem.Refused(err) || filesystem.Full(dir): // the database has words of its own for it
		p.Remedy = "Make room: " + filesystem.NoRoom(dir) + "."
	default:
		return err
	}
	return p
}
