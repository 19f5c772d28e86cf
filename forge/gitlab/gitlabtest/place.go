package gitlabtest

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An administrator's acts, beside the API.

// AddUser makes an account.
func (s *Server) AddUser(username string) User { return s.addUser(username, false) }

// AddBot makes a service account.
func (s *Server) AddBot(username string) User { return s.addUser(username, true) }

func (s *Server) addUser(username string, bot bool) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &User{ID: s.data.id(), Username: username, State: "active", Bot: bot}
	s.data.Users[u.ID] = u
	return *u
}

// RemoveUser deletes an account, its memberships and tokens.
func (s *Server) RemoveUser(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.data.Users, id)
	for _, p := range s.data.Projects {
		delete(p.Members, id)
	}
	for value, t := range s.data.Tokens {
		if t.User == id {
			delete(s.data.Tokens, value)
		}
	}
}

// SetUserState blocks an account, and takes that back: active, blocked, banned …
func (s *Server) SetUserState(id int64, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Users[id].State = state
}

// Token makes a personal access token; without scopes it has api.
func (s *Server) Token(user int64, scopes ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newToken(user, scopes)
}

func (s *Server) newToken(user int64, scopes []string) string {
	if len(scopes) == 0 {
		scopes = []string{"api"}
	}
	id := s.data.id()
	t := &token{Value: fmt.Sprintf("glpat-%020d", id), ID: id, Name: "writ", User: user, Scopes: scopes}
	s.data.Tokens[t.Value] = t
	return t.Value
}

// ProjectToken makes a project access token, whose bot has a level.
func (s *Server) ProjectToken(projectID int64, level int, scopes ...string) (User, string) {
	u := s.AddBot(fmt.Sprintf("project_%d_bot_%08x", projectID, projectID*7919))
	s.SetMember(projectID, u.ID, level)
	return u, s.Token(u.ID, scopes...)
}

// Revoke ends a token.
func (s *Server) Revoke(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Tokens[value].Revoked = true
}

// Expire sets when a token ends.
func (s *Server) Expire(value string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Tokens[value].Expires = at
}

// AddGroup makes a group, whose path may be below another's: a/b.
func (s *Server) AddGroup(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Groups[path] = &group{ID: s.data.id(), Path: path, Members: map[int64]member{}}
}

// SetGroupMember sets what an account may do in a group and below it; level 0
// takes it out.
func (s *Server) SetGroupMember(path string, user int64, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setMember(s.data.Groups[path].Members, user, member{Level: level})
}

// AddGroupLabel makes a label of a group.
func (s *Server) AddGroupLabel(path, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.data.Groups[path]
	g.Labels = append(g.Labels, &label{ID: s.data.id(), Name: name, Color: "#ededed", Group: path, Created: s.tick()})
}

// SetMember sets what an account may do in a project; level 0 takes it out.
func (s *Server) SetMember(projectID, user int64, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setMember(s.data.Projects[projectID].Members, user, member{Level: level})
}

// SetMemberUntil is SetMember with a last day.
func (s *Server) SetMemberUntil(projectID, user int64, level int, expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setMember(s.data.Projects[projectID].Members, user, member{Level: level, Expires: expires})
}

// SetMemberAwaiting is SetMember for one that waits for a seat, and has no access yet.
func (s *Server) SetMemberAwaiting(projectID, user int64, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setMember(s.data.Projects[projectID].Members, user, member{Level: level, Awaiting: true})
}

func setMember(all map[int64]member, user int64, m member) {
	if m.Level == 0 {
		delete(all, user)
		return
	}
	all[user] = m
}

// Share invites a group to a project, with a level at most.
func (s *Server) Share(projectID int64, path string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.data.Projects[projectID]
	p.Shares = append(p.Shares, share{path, most})
}

