package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/tick"
)

// prepareRun composes the effect of a decision on a run: on its lease, its builder, its
// checks or its result.
func (w *worker) prepareRun(ctx context.Context, c *cycle) (*effect, error) {
	switch c.decision.Action {
	case kernel.ActionClaim:
		return w.prepareClaim(c)
	case kernel.ActionTakeOver, kernel.ActionRelease:
		return w.prepareStalled(c)
	case kernel.ActionHeartbeat:
		return w.prepareHeartbeat(c)
	case kernel.ActionDispatch:
		return w.prepareDispatch()
	case kernel.ActionSeal:
		return w.prepareSeal(c)
	case kernel.ActionChecks:
		return w.prepareChecks()
	case kernel.ActionJudge:
		return nil, w.judge(ctx, c)
	case kernel.ActionResult:
		return w.prepareResult(ctx, c)
	case kernel.ActionWait:
		return w.prepareWait(ctx, c)
	case kernel.ActionAbandon:
		return w.prepareAbandon(&c.observation)
	case kernel.ActionComplete:
		return w.prepareComplete(c)
	case kernel.ActionRestore:
		return w.prepareRestore(c)
	case kernel.ActionRedeliver:
		return w.prepareRedeliver(c)
	}
	return nil, nil
}

// prepareStalled breaks a dead lease, or gives our own back.
func (w *worker) prepareStalled(c *cycle) (*effect, error) {
	tr := trailers{
		attempt: c.facts.Head.Attempt, approval: string(c.facts.Head.Approval),
		interruptions: c.decision.Interruptions, notBefore: c.decision.NotBefore, codes: c.decision.Codes,
		act: c.facts.Head.Act, ledger: string(w.s.deps.Ledger.Chain().Head.Hash),
	}
	objs := git.NewObjects()
	head := git.OID(c.facts.Head.OID)
	tree, err := c.stateTree(objs)
	if err != nil {
		return nil, err
	}
	parent, seq := head, c.facts.NextSeq()
	late, work, err := w.sealLate(&c.observation, objs, c.inputs, c.unpushed)
	if err != nil {
		return nil, err
	}
	if late.oid != "" {
		parent, tree, seq = late.oid, work, seq+1
	}
	made, err := w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: parent, date: c.nextDate(), seq: seq, trailers: &tr,
		message: func(all []lease.Trailer) ([]byte, error) {
			extra := append([]lease.Trailer{{Key: tick.KeyOrigin, Value: originOf(c.event)}}, all...)
			return lease.Stalled(c.event, lease.Break{Extra: extra})
		},
	})
	if err != nil {
		return nil, err
	}
	run := c.facts.Head.RunID
	own := w.run
	e := w.pushEffect(c, run, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: late.oid == "",
		unshelves: late.oid != "",
		won:       func() { w.forgetRun(own) },
		failed:    func() { w.bare = false },
	})
	if own == nil {
		return e, nil
	}
	return w.killFirst(e), nil
}

// killFirst makes an effect end our processes before it tells the world that
// nobody works on the task.
func (w *worker) killFirst(e *effect) *effect {
	push := e.do
	e.do = func(ctx context.Context) kernel.Outcome {
		w.kill()
		return push(ctx)
	}
	return e
}

func originOf(ev lease.Event) string {
	if ev.OriginState != "" {
		return ev.OriginState
	}
	return string(kernel.TaskOpen)
}

// prepareHeartbeat renews the lease: one commit, same tree, same run id.
func (w *worker) prepareHeartbeat(c *cycle) (*effect, error) {
	r := w.run
	objs := git.NewObjects()
	made, date, err := w.renewal(c, objs, r.tree)
	if err != nil {
		return nil, err
	}
	renewed, before := c.clock, r.due
	return w.pushEffect(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: true, before: &before,
		won: func() { w.noteRenewed(r, made.oid, date, made.message, renewed) },
	}), nil
}

// renewal makes the lease commit that follows our own, with its committer date.
func (w *worker) renewal(c *cycle, objs *git.Objects, tree git.OID) (made madeCommit, date int64, err error) {
	r := w.run
	date = lease.NextCommitterSeconds(r.date, c.clock.WallMs)
	made, err = w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: r.head, date: date, seq: c.facts.NextSeq(),
		message: func(stamp []lease.Trailer) ([]byte, error) {
			return lease.Renew(r.event, lease.Renewal{RunID: r.id, Replace: stamp})
		},
	})
	return made, date, err
}

