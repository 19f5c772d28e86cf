// Package worldref is the room of the acts that change who counts in a world:
// signed commits on one ref beside the state refs, `refs/writ/world`. It reads and
// writes that ref, and decides which signature counts for which commit. It knows no
// tasks, judges no lease and runs nothing. This comment is the specification.
//
// # The ref
//
// A linear history, the newest act last, moved by compare-and-swap alone. Each act
// stands on the act before it, the first on nothing; what somebody else puts in
// between is no parent of the next one, which takes its place. Each commit is signed
// in the SSH format. Its tree has one file, act.json, canonical
// JSON, and its message follows from that file byte for byte:
//
//	writ: rotate
//
//	writ-format: 1
//	writ-world: github.com#1296269
//	writ-act: rotate
//
//	{"act":"rotate","actor":"local:1000:ada","kind":"world_act","new":"ssh-ed25519 AAAA…","old":"ssh-ed25519 AAAA…",
//	 "proof":"-----BEGIN SSH SIGNATURE…","reason":"yearly","refs":[{"head":"4f…","ref":"refs/writ/task/7"}],
//	 "time":1763856000000,"v":1,"world_id":"github.com#1296269"}
//
// The acts are
//
//	rebind  the world OLD goes on as this one, after a migration
//	rotate  the key OLD was replaced by NEW
//	revoke  the key OLD counts no more
//	repair  a person looked at refs that were set back, and goes on
//
// and the refs of each are how far OLD counts: the very commit that is named on
// that very ref, and nothing newer. Of a repair they are what was looked at.
//
// # What counts
//
// An act is an act of its reader's world if it names it; of another world if a
// rebinding, which counts and came later, says that that world goes on as this one.
//
// An act counts if its signer is listed (`runners`, `trusted_runners`, the reader's
// own key) or vouched for, and no earlier act that counts took the signer's word
// from him. A rotation that counts vouches for the old key's acts before it, a
// revocation does if it names the commit that it stands on: so the acts of a key
// outlive its place in the lists. What isn't an act,
// or is one of somebody who isn't listed, is passed over: anybody who may push can
// write there, and may neither gain nor destroy anything by it.
//
// One act needs no place in a list: a key may take its own word from itself. A
// rotation bears, as proof, the old key's signature over the act; by that alone the
// old key counts no further than the act says, for everybody who lists it. That is
// all that a signature of the old key does: NEW counts for those who list NEW. After
// a revocation such a proof is worth nothing.
//
// [Standing.Signs] answers for a signer and a commit, [Standing.Bound] for the
// world that a commit names.
//
// # Roll-back
//
// Who may push may also set the ref back, which would bring a revoked key to life.
// What a reader has seen, it therefore keeps ([Memory]) and goes by. A ref that
// lacks the end of what was seen, or that is at something which is no act, is put
// back with the next act that is written, and before that ([Room.PutBack]) if something
// counts of what it lacks: whoever saw nothing of it would go by keys that count no
// more. One whose acts contradict it is a fork,
// nothing of which counts, and a person decides; unless nothing of it counts, after what
// was seen, for those who are listed here: then it is put back, too. So neither a
// stranger nor the key that was revoked covers a revocation.
//
// Of two that saw two keys revoke each other each puts back what it saw, at every sweep,
// until the stolen key is taken out of the lists where it counts: then that is a fork.
//
// # Limits
//
// A look follows 4,096 commits, act.json has at most 32 MiB, and 4,096 acts of
// together 128 MiB are kept of writers that nobody here lists. What is more isn't read, what was seen
// before counts, and the fault says so.
package worldref
