// Package kerneltest is the pure half of the simulator: a model of a git server,
// clocks that disagree, seeded choice, and the invariants E1 to E8 of the case
// list, checked over what happened.
//
// The other half drives the real supervisor over these parts: see the
// simulation in the tests of package supervisor. Everything here is
// deterministic: the same seed gives the same run, so that a failing one can be
// looked at again.
//
// It is for tests only.
package kerneltest
