package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// rebasedHere is what the base as it is now means for the change at HEAD. Commits never
// change, so what was found last is kept.
func (i *tracker) rebasedHere(ctx context.Context, c *observation) (rebased, error) {
	tip, on, change := c.intake.BaseCommit, c.builtOn(), c.verified()
	if tip == on || on == "" || change == "" {
		return rebased{}, nil
	}
	if key := [2]git.OID{change, tip}; i.rebased.key != key {
		was, err := i.s.deps.Repo.Tree(ctx, on)
		if err != nil {
			return rebased{}, gitTrouble(err)
		}
		is, err := i.s.deps.Repo.Tree(ctx, change)
		if err != nil {
			return rebased{}, gitTrouble(err) // what can't be read is told of elsewhere
		}
		r, err := rebasedOn(ctx, i.s.deps.Repo, changesOf(was, is), c.intake.base)
		if err != nil {
			return rebased{}, err
		}
		i.rebased = rebased{key: key, conflicts: r.Conflicts, terms: c.otherTerms(is)}
		for _, m := range r.Merged {
			i.rebased.merged = append(i.rebased.merged, m.Path)
		}
	}
	return i.rebased, nil
}

// rebased is what a base that moved on means for a change.
type rebased struct {
	key       [2]git.OID // change and base
	conflicts []string
	merged    []string // paths that a refresh merges by lines
	terms     bool     // the base has another contract by now than the change
}

// otherTerms reports whether the base has another contract by now than a delivered commit,
// which is under its own and can't be revised under that of the base.
func (c *observation) otherTerms(delivered git.Tree) bool {
	e, ok := delivered.Find(contract.Path)
	return c.intake.Source == contract.Path && (!ok || e.OID != git.HashBlob(c.intake.Contract))
}

// adaptWords say what a revision does where the delivered work no longer applies: it stands
// on its old base all the same.
func (i *tracker) adaptWords(c *observation) string {
	if i.rebased.terms && i.rebased.key == [2]git.OID{c.verified(), c.intake.BaseCommit} {
		return "`/writ fix` and `/writ refresh` don't help here, since the base has another contract by now as well. "
	}
	return "Or comment `/writ fix` and what should be different: a builder adapts the change, but on its old base, and it knows of the new one only what you say. " +
		"`/writ refresh` applies it once it leaves those lines alone, or has them as the base has. "
}

// rebasedOn applies a verified diff on another base, with the files that this takes. What
// can't be read isn't merged.
func rebasedOn(ctx context.Context, repo Repo, changes []kernel.Change, base git.Tree) (replay.Rebase, error) {
	blobs := map[git.OID][]byte{}
	if ids := replay.ToMerge(changes, base); len(ids) > 0 {
		err := repo.Blobs(ctx, ids, func(oid git.OID, data []byte) error {
			blobs[oid] = bytes.Clone(data)
			return nil
		})
		if gitTrouble(err) != nil {
			return replay.Rebase{}, err
		}
	}
	return replay.Rebased(changes, base, blobs), nil
}

// changesOf are the changes that lead from one tree to another, as far as trees tell.
func changesOf(was, is git.Tree) (out []kernel.Change) {
	for _, path := range git.Unequal(was, is) {
		ch := kernel.Change{Path: path}
		if e, there := was.Find(path); there {
			ch.BeforeID, ch.BeforeMode = string(e.OID), e.Mode.String()
		}
		switch e, there := is.Find(path); {
		case !there:
			ch.Op = kernel.OpDelete
		default:
			ch.AfterID, ch.AfterMode = string(e.OID), e.Mode.String()
		}
		out = append(out, ch)
	}
	return out
}

const (
	// maxNamedConflicts is how many paths an answer lists.
	maxNamedConflicts = 10
	// maxNamed is how many a sentence names, and maxNamedPath how much of each, in
	// characters: the status comment has to stay short.
	maxNamed, maxNamedPath = 3, 50
)

// named lists paths for a sentence.
func named(paths []string) string {
	words := make([]string, 0, len(paths))
	for _, p := range paths[:min(len(paths), maxNamed)] {
		words = append(words, "`"+report.Short(plainWord(scope.Display(p)), maxNamedPath)+"`")
	}
	if more := len(paths) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return strings.Join(words, "")
}

