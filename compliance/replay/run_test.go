package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/plan"
)

const (
	stateRef  = "refs/writ/task/3"
	changeRef = "refs/heads/writ/change/3"
)

// attempt is one run of the task, played to its result.
type attempt struct {
	says func(*report.Report)   // what a report says that isn't so
	act  func(of string) string // that somebody names: "seen", "claim", "lease" or "result"; nil for what is so
	*stage
	id      string
	number  int64
	passes  bool
	slim    bool
	seed    kernel.SeedPack
	spec    plan.Spec
	plan    plan.Plan
	base    git.Tree
	diff    kernel.Diff
	result  kernel.BuilderResult
	checks  kernel.RunResult
	blobs   map[string][]byte
	after   git.OID
	inputs  Pack
	handed  []byte // dispatch.json
	lease   git.OID
	sealed  []byte // manifest
	message []byte // of the lease
	from    int64
	head    kernel.HeadFacts
	change  git.OID
	report  []byte
	text    string
	judged  *kernel.Judgement
	lies    func(*attempt)                // of what it was approved for and built
	claims  func(*kernel.Facts)           // of what it was claimed on
	guards  func(*attempt, *kernel.Facts) // what it says of the guarded path that it changes; nil where it changes none
	accepts string                        // id of the act that its result names
}

// play claims the task on HEAD and carries it to its result.
func (s *stage) play(number int64, passes bool, prior *kernel.Retry, options ...func(*attempt)) *attempt {
	s.t.Helper()
	a := &attempt{stage: s, number: number, passes: passes, id: fmt.Sprintf("00000000-0000-4000-8000-%012d", number)}
	for _, o := range options {
		o(a)
	}
	var err error
	a.base, err = s.repo.Tree(s.t.Context(), s.base)
	s.must(err)
	a.plot(prior)
	if a.lies != nil {
		a.lies(a)
	}
	a.claim()
	s.elsewhere()
	a.dispatch()
	a.heartbeat()
	s.elsewhere()
	a.seal()
	a.check()
	a.judge()
	a.deliver()
	return a
}

// plot makes the seed pack and what a builder will do about it.
func (a *attempt) plot(prior *kernel.Retry) {
	s := a.stage
	c, _, bad := contract.Load([]byte(testContract), contract.Source{Name: contract.Path})
	if len(bad) > 0 {
		s.t.Fatal(bad)
	}
	checks, _ := c.SelectChecks(nil)
	title, body := "Add handles negative numbers", "It panics.\n"
	digest, err := kernel.ApprovalDigest(title, body)
	s.must(err)
	message, bad := c.Message(title, testTask)
	if len(bad) > 0 {
		s.t.Fatal(bad)
	}
	budgets := c.Budgets.Budgets
	budgets.RetryBackoffMs = 1
	a.seed = kernel.SeedPack{
		Kind: string(kernel.KindSeedPack), V: kernel.SeedPackVersion, World: s.name, Task: testTask, Title: title, Body: body, Prose: body,
		Approval: kernel.Approval{Digest: digest, Actor: "alice", Evidence: "local", Time: startMs},
		Spec:     kernel.TaskSpec{AllowedFiles: []string{"calc/**", "run.sh"}, ExpectedOutcome: "The tests pass.", Checks: []string{}, Builder: "default"},
		Checks:   checks, Budgets: budgets,
		Pins:           kernel.Pins{BaseCommit: string(s.base), Governance: canon.Sum([]byte(testContract)), Kernel: kernel.Version(), Policy: "1"},
		ContractSource: contract.Path, CommitMessage: message, Retry: prior,
	}
	a.spec, a.plan, err = planOf(a.seed)
	s.must(err)
	a.edit()
}

