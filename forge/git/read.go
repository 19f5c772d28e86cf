package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

func checkOID(oid OID) error {
	if !oid.Valid() || oid.IsZero() {
		return fail(CodeOIDInvalid, fmt.Sprintf("%q names no object", string(oid)), "use 40 hexadecimal digits", nil)
	}
	return nil
}

func missing(oid OID) error {
	return fail(CodeObjectMissing, "the repository has no object "+string(oid), "it may be gone, or the clone be partial", nil)
}

// ErrWrongType says that the repository has the object, and that it is of another
// type than was asked for. It will be the next time, too.
var ErrWrongType = errors.New("git: the object is of another type")

func wrongType(oid OID, want string) error {
	return fail(CodeObjectInvalid, "object "+string(oid)+" is no "+want, "", ErrWrongType)
}

// Commit reads one commit object, and nothing else from the server if it can.
// An error of code commit.ambiguous comes with the facts that could be read.
func (r *Repo) Commit(ctx context.Context, oid OID) (Commit, error) {
	if err := checkOID(oid); err != nil {
		return Commit{}, err
	}
	o, err := r.object(ctx, oid, want{oids: []OID{oid}, depth: 1, filter: "tree:0"})
	if err != nil {
		return Commit{}, err
	}
	if o.kind != objCommit {
		return Commit{}, wrongType(oid, "commit")
	}
	return ParseCommit(o.data)
}

