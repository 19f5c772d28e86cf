// Command mutants shows that each defence is tested: it takes one defence out in
// a scratch copy of the repository, and the test that is named for it must then
// fail.
//
//	go run ./cmd/mutants [-only REGEXP] [-j N] [-check]
//
// A mutant is a file testdata/mutants/<case>-<short>.patch. Its first line names
// package and tests, and whether the race detector is needed to see it:
//
//	# test: ./kernel/lease ^TestL8_ [-race]
//
// and a unified diff follows, with paths a/… and b/…. It is an error if the
// patch doesn't apply, if what comes out doesn't compile, if the pattern names
// no test, or if the test fails without the mutant too. Exit status: 0 if every
// mutant was killed, 1 if not, 2 if the command itself could not work.
package main
