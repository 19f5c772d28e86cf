package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/plan"
)

func goodDiff(p kernel.SeedPack) kernel.Diff {
	return kernel.Diff{
		Kind: string(kernel.KindDiff), Run: "r1", Base: p.Pins.BaseCommit,
		Changes: []kernel.Change{{Path: "calc/add.go", Op: kernel.OpModify, AfterHash: digest("e")}},
	}
}

func goodRun() kernel.RunResult {
	return kernel.RunResult{Kind: string(kernel.KindRunResult), Run: "r1", Checks: []kernel.CheckResult{
		{Name: "test", Passed: true, Runs: 2, Stable: true},
		{Name: "vet", Passed: true, Runs: 1, Stable: true},
	}}
}

// KC39, KC60: step match, dependencies, invariants proven by the run result.
func TestKC60_VerifyStep(t *testing.T) {
	type input struct {
		plan plan.Plan
		id   string
		diff kernel.Diff
		run  kernel.RunResult
		done []string
	}
	cases := []struct {
		name   string
		change func(*input)
		want   []kernel.Code
	}{
		{"good", func(*input) {}, []kernel.Code{}},
		{"unknown step", func(in *input) { in.id = "s2" }, []kernel.Code{kernel.CodePlanInvalid}},
		{"dependency missing", func(in *input) { in.plan.Steps[0].DependsOn = []string{"s0"} }, []kernel.Code{kernel.CodePlanInvalid}},
		{"dependency accepted", func(in *input) {
			in.plan.Steps[0].DependsOn, in.done = []string{"s0"}, []string{"s0"}
		}, []kernel.Code{}},
		{"drifted base", func(in *input) { in.diff.Base = "2" }, []kernel.Code{kernel.CodePlanInvalid}},
		{"other run", func(in *input) { in.run.Run = "r2" }, []kernel.Code{kernel.CodePlanInvalid}},
		{"empty diff", func(in *input) { in.diff.Changes = nil }, []kernel.Code{kernel.CodeNoOutput}},
		{"scope", func(in *input) {
			in.diff.Violations = []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: "x"}}
		}, []kernel.Code{kernel.CodeScopeOutside}},
		{"expected file missing", func(in *input) {
			in.plan.Steps[0].Expects = []plan.Expect{{Path: "go.mod"}}
		}, []kernel.Code{kernel.CodePlanInvalid}},
		{"expected hash wrong", func(in *input) {
			in.plan.Steps[0].Expects = []plan.Expect{{Path: "calc/add.go", Hash: digest("f")}}
		}, []kernel.Code{kernel.CodePlanInvalid}},
		{"expected file deleted", func(in *input) {
			in.plan.Steps[0].Expects = []plan.Expect{{Path: "calc/add.go"}}
			in.diff.Changes[0].Op = kernel.OpDelete
		}, []kernel.Code{kernel.CodePlanInvalid}},
		{"expected hash there", func(in *input) {
			in.plan.Steps[0].Expects = []plan.Expect{{Path: "calc/add.go", Hash: digest("e")}}
		}, []kernel.Code{}},
		{"check missing", func(in *input) { in.run.Checks = in.run.Checks[:1] }, []kernel.Code{kernel.CodeCheckFailed}},
		{"check not run", func(in *input) { in.run.Checks[0].Runs = 0 }, []kernel.Code{kernel.CodeCheckFailed}},
		{"check unstable", func(in *input) { in.run.Checks[0].Stable = false }, []kernel.Code{kernel.CodeNondeterministic}},
		{"check failed", func(in *input) { in.run.Checks[1].Passed = false }, []kernel.Code{kernel.CodeCheckFailed}},
		{"check twice", func(in *input) { in.run.Checks[1].Name = "test" }, []kernel.Code{kernel.CodeCheckFailed, kernel.CodeNondeterministic}},
		{"invariant without evidence", func(in *input) {
			in.plan.Steps[0].Evidence = []string{plan.InvariantScope}
			in.run.Checks = nil
		}, []kernel.Code{kernel.CodeCheckFailed}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := pack()
			_, made := derived(t, p)
			in := input{plan: made, id: kernel.SingleStep, diff: goodDiff(p), run: goodRun()}
			c.change(&in)
			list := plan.VerifyStep(in.plan, in.id, in.diff, in.run, in.done...)
			if diff := cmp.Diff(c.want, kernel.CodesOf(list)); diff != "" {
				t.Errorf("%s\n%v", diff, list)
			}
		})
	}
}