// Commits reads many commit objects and calls f once for each distinct id, in no
// order that counts. Those that are on no disk of ours are asked for together.
// What is no commit, or two readers may read differently, is left out: whoever may push
// can put a blob or a tag on a ref.
func (r *Repo) Commits(ctx context.Context, oids []OID, f func(Commit)) error {
	oids = slices.Clone(oids)
	slices.Sort(oids)
	give := func(o rawObject) {
		if o.kind != objCommit {
			return
		}
		if c, err := ParseCommit(o.data); err == nil {
			f(c)
		}
	}
	absent := map[OID]bool{}
	for _, oid := range slices.Compact(oids) {
		if err := checkOID(oid); err != nil {
			return err
		}
		o, err := r.stored(oid)
		switch {
		case errors.Is(err, errMissing) && r.local == nil:
			absent[oid] = true
			continue
		case errors.Is(err, errMissing):
			err = missing(oid)
		case err == nil:
			give(o)
		}
		if err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(absent)), wantsPerRequest) {
		err := r.fetch(ctx, want{oids: chunk, depth: 1, filter: "tree:0"}, func(o rawObject) error {
			if !absent[o.oid] {
				return nil
			}
			delete(absent, o.oid)
			give(o)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for oid := range absent {
		return missing(oid)
	}
	return nil
}

// object returns one object: from disk, from the cache, or by a fetch.
func (r *Repo) object(ctx context.Context, oid OID, w want) (rawObject, error) {
	if o, err := r.stored(oid); err == nil || !errors.Is(err, errMissing) {
		return o, err
	}
	if r.local != nil {
		return rawObject{}, missing(oid)
	}
	var found rawObject
	err := r.fetch(ctx, w, func(o rawObject) error {
		r.cache.put(o)
		if o.oid == oid {
			found = o
		}
		return nil
	})
	if err == nil && found.oid == "" {
		err = missing(oid)
	}
	return found, err
}

// stored returns an object that is on this disk or in the cache, or errMissing. It
// is checked against its id: a disk may have changed it. What is read of a blob is
// hashed again where it counts, so the fast hash will do.
func (r *Repo) stored(oid OID) (rawObject, error) {
	if r.local == nil {
		if o, ok := r.cache.get(oid); ok {
			return o, nil
		}
		return rawObject{}, errMissing
	}
	kind, data, err := r.local.store.get(oid)
	if err != nil {
		return rawObject{}, err
	}
	if kind == objBlob && plainHash("blob", data) != oid || kind != objBlob && hashObject(kind, data) != oid {
		return rawObject{}, badObject("object "+string(oid)+" does not hash to its name", nil)
	}
	return rawObject{oid, kind, data}, nil
}

// Tree reads the whole tree of a commit, or of a tree object. Submodules are
// entries like any other and are never followed; nothing is checked out. A
// commit that is ambiguous is read nonetheless: its tree is not.
func (r *Repo) Tree(ctx context.Context, commitOrTree OID) (Tree, error) {
	if err := checkOID(commitOrTree); err != nil {
		return Tree{}, err
	}
	got := fetchedTrees{byID: map[OID]rawObject{}, limit: r.limits.Trees, memory: hold{of: &r.pool.memory, what: "memory"}}
	defer got.memory.close()
	t, err := r.flattenStored(commitOrTree, got.byID)
	if !errors.Is(err, errMissing) {
		if o, ok := r.cache.get(commitOrTree); ok && o.kind == objCommit {
			r.recent.add(commitOrTree) // its blobs may have left the cache
		}
		return t, err
	}
	if r.local != nil {
		return Tree{}, missing(commitOrTree)
	}
	w := want{oids: []OID{commitOrTree}, depth: 1}
	if r.speaksV2(ctx) { // version 0 can't be asked for single blobs later
		w.filter = "blob:none"
	}
	err = r.fetch(ctx, w, func(o rawObject) error {
		r.cache.put(o)
		return got.add(o)
	})
	if err != nil {
		return Tree{}, err
	}
	r.recent.add(commitOrTree)
	t, err = r.flattenStored(commitOrTree, got.byID)
	if errors.Is(err, errMissing) {
		err = missing(commitOrTree)
	}
	return t, err
}

// treeOverhead is in bytes: about what an object costs in a map beside its bytes.
const treeOverhead = 128

// fetchedTrees keeps what a server sends when it is asked for a tree: all of it,
// since a parent need not come before its children. Blobs are left out.
type fetchedTrees struct {
	byID        map[OID]rawObject
	size, limit int64
	memory      hold
}

func (t *fetchedTrees) add(o rawObject) error {
	if _, ok := t.byID[o.oid]; ok || o.kind == objBlob {
		return nil
	}
	if t.size += int64(len(o.data)) + treeOverhead; t.size > t.limit {
		return tooLarge("what the server sends for one tree", t.limit)
	}
	t.byID[o.oid] = o
	return t.memory.set(t.size)
}

// speaksV2 finds out, at the cost of one exchange, once.
func (r *Repo) speaksV2(ctx context.Context) bool {
	if ad := r.upload.Load(); ad != nil {
		return ad.v2
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	c, err := r.tr.dial(ctx, uploadPack)
	if err != nil {
		return false
	}
	defer c.finish(false)
	ad, err := r.uploadAdvert(ctx, c)
	return err == nil && ad.v2
}

// flattenStored flattens from what is stored, and from got.
func (r *Repo) flattenStored(oid OID, got map[OID]rawObject) (Tree, error) {
	read := func(oid OID) (rawObject, error) {
		if o, ok := got[oid]; ok {
			return o, nil
		}
		return r.stored(oid)
	}
	o, err := read(oid)
	if err != nil {
		return Tree{}, err
	}
	if o.kind == objCommit {
		c, err := ParseCommit(o.data)
		if c.Tree == "" {
			return Tree{}, err
		}
		oid = c.Tree
	}
	return flatten(oid, r.limits.Entries, func(oid OID) ([]byte, error) {
		o, err := read(oid)
		if err == nil && o.kind != objTree {
			err = wrongType(oid, "tree")
		}
		return o.data, err
	})
}

// flatten walks a tree, reading tree objects through read. What the tree unfolds
// to is measured first: a few objects can stand for any number of files.
func flatten(root OID, maxEntries int, read func(OID) ([]byte, error)) (Tree, error) {
	m := measurer{maxEntries: maxEntries, read: read, known: map[OID]measured{}}
	if _, err := m.measure(root, 0); err != nil {
		return Tree{}, err
	}
	t := Tree{OID: root, trees: make(map[OID]struct{}, len(m.known)), Entries: make([]Entry, 0, m.known[root].files)}
	var walk func(oid OID, prefix string)
	walk = func(oid OID, prefix string) {
		t.trees[oid] = struct{}{}
		for _, e := range m.known[oid].entries {
			e.Path = prefix + e.Path
			if e.Mode == ModeTree {
				walk(e.OID, e.Path+"/")
			} else {
				t.Entries = append(t.Entries, e)
			}
		}
	}
	walk(root, "")
	sortEntries(t.Entries)
	return t, nil
}

// Blob reads one blob. The bytes are the caller's to read, not to change.
func (r *Repo) Blob(ctx context.Context, oid OID) ([]byte, error) {
	var out []byte
	err := r.Blobs(ctx, []OID{oid}, func(_ OID, data []byte) error {
		out = data
		return nil
	})
	return out, err
}

// Blobs reads blobs and calls f once for each distinct id, in no order that
// counts. The bytes are f's to read, not to change. A blob over Limits.Object is
// an error (git.too_large). Blobs of a server are fetched together.
func (r *Repo) Blobs(ctx context.Context, oids []OID, f func(OID, []byte) error) error {
	oids = slices.Clone(oids)
	slices.Sort(oids)
	var absent []OID
	for _, oid := range slices.Compact(oids) {
		if err := checkOID(oid); err != nil {
			return err
		}
		o, err := r.stored(oid)
		if errors.Is(err, errMissing) {
			absent = append(absent, oid)
			continue
		}
		if err == nil {
			err = deliver(o, f)
		}
		if err != nil {
			return err
		}
	}
	if len(absent) == 0 {
		return nil
	}
	if r.local != nil {
		return missing(absent[0])
	}
	return r.fetchBlobs(ctx, absent, f)
}

func deliver(o rawObject, f func(OID, []byte) error) error {
	if o.kind != objBlob {
		return wrongType(o.oid, "blob")
	}
	return f(o.oid, o.data)
}

// fetchBlobs asks a version 2 server for exactly these blobs. A version 0 server
// gives objects by commit only, so commits that were read are fetched again, the last
// one first, until all of the blobs have come.
func (r *Repo) fetchBlobs(ctx context.Context, oids []OID, f func(OID, []byte) error) error {
	todo := map[OID]bool{}
	for _, o := range oids {
		todo[o] = true
	}
	var refused error // by f
	take := func(o rawObject) error {
		r.cache.put(o)
		if !todo[o.oid] {
			return nil
		}
		delete(todo, o.oid)
		refused = deliver(o, f)
		return refused
	}
	if r.speaksV2(ctx) {
		for chunk := range slices.Chunk(oids, wantsPerRequest) {
			if err := r.fetch(ctx, want{oids: chunk}, take); err != nil {
				return err
			}
		}
	} else {
		for _, commit := range r.recent.all() {
			before := len(todo)
			err := r.fetch(ctx, want{oids: []OID{commit}, depth: 1}, take)
			if len(todo) < before {
				r.recent.add(commit) // more of its blobs may be asked for next
			}
			// One that the server says is gone doesn't keep another one's blobs back.
			if err != nil && (refused != nil || CodeOf(err) != CodeObjectMissing) {
				return err
			}
			if len(todo) == 0 {
				break
			}
		}
	}
	for o := range todo {
		return missing(o)
	}
	return nil
}

// maxRecentCommits is two for each of the tasks of a repository that are driven at the
// same time, which are six by default (scheduler.Options). A blob that is nowhere costs as
// many fetches.
const maxRecentCommits = 12

// recentCommits are the commits that were read whole, the last one first.
type recentCommits struct {
	mu   sync.Mutex
	list []OID // replaced, never changed
}

func (c *recentCommits) add(commit OID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []OID{commit}
	for _, other := range c.list {
		if other != commit && len(list) < maxRecentCommits {
			list = append(list, other)
		}
	}
	c.list = list
}

func (c *recentCommits) all() []OID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}
