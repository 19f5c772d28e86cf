package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
)

// verdict is the last judgement of a run and what it rests on.
type verdict struct {
	seq      int64
	decision kernel.Decision
	facts    kernel.Facts
}

// lastVerdict finds the judgement that HEAD must be the result of.
func (v *verifier) lastVerdict(f *findings) *verdict {
	var out *verdict
	var seen *record
	for _, r := range v.records {
		if r.Kind == kernel.KindObservation {
			seen = &r
		}
		if r.Kind != kernel.KindDecision || seen == nil {
			continue
		}
		d, err := decoded[kernel.Decision](r.Body)
		facts, err2 := decoded[kernel.Facts](seen.Body)
		if err == nil && err2 == nil && d.Action == kernel.ActionJudge && facts.Run != nil {
			out = &verdict{r.Seq, *d, *facts}
		}
	}
	if out == nil {
		f.file(FileRecords, "There is no verdict on the run.")
	}
	return out
}

// runsDiff is the diff record of the run, if it can be read.
func (v *verifier) runsDiff() *kernel.Diff {
	list := v.of(kernel.KindDiff)
	if len(list) == 0 {
		return nil
	}
	d, _ := decoded[kernel.Diff](list[len(list)-1].Body)
	return d
}

// checkResult holds HEAD against the verdict, and the verdict's facts against
// the proposals that they were taken from. A completed run is judged again.
func (v *verifier) checkResult(f *findings) string {
	j := v.lastVerdict(f)
	if j == nil || v.seed == nil {
		return ""
	}
	v.checkVerdict(f, j)
	v.checkProposals(f, j)
	if v.rep.State == kernel.TaskCompleted {
		v.checkAccepted(f)
	}
	return fmt.Sprintf("The run was judged %s, and its records bear that out.", v.rep.State)
}

// checkVerdict: HEAD says what was judged.
func (v *verifier) checkVerdict(f *findings, j *verdict) {
	d := j.decision
	if d.Verdict != kernel.Allow || d.State != v.rep.State {
		f.record(j.seq, "It judges the run %s, HEAD says %s.", d.State, v.rep.State)
	}
	words := make([]string, len(d.Codes))
	for i, c := range d.Codes {
		words[i] = string(c)
	}
	v.needSame(f, j.seq, kernel.TrailerCodes, strings.Join(words, " "))
	notBefore := ""
	if d.NotBefore > 0 {
		notBefore = fmt.Sprint((d.NotBefore + 999) / 1000)
	}
	v.needSame(f, j.seq, kernel.TrailerNotBefore, notBefore)
	v.needSame(f, j.seq, kernel.TrailerAttempt, fmt.Sprint(j.facts.Run.Attempt))
	v.needSame(f, j.seq, kernel.TrailerInterruptions, fmt.Sprint(j.facts.Head.Interruptions))
	if v.claim != nil && j.facts.Run.RunID != v.claim.RunID {
		f.record(j.seq, "It judges run %s, claimed was run %s.", j.facts.Run.RunID, v.claim.RunID)
	}
	if j.facts.Approved != v.seed.Approval.Digest || j.facts.Governance != v.seed.Pins.Governance ||
		j.facts.Budgets != v.seed.Budgets || j.facts.Checks != int64(len(v.seed.Checks)) {
		f.record(j.seq, "It rests on another approval, contract, budget or number of checks than the seed pack's.")
	}
}

func (v *verifier) needSame(f *findings, seq int64, key, want string) {
	if got := v.said(key); got != want {
		f.record(seq, "It gives %s %q, HEAD says %q.", key, want, got)
	}
}

// checkProposals: the facts of the verdict are those of the recorded proposals.
func (v *verifier) checkProposals(f *findings, j *verdict) {
	run := j.facts.Run
	result := one[kernel.BuilderResult](v, f, kernel.KindBuilderResult)
	diff := one[kernel.Diff](v, f, kernel.KindDiff)
	if result == nil || diff == nil {
		return
	}
	if result.body.Run != run.RunID || run.Exit == nil || *run.Exit != result.body.Exit {
		f.record(result.seq, "The verdict rests on another builder's end.")
	}
	if diff.body.Run != run.RunID || diff.body.Base != v.seed.Pins.BaseCommit {
		f.record(diff.seq, "The diff is of another run or base.")
	}
	if int64(len(diff.body.Changes)) != run.Changes || !equal(diff.body.Violations, run.Scope) {
		f.record(diff.seq, "The verdict rests on another diff.")
	}
	if again := v.rematch(diff.body); len(diff.body.Violations) == 0 && len(again) > 0 {
		f.record(diff.seq, "Matched again, %s: %s", again[0].Subject, again[0].Detail)
	}
	for _, r := range v.of(kernel.KindRunResult) {
		if r.Seq > j.seq {
			f.record(r.Seq, "The checks ended after the verdict.")
		}
	}
}

