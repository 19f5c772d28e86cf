package supervisor

import (
	"fmt"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// judge keeps the verdict on the run. Nothing outside happens: the result is
// pushed by the next request, when verdict and report are records already and
// the evidence can hold them.
func (t *Task) judge(c *cycle) error {
	r := t.run
	j := &kernel.Judgement{
		State: c.decision.State, NotBefore: c.decision.NotBefore, Codes: c.decision.Codes, WaitingFor: c.decision.WaitingFor,
	}
	r.violations = c.decision.Violations
	rep := t.buildReport(c)
	if j.State == kernel.TaskCompleted {
		commit, err := t.changeCommit(git.NewObjects(r.base), r)
		if err != nil {
			return err
		}
		r.change, rep.ChangeCommit = commit, string(commit)
	} else {
		r.change = ""
	}
	var err error
	if r.report, err = rep.JSON(); err != nil {
		return err
	}
	r.markdown = report.Markdown(rep)
	j.Report = canon.Sum(r.report)
	c.stageLate(kernel.KindReport, r.id, rep)
	c.judged = j
	return nil
}

// changeCommit adds the one clean commit that delivers the work.
func (t *Task) changeCommit(objs *git.Objects, r *run) (git.OID, error) {
	tree, err := changedTree(objs, r)
	if err != nil {
		return "", err
	}
	var signer git.Signer
	if r.intake.SignCommit {
		signer = t.s.deps.Signer
	}
	return objs.Commit(git.CommitSpec{
		Tree: tree, Parents: []git.OID{git.OID(r.pack.Pins.BaseCommit)},
		Author: t.person(r.objects.seconds), Committer: t.person(r.objects.seconds),
		Message: []byte(r.pack.CommitMessage),
	}, signer)
}

// prepareResult composes the commit point of a result: one request with the
// state ref (old = our lease) and, where the work is accepted, the change
// branch (old = none), all or none (DESIGN §4).
func (t *Task) prepareResult(c *cycle) (*effect, error) {
	if t.run == nil {
		return t.prepareBlocked(c)
	}
	r := t.run
	objs := git.NewObjects(r.base)
	if r.change != "" {
		if _, err := t.changeCommit(objs, r); err != nil {
			return nil, err
		}
	}
	tree, err := t.evidenceTree(c, objs, r)
	if err != nil {
		return nil, err
	}
	w := t.runTrailers(r)
	w.interruptions, w.run = c.facts.Head.Interruptions, r.id
	w.notBefore, w.codes, w.change = c.decision.NotBefore, c.decision.Codes, string(r.change)
	oid, err := t.output(objs, tree, r.head, c, w, r.markdown)
	if err != nil {
		return nil, err
	}
	cmds := []git.Command{{Ref: t.StateRef(), Old: r.head, New: oid}}
	if r.change != "" {
		cmds = append(cmds, git.Command{Ref: t.ChangeRef(), Old: git.ZeroOID, New: r.change})
	}
	rep := r.report
	e := t.pushed(c, r.id, &push{cmds: cmds, pack: objs.Pack(), won: func() { t.ended(r.from, rep); t.setRun(nil) }})
	return t.killFirst(e), nil
}

// serverSays notes a refusal of a result. The first time the evidence falls back
// to hashes; the second time the task is blocked with the server's words; if
// even that is refused the run is given up, which is reported. Nothing is pushed
// again unchanged (case G6).
func (t *Task) serverSays(r *run, words string) (giveUp bool) {
	switch {
	case !r.slim:
		r.slim = true
	case r.judgement != nil && r.judgement.State == kernel.TaskBlocked:
		return true
	default:
		r.refused = []kernel.Violation{{Code: kernel.CodePushRefused, Subject: t.ChangeRef(), Detail: words}}
	}
	return false
}

// output adds a commit of the state ref that is neither lease nor stalled.
func (t *Task) output(objs *git.Objects, tree, parent git.OID, c *cycle, w trailers, body string) (git.OID, error) {
	w.waiting = c.decision.WaitingFor
	state := string(c.decision.State)
	msg, err := lease.Format(lease.Message{
		Title:    fmt.Sprintf("writ: task %d is %s", t.number, state),
		Body:     body,
		Trailers: append([]lease.Trailer{{Key: lease.KeyState, Value: state}}, w.list()...),
	})
	if err != nil {
		return "", err
	}
	return t.stateCommit(objs, tree, parent, msg, c.nextDate())
}

// evidenceTree makes the tree of a result: inputs, records, proofs and report.
func (t *Task) evidenceTree(c *cycle, objs *git.Objects, r *run) (git.OID, error) {
	ev := c.evidence
	files := map[string][]byte{
		replay.FileDispatch: r.dispatchBytes, replay.FileReport: r.report, replay.FileMarkdown: []byte(r.markdown),
		replay.FileProofs: ev.Proofs, replay.FileCheckpoint: ev.Checkpoint,
	}
	if !r.slim {
		files[replay.FileRecords] = ev.Records
	}
	if r.judgement.State == kernel.TaskRetryPending {
		var err error
		if files[replay.FileRetry], err = canon.Marshal(t.retryOf(r)); err != nil {
			return "", err
		}
	}
	return evidence(objs, append([]git.Entry{}, r.entries...), files)
}

// evidence adds files to the entries of a state commit's tree.
func evidence(objs *git.Objects, entries []git.Entry, files map[string][]byte) (git.OID, error) {
	for name, data := range files {
		if len(data) > 0 {
			entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: objs.Blob(data)})
		}
	}
	sortEntries(entries)
	return objs.Tree(entries)
}

