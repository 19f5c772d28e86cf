package replay

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// Repo is the repository that holds state ref, base and change.
type Repo interface {
	Refs(ctx context.Context, names ...string) (git.Refs, error)
	Commit(ctx context.Context, oid git.OID) (git.Commit, error)
	Tree(ctx context.Context, commitOrTree git.OID) (git.Tree, error)
	Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error
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
	refs, err := repo.Refs(ctx, ref)
	if err != nil {
		return Report{}, unreadable("the refs", err)
	}
	oid := refs.OID(ref)
	if oid.IsZero() {
		return Report{}, &Error{Code: kernel.CodeTargetIneligible, Detail: "the repository has no ref " + ref}
	}
	r := reader{ctx: ctx, repo: repo, head: HeadInfo{Task: number}}
	if err := r.read(oid); err != nil {
		return Report{}, err
	}
	return Verify(r.pack, r.head, o), nil
}

func unreadable(what string, err error) error {
	return &Error{Code: kernel.CodeEnvRepository, Detail: what + " can't be read", Err: err}
}

// reader fetches what Verify looks at.
type reader struct {
	ctx  context.Context
	repo Repo
	head HeadInfo
	pack Pack
}

func (r *reader) read(oid git.OID) error {
	var err error
	if r.head.Commit, err = r.commit(oid); err != nil {
		return err
	}
	if r.pack, err = r.files(oid); err != nil {
		return err
	}
	if err := r.leases(); err != nil {
		return err
	}
	return r.delivered()
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
	return c, nil
}

// files reads the files of a state commit's tree. What isn't a plain file is
// left out, so that the tree can't be that of the commit.
func (r *reader) files(commit git.OID) (Pack, error) {
	tree, err := r.repo.Tree(r.ctx, commit)
	if err != nil {
		return nil, unreadable("the tree of "+string(commit), err)
	}
	var ids []git.OID
	for _, e := range tree.Entries {
		if e.Mode == git.ModeFile && len(ids) <= len(known) {
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
		case c.OID == r.head.Commit.OID && !isLease:
			// A result stands on its run's last lease.
		case !isLease || run != "" && ev.RunID != run:
			return r.prior(c)
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
	for _, c := range v.diff.Changes {
		if e, ok := r.head.Change.Tree.Find(c.Path); ok && string(e.OID) == c.AfterID {
			ids = append(ids, e.OID)
		}
	}
	r.head.Blobs, err = r.blobs(ids)
	return gone(err)
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
