package setup

import (
	"context"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
)

// GitLab's access levels, as far as they matter here.
const (
	levelReporter   = 20
	levelDeveloper  = 30
	levelMaintainer = 40
	levelOwner      = 50
)

// role is what GitLab calls a level.
func role(level int) string {
	switch {
	case level >= levelOwner:
		return "Owner"
	case level >= levelMaintainer:
		return "Maintainer"
	case level >= levelDeveloper:
		return "Developer"
	case level >= levelReporter:
		return "Reporter"
	case level > 0:
		return "Guest"
	}
	return "no role"
}

// scopeAPI is the scope that git, issues and merge requests need together.
const scopeAPI = "api"

// soon is when the end of a token is near.
const soon = 30 * 24 * time.Hour

// refusedToken explains why GitLab doesn't say who a token is.
func refusedToken(err error, which string) error {
	switch {
	case forge.IsReason(err, forge.Unauthorized):
		return &Error{Text: "GitLab doesn't know " + which + ": " + err.Error() + ".", Remedy: "Look whether it was copied whole, has ended, or was revoked; and whether --url is its GitLab.", Err: err}
	case forge.IsReason(err, forge.Forbidden):
		return &Error{Text: "GitLab doesn't let " + which + " say what it is: " + err.Error() + ".", Remedy: "Make one with the scope api.", Err: err}
	case forge.IsReason(err, forge.NotFound):
		return &Error{Text: "There is no GitLab at that address, or one before 16.0: " + err.Error() + ".", Remedy: "Give the address of its pages with --url, with the path that it may have.", Err: err}
	case forge.Passing(err):
		return &Error{Text: "GitLab can't be reached: " + err.Error() + ".", Remedy: "See to the network, --url, --ca-file and --proxy, and try again.", Err: err}
	}
	return err
}

// project is one that is to be governed.
type project struct {
	forge.Repository
	page  string
	hooks bool // whoever makes hooks may make them here
}

// find finds each project and asks what the token may there.
func (g *GitLab) find(ctx context.Context) ([]project, error) {
	var out []project
	for _, name := range g.Projects {
		at := strings.LastIndexByte(name, '/')
		repo, err := g.host.Find(ctx, name[:at], name[at+1:])
		if forge.IsReason(err, forge.NotFound) {
			return nil, &Error{Text: "The project " + name + " isn't there, or the token may not see it.", Remedy: "Look at the name, with all its groups. A project token sees its own project alone; for several, use a group's.", Err: err}
		}
		if err != nil {
			return nil, err
		}
		if repo.Archived {
			return nil, wrong("Bring it back in its settings, or leave it out.", "The project %s is archived.", name)
		}
		level, err := g.host.Level(ctx, repo.Repo, g.self.ID)
		if err != nil {
			return nil, err
		}
		if level < levelDeveloper {
			return nil, wrong("Make the token with the role Developer.", "In %s the token has %s. Writ pushes branches and opens merge requests: that needs the role Developer.", name, role(level))
		}
		g.Say("%s: the token has the role %s\n", name, role(level))
		if level >= levelMaintainer && g.self.Kind == forge.Bot {
			g.Say("  mind: Developer is enough once the hook is there; %s may change settings, too\n", role(level))
		}
		if level < levelMaintainer {
			if err := g.askMaintainer(ctx, name); err != nil {
				return nil, err
			}
		}
		p := project{Repository: repo, page: strings.TrimSuffix(repo.URL, "/"), hooks: level >= levelMaintainer || g.admin != g.host}
		out = append(out, p)
	}
	return out, nil
}

// askMaintainer asks, once, for a token that may make hooks.
func (g *GitLab) askMaintainer(ctx context.Context, name string) error {
	if g.Ask == nil || g.admin != g.host || g.PublicURL == "" || g.KeepHooks {
		return nil
	}
	token, err := g.Ask(ctx, "The webhook of "+name+" needs a Maintainer. A token of his with the scope api makes it now and is not kept; empty: by hand. It isn't shown: ")
	g.Ask = nil
	if err != nil || token == "" {
		return err
	}
	return g.borrow(ctx, token)
}