// noteRenewed notes a lease commit that stands. The clock is the one that was read
// before the commit was made: others count from there at the earliest.
func (w *worker) noteRenewed(r *run, oid git.OID, date int64, msg []byte, at lease.Clock) {
	ev, err := lease.ReadEvent(lease.Head{OID: string(oid), Message: msg, CommitterSeconds: date, CommitterOK: true})
	if err != nil {
		w.log().Error("own lease can't be read back", "error", err)
		return
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	r.event, r.head, r.date = ev, oid, date
	r.due = lease.NewDeadlines(at, w.s.cfg.LeaseSeconds, w.s.cfg.MarginSeconds)
}

// prepareDispatch starts the builder: one effect call, which returns its handle.
func (w *worker) prepareDispatch() (*effect, error) {
	r := w.run
	key := "dispatch:" + r.id
	job := executor.BuildJob{
		World: w.s.cfg.Repository, Task: w.number, Run: r.id, Builder: r.pack.Spec.Builder, Dispatch: r.dispatchBytes,
		Instruction: r.dispatch.Instruction, Base: w.baseOf(r), Budgets: r.pack.Budgets, Scope: r.intake.Scope,
		Prepare: r.pack.Prepare, Trusted: w.trustedOf(r), Spend: r.spend,
		OnLine: w.tail(),
	}
	return &effect{
		drafts: []kernel.Draft{{Kind: kernel.KindDispatch, Task: w.number, Run: r.id, Body: json.RawMessage(r.dispatchBytes)}},
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: kernel.ActionDispatch, Digest: r.dispatchHash},
		do: func(ctx context.Context) kernel.Outcome {
			b, err := w.s.deps.Executor.Build(context.WithoutCancel(ctx), job)
			if err != nil {
				r.phase = kernel.PhaseBuilt
				return w.notStarted(r, key, kernel.ActionDispatch, err)
			}
			w.guard.Lock()
			r.build, r.phase = b, kernel.PhaseBuilding
			w.guard.Unlock()
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: kernel.ActionDispatch, Status: kernel.OutcomeDone}
		},
	}, nil
}

// notStarted notes that a build or check never ran. It isn't the builder's
// failure.
func (w *worker) notStarted(r *run, key string, a kernel.Action, err error) kernel.Outcome {
	code := kernel.CodeEnvBuilderFailed
	var xe *executor.Error
	if errors.As(err, &xe) {
		code = xe.Code
	}
	r.fails = append(r.fails, kernel.Violation{Code: code, Subject: r.pack.Spec.Builder, Detail: err.Error()})
	return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: a, Status: kernel.OutcomeFailed, Code: code, Detail: err.Error()}
}

// baseOf hands the pinned tree to the executor.
func (w *worker) baseOf(r *run) executor.Base {
	return w.baseAt(git.OID(r.pack.Pins.BaseCommit), r.base)
}

// baseAt is a commit's tree for the executor.
func (w *worker) baseAt(commit git.OID, tree git.Tree) executor.Base {
	b := executor.Base{Commit: string(commit)}
	for _, e := range tree.Entries {
		b.Files = append(b.Files, executor.File{Path: e.Path, Mode: e.Mode.String(), ID: string(e.OID)})
	}
	b.Blobs = func(ctx context.Context, ids []string, f func(string, []byte) error) error {
		ctx = (*worker)(nil).on(git.Unbudgeted(ctx)) // a whole base is read, within its own bounds of size and time
		oids := make([]git.OID, len(ids))
		for i, id := range ids {
			oids[i] = git.OID(id)
		}
		return w.s.deps.Repo.Blobs(ctx, oids, func(oid git.OID, data []byte) error { return f(string(oid), data) })
	}
	return b
}

// tail is who is shown what runs of the task prints, nil for nobody.
func (w *worker) tail() func(line string) {
	to := w.s.deps.Tail
	if to == nil {
		return nil
	}
	return func(line string) { to(w.number, line) }
}

// prepareSeal renews our lease with what the builder left in its tree.
func (w *worker) prepareSeal(c *cycle) (*effect, error) {
	r := w.run
	files, err := workOf(r).Files()
	if err != nil {
		return nil, err
	}
	objs := git.NewObjects()
	tree, err := evidence(objs, slices.Clone(r.entries), files)
	if err != nil {
		return nil, err
	}
	made, date, err := w.renewal(c, objs, tree)
	if err != nil {
		return nil, err
	}
	renewed, before := c.clock, r.due
	return w.pushEffect(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, before: &before, unshelves: true,
		won: func() {
			w.noteRenewed(r, made.oid, date, made.message, renewed)
			r.tree, r.sealed, r.phase = tree, files[sealed.File], kernel.PhaseSealed
		},
	}), nil
}