// checkAccepted judges an accepted run again: everything that a completion owes.
func (v *verifier) checkAccepted(f *findings) {
	for _, r := range v.of(kernel.KindBuilderResult) {
		b := read[kernel.BuilderResult](f, r)
		if b == nil {
			continue
		}
		e := b.body.Exit
		if b.body.Result == nil || b.body.Result.Status != kernel.ResultSuccess || len(b.body.Faults) > 0 ||
			e.Cause != kernel.CauseExited || e.Code != 0 || e.Signal != "" {
			f.record(r.Seq, "The builder did not succeed.")
		}
	}
	p := v.of(kernel.KindPlan)
	if len(p) == 0 || v.diff == nil {
		return // said elsewhere
	}
	planned := read[plan.Plan](f, p[0])
	if planned == nil {
		return
	}
	run, seq := kernel.RunResult{Run: v.diff.Run}, v.of(kernel.KindDiff)[0].Seq
	if list := v.of(kernel.KindRunResult); len(list) > 0 {
		if b := read[kernel.RunResult](f, list[len(list)-1]); b != nil {
			run, seq = b.body, b.seq
		}
	}
	for _, x := range plan.VerifyStep(planned.body, kernel.SingleStep, *v.diff, run) {
		f.record(seq, "%s: %s", x.Subject, x.Detail)
	}
	v.checkRuns(f, run, seq)
}

// checkRuns: every check ran as often as it had to, in order, on the very tree
// that is delivered.
func (v *verifier) checkRuns(f *findings, run kernel.RunResult, seq int64) {
	if len(v.seed.Checks) == 0 {
		return
	}
	same := slices.EqualFunc(v.seed.Checks, run.Checks, func(want kernel.Check, got kernel.CheckResult) bool {
		return want.Name == got.Name && got.Runs == max(want.Repeat, 1)
	})
	if !same {
		f.record(seq, "The checks that ran are not those of the seed pack, as often as it wants.")
	}
	if v.head.Base == nil {
		return // said by the check of the change
	}
	if tree, err := v.changedTree(); err != nil || string(tree) != run.Tree {
		f.record(seq, "The checks ran on the tree %s, the recorded changes make %s.", run.Tree, tree)
	}
}

// rematch holds each change against the allowed files, the protected paths and
// the budgets again, by the words of contract and seed pack alone.
func (v *verifier) rematch(d kernel.Diff) []kernel.Violation {
	var out []kernel.Violation
	bad := func(code kernel.Code, path, detail string) {
		out = append(out, kernel.Violation{Code: code, Subject: path, Detail: detail})
	}
	allowed, faults := scope.ParseGlobs(v.seed.Spec.AllowedFiles)
	guard, more := scope.NewProtection(v.rules.Paths.Protected, v.rules.Paths.Unprotect)
	if v.rulesErr != nil || len(faults)+len(more) > 0 {
		bad(kernel.CodeGovernanceInvalid, FileContract, "The patterns can't be read.")
		return out
	}
	var size int64
	for _, ch := range d.Changes {
		size += ch.Size
		if !allowed.Match(ch.Path) {
			bad(kernel.CodeScopeOutside, ch.Path, "No allowed pattern covers it.")
		}
		if guard.Match(ch.Path) {
			bad(kernel.CodeProtectedPath, ch.Path, "It is protected.")
		}
		if why := scope.CheckPath(ch.Path); ch.Op == kernel.OpAdd && why != "" {
			bad(kernel.CodePathUnsafe, ch.Path, why)
		}
	}
	if int64(len(d.Changes)) > v.seed.Budgets.Files || size > v.seed.Budgets.Bytes {
		bad(kernel.CodeScopeSize, "budgets", "The change is over its budget.")
	}
	return kernel.SortViolations(out)
}

