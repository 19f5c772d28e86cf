//go:build !race

package supervisor

// defaultSeeds is how many seeds the simulation runs: a few seconds' worth; make seeds
// runs ten times as many.
const defaultSeeds = 150

// defaultHostedSeeds is how many run over the real adapters; make seeds runs 500.
const defaultHostedSeeds = 30