// prepareChecks starts the checks on the proposed change: a fresh tree, built
// from the hashed bytes.
func (w *worker) prepareChecks() (*effect, error) {
	r := w.run
	tree, err := changedTree(git.NewObjects(r.base), r)
	if err != nil {
		return nil, err
	}
	r.treeID = tree
	key := "checks:" + r.id
	job := executor.CheckJob{
		World: w.s.cfg.Repository, Task: w.number, Run: r.id, Base: w.baseOf(r), Diff: r.built.Diff, Contents: r.built.Contents,
		Checks: r.pack.Checks, Prepare: r.pack.Prepare, Trusted: w.trustedOf(r), TreeID: string(tree), OnLine: w.tail(),
	}
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: kernel.ActionChecks, New: string(tree)},
		do: func(ctx context.Context) kernel.Outcome {
			k, err := w.s.deps.Executor.Check(context.WithoutCancel(ctx), job)
			if err != nil {
				r.phase = kernel.PhaseChecked
				return w.notStarted(r, key, kernel.ActionChecks, err)
			}
			w.guard.Lock()
			r.checks, r.phase = k, kernel.PhaseChecking
			w.guard.Unlock()
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: kernel.ActionChecks, Status: kernel.OutcomeDone}
		},
	}, nil
}

// changedTree adds the blobs and trees of the base with the change applied.
// Every byte comes from what was hashed.
func changedTree(objs *git.Objects, r *run) (git.OID, error) {
	entries := make(map[string]git.Entry, len(r.base.Entries))
	for _, e := range r.base.Entries {
		entries[e.Path] = e
	}
	for _, ch := range r.built.Diff.Changes {
		if ch.Op == kernel.OpDelete {
			delete(entries, ch.Path)
			continue
		}
		mode, err := fileMode(ch.AfterMode)
		if err != nil {
			return "", err
		}
		id := git.OID(ch.AfterID)
		if ch.Op != kernel.OpMode {
			data, ok := r.built.Contents[ch.AfterID]
			if !ok {
				return "", fmt.Errorf("supervisor: the bytes of %q are missing", ch.Path)
			}
			if id = objs.Blob(data); string(id) != ch.AfterID {
				return "", fmt.Errorf("supervisor: the bytes of %q aren't the hashed ones", ch.Path)
			}
		}
		entries[ch.Path] = git.Entry{Path: ch.Path, Mode: mode, OID: id}
	}
	list := slices.Collect(maps.Values(entries))
	sortEntries(list)
	return objs.Tree(list)
}

func sortEntries(list []git.Entry) {
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
}

// fileMode admits what a change may leave behind: regular files.
func fileMode(s string) (git.Mode, error) {
	switch s {
	case git.ModeFile.String():
		return git.ModeFile, nil
	case git.ModeExec.String():
		return git.ModeExec, nil
	}
	return 0, fmt.Errorf("supervisor: mode %q can't be committed", s)
}

// judge keeps the verdict on the run. Nothing outside happens: the result is
// pushed by the next request, when verdict and report are records already and
// the evidence can hold them.
func (w *worker) judge(ctx context.Context, c *cycle) error {
	r := w.run
	j := &kernel.Judgement{
		State: c.decision.State, NotBefore: c.decision.NotBefore, Codes: c.decision.Codes, WaitingFor: c.decision.WaitingFor,
	}
	if r.violations = c.decision.Violations; c.facts.Paths != nil && c.facts.Paths.Accepted != nil {
		r.accepted = c.facts.Paths.Accepted.Act
	}
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return err
	}
	if j.Accepted() {
		commit, err := changeCommit(git.NewObjects(r.base), r, w.person(0))
		if err != nil {
			return err
		}
		r.change, rep.ChangeCommit = commit, string(commit)
	} else {
		r.change = ""
	}
	if r.report, err = rep.JSON(); err != nil {
		return err
	}
	r.markdown = report.Markdown(rep)
	j.Report = canon.Sum(r.report)
	c.stageLate(kernel.KindReport, r.id, rep)
	c.judged = j
	return nil
}

