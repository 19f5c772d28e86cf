package kernel_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
)

// TestDecide_Run is the decision for a run that this process holds.
func TestDecide_Run(t *testing.T) {
	act := func(a kernel.Action, s kernel.TaskState, c ...kernel.Code) verdict {
		v := acting(a, s, 1, 0)
		v.codes = c
		return v
	}
	abandon := func(c kernel.Code) verdict {
		v := act(kernel.ActionAbandon, kernel.TaskClaimed, c)
		v.standing = kernel.StandAbandoned
		return v
	}
	release := func(c ...kernel.Code) verdict {
		v := act(kernel.ActionRelease, kernel.TaskOpen, c...)
		v.interruptions = 1
		return v
	}
	wait := func(c ...kernel.Code) verdict {
		v := act(kernel.ActionWait, kernel.TaskWaiting, c...)
		v.waiting = kernel.WaitApproval
		return v
	}
	retry := func(c ...kernel.Code) verdict {
		v := act(kernel.ActionJudge, kernel.TaskRetryPending, c...)
		v.notBefore = now + backoff
		return v
	}
	idle := verdict{verdict: kernel.Allow, standing: kernel.StandRunning, action: kernel.ActionNone, state: kernel.TaskClaimed, attempt: 1}
	set := func(p kernel.Phase, change func(*kernel.Facts)) kernel.Facts { return with(running(p), change) }
	tests := []struct {
		name  string
		facts kernel.Facts
		want  verdict
	}{
		{"claimed: dispatch", running(kernel.PhaseClaimed), act(kernel.ActionDispatch, kernel.TaskClaimed)},
		{"dispatch not admissible", set(kernel.PhaseClaimed, func(f *kernel.Facts) { f.Run.Dispatch = breaks(kernel.CodeGovernanceMismatch) }),
			release(kernel.CodeDispatchInvalid, kernel.CodeGovernanceMismatch)},
		{"building", running(kernel.PhaseBuilding), idle},
		{"built: seal", running(kernel.PhaseBuilt), act(kernel.ActionSeal, kernel.TaskClaimed)},
		{"sealed: check", running(kernel.PhaseSealed), act(kernel.ActionChecks, kernel.TaskClaimed)},
		{"built, no checks: judge", set(kernel.PhaseBuilt, func(f *kernel.Facts) { f.Checks = 0 }), act(kernel.ActionJudge, kernel.TaskCompleted)},
		{"checking", running(kernel.PhaseChecking), idle},
		{"checked: judge", running(kernel.PhaseChecked), act(kernel.ActionJudge, kernel.TaskCompleted)},
		{"judged: deliver", running(kernel.PhaseJudged), act(kernel.ActionResult, kernel.TaskCompleted)},

		{"build failed", set(kernel.PhaseBuilt, func(f *kernel.Facts) { f.Run.Build = breaks(kernel.CodeTimeout) }),
			retry(kernel.CodeVerificationFailed, kernel.CodeTimeout)},
		{"scope violated", set(kernel.PhaseBuilt, func(f *kernel.Facts) { f.Run.Scope = breaks(kernel.CodeScopeOutside) }),
			retry(kernel.CodeVerificationFailed, kernel.CodeScopeViolation, kernel.CodeScopeOutside)},
		{"commit message", set(kernel.PhaseBuilt, func(f *kernel.Facts) { f.Run.Message = breaks(kernel.CodeMessageInvalid) }),
			retry(kernel.CodeVerificationFailed, kernel.CodeMessageInvalid)},
		{"check failed", set(kernel.PhaseChecked, func(f *kernel.Facts) { f.Run.CheckFails = breaks(kernel.CodeCheckFailed) }),
			retry(kernel.CodeVerificationFailed, kernel.CodeCheckFailed)},
		{"all at once", set(kernel.PhaseChecked, func(f *kernel.Facts) {
			f.Run.Build, f.Run.Scope = breaks(kernel.CodeResultInvalid), breaks(kernel.CodePathUnsafe)
			f.Run.Message, f.Run.CheckFails = breaks(kernel.CodeMessageInvalid), breaks(kernel.CodeCheckFailed)
		}), retry(kernel.CodeVerificationFailed, kernel.CodeScopeViolation, kernel.CodeResultInvalid,
			kernel.CodeCheckFailed, kernel.CodeMessageInvalid, kernel.CodePathUnsafe)},
		{"second attempt: longer", set(kernel.PhaseBuilt, func(f *kernel.Facts) {
			f.Run.Attempt, f.Run.Build = 2, breaks(kernel.CodeNoOutput)
		}), func() verdict {
			v := retry(kernel.CodeVerificationFailed, kernel.CodeNoOutput)
			v.attempt, v.notBefore = 2, now+2*backoff
			return v
		}()},
		{"last attempt: blocked", set(kernel.PhaseBuilt, func(f *kernel.Facts) {
			f.Run.Attempt, f.Run.Build = 3, breaks(kernel.CodeNoOutput)
		}), func() verdict {
			v := act(kernel.ActionJudge, kernel.TaskBlocked, kernel.CodeEscalationBlocked, kernel.CodeVerificationFailed, kernel.CodeNoOutput)
			v.attempt = 3
			return v
		}()},
		{"not the builder's failure", set(kernel.PhaseBuilt, func(f *kernel.Facts) {
			f.Run.Attempt, f.Run.Build = 3, breaks(kernel.CodeTaskInterrupted)
		}), func() verdict { v := release(kernel.CodeTaskInterrupted); v.attempt = 3; return v }()},
		{"the sandbox is gone", set(kernel.PhaseBuilt, func(f *kernel.Facts) { f.Run.Build = breaks(kernel.CodeSandboxUnavailable) }),
			func() verdict {
				v := release(kernel.CodeSandboxUnavailable)
				v.interruptions, v.notBefore = 0, now+60_000
				return v
			}()},
		{"a later interruption backs off", set(kernel.PhaseBuilt, func(f *kernel.Facts) {
			f.Head.Interruptions, f.Run.Build = 2, breaks(kernel.CodeTaskInterrupted)
		}), func() verdict {
			v := release(kernel.CodeTaskInterrupted)
			v.interruptions, v.notBefore = 3, now+2*backoff
			return v
		}()},

		{"HEAD moved", set(kernel.PhaseChecked, func(f *kernel.Facts) { f.Head.OID, f.Head.State = head2, "stalled" }), abandon(kernel.CodeLeaseLost)},
		{"the ref was deleted", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.Head = kernel.HeadFacts{} }), abandon(kernel.CodeLeaseLost)},
		{"somebody pushed a commit", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.Head.OID, f.Head.State = head2, "" }), abandon(kernel.CodeLockViolation)},
		{"the fence", set(kernel.PhaseChecking, func(f *kernel.Facts) { f.Run.Overdue = true }), abandon(kernel.CodeLeaseLost)},
		{"the fence, and the work is judged", set(kernel.PhaseJudged, func(f *kernel.Facts) { f.Run.Overdue, f.Run.RenewDue = true, true }), act(kernel.ActionResult, kernel.TaskCompleted)},
		{"halted", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.View.Halted = true }), func() verdict {
			v := abandon(kernel.CodeTaskHalted)
			v.standing = kernel.StandHalted
			return v
		}()},
		{"the ledger can't be trusted", set(kernel.PhaseJudged, func(f *kernel.Facts) { f.Policy = breaks(kernel.CodeLedgerCorrupt) }),
			verdict{verdict: kernel.Halt, standing: kernel.StandHalted, action: kernel.ActionNone, state: kernel.TaskClaimed, attempt: 1, codes: codes(kernel.CodeLedgerCorrupt)}},

		{"stop", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.Request = kernel.RequestStop }), wait(kernel.CodeTaskStopped)},
		{"shutdown", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.Request = kernel.RequestShutdown }), release(kernel.CodeTaskInterrupted)},
		{"given back", set(kernel.PhaseClaimed, func(f *kernel.Facts) { f.Request = kernel.RequestGiveBack }), release(kernel.CodeForgeUnreachable)},
		{"edited during the run", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.Current = digest("d") }), wait(kernel.CodeInstructionChanged)},
		{"edited before the dispatch", set(kernel.PhaseClaimed, func(f *kernel.Facts) { f.Current = digest("d") }), wait(kernel.CodeDispatchInvalid, kernel.CodeInstructionChanged)},
		{"edited after the result: delivered", set(kernel.PhaseJudged, func(f *kernel.Facts) { f.Current = digest("d") }), act(kernel.ActionResult, kernel.TaskCompleted)},
		{"renew", set(kernel.PhaseBuilding, func(f *kernel.Facts) { f.Run.RenewDue = true }), act(kernel.ActionHeartbeat, kernel.TaskClaimed)},

		{"somebody made the change branch", set(kernel.PhaseJudged, func(f *kernel.Facts) { f.Run.Refused = breaks(kernel.CodeBranchTaken) }), func() verdict {
			v := act(kernel.ActionWait, kernel.TaskWaiting, kernel.CodeBranchTaken)
			v.waiting, v.notBefore = kernel.WaitRule, now+kernel.RuleLeft
			return v
		}()},
		{"judged, and the verdict is missing: nothing", set(kernel.PhaseJudged, func(f *kernel.Facts) { f.Run.Judgement = nil }), idle},
		{"rejected: deliver with the reasons", set(kernel.PhaseJudged, func(f *kernel.Facts) {
			f.Run.Build, f.Run.Judgement.State, f.Run.Judgement.NotBefore = breaks(kernel.CodeTimeout), kernel.TaskRetryPending, now+backoff
			f.Run.Judgement.Codes = codes(kernel.CodeVerificationFailed, kernel.CodeTimeout)
		}), func() verdict {
			v := act(kernel.ActionResult, kernel.TaskRetryPending, kernel.CodeVerificationFailed, kernel.CodeTimeout)
			v.notBefore = now + backoff
			return v
		}()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { compare(t, decide(t, tt.facts), tt.want) })
	}
}

