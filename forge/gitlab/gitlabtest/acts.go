package gitlabtest

import (
	"fmt"
	"net/http"
	"slices"
)

// What people do on the pages, and what they see there. Hooks are told as of
// everything else.

// as lets an account act.
func (s *Server) as(user int64, act func(*call)) {
	s.mu.Lock()
	c := &call{s: s, d: s.data, user: s.data.Users[user], params: map[string]any{}, header: http.Header{}}
	act(c)
	s.mu.Unlock()
	s.post.wake()
}

// FileIssue files an issue, and returns its number.
func (s *Server) FileIssue(projectID, user int64, title, body string) (iid int64) {
	s.as(user, func(c *call) {
		p := s.data.Projects[projectID]
		i := s.newItem(p, anIssue, user, title)
		before := i.version()
		left, acts := quickActions(body)
		i.Description = left
		c.execute(p, i, acts)
		s.tellItem(c, p, i, "open", before)
		iid = i.IID
	})
	return iid
}

// onIssue lets an account change an issue, and tells hooks what came of it.
func (s *Server) onIssue(projectID, user, iid int64, act func(*call, *project, *item)) {
	s.as(user, func(c *call) {
		p := s.data.Projects[projectID]
		i := p.find(anIssue, iid)
		before := i.version()
		act(c, p, i)
		if i.version() != before {
			s.tellItem(c, p, i, i.action(before), before)
		}
	})
}

// Label sets a label, and makes it if there is none.
func (s *Server) Label(projectID, user, iid int64, name string) {
	s.onIssue(projectID, user, iid, func(c *call, p *project, i *item) { c.setLabels(p, i, []string{name}, nil) })
}

// Unlabel takes a label off.
func (s *Server) Unlabel(projectID, user, iid int64, name string) {
	s.onIssue(projectID, user, iid, func(c *call, p *project, i *item) { c.setLabels(p, i, nil, []string{name}) })
}

// Edit changes an issue's text.
func (s *Server) Edit(projectID, user, iid int64, title, body string) {
	s.onIssue(projectID, user, iid, func(c *call, _ *project, i *item) {
		c.setTitle(i, title)
		c.setDescription(i, body)
	})
}

// SetIssueState closes or reopens: "close", "reopen".
func (s *Server) SetIssueState(projectID, user, iid int64, event string) {
	s.onIssue(projectID, user, iid, func(c *call, p *project, i *item) { c.setState(p, i, event) })
}

// Comment writes a note on an issue, quick actions included, and returns its id.
func (s *Server) Comment(projectID, user, iid int64, body string) (id int64) {
	s.onIssue(projectID, user, iid, func(c *call, p *project, i *item) {
		left, acts := quickActions(body)
		c.execute(p, i, acts)
		now := s.tick()
		n := &note{ID: s.data.id(), Body: left, Author: user, Created: now, Updated: now}
		i.Notes = append(i.Notes, n)
		i.Updated, id = now, n.ID
		s.tellNote(c, p, i, n, "create")
	})
	return id
}

// Merge accepts a merge request.
func (s *Server) Merge(projectID, user, iid int64, squash bool) (err error) {
	s.as(user, func(c *call) {
		p := s.data.Projects[projectID]
		i := p.find(aMerge, iid)
		if i == nil || i.State != "opened" || draftTitle.MatchString(i.Title) {
			err = fmt.Errorf("!%d can't be merged", iid)
			return
		}
		err = c.accept(p, i, squash)
	})
	return err
}

// Page is an issue or merge request as its page shows it.
type Page struct {
	IID                int64
	Title, Description string
	State              string // opened, closed, merged
	Labels             []string
	Notes              []PageNote // of people and bots
	Closings           int        // how often it was closed

	Source, Target, SHA, MergeSHA string // of merge requests
}

// PageNote is a comment.
type PageNote struct {
	ID, Author int64
	Body       string
	Emoji      []string // of anybody
}

// Issue is an issue's page.
func (s *Server) Issue(projectID, iid int64) Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Projects[projectID].find(anIssue, iid).page()
}

// Merges are the pages of all merge requests, the oldest first.
func (s *Server) Merges(projectID int64) (out []Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.data.Projects[projectID].Items {
		if i.Kind == aMerge {
			out = append(out, i.page())
		}
	}
	return out
}

func (i *item) page() Page {
	out := Page{
		IID: i.IID, Title: i.Title, Description: i.Description, State: i.State, Labels: slices.Clone(i.Labels),
		Source: i.Source, Target: i.Target, SHA: i.SHA, MergeSHA: i.MergeSHA,
	}
	for _, e := range i.StateEvents {
		if e.State == "closed" {
			out.Closings++
		}
	}
	for _, n := range i.Notes {
		if n.System {
			continue
		}
		note := PageNote{ID: n.ID, Author: n.Author, Body: n.Body}
		for _, a := range n.Awards {
			note.Emoji = append(note.Emoji, a.Name)
		}
		out.Notes = append(out.Notes, note)
	}
	return out
}
