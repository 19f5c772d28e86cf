package kernel_test

import (
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Domains are small, so that rules meet each other often.
var (
	states     = []string{"", "open", "working", "stalled", "waiting", "completed", "retry_pending", "blocked", "deployed"}
	approvals  = []canon.Digest{"", digest("a"), digest("e")}
	oids       = []string{"", head1, head2}
	trusts     = []kernel.Trust{kernel.TrustOwn, kernel.TrustListed, kernel.TrustUnlisted, kernel.TrustNone, ""}
	phases     = []kernel.Phase{kernel.PhaseClaimed, kernel.PhaseBuilding, kernel.PhaseBuilt, kernel.PhaseSealed, kernel.PhaseChecking, kernel.PhaseChecked, kernel.PhaseJudged}
	requests   = []kernel.Request{kernel.RequestTick, kernel.RequestTick, kernel.RequestStop, kernel.RequestShutdown, kernel.RequestLook}
	finalState = []kernel.TaskState{kernel.TaskCompleted, kernel.TaskRetryPending, kernel.TaskBlocked}
)

func violations(t *rapid.T, name string) []kernel.Violation {
	if rapid.IntRange(0, 3).Draw(t, name+"?") > 0 {
		return nil
	}
	all := kernel.Codes()
	var out []kernel.Violation
	for range rapid.IntRange(1, 3).Draw(t, name+"#") {
		code := all[rapid.IntRange(0, len(all)-1).Draw(t, name)].Code
		out = append(out, kernel.Violation{Code: code, Subject: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "subject"), Detail: "d"})
	}
	return out
}

// number draws counts and times: small ones mostly, and the ends of the range.
func number(t *rapid.T, name string) int64 {
	return rapid.SampledFrom([]int64{0, 1, 2, 3, 4, now - 1, now, now + 1, maxInt, -maxInt}).Draw(t, name)
}

// anyFacts draws facts, sound or not.
func anyFacts(t *rapid.T) kernel.Facts {
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	f := fresh()
	f.Now, f.Request = rapid.SampledFrom([]int64{0, now, maxInt}).Draw(t, "now"), rapid.SampledFrom(requests).Draw(t, "request")
	f.View.Halted = rapid.IntRange(0, 5).Draw(t, "halted") == 0
	if rapid.IntRange(0, 3).Draw(t, "accepted") == 0 {
		f.View.AcceptedRun, f.View.AcceptedApproval = theirs, rapid.SampledFrom(approvals).Draw(t, "accepted approval")
	}
	f.View.ResumedHead = rapid.SampledFrom(append(oids, kernel.AbsentHead)).Draw(t, "resumed")
	f.View.Seen, f.View.SeenSeq = rapid.SampledFrom(oids).Draw(t, "seen"), rapid.Int64Range(0, 5).Draw(t, "seen seq")
	f.Told = rapid.IntRange(0, 3).Draw(t, "told") == 0
	f.Current, f.SameIssue = rapid.SampledFrom(approvals).Draw(t, "current"), yes("same issue")
	f.Budgets.Attempts, f.Budgets.Interruptions = rapid.Int64Range(1, 3).Draw(t, "attempts"), rapid.Int64Range(0, 3).Draw(t, "interruptions")
	f.Budgets.RetryBackoffMs, f.Budgets.RetryBackoffMaxMs = number(t, "backoff"), number(t, "backoff max")
	f.Checks = rapid.Int64Range(0, 2).Draw(t, "checks")
	f.Head = kernel.HeadFacts{
		OID: rapid.SampledFrom(oids).Draw(t, "head"), State: rapid.SampledFrom(states).Draw(t, "state"),
		Trust: rapid.SampledFrom(trusts).Draw(t, "trust"), Seq: rapid.Int64Range(0, 5).Draw(t, "seq"),
		Binding: rapid.SampledFrom([]kernel.Binding{kernel.BindHere, kernel.BindHere, kernel.BindHere, kernel.BindElsewhere, kernel.BindNone}).Draw(t, "binding"),
		Parent:  rapid.SampledFrom(oids).Draw(t, "parent"), Signer: rapid.SampledFrom([]string{"", "k"}).Draw(t, "signer"),
		RunID: rapid.SampledFrom([]string{"", ourRun, theirs}).Draw(t, "run at head"), LeaseExpired: yes("expired"),
		Approval: rapid.SampledFrom(approvals).Draw(t, "approval"), Attempt: number(t, "attempt"),
		Interruptions: rapid.Int64Range(0, 4).Draw(t, "interruptions at head"), NotBefore: number(t, "not before"), Reapproved: yes("anew"),
	}
	f.Input, f.Policy, f.Environment = violations(t, "input"), violations(t, "policy"), violations(t, "environment")
	if yes("run") {
		f.Run = anyRun(t)
	}
	return f
}

