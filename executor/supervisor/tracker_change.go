package supervisor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// readChange looks for the change that delivers an accepted result's branch, and how
// far it has come. It is nil where no change delivers the work.
func (i *tracker) readChange(ctx context.Context, c *observation) (*kernel.ChangeFacts, error) {
	if !c.intake.byChange || i.worker.run != nil || !c.facts.Delivered() {
		return nil, nil //nolint:nilnil // there is none, which is no failure
	}
	found, err := i.findChange(ctx, c.intake.baseBranch())
	if forge.IsReason(err, forge.NotFound) {
		return &kernel.ChangeFacts{}, nil
	}
	if err != nil {
		return nil, err
	}
	self, err := i.s.self(ctx)
	if err != nil {
		return nil, err
	}
	run, _ := i.marker().Run(marker.Status, found.Body)
	out := &kernel.ChangeFacts{
		Number: found.Number, Run: run, Open: found.State == forge.ChangeOpen, Own: found.Author.ID == self.ID, Head: found.HeadOID,
	}
	verified := c.verified()
	if out.Old, err = i.endedBefore(ctx, c, found, run, out.Own); err != nil {
		return nil, err
	}
	if out.Pushed = !out.Old && out.Head != "" && out.Head != string(verified) && out.Head != string(c.replaced()); out.Pushed {
		out.Review = i.reviewOf(out.Head)
		if i.reviewPassed(c, out.Head) {
			verified = git.OID(out.Head)
		}
	}
	if found.State == forge.ChangeMerged && out.Head != "" && out.Head == string(c.replaced()) {
		verified = c.replaced() // somebody was faster than the push that replaced it
	}
	c.changeURL = found.URL
	if found.State != forge.ChangeMerged || out.Old {
		return out, nil
	}
	switch delivers, err := i.merged(ctx, c, found); {
	case err != nil:
		return nil, err
	case !delivers && found.Base == c.intake.baseBranch():
		out.Open = true // it is waited for, as before
		return out, nil
	case !delivers:
		out.Into = found.Base
		return out, nil
	}
	brought, err := i.broughtBy(ctx, c.intake.BaseCommit, git.OID(found.MergedOID))
	if err != nil {
		return nil, err
	}
	out.Merged, out.Verified = string(brought), string(verified)
	if out.Differs, err = i.differs(ctx, c.builtOn(), verified, git.OID(found.HeadOID), brought); err != nil {
		return nil, err
	}
	out.Reverted, err = i.revertedBy(ctx, c.intake.BaseCommit, found, brought, verified)
	return out, err
}

// endedBefore reports whether a change has ended, and with it another work than
// HEAD's result: it was merged before that was begun, its text names another run,
// or its branch has nothing of the result, unless it is writ's own and says so. A
// text is anybody's who may write: it makes no change one of this result.
func (i *tracker) endedBefore(ctx context.Context, c *observation, change forge.Change, run string, own bool) (bool, error) {
	head, replaced := git.OID(change.HeadOID), c.replaced()
	switch {
	case change.State == forge.ChangeOpen:
		return false, nil
	case replaced != "" && (head == c.verified() || head == replaced):
		// The text may still name the run whose result was replaced.
	case run != "" && run != c.facts.Head.Run():
		return true, nil
	case (run == "" || !own) && change.HeadOID != string(c.verified()):
		if holds, err := i.holds(ctx, git.OID(change.HeadOID), c.verified()); err != nil || !holds {
			return true, err
		}
	}
	if change.State != forge.ChangeMerged {
		return false, nil
	}
	return i.holds(ctx, c.builtOn(), git.OID(change.MergedOID))
}

// holds reports whether a commit is the other one or has it below it. Commits never
// change, so what was found last is kept.
func (i *tracker) holds(ctx context.Context, commit, other git.OID) (bool, error) {
	if commit == "" || other == "" {
		return false, nil
	}
	key := [2]git.OID{commit, other}
	if known, ok := i.ancestry[key]; ok {
		return known, nil
	}
	missing, _, err := i.s.deps.Repo.Log(ctx, []git.OID{other}, []git.OID{commit}, 1)
	if git.CodeOf(err) == git.CodeObjectMissing {
		return false, nil // whoever took it away, it can't be shown
	}
	if err != nil {
		return false, err
	}
	if len(i.ancestry) >= maxAncestry {
		i.ancestry = nil
	}
	if i.ancestry == nil {
		i.ancestry = map[[2]git.OID]bool{}
	}
	i.ancestry[key] = len(missing) == 0
	return i.ancestry[key], nil
}