// TestDecide_RunPrecedence takes one reason after the other away.
func TestDecide_RunPrecedence(t *testing.T) {
	f := running(kernel.PhaseBuilt)
	f.Policy = breaks(kernel.CodeLedgerFork)
	f.View.Halted = true
	f.Head.OID, f.Run.Overdue = head2, true
	f.Request, f.Current, f.Run.RenewDue = kernel.RequestStop, digest("d"), true
	f.Run.Build = breaks(kernel.CodeTimeout)
	steps := []struct {
		action kernel.Action
		code   kernel.Code
		mend   func()
	}{
		{kernel.ActionNone, kernel.CodeLedgerFork, func() { f.Policy = nil }},
		{kernel.ActionAbandon, kernel.CodeTaskHalted, func() { f.View.Halted = false }},
		{kernel.ActionAbandon, kernel.CodeLeaseLost, func() { f.Head.OID = head1 }},
		{kernel.ActionAbandon, kernel.CodeLeaseLost, func() { f.Run.Overdue = false }},
		{kernel.ActionWait, kernel.CodeTaskStopped, func() { f.Request = kernel.RequestShutdown }},
		{kernel.ActionRelease, kernel.CodeTaskInterrupted, func() { f.Request = kernel.RequestTick }},
		{kernel.ActionWait, kernel.CodeInstructionChanged, func() { f.Current = digest("a") }},
		{kernel.ActionHeartbeat, "", func() { f.Run.RenewDue = false }},
		{kernel.ActionJudge, kernel.CodeTimeout, func() { f.Run.Build = nil }},
		{kernel.ActionSeal, "", func() {}},
	}
	for _, s := range steps {
		d := decide(t, f)
		if d.Action != s.action || (s.code != "" && !slices.Contains(d.Codes, s.code)) {
			t.Errorf("want %s %s, got %s %v", s.action, s.code, d.Action, d.Codes)
		}
		s.mend()
	}
}

