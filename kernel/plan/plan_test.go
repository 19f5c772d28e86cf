package plan_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
)

// KC17, KC27, KC58: same pack, same bytes; a change of them is seen.
func TestKC58_DerivedGolden(t *testing.T) {
	p := pack()
	spec, made := derived(t, p)
	var out bytes.Buffer
	for _, v := range []any{plan.Derive(p), spec, made, plan.Propose(made)} {
		b := marshal(t, v)
		fmt.Fprintf(&out, "%s\n%s\n", b, canon.Sum(b))
	}
	golden(t, "derived.golden", out.Bytes())
}

func TestHashesAreOfCanonicalBytes(t *testing.T) {
	spec, made := derived(t, pack())
	i := plan.Derive(pack())
	for _, v := range []interface{ Hash() (canon.Digest, error) }{i, spec, made} {
		got, err := v.Hash()
		if want := canon.Sum(marshal(t, v)); err != nil || got != want {
			t.Errorf("%T: hash %s, %v; the bytes have %s", v, got, err, want)
		}
	}
}

// T58: what was recorded of a failed attempt is data of the dispatch and moves
// neither spec nor plan.
func TestT58_RetryLeavesThePlanAlone(t *testing.T) {
	p := pack()
	_, before := derived(t, p)
	p.Retry = &kernel.Retry{Attempt: 1, Run: "r1"}
	_, after := derived(t, p)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a retry changes the plan: %s", diff)
	}
}

func TestDerivedPlanVerifies(t *testing.T) {
	p := pack()
	_, made := derived(t, p)
	if list := plan.Verify(made, p); len(list) > 0 {
		t.Errorf("violations: %v", list)
	}
	if diff := cmp.Diff([]string{kernel.SingleStep}, plan.Order(made)); diff != "" {
		t.Error(diff)
	}
	p.Checks = nil
	if _, made = derived(t, p); len(plan.Verify(made, p)) > 0 {
		t.Error("a contract without checks has a plan, too")
	}
}

// stepOf is a valid step beside the derived one.
func stepOf(p plan.Plan, id string, on ...string) plan.Step {
	s := p.Steps[0]
	s.ID, s.DependsOn = id, on
	return s
}

