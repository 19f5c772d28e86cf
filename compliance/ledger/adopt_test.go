package ledger

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/kernel"
)

// restored is a store with the first n of the records that checkpoints of 1 to m
// records sign: a back-up that was restored.
func restored(t *testing.T, n, m int) (l *Ledger, signed [][]byte) {
	t.Helper()
	_, whole, _ := sample(t, 1)
	for i := 1; i <= m; i++ {
		fill(t, whole, i)
		signed = append(signed, checkpointOf(t, whole))
	}
	l = openWorld(t, openStore(t, filepath.Join(t.TempDir(), FileName), testKey(t, 1)), worldA)
	if n > 0 {
		fill(t, l, n)
	}
	return l, signed
}

func checkpointOf(t *testing.T, l *Ledger) []byte {
	t.Helper()
	signed, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func adopt(t *testing.T, l *Ledger, checkpoints ...[]byte) Adopted {
	t.Helper()
	a, err := l.Adopt(t.Context(), 5000, "local:1:ana", "the disk died", genesis(), checkpoints...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// against verifies from the store and from the bytes alone; both say the same.
func against(t *testing.T, l *Ledger, checkpoints ...[]byte) Report {
	t.Helper()
	r := mustVerify(t, l, VerifyOptions{Others: checkpoints})
	bare := VerifyLines(slices.Values(linesOf(t, l)), Expect{World: worldA, Others: checkpoints})
	if bare.OK != r.OK || bare.Code != r.Code || len(bare.Declared) != len(r.Declared) || bare.History != r.History {
		t.Errorf("the store says %+v, the bytes %+v", r, bare)
	}
	return r
}

// TestR2_AdoptDeclaresTheFork: an older store under a newer checkpoint is a
// rollback, and after its adoption a declared fork: everything verifies again,
// and the report says who, why, and what was abandoned.
func TestR2_AdoptDeclaresTheFork(t *testing.T) {
	const have, had = 6, 9
	l, signed := restored(t, have, had)
	newest := signed[had-1]
	if r := against(t, l, newest); r.OK || r.Code != kernel.CodeLedgerRollback {
		t.Fatalf("before: %+v", r)
	}
	if err := l.Check(t.Context(), newest); CodeOf(err) != kernel.CodeLedgerRollback {
		t.Fatalf("before: %v", err)
	}
	a := adopt(t, l, newest)
	if a.Seq != have || a.History != 2 || a.Actor != "local:1:ana" || a.Reason != "the disk died" || len(a.Abandoned) != 1 || a.Abandoned[0].Size != had {
		t.Errorf("adopted %+v", a)
	}
	fill(t, l, had+3)
	now := checkpointOf(t, l)
	if !bytes.HasPrefix(now, []byte("writ/"+worldA+" history 2\n")) {
		t.Errorf("the new checkpoint is %q", now)
	}
	r := against(t, l, newest, now, signed[have-1])
	if !r.OK || r.History != 2 || len(r.Adopted) != 1 || r.Adopted[0].Seq != have || len(r.Declared) != 1 || r.Declared[0].Size != had || r.CheckpointSize != had+3 {
		t.Errorf("after: %+v", r)
	}
	for _, cp := range [][]byte{newest, now, signed[0], signed[have-1]} {
		if err := l.Check(t.Context(), cp); err != nil {
			t.Errorf("after: %v\n%s", err, cp)
		}
	}
	if _, err := l.Adopt(t.Context(), 5000, "a", "b", genesis(), newest, now); !errors.Is(err, ErrNothingToAdopt) {
		t.Errorf("adopted again: %v", err)
	}
}

// TestR2_OnlyTheNamedCheckpointIsDeclared: what else was signed after the
// back-up stays a rollback until it is named too.
func TestR2_OnlyTheNamedCheckpointIsDeclared(t *testing.T) {
	const have, had = 6, 10
	l, signed := restored(t, have, had)
	adopt(t, l, signed[8])
	for size, want := range map[int]bool{have: true, 7: false, 8: false, 9: true, 10: false} {
		if r := against(t, l, signed[size-1]); r.OK != want || !want && r.Code != kernel.CodeLedgerRollback {
			t.Errorf("a checkpoint of %d: %+v", size, r)
		}
		if err := l.Check(t.Context(), signed[size-1]); (err == nil) != want {
			t.Errorf("a checkpoint of %d: %v", size, err)
		}
	}
	if a := adopt(t, l, signed...); a.History != 3 || len(a.Abandoned) != 3 {
		t.Errorf("the others are adopted as %+v", a)
	}
	if r := against(t, l, signed...); !r.OK || len(r.Declared) != 4 || len(r.Adopted) != 2 {
		t.Errorf("all are named: %+v", r)
	}
}

// TestR2_EachHistoryHasItsOrigin: the same tree signed as an earlier history is
// equivocation, and a second restore counts on from what was signed last.
func TestR2_EachHistoryHasItsOrigin(t *testing.T) {
	l, signed := restored(t, 3, 6)
	adopt(t, l, signed[5])
	fill(t, l, 8)
	second := checkpointOf(t, l)
	cp, err := OpenCheckpoint(second, testKey(t, 1).Public)
	if err != nil || cp.History != 2 || cp.World != worldA {
		t.Fatalf("%+v %v", cp, err)
	}
	for _, history := range []int64{1, 3} {
		cp.History = history
		forged, err := cp.sign(testKey(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		if r := against(t, l, forged); r.OK || r.Code != kernel.CodeLedgerRollback {
			t.Errorf("the tree as history %d: %+v", history, r)
		}
		if err := l.Check(t.Context(), forged); CodeOf(err) != kernel.CodeLedgerRollback {
			t.Errorf("the tree as history %d: %v", history, err)
		}
	}
	again, _ := restored(t, 3, 3) // the same back-up, once more
	if a := adopt(t, again, second); a.History != 3 {
		t.Errorf("the second restore begins history %d", a.History)
	}
	if r := against(t, again, second); !r.OK || r.History != 3 {
		t.Errorf("%+v", r)
	}
}

// TestR2_DivergedLedgerIsDeclared: a store that went on without its newer
// checkpoint has other records under the signed number; that can be declared
// too, and not be hidden.
func TestR2_DivergedLedgerIsDeclared(t *testing.T) {
	l, signed := restored(t, 4, 6)
	if _, err := l.Write(t.Context(), 9000, audit(99), audit(98), audit(97)); err != nil {
		t.Fatal(err)
	}
	if r := against(t, l, signed[5]); r.OK || r.Code != kernel.CodeLedgerRollback || r.FirstBad != nil {
		t.Fatalf("before: %+v", r)
	}
	adopt(t, l, signed[5])
	if r := against(t, l, signed[5]); !r.OK || len(r.Declared) != 1 {
		t.Errorf("after: %+v", r)
	}
}

// TestR2_ReplacedIsNotJustDamaged: a bad record further on doesn't hide that the
// ledger isn't the one that was signed, and nothing of it is set aside.
func TestR2_ReplacedIsNotJustDamaged(t *testing.T) {
	l, signed := restored(t, 4, 6)
	if _, err := l.Write(t.Context(), 9000, audit(99), audit(98), audit(97), audit(96)); err != nil {
		t.Fatal(err)
	}
	tamper(t, l.store, `UPDATE records SET task = 77 WHERE seq = 7`)
	if r := mustVerify(t, l, VerifyOptions{Checkpoint: signed[5]}); r.OK || r.Code != kernel.CodeLedgerRollback {
		t.Errorf("%+v", r)
	}
	if _, err := l.store.Quarantine(t.Context(), worldA, 1, signed[5]); CodeOf(err) != kernel.CodeLedgerRollback {
		t.Errorf("set aside: %v", err)
	}
}

// TestR2_AnEmptyLedgerIsAdopted: of a world that came after the back-up not even
// the first record is there. It is written in the same append.
func TestR2_AnEmptyLedgerIsAdopted(t *testing.T) {
	l, signed := restored(t, 0, 3)
	if a := adopt(t, l, signed[2]); a.Seq != 1 || a.History != 2 {
		t.Errorf("%+v", a)
	}
	if r := against(t, l, signed[2]); !r.OK || r.Records != 2+adoptionEntries {
		t.Errorf("%+v", r)
	}
	if r := against(t, l, signed[1]); r.OK || r.Code != kernel.CodeLedgerRollback {
		t.Errorf("a checkpoint that isn't named: %+v", r)
	}
}

// TestR2_AdoptionsAreChecked: no record declares what the key never signed, or a
// number that was or will be used.
func TestR2_AdoptionsAreChecked(t *testing.T) {
	l, signed := restored(t, 3, 5)
	note := func(n byte, cp Checkpoint) string {
		t.Helper()
		cp.Root = tlog.Hash{1}
		out, err := cp.sign(testKey(t, n))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	good := kernel.Adoption{Kind: "adoption", Actor: "a", Reason: "r", History: 2, Abandoned: []string{string(signed[4])}}
	change := func(f func(*kernel.Adoption)) kernel.Draft {
		a := good
		f(&a)
		return kernel.Draft{Kind: kernel.KindAdoption, Body: a}
	}
	for name, d := range map[string]kernel.Draft{
		"another kind":      change(func(a *kernel.Adoption) { a.Kind = "audit" }),
		"nobody":            change(func(a *kernel.Adoption) { a.Actor = "" }),
		"no reason":         change(func(a *kernel.Adoption) { a.Reason = "" }),
		"nothing":           change(func(a *kernel.Adoption) { a.Abandoned = nil }),
		"too much":          change(func(a *kernel.Adoption) { a.Abandoned = slices.Repeat(good.Abandoned, maxAbandoned+1) }),
		"no note":           change(func(a *kernel.Adoption) { a.Abandoned = []string{"x"} }),
		"another key":       change(func(a *kernel.Adoption) { a.Abandoned = []string{note(2, Checkpoint{World: worldA, Size: 9})} }),
		"another world":     change(func(a *kernel.Adoption) { a.Abandoned = []string{note(1, Checkpoint{World: worldB, Size: 9})} }),
		"the first history": change(func(a *kernel.Adoption) { a.History = 1 }),
		"a number ahead":    change(func(a *kernel.Adoption) { a.History = 3 }),
		"a number that was taken": change(func(a *kernel.Adoption) {
			a.Abandoned = []string{note(1, Checkpoint{World: worldA, Size: 9, History: 2})}
		}),
		"a task":       {Kind: kernel.KindAdoption, Task: 1, Body: good},
		"more members": {Kind: kernel.KindAdoption, Body: map[string]any{"kind": "adoption", "history": 2, "note": "x"}},
	} {
		if _, err := l.Write(t.Context(), 1, d); CodeOf(err) != kernel.CodeLedgerCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Write(t.Context(), 1, change(func(*kernel.Adoption) {})); err != nil {
		t.Errorf("the good one: %v", err)
	}
	if _, err := l.Adopt(t.Context(), 1, "a", "r", genesis(), []byte(note(2, Checkpoint{World: worldA, Size: 9}))); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Errorf("a checkpoint by another key: %v", err)
	}
	if _, err := l.Adopt(t.Context(), 1, "a", "r", genesis(), []byte(note(1, Checkpoint{World: worldB, Size: 9}))); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Errorf("a checkpoint of another world: %v", err)
	}
}

// TestR2_AnotherKeyIsRefused: a ledger is gone on with by the key that its first
// record names, and verifies as nobody else's.
func TestR2_AnotherKeyIsRefused(t *testing.T) {
	s, l, path := sample(t, 4)
	other := testKey(t, 2)
	if r := mustVerify(t, l, VerifyOptions{Instance: other.Fingerprint()}); r.OK {
		t.Errorf("it passes for another key's: %+v", r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(t, path, other).World(t.Context(), worldA); CodeOf(err) != kernel.CodeLedgerOtherKey || !strings.Contains(err.Error(), testKey(t, 1).Fingerprint()) {
		t.Errorf("opened with another key: %v", err)
	}
}

// TestR2_OriginsHaveOneForm: no two texts name one history.
func TestR2_OriginsHaveOneForm(t *testing.T) {
	key := testKey(t, 1)
	for _, origin := range []string{
		"writ/a history 1", "writ/a history 0", "writ/a history 02", "writ/a history +2", "writ/a history -2", "writ/a history ",
		"writ/a history 2 history 2", "writ/a history 2 ", "writ/a  history 2x", "writ/a history 9223372036854775808",
	} {
		if cp, err := parseCheckpoint(origin + "\n3\n" + tlog.Hash{}.String() + "\n"); err == nil {
			t.Errorf("%q is taken for %+v", origin, cp)
		}
	}
	for _, want := range []Checkpoint{{World: "a", History: 1, Size: 1}, {World: "a", History: 2, Size: 3}, {World: "b/c", History: 1 << 60, Size: 3}} {
		signed, err := want.sign(key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := OpenCheckpoint(signed, key.Public); err != nil || got != want {
			t.Errorf("%+v came back as %+v (%v)", want, got, err)
		}
		if world, ok := CheckpointWorld(signed); !ok || world != want.World {
			t.Errorf("%+v is said to be of %q", want, world)
		}
	}
	for _, text := range []string{"", "x", "writ/a\n1\n", strings.Repeat("x", 9000)} {
		if world, ok := CheckpointWorld([]byte(text)); ok {
			t.Errorf("%.20q is said to be of %q", text, world)
		}
	}
}

// The bytes of an adoption and of a later history's checkpoint are a format that
// others read.
func TestR2_GoldenAdoption(t *testing.T) {
	l, signed := restored(t, 2, 4)
	adopt(t, l, signed[3])
	golden(t, "adopted.jsonl", append(bytes.Join(linesOf(t, l), []byte("\n")), '\n'))
	golden(t, "adopted.checkpoint", checkpointOf(t, l))
}

// TestR2_NoCheckpointOutside: beside more than its first record a ledger has a checkpoint
// outside the store; without one it is a rollback until somebody declares it.
func TestR2_NoCheckpointOutside(t *testing.T) {
	l, _ := restored(t, 1, 1)
	outside := func(want kernel.Code) {
		t.Helper()
		if r := mustVerify(t, l, VerifyOptions{Outside: true}); r.Code != want {
			t.Errorf("verified: %q, want %q", r.Code, want)
		}
		if err := l.Check(t.Context(), nil); CodeOf(err) != want {
			t.Errorf("opened: %v, want %q", err, want)
		}
	}
	outside("")
	fill(t, l, 2)
	outside(kernel.CodeLedgerRollback)
	a, err := l.AdoptUnsigned(t.Context(), 5000, "local:1:ana", "it was lost")
	if err != nil || a.History != 2 || !a.Unsigned {
		t.Fatalf("%+v, %v", a, err)
	}
	again, err := l.AdoptUnsigned(t.Context(), 6000, "local:1:ana", "it was lost")
	if err != nil || again.Seq != a.Seq {
		t.Errorf("declared twice: %+v, %v", again, err)
	}
	signed := checkpointOf(t, l)
	if r := against(t, l, signed); !r.OK || r.History != 2 {
		t.Errorf("%+v", r)
	}
	if err := l.Check(t.Context(), signed); err != nil {
		t.Error(err)
	}
	fill(t, l, int(l.Chain().Head.Seq)+2)
	if third, err := l.AdoptUnsigned(t.Context(), 7000, "local:1:ana", "again"); err != nil || third.History != 3 {
		t.Errorf("%+v, %v", third, err)
	}
}
