package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// Repo is the repository that holds state ref, base and change.
type Repo interface {
	Refs(ctx context.Context, names ...string) (git.Refs, error)
	Commit(ctx context.Context, oid git.OID) (git.Commit, error)
	Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error
	Tree(ctx context.Context, commitOrTree git.OID) (git.Tree, error)
	Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error
	Log(ctx context.Context, from, not []git.OID, most int) (commits []git.Commit, rest []git.OID, err error)
}

// Error is a failure to read what is to be verified: no verdict was reached.
type Error struct {
	Code   kernel.Code
	Detail string
	Err    error // cause, or nil
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Detail
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// VerifyTask reads the HEAD of a task's state ref, a full name that ends in the
// task's number, with all that it names, and verifies it. Whatever the
// repository says and lacks is in the report; an [*Error] means that it could
// not be read, or has no such task (target.ineligible).
func VerifyTask(ctx context.Context, repo Repo, ref string, o Options) (Report, error) {
	number, err := strconv.ParseInt(ref[strings.LastIndexByte(ref, '/')+1:], 10, 64)
	if err != nil || number < 1 {
		return Report{}, &Error{Code: kernel.CodeRefInvalid, Detail: fmt.Sprintf("%q is no task's ref", ref)}
	}
	said := worldref.Ref(ref[:strings.LastIndexByte(ref, '/')+1])
	refs, err := repo.Refs(ctx, ref, said)
	if err != nil {
		return Report{}, unreadable("the refs", err)
	}
	oid := refs.OID(ref)
	if oid.IsZero() {
		return Report{}, &Error{Code: kernel.CodeTargetIneligible, Detail: "the repository has no ref " + ref}
	}
	r := reader{ctx: ctx, repo: repo, head: HeadInfo{Task: number, Ref: ref}}
	if r.head.Acts, err = worldref.Read(ctx, repo, refs.OID(said)); err != nil {
		return Report{}, unreadable(said, err)
	}
	if err := r.read(oid); err != nil {
		return Report{}, err
	}
	if err := r.results(oid); err != nil {
		return Report{}, err
	}
	r.held()
	if err := r.others(ref); err != nil {
		return Report{}, err
	}
	return Verify(r.pack, r.head, o), nil
}

// results looks below HEAD for other results of the task, and for broken leases.
func (r *reader) results(top git.OID) error {
	all, _, err := r.repo.Log(r.ctx, []git.OID{top}, nil, maxLeases)
	if err != nil {
		return gone(unreadable("what is below HEAD", err))
	}
	r.head.Broken = broken(all)
	seen := map[Result]bool{resultOf(r.head.Commit): true}
	verified := map[string]bool{} // of what was replaced, be it put back by others
	for h := &r.head; h != nil; {
		verified[resultOf(h.Commit).Run] = true
		switch {
		case h.Refreshed != nil:
			h = &h.Refreshed.Head
		case h.Over != nil:
			h = &h.Over.Head
		default:
			h = nil
		}
	}
	replaces := r.head.Refreshed != nil || r.head.Over != nil || r.head.Restored != nil
	for _, c := range all {
		x := resultOf(c)
		if x.Signer == "" || seen[x] || replaces && verified[x.Run] {
			continue
		}
		seen[x] = true
		if c.OID != top {
			x.Commit = string(c.OID)
			r.head.Results = append(r.head.Results, x)
		}
	}
	return nil
}

// resultOf is what a commit says as a result, without its id: that which a merge
// completed and that which waited for it are one. What is no signed result has
// no signer.
func resultOf(c git.Commit) (x Result) {
	ev, err := eventOf(c)
	if err != nil || !(kernel.Judgement{State: kernel.TaskState(ev.State), WaitingFor: trailer(ev, kernel.TrailerWaitingFor)}).Accepted() {
		return x
	}
	if key, err := signer(c); err == nil {
		x.Signer = git.Fingerprint(key)
	}
	x.Run, x.Change = trailer(ev, kernel.TrailerRun), trailer(ev, kernel.TrailerChange)
	return x
}

// maxOthers bounds the tasks that are asked which acts there were: they are read at once.
const maxOthers = 4096

// others reads the HEADs of other tasks, the highest numbers first. Whatever HEAD is
// signed by, another may tell of an act after which that key counts no more.
func (r *reader) others(ref string) error {
	prefix := ref[:strings.LastIndexByte(ref, '/')+1]
	refs, err := r.repo.Refs(r.ctx, prefix)
	if err != nil {
		return unreadable("the refs", err)
	}
	heads := map[int64]git.OID{}
	for _, name := range refs.Names() {
		if n, err := strconv.ParseInt(strings.TrimPrefix(name, prefix), 10, 64); err == nil && name != ref {
			heads[n] = refs.OID(name)
		}
	}
	numbers := slices.Sorted(maps.Keys(heads))
	slices.Reverse(numbers)
	numbers = numbers[:min(len(numbers), maxOthers)]
	oids := make([]git.OID, len(numbers))
	for i, n := range numbers {
		oids[i] = heads[n]
	}
	read := map[git.OID]git.Commit{}
	err = r.repo.Commits(r.ctx, oids, func(c git.Commit) { read[c.OID] = c })
	if err != nil {
		return gone(unreadable("the HEADs of other tasks", err))
	}
	for i, n := range numbers {
		if c, ok := read[oids[i]]; ok && act(c) != "" {
			r.head.Others = append(r.head.Others, Other{prefix + strconv.FormatInt(n, 10), c})
		}
	}
	return nil
}

func unreadable(what string, err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		return own
	}
	return &Error{Code: kernel.CodeEnvRepository, Detail: what + " can't be read", Err: err}
}

