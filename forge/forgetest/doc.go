// Package forgetest holds what tests of forges share: [Exercise], the suite that
// every adapter passes; [Fake], a forge in memory on which people and a bot act;
// and [Faults], a client around another one that refuses, fails after applying,
// answers from a stale replica, and lets somebody act between two calls.
//
// Faults wraps any forge.Client, not only a Fake's:
//
//	scene := forgetest.NewScene(clock)
//	scene.Bot.Fail(forgetest.On(forgetest.AddComment), 1,
//		forgetest.Fault{Reason: forge.Unavailable, Applied: true}) // a 502 after the comment is there
//
// The package is for tests only. Nothing in it starts goroutines, sleeps, or
// reads a clock other than the one it was given.
package forgetest