// edit is the builder's work: one file each added, modified, deleted, and one
// made executable.
func (a *attempt) edit() {
	a.blobs = map[string][]byte{}
	change := func(op kernel.ChangeOp, path, text string, mode git.Mode) {
		c := kernel.Change{Path: path, Op: op}
		if e, ok := a.base.Find(path); ok {
			c.BeforeID, c.BeforeMode = string(e.OID), e.Mode.String()
		}
		if op != kernel.OpDelete {
			c.AfterID, c.AfterMode = string(git.HashBlob([]byte(text))), mode.String()
			c.AfterHash, c.Size = canon.Sum([]byte(text)), int64(len(text))
			a.blobs[c.AfterID] = []byte(text)
		}
		a.diff.Changes = append(a.diff.Changes, c)
	}
	a.diff = kernel.Diff{Kind: string(kernel.KindDiff), Run: a.id, Base: string(a.stage.base), Discarded: []string{}, Violations: []kernel.Violation{}}
	change(kernel.OpModify, "calc/add.go", "package calc\n\nfunc Add(a, b int) int { return a + b }\n", git.ModeFile)
	change(kernel.OpAdd, "calc/add_test.go", "package calc\n", git.ModeFile)
	change(kernel.OpDelete, "calc/old.go", "", 0)
	change(kernel.OpMode, "run.sh", baseFiles["run.sh"], git.ModeExec)
	if a.guards != nil {
		a.diff.Guarded = []kernel.GuardedPath{{Path: "calc/ci.yml", Why: scope.WhyGuarded}}
		change(kernel.OpAdd, "calc/ci.yml", "on: push\n", git.ModeFile)
		slices.SortFunc(a.diff.Changes, func(a, b kernel.Change) int { return strings.Compare(a.Path, b.Path) })
	}
	empty := kernel.Stream{Digest: canon.Sum(nil)}
	exit := kernel.Exit{Cause: kernel.CauseExited}
	a.result = kernel.BuilderResult{
		Kind: string(kernel.KindBuilderResult), Run: a.id, Builder: "default", Argv: []string{"agent"}, Sandbox: "bubblewrap", Composed: true,
		Result: &kernel.Result{Status: kernel.ResultSuccess, ChangedFiles: []string{}, TestsPassed: true, Timestamp: kernel.Timestamp(startMs / 1000)},
		Exit:   exit, Stdout: empty, Stderr: empty, Started: startMs, Ended: startMs + 1, Faults: []kernel.Violation{},
	}
	for _, c := range a.diff.Changes {
		a.result.Result.ChangedFiles = append(a.result.Result.ChangedFiles, c.Path)
	}
	v := verifier{diff: &a.diff, head: HeadInfo{Base: &Snapshot{Tree: a.base}}}
	var err error
	a.after, err = v.changedTree()
	a.must(err)
	a.checks = kernel.RunResult{Kind: string(kernel.KindRunResult), Run: a.id, Tree: string(a.after), Sandbox: "bubblewrap",
		Checks: []kernel.CheckResult{{Name: "test", Passed: true, Runs: 2, Stable: true, Exit: exit, Output: empty}}}
	if !a.passes {
		c := &a.checks.Checks[0]
		c.Passed, c.Exit.Code, c.Output = false, 1, kernel.Stream{Digest: canon.Sum([]byte("FAIL\n")), Bytes: 5, Tail: "FAIL\n"}
	}
}

// trailers are Writ's own, in the supervisor's order.
func (a *attempt) trailers(extra ...lease.Trailer) []lease.Trailer {
	return slices.Concat(a.stage.stamp(), []lease.Trailer{
		{Key: kernel.TrailerBase, Value: string(a.stage.base)},
		{Key: kernel.TrailerAttempt, Value: fmt.Sprint(a.number)},
		{Key: kernel.TrailerInterruptions, Value: "0"},
		{Key: kernel.TrailerApproval, Value: string(a.seed.Approval.Digest)},
		{Key: kernel.TrailerGovernance, Value: string(a.seed.Pins.Governance)},
		{Key: kernel.TrailerPlan, Value: string(a.dispatched().PlanHash)},
		{Key: kernel.TrailerDispatch, Value: string(canon.Sum(a.handed))},
		{Key: kernel.TrailerLedgerHead, Value: string(a.ledger.Chain().Head.Hash)},
		{Key: kernel.TrailerAct, Value: a.restsOn("result")},
	}, extra)
}

