package worldref

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/kernel"
)

// Entry is one commit on the ref, as far as it could be read.
type Entry struct {
	OID    string `json:"oid"`
	Signer string `json:"signer"` // fingerprint of a good signature's key, "" without one
	Fault  string `json:"fault"`  // why it is no act, "" for an act
	Act    Act    `json:"act"`
	// Old and New are what the act is about: worlds, or fingerprints of keys.
	Old string `json:"old"`
	New string `json:"new"`
	// Proven: the old key of a rotation says the same.
	Proven bool `json:"proven"`
}

// Judged is an entry and what becomes of it for one reader.
type Judged struct {
	Entry
	// Counts: all that it says does.
	Counts bool `json:"counts"`
	// Restricts: at least the key that it is about doesn't count any further.
	Restricts bool `json:"restricts"`
	// Why it doesn't count.
	Why string `json:"why"`
}

// Standing is who counts in a world, for one reader: a function of the acts and of
// the keys that the reader lists.
type Standing struct {
	World string
	Acts  []Judged // the oldest first

	listed  func(signer string) bool
	limits  map[string]limit   // by signer
	rebound map[string]markSet // by the old world
	next    map[string]string  // by signer: who took its place
	seen    map[string]witness // by ref
}

// witness is what an act names on a ref, and where it was said.
type witness struct {
	head, old, world string
}

// limit is how far a key counts that counts no more.
type limit struct {
	revoked bool
	granted bool // by an act that counts, so that the marks need no list
	marks   markSet
}

type markSet map[Mark]struct{}

func setOf(marks []Mark) markSet {
	s := markSet{}
	for _, m := range marks {
		s[m] = struct{}{}
	}
	return s
}

func (s markSet) has(ref, oid string) bool {
	_, ok := s[Mark{ref, oid}]
	return ok
}

// Fold judges the acts of a world, the oldest first, for a reader who lists some
// keys by their fingerprints. It is a function of its arguments.
//
// Later acts vouch for earlier ones, so it passes over all of them until nothing
// changes. An act that vouched, and that is undone by what it vouched for, vouches
// no more: a key can't bring back what speaks against itself.
func Fold(world string, entries []Entry, listed func(signer string) bool) Standing {
	banned := map[int]bool{}
	before := newReach()
	for {
		s := pass(world, entries, listed, before)
		if before.grow(world, s.Acts, banned) {
			continue
		}
		if !before.ban(s.Acts, banned) {
			return s
		}
		before = newReach()
	}
}

// reach is how far back acts vouch: for signers, and for other worlds. It has the
// index of the act that does; those below it are meant.
type reach struct{ keys, worlds map[string]int }

func newReach() reach { return reach{keys: map[string]int{}, worlds: map[string]int{}} }

// grow takes in what the acts that count vouch for. It only grows, so it ends.
func (r reach) grow(world string, acts []Judged, banned map[int]bool) (grown bool) {
	further := func(m map[string]int, name string, at int) {
		if m[name] < at {
			m[name], grown = at, true
		}
	}
	for i, a := range acts {
		switch {
		case !a.Counts || banned[i] || i == 0:
		case a.Act.Act == Rotate, a.Act.Act == Revoke && names(a.Act.Refs, acts[i-1].OID):
			further(r.keys, a.Old, i)
		case a.Act.Act == Rebind && a.New == world:
			further(r.worlds, a.Old, i)
		}
	}
	return grown
}

// ban notes the acts that vouched and don't count any more.
func (r reach) ban(acts []Judged, banned map[int]bool) (grown bool) {
	for _, m := range []map[string]int{r.keys, r.worlds} {
		for _, i := range m {
			if !acts[i].Counts {
				banned[i], grown = true, true
			}
		}
	}
	return grown
}

// names reports whether one of the marks is a commit.
func names(marks []Mark, oid string) bool {
	return slices.ContainsFunc(marks, func(m Mark) bool { return m.Head == oid })
}

