// Package compliance is the room of rules: what a repository demands
// (contract), what a person asked for (instruction), what a builder may touch
// and did touch (scope), and what is said about it afterwards (report). Its
// other rooms keep the evidence: store, ledger, replay and, later, policy.
//
// Nothing here decides. It turns bytes from outside into facts and violations,
// always all of them and always in the same order, and kernel.Decide makes of
// them what it will. Nothing here talks to a forge, starts a process or opens
// a socket; scope reads and writes one workspace directory, report appends to
// one log file, store keeps one database file.
//
// Bytes from outside are hostile until parsed: each parser is strict, has a
// size limit, and says where and why it refuses.
package compliance
