package ledger

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// loadChildKey is the key beside the store.
func loadChildKey(path string) (*instancekey.Key, bool, error) {
	return instancekey.LoadOrCreate(filepath.Dir(path))
}

func TestR3_SecondWriterIsRefused(t *testing.T) {
	s1, l1, path := sample(t, 3)
	s2 := openStore(t, path, testKey(t, 1))
	l2 := openWorld(t, s2, worldA)

	stale := l2.Chain()
	if _, err := l1.Write(t.Context(), 5000, audit(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := l2.Write(t.Context(), 5000, audit(2)); CodeOf(err) != kernel.CodeLedgerFork {
		t.Fatalf("the second writer: %v, want %s", err, kernel.CodeLedgerFork)
	}
	if l2.Chain() != stale {
		t.Error("a refused append moved the chain")
	}
	// It stays refused until it looks again, and the first goes on.
	if _, err := l2.Write(t.Context(), 5000, audit(2)); CodeOf(err) != kernel.CodeLedgerFork {
		t.Fatalf("the second writer once more: %v", err)
	}
	if _, err := l1.Write(t.Context(), 5000, audit(3)); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, openWorld(t, s1, worldA), VerifyOptions{Deep: true}); !r.OK || r.Records != 5 {
		t.Fatalf("after the race: %+v", r)
	}
}

func TestR3_BothCreateTheWorld(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	l1 := openWorld(t, openStore(t, path, testKey(t, 1)), worldA)
	l2 := openWorld(t, openStore(t, path, testKey(t, 1)), worldA)
	if err := l1.Start(t.Context(), genesis(), 1); err != nil {
		t.Fatal(err)
	}
	if err := l2.Start(t.Context(), genesis(), 2); CodeOf(err) != kernel.CodeLedgerFork {
		t.Fatalf("a second genesis: %v, want %s", err, kernel.CodeLedgerFork)
	}
}

func TestR3_EachHeadHasOneWinner(t *testing.T) {
	_, _, path := sample(t, 1)
	const rounds = 25
	for round := range rounds {
		var wg sync.WaitGroup
		var errs [2]error
		start := make(chan struct{})
		for i := range errs {
			l := openWorld(t, openStore(t, path, testKey(t, 1)), worldA)
			wg.Go(func() {
				<-start
				_, errs[i] = l.Write(context.Background(), 0, audit(i))
			})
		}
		close(start)
		wg.Wait()
		won, lost := 0, 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case CodeOf(err) == kernel.CodeLedgerFork:
				lost++
			}
		}
		if won != 1 || lost != 1 {
			t.Fatalf("round %d: %d won, %d lost: %v", round, won, lost, errs)
		}
	}
	if r := mustVerify(t, openWorld(t, openStore(t, path, testKey(t, 1)), worldA), VerifyOptions{}); !r.OK || r.Records != rounds+1 {
		t.Fatalf("after the rounds: %+v", r)
	}
}

func TestR3_TwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	key, _, err := loadChildKey(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, openWorld(t, openStore(t, path, key), worldA), 1)
	const total = 60
	cmds := []*exec.Cmd{child(t, "race", path, fmt.Sprint(total)), child(t, "race", path, fmt.Sprint(total))}
	var outs [2]strings.Builder
	for i, cmd := range cmds {
		cmd.Stdout = &outs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		var wins, forks int
		if _, err := fmt.Sscan(outs[i].String(), &wins, &forks); err != nil {
			t.Fatal(err)
		}
		sum += wins
	}
	r := mustVerify(t, openWorld(t, openStore(t, path, key), worldA), VerifyOptions{Deep: true})
	if !r.OK || r.Records != int64(sum)+1 {
		t.Fatalf("%d appends were acknowledged, the ledger says %+v", sum, r)
	}
}

// Calls of one process that wait for each other lose nothing.
func TestWrite_Concurrent(t *testing.T) {
	_, l, _ := sample(t, 1)
	const callers, each = 8, 10
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				records, err := l.Write(context.Background(), int64(i), audit(c), audit(i))
				if err != nil || len(records) != 2 || records[1].Record().Seq != records[0].Record().Seq+1 {
					t.Errorf("caller %d: %v %v", c, records, err)
				}
			}
		})
	}
	wg.Wait()
	if r := mustVerify(t, l, VerifyOptions{Deep: true}); !r.OK || r.Records != 1+callers*each*2 {
		t.Errorf("%+v", r)
	}
}

// Ledgers share their database with others: their writes are parts of the same
// commits, another's error is no concern of theirs, and another's failed
// commit is.
func TestR4_OverAnOpenStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := New(db, testKey(t, 1), Options{})
	a, b := openWorld(t, s, worldA), openWorld(t, s, worldB)
	fill(t, a, 1)
	fill(t, b, 1)
	var wg sync.WaitGroup
	own := errors.New("another's own error")
	for i := range 20 {
		wg.Go(func() {
			if err := db.Write(context.Background(), func(tx store.Tx) error {
				_, err := tx.Exec(`DELETE FROM records`)
				return errors.Join(own, err)
			}); !errors.Is(err, own) {
				t.Errorf("%v", err)
			}
		})
		for _, l := range []*Ledger{a, b} {
			wg.Go(func() {
				if _, err := l.Write(context.Background(), 0, audit(i)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, l := range []*Ledger{a, b} {
		if r := mustVerify(t, l, VerifyOptions{Deep: true}); !r.OK || r.Records != 21 {
			t.Errorf("%+v", r)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Err(); err != nil {
		t.Errorf("closing the ledgers closed the store: %v", err)
	}
	again := New(db, testKey(t, 1), Options{})
	a = openWorld(t, again, worldA)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, err := again.World(t.Context(), worldA); CodeOf(err) != kernel.CodeLedgerUnavailable {
		t.Errorf("a ledger after the store's end: %v", err)
	}
	if _, err := a.Write(t.Context(), 0, audit(1)); CodeOf(err) != kernel.CodeLedgerUnavailable {
		t.Errorf("a write after the store's end: %v", err)
	}
}
