package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// hook installs a rule of the server's own.
func (r *rivals) hook(script string) { gittest.Hook(r.t, r.bare, "pre-receive", script) }

// TestG6_EvidenceFallsBack: a rule refuses the records of a run. The result is
// pushed with hashes only, once, stands, and nothing of it is found wrong.
func TestG6_EvidenceFallsBack(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.hook(`while read old new ref; do git cat-file -e $new:records.jsonl 2>/dev/null && { echo "no logs here" >&2; exit 1; }; done; exit 0`)
	r.a.reach(kernel.ActionJudge)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeDone)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)
	rep, err := replay.VerifyTask(t.Context(), r.a.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{r.a.key}, World: r.a.place.cfg.World})
	if err != nil || strings.Contains(rep.Plain(), "FAILED") || rep.Evidence != replay.EvidenceRedacted {
		t.Errorf("%v\n%s", err, rep.Plain())
	}
	if files := r.git("ls-tree", "--name-only", stateRef); strings.Contains(files, "records.jsonl") || !strings.Contains(files, "report.json") {
		t.Errorf("the evidence holds %s", files)
	}
}

// said is what git says, without the white space around it.
func (r *rivals) said(args ...string) string {
	r.t.Helper()
	return strings.TrimSpace(r.git(args...))
}

// pushes is how often the server was asked to take something since it was asked last.
func (r *rivals) pushes() (n int) {
	for _, q := range r.srv.Requests() {
		if strings.HasSuffix(q.Path, "/git-receive-pack") {
			n++
		}
	}
	return n
}

const noBranches = `while read old new ref; do case $ref in refs/heads/*) echo "policy 7: bots may not make branches" >&2; exit 1;; esac; done; exit 0`

// toRule drives A until its result waits for a rule at HEAD.
func (r *rivals) toRule() Status {
	r.t.Helper()
	r.hook(noBranches)
	r.a.reach(kernel.ActionJudge)
	lease := r.head()
	want(r.t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	want(r.t, r.a.tick(), kernel.ActionWait, kernel.OutcomeDone, kernel.CodePushRefused)
	if got := r.said("log", "-1", "--format=%P %(trailers:key=aynig-state,valueonly)%(trailers:key=writ-waiting-for,valueonly)", stateRef); got != lease+" waiting\nrule" {
		r.t.Errorf("HEAD is %q", got)
	}
	if r.git("rev-parse", stateRef+"^{tree}") != r.git("rev-parse", lease+"^{tree}") {
		r.t.Error("the wait has another tree than the lease")
	}
	if body := r.git("log", "-1", "--format=%b", stateRef); !strings.Contains(body, "policy 7: bots may not make branches") {
		r.t.Errorf("it says %q", body)
	}
	want(r.t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused) // a server that was healed meanwhile would take it
	want(r.t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused) // with hashes only
	return r.a.tick()
}

// TestG6_RuleIsMended: a rule refuses the change itself, which the push of the small
// wait shows. The work is kept, the server's words are told, it is pushed again within
// the hour, and once the rule is mended it is delivered onto the wait, by the one
// execution, and verifies.
func TestG6_RuleIsMended(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	st := r.toRule()
	r.pushes()
	for range 5 {
		want(t, st, kernel.ActionNone, "", kernel.CodePushRefused)
		left := st.Decision.Wake - r.a.clock.Now().WallMs
		if st.Decision.Standing != kernel.StandDue || left <= 0 || left > time.Minute.Milliseconds() || !strings.Contains(st.Decision.Violations[0].Detail, "policy 7: bots may not make branches") {
			t.Errorf("%s in %d ms: %v", st.Decision.Standing, left, st.Decision.Violations)
		}
		r.a.clock.advance(10_000)
		st = r.a.tick()
	}
	if n := r.pushes(); n != 0 {
		t.Errorf("%d pushes of what a rule refused", n)
	}
	if o, lasts := r.a.task.s.Outage(); lasts {
		t.Errorf("a rule is shown as an outage: %+v", o)
	}
	for tries, from := 0, r.a.clock.Now().WallMs; ; tries++ {
		st := r.a.until(kernel.StandDue)
		if left := st.Decision.Wake - r.a.clock.Now().WallMs; left > time.Hour.Milliseconds() {
			t.Errorf("the next try is in %d ms", left)
		}
		if r.a.clock.Now().WallMs-from > 6*time.Hour.Milliseconds() {
			if r.pushes() > 4*tries {
				t.Errorf("%d tries in six hours", tries)
			}
			break
		}
		if tries > 13 {
			t.Fatal("it tries all the time, or never")
		}
		r.a.clock.advance(st.Decision.Wake - r.a.clock.Now().WallMs)
	}
	r.hook("exit 0")
	r.a.clock.advance(time.Hour.Milliseconds())
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)
	r.a.verify(stateRef)
	if n := len(r.a.exec.builds); n != 1 || r.said("log", "-1", "--format=%(trailers:key=writ-interruptions,valueonly)", stateRef) != "0" {
		t.Errorf("%d builds", n)
	}
}