// reader fetches what Verify looks at.
type reader struct {
	ctx   context.Context
	repo  Repo
	head  HeadInfo
	pack  Pack
	size  int64 // of all that was read, in bytes
	depth int   // results above it that were applied on other bases
}

// What a repository that lies can have us read for one task. A state commit has its
// instruction as its message, and all evidence together is some megabytes.
const (
	maxCommit = 4 << 20
	maxRead   = 512 << 20
)

// take counts what is read.
func (r *reader) take(what string, n, most int64) error {
	if n > most {
		return &Error{Code: kernel.CodeEvidenceTooLarge, Detail: fmt.Sprintf("%s has %d bytes, more than %d", what, n, most)}
	}
	if r.size += n; r.size > maxRead {
		return &Error{Code: kernel.CodeEvidenceTooLarge, Detail: fmt.Sprintf("what is to be read comes to more than %d bytes", int64(maxRead))}
	}
	return nil
}

func (r *reader) read(oid git.OID) error {
	var err error
	if r.head.Commit, err = r.commit(oid); err != nil {
		return err
	}
	if _, err := signer(r.head.Commit); err != nil {
		return nil //nolint:nilerr // the checks say so, and nothing else is read
	}
	if r.pack, err = r.files(oid); err != nil {
		return err
	}
	for _, read := range []func() error{r.completed, r.restored, r.leases, r.refreshed, r.over} {
		if err := read(); err != nil {
			return err
		}
	}
	if err := r.carried(); err != nil {
		return err
	}
	if err := r.delivered(); err != nil {
		return err
	}
	for _, read := range []func() error{r.merges, r.told} {
		if err := read(); err != nil {
			return err
		}
	}
	return r.merged()
}

// over reads the delivered result that HEAD's run is a revision of. What isn't there,
// the checks say.
func (r *reader) over() (err error) {
	r.head.Over, err = r.replaced(kernel.TrailerFixes)
	return err
}

