// Package localforge administers the embedded forge of a directory: whoever can write to that
// may make accounts, repositories and hooks there, act as anybody, and serve it.
package localforge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// Dir is the directory of an embedded forge.
type Dir struct{ Path string }

// Init makes an empty forge.
func (d Dir) Init(ctx context.Context) error {
	if err := installation.PathFlag("dir", d.Path); err != nil {
		return err
	}
	if _, err := os.Lstat(d.file()); !errors.Is(err, fs.ErrNotExist) {
		return &problem.Error{Exit: problem.ExitOther, Text: "There is a forge in " + d.Path + " already, and it was left as it is.", Remedy: "Give another --dir."}
	}
	s, err := local.Open(ctx, local.Options{Dir: d.Path})
	if err != nil {
		return wire.FailedForge(d.Path, err)
	}
	return s.Close()
}

func (d Dir) file() string { return filepath.Join(d.Path, "forge.db") }

// With opens the forge for one command. It can be served meanwhile.
func (d Dir) With(ctx context.Context, o local.Options, do func(*local.Store) error) error {
	if err := installation.PathFlag("dir", d.Path); err != nil {
		return err
	}
	if _, err := os.Stat(d.file()); err != nil {
		return &problem.Error{Exit: problem.ExitOther, Text: "There is no forge in " + d.Path + ".", Remedy: "Name its directory with --dir, or make one: writ forge init --dir DIR."}
	}
	o.Dir = d.Path
	s, err := local.Open(ctx, o)
	if err != nil {
		return wire.FailedForge(d.Path, err)
	}
	return errors.Join(do(s), s.Close())
}

// Named finds a repository by its owner and name.
func Named(ctx context.Context, s *local.Store, name string) (forge.Repository, error) {
	all, err := s.Repositories(ctx)
	for _, r := range all {
		if err == nil && strings.EqualFold(r.String(), name) {
			return r, nil
		}
	}
	if err == nil {
		err = &problem.Error{Exit: problem.ExitOther, Text: "The forge has no repository " + name + ".", Remedy: "Make it: writ forge repo OWNER/NAME."}
	}
	return forge.Repository{}, err
}

// Client is a client of the forge that acts as somebody.
func Client(ctx context.Context, s *local.Store, login string) (*local.Client, error) {
	if login == "" {
		return nil, problem.Usage("--as is missing: say which account acts.")
	}
	u, err := s.UserByLogin(ctx, login)
	if err != nil {
		return nil, err
	}
	return s.As(u), nil
}

// As acts in a repository as somebody.
func (d Dir) As(ctx context.Context, login, repo string, act func(*local.Client, forge.Repository) error) error {
	return d.With(ctx, local.Options{}, func(s *local.Store) error {
		r, err := Named(ctx, s, repo)
		if err != nil {
			return err
		}
		c, err := Client(ctx, s, login)
		if err != nil {
			return err
		}
		return act(c, r)
	})
}
