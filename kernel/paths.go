package kernel

import (
	"slices"

	"github.com/writbot/writ/kernel/canon"
)

// PathsFacts are the guarded paths that the work at hand changes, and who accepted what
// they hold.
type PathsFacts struct {
	Digest   canon.Digest  `json:"digest"` // that accepts them, see [PathsDigest]
	Needs    string        `json:"needs"`  // least permission of who may, by the contract
	Paths    []GuardedPath `json:"paths"`
	Accepted *Acceptance   `json:"accepted,omitempty"`
}

// Acceptance is a person's recorded act that accepts guarded paths as some work leaves
// them. It was read, and the permission asked for, when the facts were.
type Acceptance struct {
	Act        string       `json:"act"`        // id of the act on the forge
	Actor      string       `json:"actor"`      // account's number, a colon, and its name
	Permission string       `json:"permission"` // that the account has
	Digest     canon.Digest `json:"digest"`     // that it named
}

// permissions are those of people at a repository, the least first.
var permissions = []string{"none", "read", "triage", "write", "maintain", "admin"}

// Held reports whether work must not be delivered yet: it changes guarded paths, and nobody
// who may has accepted exactly what they hold.
func (p *PathsFacts) Held() bool {
	if p == nil {
		return false
	}
	a, least := p.Accepted, slices.Index(permissions, p.Needs)
	return a == nil || !p.Digest.Valid() || a.Digest != p.Digest || a.Actor == "" ||
		least < slices.Index(permissions, "write") || slices.Index(permissions, a.Permission) < least
}

// violations are the paths that are waited for.
func (p *PathsFacts) violations() []Violation {
	var out []Violation
	for _, g := range p.Paths {
		out = append(out, Violation{CodePathGuarded, g.Path, g.Why})
	}
	return out
}

// AwaitsPaths reports whether HEAD waits with sealed work for somebody to accept what its
// guarded paths hold.
func (h HeadFacts) AwaitsPaths() bool {
	return h.Trusted() && h.State == string(TaskWaiting) && h.WaitingFor == WaitPaths
}

// accepted reports whether the work that HEAD waits with is accepted, and can be gone on
// with.
func (f Facts) accepted() bool {
	return f.Head.AwaitsPaths() && f.Paths != nil && !f.Paths.Held() && f.Resumable()
}

// guarded is what the digest of guarded paths is of.
type guarded struct {
	Kind     string       `json:"kind"` // "guarded_paths"
	World    string       `json:"world_id"`
	Task     int64        `json:"task_id"`
	Dispatch canon.Digest `json:"dispatch_hash"`
	Base     string       `json:"base_commit"`
	Result   canon.Digest `json:"result_hash"` // of the whole diff
	Paths    []Change     `json:"paths"`       // mode, before and after of each guarded one
}

// PathsDigest names what a person accepts: the guarded paths of a diff with their modes and
// blobs before and after, the result that they are a part of, the base and the dispatch
// that it answers, and where all that is. It stays the same while the work waits, however
// often HEAD is written anew, and any other work has another one.
func PathsDigest(world string, task int64, dispatch canon.Digest, d Diff) (canon.Digest, error) {
	result, err := canon.Hash(d)
	if err != nil {
		return "", err
	}
	g := guarded{Kind: "guarded_paths", World: world, Task: task, Dispatch: dispatch, Base: d.Base, Result: result, Paths: []Change{}}
	for _, c := range d.Changes {
		if slices.ContainsFunc(d.Guarded, func(p GuardedPath) bool { return p.Path == c.Path }) {
			g.Paths = append(g.Paths, c)
		}
	}
	return canon.Hash(g)
}
