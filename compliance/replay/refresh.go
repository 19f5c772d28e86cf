package replay

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// KindRefresh is the kind of a [RefreshRecord].
const KindRefresh = "refresh"

// RefreshRecord is what came of applying a delivered result on another base, or of revising
// it, where that result stands. It is the word of the instance that tried: no records belong to it.
type RefreshRecord struct {
	Kind        string             `json:"kind"` // "refresh"
	Run         string             `json:"run_id"`
	Refreshes   string             `json:"refreshes"`     // run whose result stands
	Fix         canon.Digest       `json:"fix,omitempty"` // of the list, of a revision
	Base        string             `json:"base_commit"`
	Act         string             `json:"act"` // on the forge, that asked for it
	Interrupted bool               `json:"interrupted"`
	Codes       []kernel.Code      `json:"codes"`
	Violations  []kernel.Violation `json:"violations"`
}

// Built are the builder's result and the diff that a result's records hold; ok is false
// where they don't.
func Built(records []byte) (result kernel.BuilderResult, diff kernel.Diff, ok bool) {
	var hasResult, hasDiff bool
	for line := range bytes.Lines(records) {
		r, err := decoded[kernel.Record](bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return result, diff, false
		}
		switch r.Kind {
		case kernel.KindBuilderResult:
			b, err := decoded[kernel.BuilderResult](r.Body)
			if hasResult = err == nil; hasResult {
				result = *b
			}
		case kernel.KindDiff:
			d, err := decoded[kernel.Diff](r.Body)
			if hasDiff = err == nil; hasDiff {
				diff = *d
			}
		}
	}
	return result, diff, hasResult && hasDiff
}

// Refreshed is the delivered result that HEAD's run applied on another base, with all that
// is read of it as of a HEAD. Top is the commit at which it stood when that run was
// claimed: the result, or one that put it back.
type Refreshed struct {
	Top  git.OID
	Pack Pack
	Head HeadInfo
	// Merges are the files of which those are merged that the base changed too, by id.
	Merges map[git.OID][]byte
}

// maxRefreshes bounds how many results, each applied on another base than the one before,
// are verified below one another.
const maxRefreshes = 32

// merges reads the files that the refresh of a result merges.
func (r *reader) merges() error {
	b := r.head.Refreshed
	if b == nil || r.head.Base == nil {
		return nil
	}
	changes, ok := newVerifier(b.Pack, b.Head, Options{}).whole()
	if !ok {
		return nil // which the checks say
	}
	ids := ToMerge(changes, r.head.Base.Tree)
	if len(ids) == 0 {
		return nil
	}
	blobs, err := r.blobs(ids)
	b.Merges = blobs
	return gone(err)
}

// replaced reads the result right below a claim with a trailer that names its run; nil for
// none, and where it isn't there.
func (r *reader) replaced(key string) (*Refreshed, error) {
	if len(r.head.Leases) == 0 || r.depth == maxRefreshes {
		return nil, nil
	}
	claim := r.head.Leases[len(r.head.Leases)-1]
	ev, err := eventOf(claim)
	if err != nil || trailer(ev, key) == "" || len(claim.Parents) != 1 {
		return nil, nil //nolint:nilerr // what can't be read, the checks say
	}
	below := reader{ctx: r.ctx, repo: r.repo, size: r.size, depth: r.depth + 1, head: HeadInfo{Task: r.head.Task, Ref: r.head.Ref, Acts: r.head.Acts}}
	if err := below.read(claim.Parents[0]); err != nil {
		return nil, gone(err)
	}
	r.size = below.size
	return &Refreshed{Top: claim.Parents[0], Pack: below.pack, Head: below.head}, nil
}

// refreshes is the run whose delivered result HEAD's run applied on another base, "" for
// none.
func (v *verifier) refreshes() string { return v.said(kernel.TrailerRefreshes) }

