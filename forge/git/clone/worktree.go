package clone

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/forge/git"
)

// idPrefix begins the names of our working trees among those of a repository.
const idPrefix = "writ-"

// lockFile is held as long as the process that made a working tree is alive.
const lockFile = "writ.lock"

// Worktree is a working tree. One that was made here is removed by Remove.
type Worktree struct {
	Dir   string
	admin string   // its git directory
	lock  *os.File // nil: it is somebody's, and stays
	clone *Clone
}

// Worktree is the working tree that was opened.
func (c *Clone) Worktree() *Worktree { return &Worktree{Dir: c.Top, admin: c.Own, clone: c} }

// Add makes a working tree below parent with HEAD at a branch, or at a commit where
// branch is "", and checks the commit out.
func (c *Clone) Add(ctx context.Context, parent, name, branch string, commit git.OID) (*Worktree, error) {
	if err := makeIgnored(parent); err != nil {
		return nil, localError(parent, err)
	}
	var random [4]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, localError(parent, err)
	}
	id := idPrefix + hex.EncodeToString(random[:])
	w := &Worktree{Dir: filepath.Join(parent, name+"-"+id[len(idPrefix):]), admin: filepath.Join(c.Common, "worktrees", id), clone: c}
	head := string(commit)
	if branch != "" {
		head = "ref: " + branch
	}
	if err := w.link(head, commit); err != nil {
		_ = w.Remove() // what there is of it
		return nil, localError(w.Dir, err)
	}
	_, err := c.git(ctx, w.Dir, nil, caller(), "", "read-tree", "--reset", "-u", string(commit))
	if err != nil {
		_ = w.Remove() // it is of no use
		return nil, err
	}
	return w, nil
}

func localError(path string, err error) error {
	return &git.Error{Code: git.CodeLocal, Msg: "the working tree " + path + " can't be made: " + err.Error(), Remedy: "check disk and permissions", Err: err}
}

// makeIgnored makes the directory that working trees lie in, which hides itself
// from the one around it.
func makeIgnored(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // commands of others' tools may read it, as any checkout
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".gitignore"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // git reads it
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// link makes the directory and what ties it to the repository. The tie is made
// under another name and renamed, so that nobody sees half of it.
func (w *Worktree) link(head string, commit git.OID) error {
	if err := os.Mkdir(w.Dir, 0o755); err != nil { //nolint:gosec // see makeIgnored
		return err
	}
	temp := filepath.Join(w.clone.Common, "writ", filepath.Base(w.admin))
	if _, err := w.clone.State(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(temp, "logs"), 0o755); err != nil { //nolint:gosec // as git makes it
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a renamed one is gone
	for name, text := range map[string]string{
		"HEAD": head, "commondir": "../..", "gitdir": filepath.Join(w.Dir, ".git"),
		// git worktree prune leaves what is locked.
		"locked": "writ runs a command here",
		// A reflog that exists is written to, whatever the configuration says.
		"logs/HEAD": string(git.ZeroOID) + " " + string(commit) + " writ <writ> 0 +0000\t" + noteRunner + "checkout",
	} {
		if err := os.WriteFile(filepath.Join(temp, name), []byte(text+"\n"), 0o644); err != nil { //nolint:gosec // as git makes it
			return err
		}
	}
	var err error
	if w.lock, err = lockOf(temp); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.Dir, ".git"), []byte("gitdir: "+w.admin+"\n"), 0o644); err != nil { //nolint:gosec // as git makes it
		return err
	}
	if err := os.MkdirAll(filepath.Dir(w.admin), 0o755); err != nil { //nolint:gosec // as git makes it
		return err
	}
	return os.Rename(temp, w.admin)
}