func (a *attempt) dispatched() kernel.Dispatch {
	d, err := decoded[kernel.Dispatch](a.handed)
	a.must(err)
	return *d
}

// facts are what is observed of the task in the phase.
func (a *attempt) facts(run *kernel.RunFacts) kernel.Facts {
	if run != nil {
		run.RunID, run.LeaseOID, run.Attempt = a.id, string(a.lease), a.number
	}
	f := kernel.Facts{
		Head: a.head, Act: a.restsOn("seen"), Approved: a.seed.Approval.Digest, Current: a.seed.Approval.Digest,
		Governance: a.seed.Pins.Governance, Budgets: a.seed.Budgets, Checks: int64(len(a.seed.Checks)), Run: run,
	}
	if run != nil && run.Phase == kernel.PhaseChecked && a.guards != nil {
		digest, err := kernel.PathsDigest(a.name, testTask, canon.Sum(a.handed), a.diff)
		a.must(err)
		a.accepts = fmt.Sprintf("%d/comment:5", startMs)
		f.Paths = &kernel.PathsFacts{Digest: digest, Needs: "maintain", Paths: a.diff.Guarded,
			Accepted: &kernel.Acceptance{Act: a.accepts, Actor: "7:ann", Permission: "admin", Digest: digest}}
		a.guards(a, &f)
	}
	return f
}

func (a *attempt) claim() {
	s := a.stage
	refs, err := s.repo.Refs(s.t.Context(), stateRef)
	s.must(err)
	parent := refs.OID(stateRef)
	if !parent.IsZero() {
		c, err := s.repo.Commit(s.t.Context(), parent)
		s.must(err)
		a.head = kernel.HeadFacts{OID: string(parent), Parent: string(c.Parents[0]), State: "retry_pending", Trust: kernel.TrustOwn, Format: kernel.StateFormat, Seq: s.seq, Binding: kernel.BindHere, Signer: s.key.Fingerprint(),
			Approval: a.seed.Approval.Digest, Attempt: a.number - 1}
	}
	a.from = s.ledger.Chain().Head.Seq + 1
	objs := git.NewObjects()
	r := &request{run: a.id, facts: a.facts(nil), staged: a.unsettled()}
	if a.claims != nil {
		a.claims(&r.facts)
	}
	r.prepare = func() {
		seconds := s.now / 1000
		hash, err := a.plan.Hash()
		s.must(err)
		a.handed, err = canon.Marshal(kernel.BuildDispatch(a.seed, kernel.Claim{RunID: a.id, Attempt: a.number, PlanHash: hash, CommitterSeconds: seconds}))
		s.must(err)
		seed, err := canon.Marshal(a.seed)
		s.must(err)
		a.inputs = Pack{FileSeedPack: seed, FileContract: []byte(testContract)}
		a.pushLease(objs, parent)
		r.intent = &kernel.Intent{Kind: "intent", Key: "claim:" + string(a.lease), Effect: kernel.ActionClaim, Ref: stateRef, New: string(a.lease), Seq: s.seq}
		r.late = []kernel.Draft{
			s.draft(kernel.KindSeedPack, a.id, a.seed), s.draft(kernel.KindInterpretation, a.id, plan.Derive(a.seed)),
			s.draft(kernel.KindSpec, a.id, a.spec), s.draft(kernel.KindPlan, a.id, a.plan),
		}
	}
	r.do = func() kernel.OutcomeStatus {
		return s.push(objs, git.Command{Ref: stateRef, Old: parent, New: a.lease})
	}
	s.submit(r)
	a.seen("working")
}

// unsettled is what an earlier push of this process came to, told at last.
func (a *attempt) unsettled() []kernel.Draft {
	if a.number == 1 {
		return nil
	}
	return []kernel.Draft{a.draft(kernel.KindOutcome, "", kernel.Outcome{Kind: "outcome", Key: "result:" + a.head.OID, Effect: kernel.ActionResult, Status: kernel.OutcomeDone})}
}