// freshWork is the delivered work at HEAD, made again on the base as it is now under one
// contract.
type freshWork struct {
	head, tip  git.OID
	governance canon.Digest

	dispatch      kernel.Dispatch
	dispatchBytes []byte
	built         executor.BuildOutcome
	covered       []string // comments that it was revised for
	faults        []kernel.Violation
	held          *Held // what of it somebody has to accept, nil for nothing
}

// readRefresh reads whether somebody who may asks for the delivered work to be applied on
// the base as it is now, and makes it again there. Each look asks for what may have changed
// since: the permission, the change on the forge and its branch.
func (o *observer) readRefresh(ctx context.Context, c *observation, seen *approval.Facts) error {
	asked := c.request == kernel.RequestTick || c.request == kernel.RequestTell
	if o.worker.run != nil || !asked || seen == nil || c.noBase != nil || !c.facts.Delivered() || c.facts.Undone {
		return nil //nolint:nilerr // without a base there is nothing to apply the work on
	}
	act, err := o.refreshAsked(ctx, c, seen)
	if err != nil {
		return err
	}
	h := c.facts.Head
	r := &kernel.RefreshFacts{
		Run: h.LastRun, Base: string(c.intake.BaseCommit), Act: act.ID(), Actor: fmt.Sprintf("%d:%s", act.Actor.ID, act.Actor.Login), Faults: []kernel.Violation{},
	}
	if act.Verb == "" {
		if r.Act, r.Auto = c.autoRefresh(); r.Auto == nil {
			return nil
		}
		r.Actor = "0:contract"
	}
	c.facts.Refresh = r
	if r.Faults, err = o.keptFromRefresh(ctx, c); err != nil || len(r.Faults) > 0 {
		return err
	}
	tip := c.intake.BaseCommit
	if k := o.fresh; k == nil || string(k.head) != h.OID || k.tip != tip || k.governance != c.intake.Governance {
		k = &freshWork{head: git.OID(h.OID), tip: tip, governance: c.intake.Governance}
		if err := o.makeAgain(ctx, c, k); err != nil {
			return err
		}
		o.fresh = k
	}
	k := o.fresh
	c.fresh = k
	r.Faults, r.Resumes, r.Dispatch, r.Attempt = append(r.Faults, k.faults...), k.dispatch.RunID, canon.Sum(k.dispatchBytes), k.dispatch.Attempt
	return nil
}

// autoRefresh is whether the contract asks for it, where nobody does: the base moved on, and
// it wasn't tried there.
func (c *observation) autoRefresh() (act string, auto *kernel.AutoRefresh) {
	if c.intake.autoRefreshes == 0 || c.builtOn() == c.intake.BaseCommit {
		return "", nil
	}
	act, nth := kernel.AutoAct(c.facts.Head, string(c.intake.BaseCommit))
	if act == "" {
		return "", nil
	}
	return act, &kernel.AutoRefresh{Nth: nth, Most: c.intake.autoRefreshes, Due: c.headAt() + kernel.AutoEvery}
}

// refreshAsked is the command that asks for it, if that is there and wasn't answered in
// words: then it doesn't count later either, however the task stands then.
func (o *observer) refreshAsked(ctx context.Context, c *observation, seen *approval.Facts) (approval.Act, error) {
	after, again := c.spentActs()
	settled := o.settledOn(seen)
	for _, account := range approval.Refreshers(*seen, after, again, settled) {
		if err := (&forgeIssues{s: o.s, number: o.number}).askAbout(ctx, seen, account); err != nil {
			return approval.Act{}, err
		}
	}
	return approval.RefreshAsked(*seen, after, again, settled), nil
}

// spentActs are the act after which another counts that asks for something with delivered
// work, and the one that counts again, "" for none.
func (c *observation) spentActs() (after, again string) {
	h := c.facts.Head
	if after = h.RefreshAct; !kernel.NewerAct(after, h.Act) {
		after = h.Act
	}
	if h.RefreshOwed {
		again = h.RefreshAct
	}
	return after, again
}

// settledOn reports of a command whether the issue shows that it was answered in words.
func (o *observer) settledOn(seen *approval.Facts) func(comment int64) bool {
	told := o.marker().repliesOn(ownComments(*seen)).told
	return func(comment int64) bool { return told[comment] }
}

