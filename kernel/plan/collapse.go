package plan

import (
	"fmt"
	"sort"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Reason says why a candidate was pruned.
type Reason string

// The reasons, in the order in which they are tried.
const (
	PrunedInvalid           Reason = "invalid"            // a field is missing, empty or doubled
	PrunedSelfContradiction Reason = "self_contradiction" // it assumes something and its negation
	PrunedDuplicate         Reason = "duplicate"          // the same content was proposed before
	PrunedContradicted      Reason = "contradicted"       // it contradicts the winner
	PrunedOutscored         Reason = "outscored"          // the winner costs less, or wins the tie
)

// Pruned is a candidate that did not win, and why.
type Pruned struct {
	Hash   canon.Digest `json:"hash"` // "" where the content can't be hashed
	Cost   int64        `json:"cost"` // points
	Reason Reason       `json:"reason"`
}

// candidate is an interpretation with what collapse computes of it.
type candidate struct {
	Interpretation
	hash canon.Digest
	cost int64
}

// Collapse scores, prunes and chooses (seed 003 §5); the rule is the package
// comment's. With an empty list of violations the winner is the chosen
// interpretation; otherwise the kernel refuses, the winner is the zero value,
// and the violations say why: `plan.no_interpretation`,
// `policy.budget_exceeded` or `plan.contradictions_exceeded`. The order of the
// list doesn't matter. Pruned is sorted by cost, hash and reason.
func Collapse(list []Interpretation, b kernel.Budgets) (Interpretation, []Pruned, []kernel.Violation) {
	if n := int64(len(list)); n > b.Interpretations {
		return Interpretation{}, nil, []kernel.Violation{over("budgets.interpretations", n, b.Interpretations)}
	}
	kept, pruned := sift(list)
	if refused := refusals(kept, b); len(refused) > 0 {
		return Interpretation{}, sortPruned(pruned), kernel.SortViolations(refused)
	}
	winner := kept[0]
	for _, c := range kept[1:] {
		reason := PrunedOutscored
		if c.contradicts(winner.Interpretation) {
			reason = PrunedContradicted
		}
		pruned = append(pruned, Pruned{c.hash, c.cost, reason})
	}
	return winner.Interpretation, sortPruned(pruned), nil
}

// sift drops what can't be considered and sorts the rest, best first.
func sift(list []Interpretation) (kept []candidate, pruned []Pruned) {
	seen := map[canon.Digest]bool{}
	for _, i := range list {
		c := candidate{Interpretation: i, cost: i.Cost()}
		reason := i.fault()
		hash, err := i.Hash()
		if err != nil {
			reason = PrunedInvalid
		} else {
			c.hash = hash
		}
		if reason == "" && seen[hash] {
			reason = PrunedDuplicate
		}
		if reason != "" {
			pruned = append(pruned, Pruned{c.hash, c.cost, reason})
			continue
		}
		seen[hash] = true
		kept = append(kept, c)
	}
	sort.Slice(kept, func(a, b int) bool {
		return kept[a].cost < kept[b].cost || kept[a].cost == kept[b].cost && kept[a].hash < kept[b].hash
	})
	return kept, pruned
}

// refusals are the reasons not to choose at all.
func refusals(kept []candidate, b kernel.Budgets) []kernel.Violation {
	if len(kept) == 0 {
		return []kernel.Violation{{
			Code: kernel.CodeNoInterpretation, Subject: "interpretations",
			Detail: "There is no valid interpretation to choose from.",
		}}
	}
	var out []kernel.Violation
	if n := nodes(kept); n > b.Nodes {
		out = append(out, over("budgets.nodes", n, b.Nodes))
	}
	if n := contradictions(kept); n > b.Contradictions {
		out = append(out, kernel.Violation{
			Code: kernel.CodeContradictionsBudget, Subject: "budgets.contradictions",
			Detail: fmt.Sprintf("%d pairs of interpretations contradict each other, %d are allowed.", n, b.Contradictions),
		})
	}
	return out
}

// nodes is the size of the intent graph: candidates and distinct assumptions.
func nodes(kept []candidate) int64 {
	assumed := map[string]bool{}
	for _, c := range kept {
		for _, a := range folded(c.Assumptions) {
			assumed[a] = true
		}
	}
	return int64(len(kept) + len(assumed))
}

// contradictions counts the unordered pairs of candidates that contradict.
func contradictions(kept []candidate) int64 {
	var n int64
	for i, a := range kept {
		for _, b := range kept[i+1:] {
			if a.contradicts(b.Interpretation) {
				n++
			}
		}
	}
	return n
}

func over(subject string, n, limit int64) kernel.Violation {
	return kernel.Violation{
		Code: kernel.CodeBudgetExceeded, Subject: subject,
		Detail: fmt.Sprintf("It would take %d, %d are allowed.", n, limit),
	}
}

func sortPruned(list []Pruned) []Pruned {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case a.Cost != b.Cost:
			return a.Cost < b.Cost
		case a.Hash != b.Hash:
			return a.Hash < b.Hash
		}
		return a.Reason < b.Reason
	})
	return list
}
