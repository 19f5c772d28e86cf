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
//	binding    HEAD and its run's leases were made for this world, ref and task
//	tree       the files are those of the signed commit, and no others
//	refresh    the result that this one replaced verifies, and its diff makes this one here
//	revision   the list, what the builder was told of it, and the result that it goes on from
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
//	acts       those that state commits were signed under are there
//	gaps       what is lost with a holder that died is of no run whose work was accepted
//	restored   HEAD put that result back, and nothing of it is another
//	merge      the merge that HEAD waited for completed it, and nothing else changed
//
// A run that went on with the sealed work of an interrupted one (writ-resumes) has no
// dispatch of its own. Its pack holds the earlier run's dispatch, which is built again
// from that run's claim further down, and the manifest of what was sealed; its leases
// have the sealed work in their tree, and result and diff are the earlier run's.
//
// A run that applied a delivered result on another base (writ-refreshes) has no dispatch of
// its own either: its pack holds that of the result that it replaced, which stands right
// below its claim, and which is verified whole, with what it replaced itself. Where such a
// run came to nothing, HEAD put the delivered result back: signature to change speak of that
// one, and restored of HEAD.
//
// A revision of a delivered result (writ-fixes) has a dispatch of its own, from a seed pack
// whose base is the delivered commit and which has the list of comments (writ-fix). The
// result below its claim is verified whole, too.
//
// A task whose issue is closed at the merge of its change (close_on: merged) has its
// result below HEAD: the commit that waited for the merge. Signature to change speak of
// that one, and merge of HEAD, which any trusted instance may have put on it; whoever
// vouches for a completed task vouches for both signers.
//
// Those up to kernel, but refresh and revision, apply to any HEAD, as far as it has the files; the others to
// the result of a run. A result whose server took only hashes has no records:
// the checks that need them fail with evidence.redacted. Evidence of another
// kernel version is refused by name (replay.version_mismatch).
//
// A state that no run's pack belongs to may have a report, which is held against HEAD
// itself. What it says beyond that is named as not verified; so are the files of a
// commit below whose tree such a state carries along, and sealed work. Any other file
// is a fault.
//
// A good report says: this key's holder recorded these facts, its kernel's
// rules give these decisions, and the change is the one that was checked. It
// can't say that the facts were so, nor that this is the newest HEAD that ever
// was: who may rewrite the ref can put an older one there.
//
// [VerifyWorld] does the same for a whole ledger, whose chain package ledger has verified:
// it folds the records as a server does at its start, so that each is held by the
// receipts after it.
//
// # Parts
//
// A pack holds the records of its task, and the receipts between them. Where
// another task's records stood, there is a gap; proofs.json lists the unbroken
// parts and proves the first and the last record of each, and the record that
// the checkpoint ends with, whose hash is the trailer writ-ledger-head.
package replay
