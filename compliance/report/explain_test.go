package report

import (
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// TestI4_EachRuleHasWords: an explanation says of each rule in words what it asks.
func TestI4_EachRuleHasWords(t *testing.T) {
	const unclaimed = kernel.Phase("unclaimed")
	phases := []kernel.Phase{unclaimed, "", kernel.PhaseClaimed, kernel.PhaseBuilding, kernel.PhaseBuilt, kernel.PhaseSealed, kernel.PhaseChecking, kernel.PhaseChecked, kernel.PhaseJudged}
	for _, phase := range phases {
		f := kernel.Facts{Request: kernel.RequestTick, Head: kernel.HeadFacts{OID: strings.Repeat("7", 40), State: string(kernel.TaskCompleted)}}
		switch phase {
		case "":
		case unclaimed:
			f.Head = kernel.HeadFacts{}
		default:
			f.Run = &kernel.RunFacts{Phase: phase}
		}
		f.Budget = &kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 1}}
		f.Missing = &kernel.MissingFacts{Faults: []kernel.Violation{{Code: kernel.CodeChangeLost}}}
		d := kernel.DecideOn(f, "")
		if len(d.Reasons.Children) == 0 {
			t.Errorf("%q: no rule is asked", phase)
		}
		for _, r := range d.Reasons.Children {
			if ruleWords[r.Rule] == "" {
				t.Errorf("%q: the rule %s has no words", phase, r.Rule)
			}
		}
	}
}