// maxAncestry bounds the pairs of commits of which a task remembers whether one has the
// other below it.
const maxAncestry = 64

// merged reports whether a change's merge is on the base. One into another branch
// delivers nothing until that branch is merged itself: whoever may push chooses the
// branches that changes are for. The base's name may have changed since. One into the base
// counts where the base still has it when the task is completed; who sets the base back
// after that takes nothing back.
func (i *tracker) merged(ctx context.Context, c *observation, change forge.Change) (bool, error) {
	if change.Base == c.intake.baseBranch() && !c.facts.AwaitsMerge() {
		return true, nil
	}
	return i.holds(ctx, c.intake.BaseCommit, git.OID(change.MergedOID))
}

// broughtBy is the commit with which the base got a merged one: the first on its own line,
// that of first parents, which has it below it. It is the merged one itself, unless the
// base was set back and somebody merged that once more. What he made of it is what the
// base has, and may be another content, or none of it.
func (i *tracker) broughtBy(ctx context.Context, tip, merged git.OID) (git.OID, error) {
	if i.brought.merged == merged {
		if has, err := i.holds(ctx, tip, i.brought.by); err != nil || has {
			return i.brought.by, err
		}
	}
	if tip == "" || tip == merged {
		return merged, nil
	}
	since, rest, err := i.s.deps.Repo.Log(ctx, []git.OID{tip}, []git.OID{merged}, maxReverts)
	switch {
	case git.CodeOf(err) == git.CodeObjectMissing, err == nil && len(rest) > 0:
		return merged, nil // it can't be shown
	case err != nil:
		return "", err
	}
	i.brought.merged, i.brought.by = merged, broughtBy(tip, merged, since)
	return i.brought.by, nil
}

func broughtBy(tip, merged git.OID, since []git.Commit) git.OID {
	first, above := map[git.OID]git.OID{}, map[git.OID][]git.OID{}
	for _, c := range since {
		for i, parent := range c.Parents {
			if above[parent] = append(above[parent], c.OID); i == 0 {
				first[c.OID] = parent
			}
		}
	}
	has := map[git.OID]bool{merged: true}
	for next := []git.OID{merged}; len(next) > 0; next = next[1:] {
		for _, c := range above[next[0]] {
			if !has[c] {
				has[c] = true
				next = append(next, c)
			}
		}
	}
	if !has[tip] {
		return merged
	}
	at := tip
	for at != merged && has[first[at]] {
		at = first[at]
	}
	return at
}

// verified is the commit that HEAD's result delivers, and builtOn the base that it
// was made on, before any revision.
func (c *observation) verified() git.OID { return c.named(kernel.TrailerChange) }
func (c *observation) builtOn() git.OID  { return cmp.Or(c.origin, c.named(kernel.TrailerBase)) }

// replaced is the commit that HEAD's result replaced on the change branch, "" for none. A
// forge may show it for a while, and somebody may have merged it just before.
func (c *observation) replaced() git.OID {
	if trailer(c.event, kernel.TrailerRefreshes)+trailer(c.event, kernel.TrailerFixes) == "" {
		return ""
	}
	return c.named(kernel.TrailerBranch)
}

// named is the commit in one of HEAD's trailers.
func (c *observation) named(key string) git.OID {
	for _, tr := range c.event.Extra() {
		if tr.Key == key {
			return git.OID(tr.Value)
		}
	}
	return ""
}

// undone reports whether a person asks again for work that was turned down.
func (i *tracker) undone(ctx context.Context, c *observation, issue Issue) (bool, error) {
	h := c.facts.Head
	if !i.remote || !issue.Retry || issue.ByBot || !c.facts.Delivered() || !kernel.NewerAct(issue.Act, h.Act) {
		return false, nil
	}
	change, err := i.readChange(ctx, c)
	return change.Undone(), err
}

// differs is [replay.Differs] of these commits.
func (i *tracker) differs(ctx context.Context, base, verified, head, merged git.OID) ([]string, error) {
	key := mergeKey{verified, head, merged}
	if i.merge.key == key {
		return i.merge.differs, nil
	}
	out, err := i.compare(ctx, base, verified, head, merged)
	if err != nil && git.CodeOf(err) != git.CodeObjectMissing {
		return nil, err
	}
	if err != nil {
		out = []string{replay.DiffersUnread}
	}
	i.merge = compared{key, out}
	return i.merge.differs, nil
}

