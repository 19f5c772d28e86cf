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

// in is a machine in the given state, with the entries that led there.
func in(tb testing.TB, a *auditor, s machine.State) *machine.Machine {
	tb.Helper()
	way := map[machine.State][]machine.State{
		validating:  {validating},
		arbitrating: {validating, arbitrating},
		executing:   {validating, arbitrating, executing},
		auditing:    {validating, auditing},
	}
	if s == booting {
		return newMachine(tb, a, &handler{})
	}
	m := booted(tb, a, &handler{})
	err := m.Reach(way[s]...)
	if s == halted {
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

// M1, M2; SM3, SM6, SM11, SM37 to SM40: every event in every state.
func TestM1_EventsInEveryState(t *testing.T) {
	submit := func(m *machine.Machine) error { _, err := m.Submit(request("r")); return err }
	boot := func(m *machine.Machine) error { return m.Boot(func() error { return nil }) }
	halt := func(m *machine.Machine) error { return m.Halt("operator", "because", 0) }
	fatal := func(m *machine.Machine) error { return m.Stop(machine.Fatal(errDisk)) }
	for _, c := range []struct {
		name  string
		event func(*machine.Machine) error
		ends  map[machine.State]machine.State // where it is taken, and where it leads
	}{
		{"submit", submit, map[machine.State]machine.State{idle: idle}},
		{"boot", boot, map[machine.State]machine.State{booting: idle}},
		{"halt", halt, map[machine.State]machine.State{
			booting: halted, idle: halted, validating: halted, arbitrating: halted, executing: halted, auditing: halted}},
		{"fatal error", fatal, map[machine.State]machine.State{
			booting: halted, idle: halted, validating: halted, arbitrating: halted, executing: halted, auditing: halted}},
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
				audited(t, c.name, a, entries, from, want)
				continue
			}
			var se *machine.StateError
			if !errors.As(err, &se) && from != halted || err == nil {
				t.Errorf("%s in %v: %v", c.name, from, err)
			}
			if m.Snapshot() != before || len(a.entries) != entries {
				t.Errorf("%s in %v was refused, but changed something", c.name, from)
			}
			if from == executing && !errors.Is(err, machine.ErrBusy) {
				t.Errorf("%s in EXECUTING: %v", c.name, err)
			}
		}
	}
}

// audited: a halt has one entry, from where the machine was.
func audited(t *testing.T, name string, a *auditor, before int, from, to machine.State) {
	t.Helper()
	if to != halted {
		return
	}
	got := path(a.entries[before:])
	if want := []string{from.String() + ">HALTED"}; !slices.Equal(got, want) {
		t.Errorf("%s in %v: entries %v, want %v", name, from, got, want)
	}
	verify(t, a)
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
