package machine_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel/machine"
)

func verdict(v machine.Verdict) *handler {
	return &handler{arbitrate: func(machine.Request) machine.Verdict { return v }}
}

func panicWith(value any) { panic(value) }

// M3; SM16, SM25, SM29, SM39, SM46, SM48: what must not be gone on after leads
// to HALTED from where it happened, with its entry, and is never thrown on.
func TestM3_FatalEverywhere(t *testing.T) {
	tool := &machine.ToolCall{Name: "push", Key: "k"}
	const iv, va, ax = "IDLE>VALIDATING", "VALIDATING>ARBITRATING", "ARBITRATING>EXECUTING"
	inValidating := []string{iv, "VALIDATING>HALTED"}
	inArbitrating := []string{iv, va, "ARBITRATING>HALTED"}
	inExecuting := []string{iv, va, ax, "EXECUTING>HALTED"}
	for _, c := range []struct {
		name    string
		handler *handler
		code    string
		path    []string
	}{
		{"panic in Validate", &handler{validate: func(machine.Request) []machine.Fault { panic("v") }}, machine.CodePanic, inValidating},
		{"panic(nil) in Validate", &handler{validate: func(machine.Request) []machine.Fault { panicWith(nil); return nil }}, machine.CodePanic, inValidating},
		{"index out of range in Arbitrate", &handler{arbitrate: func(r machine.Request) machine.Verdict {
			return []machine.Verdict{}[len(r.ID)]
		}}, machine.CodePanic, inArbitrating},
		{"panic in Execute", withTool(func(machine.ToolCall) (machine.Result, error) { panic(errDisk) }), machine.CodePanic, inExecuting},
		{"fatal error of Execute", withTool(func(machine.ToolCall) (machine.Result, error) {
			return machine.Result{Data: []byte("1")}, machine.Fatal(errDisk)
		}), machine.CodeFatal, inExecuting},
		{"fatal error with a code", withTool(func(machine.ToolCall) (machine.Result, error) {
			return machine.Result{}, machine.Fatal(codedError{})
		}), "forge.push_refused", inExecuting},
		{"request changed by Validate", &handler{validate: func(r machine.Request) []machine.Fault { r.Params[2] = 'X'; return nil }},
			machine.CodeRequestModified, inValidating},
		{"request changed by Arbitrate", &handler{arbitrate: func(r machine.Request) machine.Verdict {
			r.Params[2] = 'X'
			return machine.Verdict{Decision: machine.Allow}
		}}, machine.CodeRequestModified, inArbitrating},
		{"unknown decision", verdict(machine.Verdict{Decision: "allow"}), machine.CodeVerdictMalformed, inArbitrating},
		{"no decision", verdict(machine.Verdict{}), machine.CodeVerdictMalformed, inArbitrating},
		{"DENY with a tool", verdict(machine.Verdict{Decision: machine.Deny, Tool: tool}), machine.CodeVerdictMalformed, inArbitrating},
		{"HALT with a tool", verdict(machine.Verdict{Decision: machine.Halt, Tool: tool}), machine.CodeVerdictMalformed, inArbitrating},
		{"ALLOW with faults", verdict(machine.Verdict{Decision: machine.Allow, Faults: []machine.Fault{{}}}), machine.CodeVerdictMalformed, inArbitrating},
		{"tool without key", verdict(machine.Verdict{Decision: machine.Allow, Tool: &machine.ToolCall{Name: "push"}}),
			machine.CodeVerdictMalformed, inArbitrating},
		{"tool with a key that can't be recorded", verdict(machine.Verdict{Decision: machine.Allow, Tool: &machine.ToolCall{Name: "push", Key: "\xff"}}),
			machine.CodeVerdictMalformed, inArbitrating},
		{"tool with loose parameters", verdict(machine.Verdict{Decision: machine.Allow, Tool: &machine.ToolCall{Name: "p", Key: "k", Params: []byte("{ }")}}),
			machine.CodeVerdictMalformed, inArbitrating},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &auditor{}
			m := booted(t, a, c.handler)
			req := request("r")
			r, err := m.Submit(req)
			var pe *machine.PanicError
			var fe *machine.FatalError
			if errors.As(err, &pe) == errors.As(err, &fe) || r.Status != machine.Failed || r.To != halted || r.Err == nil {
				t.Fatalf("receipt %+v, %v", r, err)
			}
			if diff := cmp.Diff(c.path, path(a.entries)); diff != "" || m.State() != halted {
				t.Errorf("in %v: %s", m.State(), diff)
			}
			if e := a.last(); e.Error.Code != c.code || *e.Halt != machine.HaltProcess {
				t.Errorf("entry says %+v, %v", e.Error, *e.Halt)
			}
			if diff := cmp.Diff(request("r"), req); diff != "" {
				t.Errorf("the caller's request changed: %s", diff)
			}
			verify(t, a)
		})
	}
}

