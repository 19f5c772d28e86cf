// Package ledger keeps what one instance saw, decided and did: hash-chained
// records of each world, under a Merkle tree whose root the instance signs
// (seed 003 §1 and §3).
//
// It is the only writer of ledger storage. It decides nothing: records are
// made by the kernel, and a record is stored before the act that it announces.
// If it can't be stored, [Ledger.Append] says so and nothing may happen.
//
// # The record
//
// A record is one canonical JSON document (package canon), its hash SHA-256 of
// these very bytes. The next record names that hash as "prev", and the first
// one binds the chain to a world, an instance's key and a contract. Real bytes
// of a first record and the second are in testdata/golden.jsonl; a file of
// records is their bytes, a newline after each.
//
//	{"body":{…},"instance":"SHA256:…","kind":"audit","prev":"sha256:…","run_id":"","seq":1,"task":0,"time":5,"v":1,"world_id":"…"}
//
// seq is the order. time is the virtual clock, which never goes back; no
// verification reads another clock.
//
// # The tree
//
// Record n is leaf n of an RFC 6962 tree (golang.org/x/mod/sumdb/tlog). The
// leaf's data are the 32 bytes of the record's hash, so that a proof can be
// checked from a hash alone, where the record itself was redacted. The hashes
// that record n completes, its leaf and the parents to its left, are kept with
// it.
//
// # The checkpoint
//
// A chain can't show that its end was cut off; a signed root outside the store
// does. A checkpoint is a signed note (golang.org/x/mod/sumdb/note) of three
// lines, as C2SP's tlog-checkpoint has them, signed by the instance's key:
//
//	writ/<world>
//	<number of records>
//	<root, base64>
//
// One lies there from the first record on ([KeptCheckpoint]): that none does, beside a
// ledger of more records, is ledger.rollback as well.
//
// # Histories
//
// Of two checkpoints by one key the larger continues the smaller. Where an older
// store was restored, that can't hold any more: the key signed records that are
// gone, and will sign others in their place. [Ledger.Adopt] declares it, as a
// record of kind "adoption": who, why, and the whole notes of the checkpoints
// that this ledger no longer fulfils. With that record begins the next history,
// and its checkpoints name it in their origin:
//
//	writ/<world> history <number, from 2>
//
// So each history is a log of its own for a witness, and within one no two
// checkpoints contradict each other. Whoever holds an old checkpoint tells a
// declared fork from equivocation by [Ledger.Verify] or [VerifyLines], offline:
//
//   - the ledger fulfils it: same root and history at its size;
//   - an adoption in the ledger names this very checkpoint, signature and all:
//     abandoned, by whom and why (Report.Declared);
//   - neither: ledger.rollback. That it lies between the older store and a named
//     checkpoint is no excuse, for it may be of a third history; the holder can
//     have it named by another adoption.
//
// A record of the abandoned history, with its proof and its checkpoint, is as
// good as ever: it shows what the key's holder testified to. Two ledgers that
// begin the same history differently contradict each other under one origin;
// whoever sees both has the proof.
//
// # Storage
//
// One SQLite file, WAL, synchronous=FULL, holds several worlds. It stores the
// exact bytes of each record beside the two columns that are searched for, seq
// and task, and [Ledger.Verify] checks every column against the bytes. The
// ledger asks for little, a consistent view and a durable compare-and-swap of
// the head, so that another database can take its place.
//
// # Closed segments
//
// 512 records from a multiple of 512 on are the leaves of one complete subtree. Once
// a stored checkpoint signs them, and 512 records stand behind them, they are closed:
// one transaction puts a segment in the place of their rows. It is one zstd frame of
// their exact bytes, a newline after each, with the hashes that the last record
// completed, and the tasks that they are of. All other hashes follow from the bytes. It
// takes a tenth of the room, and gives the records and proofs that the rows gave.
// Rows whose hashes aren't those that were stored with them are never closed, so that a
// verification still says which record was changed. Of a segment whose frame can't be
// read it names the first record.
//
// The first closed segments can be archived ([Ledger.Archive]): their data are moved to
// files of their own, in a directory that the store remembers. What stays is the hashes
// and a signed [Mark] of their end. With the files at hand the ledger is read and verified
// as one chain, and must be the mark's where they end; without them it is verified from
// the mark on, and who asks for an archived record gets ledger.archived.
//
// # Going on from a mark
//
// A [Mark] is all that is needed to verify what follows a record: its hash and time,
// the right edge of the tree, the genesis, the keys and the adopted histories. Signed,
// with what somebody folded of the records before, it is two lines of canonical JSON
// and a note of the instance's key:
//
//	{"adopted":…,"edge":["<root of 2^n records, base64>",…],"genesis":…,"head":…,"kind":"ledger_mark",…}
//	<what was folded>
//
//	writ-mark/<world>
//	sha256:<of the first line>
//	sha256:<of the second>
//
//	— <name> <signature>
//
// [Store.WorldFrom] verifies what follows the mark before it returns, and what comes
// before it behind. Until that is done no record of before is handed out, and of the
// tree's hashes only those that the mark has. It is done once the tree of all these
// records is the mark's. A fault ends the ledger.
//
// # After a failure
//
// A store that failed once takes nothing more (ledger.unavailable): the process
// stops, and verification at the next start says what is there. A record that
// was stored although its append failed announces an act that never happened;
// whoever goes on looks the act up, as after a crash. A tail that doesn't verify
// keeps the ledger closed until [Store.Quarantine] is asked for.
package ledger
