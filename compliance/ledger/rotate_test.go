package ledger

import (
	"path/filepath"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// TestR2_RotationIsASignedRecord: another key goes on with a ledger after the one
// before has signed what stands there. Each signs its own part, the instance keeps
// its name, and the old key signs nothing that came later.
func TestR2_RotationIsASignedRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	old, next := testKey(t, 1), testKey(t, 2)
	s := openStore(t, path, old)
	l := openWorld(t, s, worldA)
	fill(t, l, 6)
	before := checkpointOf(t, l)
	for range 2 { // again after a crash
		if err := s.Rotate(t.Context(), worldA, next.Public, 9_000_000, "local:1:ana", "yearly"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Checkpoint(t.Context()); CodeOf(err) != kernel.CodeKeyUnfinished {
		t.Errorf("the old key signs on: %v", err)
	}
	if err := s.Rotate(t.Context(), worldB, next.Public, 9_000_000, "local:1:ana", "yearly"); err != nil {
		t.Errorf("an empty ledger: %v", err)
	}
	forged, err := Checkpoint{World: worldA, History: 1, Size: l.state.tree.size, Root: l.state.tree.root()}.sign(old)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if _, err := openStore(t, path, old).World(t.Context(), worldA); CodeOf(err) != kernel.CodeKeyUnfinished {
		t.Errorf("opened with the old key: %v", err)
	}
	if _, err := openStore(t, path, testKey(t, 3)).World(t.Context(), worldA); CodeOf(err) != kernel.CodeLedgerOtherKey {
		t.Errorf("opened with a third key: %v", err)
	}
	l = openWorld(t, openStore(t, path, next), worldA)
	if got := l.Chain().Instance; got != old.Fingerprint() {
		t.Errorf("the instance is called %s now", got)
	}
	fill(t, l, 9)
	after := checkpointOf(t, l)
	if err := l.Check(t.Context(), before); err != nil {
		t.Errorf("the old checkpoint: %v", err)
	}
	r := against(t, l, before, after)
	if !r.OK || len(r.Rotated) != 1 || r.Rotated[0].Key != next.Fingerprint() || r.Rotated[0].Reason != "yearly" || r.CheckpointSize != l.state.tree.size {
		t.Errorf("%+v", r)
	}
	if r := against(t, l, forged); r.OK || r.Code != kernel.CodeLedgerCorrupt {
		t.Errorf("signed by the old key after its end: %+v", r)
	}
}

// TestR2_RotationsAreChecked: a rotation that the key before hasn't agreed to, or
// that brings back an old one, isn't taken.
func TestR2_RotationsAreChecked(t *testing.T) {
	old, next := testKey(t, 1), testKey(t, 2)
	for name, change := range map[string]func(l *Ledger, b *kernel.KeyRotation){
		"nobody":           func(_ *Ledger, b *kernel.KeyRotation) { b.Actor = "" },
		"no reason":        func(_ *Ledger, b *kernel.KeyRotation) { b.Reason = "" },
		"no key":           func(_ *Ledger, b *kernel.KeyRotation) { b.Key = "x" },
		"the same key":     func(_ *Ledger, b *kernel.KeyRotation) { b.Key = old.PublicOpenSSH() },
		"nothing signed":   func(_ *Ledger, b *kernel.KeyRotation) { b.Last = "" },
		"another's word":   func(l *Ledger, b *kernel.KeyRotation) { b.Last = signedBy(t, l, 2, 0) },
		"of fewer records": func(l *Ledger, b *kernel.KeyRotation) { b.Last = signedBy(t, l, 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			_, l, _ := sample(t, 4)
			b := kernel.KeyRotation{Kind: string(kernel.KindKeyRotation), Actor: "a", Reason: "r", Key: next.PublicOpenSSH(), Last: signedBy(t, l, 1, 0)}
			change(l, &b)
			if _, err := l.Write(t.Context(), 9_000_000, kernel.Draft{Kind: kernel.KindKeyRotation, Body: b}); err == nil {
				t.Error("it is taken")
			}
		})
	}
}

// signedBy is a checkpoint of a ledger without its last records, by any key.
func signedBy(t *testing.T, l *Ledger, key byte, less int64) string {
	t.Helper()
	size := l.state.tree.size - less
	root, err := l.Tree(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := Checkpoint{World: worldA, History: 1, Size: size, Root: root}.sign(testKey(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

// TestR2_ARotationIsARequest: SM9, SM20: each rotation is a request to the kernel of the
// ledger's key, the first of an epoch, with its entries in the same append.
func TestR2_ARotationIsARequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	for n := int64(1); n <= 2; n++ {
		s := openStore(t, path, testKey(t, byte(n)))
		l := openWorld(t, s, worldA)
		fill(t, l, 6*int(n))
		size := l.state.tree.size
		if err := s.Rotate(t.Context(), worldA, testKey(t, byte(n+1)).Public, 9_000_000, "local:1:ana", "yearly"); err != nil {
			t.Fatal(err)
		}
		way := ""
		for r, err := range l.Records(t.Context(), size, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind == kernel.KindKeyRotation {
				way = "rotated"
				continue
			}
			var e machine.Entry
			if err := canon.UnmarshalCanonical(r.Body, &e); err != nil {
				t.Fatal(err)
			}
			if e.Kernel != kernel.MachineOfKey(worldA) || e.Epoch != n || *e.Actor != "local:1:ana" || *e.Intent != "rotate" || e.EvidenceHash == nil || r.Task != 0 {
				t.Errorf("the entry says %+v", e)
			}
			way += " " + e.StateTo
		}
		if way != "rotated VALIDATING ARBITRATING AUDITING IDLE" {
			t.Errorf("rotation %d: %s", n, way)
		}
		_ = s.Close()
	}
}