// restored reads the result below a HEAD that put it back.
func (r *reader) restored() error {
	top := r.head.Commit
	ev, err := eventOf(top)
	if r.pack[FileRefresh] == nil || err != nil {
		return nil //nolint:nilerr // which the checks say
	}
	run, c := trailer(ev, kernel.TrailerRun), top
	for range maxLeases {
		if len(c.Parents) != 1 {
			return nil
		}
		if c, err = r.commit(c.Parents[0]); err != nil {
			return err
		}
		if x := resultOf(c); x.Signer == "" || x.Run != run {
			continue
		}
		files, err := r.files(c.OID)
		if err != nil {
			return err
		}
		if files[FileRefresh] == nil {
			r.head.Restored = &Completion{Commit: top, Files: r.pack}
			r.head.Commit, r.pack = c, files
			return nil
		}
	}
	return nil
}

// refreshed reads the result that HEAD's run replaced. What isn't there, the checks say.
func (r *reader) refreshed() (err error) {
	r.head.Refreshed, err = r.replaced(kernel.TrailerRefreshes)
	return err
}

// merged reads what the merge that completed a result brought.
func (r *reader) merged() error {
	if r.head.Completion == nil || r.head.Base == nil {
		return nil
	}
	m, err := decoded[MergeRecord](r.head.Completion.Files[FileMerge])
	if err != nil || !m.Facts.Merged() {
		return nil //nolint:nilerr // the checks say so
	}
	c, to := m.Facts.Issue.Change, &r.head.Completion.Merged
	if to.Verified, err = r.snapshot(c.Verified); err != nil {
		return err
	}
	if to.Head, err = r.snapshot(c.Head); err != nil {
		return err
	}
	if to.Commit, err = r.snapshot(c.Merged); err != nil || to.Commit == nil {
		return err
	}
	to.Landing, err = r.landing(to.Commit.Commit.OID)
	return err
}

// landing looks for a merge in the history of the base branch above the pinned base: the
// contract's, or the one that HEAD of the repository, or of where it was cloned from,
// names. nil where the repository has none of them, or too much of it to be read.
func (r *reader) landing(merge git.OID) (*Landing, error) {
	heads, err := r.repo.Refs(r.ctx, "refs/heads/", tracking)
	if err != nil {
		return nil, unreadable("the branches", err)
	}
	l := &Landing{Branch: heads.Head}
	if rules := newVerifier(r.pack, r.head, Options{}).rules; rules.Base != "" {
		l.Branch = "refs/heads/" + rules.Base
	}
	tips := branch(heads, l.Branch)
	for _, name := range heads.Names() {
		if strings.HasPrefix(name, tracking) && strings.HasSuffix(name, "/HEAD") {
			tips = append(tips, heads.OID(name))
		}
	}
	if len(tips) == 0 {
		return nil, nil
	}
	all, rest, err := r.repo.Log(r.ctx, tips, []git.OID{r.head.Base.Commit.OID}, maxAboveBase)
	if err != nil {
		return nil, gone(unreadable("the history of "+l.Branch, err))
	}
	above := map[git.OID]git.Commit{}
	for _, c := range all {
		above[c.OID] = c
	}
	if _, l.Reached = above[merge]; !l.Reached {
		if len(rest) > 0 {
			return nil, nil
		}
		return l, nil
	}
	by := brought(above, tips, merge)
	if by == merge {
		return l, nil
	}
	l.By, err = r.snapshot(string(by))
	return l, err
}

// brought is the commit by which a branch got another commit: the oldest of its own line
// of first parents that has it.
func brought(above map[git.OID]git.Commit, tips []git.OID, oid git.OID) (by git.OID) {
	children := map[git.OID][]git.OID{}
	for _, c := range above {
		for _, p := range c.Parents {
			children[p] = append(children[p], c.OID)
		}
	}
	has := map[git.OID]bool{oid: true}
	for next := []git.OID{oid}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			if !has[c] {
				has[c], next = true, append(next, c)
			}
		}
	}
	for _, tip := range tips {
		for at := tip; has[at]; at = above[at].Parents[0] {
			if by = at; at == oid {
				return by
			}
		}
	}
	return by
}