// keptFromRefresh is what keeps the delivered change from being replaced, whatever it holds:
// nobody's commit on its branch is ever forced over.
func (o *observer) keptFromRefresh(ctx context.Context, c *observation) ([]kernel.Violation, error) {
	one := func(code kernel.Code, subject, format string, args ...any) ([]kernel.Violation, error) {
		return []kernel.Violation{{Code: code, Subject: subject, Detail: fmt.Sprintf(format, args...)}}, nil
	}
	switch verified, branch := c.verified(), o.tracker.changeBranch(); {
	case c.builtOn() == c.intake.BaseCommit:
		return one(kernel.CodeTargetIneligible, "base", "The change is on the base as it is now.")
	case c.change.IsZero():
		return one(kernel.CodeTargetIneligible, branch, "The change branch isn't there any more.")
	case c.change != verified:
		return one(kernel.CodeBranchTaken, branch, "The change branch has commits that aren't writ's: it is at %s, and verified was %s. They are never overwritten.", c.change, verified)
	}
	found, err := o.tracker.findChange(ctx, c.intake.baseBranch())
	switch {
	case forge.IsReason(err, forge.NotFound):
		return one(kernel.CodeTargetIneligible, "", "There is no change of this work for the base branch.")
	case err != nil:
		return nil, err
	case found.State != forge.ChangeOpen:
		return one(kernel.CodeTargetIneligible, "", "Its change is not open any more.")
	}
	on, err := o.tracker.rebasedHere(ctx, c)
	if err != nil {
		return nil, err
	}
	paths := on.conflicts
	var out []kernel.Violation
	for _, p := range paths[:min(len(paths), maxNamedConflicts)] {
		out = append(out, kernel.Violation{Code: kernel.CodeBaseMoved, Subject: scope.Display(p), Detail: "The base changed the same lines, lines beside them, or what has no lines."})
	}
	if more := len(paths) - len(out); more > 0 {
		out = append(out, kernel.Violation{Code: kernel.CodeBaseMoved, Detail: fmt.Sprintf("And %d paths more.", more)})
	}
	return out, nil
}

// makeAgain makes the delivered work again on the base as it is now, from the evidence at
// HEAD and the bytes of the change, and judges it as a workspace that holds them.
func (o *observer) makeAgain(ctx context.Context, c *observation, k *freshWork) error {
	fault := func(code kernel.Code, subject, detail string) error {
		k.faults = append(k.faults, kernel.Violation{Code: code, Subject: subject, Detail: detail})
		return nil
	}
	work, err := o.workAt(ctx, c.head.Tree)
	if err != nil {
		return err
	}
	k.dispatch, k.dispatchBytes = work.dispatch, work.dispatchBytes
	if !work.ok || string(canon.Sum(work.dispatchBytes)) != trailer(c.event, kernel.TrailerDispatch) || work.diff.Run != k.dispatch.RunID {
		return fault(kernel.CodeEvidenceInvalid, c.facts.Head.LastRun, "The evidence at HEAD doesn't hold the verified work, or can't be read.")
	}
	changes := work.diff.Changes
	if c.origin != "" { // the delivered work is more than its last revision
		d, err := o.readDelivered(ctx, c.verified(), c.origin)
		if err != nil {
			return err
		}
		changes = d.changes
	}
	pack, err := o.seedAt(ctx, c.head.Tree)
	if err != nil {
		return err
	}
	k.covered = pack.Told()
	on, err := rebasedOn(ctx, o.s.deps.Repo, changes, c.intake.base)
	switch {
	case err != nil:
		return err
	case len(on.Conflicts) > 0:
		return fault(kernel.CodeBaseMoved, on.Conflicts[0], "The base has another content there.")
	case len(on.Changes) == 0:
		return fault(kernel.CodeTargetIneligible, "base", "The base has all of this work already.")
	}
	k.built.Result = work.result
	if k.built.Contents, err = o.contentsOf(ctx, on); err != nil {
		if gitTrouble(err) != nil {
			return err
		}
		return fault(kernel.CodeEvidenceInvalid, c.facts.Head.LastRun, "The bytes of the change can't be read.")
	}
	for _, ch := range on.Changes {
		data, brings := k.built.Contents[ch.AfterID]
		if brings && (canon.Sum(data) != ch.AfterHash || int64(len(data)) != ch.Size) {
			return fault(kernel.CodeEvidenceInvalid, ch.Path, "Its bytes aren't those that were verified.")
		}
	}
	return o.judgeAgain(ctx, c, k, on)
}

