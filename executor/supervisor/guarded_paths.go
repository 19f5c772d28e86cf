package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/pathdiff"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// readPaths reads which guarded paths the work at hand changes, that of the live run, what
// HEAD waits with, or what is to replace the delivered work, and who accepts what they hold:
// the comments of the issue as they are now, and the permission of their authors as the forge
// has it now.
func (o *observer) readPaths(ctx context.Context, c *observation, seen *approval.Facts) error {
	var diff kernel.Diff
	var dispatch canon.Digest
	accept := c.intake.accept
	switch r := o.worker.run; {
	case r != nil && (r.phase == kernel.PhaseClaimed || r.phase == kernel.PhaseBuilding):
		return nil // nobody has said yet what it changes
	case r != nil:
		diff, dispatch, accept = r.built.Diff, r.dispatchHash, r.intake.accept
	case c.facts.Head.AwaitsPaths() && c.facts.Sealed != nil:
		diff, dispatch = c.left.work.Diff, c.left.facts.Dispatch
	case c.facts.RefreshNext() && c.fresh != nil:
		diff, dispatch = c.fresh.built.Diff, c.facts.Refresh.Dispatch
	case c.facts.ResumesFix():
		diff, dispatch = c.left.work.Diff, c.left.facts.Dispatch
	}
	if len(diff.Guarded) == 0 {
		return nil
	}
	digest, err := kernel.PathsDigest(o.s.cfg.World, o.number, dispatch, diff)
	if err != nil {
		return err
	}
	c.facts.Paths = &kernel.PathsFacts{Digest: digest, Needs: accept, Paths: diff.Guarded}
	if seen == nil {
		return nil
	}
	for _, account := range approval.Accepters(*seen, digest) {
		if err := (&forgeIssues{s: o.s, number: o.number}).askAbout(ctx, seen, account); err != nil {
			return err
		}
	}
	c.facts.Paths.Accepted = approval.Acceptance(*seen, digest, accept)
	return nil
}

// prepareSealedWait composes the wait for somebody to accept guarded paths, or to give the
// checks what they lack: the run ends with its work sealed in the tree of HEAD, and no
// branch has any of it. A server that takes none of that is tried with HEAD's own tree, and
// our store keeps the work.
func (w *worker) prepareSealedWait(ctx context.Context, c *cycle) (*effect, error) {
	r := w.run
	rep, err := w.buildReport(ctx, c)
	if err != nil {
		return nil, err
	}
	data, err := rep.JSON()
	if err != nil {
		return nil, err
	}
	md := report.Markdown(rep)
	files, err := workOf(r).Files()
	if err != nil {
		return nil, err
	}
	files[replay.FileReport], files[replay.FileMarkdown] = data, []byte(md)
	objs := git.NewObjects()
	tree, err := c.stateTree(objs)
	if !w.bare && err == nil {
		tree, err = evidence(objs, slices.Clone(r.entries), files)
	}
	if err != nil {
		return nil, err
	}
	tr := w.runTrailers(r)
	tr.run, tr.interruptions, tr.codes, tr.notBefore = r.id, c.decision.Interruptions, c.decision.Codes, c.decision.NotBefore
	made, err := w.output(objs, tree, r.head, c, tr, md)
	if err != nil {
		return nil, err
	}
	e := w.pushEffect(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		bare: w.bare, unshelves: !w.bare,
		won: func() {
			w.reportEnd(r.from, data)
			w.setRun(nil)
		},
		failed: func() { w.bare = false },
	}, kernel.Draft{Kind: kernel.KindReport, Task: w.number, Run: r.id, Body: rep})
	return w.killFirst(e), nil
}

// Held is work that waits for somebody to accept its guarded paths.
type Held struct {
	Digest canon.Digest // that accepts them
	Paths  []kernel.GuardedPath
	Diff   string // of these paths, with everything spelled out that can't be seen
}