// AddProject makes a public project with one commit on main, and its groups.
func (s *Server) AddProject(namespace, name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range strings.SplitSeq(namespace, "/") {
		whole := namespace[:strings.Index(namespace, at)+len(at)]
		if s.data.Groups[whole] == nil {
			s.data.Groups[whole] = &group{ID: s.data.id(), Path: whole, Members: map[int64]member{}}
		}
	}
	p := &project{
		ID: s.data.id(), Namespace: namespace, Name: name, DefaultBranch: "main", Visibility: Public, Created: s.tick(),
		Members: map[int64]member{}, LastIID: map[string]int64{},
	}
	s.data.Projects[p.ID] = p
	s.newRepository(p)
	return p.ID
}

// newRepository makes one with a commit on main. The lock is held.
func (s *Server) newRepository(p *project) {
	dir := s.dir(p)
	s.must(os.MkdirAll(filepath.Dir(dir), 0o750))
	s.run(s.root, "", "init", "-q", "--bare", "-b", p.DefaultBranch, dir)
	s.run(dir, "", "config", "receive.advertiseAtomic", "true")
	s.run(dir, "", "config", "uploadpack.allowFilter", "true")
	s.run(dir, "", "config", "uploadpack.allowAnySHA1InWant", "true")
	s.commit(p, p.DefaultBranch, "", map[string]string{"README.md": "# " + p.Name + "\n"})
}

// ChangeProject changes what a project is. An empty word leaves as it is.
func (s *Server) ChangeProject(id int64, change ProjectChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.data.Projects[id]
	old := p.path()
	for to, from := range map[*string]string{&p.Namespace: change.Namespace, &p.Name: change.Name, &p.Visibility: change.Visibility} {
		if from != "" {
			*to = from
		}
	}
	p.Archived, p.ForkedFrom = change.Archived, change.ForkedFrom
	if p.path() != old {
		s.moveRepository(old, p.path())
	}
}

func (s *Server) moveRepository(from, to string) {
	target := filepath.Join(s.root, to+".git")
	s.must(os.MkdirAll(filepath.Dir(target), 0o750))
	s.must(os.Rename(filepath.Join(s.root, from+".git"), target))
}

// ProjectChange is what ChangeProject sets.
type ProjectChange struct {
	Namespace, Name, Visibility string
	Archived                    bool
	ForkedFrom                  int64
}

// RemoveProject deletes a project.
func (s *Server) RemoveProject(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.data.Projects, id)
}

// ForkMerge is a merge request from somebody's fork, which only the state knows.
func (s *Server) ForkMerge(projectID, author int64, source string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.data.Projects[projectID]
	i := s.newItem(p, aMerge, author, "From a fork")
	i.Source, i.Target, i.SourceProject = source, p.DefaultBranch, s.data.id()
	i.SHA = strings.Repeat("f", len(noCommit))
	return i.IID
}

// SigningToken is a valid one, made of a word.
func SigningToken(word string) string {
	const bytes = 32
	key := slices.Repeat([]byte(word), bytes)[:bytes]
	return signingPrefix + base64.StdEncoding.EncodeToString(key)
}

// SetConfidential hides an issue from who is no member.
func (s *Server) SetConfidential(projectID, iid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.data.Projects[projectID].find(anIssue, iid)
	i.Confidential, i.Updated = true, s.tick()
}

// InternalNotes writes notes on an issue that only members see.
func (s *Server) InternalNotes(projectID, iid, author int64, many int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.data.Projects[projectID].find(anIssue, iid)
	for range many {
		now := s.tick()
		i.Notes = append(i.Notes, &note{ID: s.data.id(), Body: "between us", Author: author, Internal: true, Created: now, Updated: now})
	}
}

// MovedAway is what stays of an issue that was moved to another project.
func (s *Server) MovedAway(projectID, iid, user int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.data.Projects[projectID].find(anIssue, iid)
	i.Updated, i.MovedTo, i.State = s.tick(), s.data.id(), "closed"
	c := &call{s: s, d: s.data, user: s.data.Users[user]}
	c.systemNote(i, "moved to acme/elsewhere#1")
}

// SetTitle changes the title of a merge request, as a person does.
func (s *Server) SetTitle(projectID, iid int64, title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.data.Projects[projectID].find(aMerge, iid)
	i.Title, i.Updated = title, s.tick()
}
