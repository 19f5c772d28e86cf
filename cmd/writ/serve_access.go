package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/kernel"
)

// access is what a forge says that writ was given for a repository.
type access struct {
	installation int64    // of a GitHub App; 0 elsewhere
	lacks        *problem // nil: nothing
}

// installed asks what an App's installation has.
func installed(h *github.Host, url string) func(context.Context, forge.Repo) (access, error) {
	return func(ctx context.Context, at forge.Repo) (access, error) {
		held, err := h.Held(ctx, at)
		if err != nil {
			return access{}, err
		}
		return access{held.ID, lacking(held, at, strings.TrimSuffix(url, "/"))}, nil
	}
}

// lacking says what an installation lacks, and who gives it where.
func lacking(held github.Installation, at forge.Repo, url string) *problem {
	page := fmt.Sprintf("%s/settings/installations/%d, or %[1]s/organizations/%[3]s/settings/installations/%[2]d for an organisation", url, held.ID, at.Owner) //nolint:misspell // GitHub's address
	if held.Suspended {
		p := coded(kernel.CodeForgeRefused, "The App's installation on %s is suspended.", at)
		p.remedy = "Its owner unsuspends it: " + page + "."
		return p
	}
	missing := held.Missing()
	if len(missing) == 0 {
		return nil
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		words = append(words, name+": "+missing[name])
	}
	p := coded(kernel.CodeForgeRefused, "The App's installation on %s lacks %s.", at, strings.Join(words, ", "))
	p.remedy = "Its owner accepts the new permissions: " + page + ". If nothing is offered there, the App itself lacks them: add them on the App's page first."
	return p
}

// tokenWarning is how long before its end a token is warned of.
const tokenWarning = 14 * 24 * time.Hour

// tokenEnd asks when a GitLab token ends.
func tokenEnd(h *gitlab.Host, now func() time.Time) func(context.Context, forge.Repo) (access, error) {
	return func(ctx context.Context, _ forge.Repo) (access, error) {
		t, err := h.Token(ctx)
		if err != nil {
			return access{}, err
		}
		return access{lacks: ending(t, now())}, nil
	}
}

// ending warns of a token whose last day is near.
func ending(t gitlab.Token, now time.Time) *problem {
	if t.Expires.IsZero() || t.Expires.Sub(now) > tokenWarning {
		return nil
	}
	p := coded(kernel.CodeForgeCredential, "GitLab's token %q ends on %s.", t.Name, t.Expires.Format(time.DateOnly))
	p.remedy = "Make a new one, put it where this one is, and have writ reload: operations.md, \"Reload\"."
	return p
}

// checkAccess asks what writ was given for a repository, and tells what is news.
// A forge that doesn't answer changes nothing.
func (s *server) checkAccess(ctx context.Context, l *listing, at forge.Repo) {
	if l.forge.access == nil {
		return
	}
	has, err := l.forge.access(ctx, at)
	if err != nil {
		s.log.Debug("what writ may do could not be asked", "repository", l.name, "error", err)
		return
	}
	before, said := s.worlds.given(l, has)
	switch {
	case has.lacks != nil && !said:
		s.log.Warn("writ lacks something at the forge", "forge", l.forge.name, "repository", l.name, "error", has.lacks.text, "remedy", has.lacks.remedy)
	case has.lacks == nil && before != nil:
		s.log.Info("writ has at the forge what it needs", "forge", l.forge.name, "repository", l.name)
	}
}

// given notes what writ has for a repository. It returns what it lacked before,
// and whether what it lacks now was said already: a token is of many repositories.
func (ws *worlds) given(l *listing, has access) (before *problem, said bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, other := range ws.list {
		said = said || has.lacks != nil && other.lacks != nil && other.lacks.text == has.lacks.text
	}
	before = l.lacks
	l.installation, l.lacks = has.installation, has.lacks
	return before, said
}

// checkAccessOf does so for open worlds.
func (s *server) checkAccessOf(ctx context.Context, worlds []*served) {
	for _, w := range worlds {
		s.ofWorld(w, func() { s.checkAccess(ctx, w.listing, w.at) })
	}
}
