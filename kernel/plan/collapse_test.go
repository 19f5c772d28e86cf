package plan_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
)

func proposal(source, summary string, assumptions, files []string) plan.Interpretation {
	return plan.Interpretation{
		Kind: string(kernel.KindInterpretation), V: plan.Version, Source: source, Summary: summary,
		Assumptions: assumptions, AllowedFiles: files, ExpectedOutcome: "tests pass",
	}
}

var roomy = kernel.Budgets{Interpretations: 100, Nodes: 1000, Contradictions: 100}

// KC22, KC23: each term of the cost, with its points.
func TestKC23_Cost(t *testing.T) {
	cases := []struct {
		name string
		in   plan.Interpretation
		want int64
	}{
		{"summary counts code points", proposal("p", "Größe", nil, []string{"a"}), 5 + 20},
		{"assumptions", proposal("p", "x", []string{"a", "b"}, []string{"a"}), 1 + 100 + 20},
		{"any depth", proposal("p", "x", nil, []string{"a/**", "b**"}), 1 + 40 + 100},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.in.Cost(); got != c.want {
				t.Errorf("cost %d, want %d", got, c.want)
			}
		})
	}
	sure := int64(999_999)
	boast := proposal("p", "x", nil, []string{"a"})
	boast.Confidence = &sure
	if boast.Cost() != 21 {
		t.Error("a proposer's own confidence is scored")
	}
}

// KC36, KC37, KC38: refusals and their codes.
func TestKC36_Refusals(t *testing.T) {
	a := proposal("p", "a", []string{"fast"}, []string{"x"})
	b := proposal("p", "b", []string{"Not fast "}, []string{"x"})
	selfish := proposal("p", "c", []string{"fast", "not fast"}, []string{"x"})
	cases := []struct {
		name    string
		list    []plan.Interpretation
		budgets kernel.Budgets
		want    []kernel.Code
		subject string
	}{
		{"nobody proposed", nil, roomy, []kernel.Code{kernel.CodeNoInterpretation}, "interpretations"},
		{"none valid", []plan.Interpretation{{}, selfish}, roomy, []kernel.Code{kernel.CodeNoInterpretation}, "interpretations"},
		{"candidates at the limit", []plan.Interpretation{a, b}, kernel.Budgets{Interpretations: 2, Nodes: 9, Contradictions: 1}, nil, ""},
		{"candidates over it", []plan.Interpretation{a, b}, kernel.Budgets{Interpretations: 1, Nodes: 9, Contradictions: 1}, []kernel.Code{kernel.CodeBudgetExceeded}, "budgets.interpretations"},
		{"nodes at the limit", []plan.Interpretation{a}, kernel.Budgets{Interpretations: 1, Nodes: 2}, nil, ""},
		{"nodes over it", []plan.Interpretation{a}, kernel.Budgets{Interpretations: 1, Nodes: 1}, []kernel.Code{kernel.CodeBudgetExceeded}, "budgets.nodes"},
		{"contradictions over the limit", []plan.Interpretation{a, b}, kernel.Budgets{Interpretations: 2, Nodes: 9}, []kernel.Code{kernel.CodeContradictionsBudget}, "budgets.contradictions"},
		{"both", []plan.Interpretation{a, b}, kernel.Budgets{Interpretations: 2, Nodes: 3}, []kernel.Code{kernel.CodeBudgetExceeded, kernel.CodeContradictionsBudget}, "budgets.nodes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			winner, _, refused := plan.Collapse(c.list, c.budgets)
			if got := kernel.CodesOf(refused); !slices.Equal(got, c.want) {
				t.Fatalf("codes %v, want %v", got, c.want)
			}
			if len(c.want) == 0 {
				return
			}
			if refused[0].Subject != c.subject || winner.Kind != "" {
				t.Errorf("subject %q, winner %+v", refused[0].Subject, winner)
			}
		})
	}
}

// KC25: each that isn't chosen has its reason.
func TestKC25_Pruned(t *testing.T) {
	best := proposal("p", "a", nil, []string{"x"})
	second := proposal("p", "ab", nil, []string{"x"})
	rival := proposal("p", "abc", []string{"slow"}, []string{"x"})
	best.Assumptions = []string{}
	against := proposal("p", "abc", []string{"not slow"}, []string{"x"})
	twin := best
	bad := proposal("p", "", nil, []string{"x"})
	torn := proposal("p", "x", []string{"q", "not q"}, []string{"x"})
	winner, pruned, refused := plan.Collapse([]plan.Interpretation{rival, second, bad, twin, torn, best, against}, roomy)
	if len(refused) > 0 || winner.Summary != "a" {
		t.Fatalf("winner %q, refused %v", winner.Summary, refused)
	}
	reasons := map[plan.Reason]int{}
	for _, p := range pruned {
		reasons[p.Reason]++
	}
	want := map[plan.Reason]int{
		plan.PrunedDuplicate: 1, plan.PrunedInvalid: 1, plan.PrunedSelfContradiction: 1, plan.PrunedOutscored: 3,
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Error(diff)
	}
	cheap := proposal("p", "a", []string{"slow"}, []string{"x"})
	_, pruned, _ = plan.Collapse([]plan.Interpretation{cheap, against}, roomy)
	if len(pruned) != 1 || pruned[0].Reason != plan.PrunedContradicted {
		t.Errorf("pruned %v", pruned)
	}
}

