package supervisor

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

func fingerprintOf(t *testing.T, line string) string {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	must(t, err)
	return git.Fingerprint(key)
}

// says adds an act of a key to the world's. The state ref is named where its HEAD is
// signed by the old key, as the commands do.
func (b *bench) says(act worldref.Act, signer ssh.Signer, old ssh.Signer) {
	b.t.Helper()
	room, err := worldref.Open(b.repo, b.place.cfg.World, worldref.Ref(DefaultRefPrefix), forgetful{})
	must(b.t, err)
	act.Actor, act.Reason, act.Time = "local:0:root", "yearly", fixtureTime
	c, err := b.repo.Commit(b.t.Context(), git.OID(b.ref(stateRef)))
	must(b.t, err)
	if signer, err := c.Verify(nil); git.CodeOf(err) == git.CodeUntrusted && signer == fingerprintOf(b.t, act.Old) {
		act.Refs = []worldref.Mark{{Ref: stateRef, Head: b.ref(stateRef)}}
	}
	if act = room.Draft(act); old != nil {
		must(b.t, act.Prove(old))
	}
	_, err = room.Append(b.t.Context(), act, worldref.Writer{Signer: git.NewSigner(signer), Name: "writ", Email: "writ@localhost"})
	must(b.t, err)
}

// rotated gives the installation another key, as `writ key rotate` does.
func (b *bench) rotated() {
	b.t.Helper()
	old, err := instancekey.Load(b.place.dir)
	must(b.t, err)
	next, err := instancekey.Next(b.place.dir)
	must(b.t, err)
	must(b.t, b.store.Rotate(b.t.Context(), b.place.cfg.World, next.Public, fixtureTime, "local:0:root", "yearly"))
	b.says(worldref.Act{Act: worldref.Rotate, Old: worldref.KeyLine(old.SSHSigner().PublicKey()), New: worldref.KeyLine(next.SSHSigner().PublicKey())},
		next.SSHSigner(), old.SSHSigner())
	must(b.t, instancekey.Replace(b.place.dir))
	b.open()
}

// keyed is an installation that died in its checks, with the lease at HEAD or the word
// that it is broken.
func keyed(t *testing.T, broken bool) *bench {
	b := newBench(t, newRepo(t), func(b *bench) { b.place.terms, b.place.acts = checkTerms, true })
	b.exec.held = func() {}
	b.reach(kernel.ActionChecks)
	b.open()
	if broken {
		b.reach(kernel.ActionTakeOver)
	}
	b.exec.held = nil
	return b
}

// ended has an installation bring the task to its end, and counts the builders.
func ended(t *testing.T, by *bench, builders int, all ...*bench) {
	t.Helper()
	by.pastLease()
	by.until(kernel.StandFinal)
	n := 0
	for _, b := range append(all, by) {
		n += len(b.exec.builds)
	}
	if n != builders {
		t.Errorf("%d builders ran, want %d", n, builders)
	}
}

// TestK11_KeyReplacedSince: an installation dies with sealed work and gets another key.
// Under that, it goes on with the work, and so does another one, whichever of the two
// keys it lists; whoever verifies needs the new key alone.
func TestK11_KeyReplacedSince(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"the lease at HEAD": false, "broken before": true} {
		t.Run(name+"/itself", func(t *testing.T) {
			b := keyed(t, broken)
			b.rotated()
			ended(t, b, 1)
			r, err := replay.VerifyTask(t.Context(), b.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{b.key}})
			if must(t, err); !r.OK {
				t.Errorf("with the new key: %s", r.Plain())
			}
		})
		for lists, which := range map[string]func(old, now ssh.PublicKey) []ssh.PublicKey{
			"the new key": func(_, now ssh.PublicKey) []ssh.PublicKey { return []ssh.PublicKey{now} },
			"both keys":   func(old, now ssh.PublicKey) []ssh.PublicKey { return []ssh.PublicKey{old, now} },
		} {
			t.Run(name+"/another that lists "+lists, func(t *testing.T) {
				b := keyed(t, broken)
				old := b.key
				b.rotated()
				b.close()
				other := b.joins(t)
				other.place.acts, other.place.cfg.Trusted = true, which(old, b.key)
				other.open()
				ended(t, other, 1, b)
			})
		}
	}
}

// TestK11_KeyReplacedWhileAnotherBrokeTheLease: the commit that the act names is another
// installation's; what lies below it counts all the same.
func TestK11_KeyReplacedWhileAnotherBrokeTheLease(t *testing.T) {
	t.Parallel()
	b := keyed(t, false)
	old := b.key
	other := b.joins(t)
	other.place.acts = true
	other.open()
	for range 6 {
		b.clock.advance(40_000)
		if other.tick().Decision.Action == kernel.ActionTakeOver {
			break
		}
	}
	b.trusts(other)
	b.rotated()
	b.close()
	other.place.cfg.Trusted = slices.Insert([]ssh.PublicKey{b.key}, 0, old)
	other.open()
	ended(t, other, 1, b)
}

// TestK11_KeyRevokedSince: what a key has sealed that was revoked since is built anew, by
// whomever, although HEAD itself still is where the task goes on.
func TestK11_KeyRevokedSince(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"the lease at HEAD": false, "broken before": true} {
		for _, rotated := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				b := keyed(t, broken)
				other := b.joins(t)
				other.place.acts = true
				keys := []ssh.PublicKey{b.key}
				if rotated {
					b.rotated()
					keys = append(keys, b.key)
				}
				b.close()
				other.place.cfg.Trusted = keys
				other.open()
				key, err := instancekey.Load(other.place.dir)
				must(t, err)
				other.says(worldref.Act{Act: worldref.Revoke, Old: worldref.KeyLine(keys[len(keys)-1])}, key.SSHSigner(), nil)
				ended(t, other, 2, b)
				if said := gittest.Git(t, b.bare, "log", "-1", "--format=%B", stateRef); !strings.Contains(said, "aynig-state: completed") || strings.Contains(said, "writ-resumes") {
					t.Error(said)
				}
			})
		}
	}
}
