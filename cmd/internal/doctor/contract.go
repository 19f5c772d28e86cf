package doctor

import (
	"context"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// terms are what a contract says that other checks ask for.
type terms struct {
	label string
}

func defaultTerms() terms { return termsOf(contract.Default()) }

func termsOf(c contract.Contract) terms {
	return terms{label: c.Trigger.Label}
}

const contractPath = contract.Path

// contract reads the one on the branch that tasks start from.
func (p *patient) contract(ctx context.Context) result {
	branch := p.Base
	if branch == "" {
		branch = p.about.DefaultBranch
	}
	refs, err := p.repo.Refs(ctx, "refs/heads/"+branch)
	if err != nil {
		return p.gitTrouble(err, "The repository can't be read with git")
	}
	at := refs.OID("refs/heads/" + branch)
	if at.IsZero() {
		return bad("Make the branch, or name another with base in the configuration.", "The branch %s isn't there.", branch)
	}
	data, found, err := p.file(ctx, at, contractPath)
	if err != nil {
		return p.gitTrouble(err, "The contract can't be read")
	}
	if !found {
		p.terms = defaultTerms()
		return warn("`writ contract init` writes one; commit it to "+branch+". Without it the built-in contract counts, which checks nothing.",
			"There is no %s on %s.", contractPath, branch)
	}
	return p.lint(data)
}

func (p *patient) lint(data []byte) result {
	var wrong, doubt []string
	for _, f := range contract.Lint(data) {
		text := f.Detail
		if f.Path != "" {
			text = f.Path + ": " + text
		}
		if f.Warning {
			doubt = append(doubt, text)
		} else {
			wrong = append(wrong, text)
		}
	}
	const remedy = "Mend " + contractPath + "; `writ contract lint` says the same with its lines."
	if len(wrong) > 0 {
		return bad(remedy, "The contract isn't valid, and no task will run: %s", strings.Join(wrong, " "))
	}
	c, _, _ := contract.Load(data, contract.Source{})
	p.terms = termsOf(c)
	if len(doubt) > 0 {
		return warn(remedy, "The contract is valid. %s", strings.Join(doubt, " "))
	}
	mode := ""
	if c.Mode == contract.ModeObserve {
		mode = " It says mode: observe: writ only says what it would do."
	}
	return ok("It is valid, with %d checks.%s", len(c.Checks), mode)
}

// file reads a file of a commit.
func (p *patient) file(ctx context.Context, at git.OID, path string) ([]byte, bool, error) {
	tree, err := p.repo.Tree(ctx, at)
	if err != nil {
		return nil, false, err
	}
	entry, found := tree.Find(path)
	if !found {
		return nil, false, nil
	}
	data, err := p.repo.Blob(ctx, entry.OID)
	return data, true, err
}

// labels is what a client has that can list them.
type labels interface {
	Labels(ctx context.Context, r forge.Repo) ([]forge.Label, error)
}

// label looks for the one that approves a task.
func (p *patient) label(ctx context.Context) result {
	lister, able := p.client().(labels)
	if !able {
		return skipped("The forge's labels can't be listed.")
	}
	all, err := lister.Labels(ctx, p.at())
	if err != nil {
		return p.refused(err, "The labels can't be listed")
	}
	for _, l := range all {
		if l.Name == p.terms.label || p.Forge == "github" && strings.EqualFold(l.Name, p.terms.label) {
			return ok("The label %s is there.", p.terms.label)
		}
	}
	return bad("Make the label "+p.terms.label+" in "+p.Name+"; or name another one in the contract: trigger.label.",
		"There is no label %s, with which a maintainer would approve a task.", p.terms.label)
}

// gitTrouble is the result for an error of git.
func (p *patient) gitTrouble(err error, what string) result {
	remedy := "Look at the checks of the forge above, and try again."
	switch git.CodeOf(err) {
	case git.CodeUnauthorized, git.CodePushRefused, git.CodeNotFound:
		remedy = map[string]string{
			"github": "The App needs Contents: read and write, and must be installed on " + p.Name + ".",
			"gitlab": "The token needs the scope api, and the role Developer or more in " + p.Name + ".",
			"local":  "Give writ's account write permission in " + p.Name + ": `writ forge grant`.",
		}[p.Forge]
	}
	return bad(remedy, "%s: %s.", what, plain(err))
}