// checkReport compares the report with its record, with HEAD, and its two forms
// with each other.
func (v *verifier) checkReport(f *findings) string {
	data := v.pack[FileReport]
	r, err := decoded[report.Report](data)
	if err != nil {
		f.file(FileReport, "The report can't be read: %v.", err)
		return ""
	}
	if r.V != report.Version {
		f.add(kernel.CodeReplayVersion, FileReport, NoSeq, "The report has version %d; this program knows %d.", r.V, report.Version)
		return ""
	}
	if err := r.Validate(); err != nil {
		f.file(FileReport, "It says what can't be: %v.", err)
	}
	if r.TaskID != v.head.Task || v.seed != nil && r.World != v.seed.World {
		f.file(FileReport, "It is of task %d in %q.", r.TaskID, r.World)
	}
	if v.ofRun() {
		v.checkRunReport(f, *r)
	}
	switch same := v.event.Body == string(v.pack[FileMarkdown]); {
	case same && r.Recorded() == v.event.Body:
	case same && r.Wordless():
		f.add(kernel.CodeReplayVersion, FileMarkdown, NoSeq, "The report was made before reports had the words of their codes: its text can't be told from it.")
	default:
		f.file(FileMarkdown, "It is not the report's text.")
	}
	return fmt.Sprintf("The report %s says what was recorded, in both forms.", canon.Sum(data))
}

func (v *verifier) checkRunReport(f *findings, r report.Report) {
	if !v.redacted() {
		list := v.of(kernel.KindReport)
		if len(list) == 0 || !bytes.Equal(list[len(list)-1].Body, v.pack[FileReport]) {
			f.file(FileReport, "It is not the report that was recorded.")
		}
	}
	if r.FinalState != v.rep.State || r.Verified != (v.rep.State == kernel.TaskCompleted) {
		f.file(FileReport, "It says %q, HEAD %s.", r.FinalState, v.rep.State)
	}
	v.needTrailer(f, FileReport, kernel.TrailerGovernance, string(r.GovernanceHash))
	v.needTrailer(f, FileReport, kernel.TrailerDispatch, string(r.DispatchHash))
	v.needTrailer(f, FileReport, kernel.TrailerChange, r.ChangeCommit)
	v.needTrailer(f, FileReport, kernel.TrailerBase, r.BaseCommit)
	if v.claim != nil && r.RunID != v.claim.RunID {
		f.file(FileReport, "It is of run %s, claimed was run %s.", r.RunID, v.claim.RunID)
	}
	if v.diff == nil {
		return
	}
	paths := make([]string, 0, len(v.diff.Changes))
	for _, c := range v.diff.Changes {
		paths = append(paths, c.Path)
	}
	slices.Sort(paths)
	if !slices.Equal(paths, r.ChangedFiles) {
		f.file(FileReport, "It lists other changed files than the diff.")
	}
}

// checkRetry: the next attempt is told what was recorded of this one.
func (v *verifier) checkRetry(f *findings) string {
	r, err := decoded[kernel.Retry](v.pack[FileRetry])
	j := v.lastVerdict(f)
	switch {
	case err != nil:
		f.file(FileRetry, "It can't be read: %v.", err)
		return ""
	case j == nil:
		return ""
	case v.rep.State != kernel.TaskRetryPending:
		f.file(FileRetry, "The task is %s; there is no next attempt.", v.rep.State)
	case r.Attempt != j.facts.Run.Attempt || r.Run != j.facts.Run.RunID:
		f.file(FileRetry, "It is of attempt %d, run %s.", r.Attempt, r.Run)
	case !equal(r.Violations, j.decision.Violations):
		f.file(FileRetry, "Its violations are not those of the verdict.")
	case r.Source != canon.Sum(v.pack[FileReport]):
		f.file(FileRetry, "It was taken from another report.")
	case !v.saidByChecks(r.Tail):
		f.file(FileRetry, "Its tail is not the output of the failed checks.")
	}
	return "What the next attempt is told is what was recorded of this one."
}

// saidByChecks reports whether a tail is the end of what the failed checks
// gave. The tail may have been cut at its front, which a first line of "…" says.
func (v *verifier) saidByChecks(tail string) bool {
	var parts []string
	for _, r := range v.of(kernel.KindRunResult) {
		run, err := decoded[kernel.RunResult](r.Body)
		if err != nil {
			return false
		}
		for _, c := range run.Checks {
			if !c.Passed {
				parts = append(parts, c.Name+":\n"+c.Output.Tail)
			}
		}
	}
	all := strings.Join(parts, "\n")
	cut, was := strings.CutPrefix(tail, "…\n")
	return all == tail || was && strings.HasSuffix(all, cut)
}
