// Package git reads refs and objects of a git repository, builds new objects
// without a checkout, and moves refs by compare-and-swap. It works on a
// repository on disk, over HTTP and over SSH, and knows nothing of tasks or
// leases: object ids and ref names are plain strings here.
//
// The write that matters is [Repo.CompareAndSwap]: explicit (ref, old, new)
// commands in one receive-pack request, with a pack of nothing but the new
// objects. It has five answers: won, lost, unknown, refused by a rule, unable
// (seed 000, §4).
//
// What is read is read from the git transport or from the repository's own
// files, never from a forge's REST API, whose replicas lag. Refs are never
// cached. refs/replace and grafts are never honoured: an object id names the
// bytes that hash to it.
//
// The pieces of the protocol are go-git's where they fit: the encoding of an
// update request, the report, the resolution of deltas, the hash that detects
// collisions, the reading of commits that ours is compared with. Its sessions are
// not used: they do not tell what was sent from what was not, read without
// limits, and can't leave out the advertisement. Over HTTP, and to a repository
// on disk, a request of one command goes alone, without a list of all refs before
// it; the server compares. A repository on disk is read from its files without a
// process, and written through git receive-pack, so that its locks, rules and
// hooks are those of any push.
//
// Errors are [*Error]: a code, a sentence, and what the reader can do. No error,
// reason or log line holds a credential.
package git