// pushLease makes event (where there is none) and lease.
func (a *attempt) pushLease(objs *git.Objects, parent git.OID) {
	s := a.stage
	for _, data := range a.inputs {
		objs.Blob(data)
	}
	tree := a.treeIn(objs, a.inputs)
	origin := a.head.State
	if parent.IsZero() {
		msg, err := lease.Format(lease.Message{Title: "writ: task 3 is open", Body: a.dispatched().Instruction,
			Trailers: append([]lease.Trailer{{Key: lease.KeyState, Value: "open"}}, s.stamp()...)})
		s.must(err)
		parent, origin = s.commit(objs, tree, parent, msg), "open"
	}
	var err error
	a.message, err = lease.Working(lease.Claim{OriginState: origin, RunID: a.id, RunnerID: "host", LeaseSeconds: 600,
		Title: "writ: attempt", Body: a.dispatched().Instruction, Extra: a.trailers()})
	s.must(err)
	a.names("result", "claim")
	a.lease = s.commit(objs, tree, parent, a.message)
}

func (a *attempt) treeIn(objs *git.Objects, files Pack) git.OID {
	var entries []git.Entry
	for name, data := range files {
		entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: objs.Blob(data)})
	}
	slices.SortFunc(entries, byPath)
	tree, err := objs.Tree(entries)
	a.must(err)
	return tree
}

func (a *attempt) seen(state string) {
	a.head = kernel.HeadFacts{OID: string(a.lease), State: state, Trust: kernel.TrustOwn, Format: kernel.StateFormat, Seq: a.seq, Binding: kernel.BindHere, Signer: a.key.Fingerprint(),
		RunID: a.id, RunnerID: "host", OriginState: "open", Approval: a.seed.Approval.Digest, Attempt: a.number}
}

func (a *attempt) dispatch() {
	r := &request{run: a.id, facts: a.facts(&kernel.RunFacts{Phase: kernel.PhaseClaimed})}
	r.late = []kernel.Draft{a.draft(kernel.KindDispatch, a.id, a.dispatched())}
	r.intent = &kernel.Intent{Kind: "intent", Key: "dispatch:" + a.id, Effect: kernel.ActionDispatch, Digest: canon.Sum(a.handed)}
	r.do = func() kernel.OutcomeStatus { return kernel.OutcomeDone }
	a.submit(r)
}

func (a *attempt) heartbeat() {
	objs, old := git.NewObjects(), a.lease
	r := &request{run: a.id, facts: a.facts(&kernel.RunFacts{Phase: kernel.PhaseBuilding, RenewDue: true})}
	r.prepare = func() {
		a.names("claim", "lease")
		ev, err := lease.ReadEvent(lease.Head{Message: a.message, CommitterSeconds: a.now / 1000, CommitterOK: true})
		a.must(err)
		msg, err := lease.Renew(ev, lease.Renewal{RunID: a.id, Replace: a.stamp()})
		a.must(err)
		a.lease = a.commit(objs, a.treeIn(git.NewObjects(), a.inputs), old, msg)
		r.intent = &kernel.Intent{Kind: "intent", Key: "heartbeat:" + string(a.lease), Effect: kernel.ActionHeartbeat, Ref: stateRef, Old: string(old), New: string(a.lease), Seq: a.seq}
	}
	r.do = func() kernel.OutcomeStatus { return a.push(objs, git.Command{Ref: stateRef, Old: old, New: a.lease}) }
	a.submit(r)
	a.seen("working")
}

