// Package schedulertest has a schedule in memory for tests, and the tests that
// every implementation of [scheduler.Schedule] and [scheduler.Notes] passes.
package schedulertest
