package machine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/writbot/writ/kernel/machine"
)

const (
	booting     = machine.Booting
	idle        = machine.Idle
	validating  = machine.Validating
	arbitrating = machine.Arbitrating
	executing   = machine.Executing
	auditing    = machine.Auditing
	halted      = machine.Halted
)

// expected is the matrix of seed 004 written out by hand: the states that may
// follow. All other pairs of the 49 may not.
func expected() map[machine.State][]machine.State {
	return map[machine.State][]machine.State{
		booting:     {idle, halted},
		idle:        {validating, halted},
		validating:  {arbitrating, auditing, halted},
		arbitrating: {executing, auditing, halted},
		executing:   {auditing, halted},
		auditing:    {idle, halted},
		halted:      {},
	}
}

// in is a machine in the given state, led there by its steps. In AUDITING the entries
// of the request are out.
func in(tb testing.TB, a *auditor, s machine.State) *caller {
	tb.Helper()
	if s == booting {
		return newMachine(tb, a, &handler{})
	}
	m := booted(tb, a, &handler{})
	var err error
	step := func(f func() (machine.Ready, error)) {
		if err == nil {
			_, err = f()
		}
	}
	submit := func() (machine.Ready, error) { return m.Machine.Submit(request("r")) }
	valid := func() (machine.Ready, error) { return m.Validated(request("r"), nil) }
	switch s {
	case validating:
		step(submit)
	case arbitrating:
		step(submit)
		step(valid)
	case executing:
		step(submit)
		step(valid)
		var next machine.Ready
		step(func() (n machine.Ready, err error) {
			n, err = m.Decided(request("r"), withTool(done).Arbitrate(request("r")))
			next = n
			return n, err
		})
		step(func() (machine.Ready, error) { return m.Recorded(a.Append(next.Entries)) })
	case auditing:
		step(submit)
		step(func() (_ machine.Ready, err error) {
			m.out, err = m.Validated(request("r"), []machine.Fault{{}})
			return m.out, err
		})
	case halted:
		err = m.Halt("operator", "test", 0)
	}
	if err != nil || m.State() != s {
		tb.Fatalf("%v instead of %v, %v", m.State(), s, err)
	}
	return m
}

// M1; SM1, SM2, SM4, SM5, SM8 to SM10, SM13, SM14, SM19, SM20, SM26, SM32,
// SM41, SM42, SM45, SM56 to SM58: the transition function does what the matrix
// says, for all pairs, and else changes nothing.
func TestM1_All49Pairs(t *testing.T) {
	allowed := 0
	for _, from := range machine.States() {
		for _, to := range machine.States() {
			a := &auditor{}
			m := in(t, a, from)
			before, entries := m.Snapshot(), len(a.entries)
			err := m.Enter(to)
			want := slices.Contains(expected()[from], to)
			if machine.Allowed(from, to) != want || (err == nil) != want {
				t.Errorf("%v to %v: allowed %v, %v; want %v", from, to, machine.Allowed(from, to), err, want)
			}
			if want {
				allowed++
				if m.State() != to {
					t.Errorf("%v to %v ended in %v", from, to, m.State())
				}
				continue
			}
			var se *machine.StateError
			if !errors.As(err, &se) || se.From != from || se.To != to {
				t.Errorf("%v to %v: %v", from, to, err)
			}
			if m.Snapshot() != before || len(a.entries) != entries {
				t.Errorf("%v to %v was refused, but changed something", from, to)
			}
		}
	}
	if allowed != 14 {
		t.Errorf("%d transitions are allowed", allowed)
	}
}

// M1; SM2: no value beyond the seven is a state.
func TestM1_NoOtherStates(t *testing.T) {
	if n := len(machine.States()); n != 7 {
		t.Errorf("%d states", n)
	}
	m := in(t, &auditor{}, idle)
	for s := machine.State(7); s != 0; s++ {
		if machine.Allowed(s, halted) || machine.Allowed(idle, s) || s.String() != "INVALID" {
			t.Errorf("%d is a state", s)
		}
		var se *machine.StateError
		if err := m.Enter(s); !errors.As(err, &se) {
			t.Errorf("%d: %v", s, err)
		}
	}
	for _, s := range machine.States() {
		if back, ok := machine.ParseState(s.String()); !ok || back != s {
			t.Errorf("%v is read as %v", s, back)
		}
	}
	if _, ok := machine.ParseState("idle"); ok {
		t.Error("names are in capitals")
	}
}