func anyRun(t *rapid.T) *kernel.RunFacts {
	r := &kernel.RunFacts{
		RunID: ourRun, LeaseOID: rapid.SampledFrom(oids[1:]).Draw(t, "our lease"), Attempt: rapid.Int64Range(1, 4).Draw(t, "our attempt"),
		Phase: rapid.SampledFrom(phases).Draw(t, "phase"), RenewDue: rapid.Bool().Draw(t, "renew"), Overdue: rapid.IntRange(0, 4).Draw(t, "fence") == 0,
		Build: violations(t, "build"), Scope: violations(t, "scope"), CheckFails: violations(t, "checks"),
		Message: violations(t, "message"), Dispatch: violations(t, "dispatch"), Refused: violations(t, "refused"),
	}
	if r.Phase == kernel.PhaseJudged {
		r.Judgement = &kernel.Judgement{State: rapid.SampledFrom(finalState).Draw(t, "judged")}
	}
	return r
}

// TestDecide_AnyFacts holds every decision against what must always be so.
func TestDecide_AnyFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		before := marshalRapid(t, f)
		d, err := kernel.Decide(f)
		if err != nil {
			t.Fatal(err)
		}
		again, err := kernel.Decide(f)
		if err != nil || marshalRapid(t, d) != marshalRapid(t, again) || marshalRapid(t, f) != before {
			t.Fatalf("the decision isn't a pure function of the facts")
		}
		for _, broken := range broken(f, d) {
			t.Error(broken)
		}
		if t.Failed() {
			t.Fatalf("facts %s\ndecision %s", before, marshalRapid(t, d))
		}
	})
}

