package plan_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
)

var update = flag.Bool("update", false, "rewrite the goldens; the commit says why")

func digest(c string) canon.Digest { return canon.Digest("sha256:" + strings.Repeat(c, 64)) }

// pack is the seed pack of most tests.
func pack() kernel.SeedPack {
	return kernel.SeedPack{
		Kind: string(kernel.KindSeedPack), V: kernel.SeedPackVersion, World: "forge.example/owner/calc", Task: 7,
		Title: "Add handles negative numbers", Body: "It overflows.", Prose: "It overflows.",
		Approval: kernel.Approval{Digest: digest("a"), Actor: "u1", Evidence: "signed payload", Time: 1_700_000_000_000},
		Spec: kernel.TaskSpec{
			AllowedFiles: []string{"calc/**", "go.mod"}, ExpectedOutcome: "`go test ./calc` passes",
			Checks: []string{"test", "vet"}, Builder: "default",
		},
		Checks: []kernel.Check{
			{Name: "test", Argv: []string{"go", "test", "./calc"}, TimeoutMs: 60_000, Repeat: 2},
			{Name: "vet", Argv: []string{"go", "vet", "./..."}, TimeoutMs: 60_000, Repeat: 1},
		},
		Budgets: kernel.Budgets{Interpretations: 3, Nodes: 12, Steps: 4, Depth: 3, Contradictions: 1},
		Pins: kernel.Pins{
			BaseCommit: strings.Repeat("1", 40), Governance: digest("b"), Kernel: "0.1.0", Policy: "1",
		},
		CommitMessage: "calc: Add handles negative numbers",
	}
}

// derived is the plan that pack leads to.
func derived(t *testing.T, p kernel.SeedPack) (plan.Spec, plan.Plan) {
	t.Helper()
	winner, _, refused := plan.Collapse([]plan.Interpretation{plan.Derive(p)}, p.Budgets)
	if len(refused) > 0 {
		t.Fatalf("the derived interpretation is refused: %v", refused)
	}
	spec, err := plan.Commit(winner, p)
	if err != nil {
		t.Fatal(err)
	}
	made, err := plan.DerivePlan(spec, p)
	if err != nil {
		t.Fatal(err)
	}
	return spec, made
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; this breaks every ledger that holds it.\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

// checks sets how many cases rapid draws in this test.
func checks(t *testing.T, n string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	if err := f.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}
