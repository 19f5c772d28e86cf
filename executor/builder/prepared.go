package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// infoFile lies beside the tree of a layer that was prepared; no program sees it.
const infoFile = "prepared.json"

// layerInfo tells of a layer that was prepared.
type layerInfo struct {
	World   string       `json:"world"`
	Steps   []string     `json:"steps"`
	Made    int64        `json:"made"`    // Unix milliseconds
	Home    []string     `json:"home"`    // directories of the home directory
	Work    []string     `json:"work"`    // of the workspace
	Content canon.Digest `json:"content"` // see contentOf
}

func (i layerInfo) write(dir string) error {
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, infoFile), data, 0o600)
}

func readInfo(dir string) (i layerInfo, err error) {
	data, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err == nil {
		err = json.Unmarshal(data, &i)
	}
	return i, err
}

// isPrepared reports what a directory has that was not prepared, by its hash.
func isPrepared(ctx context.Context, dir string) error {
	info, err := readInfo(filepath.Dir(dir))
	if err != nil {
		return err
	}
	content, err := contentOf(ctx, dir)
	if err == nil && content != info.Content {
		err = fmt.Errorf("its files have the hash %s, not %s", content, info.Content)
	}
	return err
}

// contentOf is the hash of a tree: of each path with its kind and its bytes, the entries of
// a directory behind it, by name.
func contentOf(ctx context.Context, dir string) (canon.Digest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	all := sha256.New()
	add := func(name string, info fs.FileInfo, what []byte) {
		fmt.Fprintf(all, "%s %d %q %x\n", info.Mode(), len(name), name, what)
	}
	top, err := root.Lstat(".")
	if err != nil {
		return "", errors.Join(err, root.Close())
	}
	add(".", top, nil)
	err = eachEntry(ctx, root, "", func(root *os.Root, rel string, info fs.FileInfo) (*os.Root, error) {
		var what []byte
		var err error
		switch {
		case info.IsDir():
			add(rel, info, nil)
			return root.OpenRoot(info.Name())
		case info.Mode().Type() == fs.ModeSymlink:
			var to string
			to, err = root.Readlink(info.Name())
			what = []byte(to)
		case info.Mode().IsRegular():
			what, err = hashOf(root, info.Name())
		}
		add(rel, info, what)
		return nil, err
	})
	return canon.Digest("sha256:" + hex.EncodeToString(all.Sum(nil))), err
}

// eachEntry goes through a directory and what is below it, by name, and closes it. visit is
// told of each entry and the directory that it is in, so that no path is longer than a name,
// and gives the directory to go into.
func eachEntry(ctx context.Context, root *os.Root, at string, visit func(root *os.Root, rel string, info fs.FileInfo) (*os.Root, error)) error {
	defer root.Close()
	list, err := fs.ReadDir(root.FS(), ".")
	for _, e := range list {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		info, err := root.Lstat(e.Name())
		if err != nil {
			return err
		}
		below, err := visit(root, path.Join(at, e.Name()), info)
		if err == nil && below != nil {
			err = eachEntry(ctx, below, path.Join(at, e.Name()), visit)
		}
		if err != nil {
			return err
		}
	}
	return err
}

func hashOf(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}

const (
	// maxPrepared bounds the files of a layer, and maxPreparedDepth how deep they lie: a
	// large tree of modules has a tenth of it.
	maxPrepared      = 1_000_000
	maxPreparedDepth = 128
)

// errUnfit is what is left that no layer can have.
var errUnfit = errors.New("it can't be laid out again")

// copyTree copies what is below a directory that nobody writes to any more into another
// one: files, directories and links, with the modes that git knows and the times that they
// have. Names of one file become files of their own; what else there is, sockets and pipes,
// is left out. It follows no link. room is asked before each file.
func copyTree(ctx context.Context, from, to string, room func(size int64) error) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return unreadable(err, filepath.Base(from))
	}
	dst, err := os.OpenRoot(to)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	c := &copier{room: room}
	return c.copy(ctx, src, dst, 0)
}

type copier struct {
	room func(size int64) error
	n    int
}

// copy copies one directory into another, and closes both.
func (c *copier) copy(ctx context.Context, src, dst *os.Root, depth int) error {
	defer src.Close()
	defer dst.Close()
	list, err := fs.ReadDir(src.FS(), ".")
	if err != nil {
		return unreadable(err, filepath.Base(src.Name()))
	}
	for _, e := range list {
		if c.n++; c.n > maxPrepared || depth > maxPreparedDepth {
			return fmt.Errorf("%w: it has more than %d files, or lies deeper than %d directories", errUnfit, maxPrepared, maxPreparedDepth)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(ctx, src, dst, e.Name(), depth); err != nil {
			return err
		}
	}
	return nil
}

// unreadable is the fault of whoever gave something a mode with which it can't be read: no
// host failed.
func unreadable(err error, name string) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the mode of %q does not let it be read", errUnfit, name)
	}
	return err
}