// TestG6_WaitIsRenewed: as long as who has the work is there, nobody else comes to it.
func TestG6_WaitIsRenewed(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.toRule()
	for from := r.a.clock.Now().WallMs; r.a.clock.Now().WallMs-from < 6*time.Hour.Milliseconds(); r.a.clock.advance(600_000) {
		for st := r.a.tick(); st.Decision.Standing == kernel.StandActing; {
			st = r.a.tick()
		}
		if st := r.b.tick(); st.Decision.Standing != kernel.StandDue {
			t.Fatalf("B finds it %s, %s", st.Decision.Standing, st.Decision.Action)
		}
	}
	if n := strings.Count(strings.Join(r.states(), " "), "waiting"); n < 6 || n > 9 {
		t.Errorf("%d waits in six hours", n)
	}
}

// TestG6_AnotherMovesOn: who had the work that waits for a rule is gone. Another trusted
// instance leaves it alone as long as it may come back, then goes on with what is sealed;
// that is an interruption. It verifies.
func TestG6_AnotherMovesOn(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.place.terms, r.b.place.terms = checkTerms, checkTerms
	r.a.open()
	r.b.open()
	r.toRule()
	for n := strings.Count(strings.Join(r.states(), " "), "waiting"); strings.Count(strings.Join(r.states(), " "), "waiting") < n+2; {
		r.a.reach(kernel.ActionWait)
	}
	st := r.b.tick()
	left := st.Decision.Wake - r.b.clock.Now().WallMs
	if want(t, st, kernel.ActionNone, "", kernel.CodePushRefused); st.Decision.Standing != kernel.StandDue || st.Decision.WaitingFor != kernel.WaitRule || left < (50*time.Minute).Milliseconds() || left > time.Hour.Milliseconds()+1000 {
		t.Errorf("B finds it %s for %q, for %d ms", st.Decision.Standing, st.Decision.WaitingFor, left)
	}
	if rep, err := r.b.task.Report(t.Context(), st); err != nil || rep.WaitingFor != kernel.WaitRule || rep.FinalState != "" {
		t.Errorf("B reports %+v, %v", rep, err)
	}
	if rep, err := replay.VerifyTask(t.Context(), r.b.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{r.a.key}, World: r.b.place.cfg.World}); err != nil || !rep.OK {
		t.Errorf("the wait: %v\n%s", err, rep.Plain())
	}
	r.hook("exit 0")
	r.b.clock.advance(left + 1000)
	want(t, r.b.tick(), kernel.ActionClaim, kernel.OutcomeDone)
	want(t, r.a.tick(), kernel.ActionAbandon, kernel.OutcomeDone, kernel.CodeLeaseLost)
	r.b.until(kernel.StandFinal)
	delivered(t, r.bare)
	if n := len(r.b.exec.builds); n != 0 || r.said("log", "-1", "--format=%(trailers:key=writ-interruptions,valueonly)", stateRef) != "1" {
		t.Errorf("B builds %d times", n)
	}
	rep, err := replay.VerifyTask(t.Context(), r.b.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{r.a.key, r.b.key}, World: r.b.place.cfg.World})
	if err != nil || !rep.OK {
		t.Errorf("%v\n%s", err, rep.Plain())
	}
}