// lockOf takes the lock of a working tree's git directory, if nobody has it.
func lockOf(admin string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(admin, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// Remove removes a working tree that was made here, with all that is in it.
func (w *Worktree) Remove() error {
	err := errors.Join(os.RemoveAll(w.Dir), os.RemoveAll(w.admin))
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
	}
	return err
}

// Sweep removes the working trees that processes left which are dead.
func (c *Clone) Sweep() error {
	entries, err := os.ReadDir(filepath.Join(c.Common, "worktrees"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		admin := filepath.Join(c.Common, "worktrees", e.Name())
		if !strings.HasPrefix(e.Name(), idPrefix) {
			continue
		}
		if _, absent := os.Lstat(filepath.Join(admin, lockFile)); absent != nil {
			continue
		}
		lock, busy := lockOf(admin)
		if busy != nil {
			continue
		}
		dot, _ := os.ReadFile(filepath.Join(admin, "gitdir")) // without it there is no more to remove than this
		w := &Worktree{Dir: admin, admin: admin, lock: lock}
		if dir := filepath.Dir(strings.TrimSpace(string(dot))); filepath.IsAbs(dir) && linksTo(dir, admin) {
			w.Dir = dir
		}
		err = errors.Join(err, w.Remove())
	}
	return err
}

// linksTo reports whether a directory is the working tree of a git directory: what
// is removed must be ours, whatever the file that names it says.
func linksTo(dir, admin string) bool {
	text, err := os.ReadFile(filepath.Join(dir, ".git"))
	return err == nil && strings.TrimSpace(string(text)) == "gitdir: "+admin
}

// CheckedOut are the branches that working trees of the repository have checked
// out, other than ours, and where.
func (c *Clone) CheckedOut() map[string]string {
	out := map[string]string{}
	note := func(admin, dir string) {
		text, _ := os.ReadFile(filepath.Join(admin, "HEAD")) // one that can't be read has nothing checked out
		if ref, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: "); ok {
			out[ref] = dir
		}
	}
	links, _ := filepath.Glob(filepath.Join(c.Common, "worktrees", "*", "gitdir")) // the pattern is valid
	for _, link := range links {
		admin := filepath.Dir(link)
		dot, err := os.ReadFile(link)
		if err == nil && !strings.HasPrefix(filepath.Base(admin), idPrefix) {
			note(admin, filepath.Dir(strings.TrimSpace(string(dot))))
		}
	}
	if filepath.Base(c.Common) == ".git" { // a bare repository's HEAD is only its default branch
		note(c.Common, filepath.Dir(c.Common))
	}
	return out
}

// Head is the commit that a working tree's HEAD leads to, and the branch it is on;
// "" for none.
func (w *Worktree) Head(ctx context.Context) (oid git.OID, branch string, err error) {
	text, err := os.ReadFile(filepath.Join(w.admin, "HEAD"))
	if err != nil {
		return "", "", &git.Error{Code: git.CodeLocal, Msg: "the working tree's HEAD can't be read", Remedy: "look at " + w.Dir, Err: err}
	}
	head := strings.TrimSpace(string(text))
	ref, onBranch := strings.CutPrefix(head, "ref: ")
	if !onBranch {
		return git.OID(head), "", nil
	}
	refs, err := w.clone.Repo.Refs(ctx, ref)
	if err != nil {
		return "", "", err
	}
	return refs.OID(ref), ref, nil
}

// noteRunner begins the reflog's notes of moves that a runner made.
const noteRunner = "writ runner: "

// Note is what the reflog says of a move of the runner's.
func Note(what string) string { return noteRunner + what }

// Left is the commit that was made, or checked out, last in this working tree by
// somebody else than a runner: what a command left there. "" where there is none.
// On a detached HEAD it is HEAD itself.
func (w *Worktree) Left(ctx context.Context) (git.OID, error) {
	oid, branch, err := w.Head(ctx)
	if err != nil || branch == "" {
		return oid, err
	}
	text, err := os.ReadFile(filepath.Join(w.admin, "logs", "HEAD"))
	if errors.Is(err, os.ErrNotExist) {
		return oid, nil // nobody keeps one here
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	who, note, _ := strings.Cut(lines[len(lines)-1], "\t")
	fields := strings.SplitN(who, " ", 3)
	if err != nil || len(fields) < 3 || strings.HasPrefix(note, noteRunner) || git.OID(fields[1]) != oid {
		return "", err
	}
	return oid, nil
}

// Committing reports whether git is at work on the working tree's index at this
// moment, as for the time of a commit.
func (w *Worktree) Committing() bool {
	_, err := os.Lstat(filepath.Join(w.admin, "index.lock"))
	return err == nil
}

// Follow moves a detached HEAD from one commit to another with the same files. It
// fails if HEAD is elsewhere by now.
func (w *Worktree) Follow(ctx context.Context, from, to git.OID, what string) error {
	_, err := w.clone.git(ctx, w.Dir, nil, nil, "", "update-ref", "-m", Note(what), "--no-deref", "HEAD", string(to), string(from))
	return err
}
