package lease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// leaseText is a good lease message with one line replaced: `from` by `to`, or
// added when from is empty.
func leaseText(t testing.TB, from, to string) []byte {
	t.Helper()
	s := string(mustWorking(t, claimA()))
	if from == "" {
		return []byte(s + to + "\n")
	}
	i := strings.LastIndex(s, from+"\n")
	if i < 0 {
		t.Fatalf("no line %q", from)
	}
	if to != "" {
		to += "\n"
	}
	return []byte(s[:i] + to + s[i+len(from)+1:])
}

const (
	lineState  = "aynig-state: working"
	lineOrigin = "aynig-origin-state: open"
	lineRun    = "aynig-run-id: " + runA
	lineRunner = "aynig-runner-id: builder-7.example.org"
	lineLease  = "aynig-lease-seconds: 120"
)

// TestL13_NoEvent: without exactly one good aynig-state nothing is an event.
func TestL13_NoEvent(t *testing.T) {
	for _, c := range []struct {
		name, message string
		want          FaultKind
	}{
		{"absent", "t\n\nbody\n", FaultMissing},
		{"in the title", "aynig-state: build\n", FaultMissing},
		{"in the body", "t\n\naynig-state: build\n\nbody\n", FaultMissing},
		{"empty", "t\n\naynig-state:\n", FaultEmpty},
		{"repeated", "t\n\naynig-state: build\naynig-state: build\n", FaultRepeated},
		{"repeated in another case", "t\n\naynig-state: build\nAynig-State: build\n", FaultRepeated},
		{"misspelt", "t\n\nAynig-State: build\n", FaultMisspelt},
		{"working, misspelt", string(leaseText(t, lineState, "AYNIG-STATE: working")), FaultMisspelt},
		{"upper case", "t\n\naynig-state: BUILD\n", FaultInvalid},
		{"path", "t\n\naynig-state: ../../../bin/true\n", FaultInvalid},
		{"absolute", "t\n\naynig-state: /bin/true\n", FaultInvalid},
		{"slash at the end", "t\n\naynig-state: a/\n", FaultInvalid},
		{"two slashes", "t\n\naynig-state: a//b\n", FaultInvalid},
		{"two words", "t\n\naynig-state: a b\n", FaultInvalid},
		{"folded into two words", "t\n\naynig-state: a\n b\n", FaultInvalid},
		{"long", "t\n\naynig-state: " + strings.Repeat("a", MaxStateBytes+1) + "\n", FaultInvalid},
		{"empty message", "", FaultMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev, err := ReadEvent(Head{OID: oidA, Message: []byte(c.message), CommitterOK: true})
			e, ok := asError(err)
			if !ok || e.Code != CodeMalformed || e.Fault != (Fault{c.want, KeyState}) {
				t.Fatalf("error %v, want %s %s", err, KeyState, c.want)
			}
			if diff := cmp.Diff(Event{}, ev); diff != "" {
				t.Errorf("an event came with the error:\n%s", diff)
			}
		})
	}
}

// TestReadEvent_States: values are compared exactly, after git's trimming.
func TestReadEvent_States(t *testing.T) {
	for _, state := range []string{"build", "a/b", "a-b_c", "0", "stalled", "done", "waiting"} {
		ev := mustEvent(t, []byte("t\n\naynig-state : \t "+state+" \n"), 5)
		if ev.State != state || ev.Malformed() || len(ev.Faults) != 0 || ev.CommitterSeconds != 5 || ev.OID != oidA {
			t.Errorf("%s: %+v", state, ev)
		}
	}
}

