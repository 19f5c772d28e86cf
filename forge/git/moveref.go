package git

import (
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writbot/writ/forge/git/internal/process"
)

// MoveRef moves one ref of a repository on disk by compare-and-swap, as git
// update-ref does, after objs are in its store; nil is none. The answers are those
// of [Repo.CompareAndSwap]. A push that goes to a repository with working trees is
// refused for a branch that one of them has checked out; this is for who works in
// that repository, and leaves files and index as they are. note goes into the
// reflog.
//
// There is no unknown answer: whatever becomes of the process, the refs tell.
func (r *Repo) MoveRef(ctx context.Context, c Command, objs *Objects, note string) Outcome {
	cmds := []Command{c}
	if err := checkCommands(cmds); err != nil {
		return Outcome{Status: Refused, Err: err}
	}
	if cmds[0].Old == cmds[0].New {
		return r.lost(cmds, "the ref is to be moved to where it is already")
	}
	if err := r.Store(objs); err != nil {
		return Outcome{Status: Unable, Err: err}
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	c = cmds[0]
	said, err := r.program(ctx, "update-ref", "-m", note, "--no-deref", "--", c.Ref, string(c.New), string(c.Old))
	if err == nil {
		return Outcome{Status: Won, PerRef: []RefStatus{{c.Ref, Won, ""}}}
	}
	out := Outcome{Reason: r.clean.clean(said), PerRef: []RefStatus{{c.Ref, Unable, ""}}}
	refs, err := r.Refs(context.WithoutCancel(ctx), c.Ref)
	switch {
	case err != nil:
		return Outcome{Status: Unknown, Reason: out.Reason, Err: err}
	case refs.OID(c.Ref) == c.New:
		return wonAlready(cmds) // the process was ended behind its work
	case refs.OID(c.Ref) != c.Old:
		out.Status = Lost
	default:
		// It is where it was, so nobody was first: a rule, or a lock that somebody
		// holds or left, or the disk.
		if out.Status = Unable; read(out.Reason).status == Refused {
			out.Status = Refused
		}
	}
	return finishOutcome(out)
}

// program runs git on a repository on disk, as the working tree that was opened
// knows it, and returns what it said where it failed.
func (r *Repo) program(ctx context.Context, args ...string) (said string, err error) {
	git := ""
	if t, ok := r.tr.(*processTransport); ok {
		git = t.git
	}
	out, err := process.Run(ctx, process.Command{Git: git, Args: append([]string{"--git-dir=" + r.local.dir}, args...)})
	return string(out), err
}

// Store writes objects into a repository on disk, for nobody but who knows their
// ids: no ref moves.
func (r *Repo) Store(objs *Objects) error {
	if r.local == nil {
		return fail(CodeUnsupported, "the repository is not on this disk", "", nil)
	}
	if err := r.local.writeLoose(objs); err != nil {
		return fail(CodeLocal, "an object can't be written", "check disk and permissions", err)
	}
	return nil
}

// writeLoose puts objects into the store, each durable under its name before any
// ref can name it.
func (l *local) writeLoose(objs *Objects) error {
	if objs == nil {
		return nil
	}
	for _, o := range objs.list {
		if err := writeLooseObject(l.store.dirs[0], o); err != nil {
			return err
		}
	}
	return nil
}

func writeLooseObject(dir string, o rawObject) (err error) {
	name := filepath.Join(dir, string(o.oid[:2]), string(o.oid[2:]))
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	// As wide as the store is: a shared repository's group writes there, too.
	if err := os.Mkdir(filepath.Dir(name), info.Mode().Perm()); err == nil {
		err = os.Chmod(filepath.Dir(name), info.Mode().Perm()|info.Mode()&os.ModeSetgid)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "tmp_obj_*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // a renamed one is gone
	z, _ := zlib.NewWriterLevel(f, zlib.BestSpeed)
	_, err = fmt.Fprintf(z, "%s %d\x00", o.kind, len(o.data))
	if err == nil {
		_, err = z.Write(o.data)
	}
	const readable = 0o444 // as git leaves its objects
	err = errors.Join(err, z.Close(), f.Chmod(readable), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// Subtree reads what a commit has below one directory, at its root: entries by
// their path from there. A commit without that directory has none. Nothing beside
// it is read, however large the tree is. Only for a repository on disk.
func (r *Repo) Subtree(ctx context.Context, commit OID, dir string) (Tree, error) {
	c, err := r.Commit(ctx, commit)
	if c.Tree == "" {
		return Tree{}, err
	}
	root, err := r.object(ctx, c.Tree, want{oids: []OID{c.Tree}})
	if err != nil {
		return Tree{}, err
	}
	if root.kind != objTree {
		return Tree{}, wrongType(c.Tree, "tree")
	}
	entries, err := parseTree(root.data)
	if err != nil {
		return Tree{}, err
	}
	for _, e := range entries {
		if e.Path == dir && e.Mode == ModeTree {
			return r.Tree(ctx, e.OID)
		}
	}
	return Tree{}, nil
}

// Dirs are the git directory of the working tree that was opened, and the one that
// all working trees of the repository share: the same for the first of them. Both
// are empty for a repository that isn't on this disk.
func (r *Repo) Dirs() (own, common string) {
	if r.local == nil {
		return "", ""
	}
	return r.local.dir, r.local.common
}
