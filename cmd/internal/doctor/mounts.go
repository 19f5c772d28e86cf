package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/writbot/writ/cmd/internal/config"
)

// Hidden is a file or directory that no sandbox may have.
type Hidden struct{ What, Path string }

// HiddenFrom lists what no sandbox of an installation may have: its state directory with
// the signing key, the embedded forge's database, and the files of secrets.
func HiddenFrom(c config.Config, state string, getenv func(string) string) (list []Hidden) {
	add := func(what, path string) {
		if path != "" {
			list = append(list, Hidden{what, path})
		}
	}
	add("the state directory, with the signing key", state)
	if c.Server.StateDir != state {
		add("the state directory of the server, with its signing key", c.Server.StateDir)
	}
	add("the directory of the embedded forge, with its tokens", c.Forges.Local.Dir)
	for _, s := range secretsOf(c) {
		add("the file of the secret "+s.name, getenv(s.name+"_FILE"))
	}
	return list
}

// shows reports whether a mount shows a file or directory, or a part of it.
func shows(m config.Mount, path string) bool {
	hidden, err := filepath.Abs(path) // by $PWD, which may itself lead through links
	if err == nil {
		hidden, err = resolved(hidden)
	}
	if path == "" || err != nil {
		return false // it is a variable, or can't be found
	}
	dir, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return false // the check builder says so
	}
	return within(dir, hidden) || within(hidden, dir)
}

// resolved is a path without links, also of what isn't there yet.
func resolved(path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return found, err
	}
	parent, err := resolved(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// MountsOf are the mounts of a configuration by their keys.
func MountsOf(c config.Config) map[string][]config.Mount {
	lists := map[string][]config.Mount{"checks.ro": c.Checks.RO}
	for name, b := range c.Builders {
		lists["builders."+name+".ro"] = b.RO
	}
	return lists
}

// ShownBy is the key of the list by one of whose mounts a sandbox has a file; "" where none has.
func ShownBy(lists map[string][]config.Mount, path string) string {
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		if slices.ContainsFunc(lists[key], func(m config.Mount) bool { return shows(m, path) }) {
			return key
		}
	}
	return ""
}

// maxLooked is how many files and directories are looked at below all mounts: those of a
// few toolchains, in about a second.
const maxLooked = 200_000

// Mounts looks through what sandboxes are shown for what a path doesn't tell: another
// name (hard link) of a file that no sandbox may have, and sockets, which can be connected
// to although they are shown read-only.
func Mounts(ctx context.Context, c config.Config, getenv func(string) string, each func(Check)) []Check {
	return mounts(ctx, c, getenv, each, maxLooked)
}

func mounts(ctx context.Context, c config.Config, getenv func(string) string, each func(Check), most int) []Check {
	r := &runner{each: each}
	lists, hidden, looked := MountsOf(c), identities(HiddenFrom(c, c.Server.StateDir, getenv)), map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		for _, m := range lists[key] {
			if looked[m.Source] {
				continue // several builders have it
			}
			looked[m.Source] = true
			r.subject = m.Source
			r.add(NameMounts, mounted(ctx, c, key, m, hidden, &most))
		}
	}
	if r.subject = ""; len(looked) == 0 {
		r.skip("Sandboxes are shown nothing but the system.", NameMounts)
	}
	return r.done
}

// identity is a file, whatever its names are.
type identity struct{ device, number uint64 }

func identityOf(info fs.FileInfo) (id identity, names uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{st.Dev, st.Ino}, uint64(st.Nlink) //nolint:unconvert // it is narrower on arm64
	}
	return identity{}, 0
}

// identities are the hidden files, and those right in the hidden directories.
func identities(list []Hidden) map[identity]string {
	out := map[identity]string{}
	for _, h := range list {
		paths := []string{h.Path}
		entries, _ := os.ReadDir(h.Path) // of a file there are none; who may not read says so elsewhere
		for _, e := range entries {
			paths = append(paths, filepath.Join(h.Path, e.Name()))
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				id, _ := identityOf(info)
				out[id] = path
			}
		}
	}
	return out
}

const mountLess = "Mount only what the program needs."

// mounted looks at one mount. left is how many files may still be looked at.
func mounted(ctx context.Context, c config.Config, key string, m config.Mount, hidden map[identity]string, left *int) result {
	if shows(m, c.Forges.Local.Dir) {
		return bad(mountLess, "%s shows the directory of the embedded forge, with its tokens.", key)
	}
	root, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return bad("Make it, or take it out.", "%s: it isn't there.", key)
	}
	var link, socket string
	cut := errors.New("more than is looked at")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if *left--; *left < 0 || ctx.Err() != nil {
			return cut
		}
		switch {
		case err != nil: // the account that looks may not read it, and so may no sandbox
		case d.Type()&fs.ModeSocket != 0:
			socket = path
		case d.Type().IsRegular():
			if info, err := d.Info(); err == nil {
				if id, names := identityOf(info); names > 1 && hidden[id] != "" {
					link = path + " is another name of " + hidden[id]
					return fs.SkipAll
				}
			}
		}
		return nil //nolint:nilerr // what can't be read is passed over
	})
	switch {
	case link != "":
		return bad("Remove that hard link, and replace the secret if somebody else can have read it.", "%s: %s.", key, link)
	case socket != "":
		return warn("Mount directories without sockets. Whoever listens there does what a builder or a check asks for: with an ssh-agent or a container engine that is far more than a sandbox may.",
			"%s shows the socket %s, and read-only keeps nobody from connecting to it.", key, socket)
	case errors.Is(err, cut):
		return warn(mountLess+" A longer --time is of use only where the disk is slow.", "%s: too much is below it: only a part was looked through for sockets and other names of secret files.", key)
	}
	return ok("%s: no socket and no other name of a secret file is below it.", key)
}
