package git

import (
	"compress/zlib"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// objectCache keeps fetched objects, in memory or in a directory of loose
// objects. It holds objects only, never refs: what an id names can't change.
type objectCache struct {
	dir   string
	limit int64 // bytes of one object
	keep  int64 // bytes in memory

	mu   sync.Mutex
	mem  map[OID]rawObject
	size int64
}

func newObjectCache(dir string, l Limits) *objectCache {
	return &objectCache{dir: dir, limit: l.Object, keep: l.Cached, mem: map[OID]rawObject{}}
}

func (c *objectCache) get(oid OID) (rawObject, bool) {
	c.mu.Lock()
	o, ok := c.mem[oid]
	c.mu.Unlock()
	if ok || c.dir == "" {
		return o, ok
	}
	f, err := os.Open(c.path(oid))
	if err != nil {
		return rawObject{}, false
	}
	defer f.Close()
	kind, data, err := readLoose(f, c.limit)
	// A file that does not hash to its name is a miss: it will be fetched again.
	if err != nil || hashObject(kind, data) != oid {
		return rawObject{}, false
	}
	o = rawObject{oid, kind, data}
	c.remember(o)
	return o, true
}

func (c *objectCache) path(oid OID) string {
	return filepath.Join(c.dir, string(oid[:2]), string(oid[2:]))
}

// remember keeps an object in memory, dropping everything when it is full: the
// next commit's objects are mostly others anyway.
func (c *objectCache) remember(o rawObject) {
	if len(o.data) > maxCachedObject {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size+int64(len(o.data)) > c.keep {
		c.mem, c.size = map[OID]rawObject{}, 0
	}
	if _, ok := c.mem[o.oid]; !ok {
		c.mem[o.oid] = o
		c.size += int64(len(o.data))
	}
}

// put keeps an object. A directory that can't be written costs time, not safety.
func (c *objectCache) put(o rawObject) {
	c.remember(o)
	if c.dir == "" {
		return
	}
	if _, err := os.Stat(c.path(o.oid)); errors.Is(err, fs.ErrNotExist) {
		_ = c.write(o)
	}
}

func (c *objectCache) write(o rawObject) error {
	dir := filepath.Dir(c.path(o.oid))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "tmp-")
	if err != nil {
		return err
	}
	z, _ := zlib.NewWriterLevel(f, zlib.BestSpeed) // the level is valid
	_, err = fmt.Fprintf(z, "%s %d\x00%s", o.kind, len(o.data), o.data)
	err = errors.Join(err, z.Close(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path(o.oid))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}
