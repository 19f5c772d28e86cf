package replay

import (
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Told is what the comments of a revision point at, as git has it; nil trees can't be
// read.
type Told struct {
	Origin *Snapshot // base of the first delivery
	Files  map[git.OID][]byte
}

// told reads the files that the comments of a revision point at.
func (r *reader) told() error {
	seed, err := decoded[kernel.SeedPack](r.pack[FileSeedPack])
	if err != nil || seed.Revision == nil || r.head.Base == nil {
		return nil //nolint:nilerr // which the checks say
	}
	to := &r.head.Told
	if to.Origin, err = r.snapshot(seed.Revision.Origin); err != nil {
		return err
	}
	var ids []git.OID
	for _, c := range seed.Revision.Fix.Comments {
		if c.Place == nil {
			continue
		}
		if e, there := r.head.placed(*c.Place); there && !slices.Contains(ids, e.OID) {
			ids = append(ids, e.OID)
		}
	}
	to.Files, err = r.blobs(ids)
	return gone(err)
}

// placed is the file that a place is of: as it was before the first delivery, or as it was
// delivered.
func (h HeadInfo) placed(p kernel.Place) (git.Entry, bool) {
	of := h.Base
	if p.Side == kernel.SideOld {
		of = h.Told.Origin
	}
	if of == nil {
		return git.Entry{}, false
	}
	e, there := of.Tree.Find(p.Path)
	return e, there && (e.Mode == git.ModeFile || e.Mode == git.ModeExec)
}

// fixes is the run whose delivered result HEAD's run is a revision of, "" for none.
func (v *verifier) fixes() string { return v.said(kernel.TrailerFixes) }

// checkRevision: the list is the one that HEAD names, what the builder was told is exactly what
// is in it and what git has at the places, and what it revises was an accepted result, on the
// commit that this delivered.
func (v *verifier) checkRevision(f *findings) string {
	if v.seed == nil {
		return "" // said elsewhere
	}
	r := v.seed.Revision
	if r == nil {
		f.file(FileSeedPack, "HEAD says that it is a revision of run %s, and the seed pack has none.", v.fixes())
		return ""
	}
	need := func(ok bool, format string, args ...any) {
		if !ok {
			f.file(FileSeedPack, format, args...)
		}
	}
	for _, bad := range kernel.ValidateRevision(*r) {
		need(false, "Its revision: %s: %s", bad.Subject, bad.Detail)
	}
	digest, err := kernel.FixDigest(r.Fix)
	need(err == nil && string(digest) == v.said(kernel.TrailerFix), "Its list of comments has the digest %s, HEAD names %s.", digest, v.said(kernel.TrailerFix))
	need(r.Fix.World == v.seed.World && r.Fix.Task == v.seed.Task, "Its list of comments is of task %d in %q.", r.Fix.Task, r.Fix.World)
	need(r.Fixes == v.fixes(), "Its revision is of run %q, HEAD says %q.", r.Fixes, v.fixes())
	need(r.Fix.Command.Act == v.said(kernel.TrailerRefreshAct), "Its revision was asked for by %q, HEAD says %q.", r.Fix.Command.Act, v.said(kernel.TrailerRefreshAct))
	v.checkTold(f, *r)
	v.checkOver(f, *r)
	return fmt.Sprintf("It is a revision of run %s, for the list %s of %d comments; that they were there is the instance's word.", r.Fixes, digest, len(r.Fix.Comments))
}

// checkTold: of each comment the builder was told what its bytes show, and of its place what
// git has there.
func (v *verifier) checkTold(f *findings, r kernel.Revision) {
	for n, c := range r.Fix.Comments[:min(len(r.Fix.Comments), len(r.Said))] {
		s := r.Said[n]
		if prose, cuts, bad := instruction.Comment(s.Body); len(bad) > 0 || prose != s.Prose || cuts != s.Cuts {
			f.file(FileSeedPack, "What the builder was told of comment %s isn't what its bytes show.", c.ID)
		}
		if c.Place == nil || s.Shown == nil || c.Place.Fault() != "" {
			continue
		}
		if why := scope.CheckPath(c.Place.Path); why != "" {
			f.file(FileSeedPack, "Comment %s points at no file of the repository: %s", c.ID, why)
			continue
		}
		of, commit := v.head.Base, v.seed.Pins.BaseCommit
		if c.Place.Side == kernel.SideOld {
			of, commit = v.head.Told.Origin, r.Origin
		}
		if of == nil {
			f.file("", "The commit %s, which comment %s points at, can't be read.", commit, c.ID)
			continue
		}
		e, _ := v.head.placed(*c.Place)
		data, read := v.head.Told.Files[e.OID]
		if e.OID != "" && !read {
			f.file("", "The file that comment %s points at can't be read.", c.ID)
			continue
		}
		if want := instruction.Excerpt(*c.Place, commit, string(e.OID), data); want != *s.Shown || c.Place.Commit != v.seed.Pins.BaseCommit {
			f.file(FileSeedPack, "What the builder was shown of the place of comment %s isn't what the commit %s has there.", c.ID, commit)
		}
	}
}

// checkOver: the revision stands right on a result that verifies, was accepted for the same
// text, and delivered the commit that the builder worked on.
func (v *verifier) checkOver(f *findings, r kernel.Revision) {
	b := v.head.Over
	if b == nil {
		f.file("", "The result of run %s, which this is a revision of, can't be read below its claim.", v.fixes())
		return
	}
	was := newVerifier(b.Pack, b.Head, v.opts)
	v.checkBelow(f, b, was)
	for _, x := range []struct{ what, got, want string }{
		{kernel.TrailerRun, was.said(kernel.TrailerRun), v.fixes()},
		{kernel.TrailerApproval, was.said(kernel.TrailerApproval), v.said(kernel.TrailerApproval)},
		{kernel.TrailerAttempt, was.said(kernel.TrailerAttempt), v.said(kernel.TrailerAttempt)},
		{kernel.TrailerChange, was.said(kernel.TrailerChange), v.seed.Pins.BaseCommit},
	} {
		if x.got != x.want {
			f.file("", "The result below the revision has %s %q, the revision goes on from %q.", x.what, x.got, x.want)
		}
	}
	if !was.accepted() || was.seed == nil {
		f.file("", "What run %s is a revision of was no accepted result.", v.said(kernel.TrailerRun))
		return
	}
	origin := was.seed.Pins.BaseCommit
	if was.seed.Revision != nil {
		origin = was.seed.Revision.Origin
	}
	if r.Origin != origin || !slices.Equal(r.Earlier, was.seed.Told()) {
		f.file(FileSeedPack, "Its base before all revisions is %s with %d comments told before, the result below has %s and %d.", r.Origin, len(r.Earlier), origin, len(was.seed.Told()))
	}
}

// whole are all changes of the base that HEAD's work was first delivered on; ok is false
// where a diff of them can't be read.
func (v *verifier) whole() (changes []kernel.Change, ok bool) {
	switch {
	case v.diff == nil || v.seed == nil:
		return nil, false
	case v.seed.Revision == nil:
		return v.diff.Changes, true
	case v.head.Over == nil:
		return nil, false
	}
	below, ok := newVerifier(v.head.Over.Pack, v.head.Over.Head, v.opts).whole()
	return Composed(below, v.diff.Changes), ok
}

// origin is the base that HEAD's work was first delivered on, nil where it can't be read.
func (v *verifier) origin() *Snapshot {
	if v.seed != nil && v.seed.Revision != nil {
		return v.head.Told.Origin
	}
	return v.head.Base
}