func marshalRapid(t *rapid.T, v any) string {
	b, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// broken lists the promises that a decision breaks.
func broken(f kernel.Facts, d kernel.Decision) []string {
	var out []string
	need := func(ok bool, promise string) {
		if !ok {
			out = append(out, promise)
		}
	}
	need(d.Verdict == kernel.Allow || d.Action == kernel.ActionNone, "only ALLOW has an effect")
	need((d.Standing == kernel.StandActing) == (d.Action.External() && d.Action != kernel.ActionAbandon || d.Action == kernel.ActionJudge), "acting means an effect")
	need(sort.SliceIsSorted(d.Violations, func(i, j int) bool { return order(d.Violations[i]) < order(d.Violations[j]) }), "violations are in the fixed order")
	need(slices.Equal(d.Codes, kernel.SortCodes(d.Codes)), "codes are sorted and distinct")
	for _, c := range kernel.CodesOf(d.Violations) {
		need(slices.Contains(d.Codes, c), "each violation's code is listed")
	}
	need(!f.View.Halted || !slices.Contains([]kernel.Action{kernel.ActionClaim, kernel.ActionDispatch, kernel.ActionChecks, kernel.ActionResult}, d.Action),
		"a halted task starts and ends nothing")
	if f.Run != nil {
		return append(out, brokenByRun(f, d)...)
	}
	return append(out, brokenAtHead(f, d)...)
}

func order(v kernel.Violation) string {
	i := slices.IndexFunc(kernel.Codes(), func(c kernel.CodeInfo) bool { return c.Code == v.Code })
	return string(rune('0'+i)) + "\x00" + v.Subject + "\x00" + v.Detail
}

var pushes = []kernel.Action{kernel.ActionClaim, kernel.ActionTakeOver, kernel.ActionHeartbeat, kernel.ActionResult, kernel.ActionRelease, kernel.ActionWait}

// brokenByRun: whatever a run does, HEAD is its own commit and its lease can
// still be renewed (invariant E5), and only proven work completes a task.
func brokenByRun(f kernel.Facts, d kernel.Decision) []string {
	var out []string
	need := func(ok bool, promise string) {
		if !ok {
			out = append(out, promise)
		}
	}
	r := f.Run
	ours := f.Head.OID == r.LeaseOID && (!r.Overdue || r.Phase == kernel.PhaseJudged)
	effect := d.Action != kernel.ActionNone && d.Action != kernel.ActionAbandon
	need(!effect || ours, "a run acts only while HEAD is the commit it left there")
	need(d.Action != kernel.ActionClaim && d.Action != kernel.ActionTakeOver, "a run claims nothing")
	need(d.Action != kernel.ActionDispatch || r.Phase == kernel.PhaseClaimed && len(r.Dispatch) == 0 && f.Current == f.Approved, "a dispatch is admissible")
	clean := len(r.Build)+len(r.Scope)+len(r.Message) == 0 && (f.Checks == 0 || r.Phase == kernel.PhaseChecked && len(r.CheckFails) == 0)
	need(d.Action != kernel.ActionSeal || r.Phase == kernel.PhaseBuilt && len(r.Build)+len(r.Scope)+len(r.Message) == 0, "only what nothing speaks against is sealed")
	need(d.Resumes == "", "a run has begun, or goes on with sealed work, by its claim")
	need(d.Action != kernel.ActionJudge || d.State != kernel.TaskCompleted || clean, "only verified work completes a task")
	need(d.Action != kernel.ActionResult || r.Phase == kernel.PhaseJudged && d.State == r.Judgement.State, "only the recorded verdict is delivered")
	count := func(c kernel.Counts) bool { // what checks lack says nothing beside something else
		return slices.ContainsFunc(d.Violations, func(v kernel.Violation) bool { return v.Code.Info().Counts == c && !v.Code.Lacks() })
	}
	host := count(kernel.CountsNothing) && !count(kernel.CountsInterruption)
	need(d.Action != kernel.ActionRelease || d.Interruptions == f.Head.Interruptions+1 || host && d.Interruptions == f.Head.Interruptions && (d.NotBefore > f.Now || f.Now == maxInt),
		"giving back counts one interruption, but for what the host lacked, which waits")
	lacks := d.Action == kernel.ActionWait && d.WaitingFor == kernel.WaitEnvironment
	need(!lacks || d.Interruptions == f.Head.Interruptions+1, "what checks lack on the base as well counts one, until it is there")
	need(d.Action == kernel.ActionRelease || lacks || d.Interruptions == f.Head.Interruptions, "nothing else counts one")
	need(d.Attempt == r.Attempt, "a run's attempt doesn't change")
	return out
}

// brokenAtHead: without a run, HEAD is moved only where it is free, ours to
// say so, or a person moved on.
func brokenAtHead(f kernel.Facts, d kernel.Decision) []string {
	var out []string
	need := func(ok bool, promise string) {
		if !ok {
			out = append(out, promise)
		}
	}
	h := f.Head
	moved := f.View.ResumedHead != "" && (h.OID == f.View.ResumedHead || h.OID == "" && f.View.ResumedHead == kernel.AbsentHead)
	resumed := moved || h.OID != "" && h.Reapproved
	known := f.View.Seen != "" || f.Told
	if slices.Contains(pushes, d.Action) {
		live := h.State == kernel.HeadWorking && !h.LeaseExpired && h.Binding != kernel.BindElsewhere
		need(!live, "a live lease is never pushed over")
		lock := !h.Trusted() && (h.State == kernel.HeadWorking || h.State == kernel.HeadStalled)
		switch {
		case moved:
		case h.OID == "" || h.Binding == kernel.BindElsewhere:
			need(!known, "what is gone or foreign is nobody's to move on from")
		case lock:
			need(f.View.Seen != "" && h.Parent == f.View.Seen, "an unlisted lease stands on the HEAD seen last")
		default:
			need(h.Trusted(), "HEAD is one that may be followed")
			need(h.OID == f.View.Seen || h.Seq > f.View.SeenSeq, "nobody set the task back")
			need(h.OID == f.View.Seen || f.View.Seen == "" || h.Seq > f.View.SeenSeq+1 || h.Parent == f.View.Seen, "the history is one")
		}
		ended := h.State == "completed" || h.State == "blocked" || h.State == "waiting"
		need(!ended || resumed, "an end is an end")
		need(h.State != "completed" || !f.HeadCounts(), "what is completed is not done again")
	}
	if d.Action == kernel.ActionClaim {
		need(len(f.Input)+len(f.Policy)+len(f.Environment) == 0 && f.Current == f.Approved, "a claim breaks no rule")
		need(h.State != kernel.HeadWorking, "a lease is broken before it is claimed")
		need(d.Attempt >= 1, "attempts count from one")
		need(resumed || h.State != "retry_pending" || h.Approval != f.Approved || h.Attempt < f.Budgets.Attempts, "no attempt beyond the budget")
		need(resumed || h.NotBefore <= f.Now, "nothing before its time")
	}
	if d.Action == kernel.ActionTakeOver {
		need(h.State == kernel.HeadWorking && h.LeaseExpired && d.Interruptions == h.Interruptions+1, "a takeover counts one interruption")
	}
	need(!slices.Contains([]kernel.Action{kernel.ActionHeartbeat, kernel.ActionDispatch, kernel.ActionChecks, kernel.ActionJudge, kernel.ActionRelease, kernel.ActionAbandon}, d.Action),
		"without a run nothing of a run is done")
	return out
}

// TestK8_BlockedAfterExactlyN drives the decisions alone through failures with
// interruptions strewn in between: blocked after exactly N counted attempts.
func TestK8_BlockedAfterExactlyN(t *testing.T) {
	for _, n := range []int64{1, 3} {
		rapid.Check(t, func(t *rapid.T) {
			f := fresh()
			f.Budgets.Attempts, f.Budgets.Interruptions = n, 1000
			failures := int64(0)
			for step := 0; ; step++ {
				d, err := kernel.Decide(f)
				if err != nil || step > 1000 {
					t.Fatalf("never blocked: %v %+v", err, f)
				}
				interrupted := rapid.IntRange(0, 2).Draw(t, "interrupted") == 0
				if d.Standing == kernel.StandFinal {
					break
				}
				failures += follow(&f, d, interrupted)
			}
			if f.Head.State != string(kernel.TaskBlocked) || failures != n {
				t.Fatalf("%s after %d counted attempts, want blocked after %d", f.Head.State, failures, n)
			}
		})
	}
}

// follow does what a decision says, with a builder that always fails, and
// returns the number of attempts that it counted.
func follow(f *kernel.Facts, d kernel.Decision, interrupted bool) int64 {
	f.Now++
	put := func(state string) {
		f.View.Seen, f.View.SeenSeq = head1, f.View.SeenSeq+1
		f.Head = kernel.HeadFacts{OID: head1, State: state, Trust: kernel.TrustOwn, Binding: kernel.BindHere, Seq: f.View.SeenSeq, Approval: f.Approved, RunID: ourRun,
			Attempt: d.Attempt, Interruptions: d.Interruptions, NotBefore: d.NotBefore}
	}
	switch d.Action {
	case kernel.ActionClaim:
		put(kernel.HeadWorking)
		f.Run = &kernel.RunFacts{RunID: ourRun, LeaseOID: head1, Attempt: d.Attempt, Phase: kernel.PhaseBuilt, Build: breaks(kernel.CodeExecutionExit)}
		if interrupted { // the process is gone, and its lease ends
			f.Run, f.Head.LeaseExpired = nil, true
		}
	case kernel.ActionTakeOver, kernel.ActionRelease:
		put(kernel.HeadStalled)
		f.Run = nil
	case kernel.ActionJudge:
		if interrupted { // a shutdown before the verdict is pushed: no attempt
			f.Request = kernel.RequestShutdown
			return 0
		}
		f.Run.Phase, f.Run.Judgement = kernel.PhaseJudged, &kernel.Judgement{State: d.State, NotBefore: d.NotBefore, Codes: d.Codes}
	case kernel.ActionResult:
		put(string(d.State))
		f.Run = nil
		return 1
	case kernel.ActionNone:
		f.Now = max(f.Now, d.Wake)
	}
	f.Request = kernel.RequestTick
	return 0
}

// TestK8_InterruptionsAreCapped: a task that is only ever interrupted is blocked
// after one more than its budget, and no attempt is spent.
func TestK8_InterruptionsAreCapped(t *testing.T) {
	f := fresh()
	f.Budgets.Interruptions = 4
	taken := 0
	for range 100 {
		d := decide(t, f)
		if d.Standing == kernel.StandFinal {
			break
		}
		if d.Action == kernel.ActionTakeOver {
			taken++
		}
		blocked := d.Action == kernel.ActionResult
		if blocked && !slices.Equal(d.Codes, codes(kernel.CodeEscalationBlocked, kernel.CodeInterruptionsSpent)) {
			t.Errorf("codes %v", d.Codes)
		}
		follow(&f, d, true)
	}
	if f.Head.State != "blocked" || taken != 5 || f.Head.Attempt != 1 {
		t.Errorf("%s after %d takeovers at attempt %d, want blocked after 5 at 1", f.Head.State, taken, f.Head.Attempt)
	}
}

// TestRetryAt: the n-th retry is due after min(n × backoff, cap), and nothing
// overflows.
func TestRetryAt(t *testing.T) {
	for _, tt := range []struct{ failed, n, backoff, longest, want int64 }{
		{now, 1, backoff, longest, now + backoff},
		{now, 9, backoff, longest, now + 9*backoff},
		{now, 10, backoff, longest, now + longest},
		{now, 11, backoff, longest, now + longest},
		{now, 0, backoff, longest, now},
		{now, -1, backoff, longest, now},
		{now, math.MinInt64, backoff, longest, now},
		{now, 1, 0, longest, now},
		{now, 1, -1, longest, now},
		{now, math.MaxInt64, backoff, longest, now + longest},
		{now, math.MaxInt64, math.MaxInt64, longest, now + longest},
		{now, 2, math.MaxInt64, math.MaxInt64, maxInt},
		{math.MaxInt64, 1, backoff, longest, maxInt},
		{maxInt - 1, 1, 1, 1, maxInt},
		{maxInt - 1, 1, 2, 2, maxInt},
		{now, 1, backoff, -1, now},
	} {
		if got := kernel.RetryAt(tt.failed, tt.n, tt.backoff, tt.longest); got != tt.want {
			t.Errorf("RetryAt(%d, %d, %d, %d) = %d, want %d", tt.failed, tt.n, tt.backoff, tt.longest, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		any64 := func(name string) int64 { return rapid.Int64Range(0, maxInt).Draw(t, name) }
		failed, n, b, most := any64("failed"), any64("n"), any64("backoff"), any64("cap")
		got := kernel.RetryAt(failed, n, b, most)
		if got < failed || got-failed > most || kernel.RetryAt(failed, n+1, b, most) < got {
			t.Fatalf("RetryAt(%d, %d, %d, %d) = %d", failed, n, b, most, got)
		}
	})
}

// TestTaskStateOf: the words at HEAD and the task's states (T33).
func TestTaskStateOf(t *testing.T) {
	want := map[string]kernel.TaskState{
		"open": kernel.TaskOpen, "working": kernel.TaskClaimed, "stalled": kernel.TaskOpen, "waiting": kernel.TaskWaiting,
		"completed": kernel.TaskCompleted, "retry_pending": kernel.TaskRetryPending, "blocked": kernel.TaskBlocked,
	}
	for _, word := range append(states, "claimed", "IDLE", "Open", strings.ToUpper("working")) {
		got, ok := kernel.TaskStateOf(word)
		if w, known := want[word]; got != w || ok != known {
			t.Errorf("%q: %q %v", word, got, ok)
		}
	}
	for _, s := range []kernel.TaskState{kernel.TaskOpen, kernel.TaskClaimed, kernel.TaskWaiting, kernel.TaskNone} {
		if s.Final() {
			t.Errorf("%q is no task_final_state", s)
		}
	}
	for _, s := range finalState {
		if !s.Final() {
			t.Errorf("%q is a task_final_state", s)
		}
	}
}