// TestG6_StoppedWhileItWaits: a person's stop is carried out from the wait.
func TestG6_StoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.toRule()
	want(t, r.a.ask(kernel.RequestStop), kernel.ActionWait, kernel.OutcomeDone, kernel.CodeTaskStopped)
	if got := r.said("log", "-1", "--format=%(trailers:key=writ-waiting-for,valueonly)", stateRef); got != "approval" || r.a.task.worker.run != nil {
		t.Errorf("HEAD waits for %q", got)
	}
	r.a.clock.advance(2 * time.Hour.Milliseconds())
	if st := r.a.tick(); st.Decision.Standing != kernel.StandWaiting {
		t.Errorf("it stands %s", st.Decision.Standing)
	}
}

// TestG6_HaltedWhileItWaits: no lease is held, and the wait stays. The resume goes on with
// the work that is kept, and nothing is counted.
func TestG6_HaltedWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.toRule()
	head := r.head()
	want(t, r.a.ask(kernel.RequestHalt), kernel.ActionAbandon, kernel.OutcomeDone)
	if r.head() != head || r.a.task.worker.run != nil {
		t.Errorf("HEAD is %q", r.states())
	}
	must(t, r.a.sup.Halt(t.Context(), 1, "alice", "look first"))
	must(t, r.a.sup.Resume(t.Context(), 1, "alice", "go on"))
	r.hook("exit 0")
	r.a.until(kernel.StandFinal)
	delivered(t, r.bare)
	if n := len(r.a.exec.builds); n != 1 || r.said("log", "-1", "--format=%(trailers:key=writ-interruptions,valueonly)", stateRef) != "0" {
		t.Errorf("%d builds, states %q", n, r.states())
	}
}

// TestG6_WordsOfAnOutage: a rule against contents that has an outage's words is found out
// by the small push, and the evidence falls back.
func TestG6_WordsOfAnOutage(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionJudge)
	r.hook(`while read old new ref; do git cat-file -e $new:records.jsonl 2>/dev/null && { echo "internal server error" >&2; exit 1; }; done; exit 0`)
	for range ruleTries {
		want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeUnable)
	}
	want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeDone)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeUnable)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)
}

// TestG6_Account: what the account may not do is a rule at once, with the lease at HEAD:
// nothing smaller would be taken either.
func TestG6_Account(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionJudge)
	r.srv.Set(gittest.OnPush(gittest.Status(403, "Permission to o/r.git denied to writ-bot.")))
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	r.pushes()
	st := r.a.tick()
	want(t, st, kernel.ActionNone, "", kernel.CodePushRefused)
	if r.pushes() != 0 || st.Decision.WaitingFor != kernel.WaitRule || !strings.Contains(st.Decision.Violations[0].Detail, "denied to writ-bot") {
		t.Errorf("%+v", st.Decision)
	}
	r.srv.Set(nil)
	r.a.clock.advance(time.Hour.Milliseconds())
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)

	r = newRivals(t)
	r.srv.Set(gittest.OnPush(gittest.Status(403, "Permission to o/r.git denied to writ-bot.")))
	want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeRefused)
	if st := r.a.tick(); st.Decision.Standing != kernel.StandRefused {
		t.Errorf("it stands %s", st.Decision.Standing)
	}
}

