package plan

import (
	"slices"
	"sort"

	"github.com/writbot/writ/kernel"
)

// EdgeKind is how one node of a graph relates to another.
type EdgeKind string

// The kinds of edges (seed 003 §6). The first two are derivation and stay
// acyclic, taken together; the third is conflict and may form cycles.
const (
	DependsOn   EdgeKind = "depends_on"
	Refines     EdgeKind = "refines"
	Contradicts EdgeKind = "contradicts"
)

// Edge leads from a node to the one that it depends on, refines or contradicts.
type Edge struct {
	From string
	To   string
	Kind EdgeKind
}

// Graph is the intent graph: nodes by id and the edges between them. The zero
// Graph is empty and ready. Nothing can be put into it that breaks its rules.
type Graph struct {
	nodes map[string][]string // derivation edges of each node, in order of arrival
	edges map[Edge]bool
}

// Error is a rule of this package that was broken.
type Error struct{ kernel.Violation }

// Error is the code, where, and the sentence.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Subject + ": " + e.Detail }

func invalid(subject, detail string) kernel.Violation {
	return kernel.Violation{Code: kernel.CodePlanInvalid, Subject: subject, Detail: detail}
}

// AddNode adds a node. An empty id or one that is there already is an [*Error].
func (g *Graph) AddNode(id string) error {
	if _, known := g.nodes[id]; known || id == "" {
		return &Error{invalid(id, "A node needs an id of its own.")}
	}
	if g.nodes == nil {
		g.nodes, g.edges = map[string][]string{}, map[Edge]bool{}
	}
	g.nodes[id] = nil
	return nil
}

// AddEdge adds an edge. It is an [*Error] if the kind is unknown, an end isn't
// there, the edge leads to its own node, contradictions included, is there
// already, or would close a cycle of derivation. The graph is then unchanged.
func (g *Graph) AddEdge(e Edge) error {
	_, from := g.nodes[e.From]
	_, to := g.nodes[e.To]
	derives := e.Kind == DependsOn || e.Kind == Refines
	detail := ""
	switch {
	case !derives && e.Kind != Contradicts:
		detail = "The kind of the edge is unknown."
	case !from || !to:
		detail = "The edge leads to a node that isn't there."
	case e.From == e.To:
		detail = "A node can't relate to itself."
	case g.edges[e]:
		detail = "The edge is there already."
	case derives && g.reaches(e.To, e.From, map[string]bool{}):
		detail = "The edge closes a cycle."
	}
	if detail != "" {
		return &Error{invalid(e.From+" "+string(e.Kind)+" "+e.To, detail)}
	}
	g.edges[e] = true
	if derives {
		g.nodes[e.From] = append(g.nodes[e.From], e.To)
	}
	return nil
}

func (g *Graph) reaches(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for _, next := range g.nodes[from] {
		if !seen[next] && g.reaches(next, to, seen) {
			return true
		}
	}
	return false
}

// Contradictions is the number of unordered pairs of nodes that contradict.
func (g *Graph) Contradictions() int64 {
	var n int64
	for e := range g.edges {
		if e.Kind == Contradicts && (e.From < e.To || !g.edges[Edge{e.To, e.From, Contradicts}]) {
			n++
		}
	}
	return n
}

// Order is the one order in which everything comes after what it depends on or
// refines; of those that could come next, the least id comes first.
func (g *Graph) Order() []string {
	waits := make(map[string]int, len(g.nodes))
	needed := make(map[string][]string, len(g.nodes))
	var ready []string
	for id, on := range g.nodes {
		waits[id] = len(on)
		if len(on) == 0 {
			ready = append(ready, id)
		}
		for _, to := range on {
			needed[to] = append(needed[to], id)
		}
	}
	sort.Strings(ready)
	out := make([]string, 0, len(g.nodes))
	for len(ready) > 0 {
		id := ready[0]
		ready = ready[1:]
		out = append(out, id)
		for _, next := range needed[id] {
			if waits[next]--; waits[next] == 0 {
				at, _ := slices.BinarySearch(ready, next)
				ready = slices.Insert(ready, at, next)
			}
		}
	}
	return out
}

// Depth is the number of nodes on the longest chain of derivation, 0 for an
// empty graph.
func (g *Graph) Depth() int64 {
	depth := make(map[string]int64, len(g.nodes))
	var deepest int64
	for _, id := range g.Order() {
		depth[id] = 1
		for _, to := range g.nodes[id] {
			depth[id] = max(depth[id], depth[to]+1)
		}
		deepest = max(deepest, depth[id])
	}
	return deepest
}
