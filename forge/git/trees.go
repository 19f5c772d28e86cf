package git

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
)

// Trees reads single directories of a repository, and what differs between two trees
// without reading what they share. It is for many commits of a long history: what it
// read lately it keeps. One goroutine may use it at a time.
type Trees struct {
	repo  *Repo
	known map[OID][]Entry
	kept  int // entries in known
}

// maxKeptEntries bounds what Trees keeps: some 30 MB.
const maxKeptEntries = 200_000

// Trees returns a reader. It is for a repository on disk: of a server it would ask
// for each directory by itself.
func (r *Repo) Trees() *Trees { return &Trees{repo: r, known: map[OID][]Entry{}} }

// List returns the entries of one tree object, by name, sorted bytewise. The list is
// the caller's to read, not to change. "" is the empty tree.
func (t *Trees) List(ctx context.Context, tree OID) ([]Entry, error) {
	if tree == "" {
		return nil, nil
	}
	if list, ok := t.known[tree]; ok {
		return list, nil
	}
	if err := checkOID(tree); err != nil {
		return nil, err
	}
	o, err := t.repo.object(ctx, tree, want{oids: []OID{tree}})
	if err != nil {
		return nil, err
	}
	if o.kind != objTree {
		return nil, wrongType(tree, "tree")
	}
	list, err := parseTree(o.data)
	if err != nil {
		return nil, err
	}
	sortEntries(list)
	if t.kept += len(list); t.kept > maxKeptEntries {
		t.known, t.kept = map[OID][]Entry{}, len(list)
	}
	t.known[tree] = list
	return list, nil
}

// Difference is a path at which two trees differ. An entry that isn't there is zero.
type Difference struct {
	Path          string
	Before, After Entry // files, links and submodules, with the whole path
}

// Diff lists the paths at which two trees differ, sorted bytewise. "" is the empty
// tree. Names are compared as they are: nothing is taken for renamed.
func (t *Trees) Diff(ctx context.Context, before, after OID) ([]Difference, error) {
	d := treeDiff{ctx: ctx, trees: t}
	if err := d.below("", before, after, 0); err != nil {
		return nil, err
	}
	slices.SortFunc(d.out, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
	return d.out, nil
}

// treeDiff is one comparison. It counts what it unfolds: a few tree objects can stand
// for any number of files.
type treeDiff struct {
	ctx   context.Context //nolint:containedctx // of one call
	trees *Trees
	out   []Difference
	nodes int
	bytes int // of their paths
}

func (d *treeDiff) below(prefix string, before, after OID, depth int) error {
	if before == after {
		return nil
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if depth > maxTreeDepth {
		return tooDeep()
	}
	a, err := d.trees.List(d.ctx, before)
	if err != nil {
		return err
	}
	b, err := d.trees.List(d.ctx, after)
	if err != nil {
		return err
	}
	for len(a) > 0 || len(b) > 0 {
		var x, y Entry
		switch order := byName(a, b); {
		case order < 0:
			x, a = a[0], a[1:]
		case order > 0:
			y, b = b[0], b[1:]
		default:
			x, a, y, b = a[0], a[1:], b[0], b[1:]
		}
		if x == y {
			continue
		}
		if err := d.pair(prefix+cmp.Or(x.Path, y.Path), x, y, depth); err != nil {
			return err
		}
	}
	return nil
}

// byName says which of two sorted lists goes on with the lesser name.
func byName(a, b []Entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Compare(a[0].Path, b[0].Path)
}

// pair takes what two trees have under one name.
func (d *treeDiff) pair(path string, x, y Entry, depth int) error {
	d.nodes++
	if d.bytes += len(path); d.nodes > d.trees.repo.limits.Entries || d.bytes > maxTreePaths || len(path) > maxPath {
		return fail(CodeTooLarge, "two trees differ at more than "+strconv.Itoa(d.nodes-1)+" paths, or at ones that are too long", "", nil)
	}
	var dirs [2]OID
	diff := Difference{Path: path}
	for i, e := range []Entry{x, y} {
		switch {
		case e.Mode == ModeTree:
			dirs[i] = e.OID
		case e.OID != "":
			e.Path = path
			*[]*Entry{&diff.Before, &diff.After}[i] = e
		}
	}
	if diff.Before.OID != "" || diff.After.OID != "" {
		d.out = append(d.out, diff)
	}
	return d.below(path+"/", dirs[0], dirs[1], depth+1)
}

// Size is the length of a blob in bytes. Its content is neither held nor hashed, and
// it may be larger than what is read otherwise. Only for a repository on disk.
func (r *Repo) Size(oid OID) (int64, error) {
	if err := checkOID(oid); err != nil {
		return 0, err
	}
	if r.local == nil {
		return 0, fail(CodeUnsupported, "a server doesn't say how large a file is", "clone the repository", nil)
	}
	return r.local.store.sizeOf(oid)
}

func (s *diskStore) sizeOf(oid OID) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, err := s.packedSize(oid)
	for _, dir := range s.dirs {
		if !errors.Is(err, errMissing) {
			return size, err
		}
		err = openLoose(dir, oid, func(f *os.File) error {
			return withLoose(f, func(_ objType, n int64, _ io.Reader) error { size = n; return nil })
		})
	}
	if errors.Is(err, errMissing) && s.rescan() {
		size, err = s.packedSize(oid)
	}
	if errors.Is(err, errMissing) {
		err = missing(oid)
	}
	return size, err
}

func (s *diskStore) packedSize(oid OID) (int64, error) {
	for _, p := range s.packs {
		if off, ok := p.index.find(oid); ok {
			return p.src.sizeAt(off)
		}
	}
	return 0, errMissing
}

// maxDeltaSizes is the length of the two sizes that a delta begins with, in bytes.
const maxDeltaSizes = 20

// sizeAt reads the size of the object at an offset: a delta begins with it.
func (p *packSource) sizeAt(off int64) (int64, error) {
	unbounded := *p
	unbounded.maxObject = math.MaxInt64
	h, err := unbounded.head(off)
	if err != nil || !h.kind.isDelta() {
		return h.size, err
	}
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	if err := f.open(io.NewSectionReader(p.r, h.data, p.size-h.data)); err != nil {
		return 0, err
	}
	begin := make([]byte, min(h.size, maxDeltaSizes))
	if _, err := io.ReadFull(f.z, begin); err != nil {
		return 0, badObject("it is cut short", err)
	}
	return deltaResult(begin, math.MaxInt64)
}
