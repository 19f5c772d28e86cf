package git

import (
	"context"
	"math"
	"slices"
	"time"
)

// logDepth is how many generations one exchange of [Repo.Log] asks for: a push of
// hundreds of commits is one exchange.
const logDepth = 1000

// Log reads the commits that from reach and not doesn't, and nothing else of them.
// A server is asked once for each thousand generations; a commit of not that it
// doesn't know is as if it weren't there. In a repository on disk a commit that is
// dated more than a day before one above it may be read though not reaches it.
//
// Once there are most commits it reads no further, and rest are the commits to go
// on from; it is nil when there is nothing left. What is ambiguous is listed with
// the facts that could be read.
func (r *Repo) Log(ctx context.Context, from, not []OID, most int) (commits []Commit, rest []OID, err error) {
	for _, oid := range slices.Concat(from, not) {
		if err := checkOID(oid); err != nil {
			return nil, nil, err
		}
	}
	w := walk{not: not, under: slices.Clone(not), seen: map[OID]Commit{}, hidden: map[OID]bool{}}
	for _, oid := range not {
		w.seen[oid] = Commit{}
	}
	for rest = w.fresh(from); len(rest) > 0 && len(w.commits) < most; {
		if r.local != nil {
			rest, err = r.logStored(&w, rest)
		} else {
			rest, err = r.logFetched(ctx, &w, rest)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return w.commits, rest, nil
}

// walk is one reading of history.
type walk struct {
	not     []OID
	seen    map[OID]Commit
	commits []Commit

	under  []OID        // on disk: reached from not, and not followed further yet
	hidden map[OID]bool // followed
}

// fresh are those that were not seen yet, each once.
func (w *walk) fresh(oids []OID) []OID {
	oids = slices.Clone(oids)
	slices.Sort(oids)
	oids = slices.DeleteFunc(slices.Compact(oids), func(oid OID) bool { _, seen := w.seen[oid]; return seen })
	if len(oids) == 0 {
		return nil
	}
	return oids
}

func (w *walk) take(o rawObject) error {
	if o.kind != objCommit {
		return nil // of a server without filters
	}
	if _, seen := w.seen[o.oid]; seen {
		return nil
	}
	c, err := commitOf(o)
	if err != nil {
		return err
	}
	w.seen[o.oid] = c
	w.commits = append(w.commits, c)
	return nil
}

// commitOf reads a commit, as far as it can be read where it is ambiguous.
func commitOf(o rawObject) (Commit, error) {
	c, err := ParseCommit(o.data)
	if CodeOf(err) == CodeCommitAmbiguous {
		err = nil
	}
	return c, err
}

// logStored takes one generation from disk, but for what not reaches.
func (r *Repo) logStored(w *walk, from []OID) (rest []OID, err error) {
	list, oldest := make([]rawObject, len(from)), int64(math.MaxInt64)
	for i, oid := range from {
		if list[i], err = r.stored(oid); err != nil {
			return nil, missing(oid)
		}
		if list[i].kind != objCommit {
			return nil, wrongType(oid, "commit")
		}
		c, err := commitOf(list[i])
		if err != nil {
			return nil, err
		}
		oldest = min(oldest, c.Committer.Seconds)
	}
	r.hide(w, oldest-int64(24*time.Hour/time.Second))
	for _, o := range list {
		if _, hidden := w.seen[o.oid]; hidden {
			continue
		}
		if err := w.take(o); err != nil {
			return nil, err
		}
		rest = append(rest, w.seen[o.oid].Parents...)
	}
	return w.fresh(rest), nil
}

// hide marks what not reaches, as far down as it is no older than a time in seconds. What
// isn't there reaches nothing.
func (r *Repo) hide(w *walk, since int64) {
	todo := w.under
	w.under = nil
	for len(todo) > 0 {
		oid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if w.hidden[oid] {
			continue
		}
		o, err := r.stored(oid)
		if err != nil || o.kind != objCommit {
			continue
		}
		c, err := commitOf(o)
		if err != nil {
			continue
		}
		if c.Committer.Seconds < since {
			w.under = append(w.under, oid)
			continue
		}
		w.hidden[oid] = true
		if _, seen := w.seen[oid]; !seen {
			w.seen[oid] = Commit{}
		}
		todo = append(todo, c.Parents...)
	}
}

// logFetched takes a thousand generations from the server. It goes on from the
// parents of what was cut off there, unless not reaches them: those aren't sent.
func (r *Repo) logFetched(ctx context.Context, w *walk, from []OID) (rest []OID, err error) {
	cut, err := r.fetchCut(ctx, want{oids: from, have: w.not, depth: logDepth, filter: "tree:0"}, w.take)
	if err != nil {
		return nil, err
	}
	for _, oid := range cut {
		rest = append(rest, w.seen[oid].Parents...)
	}
	return w.fresh(rest), nil
}
