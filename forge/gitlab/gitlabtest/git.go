package gitlabtest

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

const noCommit = "0000000000000000000000000000000000000000"

func (s *Server) dir(p *project) string { return filepath.Join(s.root, p.path()+".git") }

func (s *Server) serveGit() {
	var err error
	s.git, err = smarthttp.New(smarthttp.Options{Root: s.root, Authorize: s.authorize, PostReceive: s.pushed})
	s.must(err)
}

func (s *Server) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *Server) run(dir, stdin string, args ...string) string {
	out, err := gittest.TryGit(dir, stdin, args...)
	s.must(err)
	return strings.TrimSpace(out)
}

// commit makes a commit of files above a parent's, and moves a branch to it.
func (s *Server) commit(p *project, branch, parent string, files map[string]string) string {
	dir := s.dir(p)
	var tree strings.Builder
	if parent != "" {
		tree.WriteString(s.run(dir, "", "ls-tree", parent) + "\n")
	}
	for name, body := range files {
		tree.WriteString("100644 blob " + s.run(dir, body, "hash-object", "-w", "--stdin") + "\t" + name + "\n")
	}
	args := []string{"commit-tree", "-m", "commit on " + branch, s.run(dir, tree.String(), "mktree")}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	oid := s.run(dir, "", args...)
	s.run(dir, "", "update-ref", "refs/heads/"+branch, oid)
	return oid
}

// Branch makes or moves a branch as somebody's push: one commit with these
// files, which are none of the tree's, on top of the default branch.
func (s *Server) Branch(projectID, user int64, name string, files map[string]string) string {
	s.mu.Lock()
	p := s.data.Projects[projectID]
	old := s.ref(p, "refs/heads/"+name)
	oid := s.commit(p, name, s.ref(p, "refs/heads/"+p.DefaultBranch), files)
	s.moved(p, user, []smarthttp.RefUpdate{{Ref: "refs/heads/" + name, Old: orNone(old), New: oid}})
	s.mu.Unlock()
	s.post.wake()
	return oid
}

func orNone(oid string) string {
	if oid == "" {
		return noCommit
	}
	return oid
}

// Ref is where a ref of a project is, "" if it does not exist.
func (s *Server) Ref(projectID int64, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ref(s.data.Projects[projectID], name)
}

func (s *Server) ref(p *project, name string) string { return gittest.RefOID(s.dir(p), name) }

// authorize is who may read and write a repository: a token is the password, the
// name beside it doesn't count.
func (s *Server) authorize(r *http.Request, repo string, write bool) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p *project
	for _, one := range s.data.Projects {
		if one.path()+".git" == repo {
			p = one
		}
	}
	_, password, given := r.BasicAuth()
	t := s.data.Tokens[password]
	if given && (t == nil || t.Revoked || !t.Expires.IsZero() && !s.opts.Now().Before(t.Expires)) {
		return "", smarthttp.ErrUnauthenticated
	}
	if p == nil {
		return "", smarthttp.ErrNotFound
	}
	level, user := 0, ""
	if t != nil && s.data.Users[t.User].State == "active" {
		c := &call{s: s, d: s.data}
		level, user = c.level(p, t.User), s.data.Users[t.User].Username
	}
	switch {
	case !write && (p.Visibility == Public || level >= Reporter):
		return user, nil
	case !given:
		return "", smarthttp.ErrUnauthenticated
	case !write:
		return "", smarthttp.ErrNotFound
	case level < Developer || p.Archived:
		return "", smarthttp.ErrForbidden
	}
	return user, nil
}

// pushed is told what a push has moved.
func (s *Server) pushed(_ context.Context, repo, username string, updates []smarthttp.RefUpdate) {
	s.mu.Lock()
	for _, p := range s.data.Projects {
		if p.path()+".git" != repo {
			continue
		}
		for _, u := range s.data.Users {
			if u.Username == username {
				s.moved(p, u.ID, updates)
			}
		}
	}
	s.mu.Unlock()
	s.post.wake()
}

// moved follows a push: hooks are told of branches and tags, and open requests
// follow their branch; where that is gone, they are closed. The lock is held.
func (s *Server) moved(p *project, user int64, updates []smarthttp.RefUpdate) {
	for _, u := range updates {
		s.tellPush(p, user, u)
		for _, i := range p.Items {
			if i.Kind != aMerge || i.State != "opened" || i.SourceProject != p.ID || "refs/heads/"+i.Source != u.Ref {
				continue
			}
			c := &call{s: s, d: s.data, user: s.data.Users[user]}
			before := i.version()
			if u.New == noCommit {
				c.setState(p, i, "close")
				s.tellItem(c, p, i, "close", before)
				continue
			}
			i.SHA, i.Updated = u.New, s.tick()
			s.tellItem(c, p, i, "update", before)
		}
	}
}
