package worlds

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
)

// Log is what was said in a repository of its world and of keys.
type Log struct {
	World   string
	Vouched bool // the repository says that it is this world, or the caller does
	Acts    []worldref.Judged
}

// ReadLog reads the acts of a repository, of this world where one is named, and judges them
// for somebody who lists these keys.
func ReadLog(ctx context.Context, proc *wire.Process, cfg config.Config, repo, world string, keys []ssh.PublicKey) (Log, error) {
	id, err := Identify(ctx, proc, cfg, repo, false)
	if err != nil {
		return Log{}, err
	}
	defer id.Close()
	r, err := proc.Repository(ctx, cfg, id.Place, nil)
	if err != nil {
		return Log{}, err
	}
	defer r.Close()
	acts, err := readActs(ctx, r, cfg.Refs)
	if err != nil {
		return Log{}, err
	}
	l := Log{World: id.World, Vouched: id.Vouched}
	switch {
	case world != "":
		l.World, l.Vouched = world, true
	case !l.Vouched:
		l.World = spokenOf(acts, worldref.Lists(keys), l.World)
	}
	l.Acts = worldref.Fold(l.World, acts, worldref.Lists(keys)).Acts
	return l, nil
}

// readActs reads the acts of a repository.
func readActs(ctx context.Context, r *git.Repo, refs string) ([]worldref.Entry, error) {
	ref := worldref.Ref(installation.RefPrefix(refs))
	there, err := r.Refs(ctx, ref)
	if err != nil {
		return nil, err
	}
	return worldref.Read(ctx, r, there.OID(ref))
}

// spokenOf is the world that a repository's acts are of, where it doesn't say which it is:
// that of the last one by a key that is listed, or, without such, of the last.
func spokenOf(acts []worldref.Entry, listed func(string) bool, unknown string) string {
	last := ""
	for _, e := range slices.Backward(acts) {
		switch {
		case e.Fault != "" || e.Signer == "":
		case listed(e.Signer):
			return e.Act.World
		case last == "":
			last = e.Act.World
		}
	}
	return cmp.Or(last, unknown)
}