// pass judges each act by those before it, and by what later ones vouch for.
func pass(world string, entries []Entry, listed func(string) bool, before reach) Standing {
	s := Standing{
		World: world, listed: listed, Acts: make([]Judged, 0, len(entries)),
		limits: map[string]limit{}, rebound: map[string]markSet{}, next: map[string]string{}, seen: map[string]witness{},
	}
	for i, e := range entries {
		j := Judged{Entry: e, Why: s.why(e, i, before)}
		j.Counts = j.Why == ""
		here := e.Act.World == world || i < before.worlds[e.Act.World]
		j.Restricts = e.Fault == "" && e.Signer != "" && here && s.restricts(e, j.Counts)
		s.apply(j)
		s.Acts = append(s.Acts, j)
	}
	return s
}

// why is why an act doesn't count, "" if it does.
func (s *Standing) why(e Entry, i int, before reach) string {
	_, over := s.limits[e.Signer]
	switch {
	case e.Fault != "":
		return e.Fault
	case e.Signer == "":
		return "nobody's good signature is on it"
	case e.Act.World != s.World && i >= before.worlds[e.Act.World]:
		return "it was made in another world, " + e.Act.World
	case over:
		return "its key was replaced or revoked before"
	case !s.listed(e.Signer) && i >= before.keys[e.Signer]:
		return "its key isn't listed"
	case e.Act.Act == Rotate && e.Signer != e.New:
		return "a rotation is signed by the key that takes over"
	case e.Act.Act == Rotate && s.limits[e.Old].revoked:
		return "the key that it replaces was revoked before"
	}
	return ""
}

// restricts reports whether the key that an act is about counts no further by it:
// because the act counts, or because the key says so itself.
func (s *Standing) restricts(e Entry, counts bool) bool {
	limited, over := s.limits[e.Old]
	switch e.Act.Act {
	case Revoke:
		return counts || e.Signer == e.Old && !over
	case Rotate:
		return !limited.revoked && (counts || e.Proven && !over)
	}
	return false
}

// witness takes in what an act says that its writer saw. A rebinding says anew of all
// state of the world that goes on; a repair says that a person went on from something else.
func (s *Standing) witness(j Judged) {
	if !j.Counts {
		return
	}
	if j.Act.Act == Rebind {
		maps.DeleteFunc(s.seen, func(_ string, w witness) bool { return w.old == j.Old || w.world == j.Old })
	}
	for _, m := range j.Act.Refs {
		if j.Act.Act == Repair {
			delete(s.seen, m.Ref)
			continue
		}
		w := witness{head: m.Head, world: j.Act.World}
		if j.Act.Act == Rebind {
			w.old = j.Old
		}
		s.seen[m.Ref] = w
	}
}

// apply has an act take effect.
func (s *Standing) apply(j Judged) {
	s.witness(j)
	switch j.Act.Act {
	case Rebind:
		if j.Counts {
			s.rebound[j.Old] = setOf(j.Act.Refs)
		}
	case Rotate, Revoke:
		if j.Restricts {
			s.limits[j.Old] = limit{revoked: j.Act.Act == Revoke, granted: j.Counts, marks: setOf(j.Act.Refs)}
		}
		if j.Act.Act == Rotate && j.Counts {
			s.next[j.Old] = j.New
		}
	}
}

// Signs reports whether the signature of a key, by its fingerprint, counts on the
// commit that is at the HEAD of a ref: the key is listed and was neither replaced
// nor revoked; or it was, and the act that says so names this very commit.
func (s Standing) Signs(signer, ref, head string) bool {
	if signer == "" || s.listed == nil {
		return false
	}
	lim, over := s.limits[signer]
	if !over {
		return s.listed(signer)
	}
	return lim.marks.has(ref, head) && (s.listed(signer) || lim.granted)
}

// SignsBelow reports whether the signature of a key counts on a commit below a HEAD that
// counts: as [Standing.Signs] has it, or because another key took its place, one that is
// listed. Who wrote HEAD has judged what it stands on, when the old key still counted.
// Neither a key that was revoked, nor one of which a successor was, counts there.
func (s Standing) SignsBelow(signer, ref, oid string) bool {
	last := signer
	for range len(s.next) + 1 {
		if s.Revoked(last) {
			return false
		}
		if s.next[last] == "" {
			break
		}
		last = s.next[last]
	}
	return s.Signs(signer, ref, oid) || last != signer && s.listed != nil && s.listed(last)
}

