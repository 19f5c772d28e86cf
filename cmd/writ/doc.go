// Command writ governs tasks on a git repository: it claims an approved task,
// has a builder do it in a sandbox, verifies what came of it from raw bytes,
// and delivers one clean commit with its evidence, or says why not.
//
// This package reads flags, configuration and files, and wires the rooms
// together. It decides nothing: what happens to a task is decided by package
// kernel and done by executor/supervisor. It owns the state directory of an
// installation (statedir.go), the requests that one process leaves for another
// (requests.go), what a person sees (display.go, errors.go), and the exit
// statuses (exit.go).
package main
