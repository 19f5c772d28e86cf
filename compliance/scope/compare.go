package scope

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/writbot/writ/kernel"
)

// Compare judges a snapshot: every path that differs from the base must be
// allowed, unprotected, safe and within the budgets. It is a function of the
// snapshot, the base and the rules alone. The error is the context's.
func (s *Scope) Compare(ctx context.Context, snap *Snapshot) (Verdict, error) {
	faults := violations{list: append([]kernel.Violation{}, snap.faults.list...), more: map[kernel.Code]int{}}
	for code, n := range snap.faults.more {
		faults.more[code] = n
	}
	changes := s.changes(snap)
	for _, path := range slices.Sorted(maps.Keys(snap.unread)) {
		if err := ctx.Err(); err != nil {
			return Verdict{}, err
		}
		s.judgePath(path, &faults)
	}
	v := Verdict{Contents: map[string][]byte{}, Discarded: snap.discarded}
	var bytes int64
	for _, c := range changes {
		if err := ctx.Err(); err != nil {
			return Verdict{}, err
		}
		s.judgePath(c.Path, &faults)
		bytes += c.Size
		if data := snap.files[c.Path].data; data != nil {
			v.Contents[c.AfterID] = data
		}
	}
	if err := s.judgeAdded(ctx, changes, snap.unread, &faults); err != nil {
		return Verdict{}, err
	}
	s.judgeSize(len(changes), bytes, &faults)
	v.Changes = listed(changes, &faults)
	v.Violations = faults.all()
	return v, nil
}

// changes are the differences, sorted by path. What the walk refused to read
// is no change: it is a violation already.
func (s *Scope) changes(snap *Snapshot) []kernel.Change {
	var out []kernel.Change
	for path, e := range s.base.entries {
		f, there := snap.files[path]
		switch {
		case snap.unread[path], e.Mode == ModeGitlink && !snap.shadowed(path):
		case !there && snap.cut:
		case !there:
			out = append(out, kernel.Change{Path: path, Op: kernel.OpDelete, BeforeID: e.OID, BeforeMode: e.Mode})
		case f.OID != e.OID || f.Mode != e.Mode:
			out = append(out, changed(e, f))
		}
	}
	for path, f := range snap.files {
		if _, tracked := s.base.entries[path]; !tracked {
			out = append(out, kernel.Change{Path: path, Op: kernel.OpAdd, AfterID: f.OID, AfterMode: f.Mode, AfterHash: f.Hash, Size: f.Size})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// shadowed reports whether a directory above the path is something else now.
func (s *Snapshot) shadowed(path string) bool {
	for dir := parent(path); dir != ""; dir = parent(dir) {
		if _, file := s.files[dir]; file || s.unread[dir] {
			return true
		}
	}
	return false
}

func changed(e Entry, f Found) kernel.Change {
	c := kernel.Change{Path: e.Path, Op: kernel.OpModify, BeforeID: e.OID, BeforeMode: e.Mode,
		AfterID: f.OID, AfterMode: f.Mode, AfterHash: f.Hash, Size: f.Size}
	if f.OID == e.OID {
		c.Op, c.Size = kernel.OpMode, f.Size
	}
	return c
}

// judgePath holds a changed path against the allowed and the protected ones.
func (s *Scope) judgePath(path string, faults *violations) {
	if !s.allowed.Match(path) {
		faults.add(kernel.CodeScopeOutside, path, "No allowed pattern covers it.")
	}
	if s.guard.Match(path) {
		faults.add(kernel.CodeProtectedPath, path, "It is protected and paths.unprotect of the contract does not name it.")
	}
	e, tracked := s.base.entries[path]
	if e.Mode == ModeGitlink {
		faults.add(kernel.CodeScopeFileType, path, "It is a submodule of the base, which must stay as it is.")
	}
	if tracked && !utf8.ValidString(path) {
		faults.add(kernel.CodePathUnsafe, path, "The path is not valid UTF-8, and no record can hold its change: rename it in a change of your own first.")
	}
}

// judgeAdded holds the names that are new against the rules for paths, and
// against every other name of the tree (S12).
func (s *Scope) judgeAdded(ctx context.Context, changes []kernel.Change, unread map[string]bool, faults *violations) error {
	var added []string
	for _, c := range changes {
		if c.Op == kernel.OpAdd {
			added = append(added, c.Path)
		}
	}
	for path := range unread {
		if _, tracked := s.base.entries[path]; !tracked {
			added = append(added, path)
		}
	}
	if len(added) == 0 {
		return nil
	}
	sort.Strings(added)
	names := newNames(s.base)
	for _, path := range added {
		if err := ctx.Err(); err != nil {
			return err
		}
		if reason := CheckPath(path); reason != "" {
			faults.add(kernel.CodePathUnsafe, path, reason)
		}
		if twin := names.add(path); twin != "" {
			faults.add(kernel.CodePathUnsafe, path, fmt.Sprintf("Some systems can't tell it from %s.", Display(twin)))
		}
	}
	return nil
}

func (s *Scope) judgeSize(files int, bytes int64, faults *violations) {
	if int64(files) > s.rules.MaxFiles {
		faults.add(kernel.CodeScopeSize, "budgets.files", fmt.Sprintf("%d paths changed; budgets.files is %d.", files, s.rules.MaxFiles))
	}
	if bytes > s.rules.MaxBytes {
		faults.add(kernel.CodeScopeSize, "budgets.bytes", fmt.Sprintf("The changed files have %d bytes; budgets.bytes is %d.", bytes, s.rules.MaxBytes))
	}
}

// listed leaves out what a record can't hold; all of it is a violation
// already, as a path that isn't UTF-8 is, or becomes one here.
func listed(changes []kernel.Change, faults *violations) []kernel.Change {
	out := changes[:0:0]
	for _, c := range changes {
		if utf8.ValidString(c.Path) && len(out) < MaxListed {
			out = append(out, c)
		}
	}
	if len(changes) > MaxListed {
		faults.add(kernel.CodeScopeSize, "", fmt.Sprintf("%d paths changed; only %d are listed.", len(changes), MaxListed))
	}
	return out
}
