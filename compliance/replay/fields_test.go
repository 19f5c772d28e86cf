package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/plan"
	"github.com/writbot/writ/kernel/world"
)

// bodies are the types of all records that stand in the evidence of a task.
var bodies = map[kernel.Kind]any{
	kernel.KindObservation: kernel.Facts{}, kernel.KindInterpretation: plan.Interpretation{},
	kernel.KindBuilderResult: kernel.BuilderResult{}, kernel.KindDiff: kernel.Diff{}, kernel.KindRunResult: kernel.RunResult{},
	kernel.KindOutcome: kernel.Outcome{}, kernel.KindSeedPack: kernel.SeedPack{}, kernel.KindSpec: plan.Spec{}, kernel.KindPlan: plan.Plan{},
	kernel.KindDispatch: kernel.Dispatch{}, kernel.KindDecision: kernel.Decision{}, kernel.KindIntent: kernel.Intent{},
	kernel.KindReceipt: world.RoundReceipt{}, kernel.KindAudit: machine.Entry{}, kernel.KindReport: report.Report{},
}

// unread are the fields that a verification can't hold against anything, with the reason.
// No decision reads them. A field that isn't here must be noticed when it is changed.
var unread = map[string]string{
	"audit(last).error": edge, "audit(last).faults": edge, "audit(last).result_hash": edge,
	"audit(last).summary": edge, "audit(last).time": edge, "audit(last).tool": edge,
	"intent(claim).digest": packed, "intent(heartbeat).digest": packed, "intent(seal).digest": packed,
	"intent(claim).old":     "The claim may have put an event of its own below its lease; its parents are under its signature.",
	"outcome(claim).detail": prose, "outcome(heartbeat).detail": prose, "outcome(seal).detail": prose,
	"outcome(dispatch).detail": prose, "outcome(checks).detail": prose,
	"receipt.accepted_action_ids": settled, "receipt.rejected_action_ids": settled, "receipt.activated_mechanism_ids": settled,
	"receipt.judge_results": settled, "receipt.origin_receipt_hash": settled, "receipt.origin_world_id": settled,
	"receipt.round_metrics": settled, "receipt.round_metrics{}": settled, "receipt.seed": settled,
	"receipt(first).snapshot_hash_before": edge, "receipt(last).snapshot_hash_after": edge, "receipt(last).round_id": edge,
	"receipt(last).accepted_action_ids[]": settled,
	"run_result.checks[].egress":          "What the gateway let through is the instance's own word, as the whole run is.",
	"record.prev":                         "The record before the first of a part is another task's.",
	"record.time":                         "A record's time is its writer's clock: it may not go back, and nothing else bounds the last.",
	"record(outcome).run_id":              "The outcome of an earlier run's effect may be told within this one.",
}

// Why a field can't be held against anything.
const (
	edge    = "What it continues, or what continues it, lies outside the evidence; the ledger's own verification has it."
	packed  = "It is the digest of the bytes that were pushed, of which git keeps the objects: new is compared."
	prose   = "Words for people."
	settled = "A receipt settles the rounds of all tasks of the world, whose records aren't in one task's evidence."
)

