package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// deliveredWork is delivered work, with all that it changes of the base that it was first
// delivered on.
type deliveredWork struct {
	commit, origin git.OID
	pushed         int64 // when it was made, Unix milliseconds
	tree, base     git.Tree
	changes        []kernel.Change
	contents       map[string][]byte // of these changes, by git blob id
}

// readDelivered reads the work that a commit delivers. Commits never change, so what was
// read last is kept.
func (o *observer) readDelivered(ctx context.Context, commit, origin git.OID) (*deliveredWork, error) {
	if d := o.over; d != nil && d.commit == commit && d.origin == origin {
		return d, nil
	}
	d := &deliveredWork{commit: commit, origin: origin, contents: map[string][]byte{}}
	made, err := o.s.deps.Repo.Commit(ctx, commit)
	if err != nil {
		return nil, err
	}
	d.pushed = made.Committer.Seconds * 1000
	if d.tree, err = o.s.deps.Repo.Tree(ctx, commit); err != nil {
		return nil, err
	}
	if d.base, err = o.s.deps.Repo.Tree(ctx, origin); err != nil {
		return nil, err
	}
	d.changes = replay.Composed(nil, changesOf(d.base, d.tree))
	var ids []git.OID
	for _, ch := range d.changes {
		if id := git.OID(ch.AfterID); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	err = o.s.deps.Repo.Blobs(ctx, ids, func(oid git.OID, data []byte) error {
		d.contents[string(oid)] = bytes.Clone(data)
		return nil
	})
	for n := range d.changes {
		if ch := &d.changes[n]; ch.AfterID != "" {
			data := d.contents[ch.AfterID]
			ch.AfterHash, ch.Size = canon.Sum(data), int64(len(data))
		}
	}
	if err == nil {
		o.over = d
	}
	return d, err
}

// seedAt reads the seed pack in the tree of a state commit; a zero one where there is none.
func (o *observer) seedAt(ctx context.Context, tree git.OID) (kernel.SeedPack, error) {
	if o.seed.tree == tree {
		return o.seed.pack, nil
	}
	data, err := o.readFile(ctx, tree, replay.FileSeedPack)
	if err != nil {
		return kernel.SeedPack{}, err
	}
	var pack kernel.SeedPack
	if canon.UnmarshalCanonical(data, &pack) != nil {
		pack = kernel.SeedPack{}
	}
	o.seed.tree, o.seed.pack = tree, pack
	return pack, nil
}

// revisionWork is what a revision begins with.
type revisionWork struct {
	over     *deliveredWork
	revision kernel.Revision
}

// readFix reads whether somebody who may asks for a revision of the delivered work, and
// which comments its builder would be told. Each look reads what people said anew, and asks
// anew what they may do.
func (o *observer) readFix(ctx context.Context, c *observation, seen *approval.Facts) error {
	asked := c.request == kernel.RequestTick || c.request == kernel.RequestTell
	if o.worker.run != nil || !asked || seen == nil || seen.Issue.ID == 0 || c.noBase != nil || !c.intake.byChange || !c.facts.Delivered() || c.facts.Undone {
		return nil //nolint:nilerr // without a base no contract says who may
	}
	change, said, read, err := o.tracker.readReviews(ctx, c)
	if c.reviewed = read; err != nil || !read {
		return err
	}
	seen.Talk = talkOf(said)
	review := approval.Review{World: o.s.cfg.World, Delivered: string(c.verified()), Said: said}
	act, err := o.fixAsked(ctx, c, seen, review)
	if err != nil || act.Verb == "" {
		return err
	}
	f := &kernel.FixFacts{
		Run: c.facts.Head.LastRun, Head: string(c.verified()), Act: act.ID(), Actor: fmt.Sprintf("%d:%s", act.Actor.ID, act.Actor.Login),
		Faults: []kernel.Violation{}, Left: []kernel.Violation{},
	}
	c.facts.Fix = f
	if f.Faults = o.keptFromFix(c, change); len(f.Faults) > 0 {
		return nil
	}
	return o.listComments(ctx, c, seen, review, act)
}

// fixAsked is the command that asks for it, if that is there and wasn't answered in words.
func (o *observer) fixAsked(ctx context.Context, c *observation, seen *approval.Facts, r approval.Review) (approval.Act, error) {
	after, again := c.spentActs()
	settled := o.settledOn(seen)
	for _, account := range approval.Fixers(*seen, r, after, again, settled) {
		if err := (&forgeIssues{s: o.s, number: o.number}).askAbout(ctx, seen, account); err != nil {
			return approval.Act{}, err
		}
	}
	return approval.FixAsked(*seen, r, after, again, settled), nil
}

// keptFromFix is what keeps the delivered change from being gone on with, whatever people
// said of it.
func (o *observer) keptFromFix(c *observation, change forge.Change) []kernel.Violation {
	branch := o.tracker.changeBranch()
	v := kernel.Violation{Code: kernel.CodeTargetIneligible, Subject: branch}
	switch verified := c.verified(); {
	case change.Number == 0:
		v.Detail = "There is no change of this work for the base branch."
	case change.State != forge.ChangeOpen:
		v.Detail = "Its change is not open any more."
	case c.change.IsZero():
		v.Detail = "The change branch isn't there any more."
	case c.change != verified:
		v.Code, v.Detail = kernel.CodeBranchTaken, fmt.Sprintf("The change branch has commits that aren't writ's: it is at %s, and verified was %s. They are never overwritten.", c.change, verified)
	default:
		return []kernel.Violation{}
	}
	return []kernel.Violation{v}
}

// listComments makes the list of what people said of the delivered change, and of each what
// the builder would be told.
func (o *observer) listComments(ctx context.Context, c *observation, seen *approval.Facts, r approval.Review, act approval.Act) error {
	f := c.facts.Fix
	fault := func(code kernel.Code, subject, detail string) {
		f.Faults = append(f.Faults, kernel.Violation{Code: code, Subject: subject, Detail: detail})
	}
	d, err := o.readDelivered(ctx, c.verified(), c.builtOn())
	if err != nil {
		if gitTrouble(err) == nil {
			fault(kernel.CodeEvidenceInvalid, f.Run, "The delivered commit, or its base, can't be read.")
		}
		return gitTrouble(err)
	}
	if c.otherTerms(d.tree) {
		on, err := o.tracker.rebasedHere(ctx, c)
		if err != nil {
			return err
		}
		fault(kernel.CodeGovernanceMismatch, contract.Path, otherTermsWords(on.conflicts))
		return nil
	}
	pack, err := o.seedAt(ctx, c.head.Tree)
	if err != nil {
		return err
	}
	r.Pushed, r.Covered = d.pushed, pack.Told()
	if r.Said, err = o.saidBefore(ctx, c, act, r.Said); err != nil {
		return err
	}
	list, err := o.countComments(ctx, c, seen, r, act)
	if err != nil {
		return err
	}
	if f.Faults, f.Left = list.Faults, list.Left; len(f.Faults) > 0 {
		return nil
	}
	k := &revisionWork{over: d, revision: kernel.Revision{
		Fix: list.Fix, Fixes: f.Run, Origin: string(d.origin), Text: list.Text, Said: list.Said, Earlier: pack.Told(),
	}}
	if err := o.show(ctx, k); err != nil {
		return err
	}
	if f.Faults = append(kernel.ValidateRevision(k.revision), o.secretsOf(k.revision)...); len(f.Faults) > 0 {
		return nil
	}
	f.Faults = []kernel.Violation{}
	c.fix = k
	if f.Digest, err = kernel.FixDigest(list.Fix); err != nil {
		return err
	}
	return o.readSealedFix(ctx, c)
}

// readSealedFix reads what a revision has sealed that was cut off, where the very act that
// asked for it is to be done again. It lies in the lease right below the result that was put
// back, or in our store, and is judged as that of any interrupted run.
func (o *observer) readSealedFix(ctx context.Context, c *observation) error {
	h := c.facts.Head
	asked := c.request == kernel.RequestTick || c.request == kernel.RequestTell
	if !asked || c.fix == nil || !h.RefreshOwed || h.RefreshAct != c.facts.Fix.Act || len(c.head.Parents) != 1 {
		return nil
	}
	return o.leftOf(ctx, c, c.fix, o.readLeftFix)
}

// readLeftFix fills in what was left of a revision.
func (o *observer) readLeftFix(ctx context.Context, c *observation, l *leftWork) error {
	below, err := o.s.deps.Repo.Commit(ctx, c.head.Parents[0])
	if err != nil {
		return gitTrouble(err)
	}
	f := c.facts.Fix
	under, err := eventOf(below, false)
	if err != nil || under.State != kernel.HeadWorking || trailer(under, kernel.TrailerFixes) != f.Run ||
		trailer(under, kernel.TrailerFix) != string(f.Digest) || trailer(under, kernel.TrailerRefreshAct) != f.Act {
		return nil //nolint:nilerr // it is the lease of no such revision
	}
	if err := o.leftAt(ctx, below.Tree, l); err != nil {
		return err
	}
	return o.judgeLeft(ctx, c, l, under, o.listedHere(c, under, below))
}

// saidBefore are, of what people say of the change, the comments that the builder of a
// revision was told which waits for its guarded paths: who talks about what waits doesn't make
// it another revision. Of anything else that is asked all of them count.
func (o *observer) saidBefore(ctx context.Context, c *observation, act approval.Act, said []forge.ReviewComment) ([]forge.ReviewComment, error) {
	h := c.facts.Head
	if h.RefreshWaits != kernel.WaitPaths || h.RefreshAct != act.ID() || len(c.head.Parents) != 1 {
		return said, nil
	}
	below, err := o.s.deps.Repo.Commit(ctx, c.head.Parents[0])
	if err != nil {
		return said, gitTrouble(err)
	}
	pack, err := o.seedAt(ctx, below.Tree)
	if err != nil || pack.Revision == nil {
		return said, err
	}
	return slices.DeleteFunc(unresolved(said), func(k forge.ReviewComment) bool {
		id := kernel.CommentID(string(k.Kind), k.ID)
		return !slices.ContainsFunc(pack.Revision.Fix.Comments, func(told kernel.FixComment) bool { return told.ID == id })
	}), nil
}

// unresolved are comments as if nobody had marked them as done: what a revision does about
// them may well be looked at before it is accepted.
func unresolved(said []forge.ReviewComment) []forge.ReviewComment {
	out := slices.Clone(said)
	for n := range out {
		out[n].Resolved = false
	}
	return out
}

// otherTermsWords say what helps where a revision would be under another contract: a refresh
// gets there, unless the work doesn't apply on the base either.
func otherTermsWords(conflicts []string) string {
	const other = "The base has another contract by now than the delivered work"
	if len(conflicts) == 0 {
		return other + ". Have that applied there first, by `/writ refresh`, and ask again."
	}
	return other + ", and the work can't be applied there, which has another content at " + named(conflicts) + ". Merge it by hand and look at what comes of it, or close the change unmerged and have the work done anew."
}

// countComments lists the comments that count. While the issue is only told what is, what
// was heard for that counts; before a claim and a dispatch everybody is asked about anew.
func (o *observer) countComments(ctx context.Context, c *observation, seen *approval.Facts, r approval.Review, act approval.Act) (approval.Revision, error) {
	for _, account := range approval.Reviewers(*seen, r) {
		if _, heard := seen.Permissions[account]; heard && c.request == kernel.RequestTell {
			continue
		}
		if err := (&forgeIssues{s: o.s, number: o.number}).askAbout(ctx, seen, account); err != nil {
			return approval.Revision{}, err
		}
	}
	return approval.FixRevision(*seen, r, act), nil
}

// show renders from git what the comments point at.
func (o *observer) show(ctx context.Context, k *revisionWork) error {
	for n, at := range k.revision.Fix.Comments {
		if at.Place == nil {
			continue
		}
		tree, commit := k.over.tree, k.over.commit
		if at.Place.Side == kernel.SideOld {
			tree, commit = k.over.base, k.over.origin
		}
		blob, data := git.OID(""), []byte(nil)
		if e, there := tree.Find(at.Place.Path); there && (e.Mode == git.ModeFile || e.Mode == git.ModeExec) {
			blob = e.OID
			err := o.s.deps.Repo.Blobs(ctx, []git.OID{blob}, func(_ git.OID, b []byte) error { data = bytes.Clone(b); return nil })
			if err != nil {
				return err
			}
		}
		shown := instruction.Excerpt(*at.Place, string(commit), string(blob), data)
		k.revision.Said[n].Shown = &shown
	}
	return nil
}

// secretsOf refuses comments that hold a secret: the evidence has them as they are.
func (o *observer) secretsOf(r kernel.Revision) (list []kernel.Violation) {
	holds := func(subject, text string) {
		if o.s.deps.Holds != nil && o.s.deps.Holds([]byte(text)) {
			list = append(list, kernel.Violation{Code: kernel.CodeSecretDetected, Subject: subject, Detail: "What is said to the builder holds a secret."})
		}
	}
	holds("/writ fix", r.Text)
	for n, s := range r.Said {
		holds(r.Fix.Comments[n].ID, s.Body)
	}
	return list
}

// talkOf are the comments in the conversation of a change.
func talkOf(said []forge.ReviewComment) (out []forge.Comment) {
	for _, c := range said {
		if c.Kind == forge.ReviewTalk {
			out = append(out, c.Comment)
		}
	}
	return out
}

// fixStands asks once more right before the builder of a revision starts, or where one goes
// on with sealed work, its checks: the command and
// each comment of the list are there as they were, and their authors may still approve;
// the change is open, and its branch where it was.
func (o *observer) fixStands(ctx context.Context, c *observation, seen *approval.Facts) error {
	r := o.worker.run
	if r == nil || r.fixes == "" || !(kernel.RunFacts{Phase: r.phase, Resumes: r.resumes}).Starts() || c.request != kernel.RequestTick || seen == nil || seen.Issue.ID == 0 {
		return nil
	}
	ctx = forge.Urgent(ctx)
	change, said, read, err := o.tracker.readReviews(ctx, c)
	if err != nil {
		return err
	}
	if !read {
		said = nil // then nothing stands
	}
	if r.resumes != "" && len(r.built.Diff.Guarded) > 0 {
		said = unresolved(said)
	}
	was := r.pack.Revision
	review := approval.Review{World: o.s.cfg.World, Delivered: r.pack.Pins.BaseCommit, Pushed: r.over.pushed, Covered: was.Earlier, Said: said}
	if _, err = o.countComments(ctx, c, seen, review, approval.Act{}); err != nil {
		return err
	}
	for _, account := range approval.Fixers(*seen, review, was.Fix.Command.Act, was.Fix.Command.Act, func(int64) bool { return false }) {
		if err := (&forgeIssues{s: o.s, number: o.number}).askAbout(ctx, seen, account); err != nil {
			return err
		}
	}
	bad := func(code kernel.Code, subject, detail string) {
		c.facts.Policy = append(c.facts.Policy, kernel.Violation{Code: code, Subject: subject, Detail: detail})
	}
	switch {
	case change.State != forge.ChangeOpen:
		bad(kernel.CodeSuperseded, o.tracker.changeBranch(), "Its change was merged or closed meanwhile.")
	case c.change != r.stray:
		bad(kernel.CodeBranchTaken, o.tracker.changeBranch(), fmt.Sprintf("Its branch is at %s by now.", cmp.Or(c.change, "no commit")))
	case !approval.FixStands(*seen, review, was.Fix.Command.Act):
		bad(kernel.CodeInstructionChanged, "/writ fix", "The command that asked for it is gone or was edited, or its author may not ask for it any more.")
	}
	now := approval.FixRevision(*seen, review, approval.Act{})
	for _, k := range was.Fix.Comments {
		if slices.ContainsFunc(now.Fix.Comments, func(is kernel.FixComment) bool { return same(is, k) }) {
			continue
		}
		why := "It is gone or was edited."
		if at := slices.IndexFunc(now.Left, func(v kernel.Violation) bool { return v.Subject == k.ID }); at >= 0 {
			why = now.Left[at].Detail
		}
		bad(kernel.CodeReviewLeftOut, k.ID, why)
	}
	return nil
}

// revises makes the claim of a run that of a revision: the builder works on the delivered
// commit, is told the list, and adds one commit to the branch as it is.
func (w *worker) revises(c *cycle, r *run) {
	k := c.fix
	in := *c.intake
	in.BaseCommit, in.base = k.over.commit, k.over.tree
	r.intake, r.base = &in, k.over.tree
	r.goesOver(c)
	r.pack.Pins.BaseCommit, r.pack.Revision = string(k.over.commit), &k.revision
	r.pack.Retry, r.pack.Remark = nil, nil // that was for the first delivery
	for _, v := range c.facts.Fix.Left {
		r.pack.Notes = append(r.pack.Notes, fmt.Sprintf("The builder isn't told %s: %s", cmp.Or(v.Subject, "more comments"), v.Detail))
	}
	w.say("the verified change of run %s is revised for %d comments", r.fixes, len(k.revision.Said))
}

// goesOver makes a run one over the delivered work: that is put back where it comes to
// nothing of its own.
func (r *run) goesOver(c *cycle) {
	r.over, r.fixes, r.fix, r.refreshAct = c.fix.over, c.decision.Fixes, c.decision.Fix, c.facts.Fix.Act
	r.refreshInterruptions, r.was, r.stray = c.decision.RefreshInterruptions, &replacedResult{commit: c.head, event: c.event}, c.change
}

// trustedOf is the base that a revision is prepared from; nil where that is the base of the
// run: what runs share is never made from what a builder left.
func (w *worker) trustedOf(r *run) *executor.Base {
	if r.over == nil || len(r.pack.Prepare) == 0 {
		return nil
	}
	b := w.baseAt(r.over.origin, r.over.base)
	return &b
}

// outdone reports whether a command counts for nothing since a newer one does: git shows acts
// that were done after it, and by it none, or at last a result that was put back for it to be
// done again.
func (i *tracker) outdone(ctx context.Context, c *observation, a approval.Asked) (bool, error) {
	h := c.facts.Head
	if a.Command.Verb != approval.Fix || !a.May || !h.Trusted() || !kernel.NewerAct(h.RefreshAct, a.ID) {
		return false, nil
	}
	below, _, err := i.s.deps.Repo.Log(ctx, []git.OID{git.OID(h.OID)}, nil, maxTold)
	if err != nil {
		return false, gitTrouble(err)
	}
	newer := false
	for _, commit := range below {
		ev, err := eventOf(commit, false)
		if err != nil {
			return false, nil //nolint:nilerr // what lies below says nothing
		}
		switch act := trailer(ev, kernel.TrailerRefreshAct); {
		case act == a.ID:
			return newer && ev.State != kernel.HeadWorking && trailer(ev, kernel.TrailerRefreshInterruptions) != "", nil
		case !kernel.NewerAct(act, a.ID):
			return newer, nil
		}
		newer = newer || trailer(ev, kernel.TrailerFixes) != ""
	}
	return false, nil
}
