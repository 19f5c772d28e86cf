package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// RepoSpec says what repository to make.
type RepoSpec struct {
	Owner, Name string
	Branch      string // the default branch; "": main
	Private     bool
	Fork        bool
	// Files are the first commit, by path; none: the repository stays empty.
	Files  map[string][]byte
	Author forge.User // of the first commit
}

// repoRow is a repository as the database has it.
type repoRow struct {
	forge.Repository
	lastItem int64
}

const repoColumns = `id, owner, name, branch, private, archived, fork, last_item`

func (x *session) scanRepo(scan func(...any) error) (r repoRow, err error) {
	err = scan(&r.ID, &r.Owner, &r.Name, &r.DefaultBranch, &r.Private, &r.Archived, &r.Fork, &r.lastItem)
	r.URL = x.s.url + "/" + r.Repo.String()
	return r, err
}

func (x *session) repo(id int64) (repoRow, error) {
	row := x.tx.QueryRowContext(x.ctx, `SELECT `+repoColumns+` FROM repos WHERE id = ?`, id)
	r, err := x.scanRepo(row.Scan)
	return r, noRows(err, "the repository %d", id)
}

func (x *session) repoNamed(owner, name string) (repoRow, error) {
	row := x.tx.QueryRowContext(x.ctx, `SELECT `+repoColumns+` FROM repos WHERE owner = ? AND name = ?`, owner, name)
	r, err := x.scanRepo(row.Scan)
	return r, noRows(err, "the repository %s/%s", owner, name)
}

// CreateRepo makes a repository.
func (s *Store) CreateRepo(ctx context.Context, spec RepoSpec) (made forge.Repository, err error) {
	spec.Branch = cmp.Or(spec.Branch, "main")
	err = s.update(ctx, fmt.Sprintf("create the repository %s/%s", spec.Owner, spec.Name), func(x *session) error {
		if err := errors.Join(checkName("the owner", spec.Owner), checkName("the repository", spec.Name)); err != nil {
			return err
		}
		if err := git.ValidateRef("refs/heads/" + spec.Branch); err != nil {
			return refuse(forge.Invalid, "the default branch: %w", err)
		}
		if _, err := x.repoNamed(spec.Owner, spec.Name); err == nil {
			return refuse(forge.Conflict, "%s/%s is there already", spec.Owner, spec.Name)
		}
		var id int64
		err := x.one(to(&id), `INSERT INTO repos (owner, name, branch, private, archived, fork, last_item, uid)
			VALUES (?, ?, ?, ?, 0, ?, 0, lower(hex(randomblob(8)))) RETURNING id`, spec.Owner, spec.Name, spec.Branch, spec.Private, spec.Fork)
		if err != nil {
			return err
		}
		// The number may be one that a transaction which failed had used before.
		if err := os.RemoveAll(s.GitDir(id)); err != nil {
			return err
		}
		if err := initBare(s.GitDir(id), spec.Branch); err != nil {
			return err
		}
		world, err := x.world(id)
		if err != nil {
			return err
		}
		if err := git.SetIdentity(s.GitDir(id), world); err != nil {
			return err
		}
		r, err := x.repo(id)
		made = r.Repository
		return err
	})
	if err != nil || len(spec.Files) == 0 {
		return made, err
	}
	return made, s.firstCommit(ctx, made, spec)
}

// firstCommit fills an empty repository.
func (s *Store) firstCommit(ctx context.Context, r forge.Repository, spec RepoSpec) error {
	m, err := s.merger(ctx, r.ID, spec.Author)
	if err != nil {
		return err
	}
	objects := git.NewObjects()
	var entries []git.Entry
	for path, data := range spec.Files {
		entries = append(entries, git.Entry{Path: path, Mode: git.ModeFile, OID: objects.Blob(data)})
	}
	tree, err := objects.Tree(entries)
	if err != nil {
		return err
	}
	oid, err := objects.Commit(git.CommitSpec{Tree: tree, Author: m.who, Committer: m.who, Message: []byte("First commit\n")}, nil)
	if err != nil {
		return err
	}
	ref := "refs/heads/" + r.DefaultBranch
	if out := m.repo.CompareAndSwap(ctx, []git.Command{{Ref: ref, Old: git.ZeroOID, New: oid}}, objects.Pack()); out.Status != git.Won {
		return fmt.Errorf("the first commit of %s: %s %w", r.Repo, out.Status, out.Err)
	}
	return s.Received(ctx, r.ID, spec.Author, []RefUpdate{{ref, git.ZeroOID, oid}})
}