// checkRefreshed: the result that HEAD's run replaced stood right below its claim, was for
// the same approval, verifies as HEAD does, and its diff, applied on this base, is this
// one's.
func (v *verifier) checkRefreshed(f *findings) string {
	b := v.head.Refreshed
	if b == nil {
		f.file("", "The result of run %s, which this one replaced, can't be read below its claim.", v.refreshes())
		return ""
	}
	was := newVerifier(b.Pack, b.Head, v.opts)
	v.checkBelow(f, b, was)
	dispatched := was.resumes()
	if dispatched == "" {
		dispatched = was.said(kernel.TrailerRun)
	}
	for _, x := range []struct{ what, got, want string }{
		{kernel.TrailerRun, was.said(kernel.TrailerRun), v.refreshes()}, {kernel.TrailerResumes, dispatched, v.resumes()},
		{kernel.TrailerApproval, was.said(kernel.TrailerApproval), v.said(kernel.TrailerApproval)},
		{kernel.TrailerDispatch, was.said(kernel.TrailerDispatch), v.said(kernel.TrailerDispatch)},
		{kernel.TrailerAttempt, was.said(kernel.TrailerAttempt), v.said(kernel.TrailerAttempt)},
	} {
		if x.got != x.want {
			f.file("", "The result that was replaced has %s %q, this one names %q.", x.what, x.got, x.want)
		}
	}
	if !was.accepted() {
		f.file("", "What run %s replaced was no accepted result.", v.claim.RunID)
	}
	v.checkAuto(f, b, was)
	v.checkRebased(f, was)
	mine, _, ok := Built(v.pack[FileRecords])
	theirs, _, is := Built(was.pack[FileRecords])
	if ok && is && !equal(mine, theirs) {
		f.file(FileRecords, "What it says of its builder isn't what the result says that it replaced.")
	}
	if v.seed != nil && was.seed != nil && !slices.Equal(v.seed.Told(), was.seed.Told()) {
		f.file(FileSeedPack, "It names %d comments that the work was revised for, and what it replaced %d.", len(v.seed.Told()), len(was.seed.Told()))
	}
	said := fmt.Sprintf("It is the verified change of run %s, applied on the base %s.", v.refreshes(), v.said(kernel.TrailerBase))
	if v.diff != nil && len(v.diff.Merged) > 0 {
		said += fmt.Sprintf(" Merged by lines with what the base has: %s.", mergedWords(v.diff.Merged))
	}
	return said
}

// checkAuto: where nobody asked for it, the contract in force on this base did, for this
// base, by the act that follows from what stood there, and not more often than it may.
func (v *verifier) checkAuto(f *findings, b *Refreshed, was *verifier) {
	act := v.said(kernel.TrailerRefreshAct)
	nth, base, auto := kernel.ReadAutoAct(act)
	if !auto {
		return
	}
	top := b.Head.Commit
	if b.Head.Restored != nil {
		top = b.Head.Restored.Commit
	}
	h := kernel.HeadFacts{Act: was.said(kernel.TrailerAct)}
	if ev, err := eventOf(top); err == nil {
		h.RefreshAct = trailer(ev, kernel.TrailerRefreshAct)
		h.RefreshOwed = h.RefreshAct != "" && trailer(ev, kernel.TrailerRefreshInterruptions) != ""
	}
	want, _ := kernel.AutoAct(h, v.said(kernel.TrailerBase))
	switch {
	case v.rulesErr == nil && v.rules.Refresh != contract.RefreshAuto:
		f.add(kernel.CodeAuthority, FileContract, NoSeq, "Nobody asked for it, and the contract doesn't say refresh: auto.")
	case v.rulesErr == nil && nth > v.rules.Budgets.Refreshes:
		f.add(kernel.CodeAuthority, FileContract, NoSeq, "Nobody asked for it, and for the %d. time: budgets.refreshes is %d.", nth, v.rules.Budgets.Refreshes)
	case base != v.said(kernel.TrailerBase), act != want:
		f.file("", "The contract asked for it by %q, and by what it replaced the act is %q.", act, want)
	}
}

// checkBelow: the result that HEAD's run replaced verifies, was made for this place, and
// stood right below the claim.
func (v *verifier) checkBelow(f *findings, b *Refreshed, was *verifier) {
	if rep := Verify(b.Pack, b.Head, v.opts); !rep.OK {
		bad := rep.Checks[slices.IndexFunc(rep.Checks, func(c Check) bool { return !c.OK })]
		f.add(bad.Code, "", NoSeq, "The result of run %s, which this one replaced, doesn't verify: %s: %s", was.said(kernel.TrailerRun), bad.Name, bad.Detail)
	}
	claim := v.head.Leases[len(v.head.Leases)-1]
	switch {
	case !slices.Equal(claim.Parents, []git.OID{b.Top}):
		f.file("", "The claim %s was not put on the result that it replaces.", claim.OID)
	case was.stamp.At(0) != v.stamp.At(0):
		f.add(kernel.CodeStateForeign, "", NoSeq, "The result that was replaced was made for %s.", was.stamp)
	}
}

// checkRebased: the diff is the earlier one, with all that it was revised, path by path, as
// it applies on this base.
func (v *verifier) checkRebased(f *findings, was *verifier) {
	changes, ok := was.whole()
	if !ok || v.diff == nil || v.head.Base == nil {
		if v.accepted() && !v.redacted() {
			f.file(FileRecords, "The diff that was applied can't be read.")
		}
		return
	}
	want := Rebased(changes, v.head.Base.Tree, v.head.Refreshed.Merges)
	if len(want.Conflicts) > 0 || !slices.Equal(want.Changes, v.diff.Changes) {
		f.record(v.diffSeq(), "It is not the diff of run %s as it applies on this base.", v.refreshes())
	}
	if !slices.Equal(want.Merged, v.diff.Merged) {
		f.record(v.diffSeq(), "The files that it says were merged by lines are not those that were.")
	}
}

