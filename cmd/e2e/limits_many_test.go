//go:build !race

package e2e

// manyTasks are approved at one moment.
const manyTasks = 200
