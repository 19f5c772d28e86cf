package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// fileIssue files an issue that asks for out.txt.
func (s *soakPlace) fileIssue(is *soakIssue) int64 {
	builder := "default"
	if is.turn == strays || is.turn == fails {
		builder = string(is.turn)
	}
	i, err := s.Reporter.FileIssue(s.t.Context(), is.world, "Say hello",
		"Please do it.\n\n```writ\nallowed_files: [out.txt]\nexpected_outcome: out.txt says hello\nbuilder: "+builder+"\n```\n")
	s.must(err)
	return i.Number
}

// act is what people do with an issue.
func (s *soakPlace) act(is *soakIssue) {
	ctx := s.t.Context()
	approve := func() { s.must(s.Maintainer.AddLabel(ctx, is.world, is.number, localtest.Label)) }
	if is.turn != ignored {
		approve()
	}
	switch is.turn {
	case edited:
		i, err := s.Reporter.Issue(ctx, is.world, is.number)
		s.must(err)
		s.must(s.Reporter.EditIssue(ctx, is.world, is.number, i.Title+" twice", i.Body))
	case relabels:
		s.must(s.Maintainer.RemoveLabel(ctx, is.world, is.number, localtest.Label))
		approve()
	case talks, ignored:
		for range 3 {
			_, err := s.Reporter.AddComment(ctx, is.world, is.number, "Is anybody there?")
			s.must(err)
		}
	}
}

// states are the words at the state refs of a world, by number.
func (s *soakPlace) states(w forge.Repo) map[int64]string {
	text := gittest.Git(s.t, s.Store.GitDir(w.ID), "for-each-ref", "--format=%(refname:lstrip=3) %(trailers:key=aynig-state,valueonly,separator=)", "refs/writ/task/")
	states := map[int64]string{}
	for line := range strings.Lines(text) {
		number, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		s.must(err)
		states[n] = state
	}
	return states
}

// settled reports whether every issue is as its turn may end, and shows it.
func (s *soakPlace) settled() bool {
	s.unsettled = ""
	for _, w := range s.worlds {
		states := s.states(w)
		for _, is := range s.issues {
			if is.world == w && (!is.turn.may(states[is.number]) || !s.shown(is, states[is.number])) {
				s.unsettled = fmt.Sprintf("%s#%d (%s) is %q", w, is.number, is.turn, states[is.number])
				return false
			}
		}
	}
	return true
}

// shown reports whether an issue says how its task stands.
func (s *soakPlace) shown(is *soakIssue, state string) bool {
	i, err := s.Maintainer.Issue(s.t.Context(), is.world, is.number)
	s.must(err)
	labels := strings.Join(i.Labels, " ")
	switch state {
	case "completed":
		return i.State == forge.Closed && strings.Contains(labels, "writ:completed")
	case "blocked":
		return i.State == forge.Open && strings.Contains(labels, "writ:blocked")
	}
	return i.State == forge.Open
}

// verdict looks whether anything was done twice or left over.
func (s *soakPlace) verdict() (f soakFigures) {
	started := map[string]int{}
	for _, run := range s.runs() {
		if started[run]++; started[run] == 2 {
			s.t.Errorf("run %s was handed to a builder twice", run)
		}
	}
	f.builders = len(started)
	reported := 0
	for _, w := range s.worlds {
		states := s.states(w)
		for _, is := range s.issues {
			if is.world != w {
				continue
			}
			state := states[is.number]
			switch {
			case state == "completed":
				f.completed++
			case state == "blocked":
				f.blocked++
			case is.turn == ignored:
				f.unasked++
			default:
				f.waiting++
			}
			reported += s.once(is, state)
		}
	}
	f.cut = f.builders - reported
	left, err := filepath.Glob(s.dir + "/state/workspaces/*")
	s.must(err)
	if len(left) > 0 {
		s.t.Errorf("workspaces are left over: %q", left)
	}
	a := writ(s.t, s.env, "verify", "--state-dir", s.dir+"/state")
	if a.exit != 0 {
		s.t.Errorf("the records don't verify:\n%s\n%s", a.stdout, a.stderr)
	}
	return f
}

// once checks what may be there once: a result, a closing, a report. It returns
// how many attempts came to a result.
func (s *soakPlace) once(is *soakIssue, state string) (attempts int) {
	results, attempts := s.results(is, state)
	closings, comments := s.traces(is)
	want := 0
	if state == "completed" {
		want = 1
	}
	said := comments == 1
	if state == "" || state == "waiting" { // it may have said so
		said = comments <= 1
	}
	if results != want || closings != want || !said {
		s.t.Errorf("%s#%d (%s, %s) has %d accepted results, %d closings and %d comments of writ",
			is.world, is.number, is.turn, state, results, closings, comments)
	}
	return attempts
}

// results are the accepted ones in the history of a task, and the attempts that
// came to an end there.
func (s *soakPlace) results(is *soakIssue, state string) (results, attempts int) {
	if state == "" {
		return 0, 0
	}
	words := gittest.Git(s.t, s.Store.GitDir(is.world.ID), "log", "--format=%(trailers:key=aynig-state,valueonly,separator=)", fmt.Sprintf("refs/writ/task/%d", is.number))
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "completed":
			results++
			attempts++
		case "blocked", "retry_pending":
			attempts++
		}
	}
	return results, attempts
}

// traces are how often the issue was closed, and the comments of writ.
func (s *soakPlace) traces(is *soakIssue) (closings, comments int) {
	events, err := s.Maintainer.History(s.t.Context(), is.world, is.number)
	s.must(err)
	for _, e := range events {
		if e.Kind == forge.EventClosed {
			closings++
		}
	}
	list, err := s.Maintainer.Comments(s.t.Context(), is.world, is.number)
	s.must(err)
	for _, c := range list {
		if c.Author.ID == s.Bot.ID {
			comments++
		}
	}
	return closings, comments
}