// checkRestored holds HEAD against the result that it put back: its words and files, and
// beside them what was tried.
func (v *verifier) checkRestored(f *findings) string {
	c := v.head.Restored
	key, err := signer(c.Commit)
	switch {
	case err != nil:
		f.file("", "HEAD %s has no good signature of an instance: %v.", c.Commit.OID, err)
	case len(v.opts.Keys) > 0 && !v.vouched(git.Fingerprint(key)):
		f.add(kernel.CodeLeaseUntrusted, "", NoSeq, "HEAD is signed by %s, which is none of the keys that you vouch for.", git.Fingerprint(key))
	}
	ev, err := eventOf(c.Commit)
	if err != nil || ev.State != v.event.State || trailer(ev, kernel.TrailerWaitingFor) != v.said(kernel.TrailerWaitingFor) || ev.Body != v.event.Body {
		f.file("", "HEAD %s doesn't say what the result says that it put back.", c.Commit.OID)
		return ""
	}
	if s, err := kernel.ReadStamp(ev.Trailers); err != nil || s.Binding(v.stamp) != kernel.BindHere || s.Seq <= v.stamp.Seq {
		f.add(kernel.CodeStateForeign, "", NoSeq, "HEAD %s isn't a later commit of the task whose result it put back.", c.Commit.OID)
	}
	if what := trailer(ev, kernel.TrailerRefreshWaits); what != "" && (what != kernel.WaitPaths || trailer(ev, kernel.TrailerRefreshInterruptions) == "") {
		f.file("", "HEAD %s says that an act waits for %q, and that none is to be done again, or for what no act waits.", c.Commit.OID, what)
	}
	for _, key := range append(sameInLeases(), kernel.TrailerChange, kernel.TrailerAct, kernel.TrailerAccepts, kernel.TrailerRun, kernel.TrailerCodes) {
		if got, want := trailer(ev, key), v.said(key); got != want && key != kernel.TrailerRefreshAct {
			f.file("", "HEAD says %s %q, the result that it put back %q.", key, got, want)
		}
	}
	r, err := decoded[RefreshRecord](c.Files[FileRefresh])
	if err != nil || r.Kind != KindRefresh || r.Refreshes != v.said(kernel.TrailerRun) {
		f.file(FileRefresh, "It can't be read, or is of another result: %v.", err)
		return ""
	}
	want := maps.Clone(v.pack)
	want[FileRefresh] = c.Files[FileRefresh]
	if id, err := treeOf(want); err != nil || id != c.Commit.Tree {
		f.file("", "The files are not those of the result that was put back: these make the tree %s, HEAD names %s.", id, c.Commit.Tree)
	}
	return fmt.Sprintf("Run %s tried to apply it on the base %s, and it stands as it was; that is the instance's word.", r.Run, r.Base)
}

// Composed are the changes that two diffs make together, the second on what the first left.
func Composed(first, second []kernel.Change) []kernel.Change {
	all := map[string]kernel.Change{}
	for _, c := range first {
		all[c.Path] = c
	}
	for _, c := range second {
		if was, twice := all[c.Path]; twice {
			c.BeforeID, c.BeforeMode = was.BeforeID, was.BeforeMode
		}
		switch {
		case c.BeforeID == c.AfterID && c.BeforeMode == c.AfterMode:
			delete(all, c.Path)
			continue
		case c.BeforeID == "":
			c.Op = kernel.OpAdd
		case c.AfterID == "":
			c.Op = kernel.OpDelete
		case c.BeforeID == c.AfterID:
			c.Op = kernel.OpMode
		default:
			c.Op = kernel.OpModify
		}
		all[c.Path] = c
	}
	out := make([]kernel.Change, 0, len(all))
	for _, path := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[path])
	}
	return out
}

// Rebase is a verified diff as it applies on another base.
type Rebase struct {
	Changes   []kernel.Change // that are left to do there
	Merged    []kernel.MergedFile
	Contents  map[string][]byte // of the merged files, by blob id
	Conflicts []string          // paths where it doesn't apply
}

// maxMerges bounds the files of one diff that are merged; what is more is a conflict. Each
// takes a tenth of a second at most.
const maxMerges = 100

