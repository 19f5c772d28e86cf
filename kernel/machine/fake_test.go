package machine_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("no space left on device")

// auditor keeps entries and looks at the machine while it does: the first
// change that it is told of has not happened yet.
type auditor struct {
	tb      testing.TB
	machine *machine.Machine
	entries []machine.Entry
	calls   int
	fail    func(call int) error // nil: never
	persist func() bool          // a failure may have kept the entries; nil: none does
	orphans int                  // kept so, without a change that follows
}

func (a *auditor) Append(entries []machine.Entry) error {
	a.calls++
	own := entries
	for len(own) > 0 && own[0].Error != nil && own[0].Error.Code == machine.CodeCrashed {
		own = own[1:] // of the machine before
	}
	if a.machine != nil && len(own) > 0 {
		if at := a.machine.State().String(); at != own[0].StateFrom {
			a.tb.Errorf("SM35: during the append of %s to %s the state is %s", own[0].StateFrom, own[0].StateTo, at)
		}
	}
	if a.fail != nil {
		if err := a.fail(a.calls); err != nil {
			if a.persist != nil && a.persist() {
				a.entries = append(a.entries, entries...)
				a.orphans += len(own)
			}
			return err
		}
	}
	a.entries = append(a.entries, entries...)
	return nil
}

func (a *auditor) last() *machine.Entry {
	if len(a.entries) == 0 {
		return nil
	}
	return &a.entries[len(a.entries)-1]
}

// handler answers as its fields say; the zero handler allows everything and
// has nothing to do.
type handler struct {
	validate  func(machine.Request) []machine.Fault
	arbitrate func(machine.Request) machine.Verdict
	execute   func(machine.ToolCall) (machine.Result, error)
}

func (h *handler) Validate(r machine.Request) []machine.Fault {
	if h.validate == nil {
		return nil
	}
	return h.validate(r)
}

func (h *handler) Arbitrate(r machine.Request) machine.Verdict {
	if h.arbitrate == nil {
		return machine.Verdict{Decision: machine.Allow, Summary: "nothing to do"}
	}
	return h.arbitrate(r)
}

func (h *handler) Execute(c machine.ToolCall) (machine.Result, error) {
	return h.execute(c)
}

// withTool is a handler that has an effect to do.
func withTool(execute func(machine.ToolCall) (machine.Result, error)) *handler {
	return &handler{
		arbitrate: func(machine.Request) machine.Verdict {
			return machine.Verdict{Decision: machine.Allow, Summary: "do it",
				Tool: &machine.ToolCall{Name: "push", Key: "k1", Params: []byte(`{"ref":"x"}`)}}
		},
		execute: execute,
	}
}

func done(machine.ToolCall) (machine.Result, error) {
	return machine.Result{Summary: "pushed", Data: []byte(`{"oid":"1"}`)}, nil
}

func request(id string) machine.Request {
	return machine.Request{
		ID: id, Actor: "person", Intent: "tick", Params: []byte(`{"task":1}`),
		Evidence: canon.Sum([]byte("evidence")), Now: 1000,
	}
}

const (
	testKernel = "example.org/owner/repo#1"
	testEpoch  = 3
)

// newMachine is in BOOTING and goes on where the auditor's entries end.
func newMachine(tb testing.TB, a *auditor, h machine.Handler) *machine.Machine {
	tb.Helper()
	m, err := machine.New(machine.Config{
		Kernel: testKernel, Epoch: testEpoch, Now: 500, Auditor: a, Handler: h, LastEntry: a.last(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	a.tb, a.machine = tb, m
	return m
}

// booted is in IDLE.
func booted(tb testing.TB, a *auditor, h machine.Handler) *machine.Machine {
	tb.Helper()
	m := newMachine(tb, a, h)
	if err := m.Boot(func() error { return nil }); err != nil {
		tb.Fatal(err)
	}
	return m
}

// path is what the entries say the machine went through.
func path(entries []machine.Entry) []string {
	var p []string
	for _, e := range entries {
		p = append(p, e.StateFrom+">"+e.StateTo)
	}
	return p
}

func verify(tb testing.TB, a *auditor) {
	tb.Helper()
	if err := machine.Verify(testKernel, testEpoch, a.entries); err != nil {
		tb.Errorf("chain: %v", err)
	}
}
