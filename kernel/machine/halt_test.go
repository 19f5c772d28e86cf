package machine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel/machine"
)

// M2; SM37, SM40: a HALTED machine answers every call with ErrHalted.
func TestM2_NothingAfterHalted(t *testing.T) {
	a := &auditor{}
	m := in(t, a, halted)
	before, calls := m.Snapshot(), a.calls
	_, submitted := m.Submit(request("r"))
	for name, err := range map[string]error{
		"submit": submitted,
		"boot":   m.Boot(func() error { t.Error("loaded"); return nil }),
		"halt":   m.Halt("somebody", "again", 5000),
	} {
		var se *machine.StateError
		if !errors.Is(err, machine.ErrHalted) || !errors.As(err, &se) || se.From != halted {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range machine.States() {
		if err := m.Enter(s); !errors.Is(err, machine.ErrHalted) {
			t.Errorf("to %v: %v", s, err)
		}
	}
	if m.Snapshot() != before || a.calls != calls {
		t.Error("something changed")
	}
}

// M2; SM5, SM40, T34: what may be booted after each cause of a halt, in the
// same epoch.
func TestM2_AfterARestart(t *testing.T) {
	halting := &handler{arbitrate: func(machine.Request) machine.Verdict { return machine.Verdict{Decision: machine.Halt} }}
	panicking := &handler{validate: func(machine.Request) []machine.Fault { panic("bug") }}
	submit := func(t *testing.T, a *auditor, h *handler) {
		_, _ = booted(t, a, h).Submit(request("r")) // the state is what counts
	}
	for _, c := range []struct {
		name    string
		halt    func(*testing.T, *auditor)
		durable bool
	}{
		{"policy", func(t *testing.T, a *auditor) { submit(t, a, halting) }, true},
		{"operator", func(t *testing.T, a *auditor) { in(t, a, halted) }, true},
		{"operator, while booting", func(t *testing.T, a *auditor) {
			if err := newMachine(t, a, &handler{}).Halt("operator", "stop", 0); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"panic", func(t *testing.T, a *auditor) { submit(t, a, panicking) }, false},
		{"fatal error of the effect", func(t *testing.T, a *auditor) {
			submit(t, a, withTool(func(machine.ToolCall) (machine.Result, error) { return machine.Result{}, machine.Fatal(errDisk) }))
		}, false},
		{"boot", func(t *testing.T, a *auditor) {
			var be *machine.BootError
			if err := newMachine(t, a, &handler{}).Boot(func() error { return errDisk }); !errors.As(err, &be) || !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &auditor{}
			c.halt(t, a)
			if a.last().StateTo != "HALTED" {
				t.Fatalf("after %+v", a.last())
			}
			cfg := machine.Config{Kernel: testKernel, Epoch: testEpoch, LastEntry: a.last()}
			if _, err := machine.New(cfg); errors.Is(err, machine.ErrHalted) != c.durable {
				t.Fatalf("a new machine in the same epoch: %v", err)
			}
			if !c.durable {
				if _, err := booted(t, a, &handler{}).Submit(request("next")); err != nil {
					t.Error(err)
				}
				verify(t, a)
				return
			}
			cfg.LastEntry, cfg.Epoch = nil, testEpoch
			old, err := machine.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Epoch++
			m, err := machine.New(cfg)
			if err != nil || m.Snapshot().Genesis == old.Snapshot().Genesis {
				t.Errorf("a new epoch has a genesis of its own: %v", err)
			}
		})
	}
}

// M2, M3; SM16, SM23, SM29, SM31, SM38, SM39, SM46: a halt command that comes
// while a request is handled cuts it off at its next step, with one entry. Where the
// request was closed already, it is obeyed from IDLE.
func TestM2_HaltUnderARequest(t *testing.T) {
	const iv, va, ax = "IDLE>VALIDATING", "VALIDATING>ARBITRATING", "ARBITRATING>EXECUTING"
	for _, c := range []struct {
		during string
		path   []string
	}{
		{"Validate", []string{iv, "VALIDATING>HALTED"}},
		{"Arbitrate", []string{iv, va, "ARBITRATING>HALTED"}},
		{"Append", []string{iv, va, ax, "EXECUTING>HALTED"}},
		{"Execute", []string{iv, va, ax, "EXECUTING>HALTED"}},
		{"last Append", []string{iv, va, ax, "EXECUTING>AUDITING", "AUDITING>IDLE", "IDLE>HALTED"}},
	} {
		t.Run(c.during, func(t *testing.T) {
			a := &auditor{}
			var m *caller
			at := func(place string) {
				if place != c.during {
					return
				}
				if err := m.Halt("operator", "stop it", 7000); err != nil || m.State() == halted {
					t.Errorf("halt: %v, in %v", err, m.State())
				}
				if err := m.Halt("somebody", "me too", 8000); err == nil {
					t.Error("two halts are under way")
				}
			}
			executed := 0
			h := &handler{
				validate: func(machine.Request) []machine.Fault { at("Validate"); return nil },
				arbitrate: func(r machine.Request) machine.Verdict {
					at("Arbitrate")
					return withTool(done).arbitrate(r)
				},
				execute: func(tc machine.ToolCall) (machine.Result, error) {
					executed++
					at("Execute")
					return done(tc)
				},
			}
			a.fail = func(call int) error {
				at(map[int]string{1: "Append", 2: "last Append"}[call])
				return nil
			}
			m = booted(t, a, h)
			r, err := m.Submit(request("r"))
			if m.State() != halted || r.To != halted || r.RequestID != "r" {
				t.Fatalf("%+v: in %v after a halt", r, m.State())
			}
			if diff := cmp.Diff(c.path, path(a.entries)); diff != "" {
				t.Error(diff)
			}
			whole := c.during == "last Append"
			if errors.Is(err, machine.ErrHalted) == whole || (r.Status == machine.Accepted) != whole {
				t.Errorf("receipt %+v, %v", r, err)
			}
			inEffect := c.during == "Execute"
			if want := inEffect || whole; (executed == 1) != want {
				t.Errorf("the effect ran %d times", executed)
			}
			e := a.last()
			if *e.Actor != "operator" || e.Error.Code != machine.CodeHalted || *e.Halt != machine.HaltDurable || e.Time != 7000 {
				t.Errorf("entry %+v", e)
			}
			if (e.ResultHash != nil) != inEffect || (e.RequestID == nil) != whole {
				t.Errorf("result of the effect: %v, request %v", e.ResultHash, e.RequestID)
			}
			verify(t, a)
		})
	}
}

// M2; SM12, T37: a halt while a machine boots closes what the process before left.
func TestM2_HaltWhileBooting(t *testing.T) {
	a := &auditor{}
	killed(t, a, executing)
	m := newMachine(t, a, &handler{})
	if err := m.Halt("operator", "stop", 0); err != nil || m.State() != halted {
		t.Fatalf("%v, in %v", err, m.State())
	}
	want := []string{"EXECUTING>AUDITING", "AUDITING>IDLE", "BOOTING>HALTED"}
	if diff := cmp.Diff(want, path(a.entries[3:])); diff != "" {
		t.Error(diff)
	}
	verify(t, a)
}

// M2: the command also tells what went wrong under it.
func TestM2_HaltKeepsTheEffectsError(t *testing.T) {
	a := &auditor{}
	var m *caller
	m = booted(t, a, withTool(func(machine.ToolCall) (machine.Result, error) {
		return machine.Result{}, errors.Join(m.Halt("operator", "stop", 0), codedError{})
	}))
	if _, err := m.Submit(request("r")); !errors.Is(err, machine.ErrHalted) || !errors.As(err, &codedError{}) {
		t.Errorf("submit: %v", err)
	}
	if d := a.last().Error.Detail; !strings.Contains(d, "stop") || !strings.Contains(d, "forge.push_refused") {
		t.Errorf("the entry says %q", d)
	}
}

// M2: of two commands one halts, the other finds the machine halted.
func TestM2_TwoHalts(t *testing.T) {
	a := &auditor{}
	m := in(t, a, idle)
	results := make(chan error, 2)
	for range 2 {
		go func() {
			m := &caller{Machine: m.Machine, a: a} // a probe is one caller's
			results <- m.Halt("operator", "stop", 0)
		}()
	}
	one, two := <-results, <-results
	var refused *machine.StateError
	if (one == nil) == (two == nil) || !errors.As(errors.Join(one, two), &refused) {
		t.Errorf("%v and %v", one, two)
	}
	if len(a.entries) != 1 {
		t.Errorf("%d entries", len(a.entries))
	}
}
