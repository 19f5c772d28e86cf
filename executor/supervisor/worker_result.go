package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

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

// prepareResult composes the commit point of a result: one request with the
// state ref (old = our lease) and, where the work is accepted, the change
// branch (old = none), all or none (DESIGN §4).
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
	e := w.pushed(c, r.id, &push{cmds: cmds, pack: objs.Pack(), seq: made.seq, unshelves: r.shelved && r.sealed == nil, accepted: r.judgement.Accepted(), won: func() {
		w.ended(r.from, rep)
		w.setRun(nil)
		w.s.gotThrough()
	}})
	return w.killFirst(e), nil
}

// output adds a commit of the state ref that is neither lease nor stalled.
func (w *worker) output(objs *git.Objects, tree, parent git.OID, c *cycle, tr trailers, body string) (stated, error) {
	return w.outputAt(objs, tree, parent, c.facts.NextSeq(), c, tr, body)
}

// outputAt is output with a number of its own.
func (w *worker) outputAt(objs *git.Objects, tree, parent git.OID, seq int64, c *cycle, tr trailers, body string) (stated, error) {
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
	e := w.pushed(c, c.facts.Head.RunID, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: w.bare,
		won:    func() { w.ended(from, data); w.setRun(nil) },
		failed: func() { w.bare = false },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: c.facts.Head.RunID, Body: rep})
	return e, nil
}

// ended tells the process around us that a cycle is over.
func (w *worker) ended(from int64, rep []byte) {
	if w.s.deps.Ended != nil {
		w.s.deps.Ended(Cycle{Task: w.number, From: from, Report: rep})
	}
}

func sortEntries(list []git.Entry) {
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
}

// prepareRedeliver composes the push of a change branch that a result lacks.
func (w *worker) prepareRedeliver(c *cycle) (*effect, error) {
	m := w.missing
	return w.pushed(c, c.facts.Head.Run(), &push{
		cmds: []git.Command{{Ref: w.ChangeRef(), Old: old(c.change), New: m.change}}, pack: m.pack,
		won: func() { m.rest(w.s.now().WallMs, nil) }, // until a look shows it
	}), nil
}

// old is what a command says of a ref at a commit, be it none.
func old(oid git.OID) git.OID { return cmp.Or(oid, git.ZeroOID) }
