// Package housekeeping keeps the promises that no single room can keep alone:
// which room may use what, that documents say what is true, and that nothing of
// one machine gets into the repository. It has tests only.
//
// The rules of the rooms are data, in rules_test.go: ordered, first match wins,
// each with its reason. To change the shape of the house, change a rule and say
// why there.
package housekeeping
