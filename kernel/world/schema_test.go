package world_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

// safe is the largest integer that canonical JSON holds.
const safe = 1<<53 - 1

// drawn generates values of a schema that canonical JSON can hold.
func drawn[T any]() *rapid.Generator[T] {
	return rapid.MakeCustom[T](rapid.MakeConfig{Kinds: map[reflect.Kind]*rapid.Generator[any]{
		reflect.Int64: rapid.Int64Range(-safe, safe).AsAny(),
	}, Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[map[string]int64](): rapid.MapOf(rapid.StringMatching(`[a-z_]{1,12}`), rapid.Int64Range(-safe, safe)).AsAny(),
	}})
}

// roundTrip goes object, JSON, map, JSON, object.
func roundTrip[T any](t *testing.T) {
	t.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) {
		g := drawn[T]()
		rapid.Check(t, func(t *rapid.T) {
			v := g.Draw(t, "value")
			first, err := canon.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var loose map[string]any
			if err := canon.Unmarshal(first, &loose, canon.Limits{}); err != nil {
				t.Fatal(err)
			}
			second, err := canon.Marshal(loose)
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("over a map:\n%s\n%s\n%v", first, second, err)
			}
			var back T
			if err := canon.UnmarshalCanonical(second, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v, back, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			loose["surprise"] = int64(1)
			strange, err := canon.Marshal(loose)
			if err != nil {
				t.Fatal(err)
			}
			if err := canon.Unmarshal(strange, &back, canon.Limits{}); err == nil {
				t.Fatal("an unknown field was taken")
			}
		})
	})
}

// WK15 to WK21, WK34: every schema survives the way there and back.
func TestWK34_RoundTrip(t *testing.T) {
	roundTrip[world.WorldConfig](t)
	roundTrip[world.ActionIntent](t)
	roundTrip[world.ActionResult](t)
	roundTrip[world.MechanismProposal](t)
	roundTrip[world.MechanismResult](t)
	roundTrip[world.WorldSnapshot](t)
	roundTrip[world.RoundReceipt](t)
}

// WK15 to WK21, WK63: the seed's field names, with world_id in each, and the
// reserved fields.
func TestWK63_FieldNames(t *testing.T) {
	cases := []struct {
		schema any
		names  string
	}{
		{world.WorldConfig{}, "init_member_number land_shape random_seed"},
		{world.ActionIntent{}, "agent_id round_id code idempotency_key"},
		{world.ActionResult{}, "agent_id success old_stats new_stats performance_change messages_sent error signature"},
		{world.MechanismProposal{}, "proposal_id agent_id code round_id"},
		{world.MechanismResult{}, "proposal_id executed error"},
		{world.WorldSnapshot{StateHash: "x"}, "round_id members land active_mechanisms active_contracts physics_constraints state_hash"},
		{world.RoundReceipt{}, "round_id seed snapshot_hash_before snapshot_hash_after accepted_action_ids rejected_action_ids activated_mechanism_ids judge_results round_metrics timestamp origin_world_id origin_receipt_hash instance"},
	}
	for _, c := range cases {
		var got map[string]json.RawMessage
		if err := json.Unmarshal(marshal(t, c.schema), &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(strings.Fields(c.names), "world_id", "kind", "v") {
			if _, ok := got[name]; !ok {
				t.Errorf("%T lacks %s", c.schema, name)
			}
		}
	}
	plain := marshal(t, world.RoundReceipt{})
	for _, reserved := range []string{`"origin_world_id":null`, `"origin_receipt_hash":null`} {
		if !bytes.Contains(plain, []byte(reserved)) {
			t.Errorf("%s is not among the hashed bytes", reserved)
		}
	}
}

// units are the words that say what a number counts or measures.
var units = regexp.MustCompile(`count|number|milliseconds|segments|integer|Version|units|clock`)

// T49: every field of every schema has a meaning, every number a unit.
func TestT49_FieldsAreDocumented(t *testing.T) {
	for _, name := range []string{"schemas.go", "snapshot.go", "sandbox.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						documented(t, spec.Name.Name, f)
					}
				}
			}
			return true
		})
	}
}

func documented(t *testing.T, schema string, f *ast.Field) {
	t.Helper()
	field := schema + "." + f.Names[0].Name
	comment := strings.TrimSpace(f.Comment.Text())
	if comment == "" {
		t.Errorf("%s has no meaning", field)
	}
	kind, ok := f.Type.(*ast.Ident)
	if ok && kind.Name == "int64" && !units.MatchString(comment) {
		t.Errorf("%s has no unit: %q", field, comment)
	}
}
