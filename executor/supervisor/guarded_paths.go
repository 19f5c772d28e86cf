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
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
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
	e := w.pushed(c, r.id, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: r.head, New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		bare: w.bare, unshelves: !w.bare,
		won: func() {
			w.ended(r.from, data)
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

// sealedAt reads what lies sealed in the tree of a state commit, without its files; zero for
// nothing that can be read.
func sealedAt(ctx context.Context, repo Repo, at git.OID) (m sealed.Manifest, err error) {
	tree, err := repo.Tree(ctx, at)
	if err != nil {
		return m, gitTrouble(err)
	}
	files, err := filesOf(ctx, repo, slices.DeleteFunc(slices.Clone(tree.Entries), func(e git.Entry) bool { return e.Path != sealed.File }))
	if err != nil || files[sealed.File] == nil {
		return m, err
	}
	if m, err = sealed.Decode(files[sealed.File]); err != nil {
		return sealed.Manifest{}, nil //nolint:nilerr // whoever goes on with it says so
	}
	return m, nil
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
	case said(ev, kernel.TrailerWaitingFor) == kernel.WaitPaths:
	case ev.State != kernel.HeadWorking && said(ev, kernel.TrailerRefreshInterruptions) != "" && len(commit.Parents) == 1:
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

// pathsWords show what somebody is asked to accept, and how. They are a function of HEAD,
// the base and the contract, and of what is asked of delivered work.
func (i *tracker) pathsWords(ctx context.Context, c *observation) (string, error) {
	const without = "and it is delivered without another build"
	f := c.facts
	if f.ReplacementHeld() && f.RefreshNext() {
		what := "Applied on the base " + c.commitLink(string(c.intake.BaseCommit)) + ", as is asked, the work changes guarded paths"
		return i.acceptWords(c, c.fresh.held, what, "and once its checks have passed there it is delivered, without a builder") + " `/writ reject` gives that up, and the change stays as it is. Once the base moves on, it is another line. What is asked of the change meanwhile waits.\n", nil
	}
	if !f.Head.AwaitsPaths() && !f.ReplacementHeld() {
		return "", nil
	}
	if s := f.Sealed; f.Paths == nil || s == nil || len(s.Faults) > 0 || s.Governance != f.Governance || s.Approval != f.Head.Approval {
		why := "It can't be read."
		if s != nil && len(s.Faults) > 0 {
			why = plainWord(s.Faults[0].Detail)
		}
		return "\nThe work that waits can't be delivered any more: `" + why + "` `/writ retry` has it built anew, `/writ reject` ends it.\n", nil
	}
	if c.left.held == nil {
		h, err := heldOf(ctx, i.s.deps.Repo, i.s.cfg.World, c.left.work)
		if err != nil {
			return "", err
		}
		c.left.held = h
	}
	if !f.Head.AwaitsPaths() {
		return i.acceptWords(c, c.left.held, "The revision is done, and changes guarded paths", without) + " `/writ reject` gives it up, and the change stays as it is. A `/writ refresh` waits meanwhile.\n", nil
	}
	return i.acceptWords(c, c.left.held, "The work is done, and changes guarded paths", without) + " `/writ reject` ends it.\n", nil
}

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

// mayAccept reports whether who asks to accept guarded paths has the permission for it,
// which is another one than the trigger's.
func (c *observation) mayAccept(seen *approval.Facts, a approval.Asked) bool {
	least, err := forge.ParsePermission(c.intake.accept)
	return err == nil && a.Author.Kind == forge.Person && seen.Permissions[a.Author.ID] >= least
}

// goesOnWithSealed reports whether a run goes on with sealed work, or was to and was cut off:
// what was accepted of it is no more at HEAD, and not yet delivered.
func (i *tracker) goesOnWithSealed(ctx context.Context, c *observation) (bool, error) {
	if r := i.worker.run; r != nil {
		return r.resumes != "", nil
	}
	switch h := c.facts.Head; {
	case !h.Trusted():
		return false, nil
	case h.State == kernel.HeadWorking:
		return said(c.event, kernel.TrailerResumes) != "", nil
	case h.State != kernel.HeadStalled:
		return false, nil
	}
	tree, err := i.s.deps.Repo.Tree(ctx, c.head.Tree) // of the lease that was broken or given back
	if err != nil {
		return false, gitTrouble(err)
	}
	return slices.ContainsFunc(tree.Entries, func(e git.Entry) bool { return e.Path == sealed.File }), nil
}

// acceptAnswer is what somebody is answered who accepts.
func (i *tracker) acceptAnswer(c *observation, a approval.Asked) (forge.Reaction, string) {
	p, why := c.facts.Paths, c.facts.RefusesReplacement()
	switch {
	case said(c.event, kernel.TrailerAccepts) == a.ID:
		return forge.ReactionDone, ""
	case p != nil && a.Command.Digest == p.Digest && len(why) > 0:
		return forge.ReactionConfused, "It isn't delivered, and the change stays as it is:\n\n" + bullets(why)
	case p != nil && !p.Held() && a.Command.Digest == p.Digest:
		return forge.ReactionDone, ""
	case p == nil && !c.facts.Head.AwaitsPaths():
		return forge.ReactionConfused, "Nothing waits for that: no work of this task waits for its guarded paths.\n"
	}
	return forge.ReactionConfused, "That is not the digest of what waits now. The status comment shows what does, and the line that accepts it.\n"
}

// workflowFiles are what GitHub takes no push of from an App that lacks the permission
// workflows.
const workflowFiles = ".github/workflows/"

// limitWorkflows forbids GitHub's workflows to a task that could change them, where GitHub
// would refuse them of writ, whoever accepted that. It is asked before a builder is paid.
func (o *observer) limitWorkflows(ctx context.Context, in *Intake) error {
	if !in.Scope.Accepts || o.s.deps.Forge == nil || o.s.deps.Forge.Workflows == nil {
		return nil
	}
	globs, _ := scope.ParseGlobs(in.Scope.Allowed)
	under := func(pattern string) bool { return strings.HasPrefix(scope.Fold(pattern), workflowFiles) }
	named := slices.DeleteFunc(slices.Clone(in.Scope.Allowed), func(p string) bool { return !under(p) })
	if len(named) == 0 && !globs.Match(workflowFiles+"ci.yml") && !globs.Match(workflowFiles+"ci.yaml") {
		return nil
	}
	may, err := o.s.deps.Forge.Workflows(ctx)
	if err != nil || may {
		return err
	}
	const why = "writ's GitHub App lacks the permission `workflows`, without which GitHub takes no change of a workflow"
	in.Scope.Forbidden = append(slices.Clone(in.Scope.Forbidden), workflowFiles+"**")
	in.Notes = append(in.Notes, "The workflows in "+workflowFiles+" are forbidden: "+why+".")
	for _, p := range named {
		in.Input = append(in.Input, kernel.Violation{Code: kernel.CodeProtectedPath, Subject: p, Detail: "The task names workflows, and " + why + "."})
	}
	return nil
}