// TestR1_EachFieldIsNoticed: a lying instance changes one field of one record, of each
// kind, and signs its ledger anew. A verification notices, or the field is listed with
// the reason why it can't. Fields are found in the types, so that a new one has its row.
func TestR1_EachFieldIsNoticed(t *testing.T) {
	f := newForger(completed(t))
	if y := f.with(0, nil); !y.verify().OK {
		t.Fatalf("the forger's own work is not sound:\n%s", y.verify().Plain())
	}
	records := f.records()
	missed, n := map[string]string{}, 0
	try := func(path, how string, seq int64, edit func(*kernel.Record)) {
		n++
		if y := f.with(seq, edit); y.verify().OK {
			missed[path] += fmt.Sprintf(" %d (%s)", seq, how)
		}
	}
	kinds := map[kernel.Kind]bool{}
	for i, r := range records {
		typ := reflect.TypeOf(bodies[r.Kind])
		if typ == nil {
			t.Fatalf("records of the kind %s stand in evidence, and their fields are in no table", r.Kind)
		}
		first := !slices.ContainsFunc(records[:i], func(o kernel.Record) bool { return o.Kind == r.Kind })
		last := !slices.ContainsFunc(records[i+1:], func(o kernel.Record) bool { return o.Kind == r.Kind })
		name := labelled(r, first, last)
		if !first && !last && !strings.Contains(name, "(") {
			continue // one like it was tried
		}
		kinds[r.Kind] = true
		var body any
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		for _, l := range lies(typ, body, name) {
			try(l.path, l.how, r.Seq, func(r *kernel.Record) { r.Body = compact(l.body) })
		}
		for how, edit := range map[string]func(*kernel.Record){
			"v": func(r *kernel.Record) { r.V++ }, "kind": func(r *kernel.Record) { r.Kind = kernel.KindPlanProposal },
			"world_id": func(r *kernel.Record) { r.World += "x" }, "instance": func(r *kernel.Record) { r.Instance += "x" },
			"seq": func(r *kernel.Record) { r.Seq++ }, "prev": func(r *kernel.Record) { r.Prev = canon.Sum(nil) },
			"time": func(r *kernel.Record) { r.Time += 1 << 40 }, "task": func(r *kernel.Record) { r.Task++ },
			"run_id": func(r *kernel.Record) { r.Run += "x" },
		} {
			of := "record"
			if r.Kind == kernel.KindOutcome {
				of = "record(outcome)"
			}
			try(of+"."+how, string(r.Kind), r.Seq, edit)
		}
	}
	if typ := reflect.TypeFor[kernel.Record](); typ.NumField() != 10 {
		t.Errorf("a record has %d fields besides its body; 9 are tried", typ.NumField()-1)
	}
	for kind := range bodies {
		if !kinds[kind] {
			t.Errorf("no %s stands in the evidence", kind)
		}
	}
	used := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(missed)) {
		row := rowOf(path)
		used[row] = true
		if unread[row] == "" {
			t.Errorf("nobody notices that %s is changed, in records%s", path, missed[path])
		}
	}
	for path, why := range unread {
		if !used[path] {
			t.Errorf("%s is noticed; it is listed as one that can't be: %s", path, why)
		}
	}
	t.Logf("%d lies", n)
}

// TestR1_MergedOnNoOtherBase: only a run that applied delivered work on another base may say
// that files are merges.
func TestR1_MergedOnNoOtherBase(t *testing.T) {
	f := newForger(completed(t))
	for _, r := range f.records() {
		if r.Kind != kernel.KindDiff {
			continue
		}
		y := f.with(r.Seq, func(r *kernel.Record) {
			var d kernel.Diff
			f.stage.must(canon.UnmarshalCanonical(r.Body, &d))
			id := d.Changes[0].AfterID
			d.Merged = []kernel.MergedFile{{Path: d.Changes[0].Path, BaseID: id, OursID: id, TheirsID: id}}
			var err error
			r.Body, err = canon.Marshal(d)
			f.stage.must(err)
		})
		if rep := y.verify(); rep.OK || !strings.Contains(rep.Plain(), "It says that files were merged") {
			t.Errorf("it verifies, or says another thing:\n%s", rep.Plain())
		}
		return
	}
	t.Error("the evidence has no diff")
}

// rowOf is the row of [unread] that a path has, or would have.
func rowOf(path string) string {
	if unread[path] != "" {
		return path
	}
	name, rest, _ := strings.Cut(path, ".")
	if name == "record(outcome)" && rest != "run_id" || strings.HasPrefix(name, "receipt(") {
		name, _, _ = strings.Cut(name, "(")
	}
	return name + "." + rest
}

