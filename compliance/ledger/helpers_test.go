package ledger

import (
	"context"
	"crypto/ed25519"
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	worldA = "example.test/team/alpha"
	worldB = "example.test/team/beta"
)

// testKey is the same key for the same number.
func testKey(t testing.TB, n byte) *instancekey.Key {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	key, err := instancekey.New(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func openStore(t testing.TB, path string, key *instancekey.Key) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, key, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openWorld(t testing.TB, s *Store, world string) *Ledger {
	t.Helper()
	l, err := s.World(t.Context(), world)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func genesis() kernel.Genesis {
	return kernel.Genesis{
		RepositoryID: "7", Contract: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		Kernel: "1.0.0", Builders: []string{"default"}, Seed: 1, MaxPaths: 100, MaxDepth: 16,
	}
}

// audit is a draft of the size and shape that most records have.
func audit(i int) kernel.Draft {
	return kernel.Draft{Kind: kernel.KindAudit, Task: int64(i % 3), Run: fmt.Sprintf("run-%d", i%2), Body: map[string]any{
		"kind": "audit", "seq": i, "actor": "kernel", "decision": "allow", "epoch": 1, "error": nil,
		"evidence_hash": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
		"state_from":    "IDLE", "state_to": "VALIDATING", "text": "é <b> \"quoted\"\n",
	}}
}

// fill starts the ledger and writes records one by one up to n in all.
func fill(t testing.TB, l *Ledger, n int) {
	t.Helper()
	if err := l.Start(context.Background(), genesis(), 1000); err != nil {
		t.Fatal(err)
	}
	for i := int(l.Chain().Head.Seq) + 1; i < n; i++ {
		if _, err := l.Write(context.Background(), int64(1000+i), audit(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// sample is a store on disk with one ledger of n records.
func sample(t testing.TB, n int) (*Store, *Ledger, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	s := openStore(t, path, testKey(t, 1))
	l := openWorld(t, s, worldA)
	fill(t, l, n)
	return s, l, path
}

func mustVerify(t testing.TB, l *Ledger, o VerifyOptions) Report {
	t.Helper()
	r, err := l.Verify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// linesOf are the exact bytes of all records.
func linesOf(t testing.TB, l *Ledger) (lines [][]byte) {
	t.Helper()
	for raw, err := range l.Lines(context.Background(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, raw)
	}
	return lines
}

// tamper changes the file behind the ledger's back.
func tamper(t testing.TB, s *Store, text string) {
	t.Helper()
	err := s.db.Write(t.Context(), func(tx store.Tx) error {
		_, err := tx.Exec(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// numberIn reads one number of the file.
func numberIn(t testing.TB, s *Store, text string) (n int64) {
	t.Helper()
	err := s.db.View(t.Context(), func(q store.Queries) error {
		_, err := q.Row(text, nil, &n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
