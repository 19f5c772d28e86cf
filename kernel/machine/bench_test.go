package machine_test

import "testing"

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
