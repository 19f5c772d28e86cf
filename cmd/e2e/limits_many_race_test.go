//go:build race

package e2e

// manyTasks are approved at one moment. Under the race detector they are fewer:
// what a record costs grows with the tasks of its world, and that detector makes
// five times of it.
const manyTasks = 16
