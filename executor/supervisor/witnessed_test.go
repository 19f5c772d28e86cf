package supervisor

import (
	"slices"
	"strconv"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestL19_NamedByARebinding: a state commit that a rebinding names was seen, also for an
// installation that never looked. Where it is removed, set back or replaced, the task waits
// for a person, is not done again, and goes on by itself once it is put back. What a person
// goes on from instead, everybody does.
func TestL19_NamedByARebinding(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(t *testing.T, bare, head string, other *bench){
		"removed": func(t *testing.T, bare, _ string, _ *bench) { gittest.Git(t, bare, "update-ref", "-d", stateRef) },
		"set back": func(t *testing.T, bare, head string, _ *bench) {
			gittest.Git(t, bare, "update-ref", stateRef, head+"^")
		},
		"begun anew by one who doesn't know": func(t *testing.T, bare, _ string, other *bench) {
			gittest.Git(t, bare, "update-ref", "-d", stateRef)
			gittest.Git(t, bare, "update-ref", "-d", changeRef)
			other.until(kernel.StandFinal)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare := newRepo(t)
			old := newBench(t, bare, func(b *bench) { b.place.cfg.World = "old" })
			old.until(kernel.StandFinal)
			head := old.ref(stateRef)
			other := newBench(t, bare, func(b *bench) { b.place.cfg.World = "new" }) // reads no acts
			joins := func(trusted ...ssh.PublicKey) *bench {
				return newBench(t, bare, func(b *bench) {
					b.place.acts, b.place.cfg.World, b.place.cfg.Trusted = true, "new", slices.Concat(trusted, []ssh.PublicKey{old.key, other.key})
				})
			}
			a := joins()
			_, err := a.sup.deps.Acts.Append(t.Context(), worldref.Act{
				Act: worldref.Rebind, Actor: "ada", Time: fixtureTime, Old: "old", New: "new",
				Refs: []worldref.Mark{{Ref: stateRef, Head: head}},
			}, worldref.Writer{Signer: a.sup.deps.Signer, Name: "writ", Email: "writ@localhost"})
			must(t, err)
			tamper(t, bare, head, other)
			b := joins(a.key)
			r := &rivals{t: t, bare: bare}
			r.waitsForRepair(a, kernel.CodeStateRollback)
			r.waitsForRepair(b, kernel.CodeStateRollback)
			if n := len(a.exec.builds) + len(b.exec.builds); n > 0 {
				t.Fatalf("it was done again: %d builds", n)
			}
			there := b.ref(stateRef)
			gittest.Git(t, bare, "update-ref", stateRef, head)
			joins(a.key).until(kernel.StandFinal)
			if there == "" {
				gittest.Git(t, bare, "update-ref", "-d", stateRef)
			} else {
				gittest.Git(t, bare, "update-ref", stateRef, there)
			}
			gittest.Git(t, bare, "update-ref", "-d", changeRef)
			must(t, b.sup.Resume(t.Context(), 1, "alice", "I looked"))
			b.until(kernel.StandFinal)
			if got := b.trailer(kernel.TrailerSeq); len(b.exec.builds) != 1 || !slices.Contains(got, strconv.Itoa(3+kernel.RepairSeqStep)) {
				t.Errorf("after the repair: %d builds, numbers %v", len(b.exec.builds), got)
			}
			a.trusts(b)
			a.until(kernel.StandFinal)
			joins(a.key, b.key).until(kernel.StandFinal)
		})
	}
}

// TestL12_ResumedUnderAStrangersLease: a person takes back his halt while a stranger's
// lease is live. It isn't said of the state that comes when the lease has ended: what was
// completed below is not done again.
func TestL12_ResumedUnderAStrangersLease(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.place.cfg.Trusted, r.b.place.cfg.Trusted = nil, nil
	r.a.open()
	r.b.open()
	r.a.exec.hold = false
	r.a.until(kernel.StandFinal)
	r.b.tick()
	r.git("update-ref", "-d", changeRef)
	must(t, r.b.sup.Resume(t.Context(), 1, "bob", "mine"))
	r.b.reach(kernel.ActionClaim)
	if st := r.a.tick(); st.Decision.Standing != kernel.StandHeld {
		t.Fatalf("a stranger's lease: %s", st.Decision.Standing)
	}
	must(t, r.a.sup.Halt(t.Context(), 1, "alice", "what is that?"))
	must(t, r.a.sup.Resume(t.Context(), 1, "alice", "I looked"))
	r.a.open()
	r.a.tick()
	r.a.clock.advance(4_000_000)
	r.waitsForRepair(r.a, kernel.CodeLeaseUntrusted)
	if n := len(r.a.exec.builds); n != 1 {
		t.Errorf("%d builds", n)
	}
}
