package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/compliance/store"
)

const benchWriters = 64

// benchBody has the size of an issue event and compresses as one.
func benchBody(i int64) []byte {
	const size = 4 << 10
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, uint64(i)))
	for b.Len() < size {
		fmt.Fprintf(&b, `{"id":%d,"login":"user-%d","site_admin":false,"url":"https://forge.example/%d"},`, r.Int64(), r.Int64N(1000), r.Int64N(1e6))
	}
	return []byte(b.String()[:size])
}

// BenchmarkAccept is how many deliveries 64 senders get stored, in groups as
// the store makes them, and each in a synchronous transaction of its own, in
// the same run. A body is kept only where a delivery has evidence.
func BenchmarkAccept(b *testing.B) {
	for _, kept := range []bool{false, true} {
		rates := map[string]float64{}
		for _, way := range []string{"alone", "groups"} {
			b.Run(fmt.Sprintf("%s/kept=%v", way, kept), func(b *testing.B) {
				rates[way] = benchmarkAccept(b, way == "alone", kept)
				b.ReportMetric(rates[way], "deliveries/s")
				if way == "groups" && rates["alone"] > 0 {
					b.ReportMetric(rates["groups"]/rates["alone"], "x-alone")
				}
			})
		}
	}
}

func benchmarkAccept(b *testing.B, alone, kept bool) float64 {
	in, db := openAt(b, filepath.Join(b.TempDir(), store.FileName))
	bodies := make([][]byte, 64)
	for i := range bodies {
		bodies[i] = benchBody(int64(i))
	}
	var turn sync.Mutex
	var ids atomic.Int64
	accept := func(i int64) error {
		d := delivery(strconv.FormatUint(uint64(i)*0x9e3779b97f4a7c15, 16), i)
		d.Body, d.Digest = nil, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		if kept {
			d.Body = bodies[i%int64(len(bodies))]
		}
		if alone {
			turn.Lock()
			defer turn.Unlock()
		}
		_, err := in.Accept(context.Background(), d, []Key{{worldA, 1 + i%2000}})
		return err
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for range benchWriters {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := accept(ids.Add(1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	n := db.Counts()
	b.ReportMetric(float64(n.Writes)/float64(n.Commits), "deliveries/commit")
	return float64(b.N) / b.Elapsed().Seconds()
}

// BenchmarkDue is one look at a schedule where 2,000 of 4,000 tasks of 50
// worlds are due.
func BenchmarkDue(b *testing.B) {
	e := tried{b, sample(b)}
	for w := range 50 {
		var keys []Key
		for n := range int64(40) {
			keys = append(keys, Key{fmt.Sprintf("forge.example/team/%d", w), n + 1})
		}
		e.mark(1000, keys...)
		for i := range keys {
			keys[i].Task += 40
		}
		e.mark(1_000_000, keys...)
	}
	for b.Loop() {
		if list, err := e.in.Due(context.Background(), 2000, 256); err != nil || len(list) != 256 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkTakeDone is what one look at a task costs the schedule.
func BenchmarkTakeDone(b *testing.B) {
	e := tried{b, sample(b)}
	e.mark(1, a(1))
	for b.Loop() {
		e.done(e.take(a(1)), 1)
	}
}
