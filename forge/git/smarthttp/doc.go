// Package smarthttp serves the bare repositories below a directory over git's
// smart HTTP protocol: reading by versions 0 to 2, pushing by receive-pack, as
// git's own clients and [github.com/writbot/writ/forge/git] speak them. The work
// is done by the git program, one process a request.
//
//	GET  /<repository>/info/refs?service=git-upload-pack
//	GET  /<repository>/info/refs?service=git-receive-pack
//	POST /<repository>/git-upload-pack
//	POST /<repository>/git-receive-pack
//
// Who may do what is decided by a callback, before anything of the repository is
// looked at. A repository has exactly one name, its path below the root, so that
// a decision about a name is a decision about a repository: no dot-dot, no
// symbolic link, no directory within another repository, no ".git" added or left
// out.
//
// Every ref is shown and may be pushed to, refs/writ/ included, whatever
// transfer.hideRefs says, and pushes of several refs may be atomic: leases live
// there. Other rules are the repository's own (receive.denyNonFastForwards,
// hooks). Hooks find the user's name in REMOTE_USER.
//
// A push counts when it has arrived to the last byte of its pack. One that
// breaks off before changes nothing, and its process is ended. One that has
// arrived is carried out even if its sender has left, and the callback for what
// came of it is called: it hears of each ref that this request has moved, and of
// nothing else. It is git's own report that tells, since others may move the
// same refs before and after; only if git died without one, or the client wanted
// none, the refs are compared with what was asked for.
//
// Limits: bytes of a request, inflated and not; time of a request, as a whole
// and without progress; processes at one time. This package does not listen,
// does no TLS and no redirects, and never speaks the dumb protocol.
package smarthttp