// stageLate adds a record that the decision makes, after it.
func (c *cycle) stageLate(kind kernel.Kind, run string, body any) {
	c.late = append(c.late, kernel.Draft{Kind: kind, Task: c.task.number, Run: run, Body: body})
}

// accepted reports whether a decision makes a run's work the task's result.
func accepted(d kernel.Decision) bool {
	return kernel.Judgement{State: d.State, WaitingFor: d.WaitingFor}.Accepted()
}

// prepareResult composes the commit point of a result: one request with the
// state ref (old = our lease) and, where the work is accepted, the change
// branch (old = what it had when it was observed, none for a new one), all or none.
func (w *worker) prepareResult(ctx context.Context, c *cycle) (*effect, error) {
	if w.run == nil {
		return w.prepareBlocked(ctx, c)
	}
	r := w.run
	objs := git.NewObjects(r.base)
	if r.change != "" {
		if _, err := changeCommit(objs, r, w.person(0)); err != nil {
			return nil, err
		}
	}
	tree, err := w.evidenceTree(&c.observation, objs, r)
	if err != nil {
		return nil, err
	}
	tr := w.runTrailers(r)
	tr.interruptions, tr.run, tr.refreshInterruptions = c.facts.Head.Interruptions, r.id, 0
	tr.notBefore, tr.codes, tr.change = c.decision.NotBefore, c.decision.Codes, string(r.change)
	if r.change != "" {
		tr.accepts = r.accepted
	}
	made, err := w.output(objs, tree, r.head, c, tr, r.markdown)
	if err != nil {
		return nil, err
	}
	cmds := []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}
	if r.change != "" && r.change != c.change {
		cmds = append(cmds, git.Command{Ref: w.ChangeRef(), Old: old(c.change), New: r.change})
	}
	rep := r.report
	e := w.pushEffect(c, r.id, &push{cmds: cmds, pack: objs.Pack(), seq: made.seq, unshelves: r.shelved && r.sealed == nil, accepted: r.judgement.Accepted(), won: func() {
		w.reportEnd(r.from, rep)
		w.setRun(nil)
		w.s.gotThrough()
	}})
	return w.killFirst(e), nil
}

// gotThrough wakes whose push a rule refused, each once, for somebody else's got through.
func (s *Supervisor) gotThrough() {
	var tasks []int64
	s.locked(func() {
		tasks = slices.Concat(s.hasten(true), slices.Collect(maps.Keys(s.denied)))
		clear(s.denied)
	})
	if s.deps.Healed != nil && len(tasks) > 0 {
		s.deps.Healed(tasks)
	}
}

// changeCommit adds the one clean commit by which somebody delivers the work. Its date is
// the dispatch's, so that it is the same whoever goes on with the work.
func changeCommit(objs *git.Objects, r *run, who git.Person) (git.OID, error) {
	tree, err := changedTree(objs, r)
	if err != nil {
		return "", err
	}
	at, err := time.Parse(time.RFC3339, r.dispatch.Timestamp)
	if err != nil {
		return "", err
	}
	who.Seconds = at.Unix()
	return objs.Commit(git.CommitSpec{
		Tree: tree, Parents: []git.OID{git.OID(r.pack.Pins.BaseCommit)}, Author: who, Committer: who,
		Message: []byte(r.pack.CommitMessage),
	}, nil)
}

// evidenceTree makes the tree of a result: inputs, records, proofs and report.
func (w *worker) evidenceTree(c *observation, objs *git.Objects, r *run) (git.OID, error) {
	ev := c.evidence
	files := map[string][]byte{
		replay.FileDispatch: r.dispatchBytes, replay.FileReport: r.report, replay.FileMarkdown: []byte(r.markdown),
		replay.FileProofs: ev.Proofs, replay.FileCheckpoint: ev.Checkpoint,
	}
	if r.sealed != nil {
		files[sealed.File] = r.sealed
	}
	if !r.slim {
		files[replay.FileRecords] = ev.Records
	}
	if r.judgement.State == kernel.TaskRetryPending {
		var err error
		if files[replay.FileRetry], err = canon.Marshal(w.retryOf(r)); err != nil {
			return "", err
		}
	}
	return evidence(objs, append([]git.Entry{}, r.entries...), files)
}

// evidence adds files to the entries of a state commit's tree.
func evidence(objs *git.Objects, entries []git.Entry, files map[string][]byte) (git.OID, error) {
	for name, data := range files {
		if len(data) > 0 || sealed.Is(name) { // work may have an empty file; of streams nothing is kept then
			entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: objs.Blob(data)})
		}
	}
	sortEntries(entries)
	return objs.Tree(entries)
}

