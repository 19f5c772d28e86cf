package scheduler

import (
	"hash/fnv"
	"strconv"
	"time"
)

// backoff is the wait after the n-th failure in a row: first, doubled with each
// failure up to most, less up to half of it. What is taken off depends on task
// and number alone, so that tasks which failed together don't come back
// together and a test can foretell it.
func backoff(k Key, n int, first, most time.Duration) time.Duration {
	d := first
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	d = min(d, most)
	return d - spread(k, n, d/2)
}

// spread is a duration below most, chosen by hash.
func spread(k Key, n int, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.String() + " " + strconv.Itoa(n))) // never fails
	return time.Duration(h.Sum64() % uint64(most))
}