// M1, M2; SM3, SM6, SM11, SM37 to SM40: every event in every state. A halt under a
// request is obeyed at its next step, in AUDITING once that is closed.
func TestM1_EventsInEveryState(t *testing.T) {
	submit := func(m *caller) error { _, err := m.Submit(request("r")); return err }
	boot := func(m *caller) error { return m.Boot(func() error { return nil }) }
	halt := func(m *caller) error {
		if err := m.Halt("operator", "because", 0); err != nil || m.State() == halted {
			return err
		}
		return m.on()
	}
	fatal := func(m *caller) error { _, err := m.rest(m.Failed(machine.Fatal(errDisk))); return err }
	everywhere := map[machine.State]machine.State{
		booting: halted, idle: halted, validating: halted, arbitrating: halted, executing: halted, auditing: halted}
	for _, c := range []struct {
		name  string
		event func(*caller) error
		ends  map[machine.State]machine.State // where it is taken, and where it leads
	}{
		{"submit", submit, map[machine.State]machine.State{idle: idle}},
		{"boot", boot, map[machine.State]machine.State{booting: idle}},
		{"halt", halt, everywhere},
		{"fatal error", fatal, everywhere},
	} {
		for _, from := range machine.States() {
			a := &auditor{}
			m := in(t, a, from)
			before, entries := m.Snapshot(), len(a.entries)
			err := c.event(m)
			want, taken := c.ends[from]
			if !taken {
				want = from
			}
			if m.State() != want {
				t.Errorf("%s in %v leads to %v, want %v", c.name, from, m.State(), want)
			}
			if taken {
				audited(t, c.name, a, from, want)
				continue
			}
			var se *machine.StateError
			if !errors.As(err, &se) || se.From != from {
				t.Errorf("%s in %v: %v", c.name, from, err)
			}
			if m.Snapshot() != before || len(a.entries) != entries {
				t.Errorf("%s in %v was refused, but changed something", c.name, from)
			}
			if busy := from > idle && from < halted; c.name == "submit" && errors.Is(err, machine.ErrBusy) != busy {
				t.Errorf("%s in %v: %v", c.name, from, err)
			}
		}
	}
}

// audited: a halt has an entry, from where the machine was. Where the entries themselves
// fail there is none, and a halt waits for those that are out.
func audited(t *testing.T, name string, a *auditor, from, to machine.State) {
	t.Helper()
	want := from.String() + ">HALTED"
	switch {
	case to != halted:
		return
	case from == auditing && name == "halt":
		return // [TestM2_HaltUnderARequest]
	case from == auditing:
		want = ""
	}
	got := ""
	if e := a.last(); e != nil {
		got = e.StateFrom + ">" + e.StateTo
	}
	if got != want {
		t.Errorf("%s in %v: the last entry is %q, want %q", name, from, got, want)
	}
	verify(t, a)
}

// M1, M4; SM12, SM42: a step that isn't due is refused and changes nothing.
func TestM1_StepsInEveryState(t *testing.T) {
	for name, c := range map[string]struct {
		step func(*caller) error
		in   []machine.State
	}{
		"booted":    {func(m *caller) error { _, err := m.Booted(nil); return err }, []machine.State{booting}},
		"validated": {func(m *caller) error { _, err := m.Validated(request("r"), nil); return err }, []machine.State{validating}},
		"decided": {func(m *caller) error {
			_, err := m.Decided(request("r"), machine.Verdict{Decision: machine.Allow})
			return err
		}, []machine.State{arbitrating}},
		"executed": {func(m *caller) error { _, err := m.Executed(machine.Result{}, nil); return err }, []machine.State{executing}},
		"recorded": {func(m *caller) error { _, err := m.Recorded(nil); return err }, []machine.State{auditing}},
	} {
		for _, from := range machine.States() {
			m := in(t, &auditor{}, from)
			before := m.Snapshot()
			err := c.step(m)
			if due := slices.Contains(c.in, from); due != (err == nil) || !due && m.Snapshot() != before {
				t.Errorf("%s in %v: %v", name, from, err)
			}
		}
	}
}

