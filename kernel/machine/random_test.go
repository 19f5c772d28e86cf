package machine_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel/machine"
)

// script draws a handler's answers, faults of all kinds among them.
func script(t *rapid.T) *handler {
	pick := func(of string, choices ...string) string { return rapid.SampledFrom(choices).Draw(t, of) }
	fault := machine.Fault{Code: "c", Subject: rapid.String().Draw(t, "subject"), Detail: "d"}
	h := withTool(nil)
	allow := h.arbitrate
	h.validate = func(machine.Request) []machine.Fault {
		switch pick("validate", "ok", "ok", "ok", "ok", "ok", "fault", "panic") {
		case "fault":
			return []machine.Fault{fault}
		case "panic":
			panic("validate")
		}
		return nil
	}
	h.arbitrate = func(r machine.Request) machine.Verdict {
		switch pick("arbitrate", "tool", "tool", "tool", "tool", "nothing", "deny", "halt", "malformed", "panic", "modify") {
		case "nothing":
			return machine.Verdict{Decision: machine.Allow}
		case "deny":
			return machine.Verdict{Decision: machine.Deny, Faults: []machine.Fault{fault, fault}}
		case "halt":
			return machine.Verdict{Decision: machine.Halt}
		case "malformed":
			return machine.Verdict{}
		case "panic":
			panic("arbitrate")
		case "modify":
			r.Params[0] = 'x'
		}
		return allow(r)
	}
	h.execute = func(c machine.ToolCall) (machine.Result, error) {
		switch pick("execute", "done", "done", "done", "error", "fatal", "panic") {
		case "error":
			return machine.Result{}, errors.New("lost")
		case "fatal":
			return machine.Result{}, machine.Fatal(errDisk)
		case "panic":
			panic("execute")
		}
		return done(c)
	}
	return h
}

// M1, M3; SM12, SM35, SM43, SM48, T31, T32: over random runs, restarts and
// appends that fail, or fail but persist, included, the entries are the changes of state
// without the boots and without what leads to an append that fails; the machine ends in
// IDLE or HALTED; the chain holds.
func TestM1_RandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := &auditor{fail: func(int) error {
			if rapid.IntRange(0, 19).Draw(rt, "disk") == 0 {
				return errDisk
			}
			return nil
		}, persist: func() bool { return rapid.Bool().Draw(rt, "persists") }}
		audited, closing := int64(0), 0
		for range rapid.IntRange(1, 4).Draw(rt, "processes") {
			before := len(a.entries)
			m, err := machine.New(machine.Config{Kernel: testKernel, Epoch: testEpoch, LastEntry: a.last()})
			if errors.Is(err, machine.ErrHalted) {
				break
			}
			if err != nil {
				rt.Fatal(err)
			}
			audited += live(rt, &caller{Machine: m, a: a, h: script(rt)})
			for _, e := range a.entries[before:] {
				if e.Error != nil && e.Error.Code == machine.CodeCrashed {
					closing++
				}
			}
		}
		if int64(len(a.entries)-closing-a.orphans) != audited {
			rt.Errorf("%d entries, %d of them for a process before, %d not acknowledged, for %d audited changes",
				len(a.entries), closing, a.orphans, audited)
		}
		if err := machine.Verify(testKernel, testEpoch, a.entries); err != nil {
			rt.Error(err)
		}
	})
}

// live is one process: a boot and some requests. It gives the number of
// changes that must have an entry.
func live(rt *rapid.T, m *caller) int64 {
	unaudited, before := int64(0), m.a.unkept
	lost := func(err error) {
		var ae *machine.AuditError
		if errors.As(err, &ae) {
			unaudited++ // the halt itself
		}
	}
	err := m.Boot(func() error {
		if rapid.IntRange(0, 9).Draw(rt, "load") == 0 {
			return errDisk
		}
		return nil
	})
	if lost(err); err == nil {
		unaudited++ // BOOTING to IDLE
	}
	for range rapid.IntRange(0, 6).Draw(rt, "requests") {
		was := m.State()
		var err error
		if rapid.IntRange(0, 9).Draw(rt, "event") == 0 {
			err = m.Halt("operator", "random", 0)
		} else {
			_, err = m.Submit(request(rapid.String().Draw(rt, "id")))
		}
		if lost(err); was == halted && !errors.Is(err, machine.ErrHalted) {
			rt.Errorf("after a halt: %v", err)
		}
		if s := m.State(); s != idle && s != halted {
			rt.Errorf("SM48: the machine stays in %v after %v", s, err)
		}
	}
	return m.Snapshot().Changes - unaudited - (m.a.unkept - before)
}
