package ledger

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel"
)

// twoWorlds are ledgers of two worlds in one file, alike but for their names.
func twoWorlds(t *testing.T) (s *Store, a, b *Ledger) {
	t.Helper()
	s = openStore(t, filepath.Join(t.TempDir(), FileName), testKey(t, 1))
	a, b = openWorld(t, s, worldA), openWorld(t, s, worldB)
	fill(t, a, 6)
	fill(t, b, 6)
	return s, a, b
}

func TestR6_RecordOfAnotherWorld(t *testing.T) {
	_, a, b := twoWorlds(t)
	linesA, linesB := linesOf(t, a), linesOf(t, b)
	for k := range linesB {
		spliced := slices.Clone(linesB)
		spliced[k] = linesA[k]
		wantBad(t, VerifyLines(slices.Values(spliced), Expect{World: worldB}), int64(k), "a record of A in B")
		if k > 0 {
			wantBad(t, VerifyLines(slices.Values(spliced), Expect{}), int64(k), "the same, expecting nothing")
		}
	}
	wantBad(t, VerifyLines(slices.Values(linesA), Expect{World: worldB}), 0, "A given out for B")
}

func TestR6_SplicedInTheStore(t *testing.T) {
	s, _, b := twoWorlds(t)
	const splice = `UPDATE records SET
		raw   = (SELECT raw   FROM records o WHERE o.world = 1 AND o.seq = 3),
		nodes = (SELECT nodes FROM records o WHERE o.world = 1 AND o.seq = 3)
		WHERE world = 2 AND seq = 3`
	tamper(t, s, splice)
	wantBad(t, mustVerify(t, b, VerifyOptions{}), 3, "a row of A in B")
}

func TestR6_AppendTakesNoForeignRecord(t *testing.T) {
	_, a, b := twoWorlds(t)
	chain := a.Chain()
	chain.Head, chain.Time = b.Chain().Head, b.Chain().Time
	records, _, err := chain.Seal(5000, []kernel.Draft{audit(1)})
	if err != nil {
		t.Fatal(err)
	}
	before := b.Chain()
	if err := b.Append(t.Context(), before.Head, records); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Fatalf("a record of another world: %v", err)
	}
	if b.Chain() != before {
		t.Error("a refused record moved the chain")
	}
}

func TestR6_GenesisBindsWorldAndKey(t *testing.T) {
	key, other := testKey(t, 1), testKey(t, 2)
	for _, c := range []struct {
		name    string
		genesis kernel.Genesis
		chain   kernel.Chain
	}{
		{"another world", bound(worldB, key.PublicOpenSSH()), kernel.Chain{World: worldA, Instance: key.Fingerprint()}},
		{"another key", bound(worldA, other.PublicOpenSSH()), kernel.Chain{World: worldA, Instance: key.Fingerprint()}},
		{"a key with a comment", bound(worldA, key.PublicOpenSSH()+" me"), kernel.Chain{World: worldA, Instance: key.Fingerprint()}},
		{"no key", bound(worldA, ""), kernel.Chain{World: worldA, Instance: key.Fingerprint()}},
	} {
		c.chain.Head = kernel.NoHead()
		records, _, err := c.chain.Seal(1, []kernel.Draft{{Kind: kernel.KindGenesis, Body: c.genesis}})
		if err != nil {
			t.Fatal(err)
		}
		raw := records[0].Bytes()
		wantBad(t, VerifyLines(slices.Values([][]byte{raw}), Expect{}), 0, c.name)
	}
	chain := kernel.Chain{World: worldA, Instance: key.Fingerprint(), Head: kernel.NoHead()}
	records, _, err := chain.Seal(1, []kernel.Draft{audit(1)})
	if err != nil {
		t.Fatal(err)
	}
	raw := records[0].Bytes()
	wantBad(t, VerifyLines(slices.Values([][]byte{raw}), Expect{}), 0, "a chain without a genesis")
}

func bound(world, key string) kernel.Genesis {
	g := genesis()
	g.Kind, g.World, g.InstanceKey = string(kernel.KindGenesis), world, key
	return g
}