// TestReadEvent_Lease reads back what Working wrote, all fields.
func TestReadEvent_Lease(t *testing.T) {
	c := claimA()
	got := mustEvent(t, mustWorking(t, c), 1700000000)
	want := Event{
		OID: oidA, State: StateWorking, OriginState: "open", RunID: runA, RunnerID: c.RunnerID, LeaseSeconds: 120,
		CommitterSeconds: 1700000000, Title: TitleWorking, Body: c.Body,
		Trailers: []Trailer{{KeyState, "working"}, {KeyOriginState, "open"}, {KeyRunID, runA}, {KeyRunnerID, c.RunnerID},
			{KeyLeaseSeconds, "120"}, {"writ-attempt", "1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.Extra, got.Extra()); diff != "" {
		t.Errorf("extra trailers (-want +got):\n%s", diff)
	}
}

// malformedLease is one way to spoil a lease.
type malformedLease struct {
	name string
	head Head
	want Fault
}

// malformedLeases is the table of case L13 and T6: one fault each.
func malformedLeases(t testing.TB, committer int64) []malformedLease {
	type spoil struct {
		name, from, to string
		want           Fault
	}
	var spoils []spoil
	for key, line := range map[string]string{KeyOriginState: lineOrigin, KeyRunID: lineRun, KeyRunnerID: lineRunner, KeyLeaseSeconds: lineLease} {
		spoils = append(spoils,
			spoil{key + " missing", line, "", Fault{FaultMissing, key}},
			spoil{key + " doubled", line, line + "\n" + line, Fault{FaultRepeated, key}},
			spoil{key + " doubled in another case", "", strings.ToUpper(key) + ": 1", Fault{FaultRepeated, key}},
			spoil{key + " in another case", line, strings.ToUpper(line[:1]) + line[1:], Fault{FaultMisspelt, key}},
			spoil{key + " misspelt", line, "aynig" + line[5:len(key)-1] + line[len(key):], Fault{FaultMissing, key}},
			spoil{key + " empty", line, key + ":", Fault{FaultEmpty, key}},
		)
	}
	for value, kind := range map[string]FaultKind{
		"0": FaultOutOfRange, "-1": FaultOutOfRange, "-9223372036854775809": FaultOutOfRange, "9223372036854775808": FaultOutOfRange,
		"99999999999999999999999999": FaultOutOfRange, "abc": FaultInvalid, "1e3": FaultInvalid, "+5": FaultInvalid,
		"007": FaultInvalid, "0x10": FaultInvalid, "1.5": FaultInvalid, "5 s": FaultInvalid, "-": FaultInvalid, "٣": FaultInvalid,
	} {
		spoils = append(spoils, spoil{"lease seconds " + value, lineLease, KeyLeaseSeconds + ": " + value, Fault{kind, KeyLeaseSeconds}})
	}
	for _, id := range []string{"run-1234", strings.ToUpper(runA), "{" + runA + "}", strings.ReplaceAll(runA, "-", ""),
		"00000000-0000-0000-0000-000000000000", runA + "0", "3f0c2a52-7d0e-4b9a-9a51-0d3c7f4e6b1g"} {
		spoils = append(spoils, spoil{"run id " + id, lineRun, KeyRunID + ": " + id, Fault{FaultInvalid, KeyRunID}})
	}
	spoils = append(spoils,
		spoil{"origin working", lineOrigin, KeyOriginState + ": working", Fault{FaultInvalid, KeyOriginState}},
		spoil{"origin no state", lineOrigin, KeyOriginState + ": A", Fault{FaultInvalid, KeyOriginState}},
		spoil{"long runner", lineRunner, KeyRunnerID + ": " + strings.Repeat("h", MaxRunnerIDBytes+1), Fault{FaultInvalid, KeyRunnerID}},
		spoil{"stalled run", "", KeyStalledRun + ": " + runB, Fault{FaultUnexpected, KeyStalledRun}},
	)
	var out []malformedLease
	for _, s := range spoils {
		out = append(out, malformedLease{s.name, Head{oidA, leaseText(t, s.from, s.to), committer, true}, s.want})
	}
	good := mustWorking(t, claimA())
	return append(out,
		malformedLease{"committer unreadable", Head{oidA, good, committer, false}, Fault{FaultInvalid, SubjectCommitterDate}},
		malformedLease{"committer negative", Head{oidA, good, -1, true}, Fault{FaultOutOfRange, SubjectCommitterDate}},
		malformedLease{"committer least", Head{oidA, good, -1 << 63, true}, Fault{FaultOutOfRange, SubjectCommitterDate}},
		malformedLease{"committer overflow", Head{oidA, good, 1<<63 - 1, true}, Fault{FaultOutOfRange, SubjectCommitterDate}},
		malformedLease{"committer year 10000", Head{oidA, good, MaxCommitterSeconds + 1, true}, Fault{FaultOutOfRange, SubjectCommitterDate}},
	)
}

// TestL13_MalformedLease: a lease must have each key once, in exact case.
func TestL13_MalformedLease(t *testing.T) {
	for _, c := range malformedLeases(t, 1000) {
		t.Run(c.name, func(t *testing.T) {
			ev, err := ReadEvent(c.head)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Fault{c.want}, ev.Faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if !ev.Malformed() {
				t.Error("not malformed")
			}
			empty := map[string]bool{KeyOriginState: ev.OriginState == "", KeyRunID: ev.RunID == "", KeyRunnerID: ev.RunnerID == "",
				KeyLeaseSeconds: ev.LeaseSeconds == 0, SubjectCommitterDate: ev.CommitterSeconds == 0, KeyStalledRun: true}
			if !empty[c.want.Subject] {
				t.Errorf("the faulty field has a value: %+v", ev)
			}
		})
	}
}

// TestL13_OtherStatesKeepTheirFaults: on any other state a faulty lease key is
// noted, and the event stands.
func TestL13_OtherStatesKeepTheirFaults(t *testing.T) {
	ev := mustEvent(t, []byte("t\n\naynig-state: done\naynig-run-id: x\naynig-lease-seconds: 5\naynig-lease-seconds: 6\naynig-stalled-run: y\n"), 1)
	want := []Fault{{FaultInvalid, KeyRunID}, {FaultRepeated, KeyLeaseSeconds}, {FaultInvalid, KeyStalledRun}}
	if diff := cmp.Diff(want, ev.Faults); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ev.Malformed() {
		t.Error("an event that is no lease is malformed")
	}
}

// TestA5_TitleHasNoEffect: whatever the title, the same event but for itself.
func TestA5_TitleHasNoEffect(t *testing.T) {
	want := mustEvent(t, mustWorking(t, claimA()), 7)
	for _, title := range []string{"aynig-state: done", "# x", "Signed-off-by: A", "Conflicts:", "(cherry picked from commit 1)", "---"} {
		c := claimA()
		c.Title = title
		got := mustEvent(t, mustWorking(t, c), 7)
		got.Title = want.Title
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("title %q (-want +got):\n%s", title, diff)
		}
	}
}

// TestA12_StatesAreNames: every state but `working` is treated alike, so
// renaming the states of a workflow changes names only.
func TestA12_StatesAreNames(t *testing.T) {
	names := rapid.Custom(func(t *rapid.T) string {
		s := rapid.OneOf(rapid.StringMatching(`[a-z0-9_-]{1,8}(/[a-z0-9_-]{1,8}){0,2}`),
			rapid.SampledFrom([]string{"stalled", "done", "failed", "waiting", "open", "blocked", "completed"})).Draw(t, "name")
		if s == StateWorking {
			return "worked"
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		extra := rapid.SampledFrom([]string{"", "aynig-run-id: " + runA + "\n", "aynig-stalled-run: unknown\n", "aynig-lease-seconds: 0\n", "k: v\n"}).Draw(t, "extra")
		seconds := rapid.Int64().Draw(t, "seconds")
		read := func(state string) Event {
			text := fmt.Sprintf("t\n\nbody\n\naynig-state: %s\naynig-origin-state: %s\n%s", state, state, extra)
			ev, err := ReadEvent(Head{OID: oidA, Message: []byte(text), CommitterSeconds: seconds, CommitterOK: true})
			if err != nil {
				t.Fatal(err)
			}
			return ev
		}
		evA, evB := read(a), read(b)
		now := Clock{WallMs: 1 << 50, BootMs: 1 << 50, BootID: "b"}
		obs := Sighting{OID: oidA, BootID: "b"}
		if diff := cmp.Diff(Verdict{Reason: ReasonNotWorking}, Judge(evA, obs, now, DefaultPolicy(), true)); diff != "" {
			t.Fatalf("state %q (-want +got):\n%s", a, diff)
		}
		if diff := cmp.Diff(evA, renamed(evB, b, a)); diff != "" {
			t.Fatalf("%q and %q differ by more than their names:\n%s", a, b, diff)
		}
	})
}

func renamed(ev Event, from, to string) Event {
	for _, s := range []*string{&ev.State, &ev.OriginState} {
		if *s == from {
			*s = to
		}
	}
	for i, t := range ev.Trailers {
		if t.Value == from && (t.Key == KeyState || t.Key == KeyOriginState) {
			ev.Trailers[i].Value = to
		}
	}
	return ev
}