// retryOf is the data that the next dispatch ends with.
func (w *worker) retryOf(r *run) kernel.Retry {
	return kernel.Retry{
		Attempt: r.attempt, Run: r.id, Violations: r.violations,
		Tail: r.checked.Tail, Source: r.judgement.Report,
	}
}

// output adds a commit of the state ref that is neither lease nor stalled.
func (w *worker) output(objs *git.Objects, tree, parent git.OID, c *cycle, tr trailers, body string) (madeCommit, error) {
	return w.outputAt(objs, tree, parent, c.facts.NextSeq(), c, tr, body)
}

// outputAt is output with a number of its own.
func (w *worker) outputAt(objs *git.Objects, tree, parent git.OID, seq int64, c *cycle, tr trailers, body string) (madeCommit, error) {
	tr.waiting = c.decision.WaitingFor
	state := string(c.decision.State)
	return w.stateCommit(&c.observation, objs, stateCommit{
		tree: tree, parent: parent, date: c.nextDate(), seq: seq, trailers: &tr,
		message: func(extra []lease.Trailer) ([]byte, error) {
			return lease.Format(lease.Message{
				Title:    fmt.Sprintf("writ: task %d is %s", w.number, state),
				Body:     body,
				Trailers: append([]lease.Trailer{{Key: lease.KeyState, Value: state}}, extra...),
			})
		},
	})
}

// old is what a command says of a ref at a commit, be it none.
func old(oid git.OID) git.OID { return cmp.Or(oid, git.ZeroOID) }

// prepareBlocked ends a task at whose HEAD nobody works any more: the budget of
// attempts or interruptions is spent.
func (w *worker) prepareBlocked(ctx context.Context, c *cycle) (*effect, error) {
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return nil, err
	}
	return w.endWithoutRun(c, rep)
}

// prepareWait hands the task to a person: a stop, an edit.
func (w *worker) prepareWait(ctx context.Context, c *cycle) (*effect, error) {
	switch what := c.decision.WaitingFor; {
	case what == kernel.WaitRule:
		return w.prepareRuleWait(c)
	case kernel.SealedWait(what):
		return w.prepareSealedWait(ctx, c)
	}
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return nil, err
	}
	e, err := w.endWithoutRun(c, rep)
	if err != nil {
		return nil, err
	}
	return w.killFirst(e), nil
}

// endWithoutRun pushes a state that no run produced, with its report.
func (w *worker) endWithoutRun(c *cycle, rep report.Report) (*effect, error) {
	data, err := rep.JSON()
	if err != nil {
		return nil, err
	}
	md := report.Markdown(rep)
	objs := git.NewObjects()
	var inputs []git.Entry
	if w.run != nil {
		inputs = append(inputs, w.run.entries...)
	}
	tree, err := c.stateTree(objs)
	if !w.bare && err == nil {
		tree, err = evidence(objs, inputs, map[string][]byte{replay.FileReport: data, replay.FileMarkdown: []byte(md)})
	}
	if err != nil {
		return nil, err
	}
	head := git.OID(c.facts.Head.OID)
	tr := trailers{
		run: c.facts.Head.Run(), attempt: c.decision.Attempt, approval: string(c.facts.Head.Approval), interruptions: c.decision.Interruptions,
		governance: string(c.facts.Governance), codes: c.decision.Codes, ledger: string(w.s.deps.Ledger.Chain().Head.Hash),
	}
	if tr.act = c.facts.Head.Act; kernel.NewerAct(c.facts.Spent(), tr.act) {
		tr.act = c.facts.Spent() // only what comes after it moves on
	}
	made, err := w.output(objs, tree, head, c, tr, md)
	if err != nil {
		return nil, err
	}
	from := w.s.deps.Ledger.Chain().Head.Seq + 1
	if w.run != nil {
		from = w.run.from
	}
	e := w.pushEffect(c, c.facts.Head.RunID, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: w.bare,
		won:    func() { w.reportEnd(from, data); w.setRun(nil) },
		failed: func() { w.bare = false },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: c.facts.Head.RunID, Body: rep})
	return e, nil
}

// reportEnd tells the process around us that a run, or a task without one, ended with a
// report.
func (w *worker) reportEnd(from int64, rep []byte) {
	if w.s.deps.Ended != nil {
		w.s.deps.Ended(EndedRun{Task: w.number, From: from, Report: rep})
	}
}