// KC47 to KC53: one plan per failing rule.
func TestKC47_EachRuleRefuses(t *testing.T) {
	cases := []struct {
		name    string
		change  func(*plan.Plan)
		subject string
	}{
		{"kind", func(p *plan.Plan) { p.Kind = "plan_proposal" }, "kind"},
		{"version", func(p *plan.Plan) { p.V = 2 }, "v"},
		{"source", func(p *plan.Plan) { p.Source = "" }, "source"},
		{"spec", func(p *plan.Plan) { p.Spec = "sha256:12" }, "spec_hash"},
		{"base commit", func(p *plan.Plan) { p.Pins.BaseCommit = strings.Repeat("2", 40) }, "pins"},
		{"contract", func(p *plan.Plan) { p.Pins.Governance = digest("c") }, "pins"},
		{"kernel", func(p *plan.Plan) { p.Pins.Kernel = "0.2.0" }, "pins"},
		{"policy", func(p *plan.Plan) { p.Pins.Policy = "2" }, "pins"},
		{"no step", func(p *plan.Plan) { p.Steps = nil }, "steps"},
		{"no id", func(p *plan.Plan) { p.Steps[0].ID = "" }, "steps[0].id"},
		{"id form", func(p *plan.Plan) { p.Steps[0].ID = "../x" }, "steps[0].id"},
		{"id length", func(p *plan.Plan) { p.Steps[0].ID = strings.Repeat("a", 65) }, "steps[0].id"},
		{"id twice", func(p *plan.Plan) { p.Steps = append(p.Steps, stepOf(*p, "s1")) }, "steps[1].id"},
		{"no action", func(p *plan.Plan) { p.Steps[0].Action = "" }, "steps[0].action"},
		{"unknown action", func(p *plan.Plan) { p.Steps[0].Action = "exec" }, "steps[0].action"},
		{"no target", func(p *plan.Plan) { p.Steps[0].Targets = nil }, "steps[0].targets"},
		{"foreign target", func(p *plan.Plan) { p.Steps[0].Targets = []string{"main.go"} }, "steps[0].targets"},
		{"target twice", func(p *plan.Plan) { p.Steps[0].Targets = []string{"go.mod", "go.mod"} }, "steps[0].targets"},
		{"no expectation", func(p *plan.Plan) { p.Steps[0].Expects = nil }, "steps[0].expects"},
		{"empty expectation", func(p *plan.Plan) { p.Steps[0].Expects = []plan.Expect{{}} }, "steps[0].expects"},
		{"both expectations", func(p *plan.Plan) { p.Steps[0].Expects[0].Path = "go.mod" }, "steps[0].expects"},
		{"hash without path", func(p *plan.Plan) { p.Steps[0].Expects[0].Hash = digest("d") }, "steps[0].expects"},
		{"bad hash", func(p *plan.Plan) { p.Steps[0].Expects[0] = plan.Expect{Path: "go.mod", Hash: "12"} }, "steps[0].expects"},
		{"no evidence", func(p *plan.Plan) { p.Steps[0].Evidence = nil }, "steps[0].evidence"},
		{"unknown evidence", func(p *plan.Plan) { p.Steps[0].Evidence = []string{"check:lint"} }, "steps[0].evidence"},
		{"scope left out", func(p *plan.Plan) { p.Invariants = p.Invariants[1:] }, "invariants"},
		{"check left out", func(p *plan.Plan) { p.Invariants = p.Invariants[:3] }, "invariants"},
		{"unknown invariant", func(p *plan.Plan) { p.Invariants = append(p.Invariants, "beauty") }, "invariants"},
		{"invariant twice", func(p *plan.Plan) { p.Invariants = append(p.Invariants, "scope") }, "invariants"},
		{"network", func(p *plan.Plan) { p.Steps[0].Safety.Network = true }, "steps[0].safety.network"},
		{"program", func(p *plan.Plan) { p.Steps[0].Safety.Exec = "/bin/sh" }, "steps[0].safety.exec"},
		{"exec not said", func(p *plan.Plan) { p.Steps[0].Safety.Exec = "" }, "steps[0].safety.exec"},
		{"module", func(p *plan.Plan) { p.Steps[0].Safety.Modules = []string{"net"} }, "steps[0].safety.modules"},
		{"root", func(p *plan.Plan) { p.Steps[0].Safety.WriteRoots = []string{"workspace", "/etc"} }, "steps[0].safety.write_roots"},
		{"no root", func(p *plan.Plan) { p.Steps[0].Safety.WriteRoots = nil }, "steps[0].safety.write_roots"},
		{"dangling", func(p *plan.Plan) { p.Steps[0].DependsOn = []string{"s9"} }, "steps[0].depends_on"},
		{"self", func(p *plan.Plan) { p.Steps[0].DependsOn = []string{"s1"} }, "steps[0].depends_on"},
		{"cycle", func(p *plan.Plan) {
			p.Steps = []plan.Step{stepOf(*p, "a", "b"), stepOf(*p, "b", "a")}
		}, "steps[1].depends_on"},
		{"too many steps", func(p *plan.Plan) {
			p.Steps = []plan.Step{stepOf(*p, "a"), stepOf(*p, "b"), stepOf(*p, "c"), stepOf(*p, "d"), stepOf(*p, "e")}
		}, "budgets.steps"},
		{"too deep", func(p *plan.Plan) {
			p.Steps = []plan.Step{stepOf(*p, "a"), stepOf(*p, "b", "a"), stepOf(*p, "c", "b"), stepOf(*p, "d", "c")}
		}, "budgets.depth"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := pack()
			_, made := derived(t, p)
			c.change(&made)
			list := plan.Verify(made, p)
			found := false
			for _, v := range list {
				found = found || v.Subject == c.subject
				if v.Code != kernel.CodePlanInvalid || v.Detail == "" {
					t.Errorf("violation %+v", v)
				}
			}
			if !found {
				t.Errorf("nothing about %s: %v", c.subject, list)
			}
		})
	}
}

// KC4: at the limit, and one below.
func TestKC4_PlanBudgets(t *testing.T) {
	for _, set := range []func(*kernel.Budgets, int64){
		func(b *kernel.Budgets, n int64) { b.Steps = n },
		func(b *kernel.Budgets, n int64) { b.Nodes = n },
		func(b *kernel.Budgets, n int64) { b.Depth = n },
	} {
		for n, ok := range map[int64]bool{2: false, 3: true} {
			p := pack()
			_, made := derived(t, p)
			made.Steps = []plan.Step{stepOf(made, "a"), stepOf(made, "b", "a"), stepOf(made, "c", "b")}
			set(&p.Budgets, n)
			if list := plan.Verify(made, p); (len(list) == 0) != ok {
				t.Errorf("%+v: %v", p.Budgets, list)
			}
		}
	}
}

// KC48: any bytes get a verdict, and the same one twice.
func FuzzKC48_Verify(f *testing.F) {
	p := pack()
	spec, err := plan.Commit(plan.Derive(p), p)
	if err != nil {
		f.Fatal(err)
	}
	made, err := plan.DerivePlan(spec, p)
	if err != nil {
		f.Fatal(err)
	}
	seed, err := canon.Marshal(made)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got plan.Plan
		if canon.Unmarshal(data, &got, canon.Limits{}) != nil {
			return
		}
		first, second := plan.Verify(got, p), plan.Verify(got, p)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Error(diff)
		}
		for _, id := range append(plan.Order(got), "s1") {
			plan.VerifyStep(got, id, kernel.Diff{}, kernel.RunResult{})
		}
	})
}