func (c *copier) entry(ctx context.Context, src, dst *os.Root, name string, depth int) error {
	info, err := src.Lstat(name)
	if err != nil {
		return unreadable(err, name)
	}
	switch {
	case info.IsDir():
		if err := dst.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		from, err := src.OpenRoot(name)
		if err != nil {
			return unreadable(err, name)
		}
		to, err := dst.OpenRoot(name)
		if err == nil {
			err = dst.Chmod(name, 0o755)
		}
		if err != nil {
			return errors.Join(err, from.Close())
		}
		return c.copy(ctx, from, to, depth+1)
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := src.Readlink(name)
		if err != nil {
			return err
		}
		return dst.Symlink(target, name)
	case !info.Mode().IsRegular():
		return nil
	}
	if err := c.room(info.Size()); err != nil {
		return err
	}
	return copyFile(src, dst, name, info)
}

func copyFile(src, dst *os.Root, name string, info fs.FileInfo) error {
	in, err := src.Open(name)
	if err != nil {
		return unreadable(err, name)
	}
	defer in.Close()
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := dst.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // shares the blocks where the file system can
	return errors.Join(err, out.Chmod(mode), out.Close(), dst.Chtimes(name, info.ModTime(), info.ModTime()))
}

// prepareKey is all that the result of a stage follows from.
type prepareKey struct {
	Kind    string        `json:"kind"` // "prepare_key"
	V       int64         `json:"v"`
	World   string        `json:"world"`
	Sandbox string        `json:"sandbox"`
	Host    canon.Digest  `json:"host"` // see hostState
	Env     []string      `json:"env"`
	Steps   []kernel.Step `json:"steps"`
	Files   []string      `json:"files"` // mode, id and path of the key files
	Base    string        `json:"base"`  // name of the whole tree, for those that see it
	Below   canon.Digest  `json:"below"`
}

// name gives the stages their keys.
func (p *preparation) name() error {
	list := entries(p.base.base.Files)
	if p.change != nil {
		list = p.change.after
	}
	for _, s := range p.stages {
		k := prepareKey{
			Kind: "prepare_key", V: 1, World: p.world, Sandbox: p.l.cfg.Sandbox.Name(), Host: p.hostState(),
			Env: environment(p.l.cfg.Checks.Env, nil), Steps: s.steps, Files: []string{},
		}
		if s.below != nil {
			k.Below = s.below.key
		}
		if s.whole {
			k.Base = p.base.tree()
		}
		for _, e := range p.keyFiles(list) {
			k.Files = append(k.Files, e.Mode+" "+e.OID+" "+e.Path)
		}
		var err error
		if s.key, err = canon.Hash(k); err != nil {
			return err
		}
	}
	return nil
}

// hostState is what of the host the steps see: which system it is, which packages it has,
// and what the operator mounts.
func (p *preparation) hostState() canon.Digest {
	var text []byte
	seen := []string{"/var/lib/dpkg/status", "/lib/apk/db/installed", "/var/lib/rpm/rpmdb.sqlite", "/usr/local", "/usr/local/bin", "/usr/local/go/VERSION"}
	for _, m := range p.l.cfg.Checks.ReadOnly {
		seen = append(seen, m.Source)
		text = fmt.Appendf(text, "%s %s\n", m.Source, m.Target)
	}
	release, _ := os.ReadFile("/etc/os-release") // a host without it has no name
	text = append(text, release...)
	for _, at := range seen {
		if info, err := os.Stat(at); err == nil {
			text = fmt.Appendf(text, "%s %d %d\n", at, info.Size(), info.ModTime().UnixNano())
		}
	}
	return canon.Sum(text)
}

// forget removes a directory that holds nothing of a run.
func (s *stock) forget(dir string) {
	s.remove(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, dir)
}

// downloads are the commands that read manifests and run nothing of what they name, given
// what held sets, with the options that don't change that.
var downloads = []struct{ argv, options []string }{
	{[]string{"go", "mod", "download"}, []string{"-x", "-json"}},
	{[]string{"npm", "ci"}, []string{"--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--prefer-offline"}},
}

// manifests are the files that they read.
var manifests = []string{"go.mod", "go.sum", "go.work", "go.work.sum", "package.json", "package-lock.json", "npm-shrinkwrap.json"}

// onlyDownloads reports whether a step with a network is such a command.
func onlyDownloads(argv []string) bool {
	for _, d := range downloads {
		if n := len(d.argv); len(argv) >= n && slices.Equal(argv[:n], d.argv) {
			return !slices.ContainsFunc(argv[n:], func(a string) bool { return !slices.Contains(d.options, a) })
		}
	}
	return false
}

// refused says why a change of key files can't be prepared for: a step with a network
// would see what the change holds, and nothing says that it runs none of it.
func (p *preparation) refused() error {
	v := kernel.Violation{Code: kernel.CodePrepareRefused}
	for _, s := range p.stages {
		for _, step := range s.steps {
			if len(step.Hosts) == 0 {
				continue
			}
			if v.Subject = step.Name; !onlyDownloads(step.Argv) {
				v.Detail = fmt.Sprintf("The change touches %s, and nothing says that `%s`, which has a network, runs nothing of what that names.", p.change.list[0].Path, strings.Join(step.Argv, " "))
				return unprepared(v, "")
			}
			for _, ch := range p.change.list {
				if name := ch.Path[strings.LastIndexByte(ch.Path, '/')+1:]; !slices.Contains(manifests, name) {
					v.Subject, v.Detail = ch.Path, fmt.Sprintf("The step %s has a network and would see this file of the change, which is no manifest or lock file that writ knows.", step.Name)
					return unprepared(v, "")
				}
			}
		}
	}
	return nil
}