// M1; SM35, T31: while entries are out for an effect, a halt or the end of a request, the
// machine is where it was, and takes nothing but word of them.
func TestM1_NothingBeforeTheEntriesAreDurable(t *testing.T) {
	decide := func(v machine.Verdict) func(*caller) (machine.Ready, error) {
		return func(m *caller) (machine.Ready, error) { return m.Decided(request("r"), v) }
	}
	for name, c := range map[string]struct {
		from machine.State
		step func(*caller) (machine.Ready, error)
		at   machine.State
		to   machine.State
	}{
		"effect": {arbitrating, decide(withTool(done).Arbitrate(request("r"))), arbitrating, executing},
		"policy": {arbitrating, decide(machine.Verdict{Decision: machine.Halt}), arbitrating, halted},
		"denied": {arbitrating, decide(machine.Verdict{Decision: machine.Deny}), auditing, idle},
		"done":   {executing, func(m *caller) (machine.Ready, error) { return m.Executed(machine.Result{}, nil) }, auditing, idle},
		"fatal":  {validating, func(m *caller) (machine.Ready, error) { return m.Failed(errDisk) }, validating, halted},
		"halt":   {idle, func(m *caller) (machine.Ready, error) { return m.Machine.Halt("a", "b", 0) }, idle, halted},
	} {
		m := in(t, &auditor{}, c.from)
		next, err := c.step(m)
		if err != nil || next.Entries == nil || next.Call != nil || next.Receipt != nil || m.State() != c.at {
			t.Errorf("%s: %+v, %v, in %v", name, next, err, m.State())
			continue
		}
		before := m.Snapshot()
		_, submitted := m.Machine.Submit(request("r"))
		_, decided := m.Decided(request("r"), machine.Verdict{Decision: machine.Allow})
		_, executed := m.Executed(machine.Result{}, nil)
		for _, err := range []error{submitted, decided, executed} {
			var se *machine.StateError
			if !errors.As(err, &se) || m.Snapshot() != before {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !errors.Is(submitted, machine.ErrBusy) {
			t.Errorf("%s: %v", name, submitted)
		}
		next, err = m.Recorded(nil)
		if err != nil || m.State() != c.to || (next.Call != nil) != (c.to == executing) || (next.Receipt != nil) == (c.to == executing) {
			t.Errorf("%s: %+v, %v, in %v", name, next, err, m.State())
		}
	}
}

// SM41, SM52: the matrix and the diagram in the documentation are generated.
func TestMarkdown(t *testing.T) {
	const matrix = `| From \ To | BOOTING | IDLE | VALIDATING | ARBITRATING | EXECUTING | AUDITING | HALTED |
|---|---|---|---|---|---|---|---|
| BOOTING | - | X | - | - | - | - | X |
| IDLE | - | - | X | - | - | - | X |
| VALIDATING | - | - | - | X | - | X | X |
| ARBITRATING | - | - | - | - | X | X | X |
| EXECUTING | - | - | - | - | - | X | X |
| AUDITING | - | X | - | - | - | - | X |
| HALTED | - | - | - | - | - | - | - |
`
	if got := machine.Markdown(); got != matrix {
		t.Errorf("got\n%s", got)
	}
	const diagram = `stateDiagram-v2
    [*] --> BOOTING
    BOOTING --> IDLE
    BOOTING --> HALTED
    IDLE --> VALIDATING
    IDLE --> HALTED
    VALIDATING --> ARBITRATING
    VALIDATING --> AUDITING
    VALIDATING --> HALTED
    ARBITRATING --> EXECUTING
    ARBITRATING --> AUDITING
    ARBITRATING --> HALTED
    EXECUTING --> AUDITING
    EXECUTING --> HALTED
    AUDITING --> IDLE
    AUDITING --> HALTED
    HALTED --> [*]
`
	if got := machine.Diagram(); got != diagram {
		t.Errorf("got\n%s", got)
	}
}
