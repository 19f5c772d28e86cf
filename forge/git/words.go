package git

import "strings"

// guess is what a server's words say at first sight. Words are no proof: who
// pushes looks further, at what else the server takes.
type guess struct {
	status Status
	// space says that the words are about space, size or quota. A small push
	// can't tell whether those are for good: it fits where a larger one doesn't.
	space bool
	// account says that the words are about what the account may do: any other push
	// of it meets the same.
	account bool
	// general says that the words only state that it was no, so that what else
	// the server said counts more.
	general bool
}

// saying is a group of words that servers use, and what they mean.
type saying struct {
	means guess
	words []string
}

// sayings are what servers say: git's own words, and those of the forges that
// differ. They are the protocol's only way to give a reason. The first group
// that has a word of the text wins, so their order is from exact to general:
//
//   - Words that say nothing but that the ref was elsewhere, or its lock held.
//   - Rules by their name, and then what the account may not do at all. A file over GitHub's limit
//     and an archived repository are rules, whatever they say of size and of
//     "read-only".
//   - Space, size, quota.
//   - A server that can't. GitLab says "pre-receive hook declined" as well when
//     its own parts don't answer, so these come before what is general.
//   - What only says no.
//   - Words about refs and locks that stand in other texts, too.
var sayings = []saying{
	{guess{status: Lost}, []string{"but expected", "reference already exists", "file exists"}},
	{guess{status: Refused}, []string{
		"gh001", "gh002", "gh003", "gh006", "gh007", "gh008", "gh009", "gh010", "gh011", "gh012", "gh013",
		"push protection", "push rule", "rule violation", "repository rule", "archived", "protected branch", "protected tag",
		"push_rule", "denied by policy", "allowed to force push", "allowed to create", "allowed to delete",
		"non-fast-forward", "checked out", "hidden ref", "funny refname", "deletion prohibited", "exists; cannot create", "shallow update not allowed",
	}},
	{guess{status: Refused, account: true}, []string{
		"write access", "access denied", "permission to ", "permissions to ", "required permission", "not accessible by", "suspended",
		"allowed to push", "allowed to upload",
	}},
	{guess{status: Unable, space: true}, []string{
		"no space left", "disk full", "quota", "exceed", "too large", "larger than", "storage limit", "size limit", "over the limit", "out of space",
	}},
	{guess{status: Unable}, []string{
		"read-only", "read only", "maintenance", "migrat", "unavailable", "not available", "try again", "retry later", "internal server error",
		"internal error", "internal api", "api is not accessible", "gitaly", "rate limit", "too many", "overloaded", "timed out", "timeout", "unreachable", "connection refused",
		"connection reset", "unpacker error", "abnormal exit", "input/output error", "out of memory", "cannot allocate memory",
		"unable to create", "unable to write", "unable to append", "cannot create", "could not create", "failed to write", "insufficient permission for adding",
		"bad pack", "index-pack", "missing necessary objects", "remote unpack failed", "device or resource busy", "stale file handle",
	}},
	{guess{status: Refused, general: true}, []string{
		"declined", "prohibited", "denied", "not allowed", "not permitted", "aborted by hook", "violat", "protected", "permission",
	}},
	{guess{status: Lost}, []string{
		"already exists", "stale info", "fetch first", "cannot lock ref", "unable to lock",
		"failed to lock", "lock failure", "lock_failure", "unable to resolve reference", "does not exist",
	}},
}

// read guesses what a text means. Unknown: its words don't tell.
func read(text string) guess {
	s := strings.ToLower(text)
	for _, g := range sayings {
		for _, w := range g.words {
			if strings.Contains(s, w) {
				return g.means
			}
		}
	}
	return guess{status: Unknown}
}

// readAll guesses from the server's reasons, and where those are general ones
// from whatever else it said.
func readAll(reasons, said string) guess {
	g := read(reasons)
	if g.status != Unknown && !g.general {
		return g
	}
	if more := read(said); more.status == Unable || g.status == Unknown || !more.general && more.status == Refused {
		return more
	}
	return g
}
