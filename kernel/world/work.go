package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
)

// seedPack begins a task's work anew: what was proposed and planned for an
// earlier pack no longer counts.
func (f *fold) seedPack(e entry) error {
	var p kernel.SeedPack
	if err := decode(e, &p, &p.Kind); err != nil {
		return err
	}
	if p.World != f.config.WorldID || p.Task != e.task {
		return refuse(ErrForeign, nil, "the seed pack is of task %d in %s", p.Task, p.World)
	}
	if list := f.admit(e.task, p.Spec.AllowedFiles); len(list) > 0 {
		return refuse(ErrLand, nil, "%s", list[0].Detail)
	}
	t := f.task(e.task)
	t.Builder, t.AllowedFiles, t.Pins, t.SeedPack = p.Spec.Builder, p.Spec.AllowedFiles, p.Pins, e.hash()
	t.Interpretations, t.Spec, t.PlanProposals, t.Plan = nil, "", nil, ""
	f.now.packs = slices.DeleteFunc(f.now.packs, func(old kernel.SeedPack) bool { return old.Task == e.task })
	f.now.packs = append(f.now.packs, p)
	f.put(t)
	return nil
}

// pack is the task's seed pack of this round.
func (f *fold) pack(e entry) (kernel.SeedPack, error) {
	for _, p := range f.now.packs {
		if p.Task == e.task {
			return p, nil
		}
	}
	return kernel.SeedPack{}, refuse(ErrOrder, nil, "a %s is committed in the round of its seed pack", e.kind)
}

// admit lists what keeps paths from being reserved for a task.
func (f *fold) admit(task int64, paths []string) []kernel.Violation {
	var out []kernel.Violation
	fault := func(subject, format string, args ...any) {
		out = append(out, kernel.Violation{Code: kernel.CodeBudgetExceeded, Subject: subject, Detail: fmt.Sprintf(format, args...)})
	}
	_, taken := f.reserved(task)
	if n, most := taken+int64(len(paths)), f.config.LandShape[0]; n > most {
		fault("max_paths", "The live tasks would reserve %d path patterns, the world has room for %d.", n, most)
	}
	for _, p := range paths {
		if n, most := int64(strings.Count(p, "/")+1), f.config.LandShape[1]; n > most {
			fault(p, "The path is %d segments deep, the world is %d.", n, most)
		}
	}
	return kernel.SortViolations(out)
}

