// Package executor holds the contract between writ and the programs that do a
// task: what is dispatched to a builder and what it hands in (seed 001).
// Starting and isolating such a program is the work of executor/builder and
// executor/sandbox.
package executor
