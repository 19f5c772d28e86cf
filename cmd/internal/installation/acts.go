package installation

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/problem"
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

// ActMemory is the file of the state directory that keeps what was seen of a
// world's acts.
type ActMemory struct {
	file  string
	reach func(supervisor.Point)
}

// MemoryOf is the file of one world.
func (in *Installation) MemoryOf(world string) ActMemory {
	const digits = 16 // as for checkpoints
	reach := in.Fault
	if reach == nil {
		reach = func(supervisor.Point) {}
	}
	return ActMemory{in.Dir.File("world-acts-" + canon.Sum([]byte(world)).Hex()[:digits]), reach}
}

// Load implements worldref.Memory.
func (m ActMemory) Load() ([]byte, error) {
	data, err := ReadLimited(m.file, maxSaved)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements worldref.Memory.
func (m ActMemory) Save(data []byte) error {
	m.reach(faultActsPushed)
	err := ReplaceFile(m.file, data)
	m.reach(faultActsKept)
	return err
}

// ActsOf opens the acts of a world of this installation.
func (in *Installation) ActsOf(repo worldref.Repo, world string) (*worldref.Room, error) {
	listed, err := in.Listed()
	if err != nil {
		return nil, err
	}
	room, err := worldref.Open(repo, world, worldref.Ref(RefPrefix(in.Cfg.Refs)), in.MemoryOf(world))
	if err == nil {
		room.Know(listed...)
	}
	return room, err
}

// Writer signs acts with a key of this installation.
func (in *Installation) Writer(key ssh.Signer) worldref.Writer {
	return worldref.Writer{Signer: git.NewSigner(key), Name: in.Cfg.Identity.Name, Email: in.Cfg.Identity.Email}
}

// Listed are the keys that the operator lists, and the installation's own.
func (in *Installation) Listed() ([]ssh.PublicKey, error) {
	keys, err := ParseKeys(in.Cfg.TrustedRunners)
	return append(keys, in.Key.SSHSigner().PublicKey()), err
}

// Testimony is what the ledger of a world says, if there is one. It is read as it is,
// for an interrupted rotation has handed it to the next key.
func (in *Installation) Testimony(ctx context.Context, world string) (*supervisor.History, error) {
	store, err := ledger.OpenReadOnly(ctx, in.Dir.File(ledger.FileName), ledger.Options{Logger: in.Log})
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
	signed, err := ledger.KeptCheckpoint(in.Dir.Path, world)
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
	return in.Dir.Folded(ctx, l)
}

// WorldsOf are the worlds of an installation that are meant, with where their
// repositories are.
func (in *Installation) WorldsOf(ctx context.Context, only string, without []string) (map[string]string, error) {
	use := in.Dir.LastUse()
	names, err := in.Store.Worlds(ctx)
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
		if _, known := out[use.Meant(w)]; !known {
			return nil, problem.Usage("The state directory has no world %s.", w)
		}
		delete(out, use.Meant(w))
	}
	if only != "" {
		url, known := out[use.Meant(only)]
		if !known {
			return nil, problem.Usage("The state directory has no world %s.", only)
		}
		out = map[string]string{use.Meant(only): url}
	}
	for w, url := range out {
		if url == "" {
			p := problem.Usage("The state directory doesn't say where the repository of %s is.", use.Called(w))
			p.Remedy = "Start the server once, which notes it; or leave the world out: --without '" + w + "'."
			return nil, p
		}
	}
	return out, nil
}

// ReadKeys reads the keys that a person vouches for, beside those that are listed: each is
// given as a file of keys, or as its text.
func ReadKeys(given, listed []string) ([]ssh.PublicKey, error) {
	lines := slices.Clone(listed)
	for _, k := range given {
		if strings.Contains(k, " ") {
			lines = append(lines, k)
			continue
		}
		const maxKeyBytes = 64 << 10 // a file of some keys
		data, err := ReadLimited(k, maxKeyBytes)
		if err != nil {
			return nil, problem.Usage("--key is neither a public key nor a file that can be read: %s.", problem.Cause(err))
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	keys, err := ParseKeys(lines)
	if err == nil && len(given) > 0 && len(keys) == 0 {
		err = problem.Usage("--key holds no key.")
	}
	return keys, err
}

// ParseKeys reads public keys as authorized_keys has them.
func ParseKeys(lines []string) ([]ssh.PublicKey, error) {
	var out []ssh.PublicKey
	for _, line := range lines {
		key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(strings.TrimSpace(string(rest))) > 0 {
			return nil, problem.Usage("A key is no OpenSSH public key (ssh-ed25519 AAAA…).")
		}
		out = append(out, key)
	}
	return out, nil
}