func (a *attempt) seal() {
	objs, old := git.NewObjects(), a.lease
	r := &request{run: a.id, facts: a.facts(&kernel.RunFacts{Phase: kernel.PhaseBuilt, Exit: &a.result.Exit, Changes: int64(len(a.diff.Changes))})}
	r.staged = []kernel.Draft{a.draft(kernel.KindBuilderResult, a.id, a.result), a.draft(kernel.KindDiff, a.id, a.diff)}
	r.prepare = func() {
		files, err := sealed.New(a.dispatched(), a.result, a.diff, a.blobs).Files()
		a.must(err)
		a.sealed = files[sealed.File]
		for name, data := range a.inputs {
			files[name] = data
		}
		ev, err := lease.ReadEvent(lease.Head{Message: a.message, CommitterSeconds: a.now / 1000, CommitterOK: true})
		a.must(err)
		msg, err := lease.Renew(ev, lease.Renewal{RunID: a.id, Replace: a.stamp()})
		a.must(err)
		a.lease = a.commit(objs, a.treeIn(objs, files), old, msg)
		r.intent = &kernel.Intent{Kind: "intent", Key: "seal:" + string(a.lease), Effect: kernel.ActionSeal, Ref: stateRef, Old: string(old), New: string(a.lease), Seq: a.seq}
	}
	r.do = func() kernel.OutcomeStatus { return a.push(objs, git.Command{Ref: stateRef, Old: old, New: a.lease}) }
	a.submit(r)
	a.seen("working")
}

func (a *attempt) check() {
	r := &request{run: a.id, facts: a.facts(&kernel.RunFacts{Phase: kernel.PhaseSealed, Exit: &a.result.Exit, Changes: int64(len(a.diff.Changes))})}
	r.intent = &kernel.Intent{Kind: "intent", Key: "checks:" + a.id, Effect: kernel.ActionChecks, New: string(a.after)}
	r.do = func() kernel.OutcomeStatus { return kernel.OutcomeDone }
	a.submit(r)
}

func (a *attempt) judge() {
	run := &kernel.RunFacts{Phase: kernel.PhaseChecked, Exit: &a.result.Exit, Changes: int64(len(a.diff.Changes))}
	if !a.passes {
		run.CheckFails = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "It ended with exit status 1."}}
	}
	r := &request{run: a.id, facts: a.facts(run), staged: []kernel.Draft{a.draft(kernel.KindRunResult, a.id, a.checks)}}
	r.prepare = func() {
		if a.passes {
			a.change = a.changeCommit(git.NewObjects(a.base))
		}
		rep := a.compose(r.decision)
		if a.says != nil {
			a.says(&rep)
		}
		var err error
		a.report, err = rep.JSON()
		a.must(err)
		a.text = report.Markdown(rep)
		r.late = []kernel.Draft{a.draft(kernel.KindReport, a.id, rep)}
	}
	a.submit(r)
	a.verdict(r.decision)
}

func (a *attempt) changeCommit(objs *git.Objects) git.OID {
	for _, data := range a.blobs {
		objs.Blob(data)
	}
	v := verifier{diff: &a.diff, head: HeadInfo{Base: &Snapshot{Tree: a.base}}}
	tree, err := objs.Tree(v.changedEntries())
	a.must(err)
	oid, err := objs.Commit(git.CommitSpec{Tree: tree, Parents: []git.OID{a.stage.base}, Author: a.person(startMs / 1000),
		Committer: a.person(startMs / 1000), Message: []byte(a.seed.CommitMessage)}, nil)
	a.must(err)
	return oid
}

func (a *attempt) compose(d kernel.Decision) report.Report {
	r := report.Report{
		FinalState: d.State, World: a.name, TaskID: testTask, Codes: d.Codes, Violations: d.Violations,
		ChangeCommit: string(a.change), LedgerHead: a.ledger.Chain().Head.Hash,
	}
	run := report.RunRecord{ID: a.id}
	take := func(kind kernel.Kind, of string, body any) {
		data, err := canon.Marshal(body)
		a.must(err)
		a.must(run.Take(kind, of, data))
	}
	for rec, err := range a.ledger.RecordsOfTask(a.t.Context(), testTask) {
		a.must(err)
		take(rec.Kind, rec.Run, rec.Body)
	}
	take(kernel.KindRunResult, a.id, a.checks)
	run.Tell(&r, a.passes)
	if d.NotBefore > 0 {
		r.NotBefore = kernel.Timestamp((d.NotBefore + 999) / 1000)
	}
	return r.Finish()
}

