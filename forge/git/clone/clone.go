// Package clone is somebody's clone, as the branch runner works in it: its working
// trees, its remotes, and what only the git program knows of it (configuration,
// credential helpers, who commits). Objects and refs are package git's; this one
// adds what needs a checkout, and knows no states or leases.
//
// A working tree is made for one run and removed after it. It is linked to the
// clone as git worktree does, but appears at once and whole: `git worktree add` of
// many at a time trips over the half-made ones of its neighbours. A file lock says
// that its run is alive, so that what a killed process leaves is found and removed.
package clone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/internal/process"
)

// Clone is an open clone.
type Clone struct {
	Repo *git.Repo
	// Top is the working tree that was found, or the bare repository itself.
	Top string
	// Own is the git directory of that working tree, Common that of the repository.
	Own, Common string
}

// Open finds the clone that dir lies in, as git does: there, or in a directory
// above it.
func Open(ctx context.Context, dir string) (*Clone, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, &git.Error{Code: git.CodeLocal, Msg: "the directory can't be found", Remedy: "check the path", Err: err}
	}
	for at := dir; ; at = filepath.Dir(at) {
		if isRepository(at) {
			repo, err := git.Open(ctx, git.Endpoint{URL: at}, git.Options{})
			if err != nil {
				return nil, err
			}
			c := &Clone{Repo: repo, Top: at}
			c.Own, c.Common = repo.Dirs()
			return c, nil
		}
		if at == filepath.Dir(at) {
			return nil, &git.Error{Code: git.CodeNotFound, Msg: "there is no git repository at " + dir + " or above it",
				Remedy: "go into a clone; git clone or git init makes one"}
		}
	}
}

// isRepository tells a working tree and a bare repository from a directory that
// happens to hold a file called HEAD.
func isRepository(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return true
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// Close releases what was opened.
func (c *Clone) Close() error { return c.Repo.Close() }

// Bare reports whether the clone was found by its git directory: there is no
// working tree around it.
func (c *Clone) Bare() bool { return c.Top == c.Own }

// State is the directory below the git directory in which writ keeps what is of
// this clone. It is made where it isn't there.
func (c *Clone) State() (string, error) {
	dir := filepath.Join(c.Common, "writ")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", &git.Error{Code: git.CodeLocal, Msg: "the directory " + dir + " can't be made", Remedy: "check its permissions", Err: err}
	}
	return dir, nil
}

