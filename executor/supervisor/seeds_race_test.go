//go:build race

package supervisor

// defaultSeeds is how many seeds the simulation runs under the race detector,
// which slows it down by a factor of five. The seeds are the first ones of the
// run without it.
const defaultSeeds = 20

// defaultHostedSeeds is how many run over the real adapters; make seeds runs 500.
const defaultHostedSeeds = 5