// verifiedWork is the work that a result's evidence tells of, but for its bytes.
type verifiedWork struct {
	dispatch      kernel.Dispatch
	dispatchBytes []byte
	result        kernel.BuilderResult
	diff          kernel.Diff
	ok            bool // it can be read
}

// workAt reads it from the tree of a result.
func (o *observer) workAt(ctx context.Context, tree git.OID) (w verifiedWork, err error) {
	if w.dispatchBytes, err = o.readFile(ctx, tree, replay.FileDispatch); err != nil {
		return w, err
	}
	records, err := o.readFile(ctx, tree, replay.FileRecords)
	if err != nil {
		return w, err
	}
	w.result, w.diff, w.ok = replay.Built(records)
	w.ok = w.ok && canon.UnmarshalCanonical(w.dispatchBytes, &w.dispatch) == nil
	return w, nil
}

// judgeAgain judges scope and size, as for work that is made now.
func (o *observer) judgeAgain(ctx context.Context, c *observation, k *freshWork, on replay.Rebase) error {
	s, err := scope.New(scopeEntries(c.intake.base), o.rulesOf(ctx, c.intake.Scope, c.intake.Budgets))
	if err != nil {
		k.faults = append(k.faults, kernel.Violation{Code: kernel.CodeEnvBase, Detail: err.Error()})
		return nil //nolint:nilerr // base or patterns can't be used, which a claim says
	}
	v, err := s.Again(ctx, on.Changes, k.built.Contents)
	if err != nil {
		return err
	}
	k.built.Diff = v.Diff(k.dispatch.RunID, string(c.intake.BaseCommit))
	k.built.Diff.Merged = on.Merged
	k.faults = boundViolations(k.built.Diff.Violations)
	if len(k.built.Diff.Guarded) == 0 || len(k.faults) > 0 {
		return nil
	}
	work := sealed.New(k.dispatch, k.built.Result, k.built.Diff, k.built.Contents)
	if k.held, err = heldOf(ctx, o.s.deps.Repo, o.s.cfg.World, work); err == nil && len(k.held.Diff) > maxShownDiff {
		k.faults = append(k.faults, kernel.Violation{
			Code: kernel.CodePathGuarded, Subject: k.held.Paths[0].Path,
			Detail: fmt.Sprintf("What its guarded paths would hold on this base has %d bytes, and at most %d can be shown to whoever accepts it.", len(k.held.Diff), maxShownDiff),
		})
	}
	return err
}

// rulesOf are the rules of scope and size by which files of the repository are judged.
func (o *observer) rulesOf(ctx context.Context, in executor.ScopeRules, b kernel.Budgets) scope.Rules {
	return scope.Rules{
		Allowed: in.Allowed, Forbidden: in.Forbidden, Guarded: in.Guarded, Unprotect: in.Unprotect, Accepts: in.Accepts,
		MaxFiles: b.Files, MaxBytes: b.Bytes, LockSources: in.LockSources,
		Blob: func(id string) (data []byte, err error) {
			err = o.s.deps.Repo.Blobs(ctx, []git.OID{git.OID(id)}, func(_ git.OID, b []byte) error { data = bytes.Clone(b); return nil })
			return data, err
		},
	}
}

// contentsOf reads what the changes bring that no merge made, by git blob id.
func (o *observer) contentsOf(ctx context.Context, on replay.Rebase) (map[string][]byte, error) {
	out := maps.Clone(on.Contents)
	var ids []git.OID
	for _, ch := range on.Changes {
		if _, merged := out[ch.AfterID]; !merged && ch.Op != kernel.OpDelete && ch.Op != kernel.OpMode && !slices.Contains(ids, git.OID(ch.AfterID)) {
			ids = append(ids, git.OID(ch.AfterID))
		}
	}
	err := o.s.deps.Repo.Blobs(ctx, ids, func(oid git.OID, data []byte) error {
		out[string(oid)] = bytes.Clone(data)
		return nil
	})
	return out, err
}