// M3; SM5, SM7, SM46: boot fails closed.
func TestM3_BootFails(t *testing.T) {
	for name, load := range map[string]func() error{
		"error": func() error { return errDisk },
		"fatal": func() error { return machine.Fatal(errDisk) },
		"panic": func() error { panic(errDisk) },
	} {
		a := &auditor{}
		m := newMachine(t, a, &handler{})
		var be *machine.BootError
		if err := m.Boot(load); !errors.As(err, &be) || m.State() != halted {
			t.Errorf("%s: %v, in %v", name, err, m.State())
		}
		if diff := cmp.Diff([]string{"BOOTING>HALTED"}, path(a.entries)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		verify(t, a)
	}
}

// M3; SM34, T32: the append is tried once; when it fails or panics the machine
// is HALTED all the same, whatever it was doing, and nothing is executed.
func TestM3_AuditFailsInEveryState(t *testing.T) {
	broken := map[string]func(int) error{
		"error": func(int) error { return errDisk },
		"panic": func(int) error { panic(errDisk) },
	}
	for how, fail := range broken {
		for _, from := range machine.States()[:halted] {
			a := &auditor{}
			m := in(t, a, from)
			calls, entries := a.calls, len(a.entries)
			a.fail = fail
			err := m.Halt("operator", "stop", 0)
			if m.State() != halted {
				err = m.on()
			}
			var ae *machine.AuditError
			if !errors.As(err, &ae) || ae.State != from || m.State() != halted {
				t.Errorf("%s in %v: %v, then %v", how, from, err, m.State())
			}
			if a.calls != calls+1 || len(a.entries) != entries {
				t.Errorf("%s in %v: tried %d times", how, from, a.calls-calls)
			}
		}
	}
}

// M3; SM34, SM48: the same under a request, at each of its two appends, and
// under a failure that is itself to be recorded.
func TestM3_AuditFailsUnderARequest(t *testing.T) {
	executed := 0
	counting := withTool(func(c machine.ToolCall) (machine.Result, error) { executed++; return done(c) })
	panicking := &handler{validate: func(machine.Request) []machine.Fault { panic("v") }}
	for _, c := range []struct {
		name     string
		handler  *handler
		failing  int
		executed int
		state    machine.State
	}{
		{"pure part", counting, 1, 0, arbitrating},
		{"closing", counting, 2, 1, auditing},
		{"panic", panicking, 1, 0, validating},
	} {
		executed = 0
		a := &auditor{fail: func(call int) error {
			if call == c.failing {
				return errDisk
			}
			return nil
		}}
		m := booted(t, a, c.handler)
		r, err := m.Submit(request("r"))
		var ae *machine.AuditError
		if !errors.As(err, &ae) || ae.State != c.state || !errors.Is(err, errDisk) || m.State() != halted {
			t.Errorf("%s: %v, in %v", c.name, err, m.State())
		}
		if r.Status != machine.Failed || executed != c.executed || a.calls != c.failing {
			t.Errorf("%s: %s, executed %d times, %d appends", c.name, r.Status, executed, a.calls)
		}
	}
}

// M3: a goroutine that ends inside a handler or auditor, as testing's FailNow
// ends it, doesn't leave the machine where it was.
func TestM3_GoroutineEnds(t *testing.T) {
	for name, c := range map[string]struct {
		handler *handler
		fail    func(int) error
		entries int
	}{
		"in Validate": {&handler{validate: func(machine.Request) []machine.Fault { runtime.Goexit(); return nil }}, nil, 2},
		"in Execute":  {withTool(func(machine.ToolCall) (machine.Result, error) { runtime.Goexit(); return done(machine.ToolCall{}) }), nil, 4},
		"in Append":   {&handler{}, func(int) error { runtime.Goexit(); return nil }, 0},
	} {
		a := &auditor{fail: c.fail}
		m := booted(t, a, c.handler)
		ended := make(chan bool)
		go func() {
			defer close(ended)
			_, _ = m.Submit(request("r")) // never returns
		}()
		<-ended
		if _, err := m.Submit(request("next")); !errors.Is(err, machine.ErrHalted) || len(a.entries) != c.entries || a.calls > 2 {
			t.Errorf("%s: %v, %d entries", name, err, len(a.entries))
		}
	}
}

// SM30, T40: a submit from inside an effect is refused, and nothing waits for
// itself.
func TestM3_ReentryIsRefused(t *testing.T) {
	a := &auditor{}
	var m *caller
	var inner error
	m = booted(t, a, withTool(func(c machine.ToolCall) (machine.Result, error) {
		_, inner = m.Submit(request("inner"))
		return done(c)
	}))
	if _, err := m.Submit(request("outer")); err != nil || !errors.Is(inner, machine.ErrBusy) {
		t.Errorf("%v, inside: %v", err, inner)
	}
	if len(a.entries) != 5 || m.State() != idle {
		t.Errorf("%d entries, %v", len(a.entries), m.State())
	}
}

// SM12, T31, T37: a new machine closes what the process before left open,
// before it serves, also when it can't boot; R4: an append that was kept but
// not acknowledged is one of the ways to get there.
func TestM3_CrashIsClosedAtBoot(t *testing.T) {
	ways := map[machine.State][]string{
		validating:  {"VALIDATING>AUDITING", "AUDITING>IDLE"},
		arbitrating: {"ARBITRATING>AUDITING", "AUDITING>IDLE"},
		executing:   {"EXECUTING>AUDITING", "AUDITING>IDLE"},
		auditing:    {"AUDITING>IDLE"},
	}
	for from, closing := range ways {
		for _, loads := range []bool{true, false} {
			a := &auditor{}
			killed(t, a, from)
			before := len(a.entries)
			m := newMachine(t, a, &handler{})
			want := closing
			err := m.Boot(func() error {
				if loads {
					return nil
				}
				return errDisk
			})
			if !loads {
				want = append(append([]string{}, closing...), "BOOTING>HALTED")
			}
			if diff := cmp.Diff(want, path(a.entries[before:])); diff != "" || (err == nil) != loads {
				t.Errorf("%v: %v %s", from, err, diff)
			}
			if e := a.entries[before]; e.Error.Code != machine.CodeCrashed {
				t.Errorf("%v: error %+v", from, e.Error)
			}
			if m.Snapshot().Changes != 1 {
				t.Errorf("%v: the machine changed its state %d times", from, m.Snapshot().Changes)
			}
			verify(t, a)
		}
	}
}

// killed is a process that ended while the last durable entry led to a state.
func killed(t *testing.T, a *auditor, at machine.State) {
	t.Helper()
	h := withTool(done)
	if at == auditing {
		h = &handler{}
	}
	if _, err := booted(t, a, h).Submit(request("r")); err != nil {
		t.Fatal(err)
	}
	for a.last().StateTo != at.String() {
		a.entries = a.entries[:len(a.entries)-1]
	}
}

// SM12, T31: the closing entries say whose request it was and which effect is
// to be looked up.
func TestM3_CrashKeepsTheRequest(t *testing.T) {
	a := &auditor{fail: func(call int) error {
		if call == 2 {
			return errDisk // the effect has run, its outcome can't be recorded
		}
		return nil
	}}
	m := booted(t, a, withTool(done))
	if _, err := m.Submit(request("r1")); err == nil {
		t.Fatal("audited on a full disk")
	}
	a.fail = nil
	next := booted(t, a, &handler{})
	e := a.last()
	if *e.RequestID != "r1" || e.Tool.Key != "k1" || *e.Decision != machine.Allow || *e.Summary != "crashed" || e.StateTo != "IDLE" {
		t.Errorf("%+v", e)
	}
	if _, err := next.Submit(request("r2")); err != nil {
		t.Error(err)
	}
	verify(t, a)
}

// SM36: an entry that lacks what it must have is not handed over.
func TestM3_IncompleteEntry(t *testing.T) {
	for name, spoil := range map[string]func(*machine.Entry){
		"kind":          func(e *machine.Entry) { e.Kind = "" },
		"version":       func(e *machine.Entry) { e.V = 0 },
		"kernel":        func(e *machine.Entry) { e.Kernel = "" },
		"time":          func(e *machine.Entry) { e.Time = -1 },
		"state before":  func(e *machine.Entry) { e.StateFrom = "" },
		"state after":   func(e *machine.Entry) { e.StateTo = "" },
		"matrix":        func(e *machine.Entry) { e.StateTo = "EXECUTING" },
		"cause of halt": func(e *machine.Entry) { e.StateTo = "HALTED" },
		"unknown cause": func(e *machine.Entry) {
			cause := machine.HaltCause("x")
			e.StateTo, e.Halt = "HALTED", &cause
		},
		"halt elsewhere": func(e *machine.Entry) {
			cause := machine.HaltDurable
			e.Halt = &cause
		},
		"not UTF-8": func(e *machine.Entry) { e.Faults = []machine.Fault{{Code: "\xff"}} },
	} {
		a := &auditor{}
		m := in(t, a, idle)
		var ae *machine.AuditError
		if _, err := m.rest(m.Record(spoil)); !errors.As(err, &ae) || m.State() != halted || a.calls != 0 {
			t.Errorf("%s: %v, in %v after %d appends", name, err, m.State(), a.calls)
		}
	}
}

// M3: what can't be recorded as it is, is recorded as far as it can be: a bad
// text halts nothing.
func TestM3_TextIsMadeRecordable(t *testing.T) {
	long := strings.Repeat("é", machine.MaxTextBytes)
	a := &auditor{}
	m := booted(t, a, withTool(func(machine.ToolCall) (machine.Result, error) {
		return machine.Result{Summary: "\xffx" + long}, errors.New("\xff" + long)
	}))
	if r, err := m.Submit(request("r")); err != nil || r.Status != machine.Failed || m.State() != idle {
		t.Fatalf("%+v, %v", r, err)
	}
	e := a.last()
	for _, text := range []string{*e.Summary, e.Error.Detail} {
		if !utf8.ValidString(text) || len(text) > machine.MaxTextBytes || len(text) < machine.MaxTextBytes-utf8.UTFMax {
			t.Errorf("%d bytes were recorded", len(text))
		}
	}
}

func TestErrorTexts(t *testing.T) {
	if machine.Fatal(nil) != nil {
		t.Error("Fatal(nil) is an error")
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&machine.StateError{From: idle, To: executing}, "machine: invalid transition IDLE to EXECUTING"},
		{&machine.StateError{From: executing, To: validating},
			"machine: invalid transition EXECUTING to VALIDATING: another request is under way; submit again when it has ended"},
		{&machine.BootError{Err: errDisk}, "machine: boot failed, halted: no space left on device"},
		{&machine.AuditError{State: idle, Err: errDisk},
			"machine: audit failed in IDLE, halted; verify the store before the next start: no space left on device"},
		{&machine.PanicError{Where: "Execute", Value: "v"}, "machine: panic in Execute, halted: v"},
		{machine.Fatal(errDisk), "machine: halted, machine.fatal: no space left on device"},
		{&machine.ConfigError{Detail: "no"}, "machine: no"},
		{&machine.ChainError{Seq: 2, Err: errDisk}, "machine: audit chain, entry 2: no space left on device"},
		{machine.ErrBusy, "machine: another request is under way; submit again when it has ended"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("got  %s\nwant %s", c.err, c.want)
		}
	}
}