// compared is what a merge came to; its commits never change.
type compared struct {
	key     mergeKey
	differs []string
}

type mergeKey struct{ verified, head, merged git.OID }

func (i *tracker) compare(ctx context.Context, base, verified, head, merged git.OID) ([]string, error) {
	var trees [4]git.Tree
	for n, oid := range []git.OID{base, verified, head, merged} {
		var err error
		if trees[n], err = i.s.deps.Repo.Tree(ctx, oid); err != nil {
			return nil, err
		}
	}
	return replay.Differs(trees[0], trees[1], trees[2], trees[3]), nil
}

// maxReverts is how many commits of the base are looked at for a revert in one look
// at the issue. What lies below them is for the next one.
const maxReverts = 20_000

// reverts are what the commits of the base since a merge revert.
type reverts struct {
	merged, tip git.OID             // what is read lies between them,
	rest        []git.OID           // but for what these reach
	by          map[string][]string // what is reverted, to the commits that say so
}

// revertedBy looks on the base for a commit that reverts the merged one, "" for
// none. One that was itself reverted doesn't count.
func (i *tracker) revertedBy(ctx context.Context, tip git.OID, change forge.Change, brought, verified git.OID) (string, error) {
	merged := git.OID(change.MergedOID)
	if i.reverts.merged != merged {
		i.reverts = reverts{merged: merged, tip: merged, by: map[string][]string{}}
	}
	if err := i.reverts.read(ctx, i.s.deps.Repo, tip); err != nil {
		return "", err
	}
	for _, name := range []string{string(brought), string(merged), string(verified), forge.ChangeName(change.Number)} {
		if by := i.reverts.revertOf(name, map[string]string{}); by != "" {
			return by, nil
		}
	}
	return "", nil
}

// revertOf is the commit that reverts what has the name. What was found is kept:
// commits may each name several others, and the ways between them are many.
func (r *reverts) revertOf(name string, found map[string]string) string {
	if by, known := found[name]; known {
		return by
	}
	found[name] = ""
	for _, by := range r.by[name] {
		if r.revertOf(by, found) == "" {
			found[name] = by
			break
		}
	}
	return found[name]
}

// read takes in what the base has got since it was read last, and then what was
// too much the last time. What can't be read is read the next time.
func (r *reverts) read(ctx context.Context, repo Repo, tip git.OID) error {
	if tip != r.tip {
		rest, err := r.readFrom(ctx, repo, []git.OID{tip}, r.merged, r.tip)
		if err != nil {
			return err
		}
		r.tip, r.rest = tip, append(r.rest, rest...)
		return nil
	}
	if len(r.rest) == 0 {
		return nil
	}
	rest, err := r.readFrom(ctx, repo, r.rest, r.merged)
	if err == nil {
		r.rest = rest
	}
	return err
}

func (r *reverts) readFrom(ctx context.Context, repo Repo, from []git.OID, not ...git.OID) (rest []git.OID, err error) {
	rest = from
	for n := 0; len(rest) > 0 && n < maxReverts; {
		var commits []git.Commit
		if commits, rest, err = repo.Log(ctx, rest, not, maxReverts-n); err != nil {
			return nil, err
		}
		n += max(len(commits), 1)
		for _, c := range commits {
			for _, name := range namesReverted(string(c.Message)) {
				if !slices.Contains(r.by[name], string(c.OID)) {
					r.by[name] = append(r.by[name], string(c.OID))
				}
			}
		}
	}
	return rest, nil
}

// revert is how a commit says what it reverts: git's own words, and those of
// forges, which name the change.
var revert = lazyregexp.New(`(?i)\brevert(?:s|ed)?:?\s+(?:(?:commit|merge\s+request|pull\s+request)\s+)?(?:([0-9a-f]{40})\b|(?:[\w.-]+/[\w./-]+)?([#!][0-9]{1,18})\b)`)

// namesReverted lists what a commit's message reverts: commits by their id, changes
// as people write them: #9 or, on GitLab, !9.
func namesReverted(message string) (out []string) {
	for _, m := range revert().FindAllStringSubmatch(message, -1) {
		if m[1] != "" {
			out = append(out, strings.ToLower(m[1]))
		} else {
			out = append(out, m[2])
		}
	}
	return out
}

