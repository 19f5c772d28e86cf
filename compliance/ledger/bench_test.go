package ledger

import (
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel"
)

func BenchmarkAppendAlone(b *testing.B) { benchmarkAppend(b, 1) }

func BenchmarkAppendBatch64(b *testing.B) { benchmarkAppend(b, 64) }

func benchmarkAppend(b *testing.B, batch int) {
	_, l, _ := sample(b, 1)
	drafts := make([]kernel.Draft, batch)
	for i := range drafts {
		drafts[i] = audit(i)
	}
	for b.Loop() {
		if _, err := l.Write(context.Background(), 0, drafts...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "records/s")
}

// benchRecords is enough for the file not to fit SQLite's own cache.
const benchRecords = 50_000

func benchLedger(b *testing.B) (*Ledger, [][]byte) {
	_, l, _ := sample(b, 1)
	for l.Chain().Head.Seq < benchRecords {
		drafts := make([]kernel.Draft, 1000)
		for i := range drafts {
			drafts[i] = audit(i)
		}
		if _, err := l.Write(context.Background(), 0, drafts...); err != nil {
			b.Fatal(err)
		}
	}
	return l, linesOf(b, l)
}

// cpu is the processor time of the process so far: per core, whatever else the
// machine does, and with what the garbage collector takes.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// verifying measures f, which reads all lines once: its rate per core, and its
// time as a multiple of what SHA-256 alone takes over the same bytes in the
// same run.
func verifying(b *testing.B, lines [][]byte, f func()) {
	runtime.GC()
	b.ResetTimer()
	start := cpu(b)
	for b.Loop() {
		f()
	}
	perRun := (cpu(b) - start) / time.Duration(b.N)
	const rounds = 10
	var sink [sha256.Size]byte
	size := 0
	start = cpu(b)
	for range rounds {
		for _, raw := range lines {
			sink = sha256.Sum256(raw)
			size += len(raw)
		}
	}
	alone := (cpu(b) - start) / rounds
	runtime.KeepAlive(sink)
	b.ReportMetric(float64(len(lines))/perRun.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(perRun)/float64(alone), "x-sha256")
	b.ReportMetric(float64(size)/rounds/float64(len(lines)), "bytes/record")
}

func BenchmarkVerify(b *testing.B) {
	l, lines := benchLedger(b)
	verifying(b, lines, func() {
		if r, err := l.Verify(context.Background(), VerifyOptions{}); err != nil || !r.OK {
			b.Fatal(r, err)
		}
	})
}

// BenchmarkVerifyClosed reads closed segments, all but the newest records.
func BenchmarkVerifyClosed(b *testing.B) {
	l, lines := benchLedger(b)
	closeAll(b, l)
	verifying(b, lines, func() {
		if r, err := l.Verify(context.Background(), VerifyOptions{}); err != nil || !r.OK {
			b.Fatal(r, err)
		}
	})
}

func BenchmarkVerifyDeep(b *testing.B) {
	l, lines := benchLedger(b)
	verifying(b, lines, func() {
		if r, err := l.Verify(context.Background(), VerifyOptions{Deep: true}); err != nil || !r.OK {
			b.Fatal(r, err)
		}
	})
}

func BenchmarkVerifyLines(b *testing.B) {
	_, lines := benchLedger(b)
	verifying(b, lines, func() {
		if r := VerifyLines(slices.Values(lines), Expect{World: worldA}); !r.OK {
			b.Fatal(r)
		}
	})
}