// labelled tells the records of a kind apart that are bound by different things.
func labelled(r kernel.Record, first, last bool) string {
	var b struct {
		Effect kernel.Action `json:"effect"`
	}
	_ = json.Unmarshal(r.Body, &b)
	switch {
	case r.Kind == kernel.KindIntent || r.Kind == kernel.KindOutcome:
		return fmt.Sprintf("%s(%s)", r.Kind, b.Effect)
	case r.Kind == kernel.KindAudit && last, r.Kind == kernel.KindReceipt && last:
		return string(r.Kind) + "(last)"
	case r.Kind == kernel.KindReceipt && first:
		return string(r.Kind) + "(first)"
	}
	return string(r.Kind)
}

// forger writes a sample's whole ledger anew around one changed record, in memory: chain,
// tree and checkpoint are signed as the instance itself would.
type forger struct {
	sample
	all   []kernel.Record
	parts Proofs
}

func newForger(x sample) *forger {
	f := &forger{sample: x}
	last := x.seqs()[len(x.seqs())-1]
	for r, err := range x.stage.ledger.Records(x.t.Context(), 0, last+1) {
		x.stage.must(err)
		f.all = append(f.all, r)
	}
	p, err := decoded[Proofs](x.pack[FileProofs])
	x.stage.must(err)
	f.parts = *p
	return f
}

// with is the sample whose record of that sequence is changed.
func (f *forger) with(seq int64, edit func(*kernel.Record)) sample {
	must := f.stage.must
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range at {
			out = append(out, hashes[i])
		}
		return out, nil
	})
	var lines bytes.Buffer
	chain := kernel.Chain{World: f.stage.name, Instance: f.all[0].Instance, Head: kernel.NoHead()}
	for _, r := range f.all {
		at := r.Seq
		made, next, err := chain.Seal(r.Time, []kernel.Draft{{Kind: r.Kind, Task: r.Task, Run: r.Run, Body: r.Body}})
		must(err)
		one := made[0].Record()
		if at == seq && edit != nil {
			edit(&one)
		}
		raw, err := canon.Marshal(one)
		must(err)
		chain = next
		chain.Head.Hash = canon.Sum(raw)
		sum := sha256.Sum256(raw)
		more, err := tlog.StoredHashesForRecordHash(at, tlog.RecordHash(sum[:]), reader)
		must(err)
		hashes = append(hashes, more...)
		if slices.ContainsFunc(f.parts.Parts, func(p Part) bool { return p.First <= at && at <= p.Last }) {
			lines.Write(append(raw, '\n'))
		}
	}
	size := int64(len(f.all))
	proofs := Proofs{Kind: kindProofs, Parts: f.parts.Parts}
	for _, at := range proven(f.parts.Parts, size) {
		path, err := tlog.ProveRecord(size, at, reader)
		must(err)
		p := ledger.Proof{Kind: "inclusion_proof", World: f.stage.name, Seq: at, Size: size, Hashes: []string{}}
		for _, h := range path {
			p.Hashes = append(p.Hashes, h.String())
		}
		proofs.Proofs = append(proofs.Proofs, p)
	}
	root, err := tlog.TreeHash(size, reader)
	must(err)
	signer, err := f.key.NoteSigner()
	must(err)
	y := f.clone()
	y.pack[FileCheckpoint], err = note.Sign(&note.Note{Text: fmt.Sprintf("writ/%s\n%d\n%s\n", f.stage.name, size, root)}, signer)
	must(err)
	y.pack[FileRecords] = lines.Bytes()
	y.pack[FileProofs], err = canon.Marshal(proofs)
	must(err)
	old := "ledger-head: " + trailerOf(y.head.Commit, kernel.TrailerLedgerHead)
	y.signMessage(strings.Replace(string(y.head.Commit.Message), old, "ledger-head: "+string(chain.Head.Hash), 1))
	return y
}

