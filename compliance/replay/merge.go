package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// KindMerge is the kind of a [MergeRecord].
const KindMerge = "merge"

// MergeRecord is what a task was completed by that waited for the merge of its change:
// the facts of that decision, whole, so that it can be taken again.
type MergeRecord struct {
	Kind   string       `json:"kind"` // "merge"
	Result string       `json:"result"`
	Kernel string       `json:"kernel_version"` // whose rules took the decision
	Facts  kernel.Facts `json:"facts"`
}

// checkMerge holds HEAD against the result that it completed: the decision is taken
// again from its facts, and besides report and merge nothing is another than before.
func (v *verifier) checkMerge(f *findings) string {
	c := v.head.Completion
	v.checkCompleter(f, c.Commit)
	m, err := decoded[MergeRecord](c.Files[FileMerge])
	if err != nil {
		f.file(FileMerge, "It can't be read: %v.", err)
		return ""
	}
	v.checkMerged(f, *m)
	v.checkCompleted(f, *c, *m)
	if len(f.faults) > 0 {
		return ""
	}
	held := v.checkContents(f, *m.Facts.Issue.Change)
	return fmt.Sprintf("The merge %s of change %d completed the task. %s", m.Facts.Issue.Change.Merged, m.Facts.Issue.Change.Number, held)
}

// checkCompleter: HEAD is a signed state event on the result, with the result's words.
func (v *verifier) checkCompleter(f *findings, c git.Commit) {
	key, err := signer(c)
	switch {
	case err != nil:
		f.file("", "HEAD %s has no good signature of an instance: %v.", c.OID, err)
	case len(v.opts.Keys) > 0 && !v.vouched(git.Fingerprint(key)):
		f.add(kernel.CodeLeaseUntrusted, "", NoSeq, "HEAD is signed by %s, which is none of the keys that you vouch for.", git.Fingerprint(key))
	}
	_, result := v.completes()
	if v.state != kernel.TaskWaiting || !v.accepted() {
		f.file("", "Below HEAD is no result that waited for a merge.")
	}
	ev, err := eventOf(c)
	if err != nil || ev.State != string(kernel.TaskCompleted) || trailer(ev, kernel.TrailerWaitingFor) != "" {
		f.file("", "HEAD %s doesn't say that the task is completed.", c.OID)
		return
	}
	if s, err := kernel.ReadStamp(ev.Trailers); err != nil || s.Binding(v.stamp) != kernel.BindHere || s.Seq <= v.stamp.Seq {
		f.add(kernel.CodeStateForeign, "", NoSeq, "HEAD %s isn't the next commit of the task whose result it completes.", c.OID)
	}
	for _, key := range append(sameInLeases(), kernel.TrailerInterruptions, kernel.TrailerChange, kernel.TrailerAct, kernel.TrailerAccepts, kernel.TrailerRun, kernel.TrailerCodes) {
		if got, want := trailer(ev, key), trailer(result, key); got != want {
			f.file("", "HEAD says %s %q, the result that it completes %q.", key, got, want)
		}
	}
}

// completes is what HEAD completes: the result, or the commit that put it back.
func (v *verifier) completes() (git.OID, lease.Event) {
	if c := v.head.Restored; c != nil {
		if ev, err := eventOf(c.Commit); err == nil {
			return c.Commit.OID, ev
		}
	}
	return v.head.Commit.OID, v.event
}

// checkMerged takes the decision again.
func (v *verifier) checkMerged(f *findings, m MergeRecord) {
	if m.Kernel != kernel.Version() {
		f.add(kernel.CodeReplayVersion, FileMerge, NoSeq, "The decision was taken by kernel %q; this program replays %s.", m.Kernel, kernel.Version())
		return
	}
	x := m.Facts
	result, _ := v.completes()
	if m.Kind != KindMerge || m.Result != string(result) || x.Head.OID != m.Result || x.Task != v.head.Task || x.World != v.rep.World {
		f.file(FileMerge, "It is of another result than that below HEAD.")
	}
	if !x.Merged() {
		f.file(FileMerge, "Its facts know of no merge.")
		return
	}
	if d, err := kernel.Decide(x); err != nil || d.Action != kernel.ActionComplete || d.State != kernel.TaskCompleted {
		f.file(FileMerge, "The decision does not follow from its facts: taken again, it is %s, %s.", d.Verdict, d.Action)
	}
}

// checkCompleted: the files are the result's, but for the report, which has its final
// state now.
func (v *verifier) checkCompleted(f *findings, c Completion, m MergeRecord) {
	was, err := decoded[report.Report](v.pack[FileReport])
	if err != nil {
		return // said by the check of the report
	}
	want := maps.Clone(v.pack)
	final := was.AtMerge(merged(m.Facts))
	if want[FileReport], err = final.JSON(); err != nil {
		f.file(FileReport, "Of it no report of a completed task can be made: %v.", err)
		return
	}
	want[FileMarkdown], want[FileMerge] = []byte(report.Markdown(final)), c.Files[FileMerge]
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if string(want[name]) != string(c.Files[name]) {
			f.file(name, "At HEAD it is not what the result and its merge make it.")
		}
	}
	if id, err := treeOf(want); err != nil || id != c.Commit.Tree {
		f.file("", "The files are not those of the result and its merge: these make the tree %s, HEAD names %s.", id, c.Commit.Tree)
	}
	if ev, err := eventOf(c.Commit); err != nil || ev.Body != string(want[FileMarkdown]) {
		f.file(FileMarkdown, "It is not what HEAD says.")
	}
}