// retryOf is the data that the next dispatch ends with.
func (t *Task) retryOf(r *run) kernel.Retry {
	return kernel.Retry{
		Attempt: r.attempt, Run: r.id, Violations: r.violations,
		Tail: r.checked.Tail, Source: r.judgement.Report,
	}
}

// prepareBlocked ends a task at whose HEAD nobody works any more: the budget of
// attempts or interruptions is spent.
func (t *Task) prepareBlocked(c *cycle) (*effect, error) {
	rep := t.buildReport(c)
	return t.endWithoutRun(c, rep)
}

// prepareWait hands the task to a person: a stop, an edit.
func (t *Task) prepareWait(c *cycle) (*effect, error) {
	rep := t.buildReport(c)
	e, err := t.endWithoutRun(c, rep)
	if err != nil {
		return nil, err
	}
	return t.killFirst(e), nil
}

// endWithoutRun pushes a state that no run produced, with its report.
func (t *Task) endWithoutRun(c *cycle, rep report.Report) (*effect, error) {
	data, err := rep.JSON()
	if err != nil {
		return nil, err
	}
	md := report.Markdown(rep)
	objs := git.NewObjects()
	var inputs []git.Entry
	if t.run != nil {
		inputs = append(inputs, t.run.entries...)
	}
	tree, err := evidence(objs, inputs, map[string][]byte{replay.FileReport: data, replay.FileMarkdown: []byte(md)})
	if err != nil {
		return nil, err
	}
	head := git.OID(c.facts.Head.OID)
	w := trailers{
		run: c.facts.Head.Run(), attempt: c.decision.Attempt, approval: string(c.facts.Head.Approval), interruptions: c.decision.Interruptions,
		governance: string(c.facts.Governance), codes: c.decision.Codes, ledger: string(t.s.deps.Ledger.Chain().Head.Hash),
	}
	if w.act = c.facts.Head.Act; kernel.NewerAct(c.facts.Act, w.act) {
		w.act = c.facts.Act // spent: only what comes after it moves on
	}
	oid, err := t.output(objs, tree, head, c, w, md)
	if err != nil {
		return nil, err
	}
	from := t.s.deps.Ledger.Chain().Head.Seq + 1
	if t.run != nil {
		from = t.run.from
	}
	e := t.pushed(c, c.facts.Head.RunID, &push{
		cmds: []git.Command{{Ref: t.StateRef(), Old: head, New: oid}}, pack: objs.Pack(),
		won: func() { t.ended(from, data); t.setRun(nil) },
	}, kernel.Draft{Kind: kernel.KindReport, Task: t.number, Run: c.facts.Head.RunID, Body: rep})
	return e, nil
}

// ended tells the process around us that a cycle is over.
func (t *Task) ended(from int64, rep []byte) {
	if t.s.deps.Ended != nil {
		t.s.deps.Ended(Cycle{Task: t.number, From: from, Report: rep})
	}
}