func (f *fold) interpretation(e entry) error {
	var i plan.Interpretation
	if err := decode(e, &i, &i.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	if t.SeedPack == "" {
		return refuse(ErrOrder, nil, "an interpretation follows the seed pack")
	}
	t.Interpretations = with(t.Interpretations, e.hash())
	f.put(t)
	return nil
}

// spec must be the commitment of a recorded interpretation under this round's
// seed pack.
func (f *fold) spec(e entry) error {
	var s plan.Spec
	if err := decode(e, &s, &s.Kind); err != nil {
		return err
	}
	p, err := f.pack(e)
	if err != nil {
		return err
	}
	t := f.task(e.task)
	switch {
	case !slices.Contains(t.Interpretations, s.Interpretation):
		return refuse(ErrUnknownProposal, nil, "the spec commits an interpretation that isn't recorded")
	case s.World != p.World || s.Task != p.Task || s.Approval != p.Approval.Digest || s.Pins != p.Pins:
		return refuse(ErrPlan, nil, "the spec is not of this seed pack")
	}
	t.Spec, t.PlanProposals, t.Plan = e.hash(), nil, ""
	f.put(t)
	return nil
}

func (f *fold) planProposal(e entry) error {
	var p plan.Proposal
	if err := decode(e, &p, &p.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	if t.Spec == "" {
		return refuse(ErrOrder, nil, "a plan is proposed for a spec")
	}
	hash, err := p.Plan.Hash()
	if err != nil {
		return refuse(ErrBody, err, "the proposed plan")
	}
	t.PlanProposals = with(t.PlanProposals, hash)
	f.put(t)
	return nil
}

// plan is committed only if it verifies, and was proposed unless derived.
func (f *fold) plan(e entry) error {
	var p plan.Plan
	if err := decode(e, &p, &p.Kind); err != nil {
		return err
	}
	pack, err := f.pack(e)
	if err != nil {
		return err
	}
	t := f.task(e.task)
	if t.Spec == "" || p.Spec != t.Spec {
		return refuse(ErrPlan, nil, "the plan is not of the committed spec")
	}
	if p.Source != plan.SourceDerived && !slices.Contains(t.PlanProposals, e.hash()) {
		return refuse(ErrUnknownProposal, nil, "the plan was never proposed")
	}
	if list := plan.Verify(p, pack); len(list) > 0 {
		return refuse(ErrPlan, nil, "%s: %s", list[0].Subject, list[0].Detail)
	}
	t.Plan = e.hash()
	f.put(t)
	return nil
}

// dispatch must be whole, of the committed plan, under the pinned contract, and
// follow a decision that allows a claim or a dispatch (invariant E4). A run
// has one: the same bytes may be recorded again, others may not.
func (f *fold) dispatch(e entry) error {
	var d kernel.Dispatch
	if err := decode(e, &d, &d.Kind); err != nil {
		return err
	}
	t, hash := f.task(e.task), e.hash()
	if list := kernel.ValidateDispatch(d); len(list) > 0 {
		return refuse(ErrDispatch, nil, "%s: %s", list[0].Subject, list[0].Detail)
	}
	switch {
	case d.WorldID != f.config.WorldID || d.TaskID != e.task || d.RunID != e.run:
		return refuse(ErrForeign, nil, "the dispatch is of task %d, run %q in %s", d.TaskID, d.RunID, d.WorldID)
	case !t.mayDispatch(e.run):
		return refuse(ErrNoDecision, nil, "no decision allows a dispatch of run %q", e.run)
	case t.Plan == "" || d.PlanHash != t.Plan:
		return refuse(ErrDispatch, nil, "the dispatch is not of the committed plan")
	case d.GovernanceHash != t.Pins.Governance || d.BaseCommit != t.Pins.BaseCommit:
		return refuse(ErrDispatch, nil, "the dispatch has other pins than its seed pack")
	case t.Dispatch.Run == e.run && t.Dispatch.Hash != hash:
		return refuse(ErrSecondDispatch, nil, "run %q has another dispatch already", e.run)
	}
	t.Dispatch = Dispatched{Run: e.run, Hash: hash}
	f.put(t)
	return nil
}

// mayDispatch reports whether a decision whose effect is not tried yet, or the
// claim under way, allows a dispatch of the run.
func (t *Task) mayDispatch(run string) bool {
	allows := func(r Ruling) bool {
		return r.Verdict == kernel.Allow && (r.Action == kernel.ActionClaim && r.Resumes == "" || r.Action == kernel.ActionDispatch)
	}
	if t.Ruling != nil && allows(*t.Ruling) {
		return true
	}
	return slices.ContainsFunc(t.Intents, func(o OpenIntent) bool { return o.Run == run && allows(o.Ruling) })
}

// builderResult, diff and runResult are evidence of the live run. What comes
// from a run that is over is recorded like any proposal and changes nothing.
func (f *fold) builderResult(e entry) error {
	var r kernel.BuilderResult
	if err := decode(e, &r, &r.Kind); err != nil {
		return err
	}
	return f.evidence(e, r.Run, func(run *Run) *canon.Digest { return &run.Result })
}

func (f *fold) diff(e entry) error {
	var d kernel.Diff
	if err := decode(e, &d, &d.Kind); err != nil {
		return err
	}
	return f.evidence(e, d.Run, func(run *Run) *canon.Digest { return &run.Diff })
}

func (f *fold) runResult(e entry) error {
	var r kernel.RunResult
	if err := decode(e, &r, &r.Kind); err != nil {
		return err
	}
	if r.Run != e.run {
		return refuse(ErrForeign, nil, "the checks are of run %q, their record of %q", r.Run, e.run)
	}
	if t := f.task(e.task); t.live() && t.Run.ID == r.Run && t.Run.Diff == "" {
		return refuse(ErrOrder, nil, "checks are run on a recorded diff")
	}
	return f.evidence(e, r.Run, func(run *Run) *canon.Digest { return &run.Checks })
}

// evidence keeps a hash of the live run, once.
func (f *fold) evidence(e entry, run string, field func(*Run) *canon.Digest) error {
	t := f.task(e.task)
	earlier := t.live() && t.Run.ID == e.run && t.Run.Resumes == run // what the run that it goes on with left
	if run == "" || run != e.run && !earlier {
		return refuse(ErrForeign, nil, "the %s is of run %q, its record of %q", e.kind, run, e.run)
	}
	if !t.live() || t.Run.ID != e.run || t.Run.Judged {
		return nil
	}
	kept, hash := field(&t.Run), e.hash()
	if *kept != "" && *kept != hash {
		return refuse(ErrOrder, nil, "run %q has another %s already", run, e.kind)
	}
	*kept = hash
	f.put(t)
	return nil
}
