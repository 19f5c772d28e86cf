package scope

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/writbot/writ/kernel"
)

// Compare judges a snapshot: every path that differs from the base must be
// allowed, unprotected, safe and within the budgets. It is a function of the
// snapshot, the base and the rules alone. The error is the context's, or that of
// [Rules].Blob.
func (s *Scope) Compare(ctx context.Context, snap *Snapshot) (Verdict, error) {
	faults := violations{list: append([]kernel.Violation{}, snap.faults.list...), more: map[kernel.Code]int{}}
	for code, n := range snap.faults.more {
		faults.more[code] = n
	}
	changes := s.changes(snap)
	locks := NewLocks(changes, func(path string) bool { _, there := snap.files[path]; return there }, s.rules.LockSources)
	for _, path := range slices.Sorted(maps.Keys(snap.unread)) {
		if err := ctx.Err(); err != nil {
			return Verdict{}, err
		}
		if s.judgePath(path, locks, &faults); s.guard.Match(path) {
			faults.add(kernel.CodeProtectedPath, path, whyProtected)
		}
	}
	v := Verdict{Contents: map[string][]byte{}, Discarded: snap.discarded}
	var bytes int64
	for _, c := range changes {
		if err := ctx.Err(); err != nil {
			return Verdict{}, err
		}
		s.judgePath(c.Path, locks, &faults)
		if err := s.judgeClass(c, locks, snap.files[c.Path].data, &v, &faults); err != nil {
			return Verdict{}, err
		}
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

// all returns the violations in order, with the umbrella code and a note for
// each code that had too many.
func (v *violations) all() []kernel.Violation {
	if len(v.list) == 0 {
		return nil
	}
	out := append([]kernel.Violation{}, v.list...)
	total := 0
	for code, n := range v.more {
		total += n
		if n > maxPerCode {
			out = append(out, kernel.Violation{Code: code, Detail: fmt.Sprintf("And %d more of this kind.", n-maxPerCode)})
		}
	}
	out = append(out, kernel.Violation{Code: kernel.CodeScopeViolation,
		Detail: fmt.Sprintf("Broken rules of scope: %d.", total)})
	return kernel.SortViolations(out)
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

// whyProtected is said of a path that nobody can be asked about.
const whyProtected = "It is protected and paths.unprotect of the contract does not name it."

// judgeClass holds a changed path against the three classes. What is protected isn't
// named by many tasks: a lock file's contents are read only here.
func (s *Scope) judgeClass(c kernel.Change, locks Locks, after []byte, v *Verdict, faults *violations) error {
	why, detail := WhyGuarded, whyProtected
	switch s.guard.Class(c.Path) {
	case ClassNone:
		return nil
	case ClassForbidden:
		faults.add(kernel.CodeProtectedPath, c.Path, whyProtected)
		return nil
	case ClassLock:
		var err error
		if why, err = s.withManifest(c, locks, after); err != nil {
			return err
		}
		if why == "" {
			v.Locks = append(v.Locks, c.Path)
			return nil
		}
		detail = "It is a lock file, and guarded: " + why
	case ClassGuarded:
	}
	if !s.rules.Accepts {
		faults.add(kernel.CodeProtectedPath, c.Path, detail)
		return nil
	}
	v.Guarded = append(v.Guarded, kernel.GuardedPath{Path: c.Path, Why: why})
	return nil
}

// ErrTooLarge is what [Rules].Blob says of a file that it won't read.
var ErrTooLarge = errors.New("scope: the file is too large to be read")

// withManifest says why a changed lock file doesn't come with its manifest, or "".
func (s *Scope) withManifest(c kernel.Change, locks Locks, after []byte) (string, error) {
	var before []byte
	var err error
	read := func(id string) (data []byte) {
		if id != "" && err == nil && s.rules.Blob != nil {
			data, err = s.rules.Blob(id)
		}
		return data
	}
	if locks.NeedsSources(c) {
		if s.rules.Blob == nil {
			return "What it held before can't be read.", nil
		}
		if before = read(c.BeforeID); after == nil {
			after = read(c.AfterID)
		}
	}
	if errors.Is(err, ErrTooLarge) {
		return "It is too large to be read.", nil
	}
	if err != nil {
		return "", err
	}
	return locks.WithManifest(c, before, after), nil
}

// allows reports whether a pattern, or a name, allows a path.
func (s *Scope) allows(path string) bool { return s.paths[path] || s.allowed.Match(path) }

// judgePath holds a changed path against the allowed ones. A lock file is allowed with
// its manifest.
func (s *Scope) judgePath(path string, locks Locks, faults *violations) {
	if !s.allows(path) && (s.guard.Class(path) != ClassLock || !locks.Allowed(path, s.allows)) {
		faults.add(kernel.CodeScopeOutside, path, "No allowed pattern covers it.")
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
