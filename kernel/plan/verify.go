package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
)

// Verify lists everything that keeps a plan from being committed, sorted, each
// as `plan.invalid`; an empty list means that the plan may be the task's
// (seed 003 §8, §9): structure, acyclic dependencies, budgets, pins, complete
// invariants, known evidence, strict safety. It is a function of its arguments
// alone, and no prose decides.
func Verify(p Plan, pack kernel.SeedPack) []kernel.Violation {
	c := checker{plan: p, pack: pack}
	c.head()
	c.invariants()
	c.budgets()
	for i := range p.Steps {
		c.step(i)
	}
	c.dependencies()
	return kernel.SortViolations(c.out)
}

type checker struct {
	plan Plan
	pack kernel.SeedPack
	out  []kernel.Violation
}

func (c *checker) need(ok bool, subject, detail string) {
	if !ok {
		c.out = append(c.out, invalid(subject, detail))
	}
}

func (c *checker) head() {
	p := c.plan
	c.need(p.Kind == string(kernel.KindPlan), "kind", "It must be \"plan\".")
	c.need(p.V == Version, "v", "The version is unknown.")
	c.need(p.Source != "", "source", "Who made the plan is missing.")
	c.need(p.Spec.Valid(), "spec_hash", "The spec's hash is missing.")
	c.need(p.Pins == c.pack.Pins, "pins", "They differ from the seed pack's.")
	c.need(len(p.Steps) > 0, "steps", "The plan has no step.")
}

// invariants must be those of the pack, no fewer and no others (§9).
func (c *checker) invariants() {
	want := Invariants(c.pack)
	for _, name := range want {
		c.need(slices.Contains(c.plan.Invariants, name), "invariants", fmt.Sprintf("%q is left out.", name))
	}
	for _, name := range c.plan.Invariants {
		c.need(slices.Contains(want, name), "invariants", fmt.Sprintf("%q is unknown.", name))
	}
	c.need(distinctTexts(c.plan.Invariants), "invariants", "One stands twice.")
}

func (c *checker) budgets() {
	b := c.pack.Budgets
	steps := int64(len(c.plan.Steps))
	c.need(steps <= b.Steps, "budgets.steps", fmt.Sprintf("The plan has %d steps, %d are allowed.", steps, b.Steps))
	c.need(steps <= b.Nodes, "budgets.nodes", fmt.Sprintf("The plan has %d nodes, %d are allowed.", steps, b.Nodes))
}

func (c *checker) step(i int) {
	s := c.plan.Steps[i]
	at := fmt.Sprintf("steps[%d].", i)
	c.need(validID(s.ID), at+"id", "It must match [a-z0-9][a-z0-9._-]* in at most 64 bytes.")
	c.need(s.Action == ActionEdit, at+"action", "The only action is \"edit\".")
	c.need(len(s.Targets) > 0, at+"targets", "The step has no target.")
	c.need(distinctTexts(s.Targets), at+"targets", "One is empty or stands twice.")
	for _, t := range s.Targets {
		c.need(slices.Contains(c.pack.Spec.AllowedFiles, t), at+"targets", fmt.Sprintf("%q is not among the allowed files.", t))
	}
	c.need(len(s.Evidence) > 0, at+"evidence", "Nothing proves the step.")
	c.need(distinctTexts(s.Evidence), at+"evidence", "One is empty or stands twice.")
	for _, e := range s.Evidence {
		c.need(slices.Contains(Invariants(c.pack), e), at+"evidence", fmt.Sprintf("%q is unknown.", e))
	}
	c.expects(at, s.Expects)
	c.safety(at, s.Safety)
}

func (c *checker) expects(at string, list []Expect) {
	c.need(len(list) > 0, at+"expects", "The step doesn't say what comes out of it.")
	for _, e := range list {
		outcome, path := strings.TrimSpace(e.Outcome) != "", e.Path != ""
		c.need(outcome != path, at+"expects", "An expectation is a sentence or a path, and one of them.")
		c.need(e.Hash == "" || path && e.Hash.Valid(), at+"expects", "A hash needs a path and must be well-formed.")
	}
}

// safety grants nothing: the contract has no key yet that would relax it.
func (c *checker) safety(at string, s Safety) {
	c.need(!s.Network, at+"safety.network", "No step has network.")
	c.need(s.Exec == ExecFrame, at+"safety.exec", "A step runs nothing but builder and checks.")
	c.need(len(s.Modules) == 0, at+"safety.modules", "No dangerous module is granted.")
	c.need(slices.Equal(s.WriteRoots, []string{RootWorkspace}), at+"safety.write_roots", "A step writes to its workspace only.")
}

// dependencies must lead to steps of this plan, without a cycle, and not too
// deep.
func (c *checker) dependencies() {
	var g Graph
	for i, s := range c.plan.Steps {
		err := g.AddNode(s.ID)
		c.need(err == nil || s.ID == "", fmt.Sprintf("steps[%d].id", i), "It stands twice.")
	}
	for i, s := range c.plan.Steps {
		for _, on := range s.DependsOn {
			if err := g.AddEdge(Edge{s.ID, on, DependsOn}); err != nil {
				c.need(false, fmt.Sprintf("steps[%d].depends_on", i), fmt.Sprintf("%q: %s", on, detailOf(err)))
			}
		}
	}
	if depth, most := g.Depth(), c.pack.Budgets.Depth; depth > most {
		c.need(false, "budgets.depth", fmt.Sprintf("The plan is %d steps deep, %d are allowed.", depth, most))
	}
}

// Order is the order in which the steps of a verified plan are done: after
// their dependencies, the least id first.
func Order(p Plan) []string {
	var g Graph
	for _, s := range p.Steps {
		_ = g.AddNode(s.ID) // a verified plan has no faults
	}
	for _, s := range p.Steps {
		for _, on := range s.DependsOn {
			_ = g.AddEdge(Edge{s.ID, on, DependsOn})
		}
	}
	return g.Order()
}

// maxID is the longest id of a step, in bytes: it stands in file names.
const maxID = 64

func validID(id string) bool {
	for i, c := range []byte(id) {
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !plain && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}
