package lease

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestL2_IdenticalLeaseCommits: two runners that claim the same event in the
// same second, alike in all else, write different bytes, because the run id is
// mandatory and each one's own.
func TestL2_IdenticalLeaseCommits(t *testing.T) {
	a, b := claimA(), claimA()
	b.RunID = runB
	if bytes.Equal(mustWorking(t, a), mustWorking(t, b)) {
		t.Error("two claims are the same bytes")
	}
	// Nothing else in a message varies by itself: without the nonce both win.
	if !bytes.Equal(mustWorking(t, a), mustWorking(t, a)) {
		t.Error("the message depends on something besides the claim")
	}
}

// TestL2_ClaimWithoutRunID: no lease commit without the nonce.
func TestL2_ClaimWithoutRunID(t *testing.T) {
	for _, id := range []string{"", " ", "x", UnknownRun, "00000000-0000-0000-0000-000000000000", strings.ToUpper(runA)} {
		c := claimA()
		c.RunID = id
		b, err := Working(c)
		if e, ok := asError(err); !ok || e.Code != CodeUnwritable || e.Fault != (Fault{FaultInvalid, KeyRunID}) || b != nil {
			t.Errorf("run id %q: %q, %v", id, b, err)
		}
	}
}

// TestA23_WorkingRefuses: a lease commit is complete or isn't written.
func TestA23_WorkingRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Claim)
		want  Fault
	}{
		{"origin empty", func(c *Claim) { c.OriginState = "" }, Fault{FaultInvalid, KeyOriginState}},
		{"origin working", func(c *Claim) { c.OriginState = StateWorking }, Fault{FaultInvalid, KeyOriginState}},
		{"runner empty", func(c *Claim) { c.RunnerID = "" }, Fault{FaultInvalid, KeyRunnerID}},
		{"runner of two lines", func(c *Claim) { c.RunnerID = "a\nb" }, Fault{FaultInvalid, KeyRunnerID}},
		{"no lease", func(c *Claim) { c.LeaseSeconds = 0 }, Fault{FaultOutOfRange, KeyLeaseSeconds}},
		{"negative lease", func(c *Claim) { c.LeaseSeconds = -1 }, Fault{FaultOutOfRange, KeyLeaseSeconds}},
		{"long lease", func(c *Claim) { c.LeaseSeconds = MaxLeaseSeconds + 1 }, Fault{FaultOutOfRange, KeyLeaseSeconds}},
		{"reserved extra", func(c *Claim) { c.Extra = []Trailer{{KeyStalledRun, runB}} }, Fault{FaultUnexpected, KeyStalledRun}},
		{"reserved extra in another case", func(c *Claim) { c.Extra = []Trailer{{"Aynig-Run-Id", runB}} }, Fault{FaultUnexpected, "Aynig-Run-Id"}},
		{"extra of two lines", func(c *Claim) { c.Extra = []Trailer{{"k", "v\naynig-run-id: x"}} }, Fault{FaultInvalid, "k"}},
		{"title of two lines", func(c *Claim) { c.Title = "a\nb" }, Fault{FaultInvalid, SubjectTitle}},
		{"scissors in the body", func(c *Claim) { c.Body = scissors }, Fault{FaultInvalid, SubjectBody}},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := claimA()
			c.spoil(&claim)
			b, err := Working(claim)
			if e, ok := asError(err); !ok || e.Code != CodeUnwritable || e.Fault != c.want || b != nil {
				t.Errorf("%q, %v; want fault %v", b, err, c.want)
			}
		})
	}
}

// TestL10_RenewRefusesForeignLease: a heartbeat goes onto the own run only.
func TestL10_RenewRefusesForeignLease(t *testing.T) {
	good := mustEvent(t, mustWorking(t, claimA()), 1)
	stalled := good
	stalled.State = StateStalled
	done := mustEvent(t, []byte("t\n\naynig-state: done\naynig-run-id: "+runA+"\n"), 1)
	doubled := mustEvent(t, leaseText(t, lineRun, lineRun+"\n"+lineRun), 1)
	for _, c := range []struct {
		name string
		ev   Event
		run  string
	}{
		{"other run", good, runB}, {"no run", good, ""}, {"stalled by a rival", stalled, runA},
		{"output of the run", done, runA}, {"malformed", doubled, runA}, {"malformed, no run", doubled, ""}, {"nothing", Event{}, ""},
	} {
		if b, err := Renew(c.ev, Renewal{RunID: c.run}); !HasCode(err, CodeLost) || b != nil {
			t.Errorf("%s: %q, %v", c.name, b, err)
		}
	}
}

