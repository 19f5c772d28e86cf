package machine_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("no space left on device")

// auditor keeps entries.
type auditor struct {
	entries []machine.Entry
	calls   int
	fail    func(call int) error // nil: never
	persist func() bool          // a failure may have kept the entries; nil: none does
	orphans int                  // kept so, without a change that follows
	unkept  int64                // changes on the way to an append that failed and kept nothing
}

func (a *auditor) Append(entries []machine.Entry) error {
	a.calls++
	own := entries
	for len(own) > 0 && own[0].Error != nil && own[0].Error.Code == machine.CodeCrashed {
		own = own[1:] // of the machine before
	}
	on := int64(max(len(own)-1, 0))
	a.unkept += on // until it is known better, also where fail panics
	if a.fail != nil {
		if err := a.fail(a.calls); err != nil {
			if a.persist != nil && a.persist() {
				a.unkept -= on
				a.entries = append(a.entries, entries...)
				a.orphans += min(len(own), 1)
			}
			return err
		}
	}
	a.unkept -= on
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

// caller is what the supervisor is in the program: it validates, decides, appends and
// acts, each while the machine is in the state for it, and hands on what came of it.
type caller struct {
	*machine.Machine
	a    *auditor
	h    *handler
	tb   testing.TB
	seen []string      // what was done in which state
	out  machine.Ready // of a machine in AUDITING: see [in]
}

// sees is the probe: it notes in which state something is done.
func (c *caller) sees(what string) {
	if c.tb != nil {
		c.seen = append(c.seen, what+" in "+c.State().String())
	}
}

// Submit leads a request to its end. The error is what halted the machine, or kept it
// from taking the request.
func (c *caller) Submit(req machine.Request) (receipt machine.Receipt, err error) {
	req.Params = bytes.Clone(req.Params)
	next, err := c.Machine.Submit(req)
	if err != nil {
		return machine.Receipt{}, err
	}
	over := false
	defer func() {
		if !over {
			_, _ = c.rest(c.Failed(&machine.PanicError{Where: "goroutine", Value: "it was ended"})) // nobody asks
		}
	}()
	if c.State() == validating {
		next, err = c.validate(req)
	}
	if err == nil && c.State() == arbitrating && next.Entries == nil {
		next, err = c.arbitrate(req)
	}
	receipt, err = c.rest(next, err)
	over = true
	return receipt, err
}

func (c *caller) validate(req machine.Request) (machine.Ready, error) {
	c.sees("validation")
	var faults []machine.Fault
	if caught := machine.Caught("Validate", func() error { faults = c.h.Validate(req); return nil }); caught != nil {
		return c.Failed(caught)
	}
	return c.Validated(req, faults)
}

func (c *caller) arbitrate(req machine.Request) (machine.Ready, error) {
	c.sees("decision")
	var v machine.Verdict
	if caught := machine.Caught("Arbitrate", func() error { v = c.h.Arbitrate(req); return nil }); caught != nil {
		return c.Failed(caught)
	}
	return c.Decided(req, v)
}

// rest appends and acts until the request is at its end.
func (c *caller) rest(next machine.Ready, err error) (machine.Receipt, error) {
	for err == nil && next.Receipt == nil {
		switch {
		case next.Entries != nil:
			c.sees("append of " + strings.Join(path(next.Entries), " "))
			next, err = c.Recorded(machine.Caught("Append", func() error { return c.a.Append(next.Entries) }))
		case next.Call != nil:
			c.sees("effect")
			var result machine.Result
			failed := machine.Caught("Execute", func() (err error) { result, err = c.h.Execute(*next.Call); return err })
			next, err = c.Executed(result, failed)
		default:
			return machine.Receipt{}, nil // whoever has the request goes on
		}
	}
	if err != nil {
		return machine.Receipt{}, err
	}
	if next.Receipt.To == halted {
		err = next.Receipt.Err
	}
	return *next.Receipt, err
}

// Boot loads.
func (c *caller) Boot(load func() error) error {
	if c.State() == booting {
		c.sees("loading")
	}
	var failed error
	if c.State() == booting {
		failed = machine.Caught("Boot", load)
	}
	_, err := c.rest(c.Booted(failed))
	return err
}

// Halt is a person's command. Under a request, who has that goes on with it.
func (c *caller) Halt(actor, reason string, now int64) error {
	r, err := c.rest(c.Machine.Halt(actor, reason, now))
	if r.To == halted && r.Err == nil {
		return nil
	}
	return err
}

// on goes on with the request that the machine was led into by [in].
func (c *caller) on() error {
	var next machine.Ready
	var err error
	switch c.State() {
	case validating:
		next, err = c.Validated(request("r"), nil)
	case arbitrating:
		next, err = c.Decided(request("r"), machine.Verdict{Decision: machine.Allow})
	case executing:
		next, err = c.Executed(machine.Result{}, nil)
	case auditing:
		next = c.out
	}
	_, err = c.rest(next, err)
	return err
}

// newMachine is in BOOTING and goes on where the auditor's entries end.
func newMachine(tb testing.TB, a *auditor, h *handler) *caller {
	tb.Helper()
	m, err := machine.New(machine.Config{Kernel: testKernel, Epoch: testEpoch, Now: 500, LastEntry: a.last()})
	if err != nil {
		tb.Fatal(err)
	}
	return &caller{Machine: m, a: a, h: h, tb: tb}
}

// booted is in IDLE.
func booted(tb testing.TB, a *auditor, h *handler) *caller {
	tb.Helper()
	m := newMachine(tb, a, h)
	if err := m.Boot(func() error { return nil }); err != nil {
		tb.Fatal(err)
	}
	m.seen = nil
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
