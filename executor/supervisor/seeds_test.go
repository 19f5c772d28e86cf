//go:build !race

package supervisor

// defaultSeeds is how many seeds the simulation runs: a few seconds' worth.
const defaultSeeds = 300
