package plan

import (
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Spec is the committed interpretation of a task, the BlueprintSpec of seed
// 003. It names the approval and the pins, but nothing of an attempt, so that a
// retry on the same base has the same spec and plan.
type Spec struct {
	Kind            string       `json:"kind"` // "spec"
	V               int64        `json:"v"`
	World           string       `json:"world_id"`
	Task            int64        `json:"task_id"`
	Approval        canon.Digest `json:"approval"`            // digest of the approved text
	Interpretation  canon.Digest `json:"interpretation_hash"` // of the winner
	Summary         string       `json:"summary"`
	Assumptions     []string     `json:"assumptions"`
	AllowedFiles    []string     `json:"allowed_files"`
	ExpectedOutcome string       `json:"expected_outcome"`
	Pins            kernel.Pins  `json:"pins"`
}

// Commit makes the spec of a task from the interpretation that won. It fails
// only if the interpretation can't be hashed.
func Commit(i Interpretation, pack kernel.SeedPack) (Spec, error) {
	hash, err := i.Hash()
	if err != nil {
		return Spec{}, err
	}
	return Spec{
		Kind: string(kernel.KindSpec), V: Version, World: pack.World, Task: pack.Task,
		Approval: pack.Approval.Digest, Interpretation: hash, Summary: i.Summary,
		Assumptions:     slices.Clone(i.Assumptions),
		AllowedFiles:    slices.Clone(i.AllowedFiles),
		ExpectedOutcome: i.ExpectedOutcome,
		Pins:            pack.Pins,
	}, nil
}

// Hash is the spec's content hash.
func (s Spec) Hash() (canon.Digest, error) { return canon.Hash(s) }

// Plan is a BuildPlan (seed 003 §9): what is done, in steps, and what proves
// each of them. A planner's plan is a [Proposal] first; it becomes this, and
// the plan of a task, once [Verify] has nothing against it.
type Plan struct {
	Kind       string       `json:"kind"` // "plan"
	V          int64        `json:"v"`
	Source     string       `json:"source"` // SourceDerived or a planner's name
	Spec       canon.Digest `json:"spec_hash"`
	Pins       kernel.Pins  `json:"pins"`
	Invariants []string     `json:"invariants"` // what holds after every step, see [Invariants]
	Steps      []Step       `json:"steps"`
}

// Step is one step of a plan.
type Step struct {
	ID        string   `json:"id"`         // [a-z0-9][a-z0-9._-]*, at most 64 bytes
	Action    string   `json:"action"`     // ActionEdit
	Targets   []string `json:"targets"`    // patterns out of the spec's allowed_files
	DependsOn []string `json:"depends_on"` // ids of steps that are accepted before
	Expects   []Expect `json:"expects"`    // what is there afterwards
	Evidence  []string `json:"evidence"`   // names of invariants that prove the step
	Safety    Safety   `json:"safety"`
}

// ActionEdit changes files; it is the only action of a step.
const ActionEdit = "edit"

// Expect is one expected output: a sentence, or a file and its content hash.
type Expect struct {
	Outcome string       `json:"outcome"` // verifiable sentence, "" with a path
	Path    string       `json:"path"`    // "" with an outcome
	Hash    canon.Digest `json:"hash"`    // of the file's bytes; "" for any content
}

// Safety is what a step asks for beyond the fixed frame, in which builder and
// checks of the contract run in the sandbox. The strict
// value is the only one that is granted today: [StrictSafety].
type Safety struct {
	Network    bool     `json:"network"`     // needs a host beyond the gateway's
	Exec       string   `json:"exec"`        // ExecFrame, or a program of its own
	Modules    []string `json:"modules"`     // dangerous modules that its code may use
	WriteRoots []string `json:"write_roots"` // where it writes
}

// The strict values of a step's safety.
const (
	ExecFrame     = "frame"     // nothing but builder and checks of the contract
	RootWorkspace = "workspace" // the workspace, and nothing else
)

// StrictSafety asks for nothing.
func StrictSafety() Safety {
	return Safety{Exec: ExecFrame, Modules: []string{}, WriteRoots: []string{RootWorkspace}}
}

// Names of invariants; a check's is InvariantCheck and the check's name.
const (
	InvariantScope   = "scope"   // changed files lie within the targets
	InvariantMessage = "message" // the commit message obeys the contract
	InvariantCheck   = "check:"  // prefix
)

// Invariants names everything that must hold after every step: scope, message
// and each check of the pack, in the contract's order.
func Invariants(pack kernel.SeedPack) []string {
	out := []string{InvariantScope, InvariantMessage}
	for _, c := range pack.Checks {
		out = append(out, InvariantCheck+c.Name)
	}
	return out
}

// DerivePlan is the plan of a spec that needs no planner: one step,
// [kernel.SingleStep], that may touch all allowed files and is proved by every
// invariant. Equal specs and packs give equal plans. It fails only if the spec
// can't be hashed.
func DerivePlan(spec Spec, pack kernel.SeedPack) (Plan, error) {
	hash, err := spec.Hash()
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		Kind: string(kernel.KindPlan), V: Version, Source: SourceDerived,
		Spec: hash, Pins: spec.Pins, Invariants: Invariants(pack),
		Steps: []Step{{
			ID: kernel.SingleStep, Action: ActionEdit,
			Targets:   slices.Clone(spec.AllowedFiles),
			DependsOn: []string{},
			Expects:   []Expect{{Outcome: spec.ExpectedOutcome}},
			Evidence:  Invariants(pack),
			Safety:    StrictSafety(),
		}},
	}, nil
}

// Hash is the plan's content hash: the plan_hash of a dispatch.
func (p Plan) Hash() (canon.Digest, error) { return canon.Hash(p) }

// Step finds a step by its id.
func (p Plan) Step(id string) (Step, bool) {
	for _, s := range p.Steps {
		if s.ID == id {
			return s, true
		}
	}
	return Step{}, false
}

// Proposal is a planner's plan before its verification. It has a kind of its
// own, so that no proposal's hash is ever a plan's (seed 003 §2).
type Proposal struct {
	Kind   string `json:"kind"` // "plan_proposal"
	V      int64  `json:"v"`
	Source string `json:"source"` // the planner's name
	Plan   Plan   `json:"plan"`
}

// Propose wraps a planner's plan as a proposal.
func Propose(p Plan) Proposal {
	return Proposal{Kind: string(kernel.KindPlanProposal), V: Version, Source: p.Source, Plan: p}
}
