package scope

import (
	"context"
	"fmt"
	"strings"

	"github.com/writbot/writ/kernel"
	"golang.org/x/sys/unix"
)

// SnapshotAbove walks a workspace that was an overlay above the base: upper is the
// directory of what was written, and what the base holds shows where nothing there
// hides it. It finds what Snapshot would find in the overlay itself, and reads only
// what was written. The layer that the overlay showed must hold the base and nothing
// else, a top-level .git left out; whoever calls knows that.
func (s *Scope) SnapshotAbove(ctx context.Context, upper string) (*Snapshot, error) {
	hides := map[string]bool{}
	snap, err := s.walk(ctx, upper, hides)
	if err != nil {
		return nil, err
	}
	for path, e := range s.base.entries {
		if _, written := snap.files[path]; !written && snap.shows(path, hides) {
			if e.Mode == ModeGitlink {
				snap.gitlinks[path] = true
			} else {
				snap.files[path] = Found{Path: path, Mode: e.Mode, OID: e.OID}
			}
		}
	}
	return snap, nil
}

// VerifyAbove is Verify for a workspace that was an overlay above the base.
func (s *Scope) VerifyAbove(ctx context.Context, upper string) (Verdict, error) {
	snap, err := s.SnapshotAbove(ctx, upper)
	if err != nil {
		return Verdict{}, err
	}
	return s.Compare(ctx, snap)
}

// shows reports whether a path of the base shows through what was written.
func (s *Snapshot) shows(path string, hides map[string]bool) bool {
	for at := path; at != ""; at = parent(at) {
		if hides[at] || s.unread[at] {
			return false
		}
	}
	return !hides[""]
}

// The attributes by which the kernel remembers something in an upper directory, for a
// mount that an ordinary user may make. Those that point elsewhere (redirect, metacopy)
// are written in no such mount.
const (
	overlayMark = "user.overlay."
	opaqueMark  = overlayMark + "opaque" // "y": what is below a directory doesn't show
	// escapedMark is how newer kernels store what a program set itself.
	escapedMark = overlayMark + "overlay."
)

// harmlessMarks say nothing about what a reader finds.
var harmlessMarks = map[string]bool{
	overlayMark + "origin": true, overlayMark + "impure": true, overlayMark + "nlink": true,
	overlayMark + "uuid": true, overlayMark + "upper": true, overlayMark + "protattr": true,
}

// maxMarksBytes is the longest list of attributes that Linux gives.
const maxMarksBytes = 64 << 10

// marked looks at the attributes of an open file or directory of an upper directory. A
// mark that the kernel doesn't make there would make a reader of the overlay see
// something other than what is walked, so it is refused.
func (w *walker) marked(fd int, path string) (refused bool, err error) {
	if w.hides == nil {
		return false, nil
	}
	if w.marks == nil {
		w.marks = make([]byte, maxMarksBytes)
	}
	n, err := unix.Flistxattr(fd, w.marks)
	if err == unix.ENOTSUP {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the attributes of %s: %w", Display(path), err)
	}
	for key := range strings.SplitSeq(string(w.marks[:n]), "\x00") {
		switch {
		case !strings.HasPrefix(key, overlayMark), strings.HasPrefix(key, escapedMark), harmlessMarks[key]:
		case key == opaqueMark && isOpaque(fd):
			w.hides[path] = true
		default:
			w.refuse(kernel.CodeScopeFileType, path, "It bears a mark of overlays, "+Display(key)+", that no kernel makes there.")
			return true, nil
		}
	}
	return false, nil
}

// isOpaque reports whether an open directory is marked as one that hides the base's.
func isOpaque(fd int) bool {
	var value [2]byte
	n, err := unix.Fgetxattr(fd, opaqueMark, value[:])
	var st unix.Stat_t
	return err == nil && n == 1 && value[0] == 'y' && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