// merged is what the facts say of the merge, as a report has it.
func merged(x kernel.Facts) report.Merge {
	if !x.Merged() {
		return report.Merge{}
	}
	c := x.Issue.Change
	return report.Merge{Commit: c.Merged, Verified: c.Verified, AsVerified: len(c.Differs) == 0, Differs: c.Differs, Reverted: c.Reverted}
}

// checkContents compares what was merged with what was verified, and says how far that
// can be told.
func (v *verifier) checkContents(f *findings, c kernel.ChangeFacts) string {
	m := v.head.Completion.Merged
	switch {
	case slices.Equal(c.Differs, []string{DiffersUnread}):
		return "What it brought could not be read when it was recorded."
	case v.head.Base == nil:
		return "" // said by the check of the change
	case m.Commit == nil:
		f.file(FileMerge, "The merge %s can't be read in this repository. If the base branch isn't fetched, fetch it and verify again; or else it was rewritten since, or never had that merge.", c.Merged)
		return ""
	case m.Verified == nil:
		return v.landed(f, c) + "What it brought isn't held against the verified commit " + c.Verified + " here: this repository doesn't have that. It was on the change's branch."
	}
	v.compare(f, c, m.Commit.Tree, "compared again")
	landed := v.landed(f, c)
	said := "It brought the contents of " + c.Verified
	if len(c.Differs) > 0 {
		said = fmt.Sprintf("Compared with %s, %s", c.Verified, differing(c.Differs))
	}
	if c.Verified != v.said(kernel.TrailerChange) {
		said += ", which a person pushed to the change's branch; that it passed its review is the instance's word"
	}
	return landed + said + "."
}

// compare holds what is said to differ against what the base has. Where the last commit of
// the change's branch can't be read, no more is held than what the verified one changed.
func (v *verifier) compare(f *findings, c kernel.ChangeFacts, has git.Tree, how string) {
	m := v.head.Completion.Merged
	head := m.Verified
	if m.Head != nil {
		head = m.Head
	}
	on := v.origin()
	if on == nil {
		f.file(FileSeedPack, "The base that the work was first delivered on can't be read.")
		return
	}
	got := Differs(on.Tree, m.Verified.Tree, head.Tree, has)
	unsaid := func(path string) bool { return !slices.Contains(c.Differs, path) }
	if m.Head == nil && len(c.Differs) > 0 && !slices.ContainsFunc(got, unsaid) {
		return // the others are of what was pushed since
	}
	if !slices.Equal(got, c.Differs) {
		f.file(FileMerge, "It says that %s; %s, %s.", differing(c.Differs), how, differing(got))
	}
}

// landed holds the merge against the base branch: it is in its history, and what it brought
// is what the branch got by it. It says what can't be told.
func (v *verifier) landed(f *findings, c kernel.ChangeFacts) string {
	m := v.head.Completion.Merged
	switch l := m.Landing; {
	case l == nil:
		return "Whether it is on the base branch isn't told here: this repository doesn't have that branch, or too much of it. "
	case !l.Reached:
		f.file(FileMerge, "The merge %s isn't in the history of %s above the pinned base, as this repository has that: it isn't fetched, was rewritten since, or never had that merge.", c.Merged, strings.TrimPrefix(l.Branch, "refs/heads/"))
	case l.By != nil && m.Verified != nil:
		v.compare(f, c, l.By.Tree, fmt.Sprintf("by %s, which brought that commit onto %s", l.By.Commit.OID, strings.TrimPrefix(l.Branch, "refs/heads/")))
	}
	return ""
}

func differing(paths []string) string {
	if len(paths) == 0 {
		return "no path was merged otherwise than verified"
	}
	return fmt.Sprintf("the paths merged otherwise than verified are %q", strings.Join(paths[:min(len(paths), maxNamedPaths)], " "))
}

const (
	// DiffersUnread stands for the paths of a merge whose commits can't be read any more.
	DiffersUnread = "(a commit of it can't be read any more)"
	// maxDiffers bounds the paths that a record names.
	maxDiffers = 50
)

// Differs lists the paths whose merged content isn't the verified one: of those
// that the verified commit changed, and of those that were changed on the branch
// after it. Whether the change was merged, squashed or rebased makes no difference
// to it. A record has the first of them.
func Differs(base, verified, head, merged git.Tree) (paths []string) {
	touched := append(git.Unequal(base, verified), git.Unequal(verified, head)...)
	slices.Sort(touched)
	for _, path := range slices.Compact(touched) {
		want, there := verified.Find(path)
		if now, is := merged.Find(path); is == there && now == want {
			continue
		}
		if !utf8.ValidString(path) { // no record can hold it
			path = scope.Display(path)
		}
		if paths = append(paths, path); len(paths) == maxDiffers {
			break
		}
	}
	return paths
}
