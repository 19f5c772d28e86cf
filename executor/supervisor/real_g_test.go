package supervisor

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// hook installs a rule of the server's own.
func (r *rivals) hook(script string) { gittest.Hook(r.t, r.bare, "pre-receive", script) }

// TestG6_EvidenceFallsBack: a rule refuses the records of a run. The result is
// pushed with hashes only, once, and stands.
func TestG6_EvidenceFallsBack(t *testing.T) {
	r := newRivals(t)
	r.hook(`while read old new ref; do git cat-file -e $new:records.jsonl 2>/dev/null && { echo "no logs here" >&2; exit 1; }; done; exit 0`)
	r.a.reach(kernel.ActionJudge)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone)
	delivered(t, r.bare)
	if files := r.git("ls-tree", "--name-only", stateRef); strings.Contains(files, "records.jsonl") || !strings.Contains(files, "report.json") {
		t.Errorf("the evidence holds %s", files)
	}
}

// TestG6_Blocked: a rule refuses the change itself. The task is blocked with the
// server's words and what can be done.
func TestG6_Blocked(t *testing.T) {
	r := newRivals(t)
	r.hook(`while read old new ref; do case $ref in refs/heads/*) echo "policy 7: bots may not make branches" >&2; exit 1;; esac; done; exit 0`)
	r.a.reach(kernel.ActionJudge)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeRefused)
	want(t, r.a.tick(), kernel.ActionJudge, "", kernel.CodePushRefused, kernel.CodeEscalationBlocked)
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeDone, kernel.CodePushRefused)
	st := r.a.tick()
	if st.Decision.Standing != kernel.StandFinal || st.Decision.State != kernel.TaskBlocked || r.a.ref(changeRef) != "" {
		t.Errorf("%s %s", st.Decision.Standing, st.Decision.State)
	}
	message := r.git("log", "-1", "--format=%B", stateRef)
	for _, words := range []string{"policy 7: bots may not make branches", string(kernel.CodePushRefused)} {
		if !strings.Contains(message, words) {
			t.Errorf("%q is missing in the report:\n%s", words, message)
		}
	}
	rep, err := r.a.task.Report(t.Context(), st)
	if err != nil || rep.FinalState != kernel.TaskBlocked {
		t.Errorf("report %+v, %v", rep, err)
	}
}

// TestG6_NothingTaken: a server that takes no push at all is asked once for each
// thing, and the task is refused with its words.
func TestG6_NothingTaken(t *testing.T) {
	r := newRivals(t)
	r.hook(`echo "read-only for today" >&2; exit 1`)
	want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeRefused)
	r.srv.Requests()
	for range 4 {
		st := r.a.tick()
		want(t, st, kernel.ActionNone, "", kernel.CodePushRefused)
		if st.Decision.Standing != kernel.StandRefused || !strings.Contains(st.Decision.Violations[0].Detail, "read-only for today") {
			t.Errorf("%s: %v", st.Decision.Standing, st.Decision.Violations)
		}
		r.a.clock.advance(60_000)
	}
	for _, q := range r.srv.Requests() {
		if strings.HasSuffix(q.Path, "/git-receive-pack") {
			t.Error("a refused claim was pushed again")
		}
	}
}

// TestG6_LastWordRefused: not even the blocked state is taken. The run is given
// up, its builder is dead, and nothing is pushed any more.
func TestG6_LastWordRefused(t *testing.T) {
	r := newRivals(t)
	r.a.reach(kernel.ActionJudge)
	r.hook(`echo "closed" >&2; exit 1`)
	st := r.a.until(kernel.StandRefused)
	want(t, st, kernel.ActionNone, "", kernel.CodePushRefused)
	r.srv.Requests()
	r.a.tick()
	for _, q := range r.srv.Requests() {
		if strings.HasSuffix(q.Path, "/git-receive-pack") {
			t.Error("it goes on pushing")
		}
	}
}
