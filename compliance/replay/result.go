package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
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

// checkResult holds HEAD against the verdict, and the verdict's facts against
// the proposals that they were taken from. A completed run is judged again.
func (v *verifier) checkResult(f *findings) string {
	j := v.lastVerdict(f)
	if j == nil || v.seed == nil {
		return ""
	}
	v.checkSealed(f)
	since := v.checkSeenActs(f)
	v.checkVerdict(f, j)
	v.checkProposals(f, j)
	v.checkSaid(f)
	if v.accepted() {
		v.checkAccepted(f)
		since = v.checkAcceptance(f, j) + since
	} else if by := v.said(kernel.TrailerAccepts); by != "" {
		f.file("", "HEAD says that guarded paths were accepted by the act %q, and nothing was delivered.", by)
	}
	return fmt.Sprintf("The run was judged %s, and its records bear that out.%s", v.state, since)
}

// checkSeenActs: the run was claimed on the act that was seen then, and what HEAD rests on
// was seen, but for what came while the work waited: the evidence was taken before that.
func (v *verifier) checkSeenActs(f *findings) (since string) {
	var seen string
	acts := map[string]bool{}
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindObservation:
			if facts, err := decoded[kernel.Facts](r.Body); err == nil {
				seen, acts[facts.Act] = facts.Act, true
			}
		case kernel.KindDecision:
			d, err := decoded[kernel.Decision](r.Body)
			if err != nil || d.Action != kernel.ActionClaim || v.claim == nil {
				continue
			}
			if of := trailer(*v.claim, kernel.TrailerAct); of != seen {
				f.record(r.Seq, "It claims on the act %q, the claim names %q.", seen, of)
			}
		}
	}
	says := v.said(kernel.TrailerAct)
	switch {
	case acts[says]:
	case len(v.head.Waits) > 0:
		return fmt.Sprintf(" That a person asked for its delivery while it waited (%s) is the instance's word.", says)
	default:
		f.file(FileRecords, "HEAD rests on the act %q, which no record of the run has.", says)
	}
	return ""
}