// git runs the git program in a directory of this clone.
func (c *Clone) git(ctx context.Context, dir string, extra, env []string, stdin string, args ...string) (string, error) {
	out, err := c.raw(ctx, dir, extra, env, stdin, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// raw is git with every byte of the output.
func (c *Clone) raw(ctx context.Context, dir string, extra, env []string, stdin string, args ...string) ([]byte, error) {
	args = append(append([]string{"-C", dir}, extra...), args...)
	out, err := process.Run(ctx, process.Command{Args: args, Env: env, Stdin: strings.NewReader(stdin)})
	if err != nil {
		return nil, &git.Error{Code: git.CodeLocal, Msg: "git " + strings.Join(args[2+len(extra):], " ") + " fails: " + string(out),
			Remedy: "try it by hand", Err: err}
	}
	return out, nil
}

// PushURL returns where a remote is pushed to, as the configuration rewrites it.
func (c *Clone) PushURL(ctx context.Context, name string) (string, error) {
	if strings.HasPrefix(name, "-") || git.ValidateRef("refs/remotes/"+name) != nil {
		return "", &git.Error{Code: git.CodeURLInvalid, Msg: "this can't be a remote's name", Remedy: "git remote lists those of the clone"}
	}
	url, err := c.git(ctx, c.Top, nil, nil, "", "remote", "get-url", "--push", "--", name)
	if err != nil {
		return "", &git.Error{Code: git.CodeURLInvalid, Msg: "the clone has no remote " + name, Remedy: "git remote lists those of the clone", Err: err}
	}
	return c.absolute(url), nil
}

// absolute is a URL as it stands, or a path from the top of the clone.
func (c *Clone) absolute(url string) string {
	switch {
	case filepath.IsAbs(url):
		return filepath.Clean(url)
	case !strings.Contains(url, ":"):
		return filepath.Join(c.Top, url)
	}
	return url
}

// credentialVariables hand git's prompting programs and its ssh on, which this
// package otherwise leaves out of git's environment.
var credentialVariables = []string{"GIT_ASKPASS", "SSH_ASKPASS", "SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "DISPLAY",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM"}

// caller is what git is told of the caller's environment where it acts for him.
func caller(names ...string) []string {
	var env []string
	for _, name := range append(names, credentialVariables...) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Credential asks git's credential helpers for what they have for a URL, as git
// itself would. Nobody is prompted. Without an answer access is anonymous.
func (c *Clone) Credential(ctx context.Context, url string) git.Auth {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") || strings.ContainsAny(url, "\n\x00") {
		return git.Auth{}
	}
	out, err := c.git(ctx, c.Top, nil, caller(), "url="+url+"\n\n", "credential", "fill")
	if err != nil {
		return git.Auth{}
	}
	var a git.Auth
	for line := range strings.Lines(out) {
		switch key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "="); key {
		case "username":
			a.Username = value
		case "password":
			a.Password = value
		}
	}
	if a.Password == "" {
		return git.Auth{}
	}
	return a
}

// Person is who commits here, as the caller's environment and configuration say.
// Where they say nothing it is the machine.
func (c *Clone) Person(ctx context.Context, host string) git.Person {
	out, err := c.git(ctx, c.Top, nil, caller("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"), "", "var", "GIT_COMMITTER_IDENT")
	name, rest, ok := strings.Cut(out, " <")
	email, _, ok2 := strings.Cut(rest, ">")
	if err != nil || !ok || !ok2 || name == "" {
		return git.Person{Name: "writ", Email: "writ@" + host}
	}
	return git.Person{Name: name, Email: email}
}

// Fetch brings a commit of a remote, with all that it reaches, into the clone. No
// ref and no FETCH_HEAD is written.
func (c *Clone) Fetch(ctx context.Context, remote string, oid git.OID) error {
	_, err := c.git(ctx, c.Top, []string{"-c", "gc.auto=0", "-c", "maintenance.auto=false"}, caller(), "",
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", "--end-of-options", remote, string(oid))
	if err == nil {
		return nil
	}
	return &git.Error{Code: git.CodeUnreachable, Msg: git.Reason(err), Remedy: "try git fetch by hand", Err: err}
}

// Has reports whether the clone has a commit and the root of its files. Where git has
// these it has all that they reach, but in a partial clone, which fetches the rest.
func (c *Clone) Has(ctx context.Context, oid git.OID) bool {
	_, err := c.Repo.Subtree(ctx, oid, "")
	return err == nil
}

// PackSince packs what tip reaches and base doesn't.
func (c *Clone) PackSince(ctx context.Context, tip, base git.OID) (git.Pack, error) {
	out, err := c.raw(ctx, c.Top, nil, nil, string(tip)+"\n^"+string(base)+"\n", "pack-objects", "--quiet", "--revs", "--stdout", "--delta-base-offset")
	return git.Pack{Data: out}, err
}

// Reaches reports whether tip is base, or comes from it.
func (c *Clone) Reaches(ctx context.Context, tip, base git.OID) bool {
	if tip == base {
		return true
	}
	_, err := c.git(ctx, c.Top, nil, nil, "", "merge-base", "--is-ancestor", string(base), string(tip))
	return err == nil
}

// IndexTree writes what is staged in the working tree as a tree, as git commit
// would.
func (c *Clone) IndexTree(ctx context.Context) (git.OID, error) {
	out, err := c.git(ctx, c.Top, nil, nil, "", "write-tree")
	return git.OID(out), err
}

// DefaultBranch is the branch that others begin from: what origin calls its HEAD,
// or else main, or else master. "" where there is none of them.
func (c *Clone) DefaultBranch(ctx context.Context) (string, error) {
	refs, err := c.Repo.Refs(ctx, "refs/heads/")
	if err != nil {
		return "", err
	}
	names := []string{"refs/heads/main", "refs/heads/master"}
	text, err := os.ReadFile(filepath.Join(c.Common, "refs", "remotes", "origin", "HEAD"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the remote's HEAD can't be read: %w", err)
	}
	if target, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: refs/remotes/origin/"); ok {
		names = append([]string{"refs/heads/" + target}, names...)
	}
	for _, name := range names {
		if !refs.OID(name).IsZero() {
			return name, nil
		}
	}
	return "", nil
}
