package git

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

func TestL1_OneWinner(t *testing.T) {
	const racers, rounds = 16, 20
	run := func(t *testing.T, s served) {
		repos := make([]*Repo, racers)
		for i := range repos {
			repos[i] = s.open(t)
		}
		for round := range rounds {
			ref := fmt.Sprintf("refs/writ/task/%d", round+1)
			outs := make([]Outcome, racers)
			oids := make([]OID, racers)
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i, r := range repos {
				oid, pack := lease(t, ZeroOID, runID(round*racers+i))
				oids[i] = oid
				wg.Go(func() {
					<-start
					outs[i] = r.CompareAndSwap(t.Context(), []Command{{ref, ZeroOID, oid}}, pack)
				})
			}
			close(start)
			wg.Wait()
			winner := -1
			for i, out := range outs {
				switch {
				case out.Status == Won && winner < 0:
					winner = i
				case out.Status == Won:
					t.Fatalf("round %d: %d and %d both won", round, winner, i)
				case out.Status != Lost:
					t.Fatalf("round %d: racer %d: %s: %s", round, i, out.Status, out.Reason)
				}
			}
			if winner < 0 {
				t.Fatalf("round %d: nobody won: %+v", round, outs)
			}
			wantRef(t, s.dir, ref, oids[winner])
		}
	}
	t.Run("file", func(t *testing.T) { run(t, onFile(t)) })
	t.Run("http", func(t *testing.T) { run(t, onHTTP(t)) })
}

func TestL2_IdenticalCommits(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		a, b := s.open(t), s.open(t)
		oid, pack := lease(t, ZeroOID, "the same bytes")
		cmd := []Command{{stateRef, ZeroOID, oid}}
		wantStatus(t, a.CompareAndSwap(t.Context(), cmd, pack), Won)
		wantStatus(t, b.CompareAndSwap(t.Context(), cmd, pack), Lost)
		// "Up to date" is what git push would call success.
		wantStatus(t, b.CompareAndSwap(t.Context(), []Command{{stateRef, oid, oid}}, pack), Lost)
		wantRef(t, s.dir, stateRef, oid)
	})
}

func TestL3_DeletedBetweenReadAndPush(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		r := s.open(t)
		old := claim(t, r, stateRef, runID(1))
		gittest.Git(t, s.dir, "update-ref", "-d", stateRef)
		next, pack := lease(t, old, runID(2))
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, old, next}}, pack), Lost)
		wantRef(t, s.dir, stateRef, ZeroOID)
	})
}

func TestL4_RewoundToAnAncestor(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		r := s.open(t)
		first := claim(t, r, stateRef, runID(1))
		second, pack := lease(t, first, runID(2))
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, first, second}}, pack), Won)
		gittest.Git(t, s.dir, "update-ref", stateRef, string(first))
		third, pack := lease(t, second, runID(3))
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, second, third}}, pack), Lost)
		wantRef(t, s.dir, stateRef, first)
	})
}

func TestL5_MustNotExist(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		a, b := s.open(t), s.open(t)
		won := claim(t, a, stateRef, runID(1))
		other, pack := lease(t, ZeroOID, runID(2))
		wantStatus(t, b.CompareAndSwap(t.Context(), []Command{{stateRef, ZeroOID, other}}, pack), Lost)
		wantRef(t, s.dir, stateRef, won)
	})
}

func TestL6_ResponseLost(t *testing.T) {
	s := onHTTP(t)
	r := s.open(t)
	old := claim(t, r, stateRef, runID(1))
	next, pack := lease(t, old, runID(2))
	cmd := []Command{{stateRef, old, next}}

	s.http.Set(gittest.OnPush(gittest.DropResponse))
	wantStatus(t, r.CompareAndSwap(t.Context(), cmd, pack), Unknown)
	s.http.Set(nil)

	refs, err := r.Refs(t.Context(), stateRef)
	if err != nil || refs.OID(stateRef) != next {
		t.Fatalf("re-reading finds %v, %v; want our own commit", refs, err)
	}
	out := r.Reassert(t.Context(), cmd, pack)
	wantStatus(t, out, Won)
	if !out.AlreadyApplied {
		t.Fatal("Reassert does not say that the first push had been applied")
	}
	wantRef(t, s.dir, stateRef, next)
}

