// Package replay makes and verifies the evidence of a task, offline.
//
// The commit at HEAD of a task's state ref holds a pack: what was approved, the
// contract, the dispatch, the records of the run with their proofs against a
// signed checkpoint, and the report. With the repository and nothing else this
// package shows that the pack is whole, that it was signed by whom it says,
// that every decision follows from its recorded facts, and that the change is
// the one that was checked. It opens no socket and starts no process; what it
// reads comes through the interfaces that it is given.
//
// # What is shown
//
// [Verify] is a function of bytes. It evaluates every check, in this order, and
// the report has a line for each:
//
//	signature  HEAD is signed; by whom, and whether somebody vouched for the key
//	head       HEAD is a state event; which, and for `working` who and until when
//	tree       the files are those of the signed commit, and no others
//	lease      claim and heartbeats of the run are the signer's, one parent each
//	seed_pack  strict, of this task; its text has the approved digest
//	contract   its hash is the pinned one; the checks are the contract's
//	kernel     the version whose rules took the decisions is this one
//	plan       interpretation, spec and plan follow from the seed pack
//	dispatch   built again from claim and seed pack, byte for byte
//	records    strict, canonical, one world and instance, chained, in order
//	proofs     the ends of the records stand under the signed checkpoint
//	decisions  each one taken again from its recorded facts, byte for byte
//	audit      each change of state has its entry, in one chain
//	effects    each effect has its intent before and its outcome after
//	receipts   each round begins where the one before ended
//	result     the verdict follows from result, diff and checks
//	report     the report is the recorded one, in both forms
//	retry      what the next attempt is told is what was recorded
//	change     the commit is base and recorded changes, and nothing else
//
// The first seven apply to any HEAD, as far as it has the files; the others to
// the result of a run. A result whose server took only hashes has no records:
// the checks that need them fail with evidence.redacted. Evidence of another
// kernel version is refused by name (replay.version_mismatch).
//
// A good report says: this key's holder recorded these facts, its kernel's
// rules give these decisions, and the change is the one that was checked. It
// can't say that the facts were so, nor that this is the newest HEAD that ever
// was: who may rewrite the ref can put an older one there.
//
// # Parts
//
// A pack holds the records of its task, and the receipts between them. Where
// another task's records stood, there is a gap; proofs.json lists the unbroken
// parts and proves the first and the last record of each, and the record that
// the checkpoint ends with, whose hash is the trailer writ-ledger-head.
package replay
