// Package kernel holds Writ's domain: task states, failure codes, the records
// of a ledger, the dispatch and its result, and the decision of a tick.
//
// It is pure. Time, randomness and identifiers are inputs, nothing here reads
// a clock, a file or a socket, and the same input gives the same bytes on any
// machine. Whatever runs, stores or pushes lives in other rooms and does so on
// the word of [Decide].
//
// The rooms below it: canon (canonical JSON and hashing), machine (the seven
// states of seed 004), lease (the trailers and lease arithmetic of seed 000),
// plan (interpretations and build plans of seed 003) and world (the WorldKernel
// of seed 002).
package kernel
