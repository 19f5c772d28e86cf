// Command mutants shows that each defence is tested: it builds the code with one
// defence taken out, and the test that is named for it must then fail.
//
//	go run ./cmd/mutants [-only REGEXP] [-pkg DIR] [-j N] [-check]
//	go run ./cmd/mutants -changed BASE [-budget DURATION] [-seed TEXT]
//
// # Tables
//
// A package's mutants are the entries of mutants.txt in its directory, beside
// the tests that must notice them, whichever package the defence itself is in:
// an entry says something about a test, and who changes a test sees it there.
//
//	mutant L8-expired-is-live
//	test ^TestL8_Expired$ -race
//	file kernel/lease/lease.go
//	- if now.After(l.Expires) {
//	+ if false {
//
// A mutant's name is unique in the repository and begins with the case it
// belongs to. The pattern is that of go test -run; -race asks for the race
// detector. The file is named from the repository's root. After "- " and "+ "
// the text is exact, tabs included; a sign alone is an empty line. The old text
// must occur in the file exactly once. It may be a part of a line, or several
// lines: then the first may begin, and the last end, within a line. Without a
// "+" line, the lines named are taken out as a whole. A mutant may have several
// such places: one more "- " after a "+ ", or one more "file", begins the next.
// All are looked for in the file as it is. An empty line ends the entry, and
// lines with # between entries are comments.
//
// # Runs
//
// The mutants of a package's table are compiled together where they can be: a function
// that some of them change calls the copy of one of them, so that the tests are built once.
// The environment says which, or else the end of the program's own file. Built by itself is what
// changes more than the bodies of functions, an init function, or one that recovers or
// looks at its callers; what asks for the race detector; what a test shows by a process
// that is told neither way; and what wasn't noticed: what survives there, too, is a
// survivor.
//
// A test with a mutant ends after 30 seconds and five times what it takes without one, at
// most three minutes. If it didn't end before, the mutant counts as noticed: it took out a
// deadline or a kill.
//
// The tree stays as it is: the go command gets an overlay (go help build, -overlay), by
// GOFLAGS, so that a program which a test builds has the mutant in it too. A
// test that reads the sources of its own package embeds them, which the overlay
// reaches. One that reads another file of the tree by itself, as cmd/housekeeping does,
// finds the overlay's file through cmd/internal/treetest. Who edits the tree
// meanwhile tests what he edits.
//
// It is an error if an entry doesn't apply, if what comes out doesn't compile,
// if the pattern names no test, if the test fails without the mutant too, and
// above all if it passes with it. With -check only the first two and, by the names
// of the tests, the third are looked at; of what comes out only the types are
// checked, package by package, so that all of them take less than a minute.
//
// With -changed, the mutants of the packages that differ from BASE are tried:
// those whose test or whose defence is there. Entries that are new or different
// come first, and the others by lot, which the seed decides, until the budget
// is spent. BASE is a commit, or "auto" for the last change: what the default
// branch of origin doesn't have, or else the last commit, or else, in a clone
// that has only one, everything.
//
// Exit status: 0 if every mutant that was tried was killed, 1 if not, 2 if the
// command itself could not work.
package main