// completed reads the result below a HEAD that completed it at the merge of its change.
func (r *reader) completed() error {
	top := r.head.Commit
	if r.pack[FileMerge] == nil || len(top.Parents) != 1 {
		return nil
	}
	var err error
	if r.head.Commit, err = r.commit(top.Parents[0]); err != nil {
		return err
	}
	r.head.Completion = &Completion{Commit: top, Files: r.pack}
	r.pack, err = r.files(top.Parents[0])
	return err
}

// commit reads a commit. One that can be read in two ways is no error here: the
// checks say so. The object must be the one that was asked for.
func (r *reader) commit(oid git.OID) (git.Commit, error) {
	c, err := r.repo.Commit(r.ctx, oid)
	if err != nil && git.CodeOf(err) != git.CodeCommitAmbiguous {
		return c, unreadable("commit "+string(oid), err)
	}
	if c.OID != oid {
		return c, &Error{Code: kernel.CodeEnvRepository, Detail: fmt.Sprintf("asked for commit %s, the repository gave %s", oid, c.OID)}
	}
	return c, r.take("commit "+string(oid), int64(len(c.Raw)), maxCommit)
}

// maxSealed bounds the sealed blobs of a lease that are read.
const maxSealed = 1000

// files reads the files of a state commit's tree. What isn't a plain file is
// left out, so that the tree can't be that of the commit.
func (r *reader) files(commit git.OID) (Pack, error) {
	tree, err := r.repo.Tree(r.ctx, commit)
	if err != nil {
		return nil, unreadable("the tree of "+string(commit), err)
	}
	var ids []git.OID
	for _, e := range tree.Entries {
		if e.Mode == git.ModeFile && len(ids) <= len(known)+maxSealed {
			ids = append(ids, e.OID)
		}
	}
	blobs, err := r.blobs(ids)
	if err != nil {
		return nil, unreadable("the evidence", err)
	}
	out := Pack{}
	for _, e := range tree.Entries {
		if data, ok := blobs[e.OID]; ok && e.Mode == git.ModeFile {
			out[e.Path] = data
		}
	}
	return out, nil
}

func (r *reader) blobs(ids []git.OID) (map[git.OID][]byte, error) {
	out := map[git.OID][]byte{}
	err := r.repo.Blobs(r.ctx, ids, func(oid git.OID, data []byte) error {
		if err := r.take("file "+string(oid), int64(len(data)), maxRead); err != nil {
			return err
		}
		out[oid] = append([]byte{}, data...)
		return nil
	})
	return out, err
}

// maxLeases bounds the heartbeats of one run that are read: a day of one every
// ten seconds.
const maxLeases = 8640

// leases follows the run from HEAD to its claim, and reads what stood at HEAD
// before it.
func (r *reader) leases() error {
	c, run := r.head.Commit, ""
	for range maxLeases {
		ev, err := eventOf(c)
		isLease := err == nil && ev.State == lease.StateWorking
		switch {
		case err == nil && c.OID != r.head.Commit.OID && len(r.head.Leases) == 0 && awaitsRule(ev):
			r.head.Waits = append(r.head.Waits, c)
		case c.OID == r.head.Commit.OID && !isLease:
			// A result stands on its run's last lease.
		case !isLease || run != "" && ev.RunID != run:
			if err := r.prior(c); err != nil {
				return err
			}
			return r.earlier(c)
		default:
			run = ev.RunID
			r.head.Leases = append(r.head.Leases, c)
		}
		if len(c.Parents) != 1 {
			return nil
		}
		if c, err = r.commit(c.Parents[0]); err != nil {
			return err
		}
	}
	return nil
}

// maxCarriers bounds the commits below HEAD that are asked for its tree.
const maxCarriers = 100