// Bound reports whether a commit at the HEAD of a ref, which names a world, is of
// this one: it names this world, or one that goes on as this one up to that commit.
func (s Standing) Bound(named, ref, head string) bool {
	return named == s.World && named != "" || s.rebound[named].has(ref, head)
}

// Witnessed is the commit of a state ref that the last act which names one says was seen
// there, "" for none, and where a person went on from something else since.
func (s Standing) Witnessed(ref string) string { return s.seen[ref].head }

// Successor is the key that counts in the place of a key: the last of those that
// took over one from the other, or the key itself.
func (s Standing) Successor(signer string) string {
	for range len(s.next) {
		if s.next[signer] == "" {
			break
		}
		signer = s.next[signer]
	}
	return signer
}

// Former are the keys whose place a key took, directly or one after the other.
func (s Standing) Former(signer string) (former []string) {
	for old := range s.next {
		for at, n := s.next[old], 0; at != "" && n < len(s.next); at, n = s.next[at], n+1 {
			if at == signer && old != signer {
				former = append(former, old)
				break
			}
		}
	}
	slices.Sort(former)
	return former
}

// matters reports whether anything of an act counts for the reader.
func (s Standing) matters(j Judged) bool {
	return j.Counts || j.Restricts && s.listed(j.Old)
}

// Last is the last act of which something counts for the reader, "" for none. What
// others wrote after it may be gone without a loss.
func (s Standing) Last() string {
	for _, j := range slices.Backward(s.Acts) {
		if s.matters(j) {
			return j.OID
		}
	}
	return ""
}

// Over reports whether a key counts no further than for what an act names: it was
// replaced or revoked.
func (s Standing) Over(signer string) bool {
	_, over := s.limits[signer]
	return over
}

// Revoked reports whether a key was revoked.
func (s Standing) Revoked(signer string) bool { return s.limits[signer].revoked }

// Settled reports whether a person looked at the ref of the acts, and went on from what it
// has, since a time in Unix seconds: a repair that counts says so. What was lost by then
// is missed no more.
func (s Standing) Settled(ref string, seconds int64) bool {
	return slices.ContainsFunc(s.Acts, func(j Judged) bool {
		return j.Counts && j.Act.Act == Repair && j.Act.Time/1000 >= seconds &&
			slices.ContainsFunc(j.Act.Refs, func(m Mark) bool { return m.Ref == ref })
	})
}

// Has reports whether a commit is among the acts, counted or not.
func (s Standing) Has(oid string) bool {
	return slices.ContainsFunc(s.Acts, func(j Judged) bool { return j.OID == oid })
}

// PassedOver are the entries that don't count.
func (s Standing) PassedOver() (list []Judged) {
	for _, j := range s.Acts {
		if !j.Counts {
			list = append(list, j)
		}
	}
	return list
}

// String is the act in words, on one line: what, who, and what of it counts. What
// a writer, who may be anybody, could hide or set apart is shown as such.
func (j Judged) String() string { return visible.Line(j.words()) }

func (j Judged) words() string {
	if j.Fault != "" {
		return fmt.Sprintf("%s: passed over: %s", j.OID, j.Fault)
	}
	what := j.Act.Act
	switch j.Act.Act {
	case Rebind, Rotate:
		what += " " + j.Old + " to " + j.New
	case Revoke:
		what += " " + j.Old
	}
	text := fmt.Sprintf("%s %s: %s: %s, by %s (%s), %d refs", j.OID, kernel.Timestamp(j.Act.Time/1000), what, j.Act.Reason, j.Act.Actor, cmp.Or(j.Signer, "nobody"), len(j.Act.Refs))
	switch {
	case j.Counts:
	case j.Restricts:
		text += "; it counts against its old key alone: " + j.Why
	default:
		text += "; passed over: " + j.Why
	}
	return text
}
