// Command writ governs tasks on a git repository: it claims an approved task,
// has a builder do it in a sandbox, verifies what came of it from raw bytes,
// and delivers one clean commit with its evidence, or says why not.
//
// This package reads flags, configuration and files, and wires the rooms
// together. It decides nothing: what happens to a task is decided by package
// kernel and done by executor/supervisor. What commands share lies below
// cmd/internal: the state directory of an installation and the requests that one
// process leaves for another (installation), how a person is told of an error, with
// the exit statuses (problem), and what a person sees and is asked (terminal).
package main