// prepareAbandon ends our processes and forgets the run. Nothing is pushed: HEAD is
// somebody else's, or our time to push is over.
func (w *worker) prepareAbandon(c *observation) (*effect, error) {
	r := w.run
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon},
		do: func(context.Context) kernel.Outcome {
			w.kill()
			if _, unable := w.s.outage.of(w.number); r.hidden || (unable || w.wasLate(r)) && c.facts.Head.OID == string(r.head) {
				w.lapsed = r.head
			}
			w.forgetRun(r)
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: "abandon:" + r.id, Effect: kernel.ActionAbandon, Status: kernel.OutcomeDone}
		},
	}, nil
}

// wasLate reports whether a run's lease ended while an answer was waited for.
func (w *worker) wasLate(r *run) bool {
	w.guard.Lock()
	defer w.guard.Unlock()
	return r.late
}

const (
	// lagPatience is for how long each next claim waits [outageFar] at most, after leases
	// that couldn't be renewed in time. After that it waits lagFar: each costs the server
	// two pushes.
	lagPatience = time.Hour
	lagFar      = 10 * time.Minute
)

// lagCount counts leases in a row that ended because the server showed too late what was
// pushed for them: a replica that lags by more than a renewal takes. Nothing is counted
// against the task, and the next claim waits ever longer, as any try at a server that
// can't.
type lagCount struct {
	n            int
	began, until int64 // Clock.BootMs
}

// forgetRun forgets a run that ended without a result.
func (w *worker) forgetRun(r *run) {
	if r != nil && r.hidden {
		l, now := &w.lagged, w.s.now().BootMs
		if l.n++; l.n == 1 {
			l.began = now
		}
		wait := outageWait(l.n)
		if now-l.began > lagPatience.Milliseconds() {
			wait = lagFar
		}
		l.until = now + w.s.cfg.LeaseSeconds*1000 + wait.Milliseconds() // nobody can claim before the lease ends
		w.say("the server shows too late what was pushed for a lease to be renewed in time: the next claim waits %s", wait)
	}
	w.setRun(nil)
}

// prepareComplete composes the end of a task whose change is merged: the tree of the
// result that waited, with its report brought to its final state and the facts that the
// decision rests on. Any trusted instance may push it; it is put on the very result that
// waited, or not at all.
func (w *worker) prepareComplete(c *cycle) (*effect, error) {
	facts, err := canon.Marshal(replay.MergeRecord{
		Kind: replay.KindMerge, Result: c.facts.Head.OID, Kernel: kernel.Version(), Facts: c.facts,
	})
	if err != nil {
		return nil, err
	}
	final := c.waited.report.AtMerge(*mergeOf(c.facts.Issue.Change))
	data, err := final.JSON()
	if err != nil {
		return nil, err
	}
	md := report.Markdown(final)
	replaced := map[string][]byte{replay.FileReport: data, replay.FileMarkdown: []byte(md), replay.FileMerge: facts}
	kept := slices.DeleteFunc(slices.Clone(c.waited.entries), func(e git.Entry) bool { return replaced[e.Path] != nil || e.Path == replay.FileRefresh })
	objs := git.NewObjects()
	tree, err := evidence(objs, kept, replaced)
	if err != nil {
		return nil, err
	}
	head := git.OID(c.facts.Head.OID)
	tr := resultTrailers(c.event)
	tr.branch = c.replaced() // which change is this one's, is told by it for good
	tr.ledger = string(w.s.deps.Ledger.Chain().Head.Hash)
	made, err := w.output(objs, tree, head, c, tr, md)
	if err != nil {
		return nil, err
	}
	from, run := w.s.deps.Ledger.Chain().Head.Seq+1, c.facts.Head.LastRun
	return w.pushEffect(c, run, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		won: func() { w.reportEnd(from, data) },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: run, Body: final}), nil
}

// prepareRedeliver composes the push of a change branch that a result lacks.
func (w *worker) prepareRedeliver(c *cycle) (*effect, error) {
	m := w.missing
	return w.pushEffect(c, c.facts.Head.Run(), &push{
		cmds: []git.Command{{Ref: w.ChangeRef(), Old: old(c.change), New: m.change}}, pack: m.pack,
		won: func() { m.rest(w.s.now().WallMs, nil) }, // until a look shows it
	}), nil
}
