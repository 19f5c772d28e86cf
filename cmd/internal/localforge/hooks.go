package localforge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/local"
)

// hookEntry is a hook as the forge's directory keeps it. The secret isn't there.
type hookEntry struct {
	URL        string `json:"url"`
	SecretFile string `json:"secret_file"`
}

func (d Dir) hooksFile() string { return filepath.Join(d.Path, "hooks.json") }

// faultHooksRead is where a command has read the hooks and not written them yet.
const faultHooksRead supervisor.Point = "forge.hooks.read"

// lockHooks waits until nobody else changes the file of hooks: two commands at
// once would each write what it read before the other.
func (d Dir) lockHooks() (unlock func(), err error) {
	path := d.hooksFile() + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); err == nil {
			return func() { _ = file.Close() }, nil // the lock goes with it
		}
		_ = file.Close() // the error that matters is the other one
	}
	return nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be locked: %s.", path, problem.Cause(err)), Remedy: "Check that the forge's directory is yours and on a local disk."}
}

// entries are the hooks that were set.
func (d Dir) entries() (list []hookEntry, err error) {
	const most = 64 << 10
	data, err := installation.ReadLimited(d.hooksFile(), most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be read: %s.", d.hooksFile(), problem.Cause(err))}
	}
	return list, nil
}

// Hooks are the hooks that were set, with their secrets.
func (d Dir) Hooks() ([]local.Hook, error) {
	list, err := d.entries()
	if err != nil {
		return nil, err
	}
	var out []local.Hook
	for _, e := range list {
		secret, err := config.Secret(func(name string) string {
			if name == "HOOK_FILE" {
				return e.SecretFile
			}
			return ""
		}, "HOOK")
		if err != nil {
			return nil, &problem.Error{Exit: problem.ExitOther, Text: "The secret in " + e.SecretFile + " can't be read.", Remedy: "Set the hook again: writ forge hook " + e.URL + " --secret-file FILE."}
		}
		out = append(out, local.Hook{URL: e.URL, Secret: []byte(secret)})
	}
	return out, nil
}

// AddHook notes a hook for the next start of the forge: the process that serves
// it is the only one that sends. It reports whether the secret was made anew.
func (d Dir) AddHook(ctx context.Context, proc *wire.Process, address, file string) (made bool, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return false, problem.Usage("The hook's address must be a URL such as http://127.0.0.1:8714/hooks/local, without credentials.")
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return false, err
	}
	err = d.With(ctx, local.Options{}, func(*local.Store) error {
		unlock, err := d.lockHooks()
		if err != nil {
			return err
		}
		defer unlock()
		list, err := d.entries()
		if err != nil {
			return err
		}
		if !exists(path) {
			if err := writeSecret(path, rand.Text()+rand.Text()); err != nil {
				return err
			}
			made = true
		}
		proc.Reach(faultHooksRead)
		list = slices.DeleteFunc(list, func(e hookEntry) bool { return e.URL == address })
		data, err := json.MarshalIndent(append(list, hookEntry{address, path}), "", "  ")
		if err != nil {
			return err
		}
		return installation.ReplaceFile(d.hooksFile(), append(data, '\n'))
	})
	return made, err
}
