package scope

import "strings"

// names finds paths, and directories above them, that differ only in case or
// in Unicode composition. Each segment is folded once for each directory that
// has it, never the whole path again, so that long paths cost their length.
type names struct {
	slots map[slotKey]slot
	dirs  map[string]place // by the path as it is
}

// slotKey is a name where names are folded: a directory's number and a folded
// segment.
type slotKey struct {
	dir  int
	name string
}

// slot is who has such a name first, and its number as a directory.
type slot struct {
	path string
	id   int
}

// place is what a path came to: its number, and the path that it, or a
// directory above it, collides with.
type place struct {
	id   int
	twin string
}

func newNames(b base) *names {
	n := &names{slots: make(map[slotKey]slot, len(b.entries)+len(b.dirs)), dirs: make(map[string]place, len(b.dirs))}
	for path := range b.entries {
		n.put(path, false)
	}
	return n
}

// add returns the path that the new one collides with, "" if there is none.
// A base that has colliding names of its own is no fault of the change.
func (n *names) add(path string) string { return n.put(path, true).twin }

func (n *names) put(path string, added bool) place {
	dir := parent(path)
	up := n.enter(dir, added)
	key := slotKey{up.id, Fold(strings.TrimPrefix(path[len(dir):], "/"))}
	s, known := n.slots[key]
	if !known {
		s = slot{path, len(n.slots) + 1}
		n.slots[key] = s
	} else if !added && path < s.path {
		s.path = path // of the base's own twins always the same one is named
		n.slots[key] = s
	}
	if added && s.path != path {
		return place{s.id, s.path}
	}
	return place{s.id, up.twin}
}

func (n *names) enter(dir string, added bool) place {
	if dir == "" {
		return place{}
	}
	p, known := n.dirs[dir]
	if !known {
		p = n.put(dir, added)
		n.dirs[dir] = p
	}
	return p
}
