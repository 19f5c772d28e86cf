package machine_test

import (
	"testing"

	"github.com/writbot/writ/kernel/machine"
)

type nowhere struct{}

func (nowhere) Append([]machine.Entry) error { return nil }

func benchmark(b *testing.B, h machine.Handler) {
	m, err := machine.New(machine.Config{Kernel: "k", Auditor: nowhere{}, Handler: h})
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Boot(func() error { return nil }); err != nil {
		b.Fatal(err)
	}
	req := request("r")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Submit(req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSubmit is a request with an effect: five changes, two appends.
func BenchmarkSubmit(b *testing.B) { benchmark(b, withTool(done)) }

// BenchmarkSubmitNothing is a request with nothing to do: four changes, one append.
func BenchmarkSubmitNothing(b *testing.B) { benchmark(b, &handler{}) }

// BenchmarkBoot is SM7: booting has no work of its own.
func BenchmarkBoot(b *testing.B) {
	h := &handler{}
	for b.Loop() {
		m, err := machine.New(machine.Config{Kernel: "k", Auditor: nowhere{}, Handler: h})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Boot(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