// verdict makes HEAD's trailers of a judgement.
func (a *attempt) verdict(d kernel.Decision) {
	var words []string
	for _, c := range d.Codes {
		words = append(words, string(c))
	}
	extra := []lease.Trailer{{Key: kernel.TrailerRun, Value: a.id}}
	if d.NotBefore > 0 {
		extra = append(extra, lease.Trailer{Key: kernel.TrailerNotBefore, Value: fmt.Sprint((d.NotBefore + 999) / 1000)})
	}
	if a.change != "" {
		extra = append(extra, lease.Trailer{Key: kernel.TrailerChange, Value: string(a.change)})
	}
	if a.accepts != "" {
		extra = append(extra, lease.Trailer{Key: kernel.TrailerAccepts, Value: a.accepts})
	}
	if len(words) > 0 {
		extra = append(extra, lease.Trailer{Key: kernel.TrailerCodes, Value: strings.Join(words, " ")})
	}
	msg, err := lease.Format(lease.Message{Title: "writ: task 3 is " + string(d.State), Body: a.text,
		Trailers: append([]lease.Trailer{{Key: lease.KeyState, Value: string(d.State)}}, a.trailers(extra...)...)})
	a.must(err)
	a.message = msg
	a.judged = &kernel.Judgement{State: d.State, NotBefore: d.NotBefore, Codes: d.Codes, Violations: d.Violations, Report: canon.Sum(a.report)}
}

// deliver pushes the result with its evidence. The answer to a failed attempt's
// push is lost, and told by the next attempt.
func (a *attempt) deliver() {
	ev, err := Collect(a.t.Context(), a.ledger, testTask, a.from)
	a.must(err)
	files := Pack{FileSealed: a.sealed, FileDispatch: a.handed, FileReport: a.report, FileMarkdown: []byte(a.text), FileProofs: ev.Proofs, FileCheckpoint: ev.Checkpoint}
	if !a.slim {
		files[FileRecords] = ev.Records
	}
	for name, data := range a.inputs {
		files[name] = data
	}
	if !a.passes {
		files[FileRetry], err = canon.Marshal(a.retry())
		a.must(err)
	}
	objs := git.NewObjects(a.base)
	head := a.commit(objs, a.treeIn(objs, files), a.lease, a.message)
	cmds := []git.Command{{Ref: stateRef, Old: a.lease, New: head}}
	if a.change != "" {
		a.changeCommit(objs)
		cmds = append(cmds, git.Command{Ref: changeRef, New: a.change})
	}
	run := &kernel.RunFacts{Phase: kernel.PhaseJudged, Exit: &a.result.Exit, Changes: int64(len(a.diff.Changes)), Judgement: a.judged}
	r := &request{run: a.id, facts: a.facts(run)}
	r.intent = &kernel.Intent{Kind: "intent", Key: "result:" + string(head), Effect: kernel.ActionResult, Ref: stateRef, Old: string(a.lease), New: string(head)}
	r.do = func() kernel.OutcomeStatus {
		if done := a.push(objs, cmds...); a.passes {
			return done
		}
		return kernel.OutcomeUnknown
	}
	a.submit(r)
}

// retry is what the next attempt is told.
func (a *attempt) retry() kernel.Retry {
	return kernel.Retry{Attempt: a.number, Run: a.id, Violations: []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "It ended with exit status 1."}},
		Tail: "test:\nFAIL\n", Source: canon.Sum(a.report)}
}

// claimedOn is the act on the forge that the stage's runs are claimed on.
const claimedOn = "1800000000000/event:7"

// restsOn is the act that somebody names.
func (a *attempt) restsOn(of string) string {
	if a.act == nil {
		return claimedOn
	}
	return a.act(of)
}

// names puts the act that one names into the lease's message, instead of another's.
func (a *attempt) names(was, is string) {
	line := kernel.TrailerAct + ": "
	a.message = []byte(strings.Replace(string(a.message), line+a.restsOn(was), line+a.restsOn(is), 1))
}