// TestK8_CodesDecideWhatCounts: for each code of the table a run that fails with
// it alone ends an attempt or gives the lease back, as the table says. What the host
// couldn't do counts nothing, also beside a failure of the builder, and waits a minute.
func TestK8_CodesDecideWhatCounts(t *testing.T) {
	for _, info := range kernel.Codes() {
		f := running(kernel.PhaseBuilt)
		f.Run.Build = breaks(info.Code)
		d := decide(t, f)
		interrupted := info.Counts != kernel.CountsAttempt
		failed := kernel.TaskRetryPending
		if info.Code == kernel.CodePrepareRefused {
			failed = kernel.TaskBlocked // see TestDecide_DependenciesOfAPerson
		}
		counts := int64(0)
		if info.Counts == kernel.CountsInterruption {
			counts = 1
		}
		switch {
		case info.Code.Lacks():
			if d.Action != kernel.ActionWait || d.WaitingFor != kernel.WaitEnvironment || d.Interruptions != counts {
				t.Errorf("%s: %s for %q, %d interruptions", info.Code, d.Action, d.WaitingFor, d.Interruptions)
			}
		case interrupted && (d.Action != kernel.ActionRelease || d.Interruptions != counts || d.State != kernel.TaskOpen || (counts == 0) != (d.NotBefore > f.Now)):
			t.Errorf("%s is no attempt, and counts %d: %s %s, %d interruptions, not before %d", info.Code, counts, d.Action, d.State, d.Interruptions, d.NotBefore)
		case !interrupted && (d.Action != kernel.ActionJudge || d.State != failed || d.Interruptions != 0):
			t.Errorf("%s is an attempt: %s %s", info.Code, d.Action, d.State)
		}
	}
	last := running(kernel.PhaseBuilt)
	last.Now, last.Run.Build = maxInt, breaks(kernel.CodeEnvDisk)
	if d := decide(t, last); d.NotBefore != maxInt {
		t.Errorf("at the end of time: not before %d", d.NotBefore)
	}
	for codes, want := range map[[2]kernel.Code]int64{
		{kernel.CodeExecutionExit, kernel.CodeEnvDisk}:   0,
		{kernel.CodeEnvDisk, kernel.CodeTaskInterrupted}: 1,
	} {
		f := running(kernel.PhaseBuilt)
		f.Run.Build = append(breaks(codes[0]), breaks(codes[1])...)
		if d := decide(t, f); d.Action != kernel.ActionRelease || d.Interruptions != want {
			t.Errorf("%v: %s, %d interruptions", codes, d.Action, d.Interruptions)
		}
	}
}

