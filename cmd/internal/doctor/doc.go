// Package doctor looks whether an installation of writ can do its work: machine,
// configuration, secrets, store, forges, repositories. Each check says how it
// stands, in a line, and what to do about it.
//
// It reads, with one exception: in each repository it pushes refs below the
// state refs, in the form of a real state commit, and deletes them again, for
// that alone shows whether the server takes them. Their names are no number, so
// that nobody takes one for a task. A running writ serve isn't disturbed: no lock
// is taken, and no table is written.
//
// What can't be seen is said to be unseen, and never counted as fine.
package doctor
