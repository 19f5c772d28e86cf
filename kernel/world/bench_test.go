package world_test

import (
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/world"
)

// history is a ledger of at least n records, of tasks that are done one after
// the other.
func history(b testing.TB, n int) *book {
	b.Helper()
	k := open(b, config())
	for task := int64(1); len(k.records) < n; task++ {
		k.job(task, "r"+text(task)).to(atPushed)
	}
	return k
}

// BenchmarkFold10000 folds a ledger of 10,000 records, about 300 tasks.
func BenchmarkFold10000(b *testing.B) {
	records := history(b, 10_000).records
	b.ReportAllocs()
	for b.Loop() {
		if _, err := world.Open(records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(records))*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkRound is one round of two records, in a world with that many tasks.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{33, 3300} {
		b.Run(text(int64(n/33))+"tasks", func(b *testing.B) {
			k := history(b, n)
			j := k.job(1, "r1")
			for b.Loop() {
				f := j.facts("completed", "")
				k.round(j.decided(f, kernel.ActionNone, kernel.TaskCompleted)...)
			}
		})
	}
}
