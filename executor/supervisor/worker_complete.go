package supervisor

import (
	"slices"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

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
	return w.pushed(c, run, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		won: func() { w.ended(from, data) },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: run, Body: final}), nil
}

// accepted reports whether a decision makes a run's work the task's result.
func accepted(d kernel.Decision) bool {
	return kernel.Judgement{State: d.State, WaitingFor: d.WaitingFor}.Accepted()
}
