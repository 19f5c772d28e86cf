package replay

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// breaks has a holder claim on the sample's HEAD, and somebody end that lease.
func (x sample) breaks(run string, holder, by byte) sample {
	x.t.Helper()
	s := x.stage
	as := func(key byte, of sample, message []byte, err error) sample {
		s.must(err)
		s.signer = git.NewSigner(testKey(x.t, key).SSHSigner())
		return of.put(Pack{}, string(message))
	}
	extra := append(s.stamp(), lease.Trailer{Key: kernel.TrailerApproval, Value: trailerOf(x.head.Commit, kernel.TrailerApproval)})
	claim, err := lease.Working(lease.Claim{OriginState: "open", RunID: run, RunnerID: "host", LeaseSeconds: 600, Title: "writ: attempt", Extra: extra})
	x = as(holder, x, claim, err)
	ev, err := eventOf(x.head.Commit)
	s.must(err)
	over, err := lease.Stalled(ev, lease.Break{Extra: extra})
	return as(by, x, over, err)
}

// TestR1_HolderThatDied: what is lost with a holder is shown, and is of no run whose work
// was accepted. Who ends a lease of its own has the records.
func TestR1_HolderThatDied(t *testing.T) {
	const died, own = "00000000-0000-4000-8000-000000000071", "00000000-0000-4000-8000-000000000072"
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	if r := x.verify(); len(r.Gaps) > 0 || slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == "gaps" }) {
		t.Errorf("a gap where nobody died:\n%s", r.Plain())
	}
	accepted := trailerOf(x.head.Commit, kernel.TrailerRun)
	x.breaks(own, 2, 2).breaks(died, 2, 1)
	r := verified(t, s, Options{})
	if len(r.Gaps) != 1 || r.Gaps[0].Run != died || r.Gaps[0].To != r.Head || r.Gaps[0].From == "" ||
		r.Gaps[0].Holder != testKey(t, 2).Fingerprint() || r.Gaps[0].By != testKey(t, 1).Fingerprint() {
		t.Errorf("want the one of %s: %+v", died, r.Gaps)
	}
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "gaps" })
	if i < 0 || !r.Checks[i].OK || !strings.Contains(r.Checks[i].Detail, "evidence.gap") || !strings.Contains(r.Checks[i].Detail, died) {
		t.Errorf("it isn't shown, or is a fault:\n%s", r.Plain())
	}

	refs, err := s.repo.Refs(t.Context(), stateRef)
	s.must(err)
	all, _, err := s.repo.Log(t.Context(), []git.OID{refs.OID(stateRef)}, nil, maxLeases)
	s.must(err)
	y := x.clone()
	y.head.Broken = broken(all)[:1]
	old, next := testKey(t, 2).Fingerprint(), testKey(t, 1).Fingerprint()
	y.head.Acts = []worldref.Entry{{OID: "aa", Signer: next, Old: old, New: next, Act: worldref.Act{Act: worldref.Rotate, World: testWorld, Old: old, New: next}}}
	if r := y.verify(); len(r.Gaps) > 0 {
		t.Errorf("the same instance with another key is taken for another: %+v\n%s", r.Gaps, r.Plain())
	}
	y.head.Acts = nil
	y.head.Broken = []Broken{{x.head.Leases[0], broken(all)[1].By}} // of the very run
	r = y.verify()
	wantFailed(t, r, "gaps")
	if r.Gaps[0].Run != accepted || !slices.Equal(r.Codes, []kernel.Code{kernel.CodeEvidenceGap}) {
		t.Errorf("want evidence.gap of run %s alone: %v\n%s", accepted, r.Codes, r.Plain())
	}
}