// mergeOf is what a report says of the change.
func mergeOf(c *kernel.ChangeFacts) *report.Merge {
	if c == nil || c.Old || c.Merged == "" && !c.Undone() {
		return nil
	}
	return &report.Merge{Commit: c.Merged, Into: c.Into, Verified: c.Verified, AsVerified: c.Merged != "" && len(c.Differs) == 0, Differs: c.Differs, Reverted: c.Reverted}
}

// checkName is the name under which the result stands on a commit.
const checkName = "writ"

// review is the fresh scope-and-checks run of what somebody pushed to the change
// branch after the verification. It starts no builder, holds no lease and moves no
// ref: the task is completed, and what the review comes to stands on the pushed
// commit as a check. Another instance that does the same says the same.
type review struct {
	head   git.OID
	checks executor.Checks // nil where there are none to run
	found  []kernel.Violation
}

// open reports whether its checks ran without a sandbox.
func (r *review) open() bool {
	return r != nil && r.checks != nil && closed(r.checks.Done()) && r.checks.Outcome().Run.Sandbox == report.SandboxNone
}

// done is closed when the checks have ended, nil where none run.
func (r *review) done() <-chan struct{} {
	if r == nil || r.checks == nil {
		return nil
	}
	return r.checks.Done()
}

// facts are what the review of a commit came to, nil where there is none. One that
// a person stopped is over for that commit.
func (i *tracker) reviewOf(head string) *kernel.ReviewFacts {
	r := i.reviewed()
	if r == nil || string(r.head) != head {
		i.s.locked(func() { r = i.s.stopped[i.number] })
	}
	if r == nil || string(r.head) != head {
		if i.cutOff() && i.worker.isStopping() {
			return &kernel.ReviewFacts{} // the act that cut it off comes first: none is begun before
		}
		return nil
	}
	out := &kernel.ReviewFacts{Ended: true, Violations: r.found}
	if r.checks != nil {
		if out.Ended = closed(r.checks.Done()); out.Ended {
			out.Violations = append(out.Violations[:len(out.Violations):len(out.Violations)], boundViolations(r.checks.Outcome().Violations)...)
		}
	}
	return out
}

func (i *tracker) setReview(r *review) {
	i.worker.guard.Lock()
	i.worker.again, i.worker.cut = r, ""
	i.worker.guard.Unlock()
}

func (i *tracker) reviewed() *review {
	i.worker.guard.Lock()
	defer i.worker.guard.Unlock()
	return i.worker.again
}

// stopReview ends the review that runs, or was just cut off, because a person wants
// it to. It reports whether there was one.
func (i *tracker) stopReview(by string) bool {
	i.worker.kill()
	i.worker.guard.Lock()
	head := i.worker.cut
	i.worker.cut = ""
	i.worker.guard.Unlock()
	if head == "" {
		return false
	}
	r := &review{head: head, found: []kernel.Violation{{Code: kernel.CodeTaskStopped, Subject: string(head), Detail: "The checks were stopped by " + by + "."}}}
	i.setReview(r)
	i.s.locked(func() { i.s.stopped[i.number] = r })
	i.say("the review of %s is stopped by %s", head, by)
	return true
}

// reviewCheck is what stands on a pushed commit once it was reviewed.
func (i *tracker) reviewCheck(head string, passed bool, found []kernel.Violation) forge.Check {
	k := forge.Check{Name: checkName, State: forge.CheckPassed, Summary: "Scope and checks hold for what was pushed after the verification, " + head}
	if !passed {
		k.State, k.Summary = forge.CheckFailed, "Scope or checks don't hold for what was pushed after the verification, "+head
	}
	if slices.ContainsFunc(found, func(v kernel.Violation) bool { return v.Code == kernel.CodeTaskStopped }) {
		k.Summary = "The checks of what was pushed after the verification were stopped, " + head
	}
	var b strings.Builder
	for _, v := range found {
		b.WriteString(bullet(v))
	}
	k.Detail = b.String()
	return k
}

// checkDigest names a check by what it says, not by its details.
func checkDigest(k forge.Check) canon.Digest { return textDigest(string(k.State) + " " + k.Summary) }

// reviewPassed reports whether a commit bears the check of a review that passed, by
// what this installation has recorded.
func (i *tracker) reviewPassed(c *observation, head string) bool {
	return c.facts.View.Checked == head+" "+string(checkDigest(i.reviewCheck(head, true, nil)))
}

// cutOff reports whether a review was, and nobody has said why.
func (i *tracker) cutOff() bool {
	i.worker.guard.Lock()
	defer i.worker.guard.Unlock()
	return i.worker.cut != ""
}
