// Package ledger keeps what one instance saw, decided and did: hash-chained
// records of each world, under a Merkle tree whose root the instance signs
// (seed 003 §1 and §3; DESIGN §4, "Whose truth").
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
// # After a failure
//
// A store that failed once takes nothing more (ledger.unavailable): the process
// stops, and verification at the next start says what is there. A record that
// was stored although its append failed announces an act that never happened;
// whoever goes on looks the act up, as after a crash. A tail that doesn't verify
// keeps the ledger closed until [Store.Quarantine] is asked for.
package ledger