// HeldAt reads the work that waits for its guarded paths at a state commit: in its tree, or
// where a delivered result stands whose revision waits, in that of the lease below it. It is
// nil for none. Whose commit that is, is for the caller to judge.
func HeldAt(ctx context.Context, repo Repo, world string, at git.OID) (*Held, error) {
	commit, err := repo.Commit(ctx, at)
	if err != nil {
		return nil, err
	}
	ev, err := eventOf(commit, false)
	switch {
	case err != nil:
		return nil, err
	case trailer(ev, kernel.TrailerWaitingFor) == kernel.WaitPaths:
	case ev.State != kernel.HeadWorking && trailer(ev, kernel.TrailerRefreshInterruptions) != "" && len(commit.Parents) == 1:
		at = commit.Parents[0]
	default:
		return nil, nil
	}
	tree, err := repo.Tree(ctx, at)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(ctx, repo, slices.DeleteFunc(slices.Clone(tree.Entries), func(e git.Entry) bool { return !sealed.Is(e.Path) }))
	if err != nil || files[sealed.File] == nil {
		return nil, err
	}
	work, err := sealed.Read(files)
	if err != nil {
		return nil, &executor.Error{Code: kernel.CodeEvidenceInvalid, Detail: "the sealed work in the state commit " + string(at) + " can't be read", Err: err}
	}
	if len(work.Diff.Guarded) == 0 {
		return nil, nil
	}
	return heldOf(ctx, repo, world, work)
}

func heldOf(ctx context.Context, repo Repo, world string, work sealed.Work) (*Held, error) {
	dispatch, err := canon.Hash(work.Dispatch)
	if err != nil {
		return nil, err
	}
	h := &Held{Paths: work.Diff.Guarded}
	if h.Digest, err = kernel.PathsDigest(world, work.Dispatch.TaskID, dispatch, work.Diff); err != nil {
		return nil, err
	}
	var changes []kernel.Change
	var ids []git.OID
	for _, c := range work.Diff.Changes {
		if !slices.ContainsFunc(work.Diff.Guarded, func(g kernel.GuardedPath) bool { return g.Path == c.Path }) {
			continue
		}
		changes = append(changes, c)
		if c.BeforeID != "" && !slices.Contains(ids, git.OID(c.BeforeID)) {
			ids = append(ids, git.OID(c.BeforeID))
		}
	}
	before := map[string][]byte{}
	if len(ids) > 0 {
		err = repo.Blobs(ctx, ids, func(oid git.OID, data []byte) error { before[string(oid)] = slices.Clone(data); return nil })
	}
	h.Diff = pathdiff.Text(changes, func(id string) ([]byte, bool) {
		if data, ok := before[id]; ok {
			return data, true
		}
		data, ok := work.Contents[id]
		return data, ok
	})
	return h, err
}

// maxShownDiff is how long a diff stands in a comment, in bytes: what a report needs beside
// it still fits.
const maxShownDiff = maxComment - 16_000

// acceptWords show what guarded paths would hold, and the line that accepts it.
func (i *tracker) acceptWords(c *observation, h *Held, what, then string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s. Nothing of it was pushed to a branch. ", what, report.Counted(len(h.Paths), "path"))
	if len(h.Diff) > maxShownDiff {
		fmt.Fprintf(&b, "The change of them is too long for a comment: `writ task show %d --diff` shows it.\n", i.number)
	} else {
		fence := fenceFor(h.Diff)
		fmt.Fprintf(&b, "What they would hold, with everything spelled out that can't be seen:\n\n%s\n%s%s\n", fence+"diff", h.Diff, fence)
	}
	fmt.Fprintf(&b, "\nSomebody with the permission `%s` can accept exactly this by the first line of a comment, %s:\n\n```\n/writ accept %s\n```\n\nIf any of it changes, the line counts for nothing.", plainWord(c.facts.Paths.Needs), then, h.Digest)
	return b.String()
}

// waitedWords say what became of a revision or a refresh that waited for its guarded paths,
// where nobody is asked to accept them now.
func (i *tracker) waitedWords(c *observation, what string) string {
	f := c.facts
	var why []kernel.Violation
	switch {
	case f.Fixable() || f.Refreshable():
		return ""
	case f.FixLapsed() && f.Sealed != nil && len(f.Sealed.Faults) > 0:
		why = f.Sealed.Faults
	case f.FixLapsed():
		why = []kernel.Violation{{Code: kernel.CodeInstructionChanged, Detail: "What was said to its builder was edited or taken back, who said it may not ask for it any more, or its work is lost."}}
	case f.RefreshNext():
		why = f.RefusesRefresh()
	default:
		why = f.RefusesFix()
	}
	text := "\n" + what + " waited for its guarded paths and isn't delivered. The change is as it was"
	if len(why) == 0 {
		return text + ".\n"
	}
	return text + ":\n\n" + bullets(why)
}

// fenceFor is a fence that no line of a text ends.
func fenceFor(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}
