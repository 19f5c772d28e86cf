package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
)

// gitHub is what a GitHub is asked beside what every forge is.
type gitHub interface {
	Held(ctx context.Context, r forge.Repo) (github.Installation, error)
	Rules(ctx context.Context, r forge.Repo, branch string) ([]github.Rule, error)
}

var _ gitHub = (*github.Host)(nil)

// held compares what the App was given with what writ needs. It reports whether
// that is enough to push.
func (p *patient) held(ctx context.Context, h gitHub) (pushes bool) {
	var given github.Installation
	personal := false
	whole := p.check(ctx, NamePermissions, func(ctx context.Context) result {
		var err error
		given, err = h.Held(ctx, p.at())
		switch {
		case forge.IsReason(err, forge.Unauthorized) && p.self.Kind == forge.Person:
			personal = true
			return p.permission(ctx)
		case err != nil:
			return p.refused(err, "What the App may do can't be read")
		case given.Suspended:
			return bad("Let it work again: Settings of the owner, Applications (Installed GitHub Apps), Configure, Unsuspend.", "The App's installation is suspended.")
		}
		if missing := given.Missing(); len(missing) > 0 {
			var list []string
			for _, name := range slices.Sorted(maps.Keys(missing)) {
				list = append(list, name+": "+missing[name])
			}
			return bad("On the App's page: Permissions & events, Repository permissions. Then accept the request where it is installed: "+
				"Settings of the owner, Applications, Configure, Review request.", "The App lacks %s.", strings.Join(list, ", "))
		}
		return p.excess(given)
	})
	switch {
	case !whole:
		p.skip("What the App may do isn't known, or isn't enough.", NameEvents)
	case personal:
		p.skip("A personal token has no App that is told of events.", NameEvents)
	case p.Poll:
		p.skip("intake: poll needs no events.", NameEvents)
	default:
		p.add(NameEvents, heard(given))
	}
	_, lacks := given.Missing()["contents"]
	return whole || given.ID != 0 && !given.Suspended && !lacks
}

// excess warns of an App that was given more than it needs.
func (p *patient) excess(given github.Installation) result {
	var more []string
	for name, has := range given.Permissions {
		if name == "workflows" {
			continue // it is for who wants workflows changed, and nobody else can tell
		}
		if need, needed := github.Needed()[name]; !needed || need == "read" && has != "read" {
			more = append(more, name+": "+has)
		}
	}
	if len(more) > 0 {
		slices.Sort(more)
		return warn("Take it away on the App's page, Permissions & events: who steals the key could use it.",
			"The App holds all that it needs, and beside it %s.", strings.Join(more, ", "))
	}
	return ok("The App %s holds what it needs and nothing else.", given.App)
}

func heard(given github.Installation) result {
	if missing := given.Unheard(); len(missing) > 0 {
		return bad("On the App's page: Permissions & events, Subscribe to events. Until then the sweep finds it late.",
			"The App isn't told of: %s.", strings.Join(missing, ", "))
	}
	return ok("The App is told of what it needs.")
}