// records are those of the pack.
func (x sample) records() []kernel.Record {
	var out []kernel.Record
	for _, l := range x.lines() {
		var r kernel.Record
		if err := json.Unmarshal(l, &r); err != nil {
			x.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// lie is a body with one field changed.
type lie struct {
	path, how string
	body      any
}

// lies changes each field of a body in turn, by its type: a value that is there, an
// element of a list, what is left out.
func lies(t reflect.Type, v any, path string) []lie {
	switch t.Kind() {
	case reflect.Pointer:
		if v == nil {
			return []lie{{path, "set", filled(t.Elem())}}
		}
		return append(lies(t.Elem(), v, path), lie{path, "null", nil})
	case reflect.Struct:
		var out []lie
		was, _ := v.(map[string]any)
		for i := range t.NumField() {
			f := t.Field(i)
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			old, there := was[name]
			if !there {
				if !strings.Contains(opts, "omit") {
					panic(path + "." + name + " is missing")
				}
				old = zero(f.Type)
			}
			for _, l := range lies(f.Type, old, path+"."+name) {
				with := maps.Clone(was)
				with[name] = l.body
				if strings.Contains(opts, "omit") && isZero(f.Type, l.body) {
					delete(with, name)
				}
				out = append(out, lie{l.path, l.how, with})
			}
		}
		return out
	case reflect.Slice:
		list, _ := v.([]any)
		out := []lie{{path, "longer", append(slices.Clone(list), filled(t.Elem()))}}
		if len(list) > 0 {
			out = append(out, lie{path, "shorter", slices.Clone(list[1:])})
			for _, l := range lies(t.Elem(), list[0], path+"[]") {
				with := slices.Clone(list)
				with[0] = l.body
				out = append(out, lie{l.path, l.how, with})
			}
		}
		return out
	case reflect.Map:
		with, _ := v.(map[string]any)
		more := maps.Clone(with)
		if more == nil {
			more = map[string]any{}
		}
		more["other"] = filled(t.Elem())
		out := []lie{{path, "longer", more}}
		if keys := slices.Sorted(maps.Keys(with)); len(keys) > 0 {
			for _, l := range lies(t.Elem(), with[keys[0]], path+"{}") {
				other := maps.Clone(with)
				other[keys[0]] = l.body
				out = append(out, lie{l.path, l.how, other})
			}
		}
		return out
	case reflect.String:
		s, _ := v.(string)
		if t == reflect.TypeFor[kernel.OutcomeStatus]() {
			return []lie{{path, "failed", string(kernel.OutcomeFailed)}, {path, "lost", string(kernel.OutcomeLost)}, {path, "none", "x"}}
		}
		out := []lie{{path, "other", otherText(s)}}
		if s != "" {
			out = append(out, lie{path, "empty", ""})
		}
		return out
	case reflect.Bool:
		b, _ := v.(bool)
		return []lie{{path, "not", !b}}
	case reflect.Int64, reflect.Int, reflect.Int32:
		f, _ := v.(float64)
		return []lie{{path, "more", json.Number(fmt.Sprint(int64(f) + 1))}}
	}
	panic(path + ": " + t.String())
}

func otherText(s string) string {
	switch {
	case s == "":
		return "other"
	case canon.Digest(s).Valid():
		return string(canon.Sum([]byte(s)))
	case len(s) == 40:
		return strings.Repeat("7", 40)
	}
	return s + "x"
}

func zero(t reflect.Type) any {
	var out any
	data, _ := json.Marshal(reflect.Zero(t).Interface())
	_ = json.Unmarshal(data, &out)
	return out
}

func isZero(t reflect.Type, v any) bool {
	return reflect.DeepEqual(v, zero(t)) || v == "" || v == false
}

// filled is a value of a type that says something.
func filled(t reflect.Type) any {
	switch t.Kind() {
	case reflect.String:
		return "other"
	case reflect.Int64:
		return json.Number("7")
	}
	out := reflect.New(t).Elem()
	return asJSON(out.Interface())
}

func asJSON(v any) any {
	data, err := canon.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	_ = d.Decode(&out)
	return out
}