// candidates draws sets in which ties, duplicates and contradictions are common.
func candidates(t *rapid.T) []plan.Interpretation {
	word := rapid.SampledFrom([]string{"a", "b", "not a", "not b", "NOT a", " a ", "c", ""})
	one := rapid.Custom(func(t *rapid.T) plan.Interpretation {
		return proposal(
			rapid.SampledFrom([]string{"p", "q"}).Draw(t, "source"),
			rapid.SampledFrom([]string{"", "x", "y", "xy"}).Draw(t, "summary"),
			rapid.SliceOfN(word, 0, 3).Draw(t, "assumptions"),
			rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a/**", "b"}), 0, 2).Draw(t, "files"),
		)
	})
	return rapid.SliceOfN(one, 0, 6).Draw(t, "candidates")
}

// oracle chooses with the rule of the package comment, in the dumbest way.
func oracle(list []plan.Interpretation, b kernel.Budgets) (hash canon.Digest, refused []kernel.Code) {
	if int64(len(list)) > b.Interpretations {
		return "", []kernel.Code{kernel.CodeBudgetExceeded}
	}
	fold := func(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
	clash := func(x, y plan.Interpretation) bool {
		for _, a := range x.Assumptions {
			for _, b := range y.Assumptions {
				if fold(b) == "not "+fold(a) || fold(a) == "not "+fold(b) {
					return true
				}
			}
		}
		return false
	}
	blankOrTwice := func(list []string) bool {
		for i, s := range list {
			if s == "" || slices.Contains(list[:i], s) {
				return true
			}
		}
		return false
	}
	byHash := map[canon.Digest]plan.Interpretation{}
	nodes := map[string]bool{}
	for _, c := range list {
		var folded []string
		for _, a := range c.Assumptions {
			folded = append(folded, fold(a))
		}
		if c.Summary == "" || len(c.AllowedFiles) == 0 || blankOrTwice(c.AllowedFiles) || blankOrTwice(folded) || clash(c, c) {
			continue
		}
		h, _ := canon.Hash(c)
		byHash[h] = c
		nodes[string(h)] = true
		for _, a := range folded {
			nodes[a] = true
		}
	}
	if len(byHash) == 0 {
		return "", []kernel.Code{kernel.CodeNoInterpretation}
	}
	ordered, best := 0, int64(0)
	for h, c := range byHash {
		cost := int64(utf8.RuneCountInString(c.Summary) + 50*len(c.Assumptions) + 20*len(c.AllowedFiles))
		for _, f := range c.AllowedFiles {
			if strings.HasSuffix(f, "/**") {
				cost += 100
			}
		}
		if hash == "" || cost < best || cost == best && h < hash {
			hash, best = h, cost
		}
		for _, other := range byHash {
			if clash(c, other) {
				ordered++
			}
		}
	}
	if int64(len(nodes)) > b.Nodes {
		refused = append(refused, kernel.CodeBudgetExceeded)
	}
	if int64(ordered/2) > b.Contradictions {
		refused = append(refused, kernel.CodeContradictionsBudget)
	}
	if refused != nil {
		hash = ""
	}
	return hash, refused
}

// KC3, KC24 to KC26: the oracle's choice, in whatever order the candidates come.
func TestKC3_CollapseAgainstOracle(t *testing.T) {
	checks(t, "10000")
	rapid.Check(t, func(t *rapid.T) {
		list := candidates(t)
		b := kernel.Budgets{
			Interpretations: rapid.Int64Range(4, 6).Draw(t, "interpretations"),
			Nodes:           rapid.Int64Range(3, 12).Draw(t, "nodes"),
			Contradictions:  rapid.Int64Range(0, 3).Draw(t, "contradictions"),
		}
		wantHash, wantCodes := oracle(list, b)
		winner, pruned, refused := plan.Collapse(list, b)
		var got canon.Digest
		if len(refused) == 0 {
			got, _ = winner.Hash()
		}
		if got != wantHash || !slices.Equal(kernel.CodesOf(refused), wantCodes) {
			t.Fatalf("winner %s %v, the oracle has %s %v", got, refused, wantHash, wantCodes)
		}
		again, prunedAgain, refusedAgain := plan.Collapse(rapid.Permutation(list).Draw(t, "order"), b)
		if diff := cmp.Diff([]any{winner, pruned, refused}, []any{again, prunedAgain, refusedAgain}); diff != "" {
			t.Fatalf("the order of arrival matters: %s", diff)
		}
		if len(refused) == 0 && len(pruned) != len(list)-1 {
			t.Fatalf("%d of %d candidates were pruned", len(pruned), len(list))
		}
	})
}

// KC27 to KC29: the worked example of the package comment, byte for byte.
func TestKC22_WorkedExample(t *testing.T) {
	list := []plan.Interpretation{
		proposal("planner-a", "Make Add work for negative numbers", []string{"overflow wraps"}, []string{"calc/**"}),
		proposal("planner-b", "Handle negatives in Add", []string{"not overflow wraps"}, []string{"calc/add.go", "calc/add_test.go"}),
		proposal("planner-c", "Rewrite the calculator", nil, []string{"**"}),
	}
	winner, pruned, refused := plan.Collapse(list, kernel.Budgets{Interpretations: 3, Nodes: 5, Contradictions: 1})
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	hash, err := winner.Hash()
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{string(marshal(t, winner)), fmt.Sprintf("%d %s chosen", winner.Cost(), hash)}
	for _, p := range pruned {
		lines = append(lines, fmt.Sprintf("%d %s %s", p.Cost, p.Hash, p.Reason))
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !bytes.Contains(doc, []byte("//\t"+line+"\n")) {
			t.Errorf("the package comment lacks this line:\n%s", line)
		}
	}
}