// carried looks below HEAD for the commit whose tree it has.
func (r *reader) carried() error {
	if !newVerifier(r.pack, r.head, Options{}).carries() {
		return nil
	}
	c := r.head.Commit
	for range maxCarriers {
		if len(c.Parents) != 1 {
			return nil
		}
		var err error
		if c, err = r.commit(c.Parents[0]); err != nil {
			return gone(err)
		}
		if c.Tree == r.head.Commit.Tree {
			r.head.Carried = &c
			return nil
		}
	}
	return nil
}

// carries reports whether HEAD's files can only be those of a commit below it: some
// states that no run's pack belongs to leave the tree as it is.
func (v *verifier) carries() bool {
	if v.keyErr != nil || v.ofRun() || v.live() {
		return false
	}
	for name, data := range v.pack {
		if !v.own(name) || name == FileMarkdown && string(data) != v.event.Body {
			return true
		}
	}
	return false
}

// awaitsRule reports whether an event is the wait for a rule that a result then was put
// on.
func awaitsRule(ev lease.Event) bool {
	return ev.State == string(kernel.TaskWaiting) && trailer(ev, kernel.TrailerWaitingFor) == kernel.WaitRule && trailer(ev, kernel.TrailerBase) != ""
}

// earlier looks below a claim that went on with sealed work for the claim of the run
// that was dispatched. Whoever broke its lease, or went on before, stands between them.
func (r *reader) earlier(c git.Commit) error {
	if len(r.head.Leases) == 0 {
		return nil
	}
	top, err := eventOf(r.head.Leases[len(r.head.Leases)-1])
	run := trailer(top, kernel.TrailerResumes)
	if err != nil || run == "" || trailer(top, kernel.TrailerRefreshes) != "" {
		return nil //nolint:nilerr // what can't be read, the checks say
	}
	for range maxLeases {
		ev, err := eventOf(c)
		mine := err == nil && ev.State == lease.StateWorking && ev.RunID == run
		switch {
		case mine:
			claim := c
			r.head.Earlier = &claim
		case r.head.Earlier != nil:
			return nil
		}
		if len(c.Parents) != 1 {
			return nil
		}
		if c, err = r.commit(c.Parents[0]); err != nil {
			return gone(err)
		}
	}
	return nil
}

// prior reads what the attempt before left for this one. The event of a new
// approval may stand between them.
func (r *reader) prior(c git.Commit) error {
	if ev, err := eventOf(c); err == nil && ev.State == string(kernel.TaskOpen) && len(c.Parents) == 1 {
		if c, err = r.commit(c.Parents[0]); err != nil {
			return err
		}
	}
	files, err := r.files(c.OID)
	r.head.Prior = PriorRetry(files)
	return gone(err)
}

// PriorRetry is what a state commit's files tell the next attempt: what the
// failed one left, or what an interrupted one had been told itself. nil if there
// is nothing to tell.
func PriorRetry(files Pack) []byte {
	if data := files[FileRetry]; data != nil {
		return data
	}
	var seed kernel.SeedPack
	if err := canon.UnmarshalCanonical(files[FileSeedPack], &seed); err != nil || seed.Retry == nil {
		return nil
	}
	data, err := canon.Marshal(*seed.Retry)
	if err != nil {
		return nil
	}
	return data
}

