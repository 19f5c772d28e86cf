package kernel_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestKC7_TwoClasses: each kind of record belongs to exactly one of the two
// classes, the one written here, and there is no third class.
func TestKC7_TwoClasses(t *testing.T) {
	want := map[kernel.Kind]kernel.Class{
		"genesis": kernel.ClassCommit, "observation": kernel.ClassProposal, "interpretation": kernel.ClassProposal,
		"plan_proposal": kernel.ClassProposal, "builder_result": kernel.ClassProposal, "diff": kernel.ClassProposal,
		"run_result": kernel.ClassProposal, "outcome": kernel.ClassProposal, "operator_act": kernel.ClassProposal, "adoption": kernel.ClassProposal,
		"key_rotation": kernel.ClassProposal,
		"seed_pack":    kernel.ClassCommit, "spec": kernel.ClassCommit, "plan": kernel.ClassCommit, "dispatch": kernel.ClassCommit,
		"decision": kernel.ClassCommit, "refusal": kernel.ClassCommit, "intent": kernel.ClassCommit, "receipt": kernel.ClassCommit,
		"audit": kernel.ClassCommit, "report": kernel.ClassCommit,
	}
	declared := constants(t, "record.go", "Kind")
	for _, k := range declared {
		class, ok := kernel.Kind(k).Class()
		if !ok || class != want[kernel.Kind(k)] {
			t.Errorf("%s is a %q, want %q", k, class, want[kernel.Kind(k)])
		}
	}
	if len(declared) != len(want) {
		t.Errorf("%d kinds are declared, %d are expected", len(declared), len(want))
	}
	if got := constants(t, "record.go", "Class"); !cmp.Equal(got, []string{"proposal", "commit"}) {
		t.Errorf("classes %v", got)
	}
	if _, ok := kernel.Kind("wish").Class(); ok {
		t.Error("an unknown kind has a class")
	}
}

// constants are the values of a file's string constants of a type.
func constants(t *testing.T, file, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	must(t, err)
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if name, ok := v.Type.(*ast.Ident); ok && name.Name == typ {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			must(t, err)
			out = append(out, text)
		}
		return true
	})
	return out
}

func chain() kernel.Chain {
	return kernel.Chain{World: "forge.example/owner/calc", Instance: "SHA256:own", Head: kernel.NoHead()}
}

func drafts(n int) []kernel.Draft {
	out := make([]kernel.Draft, n)
	for i := range out {
		out[i] = kernel.Draft{Kind: kernel.KindOutcome, Task: 7, Run: ourRun,
			Body: kernel.Outcome{Kind: "outcome", Key: strconv.Itoa(i), Effect: kernel.ActionClaim, Status: kernel.OutcomeDone}}
	}
	return out
}

// TestSeal: each record names the one before, and the chain goes on from the
// last.
func TestSeal(t *testing.T) {
	c := chain()
	var all []kernel.Record
	for _, n := range []int{1, 3, 0, 2} {
		records, next, err := c.Seal(now, drafts(n))
		must(t, err)
		for _, s := range records {
			again, err := s.Record().Sealed()
			if must(t, err); string(s.Bytes()) != marshal(t, s.Record()) || s.Hash() != again.Hash() || s.Said() == nil {
				t.Errorf("record %d isn't what was sealed: %s", s.Record().Seq, s.Bytes())
			}
		}
		all, c = append(all, kernel.Records(records)...), next
	}
	prev := canon.Digest("")
	for i, r := range all {
		if r.Seq != int64(i) || r.Prev != prev || r.World != c.World || r.Instance != c.Instance || r.V != kernel.RecordVersion || r.Time != now {
			t.Errorf("record %d: %+v", i, r)
		}
		h, err := r.Hash()
		must(t, err)
		if h != canon.Sum([]byte(marshal(t, r))) {
			t.Errorf("record %d: the hash isn't SHA-256 of its canonical bytes", i)
		}
		prev = h
	}
	if len(all) != 6 || c.Head != (kernel.Head{Seq: 5, Hash: prev}) {
		t.Errorf("the chain stands at %+v after %d records", c.Head, len(all))
	}
}

// TestR9_TimeNeverGoesBack: a clock that was set back doesn't reach a record.
func TestR9_TimeNeverGoesBack(t *testing.T) {
	_, c, err := chain().Seal(now, drafts(1))
	must(t, err)
	records, c, err := c.Seal(now-50_000, drafts(2))
	must(t, err)
	for _, r := range kernel.Records(records) {
		if r.Time != now {
			t.Errorf("record %d has the time %d, before %d", r.Seq, r.Time, now)
		}
	}
	if records, _, err = c.Seal(now+1, drafts(1)); err != nil || records[0].Record().Time != now+1 {
		t.Errorf("time stands still: %v %v", records, err)
	}
}

// TestSeal_AllOrNothing: what can't be a record leaves the chain as it was.
func TestSeal_AllOrNothing(t *testing.T) {
	_, c, err := chain().Seal(now, drafts(1))
	must(t, err)
	for name, bad := range map[string]kernel.Draft{
		"unknown kind": {Kind: "wish", Body: struct{}{}},
		"float":        {Kind: kernel.KindOutcome, Body: map[string]any{"kind": "outcome", "x": 1.5}},
		"not UTF-8":    {Kind: kernel.KindOutcome, Run: "\xff", Body: kernel.Outcome{}},
		"broken JSON":  {Kind: kernel.KindOutcome, Body: json.RawMessage(`{"a":1,"a":2}`)},
	} {
		records, next, err := c.Seal(now, append(drafts(2), bad))
		if err == nil || records != nil || next != c {
			t.Errorf("%s: %v, chain %+v", name, err, next)
		}
	}
}

// TestRecord_Golden is a record byte for byte, as a ledger stores it.
func TestRecord_Golden(t *testing.T) {
	_, c, err := chain().Seal(now, drafts(1))
	must(t, err)
	records, _, err := c.Seal(now, []kernel.Draft{{Kind: kernel.KindIntent, Task: 7, Run: ourRun, Body: kernel.Intent{
		Kind: "intent", Key: "claim:" + head2, Effect: kernel.ActionClaim, Digest: digest("c"), Ref: "refs/writ/task/7", New: head2,
	}}})
	must(t, err)
	golden(t, "record.json", append(records[0].Bytes(), '\n'))
}

// TestWK15_Seed: a genesis without a seed gets one from its own bytes, never 0; one that
// has a seed keeps it.
func TestWK15_Seed(t *testing.T) {
	seeds := map[int64]bool{}
	for _, name := range []string{"a", "b", "a"} {
		g, err := kernel.Genesis{Kind: "genesis", World: name}.Seeded()
		if err != nil || g.Seed < 1 || g.Seed >= 1<<53 {
			t.Errorf("%s: %d, %v", name, g.Seed, err)
		}
		seeds[g.Seed] = true
	}
	if len(seeds) != 2 {
		t.Errorf("seeds %v of two worlds", seeds)
	}
	if g, err := (kernel.Genesis{World: "a", Seed: -7}).Seeded(); err != nil || g.Seed != -7 {
		t.Errorf("%d, %v", g.Seed, err)
	}
}
