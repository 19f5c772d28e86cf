package machine_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/writbot/writ/kernel/canon"
)

// benchmark measures a request beside its floor, SHA-256 over the entries that it seals.
func benchmark(b *testing.B, h *handler) {
	a := &auditor{}
	m := booted(b, a, h)
	m.tb = nil
	req := request("r")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Submit(req); err != nil {
			b.Fatal(err)
		}
		a.entries = a.entries[:0]
	}
	each := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	if _, err := m.Submit(req); err != nil {
		b.Fatal(err)
	}
	var sealed [][]byte
	for _, e := range a.entries {
		text, err := canon.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		sealed = append(sealed, text)
	}
	const times = 1000
	began := time.Now()
	for range times {
		for _, text := range sealed {
			sha256.Sum256(text)
		}
	}
	floor := float64(time.Since(began).Nanoseconds()) / times
	b.ReportMetric(each/floor, "x-sha256")
	b.ReportMetric(float64(len(sealed)), "entries")
}

// BenchmarkSubmit is a request with an effect: five changes, two appends.
func BenchmarkSubmit(b *testing.B) { benchmark(b, withTool(done)) }

// BenchmarkSubmitNothing is a request with nothing to do: four changes, one append.
func BenchmarkSubmitNothing(b *testing.B) { benchmark(b, &handler{}) }

// BenchmarkBoot is SM7: booting has no work of its own.
func BenchmarkBoot(b *testing.B) {
	for b.Loop() {
		booted(b, &auditor{}, &handler{})
	}
}
