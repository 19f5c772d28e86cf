// Package gittest makes real git repositories for tests and serves them as
// servers do: over smart HTTP with package smarthttp, over SSH with git's own
// programs, both on the loopback interface, with faults on request.
//
// It is for tests only. It needs the git program.
package gittest
