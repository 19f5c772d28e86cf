package machine

import "strings"

// State is one of the seven states of seed 004. There are no others.
type State uint8

// The states. A new machine is BOOTING.
const (
	// Booting: configuration is being loaded; no request is accepted.
	Booting State = iota
	// Idle: ready for a request; nothing is pending.
	Idle
	// Validating: structure and required fields are checked.
	Validating
	// Arbitrating: policy decides.
	Arbitrating
	// Executing: the one effect call is out.
	Executing
	// Auditing: the finished operation is being recorded.
	Auditing
	// Halted: terminal; no operation is permitted.
	Halted

	stateCount = iota
)

// names are in the order of the states.
func names() [stateCount]string {
	return [...]string{"BOOTING", "IDLE", "VALIDATING", "ARBITRATING", "EXECUTING", "AUDITING", "HALTED"}
}

// table is the transition matrix of seed 004, a row for each state left and a
// column for each state entered, in the order of the states. It is the only
// place that says what is allowed.
func table() [stateCount]string {
	return [...]string{
		//          BIVAXUH
		Booting:     ".x....x",
		Idle:        "..x...x",
		Validating:  "...x.xx",
		Arbitrating: "....xxx",
		Executing:   ".....xx",
		Auditing:    ".x....x",
		Halted:      ".......",
	}
}

// Allowed reports whether the matrix has the transition. Values beyond the
// seven states have none.
func Allowed(from, to State) bool {
	return from < stateCount && to < stateCount && table()[from][to] == 'x'
}

// String is the state's name in capitals, as in the seed.
func (s State) String() string {
	if s < stateCount {
		return names()[s]
	}
	return "INVALID"
}

// ParseState is the state with this name.
func ParseState(name string) (State, bool) {
	for s, n := range names() {
		if n == name {
			return State(s), true
		}
	}
	return 0, false
}

// States are all seven, in order.
func States() []State {
	all := make([]State, stateCount)
	for i := range all {
		all[i] = State(i)
	}
	return all
}

// Markdown is the transition matrix as a table, for the documentation.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| From \\ To |")
	for _, to := range States() {
		b.WriteString(" " + to.String() + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+stateCount) + "\n")
	for _, from := range States() {
		b.WriteString("| " + from.String() + " |")
		for _, to := range States() {
			b.WriteString(map[bool]string{true: " X |", false: " - |"}[Allowed(from, to)])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Diagram is the transition matrix as a Mermaid state diagram, for the
// documentation.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> BOOTING\n")
	for _, from := range States() {
		for _, to := range States() {
			if Allowed(from, to) {
				b.WriteString("    " + from.String() + " --> " + to.String() + "\n")
			}
		}
	}
	b.WriteString("    HALTED --> [*]\n")
	return b.String()
}