// A change of what the genesis binds changes every later record.
func TestR6_ContractAndRepositoryAreBound(t *testing.T) {
	_, l, _ := sample(t, 3)
	lines := linesOf(t, l)
	for _, pair := range [][2]string{{`"repository_id":"7"`, `"repository_id":"8"`}, {`"contract_hash":"sha256:e`, `"contract_hash":"sha256:f`}} {
		changed := slices.Clone(lines)
		changed[0] = bytes.Replace(lines[0], []byte(pair[0]), []byte(pair[1]), 1)
		if bytes.Equal(changed[0], lines[0]) {
			t.Fatalf("%s is not in the genesis", pair[0])
		}
		wantBad(t, VerifyLines(slices.Values(changed), Expect{}), 0, pair[1])
	}
}

func TestR6_FieldBoundariesInStore(t *testing.T) {
	chain := kernel.Chain{World: worldA, Instance: testKey(t, 1).Fingerprint(), Head: kernel.Head{Seq: 4, Hash: "sha256:00"}}
	seen := map[string]string{}
	for _, c := range []struct{ run, body string }{{"ab", "c"}, {"a", "bc"}, {"", "abc"}, {`ab","x":"`, "c"}, {"abc", ""}} {
		records, _, err := chain.Seal(1, []kernel.Draft{{Kind: kernel.KindAudit, Run: c.run, Body: map[string]string{"text": c.body}}})
		if err != nil {
			t.Fatal(err)
		}
		h := records[0].Hash()
		if other, ok := seen[string(h)]; ok {
			t.Errorf("%q and %q have one hash", other, c)
		}
		seen[string(h)] = fmt.Sprint(c)
	}
}

func TestR6_LeafIsNoNode(t *testing.T) {
	_, l, _ := sample(t, 4)
	lines := linesOf(t, l)
	cp, err := l.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := testKey(t, 1).Public
	p, err := l.ProveRecord(t.Context(), 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyInclusion(lines[2], p, cp, key); err != nil {
		t.Fatal(err)
	}
	// The pair (2, 3) as if it were one leaf of a tree half as deep.
	short := p
	short.Hashes = p.Hashes[1:]
	if VerifyInclusion(lines[2], short, cp, key) == nil {
		t.Error("a path that begins at an inner node was taken")
	}
	short.Seq, short.Size = 1, 2
	if VerifyInclusion(lines[1], short, cp, key) == nil {
		t.Error("an inner node was taken for a leaf of a smaller tree")
	}
}

func TestR9_TimeNeverGoesBackInStore(t *testing.T) {
	_, l, _ := sample(t, 1)
	last := l.Chain().Time
	for i, now := range []int64{5000, 4000, 0, -7, 5001, 5000} {
		records, err := l.Write(t.Context(), now, audit(i))
		if err != nil {
			t.Fatal(err)
		}
		if want := max(last, now); records[0].Record().Time != want || l.Chain().Time != want {
			t.Errorf("wall clock %d after %d: recorded %d", now, last, records[0].Record().Time)
		}
		if records[0].Record().Seq != int64(i+1) {
			t.Errorf("seq %d, want %d", records[0].Record().Seq, i+1)
		}
		last = l.Chain().Time
	}
	if r := mustVerify(t, l, VerifyOptions{}); !r.OK {
		t.Errorf("%+v", r)
	}
}

// A record that goes back in time is refused by append and by verification,
// however well it is linked.
func TestR9_BackdatedRecordIsRefused(t *testing.T) {
	_, l, _ := sample(t, 3)
	chain := l.Chain()
	chain.Time = 0
	records, _, err := chain.Seal(chain.Time, []kernel.Draft{audit(1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), chain.Head, records); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Fatalf("a backdated record: %v", err)
	}
	raw := records[0].Bytes()
	wantBad(t, VerifyLines(slices.Values(append(linesOf(t, l), raw)), Expect{}), 3, "a backdated line")
}

// The same inputs give the same bytes, whenever and wherever they are written.
func TestR9_OnlyRecordedTimeCounts(t *testing.T) {
	_, one, _ := sample(t, 5)
	_, two, _ := sample(t, 5)
	if !slices.EqualFunc(linesOf(t, one), linesOf(t, two), bytes.Equal) {
		t.Error("two ledgers of the same inputs differ")
	}
}
