package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// fsck has git look at each object that is pushed: what clients couldn't read, or
// what would be written where it doesn't belong (.git in a tree), is not taken.
var fsck = []string{"receive.fsckObjects=true"}

// Handler serves git at /<owner>/<name>.git, /healthz and /readyz, and the page
// everywhere else. Unless
// Options.Remote says otherwise only the loopback interface is answered, and
// only under a name of it: a web site whose name leads here can't read anything.
func (s *Store) Handler() (http.Handler, error) {
	gits, err := smarthttp.New(smarthttp.Options{
		Root: filepath.Join(s.dir, "repos"), Logger: s.log,
		Authorize: s.authorizeGit, PostReceive: s.postReceive, Config: fsck,
	})
	if err != nil {
		return nil, fmt.Errorf("serve the embedded forge: %w", err)
	}
	s.maintainAll()
	page, err := s.page()
	if err != nil {
		return nil, fmt.Errorf("serve the embedded forge: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.remote && !(isLoopback(r.RemoteAddr) && isLoopback(r.Host)) {
			http.Error(w, "this forge is for the machine it runs on", http.StatusForbidden)
			return
		}
		if owner, name, rest, ok := gitPath(r.URL.Path); ok {
			s.serveGit(gits, w, r, owner, name, rest)
			return
		}
		if s.serveHealth(w, r) {
			return
		}
		page.ServeHTTP(w, r)
	}), nil
}

// maintainAll begins with a repository that the process before left to be packed.
func (s *Store) maintainAll() {
	all, err := s.Repositories(s.ended)
	if err != nil {
		return // who asks for one is told
	}
	for _, r := range all {
		s.maintain(r.ID)
	}
}

// isLoopback tells an address or host, with or without a port, of the loopback
// interface.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// gitPath splits /<owner>/<name>.git/<rest>.
func gitPath(path string) (owner, name, rest string, ok bool) {
	owner, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	name, rest, ok = strings.Cut(path, ".git/")
	return owner, name, rest, ok && !strings.Contains(name, "/")
}

// serveGit hands a request on under the repository's directory, whose name is
// its id: a rename changes nothing below.
func (s *Store) serveGit(gits http.Handler, w http.ResponseWriter, r *http.Request, owner, name, rest string) {
	var id int64 // 0 for none: who may not know that is asked for credentials all the same
	err := s.view(r.Context(), "find a repository", func(x *session) error {
		row, err := x.repoNamed(owner, name)
		id = row.ID
		return ignoreMissing(err)
	})
	if err != nil {
		s.log.Error("a git request failed", "error", err)
		http.Error(w, "the forge can't read its database", http.StatusInternalServerError)
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path = fmt.Sprintf("/%d.git/%s", id, rest)
	inner.URL.RawPath = ""
	gits.ServeHTTP(w, inner)
}

func repoOfDir(dir string) int64 {
	id, _ := strconv.ParseInt(strings.TrimSuffix(dir, ".git"), 10, 64) // 0 for what was never made
	return id
}

// authorizeGit says who asks and whether he may. Everybody may read a public
// repository; pushing needs write.
func (s *Store) authorizeGit(r *http.Request, dir string, write bool) (string, error) {
	user, known, err := s.Requester(r)
	if forge.IsReason(err, forge.Unauthorized) {
		return "", smarthttp.ErrUnauthenticated
	}
	if err != nil {
		return "", err
	}
	need := forge.Read
	if write {
		need = forge.Write
	}
	err = s.As(user).in(r.Context(), forge.Repo{ID: repoOfDir(dir)}, purpose{need, false, "git"}, func(_ *session, in scope) error {
		if write && in.Archived {
			return refuse(forge.Forbidden, "%s is archived", in.Repo)
		}
		return nil
	})
	switch {
	case err == nil:
		return strconv.FormatInt(user.ID, 10), nil
	case !known && (forge.IsReason(err, forge.NotFound) || forge.IsReason(err, forge.Forbidden)):
		return "", smarthttp.ErrUnauthenticated
	case forge.IsReason(err, forge.NotFound):
		return "", smarthttp.ErrNotFound
	case forge.IsReason(err, forge.Forbidden):
		return "", smarthttp.ErrForbidden
	}
	return "", err
}

// postReceive tells of a push that git has done. What can't be told now is told
// at the next start.
func (s *Store) postReceive(ctx context.Context, dir, user string, moved []smarthttp.RefUpdate) {
	defer s.maintain(repoOfDir(dir))
	id, _ := strconv.ParseInt(user, 10, 64) // what authorizeGit has returned
	var by forge.User
	err := s.view(ctx, "find who pushed", func(x *session) (err error) {
		by, err = x.user(id)
		return err
	})
	updates := make([]RefUpdate, 0, len(moved))
	for _, m := range moved {
		updates = append(updates, RefUpdate{m.Ref, git.OID(m.Old), git.OID(m.New)})
	}
	if err == nil {
		err = s.Received(ctx, repoOfDir(dir), by, updates)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Error("a push was not told of", "repository", dir, "error", err)
	}
}