// replacedResult is a delivered result that a run is to replace.
type replacedResult struct {
	commit git.Commit
	event  lease.Event
	tree   git.Tree
}

// prepareRestore puts the delivered result back over the lease of a run that was to replace
// it: its own words and files, and beside them what that run came to, and whether the act
// that asked for it is spent.
func (w *worker) prepareRestore(c *cycle) (*effect, error) {
	was, h, d := c.was, c.facts.Head, c.decision
	data, err := canon.Marshal(replay.RefreshRecord{
		Kind: replay.KindRefresh, Run: h.RunID, Refreshes: cmp.Or(h.Refreshes, h.Fixes), Fix: h.Fix, Base: trailer(c.event, kernel.TrailerBase), Act: h.RefreshAct,
		Interrupted: d.AsksAgain && d.RefreshWaits == "" || slices.Contains(d.Codes, kernel.CodeInterruptionsSpent), Codes: d.Codes, Violations: boundViolations(d.Violations),
	})
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(slices.Clone(was.tree.Entries), func(e git.Entry) bool { return e.Path == replay.FileRefresh })
	objs := git.NewObjects()
	tree, err := evidence(objs, kept, map[string][]byte{replay.FileRefresh: data})
	if err != nil {
		return nil, err
	}
	tr := resultTrailers(was.event)
	tr.ledger, tr.refreshAct = string(w.s.deps.Ledger.Chain().Head.Hash), h.RefreshAct
	tr.refreshOwed, tr.refreshInterruptions, tr.refreshWaits, tr.notBefore = d.AsksAgain, d.RefreshInterruptions, d.RefreshWaits, d.NotBefore
	head, run := git.OID(h.OID), w.run
	parent, seq, late := head, c.facts.NextSeq(), madeCommit{}
	if d.AsksAgain {
		inputs, work := c.inputs, c.unpushed
		if run != nil && run.fixes != "" && d.RefreshWaits == kernel.WaitPaths { // with the word of the checks that it passed
			inputs = run.entries
			if work, err = workOf(run).Files(); err != nil {
				return nil, err
			}
		}
		if late, _, err = w.sealLate(&c.observation, objs, inputs, work); err != nil {
			return nil, err
		}
	}
	if late.oid != "" {
		parent, seq = late.oid, seq+1
	}
	made, err := w.outputAt(objs, tree, parent, seq, c, tr, was.event.Body)
	if err != nil {
		return nil, err
	}
	e := w.pushEffect(c, h.RunID, &push{
		cmds: []git.Command{{Ref: w.StateRef(), Old: head, New: made.oid}}, pack: objs.Pack(), seq: made.seq,
		unshelves: late.oid != "", won: func() { w.forgetRun(run) },
	})
	if run == nil {
		return e, nil
	}
	return w.killFirst(e), nil
}

// resultTrailers are those of a delivered result.
func resultTrailers(ev lease.Event) trailers {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(trailer(ev, key), 10, 64) // 0 where there is none, as it was written
		return n
	}
	w := trailers{
		base: trailer(ev, kernel.TrailerBase), approval: trailer(ev, kernel.TrailerApproval), governance: trailer(ev, kernel.TrailerGovernance),
		dispatch: trailer(ev, kernel.TrailerDispatch), plan: trailer(ev, kernel.TrailerPlan), change: trailer(ev, kernel.TrailerChange),
		run: trailer(ev, kernel.TrailerRun), act: trailer(ev, kernel.TrailerAct), resumes: trailer(ev, kernel.TrailerResumes), accepts: trailer(ev, kernel.TrailerAccepts),
		refreshes: trailer(ev, kernel.TrailerRefreshes), fixes: trailer(ev, kernel.TrailerFixes), fix: trailer(ev, kernel.TrailerFix), refreshAct: trailer(ev, kernel.TrailerRefreshAct),
		attempt: number(kernel.TrailerAttempt), interruptions: number(kernel.TrailerInterruptions),
	}
	for _, k := range strings.Fields(trailer(ev, kernel.TrailerCodes)) {
		w.codes = append(w.codes, kernel.Code(k))
	}
	return w
}
