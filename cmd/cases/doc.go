// Command cases prints which case of the list is held by which test, from a
// real run of the tests: a case without a passing test is not held, whatever a
// document says.
//
//	go run ./cmd/cases [-in FILE] [go test arguments, default ./...]
//	go test -json ./... | tee FILE | go run ./cmd/cases -follow
//
// It exits 1 if an owed case has no passing test, a test that bears a case's id
// failed, a package failed, or a test names a case that isn't in the list.
// The list is cases.txt beside this file. The second form prints what plain go
// test would, so that one run serves people and the table.
package main