func TestL7_AppliedLate(t *testing.T) {
	s := onHTTP(t)
	r := s.open(t)
	old := claim(t, r, stateRef, runID(1))
	next, pack := lease(t, old, runID(2))
	cmd := []Command{{stateRef, old, next}}

	held := gittest.NewHeld()
	s.http.Set(gittest.OnPush(held.Fault))
	wantStatus(t, r.CompareAndSwap(t.Context(), cmd, pack), Unknown)
	s.http.Set(nil)
	wantRef(t, s.dir, stateRef, old)

	out := r.Reassert(t.Context(), cmd, pack)
	wantStatus(t, out, Won)
	if out.AlreadyApplied {
		t.Fatal("the first push had not been applied yet")
	}
	held.Release() // the late push meets a ref that has moved
	wantRef(t, s.dir, stateRef, next)

	// And after somebody else's step it must not put ours back.
	third, pack3 := lease(t, next, runID(3))
	wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, next, third}}, pack3), Won)
	wantStatus(t, r.Reassert(t.Context(), cmd, pack), Lost)
	wantRef(t, s.dir, stateRef, third)
}

// TestL7_AppliedBetweenReadAndRepeat: the late push is applied just before the
// repeated one arrives.
func TestL7_AppliedBetweenReadAndRepeat(t *testing.T) {
	s := onHTTP(t)
	r := s.open(t)
	old := claim(t, r, stateRef, runID(1))
	next, pack := lease(t, old, runID(2))
	cmd := []Command{{stateRef, old, next}}
	held := gittest.NewHeld()
	s.http.Set(gittest.OnPush(held.Fault))
	wantStatus(t, r.CompareAndSwap(t.Context(), cmd, pack), Unknown)
	s.http.Set(gittest.OnPush(gittest.Before(held.Release)))
	out := r.Reassert(t.Context(), cmd, pack)
	wantStatus(t, out, Won)
	if !out.AlreadyApplied {
		t.Fatal("the first push had been applied")
	}
	wantRef(t, s.dir, stateRef, next)
}

func TestL17_StaleOwnerMovesNeither(t *testing.T) {
	const changeRef = "refs/heads/writ/change/1"
	everywhere(t, func(t *testing.T, s served) {
		r := s.open(t)
		ours := claim(t, r, stateRef, runID(1))
		rival, pack := lease(t, ours, "takeover\n")
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, ours, rival}}, pack), Won)

		o := NewObjects()
		result := addCommit(t, o, ours, "result\n")
		change := addCommit(t, o, ZeroOID, "change\n")
		both := func(old OID) []Command {
			return []Command{{stateRef, old, result}, {changeRef, ZeroOID, change}}
		}
		out := r.CompareAndSwap(t.Context(), both(ours), o.Pack())
		wantStatus(t, out, Lost)
		if len(out.PerRef) != 2 {
			t.Errorf("per ref: %+v", out.PerRef)
		}
		wantRef(t, s.dir, stateRef, rival)
		wantRef(t, s.dir, changeRef, ZeroOID)

		// The order of the commands does not matter.
		swapped := both(ours)
		swapped[0], swapped[1] = swapped[1], swapped[0]
		wantStatus(t, r.CompareAndSwap(t.Context(), swapped, o.Pack()), Lost)
		wantRef(t, s.dir, changeRef, ZeroOID)

		// The owner gets both.
		wantStatus(t, r.CompareAndSwap(t.Context(), both(rival), o.Pack()), Won)
		wantRef(t, s.dir, stateRef, result)
		wantRef(t, s.dir, changeRef, change)
	})
}

func TestG5_NeverWon(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		r := s.open(t)
		at := claim(t, r, stateRef, runID(1))
		next, pack := lease(t, at, runID(2))
		unknown := OID(strings.Repeat("1", oidLen))
		for name, cmd := range map[string]Command{
			"an object id as ref":    {string(at), at, next},
			"a wrong name":           {"refs/writ/task/2", at, next},
			"an old id nobody knows": {stateRef, unknown, next},
			"a new id nobody has":    {stateRef, at, unknown},
			"a short id":             {stateRef, at[:12], next},
			"a symbolic old value":   {stateRef, "HEAD", next},
			// git itself deletes when it does not have the old object.
			"a deletion of what git does not have": {stateRef, unknown, ZeroOID},
			"a deletion of what is elsewhere":      {stateRef, next, ZeroOID},
			"nothing to nothing":                   {"refs/writ/task/3", ZeroOID, ZeroOID},
		} {
			out := r.CompareAndSwap(t.Context(), []Command{cmd}, pack)
			if out.Status == Won || out.Status == Unknown || out.Err == nil {
				t.Errorf("%s: %s %q", name, out.Status, out.Reason)
			}
		}
		wantRef(t, s.dir, stateRef, at)
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, at, ZeroOID}}, Pack{}), Won)
		wantRef(t, s.dir, stateRef, ZeroOID)
	})
}