// checkVerdict: HEAD says what was judged.
func (v *verifier) checkVerdict(f *findings, j *verdict) {
	d := j.decision
	if d.Verdict != kernel.Allow || d.State != v.state {
		f.record(j.seq, "It judges the run %s, HEAD says %s.", d.State, v.state)
	}
	v.needSame(f, j.seq, kernel.TrailerWaitingFor, d.WaitingFor)
	v.needSame(f, j.seq, kernel.TrailerCodes, joined(d.Codes))
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
	if !v.pins(j.facts) {
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
	if result.body.Run != v.dispatched() || run.Resumes != v.resumes() || run.Exit == nil || *run.Exit != result.body.Exit {
		f.record(result.seq, "The verdict rests on another builder's end.")
	}
	if diff.body.Run != v.dispatched() || diff.body.Base != v.seed.Pins.BaseCommit {
		f.record(diff.seq, "The diff is of another run or base.")
	}
	if int64(len(diff.body.Changes)) != run.Changes || !equal(diff.body.Violations, run.Scope) {
		f.record(diff.seq, "The verdict rests on another diff.")
	}
	if len(diff.body.Merged) > 0 && v.refreshes() == "" {
		f.record(diff.seq, "It says that files were merged, and was applied on no other base.")
	}
	if again := v.rematch(diff.body); len(diff.body.Violations) == 0 && len(again) > 0 {
		f.record(diff.seq, "Matched again, %s: %s", again[0].Subject, again[0].Detail)
	}
	if again := v.rematchWhole(); v.accepted() && len(again) > 0 {
		f.record(diff.seq, "Matched with what it goes on from, %s: %s", again[0].Subject, again[0].Detail)
	}
	for _, r := range v.of(kernel.KindRunResult) {
		if r.Seq > j.seq {
			f.record(r.Seq, "The checks ended after the verdict.")
		}
	}
}

// rematchWhole holds a revision and the work that it goes on from, together, against the
// allowed files, the forbidden paths and the budgets. What is guarded was judged where it
// was changed.
func (v *verifier) rematchWhole() []kernel.Violation {
	if v.seed.Revision == nil {
		return nil
	}
	changes, ok := v.whole()
	if !ok {
		return []kernel.Violation{{Code: kernel.CodeEvidenceInvalid, Subject: FileRecords, Detail: "The diffs of which the work consists can't be read."}}
	}
	return slices.DeleteFunc(v.rematch(kernel.Diff{Changes: changes}), func(x kernel.Violation) bool { return x.Subject == subjectPaths })
}

// checkAcceptance: guarded paths were delivered on the recorded act of somebody with the
// contract's permission who named exactly this work; whether his comment was there, and what
// he could do, is the instance's word.
func (v *verifier) checkAcceptance(f *findings, j *verdict) string {
	by, p := v.said(kernel.TrailerAccepts), j.facts.Paths
	if v.diff == nil || len(v.diff.Guarded) == 0 {
		if p != nil || by != "" {
			f.record(j.seq, "It knows of guarded paths, and the run changed none.")
		}
		return ""
	}
	digest, err := kernel.PathsDigest(v.seed.World, v.head.Task, canon.Digest(v.said(kernel.TrailerDispatch)), *v.diff)
	switch {
	case err != nil || p == nil || p.Digest != digest || p.Needs != v.rules.Paths.Accept || !slices.Equal(p.Paths, v.diff.Guarded):
		f.record(j.seq, "It does not rest on the guarded paths that the run changed: what accepts them is %s.", digest)
	case p.Held():
		f.record(j.seq, "Guarded paths were delivered that nobody accepted who may: %q.", p.Paths)
	case p.Accepted.Act != by:
		f.record(j.seq, "The guarded paths were accepted by the act %q, HEAD names %q.", p.Accepted.Act, by)
	default:
		return fmt.Sprintf(" Its guarded paths were accepted by %s (%s), who named %s.", p.Accepted.Actor, p.Accepted.Permission, digest)
	}
	return ""
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
	diff := *v.diff
	if v.claim != nil && diff.Run == v.resumes() {
		diff.Run = v.claim.RunID // what the earlier run left is this one's to check
	}
	run, seq := kernel.RunResult{Run: diff.Run}, v.of(kernel.KindDiff)[0].Seq
	if list := v.of(kernel.KindRunResult); len(list) > 0 {
		if b := read[kernel.RunResult](f, list[len(list)-1]); b != nil {
			run, seq = b.body, b.seq
		}
	}
	for _, x := range plan.VerifyStep(planned.body, kernel.SingleStep, diff, run) {
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
		ended := got.Exit.Cause == kernel.CauseExited && got.Exit.Signal == ""
		return want.Name == got.Name && got.Runs == max(want.Repeat, 1) && ended
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

// subjectPaths is the subject where other paths are recorded as guarded or free than are.
const subjectPaths = "paths"

// rematch holds each change against the allowed files, the protected paths and
// the budgets again, by the words of contract and seed pack alone.
func (v *verifier) rematch(d kernel.Diff) []kernel.Violation {
	var out []kernel.Violation
	bad := func(code kernel.Code, path, detail string) {
		out = append(out, kernel.Violation{Code: code, Subject: scope.Display(path), Detail: detail})
	}
	allowed, faults := scope.ParseGlobs(v.seed.Spec.AllowedFiles)
	guard, more := scope.NewClasses(v.rules.Paths.Forbidden, v.rules.Paths.Guarded, v.rules.Paths.Unprotect)
	if v.rulesErr != nil || len(faults)+len(more) > 0 {
		bad(kernel.CodeGovernanceInvalid, FileContract, "The patterns can't be read.")
		return out
	}
	var size int64
	locks := v.head.locks(d, v.seed.LockSources)
	var want kernel.Diff // its lists of guarded paths and lock files
	for _, ch := range d.Changes {
		size += ch.Size
		class := guard.Class(ch.Path)
		if !allowed.Match(ch.Path) && (class != scope.ClassLock || !locks.Allowed(ch.Path, allowed.Match)) {
			bad(kernel.CodeScopeOutside, ch.Path, "No allowed pattern covers it.")
		}
		switch class {
		case scope.ClassForbidden:
			bad(kernel.CodeProtectedPath, ch.Path, "It is protected.")
		case scope.ClassGuarded:
			want.Guarded = append(want.Guarded, kernel.GuardedPath{Path: ch.Path, Why: scope.WhyGuarded})
		case scope.ClassLock:
			if why := v.lock(d, ch, locks); why != "" {
				want.Guarded = append(want.Guarded, kernel.GuardedPath{Path: ch.Path, Why: why})
			} else {
				want.Locks = append(want.Locks, ch.Path)
			}
		case scope.ClassNone:
		}
		if why := scope.CheckPath(ch.Path); ch.Op == kernel.OpAdd && why != "" {
			bad(kernel.CodePathUnsafe, ch.Path, why)
		}
	}
	if int64(len(d.Changes)) > v.seed.Budgets.Files || size > v.seed.Budgets.Bytes {
		bad(kernel.CodeScopeSize, "budgets", "The change is over its budget.")
	}
	if !slices.Equal(want.Guarded, d.Guarded) || !slices.Equal(want.Locks, d.Locks) {
		bad(kernel.CodeProtectedPath, subjectPaths, fmt.Sprintf("Guarded are %q and free with their manifests %q; recorded is another.", want.Guarded, want.Locks))
	}
	return kernel.SortViolations(out)
}

// locks finds which lock files come with changed manifests, in what the changes make of
// the base.
func (h HeadInfo) locks(d kernel.Diff, known []string) scope.Locks {
	changed := map[string]bool{} // whether the file is there afterwards
	for _, c := range d.Changes {
		changed[c.Path] = c.Op != kernel.OpDelete
	}
	return scope.NewLocks(d.Changes, func(path string) bool {
		if there, is := changed[path]; is || h.Base == nil {
			return there
		}
		e, there := h.Base.Tree.Find(path)
		return there && e.Mode != git.ModeGitlink
	}, known)
}

// lock says why a changed lock file doesn't come with its manifest, or "", from the bytes
// in the repository. Where nothing was delivered these aren't there, and nothing rests on
// the record, which is taken.
func (v *verifier) lock(d kernel.Diff, ch kernel.Change, locks scope.Locks) string {
	before, was := v.head.Blobs[git.OID(ch.BeforeID)]
	after, is := v.head.Blobs[git.OID(ch.AfterID)]
	if !locks.NeedsSources(ch) || is && (was || ch.BeforeID == "") {
		return locks.WithManifest(ch, before, after)
	}
	if at := slices.IndexFunc(d.Guarded, func(g kernel.GuardedPath) bool { return g.Path == ch.Path }); at >= 0 {
		return d.Guarded[at].Why
	}
	if v.accepted() {
		return "Its bytes can't be read in this repository."
	}
	return ""
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
	if r.TestsTouched {
		f.file(FileReport, "It says that the tests were touched, which nothing is recorded of.")
	}
	if r.TaskID != v.head.Task || v.seed != nil && r.World != v.seed.World {
		f.file(FileReport, "It is of task %d in %q.", r.TaskID, r.World)
	}
	v.checkStates(f, *r)
	said := "The report %s says what was recorded, in both forms."
	if v.ofRun() {
		v.checkRunReport(f, *r)
	} else {
		v.checkNotice(f, *r)
		said = "The report %s says what HEAD says, in both forms. What it says beyond that, such as of a run or its checks, is not verified: no records belong to this state."
	}
	switch same := v.event.Body == string(v.pack[FileMarkdown]); {
	case same && r.Recorded() == v.event.Body:
	case same && r.Wordless():
		f.add(kernel.CodeReplayVersion, FileMarkdown, NoSeq, "The report was made before reports had the words of their codes: its text can't be told from it.")
	case same && r.Escapes():
		f.add(kernel.CodeReplayVersion, FileMarkdown, NoSeq, "The report shows characters by escapes, and may have been made before it showed them so: its text can't be told from it.")
	default:
		f.file(FileMarkdown, "It is not the report's text.")
	}
	return fmt.Sprintf(said, canon.Sum(data))
}

// checkStates: the report ends the task, and accepts its work, as HEAD does.
func (v *verifier) checkStates(f *findings, r report.Report) {
	final := v.state
	if !final.Final() {
		final = kernel.TaskNone // verified work that waits for its merge has not ended
	}
	if r.FinalState != final || r.Verified != v.accepted() || r.WaitingFor != v.said(kernel.TrailerWaitingFor) {
		f.file(FileReport, "It says %q, HEAD %s.", r.FinalState, v.state)
	}
}

// checkNotice holds the report of a state that no run's pack belongs to against HEAD,
// which was written with it.
func (v *verifier) checkNotice(f *findings, r report.Report) {
	for _, x := range []struct{ key, says string }{
		{kernel.TrailerCodes, joined(r.Codes)}, {kernel.TrailerChange, r.ChangeCommit}, {kernel.TrailerLedgerHead, string(r.LedgerHead)},
	} {
		v.needTrailer(f, FileReport, x.key, x.says)
	}
	if r.Attempts != max(v.number(kernel.TrailerAttempt), 0) || r.Interruptions != max(v.number(kernel.TrailerInterruptions), 0) {
		f.file(FileReport, "It says %s and %s, HEAD %q and %q.",
			report.Counted(r.Attempts, "attempt"), report.Counted(r.Interruptions, "interruption"), v.said(kernel.TrailerAttempt), v.said(kernel.TrailerInterruptions))
	}
	if v.claim != nil && r.RunID == v.claim.RunID && r.Dispatched {
		if handed := trailer(*v.claim, kernel.TrailerDispatch); string(r.DispatchHash) != handed {
			f.file(FileReport, "It says that the dispatch %s was handed out, the run was claimed with %s.", r.DispatchHash, handed)
		}
	}
}

func joined(codes []kernel.Code) string {
	words := make([]string, len(codes))
	for i, c := range codes {
		words[i] = string(c)
	}
	return strings.Join(words, " ")
}

func (v *verifier) checkRunReport(f *findings, r report.Report) {
	if !v.redacted() {
		list := v.of(kernel.KindReport)
		if len(list) == 0 || !bytes.Equal(list[len(list)-1].Body, v.pack[FileReport]) {
			f.file(FileReport, "It is not the report that was recorded.")
		}
	}
	v.needTrailer(f, FileReport, kernel.TrailerGovernance, string(r.GovernanceHash))
	v.needTrailer(f, FileReport, kernel.TrailerDispatch, string(r.DispatchHash))
	v.needTrailer(f, FileReport, kernel.TrailerChange, r.ChangeCommit)
	v.needTrailer(f, FileReport, kernel.TrailerBase, r.BaseCommit)
	if !v.redacted() && !v.recordedRun(r.RunID).Agrees(r) {
		f.file(FileReport, "It says of the run what its records don't.")
	}
	if v.claim != nil && r.RunID != v.claim.RunID {
		f.file(FileReport, "It is of run %s, claimed was run %s.", r.RunID, v.claim.RunID)
	}
}

// recordedRun is what the records say of a run.
func (v *verifier) recordedRun(id string) report.RunRecord {
	run := report.RunRecord{ID: id}
	for _, r := range v.records {
		if run.Take(r.Kind, r.Run, r.Body) != nil {
			return report.RunRecord{ID: id} // said of that record elsewhere; nothing agrees with it
		}
	}
	return run
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
	case v.state != kernel.TaskRetryPending:
		f.file(FileRetry, "The task is %s; there is no next attempt.", v.state)
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

// checkSaid holds what the run's records say of each other, which the verdict alone doesn't
// read: what it was claimed on, by whom it was built, what the builder says that it changed,
// and what programs wrote.
func (v *verifier) checkSaid(f *findings) {
	v.checkClaimed(f)
	for _, r := range v.of(kernel.KindBuilderResult) {
		if b := read[kernel.BuilderResult](f, r); b != nil {
			v.checkBuilder(f, r.Seq, b.body)
			v.checkPrepared(f, r.Seq, b.body.Prepared)
		}
	}
	for _, r := range v.of(kernel.KindRunResult) {
		b := read[kernel.RunResult](f, r)
		if b == nil {
			continue
		}
		v.checkPrepared(f, r.Seq, b.body.Prepared)
		for _, c := range b.body.Checks {
			checkStream(f, r.Seq, c.Output)
			if c.Passed && (c.OnBase != nil || c.Lacks != nil) || c.Lacks != nil && !c.Lacks.Code.Lacks() {
				f.record(r.Seq, "It says of the check %q what can hold only of one that failed.", c.Name)
			}
		}
	}
	if v.diff == nil {
		return
	}
	for _, c := range v.diff.Changes {
		if !fits(c) {
			f.record(v.diffSeq(), "What happened to %q is no %q.", c.Path, c.Op)
		}
	}
}

// checkPrepared: only what the contract has is prepared, each step once at most, and what a
// step wrote is what it is said to be. What the layer holds is the instance's own word.
func (v *verifier) checkPrepared(f *findings, seq int64, p *kernel.Prepared) {
	if p == nil {
		return
	}
	if v.seed != nil && len(v.seed.Prepare) == 0 {
		f.record(seq, "It tells of a preparation, and the contract has none.")
		return
	}
	told := map[string]bool{}
	for _, s := range p.Steps {
		if told[s.Name] || v.seed != nil && !slices.ContainsFunc(v.seed.Prepare, func(one kernel.Step) bool { return one.Name == s.Name }) {
			f.record(seq, "It tells of a step %q of the preparation, which is none of the contract's, or was told of already.", s.Name)
		}
		told[s.Name] = true
		checkStream(f, seq, s.Output)
	}
}

// checkClaimed: the run was claimed on what the seed pack pins. A claim that goes on with
// sealed work is held against that of the run which it goes on from.
func (v *verifier) checkClaimed(f *findings) {
	var seen, claimed *record
	for _, r := range v.records {
		switch r.Kind {
		case kernel.KindObservation:
			seen = &r
		case kernel.KindDecision:
			if d, err := decoded[kernel.Decision](r.Body); err == nil && d.Verdict == kernel.Allow && d.Action == kernel.ActionClaim {
				claimed = seen
			}
		}
	}
	if claimed == nil || v.resumes() != "" {
		return // said elsewhere
	}
	if facts, err := decoded[kernel.Facts](claimed.Body); err == nil && (!v.pins(*facts) || !v.reserves(*facts)) {
		f.record(claimed.Seq, "The run was claimed on another approval, contract, budget or number of checks than the seed pack's.")
	}
}

// reserves reports whether a claim on facts reserves no more for a builder than the seed
// pack's budgets allow.
func (v *verifier) reserves(x kernel.Facts) bool {
	var attempt kernel.Spend
	if x.Budget != nil {
		attempt = x.Budget.Attempt
	}
	return !x.Pays() || within(v.seed.Budgets, attempt)
}

// pins reports whether facts are of the seed pack's approval, contract, budgets and checks.
func (v *verifier) pins(x kernel.Facts) bool {
	return x.Approved == v.seed.Approval.Digest && x.Governance == v.seed.Pins.Governance &&
		x.Budgets == v.seed.Budgets && x.Checks == int64(len(v.seed.Checks))
}

// checkBuilder: the builder is the approved one, and an accepted result names the files
// that were found changed. Of a refresh the base may have some of them already, and a
// revision before it named only its own: there the diff is held against the earlier one.
func (v *verifier) checkBuilder(f *findings, seq int64, b kernel.BuilderResult) {
	if b.Builder != v.seed.Spec.Builder {
		f.record(seq, "It is of the builder %q, approved was %q.", b.Builder, v.seed.Spec.Builder)
	}
	checkStream(f, seq, b.Stdout)
	checkStream(f, seq, b.Stderr)
	checkCost(f, seq, b.Egress)
	if !v.accepted() || v.refreshes() != "" || b.Result == nil || v.diff == nil || !keptWhole(v.diff.Changes) {
		return
	}
	for _, x := range scope.CheckReported(b.Result.ChangedFiles, scope.Verdict{Changes: v.diff.Changes, Discarded: v.diff.Discarded}) {
		f.record(v.diffSeq(), "%s: %s", x.Subject, x.Detail)
	}
}

// checkCost: what models were used costs what the recorded tokens come to by the recorded
// price.
func checkCost(f *findings, seq int64, e *kernel.Egress) {
	if e == nil {
		return
	}
	for _, u := range e.Usage {
		if want := u.Priced(u.Price).Cost; u.Cost != want {
			f.record(seq, "It says that the tokens of %s cost %d millionths, and by its price they cost %d.", scope.Display(u.Model), u.Cost, want)
		}
	}
}

// maxPlainName bounds the names that a result keeps as they are, in bytes.
const maxPlainName = 256

// keptWhole reports whether a result keeps the names of all changes as they are.
func keptWhole(changes []kernel.Change) bool {
	return len(changes) < scope.MaxListed && !slices.ContainsFunc(changes, func(c kernel.Change) bool {
		return len(c.Path) > maxPlainName || scope.Display(c.Path) != c.Path
	})
}

// checkStream: of nothing that was written there is neither a digest of something nor an
// end, and the reverse.
func checkStream(f *findings, seq int64, s kernel.Stream) {
	nothing := s.Digest == canon.Sum(nil)
	if s.Bytes < 0 || nothing != (s.Bytes == 0) || nothing && s.Tail != "" {
		f.record(seq, "It says that %d bytes with the digest %s were written, which end with %q.", s.Bytes, s.Digest, s.Tail)
	}
}

// fits reports whether a change's word is that of what was there before and after.
func fits(c kernel.Change) bool {
	before, after := c.BeforeID != "", c.AfterID != ""
	switch c.Op {
	case kernel.OpAdd:
		return !before && after
	case kernel.OpDelete:
		return before && !after
	case kernel.OpModify:
		return before && after && c.BeforeID != c.AfterID
	case kernel.OpMode:
		return before && after && c.BeforeID == c.AfterID && c.BeforeMode != c.AfterMode
	}
	return false
}
