package machine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const golden = "testdata/entries.jsonl"

// someEntries are those of one request with an effect, one that was denied,
// and a halt.
func someEntries(t *testing.T) *auditor {
	t.Helper()
	a := &auditor{}
	m := booted(t, a, withTool(done))
	if _, err := m.Submit(request("r1")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Submit(machine.Request{ID: "r2", Now: 2000}); err != nil {
		t.Fatal(err)
	}
	if err := m.Halt("operator", "end of the example", 3000); err != nil {
		t.Fatal(err)
	}
	return a
}

// SM36, T42: the entries' bytes, all members present, null where empty, and
// their chain, recomputed with the standard library only.
func TestM1_EntryGolden(t *testing.T) {
	a := someEntries(t)
	var got bytes.Buffer
	for _, e := range a.entries {
		line, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(append(line, '\n'))
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("entries changed; if that is meant, run with -update\n%s", got.Bytes())
	}
	checkChain(t, bytes.Split(bytes.TrimSpace(want), []byte("\n")))
}

func checkChain(t *testing.T, lines [][]byte) {
	t.Helper()
	sum := func(b []byte) string {
		s := sha256.Sum256(b)
		return "sha256:" + hex.EncodeToString(s[:])
	}
	prev := sum([]byte(`{"epoch":3,"kernel":"example.org/owner/repo#1","kind":"audit_genesis"}`))
	for i, line := range lines {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e["prev"] != prev || e["kind"] != "audit" || len(e) != 21 {
			t.Errorf("entry %d follows %v, want %s, and has %d members", i, e["prev"], prev, len(e))
		}
		prev = sum(line)
	}
}

// R1, SM36, T42: whatever is changed in a chain, the first wrong entry is named.
func TestM1_VerifyNamesTheFirstBadEntry(t *testing.T) {
	change := func(f func(*machine.Entry)) func([]machine.Entry) []machine.Entry {
		return func(e []machine.Entry) []machine.Entry { f(&e[2]); return e }
	}
	s := "x"
	deny := machine.Deny
	d := canon.Sum([]byte("x"))
	for name, c := range map[string]struct {
		spoil func([]machine.Entry) []machine.Entry
		bad   int64
	}{
		"kind":      {change(func(e *machine.Entry) { e.Kind = "receipt" }), 3},
		"kernel":    {change(func(e *machine.Entry) { e.Kernel = "other" }), 3},
		"epoch":     {change(func(e *machine.Entry) { e.Epoch++ }), 3},
		"seq":       {change(func(e *machine.Entry) { e.Seq++ }), 3},
		"prev":      {change(func(e *machine.Entry) { e.Prev = d }), 3},
		"time back": {change(func(e *machine.Entry) { e.Time-- }), 3},
		"time":      {change(func(e *machine.Entry) { e.Time++ }), 4},
		"request":   {change(func(e *machine.Entry) { e.RequestID = &s }), 4},
		"actor":     {change(func(e *machine.Entry) { e.Actor = nil }), 4},
		"intent":    {change(func(e *machine.Entry) { e.Intent = &s }), 4},
		"state":     {change(func(e *machine.Entry) { e.StateTo = "AUDITING" }), 4},
		"decision":  {change(func(e *machine.Entry) { e.Decision = &deny }), 4},
		"tool":      {change(func(e *machine.Entry) { e.Tool = nil }), 4},
		"params":    {change(func(e *machine.Entry) { e.ParamsHash = &d }), 4},
		"evidence":  {change(func(e *machine.Entry) { e.EvidenceHash = nil }), 4},
		"result":    {change(func(e *machine.Entry) { e.ResultHash = &d }), 4},
		"faults":    {change(func(e *machine.Entry) { e.Faults = []machine.Fault{{}} }), 4},
		"error":     {change(func(e *machine.Entry) { e.Error = &machine.Fault{} }), 4},
		"summary":   {change(func(e *machine.Entry) { e.Summary = &s }), 4},
		"no matrix": {change(func(e *machine.Entry) { e.StateTo = "IDLE" }), 3},
		"not UTF-8": {change(func(e *machine.Entry) { s := "\xff"; e.Intent = &s }), 3},
		"deleted":   {func(e []machine.Entry) []machine.Entry { return slices.Delete(e, 2, 3) }, 3},
		"beginning": {func(e []machine.Entry) []machine.Entry { return e[1:] }, 1},
		"repeated":  {func(e []machine.Entry) []machine.Entry { return slices.Insert(e, 3, e[2]) }, 4},
		"swapped": {func(e []machine.Entry) []machine.Entry {
			e[2], e[3] = e[3], e[2]
			return e
		}, 3},
	} {
		var ce *machine.ChainError
		err := machine.Verify(testKernel, testEpoch, c.spoil(slices.Clone(someEntries(t).entries)))
		if !errors.As(err, &ce) || ce.Seq != c.bad {
			t.Errorf("%s: %v, want entry %d", name, err, c.bad)
		}
	}
	verify(t, someEntries(t))
}

// R6: the chain of one kernel or epoch is no other's.
func TestR6_GenesisBindsKernelAndEpoch(t *testing.T) {
	a := someEntries(t)
	for _, c := range []struct {
		kernel string
		epoch  int64
	}{{testKernel + "1", testEpoch}, {testKernel, testEpoch + 1}} {
		var ce *machine.ChainError
		if err := machine.Verify(c.kernel, c.epoch, a.entries); !errors.As(err, &ce) || ce.Seq != 1 {
			t.Errorf("%s, %d: %v", c.kernel, c.epoch, err)
		}
	}
}

// rechained times, numbers and hashes entries anew, as a forger would.
func rechained(t *testing.T, entries []machine.Entry) []machine.Entry {
	t.Helper()
	prev, err := machine.Genesis(testKernel, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		entries[i].Seq, entries[i].Prev, entries[i].Time = int64(i)+1, prev, 1000
		if prev, err = entries[i].Digest(); err != nil {
			t.Fatal(err)
		}
	}
	return entries
}

// M1, M2: a chain that hashes well but goes where the matrix doesn't, or on
// after a durable halt, is refused too.
func TestM1_VerifyFollowsTheMatrix(t *testing.T) {
	all := someEntries(t).entries
	for name, c := range map[string]struct {
		entries []machine.Entry
		bad     int64
	}{
		"starts in the middle":  {all[1:2], 1},
		"skips a state":         {[]machine.Entry{all[0], all[2]}, 2},
		"after a durable halt":  {[]machine.Entry{all[8], all[0]}, 2},
		"halt under a request":  {[]machine.Entry{all[0], all[8]}, 2},
		"starts while it works": {[]machine.Entry{all[0], all[0]}, 2},
	} {
		var ce *machine.ChainError
		var se *machine.StateError
		err := machine.Verify(testKernel, testEpoch, rechained(t, slices.Clone(c.entries)))
		if !errors.As(err, &ce) || ce.Seq != c.bad || !errors.As(err, &se) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
