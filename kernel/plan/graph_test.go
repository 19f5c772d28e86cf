package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/plan"
)

func graphOf(t *testing.T, ids ...string) *plan.Graph {
	t.Helper()
	g := &plan.Graph{}
	for _, id := range ids {
		if err := g.AddNode(id); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// KC31 to KC34: what an edge may be.
func TestKC33_Edges(t *testing.T) {
	cases := []struct {
		name  string
		edges []plan.Edge
		ok    bool // the last one
	}{
		{"dangling", []plan.Edge{{"a", "z", plan.DependsOn}}, false},
		{"from nowhere", []plan.Edge{{"z", "a", plan.Contradicts}}, false},
		{"unknown kind", []plan.Edge{{"a", "b", "likes"}}, false},
		{"depends on itself", []plan.Edge{{"a", "a", plan.DependsOn}}, false},
		{"contradicts itself", []plan.Edge{{"a", "a", plan.Contradicts}}, false},
		{"twice", []plan.Edge{{"a", "b", plan.Refines}, {"a", "b", plan.Refines}}, false},
		{"two kinds", []plan.Edge{{"a", "b", plan.Refines}, {"a", "b", plan.DependsOn}}, true},
		{"mixed cycle", []plan.Edge{{"a", "b", plan.Refines}, {"b", "c", plan.DependsOn}, {"c", "a", plan.Refines}}, false},
		{"cycle of contradictions", []plan.Edge{{"a", "b", plan.Contradicts}, {"b", "c", plan.Contradicts}, {"c", "a", plan.Contradicts}}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := graphOf(t, "a", "b", "c")
			var err error
			for i, e := range c.edges {
				if err = g.AddEdge(e); err != nil && i < len(c.edges)-1 {
					t.Fatal(err)
				}
			}
			var broken *plan.Error
			if (err == nil) != c.ok || err != nil && (!errors.As(err, &broken) || broken.Code != kernel.CodePlanInvalid) {
				t.Errorf("error %v", err)
			}
		})
	}
	g := graphOf(t, "a")
	if g.AddNode("a") == nil || g.AddNode("") == nil {
		t.Error("a node without an id of its own was added")
	}
}

// cyclic looks for a way from any node back to itself, in the naive way.
func cyclic(n int, edges map[[2]int]bool) bool {
	for range n {
		for e := range edges {
			for f := range edges {
				if e[1] == f[0] {
					edges[[2]int{e[0], f[1]}] = true
				}
			}
		}
	}
	for i := range n {
		if edges[[2]int{i, i}] {
			return true
		}
	}
	return false
}

// KC31, KC50: no cycle gets in, nothing else is kept out, and the order is the
// first of all valid ones.
func TestKC31_RandomGraphs(t *testing.T) {
	checks(t, "2000")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "nodes")
		g := &plan.Graph{}
		for i := range n {
			if err := g.AddNode(fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		kept := map[[2]int]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
			kind := rapid.SampledFrom([]plan.EdgeKind{plan.DependsOn, plan.Refines}).Draw(t, "kind")
			with := map[[2]int]bool{{from, to}: true}
			for e := range kept {
				with[e] = true
			}
			err := g.AddEdge(plan.Edge{From: fmt.Sprint(from), To: fmt.Sprint(to), Kind: kind})
			if closes := cyclic(n, with); closes && err == nil || !closes && err != nil && !kept[[2]int{from, to}] {
				t.Fatalf("edge %d to %d closes a cycle: %t, error %v", from, to, closes, err)
			}
			if err == nil {
				kept[[2]int{from, to}] = true
			}
		}
		if diff := cmp.Diff(firstOrder(n, kept), g.Order()); diff != "" {
			t.Fatal(diff)
		}
		if got, want := g.Depth(), longest(n, kept); got != want {
			t.Fatalf("depth %d, want %d", got, want)
		}
	})
}

// firstOrder takes again and again the least node whose needs are met.
func firstOrder(n int, edges map[[2]int]bool) []string {
	var out []string
	for len(out) < n {
		for i := range n {
			id, free := fmt.Sprint(i), true
			for e := range edges {
				free = free && (e[0] != i || slices.Contains(out, fmt.Sprint(e[1])))
			}
			if free && !slices.Contains(out, id) {
				out = append(out, id)
				break
			}
		}
	}
	return out
}

func longest(n int, edges map[[2]int]bool) int64 {
	var from func(i int) int64
	from = func(i int) int64 {
		most := int64(1)
		for e := range edges {
			if e[0] == i {
				most = max(most, from(e[1])+1)
			}
		}
		return most
	}
	var most int64
	for i := range n {
		most = max(most, from(i))
	}
	return most
}

// KC38: a pair is one contradiction, whichever way it was said.
func TestKC38_Contradictions(t *testing.T) {
	g := graphOf(t, "a", "b", "c")
	for _, e := range []plan.Edge{{"a", "b", plan.Contradicts}, {"b", "a", plan.Contradicts}, {"c", "b", plan.Contradicts}} {
		if err := g.AddEdge(e); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.Contradictions(); got != 2 {
		t.Errorf("%d contradictions, want 2", got)
	}
}
