package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/forge/github"
)

// verdict is what a rule means for a push.
type verdict int

const (
	lets    verdict = iota
	mayStop         // GitHub doesn't say
	stops
)

// stopping are GitHub's rules that can stop a push by writ: of a new branch, and
// of a branch that is there. Other rules don't matter to a push, or are kept by
// what writ does: it never deletes a branch or forces one over.
var stopping = map[string]struct {
	why         string
	creates, by verdict // making the branch, moving it
}{
	"creation":               {"new branches are restricted", stops, lets},
	"update":                 {"updates are restricted", lets, stops},
	"pull_request":           {"changes must come by pull request", mayStop, stops},
	"required_status_checks": {"commits need a passed check before they are pushed", mayStop, stops},
	"required_signatures":    {"commits must be signed with a key that GitHub knows; writ's is none", stops, stops},
	"required_deployments":   {"commits need a deployment first", mayStop, stops},
	"workflows":              {"commits need a passed workflow first", mayStop, stops},
	"merge_queue":            {"changes must go through the merge queue", mayStop, stops},
	"code_scanning":          {"commits need a code scan first", mayStop, stops},
}

// pushedBranch is a branch that writ makes, and perhaps moves.
type pushedBranch struct {
	name  string
	moves bool
}

// gitHubPushes are the branches of a task 1. A change's is made in one push and
// never moved by writ.
func (p *patient) gitHubPushes() (out []pushedBranch) {
	for _, name := range p.pushed() {
		out = append(out, pushedBranch{name, name == taskBranch})
	}
	return out
}

// rule says what a rule means for a branch, and why.
func (p *patient) rule(r github.Rule, b pushedBranch) (v verdict, why string) {
	if r.Bypass {
		return lets, ""
	}
	if strings.HasSuffix(r.Type, "_pattern") {
		return p.pattern(r, b)
	}
	one := stopping[r.Type]
	if !r.AfterCreation {
		v = one.creates
	}
	if b.moves {
		v = max(v, one.by)
	}
	return v, one.why
}

// pattern tries a rule about texts on those that writ writes.
func (p *patient) pattern(r github.Rule, b pushedBranch) (verdict, string) {
	var text, why string
	switch r.Type {
	case "commit_author_email_pattern", "committer_email_pattern":
		text, why = p.Identity.Email, "identity.email "+p.Identity.Email+" isn't one that it takes"
	case "branch_name_pattern":
		text, why = b.name, "it doesn't take the name"
	case "commit_message_pattern":
		if b.name != taskBranch {
			return mayStop, "messages must have a pattern; a change's come from the contract's commit.template"
		}
		text, why = taskMessage, "it doesn't take the message of a state commit"
	default:
		return lets, ""
	}
	switch admits, known := r.Pattern.Admits(text); {
	case !known:
		return mayStop, "it has a pattern that can't be read here"
	case admits:
		return lets, ""
	}
	return stops, why
}

func (p *patient) gitHubBranches(ctx context.Context, h gitHub) result {
	found := map[verdict][]string{}
	for _, branch := range p.gitHubPushes() {
		rules, err := h.Rules(ctx, p.at(), branch.name)
		if err != nil {
			return p.unseen(err)
		}
		for _, r := range rules {
			v, why := p.rule(r, branch)
			found[v] = append(found[v], fmt.Sprintf("%s: %s (%s, a ruleset of %s)", branch.name, why, r.Type, r.Source))
		}
	}
	const remedy = "Add the App to the bypass list of the ruleset, or leave writ/** out of its branches (Settings, Rules, Rulesets)."
	if stop := slices.Concat(found[stops], found[mayStop]); len(found[stops]) > 0 {
		return bad(remedy, "Rules would stop writ. %s.", strings.Join(stop, "; "))
	} else if len(stop) > 0 {
		return warn(remedy, "Rules may stop writ; what they ask can't be tried here. %s.", strings.Join(stop, "; "))
	}
	return ok("No ruleset stops writ. Branch protections of the older kind can't be seen with the App's permissions; none may cover writ/**.")
}
