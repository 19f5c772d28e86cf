package builder

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
)

// TestCheck_OnTheBase: a check that fails says how it ends on the base, where nothing of
// the change is. It fails all the same, and one that passes isn't tried there.
func TestCheck_OnTheBase(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	out := b.check(changed(b),
		shCheck("passes", "true"),
		shCheck("fails on both", "exit 3"),
		shCheck("the change made it fail", "test -e calc/sub.go"),
		shCheck("fails otherwise", "test -e calc/new || exit 4; exit 5"),
		kernel.Check{Name: "no such program", Argv: []string{"/no/such/program"}, TimeoutMs: waitLimit.Milliseconds(), Repeat: 1},
	)
	exited := func(code int64) *kernel.Exit { return &kernel.Exit{Code: code, Cause: kernel.CauseExited} }
	var got []*kernel.Exit
	for _, c := range out.Run.Checks {
		got = append(got, c.OnBase)
	}
	if diff := cmp.Diff([]*kernel.Exit{nil, exited(3), exited(0), exited(4), got[4]}, got); diff != "" {
		t.Error(diff)
	}
	if last := out.Run.Checks[4]; last.Passed || last.OnBase != nil || last.Lacks == nil || *last.Lacks != (kernel.Lack{Code: kernel.CodeLacksProgram, What: "/no/such/program"}) {
		t.Errorf("a program that isn't there: %+v", last)
	}
	if words(out.Violations) != "execution.check.failed environment.check.program" || len(out.Violations) != 4 {
		t.Errorf("violations %+v", out.Violations)
	}
}

// TestCheck_OnTheBaseRemembered: once two runs on a base ended alike it isn't asked again;
// where they don't, the newest counts.
func TestCheck_OnTheBaseRemembered(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o, fails := changed(b), shCheck("fails", "exit 3")
	runs := func() (n int) {
		for _, end := range b.local.bases.of {
			n += end.runs
		}
		return n
	}
	for i, want := range []int{1, 2, 2, 2} {
		out := b.check(o, fails)
		if c := out.Run.Checks[0]; c.OnBase == nil || c.OnBase.Code != 3 || runs() != want {
			t.Errorf("attempt %d: %+v, %d runs on the base, want %d", i+1, c.OnBase, runs(), want)
		}
	}
	b.check(o, shCheck("another", "exit 3"))
	if runs() != 3 {
		t.Errorf("another check has the answer of the first: %d runs", runs())
	}
	var ends baseEnds
	for _, code := range []int64{1, 2, 2} {
		if _, sure := ends.known("k"); sure {
			t.Error("two runs that ended differently agree")
		}
		ends.add("k", baseEnd{exit: kernel.Exit{Code: code}})
	}
	if end, sure := ends.known("k"); !sure || end.exit.Code != 2 {
		t.Errorf("%+v, %v", end, sure)
	}
}

// TestCheck_OnTheBaseMended: what the base lacks is looked for again each time, since the
// operator may have given it meanwhile. A change that fails then has failed by itself.
func TestCheck_OnTheBaseMended(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	tool := kernel.Lack{Code: kernel.CodeLacksProgram, What: "tool"}
	var ends baseEnds
	for range agreeing + 1 {
		ends.add("k", baseEnd{exit: kernel.Exit{Code: 127, Cause: kernel.CauseExited}, lacks: []kernel.Lack{tool}})
		if end, sure := ends.known("k"); sure {
			t.Errorf("what the base lacked is taken for what it lacks: %+v", end)
		}
	}
	check := shCheck("needs a tool", "command -v tool || { echo \"sh: tool: not found\" >&2; exit 127; }")
	for range agreeing + 1 {
		out := b.check(changed(b), check)
		if c := out.Run.Checks[0]; c.Passed || c.Lacks == nil || len(b.local.bases.of) > 0 {
			t.Errorf("it is remembered, or isn't lacking: %+v, %+v", c, b.local.bases.of)
		}
	}
}