// TestG6_ClaimIsRefused: a rule is against the text that a claim carries. The task waits
// at HEAD, is claimed again within the hour, less and less often, and counts nothing.
func TestG6_ClaimIsRefused(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.hook(`while read old new ref; do git cat-file -e $new:seed_pack.json 2>/dev/null && { echo "push protection: the text has a secret" >&2; exit 1; }; done; exit 0`)
	var waits []int64
	for from := r.a.clock.Now().WallMs; r.a.clock.Now().WallMs-from < 5*time.Hour.Milliseconds(); {
		want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeRefused)
		want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeDone, kernel.CodePushRefused)
		st := r.a.tick()
		if want(t, st, kernel.ActionNone, "", kernel.CodePushRefused); st.Decision.Standing != kernel.StandDue {
			t.Fatalf("it stands %s", st.Decision.Standing)
		}
		waits = append(waits, st.Decision.Wake-r.a.clock.Now().WallMs)
		if len(waits) > 16 {
			t.Fatalf("it waits %d ms", waits)
		}
		r.a.open() // nobody has to remember it
		r.a.clock.advance(waits[len(waits)-1])
	}
	if first, last := waits[0], waits[len(waits)-1]; first > claimSoon.Milliseconds()+1000 || last > time.Hour.Milliseconds() {
		t.Errorf("it waits %d ms", waits)
	}
	r.hook("exit 0")
	r.a.until(kernel.StandFinal)
	delivered(t, r.bare)
	r.a.verify(stateRef)
	if got := r.said("log", "-1", "--format=%(trailers:key=writ-attempt,valueonly)%(trailers:key=writ-interruptions,valueonly)", stateRef); got != "1\n0" {
		t.Errorf("attempt and interruptions: %q", got)
	}
}

// TestG7_StaleLock: a lock file that a dead process left is an outage with a name,
// and the judged work is delivered once it is gone.
func TestG7_StaleLock(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionJudge)
	lock := filepath.Join(r.bare, filepath.FromSlash(stateRef)+".lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeLost)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeLost)
	for range 2 {
		st := r.a.tick()
		want(t, st, kernel.ActionResult, kernel.OutcomeUnable)
		if st.Outcome.Code != kernel.CodeForgeUnable || !strings.Contains(st.Outcome.Detail, "lock file") {
			t.Errorf("%+v", st.Outcome)
		}
	}
	if o, lasts := r.a.task.s.Outage(); !lasts || !strings.Contains(o.Words, "lock file") {
		t.Errorf("%+v", o)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	r.a.clock.advance(time.Hour.Milliseconds())
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)
}

// TestG6_NothingTaken: a server that takes no push at all, whatever it says, is unable:
// the world is red with its words, and once it is healed the task is done.
func TestG6_NothingTaken(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.hook(`echo "pre-receive hook declined: closed for today" >&2; exit 1`)
	for range 3 {
		want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeRefused)
		want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeUnable)
	}
	if o, lasts := r.a.task.s.Outage(); !lasts || o.Tries != 3 || !strings.Contains(o.Words, "closed for today") {
		t.Errorf("%+v", o)
	}
	r.hook("exit 0")
	r.a.until(kernel.StandFinal)
	delivered(t, r.bare)
	r.a.verify(stateRef)
}

// TestG6_LastWordRefused: nothing at all is taken when the result is to be pushed. The
// work is kept and delivered once the server is healed, by the one execution.
func TestG6_LastWordRefused(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionJudge)
	r.hook(`echo "pre-receive hook declined: closed for today" >&2; exit 1`)
	for range 3 {
		want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
		want(t, r.a.tick(), kernel.ActionWait, kernel.OutcomeUnable)
	}
	if _, lasts := r.a.task.s.Outage(); !lasts {
		t.Error("it isn't shown")
	}
	r.hook("exit 0")
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)
	r.a.verify(stateRef) // with all of its evidence
}

// TestG6_StopWithoutReport: a stop whose report is refused is pushed without it.
func TestG6_StopWithoutReport(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionDispatch)
	r.hook(`while read old new ref; do git cat-file -e $new:report.json 2>/dev/null && { echo "policy 7: no reports" >&2; exit 1; }; done; exit 0`)
	want(t, r.a.ask(kernel.RequestStop), kernel.ActionWait, kernel.OutcomeRefused)
	want(t, r.a.ask(kernel.RequestStop), kernel.ActionWait, kernel.OutcomeDone, kernel.CodeTaskStopped)
	if got := r.said("log", "-1", "--format=%(trailers:key=writ-waiting-for,valueonly)", stateRef); got != "approval" {
		t.Errorf("HEAD waits for %q", got)
	}
}
