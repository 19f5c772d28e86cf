package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/canon"
)

// Fault points of what is kept of the acts, for crash tests: the act is pushed then.
const (
	faultActsPushed supervisor.Point = "world.acts.pushed"
	faultActsKept   supervisor.Point = "world.acts.kept"
)

// actMemory is the file of the state directory that keeps what was seen of a
// world's acts.
type actMemory struct {
	file  string
	reach func(supervisor.Point)
}

// memoryOf is the file of one world.
func (in *installation) memoryOf(world string) actMemory {
	const digits = 16 // as for checkpoints
	reach := in.fault
	if reach == nil {
		reach = func(supervisor.Point) {}
	}
	return actMemory{in.dir.file("world-acts-" + canon.Sum([]byte(world)).Hex()[:digits]), reach}
}

// Load implements worldref.Memory.
func (m actMemory) Load() ([]byte, error) {
	data, err := readLimited(m.file, maxSaved)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements worldref.Memory.
func (m actMemory) Save(data []byte) error {
	m.reach(faultActsPushed)
	err := replaceFile(m.file, data)
	m.reach(faultActsKept)
	return err
}

// actsOf opens the acts of a world of this installation.
func (in *installation) actsOf(repo worldref.Repo, world string) (*worldref.Room, error) {
	listed, err := in.listed()
	if err != nil {
		return nil, err
	}
	room, err := worldref.Open(repo, world, worldref.Ref(refPrefix(in.cfg.Refs)), in.memoryOf(world))
	if err == nil {
		room.Know(listed...)
	}
	return room, err
}

// writer signs acts with a key of this installation.
func (in *installation) writer(key ssh.Signer) worldref.Writer {
	return worldref.Writer{Signer: git.NewSigner(key), Name: in.cfg.Identity.Name, Email: in.cfg.Identity.Email}
}

// listed are the keys that the operator lists, and the installation's own.
func (in *installation) listed() ([]ssh.PublicKey, error) {
	keys, err := parseKeys(in.cfg.TrustedRunners)
	return append(keys, in.key.SSHSigner().PublicKey()), err
}

// testimony is what the ledger of a world says, if there is one. It is read as it is,
// for an interrupted rotation has handed it to the next key.
func (in *installation) testimony(ctx context.Context, world string) (*supervisor.History, error) {
	store, err := ledger.OpenReadOnly(ctx, in.dir.file(ledger.FileName), ledger.Options{Logger: in.log})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	names, err := store.Worlds(ctx)
	if err != nil || !slices.Contains(names, world) {
		return supervisor.NoHistory(), err
	}
	l, err := store.World(ctx, world)
	if err != nil {
		return nil, err
	}
	signed, err := ledger.KeptCheckpoint(in.dir.path, world)
	if err != nil {
		return nil, err
	}
	r, err := l.Verify(ctx, ledger.VerifyOptions{Checkpoint: signed, Outside: true})
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return nil, err
	}
	return in.dir.folded(ctx, l)
}

// worldsOf are the worlds of an installation that are meant, with where their
// repositories are.
func (in *installation) worldsOf(ctx context.Context, only string, without []string) (map[string]string, error) {
	use := in.dir.lastUse()
	names, err := in.store.Worlds(ctx)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(use.Repos)
	if out == nil {
		out = map[string]string{}
	}
	for _, n := range names {
		if out[n] == "" {
			out[n] = ""
		}
	}
	for _, w := range without {
		if _, known := out[use.meant(w)]; !known {
			return nil, usage("The state directory has no world %s.", w)
		}
		delete(out, use.meant(w))
	}
	if only != "" {
		url, known := out[use.meant(only)]
		if !known {
			return nil, usage("The state directory has no world %s.", only)
		}
		out = map[string]string{use.meant(only): url}
	}
	for w, url := range out {
		if url == "" {
			p := usage("The state directory doesn't say where the repository of %s is.", use.called(w))
			p.remedy = "Start the server once, which notes it; or leave the world out: --without '" + w + "'."
			return nil, p
		}
	}
	return out, nil
}

// parseKeys reads public keys as authorized_keys has them.
func parseKeys(lines []string) ([]ssh.PublicKey, error) {
	var out []ssh.PublicKey
	for _, line := range lines {
		key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(strings.TrimSpace(string(rest))) > 0 {
			return nil, usage("A key is no OpenSSH public key (ssh-ed25519 AAAA…).")
		}
		out = append(out, key)
	}
	return out, nil
}
