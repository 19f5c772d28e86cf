// Package branch is the branch runner of seed 000: it looks at branches of
// somebody's clone, or of a remote of it, takes those whose HEAD names a state that
// has a command, runs the command, and says what came of it. It needs git and
// nothing else: no forge, no database, no issue, no contract of writ's.
//
// It trusts whoever may push: nothing is signed, no key is listed, and a command
// runs as the caller. What it doesn't leave to who pushes an event is the code that
// runs, which comes from a pinned commit of the default branch (Config.From).
//
// kernel/tick decides; this package observes and acts, in this order for each
// branch: HEAD read from where the truth is, the command found, the lease pushed by
// compare-and-swap, a working tree made, the command run, HEAD read again. Between
// the lease and the end of the command it changes nothing in the repository (A16):
// renewing is the command's business, with [Holder].
package branch
