package supervisor

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// refsFree: nobody's commit on the change branch is ever forced over, and git can have the
// task's refs. It matters to a task of which nothing else keeps: who approved nothing is
// told nothing.
func (o *observer) refsFree(c *observation) []kernel.Violation {
	if c.facts.Refresh != nil || c.facts.Fix != nil || o.worker.run != nil || !kernel.WantsClaim(c.facts) || len(c.facts.Policy) > 0 {
		return nil // of delivered work the branch is there
	}
	if c.refInWay != "" {
		return []kernel.Violation{{Code: kernel.CodeBranchTaken, Subject: c.refInWay, Detail: "Git can't have the state ref " + o.StateRef() + " beside " + c.refInWay + ". Delete that."}}
	}
	return o.branchTaken(c)
}

// branchTaken is the branch that is in the way of the change branch, if any.
func (o *observer) branchTaken(c *observation) []kernel.Violation {
	v := kernel.Violation{Code: kernel.CodeBranchTaken, Subject: o.ChangeRef()}
	switch {
	case c.inWay != "":
		v.Subject, v.Detail = c.inWay, "Git can't have the change branch "+o.ChangeRef()+" beside "+c.inWay+". Delete or rename that."
	case c.change.IsZero(), c.change == c.stray:
		return nil
	default:
		v.Detail = "The change branch " + o.ChangeRef() + " exists already, at " + string(c.change) + ". Delete or rename it."
	}
	return []kernel.Violation{v}
}

// lookedAt are the refs that a look needs, and no others: the repository's branches are
// as many as whoever pushes likes.
func (o *observer) lookedAt() []string {
	names := slices.Concat(o.s.actsRef(), o.s.baseRefs())
	if o.worker.run != nil && askable(o.worker.run.intake.contractRef) { // HEAD names what it likes
		names = append(names, o.worker.run.intake.contractRef)
	}
	for _, own := range []string{o.StateRef(), o.ChangeRef()} {
		names = append(names, own, own+"/")
		for dir := path.Dir(own); strings.Count(dir, "/") > 1; dir = path.Dir(dir) {
			if !slices.Contains(names, dir) {
				names = append(names, dir) // a ref of that name would be in the way
			}
		}
	}
	return names
}

// inWay is a branch beside which another can't be: git keeps refs as files, and one is
// the other's directory. "" for none.
func inWay(refs git.Refs, branch string) string {
	for _, name := range refs.Names() {
		if strings.HasPrefix(name, branch+"/") || strings.HasPrefix(branch, name+"/") {
			return name
		}
	}
	return ""
}

// changeBranchTaken: somebody made a branch in the way of the change branch while the work
// was done. It is theirs, and the result waits until it is gone, which each look sees; HEAD
// says so anew before others may move on. Where not even that is taken from writ's account,
// the rule about the account is waited for first.
func (o *observer) changeBranchTaken(c *observation) {
	r := o.worker.run
	if r.phase != kernel.PhaseJudged || r.change == "" || r.ruling.denied {
		return
	}
	taken := o.branchTaken(c)
	if len(taken) == 0 && !inTheWay(r.ruling.refused) {
		return
	}
	r.ruling.refused, r.again = taken, 0
	if len(taken) == 0 {
		return
	}
	r.slim = false // the push before was refused for the branch
	due := r.date*1000 + ruleAgain.Milliseconds()
	if r.waitsAtHead() && r.ruling.branch == taken[0].Subject && c.clock.WallMs < due {
		r.again = due
	}
}

// inTheWay reports whether a branch keeps work from being delivered, and no rule.
func inTheWay(vs []kernel.Violation) bool {
	return len(vs) > 0 && vs[0].Code == kernel.CodeBranchTaken
}

// look reads the refs, or takes those that are kept, and holds them against what was pushed.
func (o *observer) look(ctx context.Context, c *observation) (git.Refs, error) {
	if c.refs = o.tracker.takeRefs(c); c.refs == nil {
		refs, err := o.s.deps.Repo.Refs(ctx, o.lookedAt()...)
		if err == nil {
			err = o.s.lookAtActs(ctx, refs)
		}
		if err != nil {
			return refs, err
		}
		c.refs = &readRefs{Refs: refs, at: c.clock.BootMs}
	}
	return c.refs.Refs, o.shows(ctx, c, c.refs.Refs)
}