// delivered reads base, change and the bytes that the recorded changes bring.
// Only the repository's own trouble is an error: what is gone, the checks say.
func (r *reader) delivered() error {
	ev, err := eventOf(r.head.Commit)
	if err != nil {
		return nil //nolint:nilerr // HEAD is no event, which the checks say
	}
	if r.head.Base, err = r.snapshot(trailer(ev, kernel.TrailerBase)); err != nil {
		return err
	}
	if r.head.Change, err = r.snapshot(trailer(ev, kernel.TrailerChange)); err != nil {
		return err
	}
	if r.head.Change == nil {
		return nil
	}
	v := newVerifier(r.pack, r.head, Options{})
	if v.diff == nil {
		return nil
	}
	var ids []git.OID
	locks := r.head.locks(*v.diff, nil)
	for _, c := range v.diff.Changes {
		if e, ok := r.head.Change.Tree.Find(c.Path); ok && string(e.OID) == c.AfterID {
			ids = append(ids, e.OID)
		}
		if r.head.Base != nil && locks.NeedsSources(c) {
			if e, ok := r.head.Base.Tree.Find(c.Path); ok {
				ids = append(ids, e.OID)
			}
		}
	}
	r.head.Blobs, err = r.blobs(ids)
	return gone(err)
}

// maxAboveBase bounds the commits of the default branch, above the pinned base, among
// which the change is looked for.
const maxAboveBase = 10_000

// ChangePrefix is that of the branches that changes are delivered on, before the task's
// number.
const ChangePrefix = "refs/heads/writ/change/"

// tracking is the prefix of the refs that a clone has of the branches elsewhere.
const tracking = "refs/remotes/"

// branch is where a branch is, by the repository itself and by what it has of others.
func branch(refs git.Refs, full string) (tips []git.OID) {
	short, is := strings.CutPrefix(full, "refs/heads/")
	for _, name := range refs.Names() {
		if name == full || is && strings.HasPrefix(name, tracking) && strings.HasSuffix(name, "/"+short) {
			tips = append(tips, refs.OID(name))
		}
	}
	return tips
}

// held looks for a branch that holds the change: at its tip, or below the tips of the
// default branch and of the task's own. What can't be looked at isn't said, for branches
// are as many as whoever pushes likes.
func (r *reader) held() {
	if r.head.Base == nil || r.head.Change == nil {
		return
	}
	change := r.head.Change.Commit.OID
	refs, err := r.repo.Refs(r.ctx, "refs/heads/", tracking)
	if err != nil || slices.ContainsFunc(refs.Names(), func(name string) bool { return refs.OID(name) == change }) {
		return
	}
	own := ChangePrefix + strconv.FormatInt(r.head.Task, 10)
	u := &Unheld{Own: own, Default: refs.Head}
	mains := branch(refs, refs.Head)
	above, rest, err := r.repo.Log(r.ctx, append(branch(refs, own), mains...), []git.OID{r.head.Base.Commit.OID}, maxAboveBase)
	if err != nil || len(rest) > 0 || slices.ContainsFunc(above, func(c git.Commit) bool { return c.OID == change }) {
		return
	}
	for _, tip := range mains {
		tree, err := r.repo.Tree(r.ctx, tip)
		u.Landed = u.Landed || err == nil && sameFiles(newVerifier(r.pack, r.head, Options{}).diff, tree)
	}
	r.head.Unheld = u
}

// sameFiles reports whether a tree has all files of a diff as the diff left them.
func sameFiles(d *kernel.Diff, tree git.Tree) bool {
	return d != nil && !slices.ContainsFunc(d.Changes, func(c kernel.Change) bool {
		e, there := tree.Find(c.Path)
		if c.Op == kernel.OpDelete {
			return there
		}
		return !there || string(e.OID) != c.AfterID || e.Mode.String() != c.AfterMode
	})
}

// snapshot reads a commit and its tree; nil if the repository hasn't got it.
func (r *reader) snapshot(name string) (*Snapshot, error) {
	oid := git.OID(name)
	if !oid.Valid() || oid.IsZero() {
		return nil, nil
	}
	c, err := r.commit(oid)
	if err != nil {
		return nil, gone(err)
	}
	tree, err := r.repo.Tree(r.ctx, oid)
	if err != nil {
		return nil, gone(unreadable("the tree of "+name, err))
	}
	return &Snapshot{c, tree}, nil
}

// gone drops the error of an object that isn't there or is no such object.
func gone(err error) error {
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid:
		return nil
	}
	return err
}
