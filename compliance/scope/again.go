package scope

import (
	"context"
	"errors"
	"slices"

	"github.com/writbot/writ/kernel"
)

// Again judges recorded changes by the rules for a workspace, as if one were walked
// that holds what they make of the base: whoever recorded them isn't believed. A list
// that no walk of this base gives, with a path twice, a file below a file or a state
// before that the base doesn't have, is a violation too. The contents, by blob id, are
// the caller's to hash. The error is that of [Scope.Compare].
func (s *Scope) Again(ctx context.Context, changes []kernel.Change, contents map[string][]byte) (Verdict, error) {
	snap := s.untouched()
	for _, c := range changes {
		if c.Op == kernel.OpDelete {
			delete(snap.files, c.Path)
			continue
		}
		snap.files[c.Path] = Found{Path: c.Path, Mode: c.AfterMode, OID: c.AfterID, Size: c.Size, Hash: c.AfterHash, data: contents[c.AfterID]}
		if c.AfterMode != ModeFile && c.AfterMode != ModeExec {
			snap.faults.add(kernel.CodeScopeFileType, c.Path, "It is no regular file.")
		}
	}
	after := make([]Entry, 0, len(snap.files))
	for path, f := range snap.files {
		after = append(after, Entry{Path: path, Mode: f.Mode, OID: f.OID})
	}
	var broken *TreeError
	if errors.As(CheckBase(after), &broken) {
		snap.faults.add(kernel.CodePathUnsafe, broken.Path, "With the changes, "+broken.Reason+".")
	}
	v, err := s.Compare(ctx, snap)
	if err == nil && !slices.Equal(v.Changes, changes) {
		v.Violations = append(v.Violations, kernel.Violation{Code: kernel.CodeEvidenceInvalid, Subject: "diff", Detail: "The recorded changes aren't those between the base and what they make of it."})
	}
	return v, err
}

// untouched is what a walk finds where nothing was changed.
func (s *Scope) untouched() *Snapshot {
	snap := &Snapshot{files: make(map[string]Found, len(s.base.entries)), gitlinks: map[string]bool{}, unread: map[string]bool{}}
	for path, e := range s.base.entries {
		if e.Mode != ModeGitlink {
			snap.files[path] = Found{Path: path, Mode: e.Mode, OID: e.OID}
		}
	}
	return snap
}
