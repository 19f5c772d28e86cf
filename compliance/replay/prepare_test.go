package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestPrepare_OfTheContract: what a seed pack says was prepared, and which hosts a check might
// reach, is the contract's; a server's cap may have shortened a timeout.
func TestPrepare_OfTheContract(t *testing.T) {
	c, _, faults := contract.Load([]byte(`version: 1
prepare: [{name: deps, run: [go, mod, download], hosts: [proxy.example.org], keys: [go.mod]}, {name: warm, run: [go, build]}]
checks: [{name: test, run: [go, test], hosts: [registry.example.org]}]
`), contract.Source{Name: FileContract})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	capped := c.Preparation(contract.Caps{CheckTimeoutMs: 1000})
	if !offersSteps(c.Steps(), c.Steps()) || !offersSteps(c.Steps(), capped) {
		t.Error("the contract's own are refused")
	}
	for name, change := range map[string]func([]kernel.Step) []kernel.Step{
		"none":       func([]kernel.Step) []kernel.Step { return nil },
		"another":    func(s []kernel.Step) []kernel.Step { s[0].Argv = []string{"go", "run", "."}; return s },
		"more hosts": func(s []kernel.Step) []kernel.Step { s[0].Hosts = append(s[0].Hosts, "example.org"); return s },
		"more files": func(s []kernel.Step) []kernel.Step { s[0].Keys = nil; return s },
		"longer":     func(s []kernel.Step) []kernel.Step { s[1].TimeoutMs++; return s },
		"another order": func(s []kernel.Step) []kernel.Step {
			slices.Reverse(s)
			return s
		},
	} {
		if offersSteps(c.Steps(), change(c.Steps())) {
			t.Errorf("%s: taken", name)
		}
	}
	checks, _ := c.SelectChecks(nil)
	checks[0].Hosts = []string{"registry.example.org", "elsewhere.example.org"}
	if offers(c, nil, checks) {
		t.Error("a check with more hosts is taken")
	}
}

// TestPrepare_AsTold: a record tells of the contract's steps, each once, and of nothing else.
func TestPrepare_AsTold(t *testing.T) {
	step := func(name string) kernel.StepResult {
		return kernel.StepResult{Name: name, Exit: kernel.Exit{Cause: kernel.CauseExited}, Output: kernel.Stream{Digest: canon.Sum(nil)}}
	}
	v := &verifier{seed: &kernel.SeedPack{Prepare: []kernel.Step{{Name: "deps"}, {Name: "warm"}}}}
	for name, c := range map[string]struct {
		told  *kernel.Prepared
		fault string
	}{
		"nothing":          {nil, ""},
		"the layer's":      {&kernel.Prepared{}, ""},
		"both":             {&kernel.Prepared{Steps: []kernel.StepResult{step("deps"), step("warm")}}, ""},
		"one twice":        {&kernel.Prepared{Steps: []kernel.StepResult{step("deps"), step("deps")}}, "told of already"},
		"one of nobody's":  {&kernel.Prepared{Steps: []kernel.StepResult{step("curl")}}, "none of the contract's"},
		"of another bytes": {&kernel.Prepared{Steps: []kernel.StepResult{{Name: "deps", Output: kernel.Stream{Tail: "x", Bytes: 1, Digest: canon.Sum(nil)}}}}, "digest"},
	} {
		var f findings
		v.checkPrepared(&f, 7, c.told)
		if got := fmt.Sprint(f.faults); c.fault == "" && len(f.faults) > 0 || !strings.Contains(got, c.fault) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