// TestDecide_DependenciesOfAPerson: a change of dependencies that can't be prepared for
// safely waits for a person at once, instead of paying a builder for each attempt. What the
// host couldn't do comes first.
func TestDecide_DependenciesOfAPerson(t *testing.T) {
	f := running(kernel.PhaseChecked)
	f.Run.CheckFails = breaks(kernel.CodePrepareRefused)
	d := decide(t, f)
	if d.Action != kernel.ActionJudge || d.State != kernel.TaskBlocked || d.NotBefore != 0 ||
		!slices.Equal(d.Codes, codes(kernel.CodeEscalationBlocked, kernel.CodeVerificationFailed, kernel.CodePrepareRefused)) {
		t.Errorf("%s %s %v, not before %d", d.Action, d.State, d.Codes, d.NotBefore)
	}
	f.Run.CheckFails = append(f.Run.CheckFails, breaks(kernel.CodeEnvDisk)...)
	if d := decide(t, f); d.Action != kernel.ActionRelease {
		t.Errorf("beside a full disk: %s %s", d.Action, d.State)
	}
}

// TestNewRefusal: a refusal names every code, and for each violation what would
// have to change, in the table's fixed words.
func TestNewRefusal(t *testing.T) {
	f := at("open")
	f.Policy, f.Environment = breaks(kernel.CodeAuthority), breaks(kernel.CodeEnvBuilder)
	d := decide(t, f)
	r := kernel.NewRefusal(f.World, f.Task, d, nil)
	want := kernel.Refusal{Kind: "refusal", World: f.World, Task: 7, Codes: codes(kernel.CodeAuthority, kernel.CodeEnvBuilder),
		Required: []kernel.Requirement{
			{Code: kernel.CodeAuthority, Subject: "s", Required: kernel.CodeAuthority.Info().Remedy},
			{Code: kernel.CodeEnvBuilder, Subject: "s", Required: kernel.CodeEnvBuilder.Info().Remedy},
		}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}