// World is the identity of a repository: which forge this is, and which of its
// repositories, both random. Names change hands, and a forge that is made anew
// gives the same numbers again; this stays with the one repository.
func (s *Store) World(ctx context.Context, repo int64) (world string, err error) {
	err = s.view(ctx, "look up the repository", func(x *session) error {
		world, err = x.world(repo)
		return err
	})
	return world, err
}

func (x *session) world(repo int64) (string, error) {
	var forgeID, uid string
	err := x.one(to(&forgeID, &uid), `SELECT forge.id, repos.uid FROM forge, repos WHERE repos.id = ?`, repo)
	return identityPrefix + forgeID + "#" + uid, noRows(err, "the repository %d", repo)
}

// identityPrefix is what the identity of each embedded forge begins with.
const identityPrefix = "local-"

// Identity is which forge this is, and what the identities of its repositories
// begin with.
func (s *Store) Identity(ctx context.Context) (identity string, err error) {
	err = s.view(ctx, "look up the forge", func(x *session) error {
		return x.one(to(&identity), `SELECT id FROM forge`)
	})
	return identityPrefix + identity, err
}

// GitDir is where the bare repository lies.
func (s *Store) GitDir(repo int64) string {
	return filepath.Join(s.dir, "repos", strconv.FormatInt(repo, 10)+".git")
}

// bareConfig makes a repository that can be pushed to over HTTP and read with
// filters, and in which no process goes on after a push has been answered.
const bareConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	fsync = committed,loose-object
[http]
	receivepack = true
[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
[receive]
	autogc = false
[gc]
	auto = 0
`

// initBare makes an empty bare repository, without a process and without hooks.
func initBare(dir, branch string) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, d), directoryMode); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/" + branch + "\n", "config": bareConfig} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), fileMode); err != nil {
			return err
		}
	}
	return nil
}

// Repositories lists them, by owner and name, as an administrator sees them.
func (s *Store) Repositories(ctx context.Context) (all []forge.Repository, err error) {
	err = s.view(ctx, "list repositories", func(x *session) error {
		return x.each(func(scan func(...any) error) error {
			r, err := x.scanRepo(scan)
			all = append(all, r.Repository)
			return err
		}, `SELECT `+repoColumns+` FROM repos ORDER BY owner, name`)
	})
	return all, err
}

// RenameRepo gives a repository another owner and name. Its id stays.
func (s *Store) RenameRepo(ctx context.Context, id int64, owner, name string) error {
	return s.update(ctx, fmt.Sprintf("rename the repository %d", id), func(x *session) error {
		if err := errors.Join(checkName("the owner", owner), checkName("the repository", name)); err != nil {
			return err
		}
		if other, err := x.repoNamed(owner, name); err == nil && other.ID != id {
			return refuse(forge.Conflict, "%s/%s is there already", owner, name)
		}
		n, err := x.exec(`UPDATE repos SET owner = ?, name = ? WHERE id = ?`, owner, name, id)
		return oneRow(n, err, "the repository %d", id)
	})
}

// oneRow turns an update of nothing into NotFound.
func oneRow(n int64, err error, format string, args ...any) error {
	if err == nil && n == 0 {
		return refuse(forge.NotFound, format+" is not there", args...)
	}
	return err
}

// SetArchived makes a repository read-only, or writable again.
func (s *Store) SetArchived(ctx context.Context, id int64, archived bool) error {
	return s.update(ctx, "archive", func(x *session) error {
		n, err := x.exec(`UPDATE repos SET archived = ? WHERE id = ?`, archived, id)
		return oneRow(n, err, "the repository %d", id)
	})
}

// SetPrivate hides a repository from those who have no permission in it.
func (s *Store) SetPrivate(ctx context.Context, id int64, private bool) error {
	return s.update(ctx, "make private", func(x *session) error {
		n, err := x.exec(`UPDATE repos SET private = ? WHERE id = ?`, private, id)
		return oneRow(n, err, "the repository %d", id)
	})
}

// git opens the repository on disk, once.
func (s *Store) git(repo int64) (*git.Repo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.open[repo]; r != nil {
		return r, nil
	}
	dir, err := filepath.Abs(s.GitDir(repo))
	if err != nil {
		return nil, err
	}
	r, err := git.Open(s.ended, git.Endpoint{URL: dir}, git.Options{Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.open[repo] = r
	return r, nil
}
