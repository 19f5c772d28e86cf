// Package scope computes what a builder changed and whether it was allowed to,
// from raw bytes (seed 001, "Immutable Instruction Scope"; cases S1 to S18).
//
// Nothing that a builder can write is believed: not its report, not its .git,
// no index, no attributes. The workspace is walked through directory handles
// without following a link, each regular file is hashed as it lies there, and
// the result is compared with the entries of the pinned base tree. The bytes
// that were hashed are the bytes that are kept and committed (S17).
//
// # Globs
//
// Allowed and protected paths are globs, matched segment by segment; there is
// no string prefix. Paths are relative to the repository's root, with slashes.
//
//	pattern      matches                          does not match
//	src          src                              src/a, src-evil/a, a/src
//	src/*        src/a, src/.a                    src/x/y, src
//	src/*.go     src/a.go                         src/a.go/b, src/x/a.go
//	src/?.go     src/a.go, src/é.go               src/ab.go
//	src/**       src/a, src/x/y                   src, src-evil/a
//	**/a.go      a.go, x/a.go, x/y/a.go           xa.go
//	src/**/a     src/a, src/x/a, src/x/y/a        src/ab
//	*            a (any file of the root)         x/a
//
// A directory's name stands for the name alone, never for what is below it:
// write src/** for that. Case counts, except for protected paths. An asterisk
// matches a leading dot, too.
//
// Refused are: the empty pattern, **, **/* and every other pattern that names
// nothing but wildcards and reaches below the root, ** as a part of a segment
// (a**), [ ] { } and a leading ! (a ? stands for each of them where a file has
// such a name), a backslash, a colon, control characters, a leading or trailing
// slash, empty segments, . and .., and what lies in .git.
//
// # What counts as a change
//
// Everything but directories: added, removed and rewritten files, the
// executable bit, a file that became a directory and the reverse. A rename is
// a removal and an addition, and both sides are judged. Only regular files with
// one link and mode 644 or 755 can be delivered; symbolic links and gitlinks of
// the base must stay as they were. A gitlink is an empty directory in the
// workspace; it is unchanged while that is empty or absent.
//
// The owner's execute bit makes a file 755, as git does it; other bits but
// setuid, setgid and sticky are the umask's affair.
//
// # What is ignored
//
// The top-level .git, whatever it is, is never looked at. Untracked paths that
// the base commit's own .gitignore files match, and that no allowed pattern
// covers, are discarded and listed: a directory that is ignored as a whole is
// listed once, with a slash at its end, and never entered. A tracked path is
// never ignored. Where the matcher and git disagree (a re-included directory,
// go-git issue 2112) a path is seen as not ignored, and that is then judged.
//
// # Above a layer
//
// A workspace may have been an overlay: the base in a read-only layer, and what was
// written in a directory above it ([Scope.VerifyAbove]). Then that directory is walked
// by the same rules, and a path of the base is as it was unless something there hides
// it: a file, a link or a special file of its name or of a directory's above it; a
// character device 0/0, by which the kernel marks what was removed; a directory where
// the base has a file, or with the attribute user.overlay.opaque=y, by which the kernel
// marks one that was removed and made anew. Other attributes that mean something to
// overlays are refused.
//
// # Unsafe paths
//
// [CheckPath] has the rules. They hold for paths that a change adds: a base may
// have aux.c or two names that differ in case, and its files may be edited. A
// path of the base that isn't UTF-8 must stay as it is: no record can hold it.
package scope