// Rebased applies a verified diff on another base. A diff replaces whole files and names
// what each was before: it applies where the base has that at a path, or has what the diff
// leaves there already, which is then no change any more. A file of the same mode that both
// changed is merged by lines from the three blobs, which [ToMerge] names; nobody verified
// the outcome, so whoever calls has it judged and checked like new work. All else is a
// conflict.
func Rebased(changes []kernel.Change, base git.Tree, blobs map[git.OID][]byte) Rebase {
	out := Rebase{Changes: []kernel.Change{}, Contents: map[string][]byte{}}
	merges := mergesOf(changes, base)
	for _, c := range changes {
		id, mode := at(base, c.Path)
		switch {
		case id == c.AfterID && mode == c.AfterMode:
		case id == c.BeforeID && mode == c.BeforeMode && (id != "" || !inTheWay(base, c.Path, changes)):
			out.Changes = append(out.Changes, c)
		case !slices.ContainsFunc(merges, func(m kernel.MergedFile) bool { return m.Path == c.Path }) || !out.merge(c, id, blobs):
			out.Conflicts = append(out.Conflicts, c.Path)
		}
	}
	return out
}

// merge merges a file, if that can be done.
func (r *Rebase) merge(c kernel.Change, id string, blobs map[git.OID][]byte) bool {
	m := kernel.MergedFile{Path: c.Path, BaseID: c.BeforeID, OursID: c.AfterID, TheirsID: id}
	var texts [3][]byte
	for i, of := range []string{m.BaseID, m.OursID, m.TheirsID} {
		data, there := blobs[git.OID(of)]
		if !there || string(git.HashBlob(data)) != of {
			return false
		}
		texts[i] = data
	}
	if c.AfterHash != "" && canon.Sum(texts[1]) != c.AfterHash {
		return false
	}
	data, ok := git.MergeLines(texts[0], texts[1], texts[2])
	if !ok {
		return false
	}
	c.BeforeID, c.AfterID = id, string(git.HashBlob(data))
	if c.BeforeID == c.AfterID {
		return true // the base has all of it, among other changes
	}
	c.AfterHash, c.Size = canon.Sum(data), int64(len(data))
	r.Changes, r.Merged = append(r.Changes, c), append(r.Merged, m)
	r.Contents[c.AfterID] = data
	return true
}

// ToMerge are the blobs that [Rebased] needs to merge files.
func ToMerge(changes []kernel.Change, base git.Tree) (ids []git.OID) {
	for _, m := range mergesOf(changes, base) {
		ids = append(ids, git.OID(m.BaseID), git.OID(m.OursID), git.OID(m.TheirsID))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// mergesOf are the files that a diff and another base both changed, where both left a file
// of the mode that it had.
func mergesOf(changes []kernel.Change, base git.Tree) (out []kernel.MergedFile) {
	for _, c := range changes {
		id, mode := at(base, c.Path)
		file := mode == git.ModeFile.String() || mode == git.ModeExec.String()
		switch {
		case !file || mode != c.BeforeMode || mode != c.AfterMode:
		case id == c.BeforeID || id == c.AfterID || c.BeforeID == c.AfterID:
		case len(out) < maxMerges:
			out = append(out, kernel.MergedFile{Path: c.Path, BaseID: c.BeforeID, OursID: c.AfterID, TheirsID: id})
		}
	}
	return out
}

// at is what a tree has at a path; empty for nothing.
func at(t git.Tree, path string) (id, mode string) {
	if e, there := t.Find(path); there {
		return string(e.OID), e.Mode.String()
	}
	return "", ""
}

// mergedWords names merged files with the blobs that each was merged of.
func mergedWords(list []kernel.MergedFile) string {
	var words []string
	for _, m := range list[:min(len(list), maxNamedPaths)] {
		words = append(words, fmt.Sprintf("%q of %s (the work), %s (its base before) and %s (this base)", m.Path, m.OursID, m.BaseID, m.TheirsID))
	}
	if more := len(list) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// inTheWay reports whether a file can't be added: something lies below its path, or a file
// where one of its directories must be. What the diff deletes is in nobody's way.
func inTheWay(base git.Tree, added string, changes []kernel.Change) bool {
	deleted := func(p string) bool {
		return slices.ContainsFunc(changes, func(c kernel.Change) bool { return c.Path == p && c.Op == kernel.OpDelete })
	}
	for at := strings.LastIndexByte(added, '/'); at > 0; at = strings.LastIndexByte(added[:at], '/') {
		if _, is := base.Find(added[:at]); is && !deleted(added[:at]) {
			return true
		}
	}
	return slices.ContainsFunc(base.Entries, func(e git.Entry) bool {
		return strings.HasPrefix(e.Path, added+"/") && !deleted(e.Path)
	})
}