// TestA27_RenewKeepsTheRun: through any number of heartbeats run id, runner,
// origin state, prompt and extra trailers stay, but for those replaced.
func TestA27_RenewKeepsTheRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := claimA()
		c.Body = strings.Join(rapid.SliceOfN(rapid.SampledFrom(nasty), 0, 6).Draw(t, "body"), "\n")
		c.Extra = rapid.SliceOfN(rapid.SampledFrom([]Trailer{{"k", "1"}, {"k", "2"}, {"l", "x"}, {"Writ-Head", "0"}}), 0, 5).Draw(t, "extra")
		if !writable(c.Body) {
			return
		}
		b, err := Working(c)
		if err != nil {
			t.Fatal(err)
		}
		first, err := ReadEvent(Head{Message: b, CommitterOK: true})
		if err != nil {
			t.Fatal(err)
		}
		ev := first
		for range rapid.IntRange(1, 4).Draw(t, "heartbeats") {
			if b, err = Renew(ev, Renewal{RunID: c.RunID, LeaseSeconds: 60, Replace: []Trailer{{"writ-head", "1"}}}); err != nil {
				t.Fatal(err)
			}
			if ev, err = ReadEvent(Head{Message: b, CommitterOK: true}); err != nil || ev.Malformed() {
				t.Fatalf("%v, %v", err, ev.Faults)
			}
		}
		want := append(slices.DeleteFunc(slices.Clone(c.Extra), func(t Trailer) bool { return t.Key == "Writ-Head" }), Trailer{"writ-head", "1"})
		if diff := cmp.Diff(want, ev.Extra()); diff != "" {
			t.Fatalf("extra (-want +got):\n%s", diff)
		}
		if ev.LeaseSeconds != 60 || ev.RunID != first.RunID || ev.RunnerID != first.RunnerID || ev.OriginState != first.OriginState || ev.Body != c.Body {
			t.Fatalf("first %+v\nlast %+v", first, ev)
		}
	})
}

// TestA39_Stalled: any lease can be broken, a broken one too, and nothing else.
func TestA39_Stalled(t *testing.T) {
	for _, c := range malformedLeases(t, 1000) {
		ev, err := ReadEvent(c.head)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Stalled(ev, Break{Body: ev.Body})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		want := ev.RunID
		if want == "" {
			want = UnknownRun
		}
		got := mustEvent(t, b, 1)
		if got.State != StateStalled || got.StalledRun != want || got.Body != ev.Body || len(got.Faults) != 0 || got.Title != TitleStalled {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	for _, state := range []string{"done", "stalled", "open"} {
		if b, err := Stalled(Event{State: state, RunID: runA}, Break{}); !HasCode(err, CodeLost) || b != nil {
			t.Errorf("%s: %q, %v", state, b, err)
		}
	}
	if _, err := Stalled(Event{State: StateWorking}, Break{Extra: []Trailer{{KeyRunID, runA}}}); !HasCode(err, CodeUnwritable) {
		t.Errorf("a reserved extra trailer: %v", err)
	}
}

// TestReserved: in any case, the six and no other.
func TestReserved(t *testing.T) {
	for key, want := range map[string]bool{"aynig-state": true, "AYNIG-STATE": true, "Aynig-Origin-State": true, "aynig-run-id": true,
		"aynig-runner-id": true, "aynig-lease-seconds": true, "aynig-stalled-run": true,
		"aynig-log-level": false, "aynig-remote": false, "writ-base": false, "aynig-states": false, "": false} {
		if Reserved(key) != want {
			t.Errorf("Reserved(%q) = %v", key, !want)
		}
	}
}
